//! The accounting of one group: CPU times, totals, averages, and when they are due.

use super::TickRate;
use super::averages::{Averages, period};
use super::states::{State, TaskState};
use super::totals::{CpuTimes, Totals};
use isotherm_units::Instant;

/// One group, descendants' tasks included.
#[derive(Clone, Debug)]
pub(super) struct Group {
    pub(super) cpus: Vec<CpuTimes>,
    pub(super) totals: Totals,
    pub(super) averages: Averages,
    /// When the averages are sampled next; `NEVER` while idle.
    averages_due: Instant,
}

impl Group {
    pub(super) fn new(now: Instant, nr_cpus: usize, rate: TickRate) -> Self {
        let cpus = vec![CpuTimes::new(now); nr_cpus];
        Self { totals: Totals::new(now, &cpus), averages: Averages::new(now, rate), averages_due: Instant::NEVER, cpus }
    }

    /// Returns when the group is due.
    #[inline]
    pub(super) fn task_change(
        &mut self,
        now: Instant,
        cpu: usize,
        from: TaskState,
        to: TaskState,
        rate: TickRate,
    ) -> Instant {
        let states = self.cpus[cpu].change(now, from, to);
        if self.averages_due == Instant::NEVER && states.has(State::NonIdle) {
            self.averages_due = now + period(rate);
        }
        self.averages_due
    }

    /// Next time at which [`handle_timeout`](Self::handle_timeout) has work.
    #[inline]
    pub(super) const fn due(&self) -> Instant {
        self.averages_due
    }

    pub(super) fn handle_timeout(&mut self, now: Instant, rate: TickRate) {
        if now < self.averages_due {
            return;
        }
        let changed = self.totals.sample(now, &self.cpus, rate);
        if now >= self.averages.next() {
            self.averages.update(now, self.totals.ns());
        }
        self.averages_due =
            if changed.has(State::NonIdle) { self.averages.next().max(now + rate.tick()) } else { Instant::NEVER };
    }

    /// Brings totals and averages up to date for a reader.
    pub(super) fn read(&mut self, now: Instant, rate: TickRate) {
        self.totals.sample(now, &self.cpus, rate);
        self.averages.update(now, self.totals.ns());
    }
}
