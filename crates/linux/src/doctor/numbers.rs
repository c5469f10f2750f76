//! Numbers about the machine.

use super::{Context, Finding, Part, State, said};
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
