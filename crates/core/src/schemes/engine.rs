//! The schemes of a monitor and their state from pass to pass.

use super::goal::GoalState;
use super::outcomes::Why;
use super::places::{Place, Places};
use super::quota::QuotaState;
use super::report::{SchemeReport, Stats, TriedRegion};
use super::scheme::Scheme;
use super::watermark::{WatermarkMetric, free_permil};
use crate::host::{HostError, MonitorHost, TargetId};
use crate::monitor::Attributes;
use isotherm_units::{Duration, Instant};

/// All schemes of a context, in order.
#[derive(Clone, Debug, Default)]
pub(crate) struct Engine {
    pub(super) slots: Vec<Slot>,
    pub(super) walk: Option<Walk>,
    /// When watermarks were checked last.
    last_look: Option<Instant>,
}

/// A scheme and its state.
#[derive(Clone, Debug)]
pub(super) struct Slot {
    pub(super) scheme: Scheme,
    pub(super) quota: QuotaState,
    pub(super) goals: Vec<GoalState>,
    /// Due from this tick on.
    pub(super) next_apply: u64,
    pub(super) is_active: bool,
    pub(super) free_permil: Option<u64>,
    /// Time for which watermarks have had it switched off.
    inactive: Duration,
    pub(super) stats: Stats,
    pub(super) last_pass: Why,
    pub(super) all_passes: Why,
    pub(super) places: Places,
    /// See [`Order::last_folio`](crate::host::Order::last_folio).
    pub(super) last_folio: Option<u64>,
}

/// Tried regions being collected: one pass of each scheme.
#[derive(Clone, Debug)]
pub(super) struct Walk {
    pub(super) is_done: Vec<bool>,
    pub(super) found: Vec<TriedRegion>,
}

impl Slot {
    fn new(scheme: Scheme) -> Self {
        Self {
            goals: goal_states(&scheme),
            scheme,
            quota: QuotaState::default(),
            next_apply: 0,
            is_active: true,
            free_permil: None,
            inactive: Duration::ZERO,
            stats: Stats::default(),
            last_pass: Why::default(),
            all_passes: Why::default(),
            places: Places::default(),
            last_folio: None,
        }
    }

    pub(super) fn arm(&mut self, tick: u64, attributes: &Attributes) {
        self.next_apply = tick + apply_ticks(&self.scheme, attributes);
    }

    /// Takes new values; counts and charges stay. Only a changed scheme is switched on again in spite of its watermarks, and checks them at
    /// the next tick; the kernel does that to all schemes.
    fn change(&mut self, scheme: &Scheme) {
        if self.scheme == *scheme {
            return;
        }
        if self.scheme.quotas.goals != scheme.quotas.goals {
            let mut goals = goal_states(scheme);
            let both = self.scheme.quotas.goals.iter().zip(&scheme.quotas.goals);
            for ((old, new), (before, after)) in both.zip(self.goals.iter().zip(&mut goals)) {
                after.stall_us = before.stall_us.filter(|_| old.metric == new.metric);
            }
            self.goals = goals;
        }
        if self.scheme.core_filters != scheme.core_filters || self.scheme.ops_filters != scheme.ops_filters {
            self.all_passes.core_filters.clear();
            self.all_passes.page_filter_bytes.clear();
        }
        self.scheme = scheme.clone();
        debug_assert_eq!(self.goals.len(), self.scheme.quotas.goals.len(), "each goal has its state");
        self.is_active = true;
    }
}

/// Ticks from one pass to the next; 0 is every tick.
fn apply_ticks(scheme: &Scheme, attributes: &Attributes) -> u64 {
    let interval = match scheme.apply_interval {
        Duration::ZERO => attributes.aggr_interval,
        interval => interval,
    };
    interval.ns() / attributes.sample_interval.ns().max(1)
}

fn goal_states(scheme: &Scheme) -> Vec<GoalState> {
    let state = |goal: &super::Goal| GoalState { current: goal.current_value, ..GoalState::default() };
    scheme.quotas.goals.iter().map(state).collect()
}

