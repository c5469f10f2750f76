//! The books of one group: CPU times, totals, averages, triggers, and when each is due.

use super::averages::{Averages, period};
use super::states::{State, StateSet, TaskState};
use super::totals::{CpuTimes, Totals};
use super::trigger::{CHECKS_PER_WINDOW, Privilege, Trigger, TriggerSpec};
use super::{TickRate, TriggerId};
use isotherm_units::{Duration, Instant};

/// One group, descendants' tasks included.
#[derive(Clone, Debug)]
pub(super) struct Group {
    pub(super) cpus: Vec<CpuTimes>,
    pub(super) totals: Totals,
    pub(super) averages: Averages,
    /// When the averages are sampled next; `NEVER` while idle.
    averages_due: Instant,
    unprivileged: Vec<(TriggerId, State, Trigger)>,
    polling: Option<Polling>,
}

/// Privileged triggers and their own, faster clock.
#[derive(Clone, Debug)]
struct Polling {
    totals: Totals,
    triggers: Vec<(TriggerId, State, Trigger)>,
    states: StateSet,
    /// A tenth of the shortest window.
    step: Duration,
    /// Polled on without activity until here.
    until: Instant,
    next_check: Instant,
    /// When to run next; `NEVER` while there is no pressure.
    due: Instant,
}

impl Group {
    pub(super) fn new(now: Instant, nr_cpus: usize, rate: TickRate) -> Self {
        let cpus = vec![CpuTimes::new(now); nr_cpus];
        Self {
            totals: Totals::new(now, &cpus),
            averages: Averages::new(now, rate),
            averages_due: Instant::NEVER,
            unprivileged: Vec::new(),
            polling: None,
            cpus,
        }
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
        let Some(polling) = &mut self.polling else { return self.averages_due };
        if polling.due == Instant::NEVER && states.meets(polling.states) {
            polling.due = now + rate.tick();
        }
        self.due()
    }

    /// When [`handle_timeout`](Self::handle_timeout) has something to do.
    #[inline]
    pub(super) fn due(&self) -> Instant {
        let polling = self.polling.as_ref().map_or(Instant::NEVER, |polling| polling.due);
        self.averages_due.min(polling)
    }

    pub(super) fn handle_timeout(&mut self, now: Instant, rate: TickRate, events: &mut Vec<(Instant, TriggerId)>) {
        if now >= self.averages_due {
            let changed = self.totals.sample(now, &self.cpus, rate);
            if now >= self.averages.next() {
                check(&mut self.unprivileged, now, &self.totals, events);
                self.averages.update(now, self.totals.ns());
            }
            self.averages_due =
                if changed.has(State::NonIdle) { self.averages.next().max(now + rate.tick()) } else { Instant::NEVER };
        }
        if let Some(polling) = &mut self.polling
            && now >= polling.due
        {
            polling.run(now, &self.cpus, rate, events);
        }
    }

    /// Brings totals and averages up to date for a reader.
    pub(super) fn read(&mut self, now: Instant, rate: TickRate) {
        self.totals.sample(now, &self.cpus, rate);
        self.averages.update(now, self.totals.ns());
    }

    pub(super) fn add_trigger(
        &mut self,
        now: Instant,
        id: TriggerId,
        state: State,
        spec: TriggerSpec,
        privilege: Privilege,
        rate: TickRate,
    ) {
        match privilege {
            Privilege::Unprivileged => {
                self.totals.sample(now, &self.cpus, rate);
                let value = self.totals.ns()[state as usize];
                self.unprivileged.push((id, state, Trigger::new(spec, now, value)));
            }
            Privilege::Privileged => {
                let cpus = &self.cpus;
                let polling = self.polling.get_or_insert_with(|| Polling::new(now, cpus));
                polling.add(now, id, state, spec);
            }
        }
    }
}

impl Polling {
    fn new(now: Instant, cpus: &[CpuTimes]) -> Self {
        Self {
            totals: Totals::new(now, cpus),
            triggers: Vec::new(),
            states: StateSet::default(),
            step: Duration::MAX,
            until: Instant::START,
            next_check: Instant::NEVER,
            due: Instant::NEVER,
        }
    }

    fn add(&mut self, now: Instant, id: TriggerId, state: State, spec: TriggerSpec) {
        let value = self.totals.ns()[state as usize];
        self.triggers.push((id, state, Trigger::new(spec, now, value)));
        self.states = self.states.with(state, true);
        self.step = self.step.min(Duration::from_ns(spec.window.ns() / CHECKS_PER_WINDOW));
    }

    fn run(&mut self, now: Instant, cpus: &[CpuTimes], rate: TickRate, events: &mut Vec<(Instant, TriggerId)>) {
        let changed = self.totals.sample(now, cpus, rate);
        if changed.meets(self.states) {
            if now > self.until {
                // Pressure begins: windows start here.
                for (_, state, trigger) in &mut self.triggers {
                    trigger.reset(now, self.totals.ns()[*state as usize]);
                }
                self.next_check = now + self.step;
            }
            self.until = now + self.step.saturating_mul(CHECKS_PER_WINDOW);
        }
        if now > self.until {
            (self.next_check, self.due) = (Instant::NEVER, Instant::NEVER);
            return;
        }
        if now >= self.next_check {
            check(&mut self.triggers, now, &self.totals, events);
            self.next_check = now + self.step;
        }
        self.due = self.next_check.max(now + rate.tick());
    }
}

fn check(
    triggers: &mut [(TriggerId, State, Trigger)],
    now: Instant,
    totals: &Totals,
    events: &mut Vec<(Instant, TriggerId)>,
) {
    for (id, state, trigger) in triggers {
        if trigger.check(now, totals.ns()[*state as usize]) {
            events.push((now, *id));
        }
    }
}
