//! Pressure of the groups that sections act on.

use super::meter::{Meter, share};
use super::reach::above;
use crate::control_loop::System;
use isotherm_units::{Duration, Instant, Ratio};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

/// Most groups whose pressure is read in a second. With more of them they take turns.
const READ_MAX: usize = 64;

/// Pressure of groups, by path.
#[derive(Debug, Default)]
pub(super) struct Groups {
    watched: BTreeMap<String, Watched>,
    /// The last one that was read.
    last: String,
}

#[derive(Debug, Default)]
pub(super) struct Watched {
    pub(super) meter: Meter,
    before: Option<Total>,
}

/// Total time of a stall, and whether it is the group's own: where the kernel has none it is the machine's.
#[derive(Clone, Copy, Debug)]
struct Total {
    at: Instant,
    stalled: Duration,
    is_own: bool,
}

impl Groups {
    /// Watches these. Those that stay keep what is known.
    pub(super) fn watch(&mut self, paths: BTreeSet<&String>) {
        self.watched.retain(|path, _| paths.contains(path));
        for path in paths {
            self.watched.entry(path.clone()).or_default();
        }
    }

    /// Drops what is known of all of them.
    pub(super) fn forget(&mut self) {
        self.watched.values_mut().for_each(|watched| *watched = Watched::default());
    }

    /// Reads the next ones. `machine`: total of the machine.
    pub(super) fn look(&mut self, limit: Ratio, now: Instant, machine: Duration, world: &mut dyn System) {
        let last = std::mem::take(&mut self.last);
        let later = self.watched.range::<str, _>((Bound::Excluded(last.as_str()), Bound::Unbounded));
        let earlier = self.watched.range::<str, _>((Bound::Unbounded, Bound::Included(last.as_str())));
        let next: Vec<String> = later.chain(earlier).take(READ_MAX).map(|(path, _)| path.clone()).collect();
        for path in &next {
            let own = world.full_stall_of(path);
            let total = Total { at: now, stalled: own.unwrap_or(machine), is_own: own.is_some() };
            if let Some(watched) = self.watched.get_mut(path) {
                watched.take(limit, total);
            }
        }
        self.last = next.into_iter().next_back().unwrap_or_default();
    }

    /// The watched group that a path is in; `None` if there is none.
    pub(super) fn of(&self, path: &str) -> Option<(&str, &Watched)> {
        let found = std::iter::once(path).chain(above(path)).find_map(|path| self.watched.get_key_value(path));
        found.map(|(path, watched)| (path.as_str(), watched))
    }

    pub(super) fn all(&self) -> impl Iterator<Item = (&String, &Watched)> {
        self.watched.iter()
    }
}

impl Watched {
    fn take(&mut self, limit: Ratio, total: Total) {
        let before = self.before.replace(total).filter(|before| before.is_own == total.is_own);
        if let Some(before) = before.filter(|before| before.at < total.at) {
            let share = share(before.stalled, total.stalled, total.at.since(before.at));
            self.meter.judge(limit, share, total.at);
        }
    }
}
