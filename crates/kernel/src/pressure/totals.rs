//! Sums the times of CPUs to the totals of a group (docs/spec/pressure.md#s2).

use super::states::{CpuTasks, NR_REPORTED, NR_STATES, State, StateSet, TaskState};
use crate::tick::TickRate;
use isotherm_units::{Duration, Instant};

/// Tasks and times of one group on one CPU.
#[derive(Clone, Copy, Debug)]
pub struct CpuTimes {
    tasks: CpuTasks,
    states: StateSet,
    since: Instant,
    ns: [u64; NR_STATES],
}

impl CpuTimes {
    /// No task, from `now` on.
    pub fn new(now: Instant) -> Self {
        Self { tasks: CpuTasks::default(), states: StateSet::default(), since: now, ns: [0; NR_STATES] }
    }

    /// A task of the group on this CPU went from one state to another. Returns the states that hold from now on.
    #[inline]
    pub fn change(&mut self, now: Instant, from: TaskState, to: TaskState) -> StateSet {
        let span = now.since(self.since).ns();
        for state in self.states.iter() {
            self.ns[state] += span;
        }
        self.since = now;
        self.tasks.change(from, to);
        self.states = self.tasks.states();
        self.states
    }

    /// The task that runs went in and out of memory stalls: `ns` outside and inside up to `until`, when it was `inside` or not.
    pub(super) fn add_bout(&mut self, until: Instant, inside: bool, ns: [u64; 2]) {
        for (is_inside, ns) in [false, true].into_iter().zip(ns) {
            let task = |stalled| TaskState { memstall: stalled, ..TaskState::ON_CPU };
            self.tasks.change(task(self.tasks.is_running_stalled()), task(is_inside));
            self.tasks.states().iter().for_each(|state| self.ns[state] += ns);
        }
        if !inside {
            self.tasks.change(TaskState::ON_CPU.stalled(), TaskState::ON_CPU);
        }
        (self.states, self.since) = (self.tasks.states(), until);
    }

    /// Nanoseconds in each state, including the present state.
    #[inline]
    pub fn at(&self, now: Instant) -> [u64; NR_STATES] {
        let mut ns = self.ns;
        if self.states != StateSet::default() {
            let span = now.since(self.since).ns();
            for (state, ns) in STATES.into_iter().zip(&mut ns) {
                *ns += if self.states.has(state) { span } else { 0 };
            }
        }
        ns
    }
}

const STATES: [State; NR_STATES] = [
    State::IoSome,
    State::IoFull,
    State::MemorySome,
    State::MemoryFull,
    State::CpuSome,
    State::CpuFull,
    State::NonIdle,
];

/// Totals of a group: CPUs weighted by the ticks that each was busy since the last sample.
///
/// Kernels keep CPU times in 32 bits and take differences; with 64 bits a sample may be as late as it likes.
#[derive(Clone, Debug)]
pub struct Totals {
    /// CPU times at the last sample.
    seen: Vec<[u64; NR_STATES]>,
    total: [u64; NR_REPORTED],
}

impl Totals {
    /// All zero; counts from now on, on these CPUs.
    pub fn new(now: Instant, cpus: &[CpuTimes]) -> Self {
        Self { seen: cpus.iter().map(|cpu| cpu.at(now)).collect(), total: [0; NR_REPORTED] }
    }

    /// Takes a sample. Returns the states that some CPU was in since the last one. A CPU that was busy for less than a tick has no weight;
    /// if no CPU has any, the sample is lost, as in the kernel: do not sample more often than needed.
    pub fn sample(&mut self, now: Instant, cpus: &[CpuTimes], rate: TickRate) -> StateSet {
        let mut weighted = [0u128; NR_REPORTED];
        let mut weights = 0u128;
        let mut changed = StateSet::default();
        for (cpu, seen) in cpus.iter().zip(&mut self.seen) {
            let times = cpu.at(now);
            let mut grown = [0u64; NR_STATES];
            for (state, (time, before)) in STATES.into_iter().zip(times.into_iter().zip(*seen)) {
                grown[state as usize] = time - before;
                changed = changed.with(state, time != before);
            }
            *seen = times;
            let weight = u128::from(rate.whole_ticks(Duration::from_ns(grown[State::NonIdle as usize])));
            weights += weight;
            for (sum, grown) in weighted.iter_mut().zip(grown) {
                *sum += u128::from(grown) * weight;
            }
        }
        for (total, sum) in self.total.iter_mut().zip(weighted) {
            *total += u64::try_from(sum / weights.max(1)).expect("a weighted mean of 64-bit numbers");
        }
        changed
    }

    /// Nanoseconds per state, up to the last sample.
    pub const fn ns(&self) -> &[u64; NR_REPORTED] {
        &self.total
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(ms: u64) -> Instant {
        Instant::START + Duration::from_ms(ms)
    }
    fn rate() -> TickRate {
        TickRate::new(1000).unwrap()
    }

    #[test]
    fn p8_two_cpus() {
        let mut cpus = [CpuTimes::new(ms(0)), CpuTimes::new(ms(0))];
        let mut totals = Totals::new(ms(0), &cpus);
        // CPU 0: stalled for 1000 ms, then busy for another 1000. CPU 1: busy for 500 ms.
        let stalled = TaskState::ASLEEP.stalled();
        cpus[0].change(ms(0), TaskState::ASLEEP, stalled);
        cpus[0].change(ms(1000), stalled, TaskState::ON_CPU);
        cpus[0].change(ms(2000), TaskState::ON_CPU, TaskState::ASLEEP);
        cpus[1].change(ms(0), TaskState::ASLEEP, TaskState::ON_CPU);
        cpus[1].change(ms(500), TaskState::ON_CPU, TaskState::ASLEEP);
        let changed = totals.sample(ms(2001), &cpus, rate());
        assert!(changed.has(State::MemorySome) && changed.has(State::NonIdle) && !changed.has(State::IoSome));
        // 1000 * 2000 / 2500
        assert_eq!(totals.ns()[State::MemorySome as usize], 800_000_000);
        assert_eq!(totals.sample(ms(4002), &cpus, rate()), StateSet::default(), "idle since");
    }

    #[test]
    fn a_state_in_progress_is_included_and_one_cpu_counts_in_full() {
        let mut cpus = [CpuTimes::new(ms(0))];
        let mut totals = Totals::new(ms(0), &cpus);
        cpus[0].change(ms(10), TaskState::ASLEEP, TaskState::ASLEEP.stalled());
        totals.sample(ms(17), &cpus, rate());
        totals.sample(ms(20), &cpus, rate());
        assert_eq!(totals.ns()[State::MemoryFull as usize], 10_000_000);
    }

    #[test]
    fn less_than_a_tick_has_no_weight() {
        let mut cpus = [CpuTimes::new(ms(0))];
        let mut totals = Totals::new(ms(0), &cpus);
        cpus[0].change(ms(0), TaskState::ASLEEP, TaskState::ASLEEP.stalled());
        totals.sample(Instant::from_ns(999_999), &cpus, rate());
        assert_eq!(totals.ns()[State::MemorySome as usize], 0);
        totals.sample(Instant::from_ns(1_999_999), &cpus, rate());
        assert_eq!(totals.ns()[State::MemorySome as usize], 1_000_000, "the first 999 999 ns are lost");
    }
}
