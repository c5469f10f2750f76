//! Numbers about the machine.

use super::{Context, Finding, Part, State, said};
use crate::cgroup::Hierarchy;
use crate::counters::pressure::{self, Resource};
use crate::counters::{buddyinfo, zoneinfo};

const PART: Part = Part::Numbers;

pub(super) fn pressure(context: &Context<'_>) -> Vec<Finding> {
    const NAME: &str = "pressure";
    vec![match pressure::of_system(context.root, Resource::Memory) {
        Ok(now) => {
            let some = now.some.avg10_bp;
            let words = format!("tasks waited for memory for {}.{:02} % of the last 10 s", some / 100, some % 100);
            Finding::new(PART, NAME, State::Works, words)
        }
        Err(error) => {
            Finding::new(PART, NAME, State::Missing, said(&error)).fix("boot with psi=1, with a kernel of CONFIG_PSI")
        }
    }]
}

pub(super) fn zones(context: &Context<'_>) -> Vec<Finding> {
    const NAME: &str = "zones and free blocks";
    vec![match (zoneinfo::read(context.root), buddyinfo::read(context.root)) {
        (Ok(_), Ok(blocks)) => Finding::new(PART, NAME, State::Works, format!("{} zones", blocks.len())),
        (Err(error), _) | (_, Err(error)) => Finding::new(PART, NAME, State::Missing, said(&error)),
    }]
}

pub(super) fn pressure_of_groups(context: &Context<'_>) -> Vec<Finding> {
    const NAME: &str = "pressure of groups";
    let finding = |state, words: String| Finding::new(PART, NAME, state, words);
    let hierarchy = match Hierarchy::unified(context.root) {
        Ok(hierarchy) => hierarchy,
        Err(error) => return vec![finding(State::Missing, said(&error))],
    };
    let groups = hierarchy.matching("/*").unwrap_or_default();
    if groups.is_empty() {
        return vec![finding(State::Missing, "there is no group whose pressure could be read".to_owned())];
    }
    let (mut nr_told, mut off, mut failed) = (0, Vec::new(), None);
    for group in &groups {
        // Since 6.1: 0 if pressure is switched off for the group.
        let switch = group.folder().join("cgroup.pressure");
        let is_off = context.root.value::<u32>(&switch).is_ok_and(|value| value == 0);
        match pressure::of_group(context.root, group.folder(), Resource::Memory) {
            _ if is_off => off.push(switch),
            Ok(_) => nr_told += 1,
            // The first error is enough: the others are the same.
            Err(error) => _ = failed.get_or_insert(error),
        }
    }
    let has_irq = groups.iter().any(|group| context.root.has(group.folder().join("irq.pressure")));
    let irq = if has_irq { "; time of interrupts too" } else { "" };
    let words = format!("{nr_told} of {} groups at the top tell theirs{irq}", groups.len());
    vec![match (off.first(), failed) {
        (Some(switch), _) => {
            let count = off.len();
            finding(
                if nr_told > 0 { State::Partly } else { State::Missing },
                format!("{words}; switched off for {count}"),
            )
            .fix(format!("as root: echo 1 > {}", switch.display()))
        }
        (None, Some(error)) => {
            let state = if nr_told > 0 { State::Partly } else { State::Missing };
            finding(state, format!("{words}; {}", said(&error)))
        }
        (None, None) => finding(State::Works, words),
    }]
}
