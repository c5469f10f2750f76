//! How often a thread scans its space: bounds by the size of the process, adaptation by where its faults were.
//!
//! Source: docs/spec/promotion.md#s4-2, Linux 7.2 `kernel/sched/fair.c`, `task_scan_min`, `task_scan_max`, `update_task_scan_period`.

/// Pages of one scan: 256 MiB.
const SCAN_PAGES: u64 = 65_536;
/// No thread scans faster than 2560 MB a second.
const FLOOR_MS: u64 = 1000 / (2560 / 256);
const PERIOD_MIN_MS: u64 = 1000;
const PERIOD_MAX_MS: u64 = 60_000;
/// Parts of a period and of a ratio.
const SLOTS: u64 = 10;
/// Share of local, or of private, faults from which scans become rarer, in tenths.
const THRESHOLD: u64 = 7;

/// The period of one thread, in milliseconds, and its bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScanPeriod {
    /// Milliseconds from one scan of the thread to its next, in its own CPU time.
    pub period_ms: u64,
    /// Lower bound of the period, milliseconds.
    pub min_ms: u64,
    /// Upper bound of the period, milliseconds.
    pub max_ms: u64,
}

/// Hint faults of a thread since they were taken in, in base pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FaultStats {
    /// Faults on pages of the node where the thread ran.
    pub local: u64,
    /// Faults on pages of another node.
    pub remote: u64,
    /// Faults whose page could not be moved.
    pub failed: u64,
}

impl ScanPeriod {
    /// Period of a thread whose process has this number of resident pages: it starts with the least.
    pub fn start(resident_pages: u64) -> Self {
        let windows = resident_pages.div_ceil(SCAN_PAGES).max(1);
        let min_ms = FLOOR_MS.max(PERIOD_MIN_MS / windows);
        let max_ms = min_ms.max(PERIOD_MAX_MS / windows);
        Self { period_ms: min_ms, min_ms, max_ms }
    }

    /// Takes in the faults of a sequence. `true`: the space, too, is to wait a whole period for its next scan.
    ///
    /// Faults stay counted while the period doubles, so that after one failed move each sequence doubles it, until there is neither failure
    /// nor lack of faults. A process that has failed once never reaches that. In mode 2 no fault is ever counted as local or shared, and a
    /// period never shrinks.
    pub fn adapt(&mut self, stats: &mut FaultStats, private: u64, shared: u64) -> bool {
        if stats.local + shared == 0 || stats.failed > 0 {
            self.period_ms = self.max_ms.min(self.period_ms.saturating_mul(2));
            return true;
        }
        let slot = self.period_ms.div_ceil(SLOTS);
        let local_part = stats.local * SLOTS / (stats.local + stats.remote).max(1);
        let private_part = private * SLOTS / (private + shared).max(1);
        let longer = |part: u64| (part - THRESHOLD).max(1) * slot;
        let period = if private_part >= THRESHOLD {
            self.period_ms + longer(private_part)
        } else if local_part >= THRESHOLD {
            self.period_ms + longer(local_part)
        } else {
            self.period_ms.saturating_sub((THRESHOLD - local_part.max(private_part)) * slot)
        };
        self.period_ms = period.clamp(self.min_ms, self.max_ms);
        *stats = FaultStats::default();
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// docs/spec/promotion.md#s7, example 22.
    #[test]
    fn large_processes_scan_more_often() {
        for (mib, min_ms, max_ms) in [(8192, 100, 1875), (512, 500, 30_000), (100, 1000, 60_000), (0, 1000, 60_000)] {
            let period = ScanPeriod::start(mib * 256);
            assert_eq!(
                (period.period_ms, period.min_ms, period.max_ms),
                (min_ms, min_ms, max_ms),
                "example 22: {mib} MiB"
            );
        }
    }

    /// docs/spec/promotion.md#s7, example 23.
    #[test]
    fn periods_follow_faults() {
        // (local, remote, private, shared, period after 1000)
        let table = [
            (800, 200, 100, 900, 1100),
            (300, 700, 400, 600, 700),
            (500, 500, 900, 100, 1200),
            (0, 1000, 1000, 0, 2000),
        ];
        for (local, remote, private, shared, expected) in table {
            let mut period = ScanPeriod { period_ms: 1000, min_ms: 100, max_ms: 60_000 };
            let mut stats = FaultStats { local, remote, failed: 0 };
            let doubled = period.adapt(&mut stats, private, shared);
            assert_eq!(period.period_ms, expected, "example 23: {local}/{remote}/{private}/{shared}");
            assert_eq!((doubled, stats == FaultStats::default()), (expected == 2000, expected != 2000));
        }
    }

    /// docs/spec/promotion.md#s7, example 23: promotions count as remote and private.
    #[test]
    fn in_mode_2_periods_only_grow() {
        let mut period = ScanPeriod::start(8192 * 256);
        let mut stats = FaultStats::default();
        let mut sequence = || {
            stats.remote += 1000;
            period.adapt(&mut stats, 1000, 0);
            period.period_ms
        };
        let periods: Vec<u64> = (0..6).map(|_| sequence()).collect();
        assert_eq!(periods, [200, 400, 800, 1600, 1875, 1875], "example 23");
    }

    #[test]
    fn one_failed_move_doubles_for_ever() {
        let mut period = ScanPeriod { period_ms: 1000, min_ms: 100, max_ms: 60_000 };
        let mut stats = FaultStats { local: 100, remote: 900, failed: 1 };
        for expected in [2000, 4000, 8000] {
            period.adapt(&mut stats, 500, 500);
            stats.local += 100;
            assert_eq!(period.period_ms, expected);
        }
    }
}
