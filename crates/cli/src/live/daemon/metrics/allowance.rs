//! CPU time that readers of metrics may cost: who connects again and again waits, and takes nothing from the sections.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use isotherm_linux::thread_cpu_time;
use isotherm_units::Ratio;

/// CPU time that may be saved up, so that usual readers never wait.
const SAVED_MAX_NS: i64 = 100_000_000;
/// Longest pause between two connections.
const PAUSE_MAX: Duration = Duration::from_secs(1);

/// CPU time of the thread that serves, in nanoseconds.
pub(crate) type Served = Arc<AtomicU64>;

/// CPU time that is left.
#[derive(Debug)]
pub(super) struct Allowance {
    max: Ratio,
    served: Served,
    looked: Instant,
    left_ns: i64,
}

impl Allowance {
    /// `max` of one processor, for the thread that calls [`Allowance::pause`].
    pub(super) fn new(max: Ratio, served: Served) -> Self {
        Self { max, served, looked: Instant::now(), left_ns: SAVED_MAX_NS }
    }

    /// How long no further connection may be taken.
    pub(super) fn pause(&mut self) -> Option<Duration> {
        self.pause_at(Instant::now(), thread_cpu_time().ns())
    }

    fn pause_at(&mut self, now: Instant, spent_ns: u64) -> Option<Duration> {
        let spent = spent_ns.saturating_sub(self.served.swap(spent_ns, Ordering::Relaxed));
        let elapsed = now.saturating_duration_since(std::mem::replace(&mut self.looked, now)).as_nanos();
        let ppm = u128::from(self.max.ppm().max(1));
        let number = |ns: u128| i64::try_from(ns).unwrap_or(i64::MAX);
        let left = self.left_ns.saturating_add(number(elapsed * ppm / 1_000_000)).min(SAVED_MAX_NS);
        self.left_ns = left.saturating_sub(number(spent.into()));
        let owed = u128::from(self.left_ns.min(0).unsigned_abs());
        let pause = Duration::from_nanos(u64::try_from(owed * 1_000_000 / ppm).unwrap_or(u64::MAX));
        (owed > 0).then(|| pause.min(PAUSE_MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_connects_again_and_again_waits_and_usual_readers_do_not() {
        let served = Served::default();
        let mut allowance = Allowance::new(Ratio::from_percent(1), served.clone());
        let start = allowance.looked;
        let mut pause = |ms, spent_us: u64| allowance.pause_at(start + Duration::from_millis(ms), spent_us * 1000);
        assert_eq!(pause(0, 40_000), None, "saved up");
        assert_eq!(pause(0, 101_000), Some(Duration::from_millis(100)), "1 ms too much, at 1 %");
        assert_eq!(pause(100, 101_000), None);
        assert_eq!(pause(100, 900_000), Some(PAUSE_MAX), "nobody waits for ever");
        // A reader in 15 s.
        for scrape in 1..100 {
            assert_eq!(pause(200_000 + scrape * 15_000, 900_000 + scrape * 1000), None);
        }
        assert_eq!(served.load(Ordering::Relaxed), 999_000_000);
    }
}
