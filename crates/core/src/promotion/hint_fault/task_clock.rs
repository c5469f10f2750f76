//! When a thread scans its space: by its own CPU time, and one thread of a space at a time.
//!
//! Source: docs/spec/promotion.md#s4-2, Linux 7.2 `kernel/sched/fair.c`, `task_tick_numa` and `task_numa_work`.

use isotherm_units::{Duration, Instant};

/// A scan is followed by 32 times its CPU time without one: an overhead of 3 %.
const REST: u64 = 32;

/// The state that the threads of a space share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SpaceClock {
    /// The space is not scanned before this time.
    pub next_scan: Instant,
}

impl SpaceClock {
    /// Clock of a space made at `now`: short-lived processes are never scanned.
    pub fn new(now: Instant, scan_delay: Duration) -> Self {
        Self { next_scan: now + scan_delay }
    }
}

/// When a thread considers scanning next, in its own CPU time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TaskClock {
    stamp: Duration,
    /// The current scan period, in milliseconds of CPU time.
    pub period_ms: u64,
}

impl TaskClock {
    /// Clock of a new thread: its first period is the scan delay.
    pub fn new(scan_delay_ms: u64) -> Self {
        Self { stamp: Duration::ZERO, period_ms: scan_delay_ms }
    }

    /// Clock of a thread that was made by another thread of its space. It is past its first crossing from the start, so that its period
    /// stays the scan delay until a sequence has ended, however large the process is (`init_numa_balancing`).
    pub fn of_clone(scan_delay_ms: u64, tick: Duration) -> Self {
        Self { stamp: tick.saturating_mul(2), period_ms: scan_delay_ms }
    }

    /// Called at a tick of the thread, which has run for `runtime` in all. `true`: it is to scan before it goes on, if
    /// [`begin`](Self::begin) lets it. The first time its period becomes `start_ms`.
    pub fn tick(&mut self, runtime: Duration, start_ms: u64, now: Instant, space: &SpaceClock) -> bool {
        let period = Duration::from_ms(self.period_ms);
        if runtime <= self.stamp + period {
            return false;
        }
        if self.stamp == Duration::ZERO {
            self.period_ms = start_ms;
        }
        self.stamp += period;
        now >= space.next_scan
    }

    /// The thread begins a scan. `false`: another thread of its space was faster. The winner waits two ticks longer, so that it is not
    /// always the same.
    pub fn begin(&mut self, space: &mut SpaceClock, now: Instant, tick: Duration) -> bool {
        if now < space.next_scan {
            return false;
        }
        space.next_scan = now + Duration::from_ms(self.period_ms);
        self.stamp += tick.saturating_mul(2);
        true
    }

    /// The scan took this part of the thread's CPU time.
    pub fn worked(&mut self, used: Duration) {
        self.stamp += used.saturating_mul(REST);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TICK: Duration = Duration::from_ms(4);

    fn at(ms: u64) -> Instant {
        Instant::from_ns(ms * 1_000_000)
    }

    #[test]
    fn a_thread_scans_after_a_second_of_its_own_time() {
        let mut space = SpaceClock::new(at(0), Duration::from_secs(1));
        let mut clock = TaskClock::new(1000);
        let ran = Duration::from_ms;
        assert!(!clock.tick(ran(1000), 100, at(1000), &space), "not above");
        assert!(clock.tick(ran(1004), 100, at(1004), &space));
        assert_eq!((clock.stamp, clock.period_ms), (ran(1000), 100));
        assert!(clock.begin(&mut space, at(1004), TICK));
        clock.worked(Duration::from_ms(1));
        assert_eq!((clock.stamp, space.next_scan), (ran(1000 + 8 + 32), at(1104)));
        assert!(!clock.tick(ran(1140), 100, at(1140), &space));
        assert!(clock.tick(ran(1141), 100, at(1141), &space));
    }

    #[test]
    fn one_thread_of_a_space_scans() {
        let mut space = SpaceClock::new(at(0), Duration::from_secs(1));
        let mut clocks = [TaskClock::new(1000); 3];
        let due = clocks
            .iter_mut()
            .filter_map(|clock| clock.tick(Duration::from_ms(1004), 100, at(1004), &space).then_some(clock));
        let mut due: Vec<&mut TaskClock> = due.collect();
        let scanned = due.iter_mut().filter_map(|clock| clock.begin(&mut space, at(1004), TICK).then_some(())).count();
        assert_eq!((due.len(), scanned), (3, 1));
    }

    #[test]
    fn a_cloned_thread_keeps_the_scan_delay_as_its_period() {
        let mut space = SpaceClock::new(at(0), Duration::from_secs(1));
        let mut clock = TaskClock::of_clone(1000, TICK);
        assert!(!clock.tick(Duration::from_ms(1008), 100, at(5000), &space));
        assert!(clock.tick(Duration::from_ms(1009), 100, at(5000), &space));
        assert!(clock.begin(&mut space, at(5000), TICK));
        assert_eq!((clock.period_ms, space.next_scan), (1000, at(6000)), "not the 100 ms of a large process");
    }

    #[test]
    fn a_space_that_is_too_young_is_not_scanned() {
        let space = SpaceClock::new(at(500), Duration::from_secs(1));
        let mut clock = TaskClock::new(1000);
        assert!(!clock.tick(Duration::from_ms(1004), 100, at(1004), &space));
        assert_eq!(clock.stamp, Duration::from_ms(1000), "its own turn has passed all the same");
    }
}
