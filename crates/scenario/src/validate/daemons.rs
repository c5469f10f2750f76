//! Daemons over generations, and those that compact memory.

use super::{Checked, Refused, did_you_mean};
use crate::defrag::{self, DefragSpec};
use crate::keypath::KeyPath;
use crate::{GenerationsSpec, Scenario};
use isotherm_core::generations::covers;

pub(super) fn generations(scenario: &Scenario) -> Checked {
    let mut groups: Vec<String> = vec!["/".to_owned()];
    groups.extend(scenario.cgroups.iter().map(|group| group.path.clone()));
    groups.extend((0..scenario.workloads.len()).map(|index| crate::assemble::group_path(scenario, index)));
    let groups: Vec<&str> = groups.iter().map(String::as_str).collect();
    for (index, spec) in scenario.generations.iter().enumerate() {
        let name = &spec.name;
        let fail = |key: &str, message: String| {
            let place = KeyPath::from("generations").at(index).join(key);
            Refused::err(place, format!("generations `{name}`: {message}"))
        };
        if name.is_empty() {
            return fail("name", "its name is empty; give it one".to_owned());
        }
        if scenario.generations[..index].iter().any(|earlier| earlier.name == *name) {
            return fail("name", "two tools have this name; give each its own".to_owned());
        }
        if let Err(error) = spec.tool.validate() {
            return fail(error.key, error.to_string());
        }
        for (nth, target) in spec.tool.targets().iter().enumerate() {
            let key = format!("targets[{nth}]");
            let shares = |other: &&GenerationsSpec| {
                other.tool.targets().iter().any(|one| covers(one, target) || covers(target, one))
            };
            if let Some(other) = scenario.generations[..index].iter().find(shares) {
                let message = format!(
                    "`{target}` has `{}` already: two tools on a group age it twice, and four generations reach back half \
                     as far; give each its own groups (`reclaim` tells the working set, too)",
                    other.name
                );
                return fail(&key, message);
            }
            if !groups.iter().any(|group| covers(target, group)) {
                let hint = did_you_mean(target, &groups);
                return fail(&key, format!("there is no group `{target}`; groups: {}{hint}", groups.join(", ")));
            }
        }
    }
    Ok(())
}

pub(super) fn defrag(scenario: &Scenario) -> Checked {
    for (index, DefragSpec { name, node, .. }) in scenario.defrag.iter().enumerate() {
        let fail = |key: &str, message: &str| {
            Refused::err(KeyPath::from("defrag").at(index).key(key), format!("defrag `{name}`: {message}"))
        };
        let earlier = &scenario.defrag[..index];
        if name.is_empty() {
            return fail("name", "its name is empty; give it one");
        }
        if earlier.iter().any(|earlier| earlier.name == *name) {
            return fail("name", "two daemons have this name; give each its own");
        }
        if let Some(other) = earlier.iter().find(|other| other.node == *node) {
            let other = &other.name;
            return fail("node", &format!("node {node} has `{other}` already; two would undo each other's work"));
        }
    }
    match defrag::refusal(scenario) {
        Some((index, key, message)) => {
            let place = KeyPath::from("defrag").at(index);
            Refused::err(key.map_or(place.clone(), |key| place.join(key)), message)
        }
        None => Ok(()),
    }
}
