//! The common part of presets on physical memory.

use super::{PresetError, Setup};
use crate::OutOfRange;
use crate::host::UnitRange;
use crate::monitor::{Attributes, IntervalsGoal, MonitorConfig, Operations};
use crate::schemes::{AccessPattern, Age, Bounds, Frequency, Scheme};
use isotherm_units::{Bytes, Duration, Ratio};

/// The common knobs.
#[derive(Clone, Copy, Debug)]
pub(super) struct Physical {
    pub(super) preset: &'static str,
    pub(super) sample_interval: Duration,
    pub(super) aggr_interval: Duration,
    pub(super) min_nr_regions: u32,
    pub(super) max_nr_regions: u32,
    pub(super) monitor_region_start: u64,
    pub(super) monitor_region_end: u64,
    pub(super) addr_unit: Bytes,
    /// The share of positive samples that intervals are tuned to.
    pub(super) tuned_to: Option<Ratio>,
}

impl Physical {
    /// Tuned intervals start from the kernel's defaults; configured intervals have no effect.
    pub(super) fn attributes(&self) -> Attributes {
        let default = Attributes::default();
        let is_tuned = self.tuned_to.is_some();
        Attributes {
            sample_interval: if is_tuned { default.sample_interval } else { self.sample_interval },
            aggr_interval: if is_tuned { default.aggr_interval } else { self.aggr_interval },
            // Physical memory has no mappings to follow.
            ops_update_interval: Duration::ZERO,
            min_nr_regions: self.min_nr_regions,
            max_nr_regions: self.max_nr_regions,
            intervals_goal: self.tuned_to.map(|access| IntervalsGoal { access, ..IntervalsGoal::default() }),
        }
    }

    pub(super) fn setup(&self, schemes: Vec<Scheme>) -> Result<Setup, PresetError> {
        let (start, end) = (self.monitor_region_start, self.monitor_region_end);
        let range = match (start, end) {
            (0, 0) => None,
            _ if start < end => Some(UnitRange::new(start, end)),
            _ => {
                let allowed = format!("above monitor-region-start ({start}), or both 0 for all memory");
                return Err(self.refuse("monitor-region-end", end, allowed));
            }
        };
        let config = MonitorConfig {
            operations: Operations::Paddr,
            attributes: self.attributes(),
            addr_unit: self.addr_unit,
            schemes,
            ..MonitorConfig::default()
        };
        Ok(Setup { config, range })
    }

    pub(super) fn refuse(
        &self,
        key: &'static str,
        got: impl std::fmt::Display,
        allowed: impl Into<String>,
    ) -> PresetError {
        PresetError::OutOfRange { preset: self.preset, source: OutOfRange::new(key, got, allowed) }
    }
}

/// Pages that are used at least that often.
pub(super) fn hot(share: Ratio) -> AccessPattern {
    AccessPattern { nr_accesses: Bounds::from(Frequency::Share(share)), ..of_any_size() }
}

/// Pages that were not used for that long.
pub(super) fn cold(min_age: Duration) -> AccessPattern {
    AccessPattern {
        nr_accesses: Bounds::new(Frequency::Samples(0), Frequency::Samples(0)),
        age: Bounds::from(Age::Time(min_age)),
        ..of_any_size()
    }
}

fn of_any_size() -> AccessPattern {
    AccessPattern { size: Bounds::from(Bytes::from_kib(4)), ..AccessPattern::default() }
}

/// A limit in time; 0 means none.
pub(super) fn limit(time: Duration) -> Option<Duration> {
    Some(time).filter(|time| *time != Duration::ZERO)
}
