//! Monitors as one of the kinds of daemons: whether their tables make sense.

use super::spec::MonitorSpec;
use crate::daemons::{DaemonSpec, Misplaced, Site};
use crate::event::EventSpec;
use crate::validate::{Checked, Refused, did_you_mean};
use crate::{Scenario, ScenarioError};
use isotherm_core::OutOfRange;
use isotherm_core::daemon::Kind;
use isotherm_core::monitor::MonitorError;
use isotherm_core::schemes::SchemeError;
use isotherm_document::KeyPath;
use std::path::Path;

/// Reads the files that monitors name.
pub(crate) fn files(scenario: &mut Scenario, folder: &Path) -> Checked {
    for (index, monitor) in scenario.monitors.iter_mut().enumerate() {
        if let Err(message) = monitor.resolve(folder) {
            let message = format!("monitor `{}`: {message}", monitor.name);
            return Err(Refused::new(KeyPath::from("monitors").at(index).key("damo"), message));
        }
    }
    Ok(())
}

impl DaemonSpec for MonitorSpec {
    const KIND: Kind = Kind::Monitor;
    const SECTION: &'static str = "monitors";
    const SEVERAL: &'static str = "monitors";

    fn tables(scenario: &Scenario) -> &[Self] {
        &scenario.monitors
    }

    fn name(&self) -> &str {
        &self.name
    }

    fn check(&self, _earlier: &[Self], scenario: &Scenario) -> Result<(), Misplaced> {
        let workloads: Vec<&str> = scenario.workloads.iter().map(|workload| workload.name.as_str()).collect();
        self.config.validate().map_err(|error| (place_of(&error), error.to_string()))?;
        targets(self, &workloads)?;
        goals(self, scenario)?;
        ranges(self)
    }

    fn attach(site: &mut Site<'_>) -> Result<(), ScenarioError> {
        if let Some(plan) = site.watched.take() {
            site.observers = plan.attach(site.builder, site.programs)?;
        }
        Ok(())
    }
}

/// A goal of `user-input` that no event updates would hold its quota at the minimum for ever.
fn goals(monitor: &MonitorSpec, scenario: &Scenario) -> Result<(), Misplaced> {
    for (nth, scheme) in monitor.config.schemes.iter().enumerate() {
        for (at, goal) in scheme.quotas.goals.iter().enumerate() {
            let feeds = |event: &EventSpec| {
                let given = event.goal_value.as_ref();
                given.is_some_and(|it| (it.monitor.as_str(), it.scheme, it.goal) == (monitor.name.as_str(), nth, at))
            };
            if goal.needs_feeding() && !scenario.events.iter().any(feeds) {
                let place = KeyPath::from("config").key("schemes").at(nth).key("quotas").key("goals").at(at);
                let message = format!(
                    "nobody tells this goal of `user-input` its value; give it `current-value`, or an event: [[events]] at = \"1s\", \
                     goal-value = {{ monitor = \"{}\", scheme = {nth}, goal = {at}, value = {} }}",
                    monitor.name, goal.target_value
                );
                return Err((place, message));
            }
        }
    }
    Ok(())
}

/// The key of a monitor that an error of its configuration is about.
fn place_of(error: &MonitorError) -> KeyPath {
    const ATTRIBUTES: [&str; 6] = [
        "sample-interval",
        "aggr-interval",
        "ops-update-interval",
        "min-nr-regions",
        "max-nr-regions",
        "intervals-goal",
    ];
    let config = KeyPath::from("config");
    match error {
        MonitorError::OutOfRange(wrong) if ATTRIBUTES.iter().any(|key| wrong.place.starts_with(key)) => {
            config.key("attributes").join(wrong.place.as_str())
        }
        MonitorError::OutOfRange(wrong) => config.join(wrong.place.as_str()),
        MonitorError::Scheme { index, source } => {
            let scheme = config.key("schemes").at(*index);
            match source {
                SchemeError::OutOfRange(OutOfRange { place, .. })
                | SchemeError::NotHere { place, .. }
                | SchemeError::UnknownMemcg { place, .. } => scheme.join(place.as_str()),
                _ => scheme,
            }
        }
        _ => config,
    }
}

fn targets(monitor: &MonitorSpec, workloads: &[&str]) -> Result<(), Misplaced> {
    let place = KeyPath::from("targets");
    let nth = |target: &str| {
        let index = monitor.targets.iter().rposition(|other| other == target);
        index.map_or(place.clone(), |index| place.clone().at(index))
    };
    let named = match monitor.named_targets() {
        Ok(named) => named.unwrap_or_default(),
        Err(target) => {
            let message = format!("`{target}` is no target; allowed: WORKLOAD, or WORKLOAD/NUMBER of a process");
            return Err((nth(target), message));
        }
    };
    if monitor.is_physical() && !named.is_empty() {
        return Err((place, "`paddr` watches physical memory; leave `targets` out".to_owned()));
    }
    for ((workload, _), target) in named.iter().zip(&monitor.targets) {
        if !workloads.contains(workload) {
            let hint = did_you_mean(workload, workloads);
            let known = workloads.join(", ");
            let message = format!("it watches `{target}`, which is no workload; workloads: {known}{hint}");
            return Err((nth(target), message));
        }
        if monitor.targets.iter().filter(|other| *other == target).count() > 1 {
            return Err((nth(target), format!("it watches `{target}` twice; name it once")));
        }
    }
    Ok(())
}

fn ranges(monitor: &MonitorSpec) -> Result<(), Misplaced> {
    let place = KeyPath::from("ranges");
    if !monitor.ranges.is_empty() && !monitor.is_physical() && monitor.targets.len() != 1 {
        return Err((place, "`ranges` are those of one target; name it in `targets`".to_owned()));
    }
    let spans: Vec<(u64, u64)> = monitor.ranges.iter().map(|range| (range.start, range.end)).collect();
    if let Some(index) = spans.iter().position(|(start, end)| start >= end) {
        let (start, end) = spans[index];
        let message = format!("the range {start:#x}-{end:#x} is empty; allowed: an end above the start");
        return Err((place.at(index), message));
    }
    if let Some(index) = spans.windows(2).position(|pair| pair[0].1 > pair[1].0) {
        let (start, _) = spans[index + 1];
        let message = format!("ranges overlap at {start:#x}; allowed: ascending ones that do not overlap");
        return Err((place.at(index + 1), message));
    }
    Ok(())
}
