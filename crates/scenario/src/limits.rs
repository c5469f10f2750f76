//! Right-sizing in a scenario file, and how it is attached to its machines.

use crate::daemons::Site;
use crate::event::LimitValue;
use crate::validate::{Checked, Refused, did_you_mean};
use crate::{Scenario, ScenarioError};
use isotherm_core::generations::covers;
use isotherm_core::limits::LimitsConfig;
use isotherm_core::presets::Preset;
use isotherm_document::KeyPath;

/// Whether all `[[limits]]` make sense.
pub(crate) fn check(scenario: &Scenario) -> Checked {
    for (index, config) in scenario.limits.iter().enumerate() {
        let target = &config.target;
        check_one(scenario, index, config).map_err(|(key, message)| {
            Refused::new(KeyPath::from("limits").at(index).join(key), format!("limits of `{target}`: {message}"))
        })?;
    }
    Ok(())
}

/// A key of a table, and its error.
fn check_one(scenario: &Scenario, index: usize, config: &LimitsConfig) -> Result<(), (&'static str, String)> {
    config.validate().map_err(|error| (error.key, error.to_string()))?;
    let target = &config.target;
    let mut groups: Vec<String> = scenario.cgroups.iter().map(|group| group.path.clone()).collect();
    groups.extend((0..scenario.workloads.len()).map(|index| crate::assemble::group_path(scenario, index)));
    groups.sort_unstable();
    groups.dedup();
    if !groups.contains(target) {
        let groups: Vec<&str> = groups.iter().map(String::as_str).collect();
        let hint = did_you_mean(target, &groups);
        return Err(("target", format!("there is no group `{target}`; groups: {}{hint}", groups.join(", "))));
    }
    let overlaps = |other: &&LimitsConfig| covers(&other.target, target) || covers(target, &other.target);
    if let Some(earlier) = scenario.limits[..index].iter().position(|other| overlaps(&other)) {
        let other = &scenario.limits[earlier].target;
        let message = format!(
            "`limits[{earlier}]` has `{other}` already; two on one memory would each blame the other's squeezes; remove one"
        );
        return Err(("target", message));
    }
    if let Some(place) = fixed_high(scenario, target) {
        let message = format!(
            "`{target}` has a fixed `high` in `{place}`; two would write one file: remove one (`max` may stay)"
        );
        return Err(("target", message));
    }
    let memory = scenario.machine.memory();
    if config.floor > memory {
        return Err(("floor", format!("`floor` is {}; allowed: up to the machine's memory of {memory}", config.floor)));
    }
    let sorts = |monitor: &crate::monitoring::MonitorSpec| matches!(monitor.preset(), Some(Preset::LruSort(_)));
    if config.sort_first && scenario.policy != "mglru" && !scenario.monitors.iter().any(sorts) {
        let message = format!(
            "nothing sorts the lists of `{}`: add a `[[monitors]]` with `preset = \"lru-sort\"`, or take `mglru`",
            scenario.policy
        );
        return Err(("sort-first", message));
    }
    Ok(())
}

/// Where `memory.high` of a group is set to a fixed value.
fn fixed_high(scenario: &Scenario, target: &str) -> Option<KeyPath> {
    let is_fixed = |value: &Option<LimitValue>| matches!(value, Some(LimitValue::Amount(_)));
    let of_group = scenario
        .cgroups
        .iter()
        .position(|group| group.path == target && is_fixed(&group.high))
        .map(|index| KeyPath::from("cgroups").at(index).key("high"));
    of_group.or_else(|| {
        let sets = |set: &crate::event::SetSpec| set.cgroup == target && set.high.is_some();
        let index = scenario.events.iter().position(|event| event.set.as_ref().is_some_and(sets))?;
        Some(KeyPath::from("events").at(index).key("set").key("high"))
    })
}

/// Attaches the tables whose groups exist to a machine.
pub(crate) fn attach(site: &mut Site<'_>) -> Result<(), ScenarioError> {
    if !site.has_limits {
        return Ok(());
    }
    for config in &site.scenario.limits {
        if site.groups.contains(&config.target.as_str()) {
            site.builder.limits(config.clone()).map_err(site.error)?;
        }
    }
    Ok(())
}
