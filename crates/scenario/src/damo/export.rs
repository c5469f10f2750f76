//! The monitors of a scenario as damo's `kdamonds`.

use super::context_of;
use crate::monitoring::{MonitorSpec, RangeSpec};
use crate::run::RunOptions;
use crate::variant::ready;
use crate::{Scenario, ScenarioError};
use isotherm_kernel::reclaim::AddedPolicies;
use isotherm_trace::region::kdamonds::{Kdamond, Kdamonds, Target};

/// An exported file, and the values that its user has to fill in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exported {
    /// A kernel thread with one context for each monitor.
    pub kdamonds: Kdamonds,
    /// Sentences: facts about the target machine that a simulation cannot know.
    pub notes: Vec<String>,
}

/// The monitors of `variant` (default: the first), or only `monitor`.
///
/// # Errors
/// No such variant or monitor, a file that cannot be taken over, or a value that damo cannot express, with its place.
pub fn export(
    scenario: &Scenario,
    options: &RunOptions,
    variant: Option<&str>,
    monitor: Option<&str>,
) -> Result<Exported, ScenarioError> {
    let meaning = |message: String| ScenarioError::Meaning { place: options.place.clone(), message };
    let variants = ready(scenario, &options.place, &options.base_dir, &AddedPolicies::default())?;
    let found = match variant {
        None => variants.first(),
        Some(name) => variants.iter().find(|variant| variant.name == name),
    };
    let Some(found) = found else {
        let names: Vec<&str> = variants.iter().map(|variant| variant.name.as_str()).collect();
        let asked = variant.unwrap_or_default();
        return Err(meaning(format!("there is no variant `{asked}`; variants: {}", names.join(", "))));
    };
    let specs = &found.scenario.monitors;
    let meant: Vec<&MonitorSpec> =
        specs.iter().filter(|spec| monitor.is_none_or(|wanted| wanted == spec.name)).collect();
    if meant.is_empty() {
        let names: Vec<&str> = specs.iter().map(|spec| spec.name.as_str()).collect();
        let names = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
        let asked = monitor.map_or_else(|| "no monitor".to_owned(), |name| format!("no monitor `{name}`"));
        return Err(meaning(format!("there is {asked} in variant `{}`; monitors: {names}", found.name)));
    }
    let mut exported = Exported { kdamonds: Kdamonds::default(), notes: Vec::new() };
    for spec in meant {
        let kdamond = kdamond_of(spec, &found.scenario, &mut exported.notes)?;
        exported.kdamonds.kdamonds.push(kdamond);
    }
    Ok(exported)
}

fn kdamond_of(spec: &MonitorSpec, scenario: &Scenario, notes: &mut Vec<String>) -> Result<Kdamond, ScenarioError> {
    let name = &spec.name;
    let mut ranges = spec.ranges.clone();
    if spec.is_physical() && ranges.is_empty() {
        // A context of physical memory without regions watches nothing.
        let bytes: u64 = scenario.machine.nodes.iter().map(|node| node.memory.get()).sum();
        ranges.push(RangeSpec { start: 0, end: bytes / spec.config.addr_unit.get().max(1) });
        notes.push(format!(
            "monitor `{name}`: `regions` are all memory of the simulated machine; put those of yours there"
        ));
    }
    let mut context = context_of(&spec.config, &ranges)
        .map_err(|error| ScenarioError::Monitor { monitor: name.clone(), message: format!("as damo's: {error}") })?;
    if !spec.is_physical() {
        let workloads = || scenario.workloads.iter().map(|workload| workload.name.clone());
        let watched: Vec<String> = if spec.targets.is_empty() { workloads().collect() } else { spec.targets.clone() };
        context.targets.resize(watched.len().max(1), Target::default());
        notes.push(format!("monitor `{name}`: fill in `pid` of its targets, which are {}", watched.join(", ")));
    }
    Ok(Kdamond { refresh_ns: 0, contexts: vec![context] })
}