impl Engine {
    pub(crate) fn new(schemes: &[Scheme]) -> Self {
        Self { slots: schemes.iter().cloned().map(Slot::new).collect(), walk: None, last_look: None }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// Puts a new list in force. New schemes are matched with present ones by their place.
    pub(crate) fn commit(&mut self, schemes: &[Scheme], tick: u64, attributes: &Attributes) {
        self.slots.truncate(schemes.len());
        self.slots.iter_mut().zip(schemes).for_each(|(slot, scheme)| slot.change(scheme));
        for scheme in &schemes[self.slots.len()..] {
            let mut slot = Slot::new(scheme.clone());
            slot.arm(tick, attributes);
            self.slots.push(slot);
        }
        if let Some(walk) = &mut self.walk {
            walk.is_done.resize(schemes.len(), false);
        }
        debug_assert_eq!(self.slots.len(), schemes.len(), "schemes meet their slots by their place");
    }

    /// Sets all next passes, from `tick` on.
    pub(crate) fn arm(&mut self, tick: u64, attributes: &Attributes) {
        self.slots.iter_mut().for_each(|slot| slot.arm(tick, attributes));
    }

    /// No pass goes on in a target that is not there. The kernel keeps such a place over a restart, and then skips all.
    pub(crate) fn forget(&mut self, is_gone: impl Fn(TargetId) -> bool) {
        for quota in self.slots.iter_mut().map(|slot| &mut slot.quota) {
            quota.resume = quota.resume.filter(|(target, _)| !is_gone(*target));
        }
    }

    /// Whether a pass is to run at this tick: deactivated schemes that are due do not make one by themselves.
    pub(crate) fn is_due(&self, tick: u64) -> bool {
        self.slots.iter().any(|slot| slot.is_active && tick >= slot.next_apply)
    }

    /// The time until the next check of watermarks is charged to no scheme.
    pub(crate) fn stop_clock(&mut self) {
        self.last_look = None;
    }

    /// Checks all watermarks. `Some`: no scheme is at work, and the next check is after that time.
    pub(crate) fn wait(&mut self, now: Instant, host: &mut dyn MonitorHost) -> Result<Option<Duration>, HostError> {
        debug_assert!(self.last_look.is_none_or(|last| last <= now), "looks come one after the other");
        let passed = self.last_look.replace(now).map_or(Duration::ZERO, |last| now.since(last));
        let mut free = None;
        let mut shortest: Option<Duration> = None;
        for slot in &mut self.slots {
            let watermarks = &slot.scheme.watermarks;
            if !slot.is_active {
                slot.inactive += passed;
            }
            if watermarks.metric == WatermarkMetric::None {
                slot.is_active = true;
            } else {
                let free = match free {
                    Some(free) => free,
                    None => *free.insert(free_permil(host)?),
                };
                slot.free_permil = Some(free);
                slot.is_active = watermarks.is_active(free, slot.is_active);
            }
            let wait = if slot.is_active { Duration::ZERO } else { watermarks.interval };
            shortest = Some(shortest.map_or(wait, |shortest| shortest.min(wait)));
        }
        Ok(shortest.filter(|wait| *wait > Duration::ZERO))
    }

    /// Begins to collect tried regions; not while it is doing so already, and not without schemes.
    pub(crate) fn start_walk(&mut self) -> bool {
        let can_start = self.walk.is_none() && !self.slots.is_empty();
        if can_start {
            self.walk = Some(Walk { is_done: vec![false; self.slots.len()], found: Vec::new() });
        }
        can_start
    }

    /// Gives up collecting; returns whether it was under way.
    pub(crate) fn cancel_walk(&mut self) -> bool {
        self.walk.take().is_some()
    }

    /// Reports a value for a goal of `user-input`. `false`: there is no such goal.
    pub(crate) fn report_value(&mut self, scheme: usize, goal: usize, value: u64) -> bool {
        let Some(slot) = self.slots.get_mut(scheme) else { return false };
        let is_input = slot.scheme.quotas.goals.get(goal).is_some_and(|goal| goal.metric == super::Metric::UserInput);
        if is_input {
            debug_assert_eq!(slot.goals.len(), slot.scheme.quotas.goals.len(), "each goal has its state");
            slot.goals[goal].current = value;
        }
        is_input
    }

    /// Places of the regions that each scheme was shown.
    pub(crate) fn places(&self) -> impl Iterator<Item = Vec<Place>> + '_ {
        self.slots.iter().map(|slot| slot.places.all())
    }

    /// State of all schemes.
    pub(crate) fn reports(&self, smallest_region_bytes: u64) -> Vec<SchemeReport> {
        let report = |(index, slot): (usize, &Slot)| SchemeReport {
            index,
            action: slot.scheme.action,
            stats: slot.stats,
            is_active: slot.is_active,
            free_permil: slot.free_permil,
            inactive_ns: slot.inactive.ns(),
            effective_quota_bytes: slot.quota.is_set(&slot.scheme.quotas).then_some(slot.quota.esz),
            smallest_region_bytes,
            charged_bytes: slot.quota.charged,
            charged_ns: slot.quota.spent_ns,
            min_score: slot.quota.min_score,
            goal_values: slot.goals.iter().map(|goal| goal.current).collect(),
            last_pass: slot.last_pass.clone(),
            all_passes: slot.all_passes.clone(),
            places: Vec::new(),
        };
        self.slots.iter().enumerate().map(report).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// docs/spec/schemes.md#s15, example 47.
    #[test]
    fn apply_intervals_are_cut_to_whole_samples() {
        for (interval_us, ticks) in [(0, 20), (10_000, 2), (4_000, 0)] {
            let scheme = Scheme { apply_interval: Duration::from_us(interval_us), ..Scheme::default() };
            assert_eq!(apply_ticks(&scheme, &Attributes::default()), ticks, "example 47: {interval_us} us");
        }
    }
}
