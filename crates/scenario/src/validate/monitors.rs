//! Kernel threads that monitor memory.

use super::{Checked, Refused, did_you_mean};
use crate::Scenario;
use crate::keypath::KeyPath;
use crate::monitoring::MonitorSpec;
use isotherm_core::monitor::MonitorError;
use isotherm_core::schemes::SchemeError;
use std::path::Path;

/// Reads the files that monitors name.
pub(super) fn files(scenario: &mut Scenario, folder: &Path) -> Checked {
    for (index, monitor) in scenario.monitors.iter_mut().enumerate() {
        if let Err(message) = monitor.resolve(folder) {
            let message = format!("monitor `{}`: {message}", monitor.name);
            return Refused::err(KeyPath::from("monitors").at(index).key("damo"), message);
        }
    }
    Ok(())
}

pub(super) fn monitors(scenario: &Scenario) -> Checked {
    let workloads: Vec<&str> = scenario.workloads.iter().map(|workload| workload.name.as_str()).collect();
    for (index, monitor) in scenario.monitors.iter().enumerate() {
        let (name, place) = (&monitor.name, KeyPath::from("monitors").at(index));
        let fail = |path: &KeyPath, message: String| {
            Refused::err(place.clone().join(path.clone()), format!("monitor `{name}`: {message}"))
        };
        if name.is_empty() {
            return fail(&"name".into(), "its name is empty; give it one".to_owned());
        }
        if scenario.monitors[..index].iter().any(|earlier| earlier.name == *name) {
            return fail(&"name".into(), "two monitors have this name; give each its own".to_owned());
        }
        if let Err(error) = monitor.config.validate() {
            return fail(&place_of(&error), error.to_string());
        }
        targets(monitor, &workloads).and_then(|()| ranges(monitor)).or_else(|(path, message)| fail(&path, message))?;
    }
    Ok(())
}

/// The key of a monitor that an error of its configuration is of.
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
        MonitorError::OutOfRange { what, .. } if ATTRIBUTES.iter().any(|key| what.starts_with(key)) => {
            config.key("attributes").join(*what)
        }
        MonitorError::OutOfRange { what, .. } => config.join(*what),
        MonitorError::Scheme { index, source } => {
            let scheme = config.key("schemes").at(*index);
            match source {
                SchemeError::OutOfRange { place, .. }
                | SchemeError::NotHere { place, .. }
                | SchemeError::UnknownMemcg { place, .. } => scheme.join(place.as_str()),
                _ => scheme,
            }
        }
        _ => config,
    }
}

type Misplaced = (KeyPath, String);

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
