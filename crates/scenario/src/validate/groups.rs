//! Control groups, the workloads in them, and their limits.

use super::{Checked, Refused};
use crate::Scenario;
use crate::assemble::group_path;
use crate::event::LimitValue;
use isotherm_document::KeyPath;
use isotherm_units::{Amount, Bytes, PAGE_BYTES, Ratio};

/// Least `memory.max` that a program can live with: a fault may need a handful of pages at once.
const LIMIT_MIN: Bytes = Bytes::new(32 * PAGE_BYTES);

pub(super) fn cgroups(scenario: &Scenario) -> Checked {
    let mut known = vec!["/"];
    for (index, group) in scenario.cgroups.iter().enumerate() {
        let path = &group.path;
        let fail = |message: String| Refused::err(KeyPath::from("cgroups").at(index).key("path"), message);
        let parent = path.rsplit_once('/').map(|(parent, _)| if parent.is_empty() { "/" } else { parent });
        let well_formed = path.len() > 1 && !path.ends_with('/') && !path.contains("//");
        if !well_formed || !parent.is_some_and(|parent| known.contains(&parent)) {
            return fail(format!("cgroup path `{path}` must be absolute, with its parent listed before it"));
        }
        if known.contains(&path.as_str()) {
            return fail(format!("cgroup `{path}` is listed twice; list it once"));
        }
        known.push(path);
    }
    Ok(())
}

pub(super) fn workloads(scenario: &Scenario) -> Checked {
    let groups: Vec<&str> = std::iter::once("/").chain(scenario.cgroups.iter().map(|group| &*group.path)).collect();
    for (index, workload) in scenario.workloads.iter().enumerate() {
        let name = &workload.name;
        let fail = |key: &str, message: String| Refused::err(KeyPath::from("workloads").at(index).key(key), message);
        // A number behind the last `/` would name a process of another workload.
        let part_ok = |part: &str| !part.is_empty() && part.parse::<usize>().is_err();
        let parts_ok =
            name.split('/').enumerate().all(|(nth, part)| if nth == 0 { !part.is_empty() } else { part_ok(part) });
        if !parts_ok || name == "system" {
            let allowed = "not empty, not `system`, and words (no numbers) behind each `/`";
            return fail("name", format!("`{name}` cannot name a workload; allowed: {allowed}"));
        }
        if scenario.workloads[..index].iter().any(|earlier| earlier.name == *name) {
            return fail("name", format!("two workloads are called `{name}`; give each its own name"));
        }
        if !(1..=1024).contains(&workload.copies) {
            let message = format!("workload `{name}`: `copies` is {}; allowed: 1 to 1024", workload.copies);
            return fail("copies", message);
        }
        let path = group_path(scenario, index);
        let is_own = |other: usize| scenario.workloads[other].cgroup.is_none();
        let shares = |earlier: usize| is_own(earlier) && group_path(scenario, earlier) == path;
        if let Some(earlier) = (0..index).find(|&earlier| is_own(index) && shares(earlier)) {
            let message = format!(
                "workloads `{}` and `{name}` would both get the cgroup `{path}`; rename one, or give it a `cgroup`",
                scenario.workloads[earlier].name
            );
            return fail("name", message);
        }
        if let Some(cgroup) = workload.cgroup.as_deref().filter(|cgroup| !groups.contains(cgroup)) {
            let known = groups.join(", ");
            return fail("cgroup", format!("workload `{name}` names the cgroup `{cgroup}`; known: {known}"));
        }
    }
    Ok(())
}

/// Most share of a peak: more is a mistake, as nothing above 100 % is ever reached.
const SHARE_MAX: Ratio = Ratio::from_percent(1000);

pub(super) fn limits(scenario: &Scenario) -> Checked {
    let memory = scenario.machine.memory();
    let check = |path: KeyPath, what: &str, value: LimitValue, is_max: bool| {
        let message = match value {
            LimitValue::Amount(Amount::Absolute(size)) if size > memory => {
                format!("{what} is {size}; allowed: up to the machine's memory of {memory}")
            }
            LimitValue::Amount(Amount::Absolute(size)) if is_max && size < LIMIT_MIN => {
                format!("{what} is {size}; allowed: {LIMIT_MIN} to {memory}")
            }
            LimitValue::Amount(Amount::Share(share)) if is_max && share.ppm() == 0 => {
                format!("{what} is 0%; allowed: more than 0%")
            }
            LimitValue::Amount(Amount::Share(share)) if share > SHARE_MAX => {
                format!("{what} is {share} of the peak; allowed: up to {SHARE_MAX}")
            }
            _ => return Ok(()),
        };
        Refused::err(path, message)
    };
    if let Some(limit) = scenario.limit {
        check("limit".into(), "`limit`", LimitValue::Amount(limit), true)?;
    }
    for (index, group) in scenario.cgroups.iter().enumerate() {
        let knobs = [("max", group.max), ("high", group.high), ("low", group.low), ("min", group.min)];
        for (key, value) in knobs.into_iter().filter_map(|(key, value)| Some((key, value?))) {
            let what = format!("`{key}` of cgroup `{}`", group.path);
            check(KeyPath::from("cgroups").at(index).key(key), &what, value, key == "max")?;
        }
    }
    for (index, event) in scenario.events.iter().enumerate() {
        let Some(set) = &event.set else { continue };
        let place = KeyPath::from("events").at(index).key("set");
        let knobs =
            [("max", set.max), ("high", set.high), ("low", set.low), ("min", set.min), ("swap-max", set.swap_max)];
        for (key, value) in knobs.into_iter().filter_map(|(key, value)| Some((key, value?))) {
            let what = format!("an event's `{key}` of cgroup `{}`", set.cgroup);
            check(place.clone().key(key), &what, value, key == "max")?;
        }
    }
    Ok(())
}
