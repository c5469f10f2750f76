//! Decisions of the competitor: NUMA balancing, which makes pages inaccessible and learns from the faults (docs/spec/promotion.md#s4).
//!
//! The decisions are independent of any page table: when a thread scans ([`TaskClock`]) and how much ([`ScanBudget`]), how its
//! period adapts ([`ScanPeriod`]), and whether a page that faulted moves. It moves after two references in a row
//! ([`two_references()`], mode 1), or by the time since it was made inaccessible ([`HotFilter`], mode 2).

mod hot_threshold;
mod scan_budget;
mod scan_period;
mod task_clock;
mod two_references;

pub use hot_threshold::{Headroom, HotControls, HotDecision, HotFilter, latency_ms};
pub use scan_budget::ScanBudget;
pub use scan_period::{FaultStats, ScanPeriod};
pub use task_clock::{SpaceClock, TaskClock};
pub use two_references::{Faulter, LastFault, two_references};

use crate::OutOfRange;

/// `/proc/sys/kernel/numa_balancing`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Balancing {
    /// 0: no scans and no hint faults.
    #[default]
    Off,
    /// 1: pages follow the threads that use them.
    Normal,
    /// 2: hot pages of slow nodes are promoted; pages of the top tier are left alone.
    Tiering,
    /// 3: both of the above.
    Both,
}

impl Balancing {
    /// The mode from the number in the file.
    ///
    /// # Errors
    /// 4 and more. The kernel takes 4, and then scans with no mode at all; that is refused here.
    pub fn from_sysctl(value: u32) -> Result<Self, OutOfRange> {
        match value {
            0 => Ok(Self::Off),
            1 => Ok(Self::Normal),
            2 => Ok(Self::Tiering),
            3 => Ok(Self::Both),
            _ => Err(OutOfRange::new("numa_balancing", value, "0 (off), 1 (normal), 2 (tiering) or 3 (both)")),
        }
    }

    /// Hot pages of slow nodes are promoted by [`HotFilter`].
    pub fn is_tiering(self) -> bool {
        matches!(self, Self::Tiering | Self::Both)
    }

    /// Pages of the top tier are made inaccessible as well.
    pub fn marks_top_tier(self) -> bool {
        matches!(self, Self::Normal | Self::Both)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modes_are_the_numbers_of_the_file() {
        let modes: Vec<(bool, bool)> = (0..4)
            .map(|value| Balancing::from_sysctl(value).expect("allowed"))
            .map(|mode| (mode.is_tiering(), mode.marks_top_tier()))
            .collect();
        assert_eq!(modes, [(false, false), (false, true), (true, false), (true, true)]);
        let error = Balancing::from_sysctl(4).unwrap_err().to_string();
        assert_eq!(error, "`numa_balancing` is 4; allowed: 0 (off), 1 (normal), 2 (tiering) or 3 (both)");
    }
}
