//! STAT: how much memory is in use, and for how long the rest was not (docs/spec/schemes.md#s12-3).

use super::physical::Physical;
use super::{PresetError, Setup};
use crate::monitor::Snapshot;
use isotherm_units::{Bytes, Duration, Instant, Ratio};
use serde::{Deserialize, Serialize};

/// Monitors all physical memory with intervals tuned to 4 % positive samples, and does nothing. It has no knobs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Stat {}

impl Stat {
    pub(super) fn setup(self) -> Result<Setup, PresetError> {
        let physical = Physical {
            preset: "stat",
            sample_interval: Duration::from_ms(5),
            aggr_interval: Duration::from_ms(100),
            min_nr_regions: 10,
            max_nr_regions: 1000,
            monitor_region_start: 0,
            monitor_region_end: 0,
            addr_unit: Bytes::new(1),
            tuned_to: Some(Ratio::from_percent(4)),
        };
        let mut setup = physical.setup(Vec::new())?;
        setup.config.attributes.ops_update_interval = Duration::from_secs(60);
        Ok(setup)
    }
}

/// The numbers that the kernel's STAT module reports.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct StatOutput {
    /// The current aggregation interval after tuning, microseconds.
    pub aggr_interval_us: u64,
    /// Bytes a second, taking each positive sample for one reading of its whole region.
    pub estimated_memory_bandwidth: u64,
    /// For how long memory was idle, by bytes: entry `p` is the time that `p` per cent are idle for at most. Negative: in use
    /// for that long.
    pub memory_idle_ms_percentiles: Vec<i64>,
}

impl StatOutput {
    /// Statistics of the end of an aggregation. The kernel takes regions in the middle of an aggregation, with partial counts: its
    /// bandwidth is too low on average, and its idle memory is random.
    pub fn of(snapshot: &Snapshot) -> Self {
        let aggr_us = snapshot.aggr_interval.ns() / 1000;
        let read: u128 =
            snapshot.regions.iter().map(|region| u128::from(region.range.len()) * u128::from(region.nr_accesses)).sum();
        let bandwidth = read * 1_000_000 / u128::from(aggr_us.max(1));
        Self {
            aggr_interval_us: aggr_us,
            estimated_memory_bandwidth: u64::try_from(bandwidth).unwrap_or(u64::MAX),
            memory_idle_ms_percentiles: idle_percentiles(snapshot, aggr_us),
        }
    }
}

fn idle_percentiles(snapshot: &Snapshot, aggr_us: u64) -> Vec<i64> {
    let mut idle: Vec<(i64, u64)> = snapshot
        .regions
        .iter()
        .map(|region| {
            let aggregations = i64::from(region.age) + 1;
            (if region.nr_accesses == 0 { aggregations } else { -aggregations }, region.range.len())
        })
        .collect();
    idle.sort_unstable();
    let total: u128 = idle.iter().map(|(_, bytes)| u128::from(*bytes)).sum();
    let mut percentiles = Vec::with_capacity(101);
    let mut bytes = 0u128;
    for (aggregations, size) in idle {
        bytes += u128::from(size);
        let reached = usize::try_from(bytes * 100 / total.max(1)).expect("up to 100");
        let ms = i128::from(aggregations) * i128::from(aggr_us) / 1000;
        let ms = i64::try_from(ms).unwrap_or(if ms < 0 { i64::MIN } else { i64::MAX });
        percentiles.resize(percentiles.len().max(reached + 1), ms);
    }
    percentiles
}

/// Keeps the output; makes a new one at most every five seconds.
#[derive(Clone, Debug, Default)]
pub struct StatTracker {
    last: Option<(Instant, StatOutput)>,
}

impl StatTracker {
    /// Reads a new snapshot; returns the output if it was renewed.
    pub fn update(&mut self, snapshot: &Snapshot) -> Option<&StatOutput> {
        let is_fresh = self.last.as_ref().is_some_and(|(at, _)| snapshot.at.since(*at) <= Duration::from_secs(5));
        if is_fresh {
            return None;
        }
        self.last = Some((snapshot.at, StatOutput::of(snapshot)));
        self.output()
    }

    /// The output for the last snapshot; `None` before the first.
    pub fn output(&self) -> Option<&StatOutput> {
        self.last.as_ref().map(|(_, output)| output)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::AddressRange;
    use crate::monitor::RegionRecord;

    const MIB: u64 = 1 << 20;

    fn snapshot(regions: &[(u64, u32, u32)]) -> Snapshot {
        let mut end = 0;
        let record = |&(size, nr_accesses, age): &(u64, u32, u32)| {
            end += size;
            RegionRecord { range: AddressRange::new(end - size, end), nr_accesses, age, ..RegionRecord::default() }
        };
        let regions = regions.iter().map(record).collect();
        Snapshot { regions, aggr_interval: Duration::from_ms(100), ..Snapshot::default() }
    }

    /// docs/spec/schemes.md#s15, example 43.
    #[test]
    fn bandwidth_counts_a_reading_of_the_region_for_each_sample() {
        let output = StatOutput::of(&snapshot(&[(MIB, 20, 0), (3 * MIB, 5, 0)]));
        assert_eq!(output.estimated_memory_bandwidth, 367_001_600, "example 43");
        assert_eq!(output.aggr_interval_us, 100_000);
    }

    /// docs/spec/schemes.md#s15, example 44.
    #[test]
    fn percentiles_of_idle_time_go_by_bytes() {
        let output = StatOutput::of(&snapshot(&[(60, 0, 9), (30, 5, 3), (10, 0, 0)]));
        let expected: Vec<i64> = (0..=100)
            .map(|percent| match percent {
                0..=30 => -400,
                31..=40 => 100,
                _ => 1000,
            })
            .collect();
        assert_eq!(output.memory_idle_ms_percentiles, expected, "example 44");
        assert!(StatOutput::of(&snapshot(&[])).memory_idle_ms_percentiles.is_empty());
    }

    #[test]
    fn output_is_made_anew_after_five_seconds() {
        let mut tracker = StatTracker::default();
        let mut updated = |seconds: u64| {
            let at = Instant::from_ns(seconds * 1_000_000_000);
            tracker.update(&Snapshot { at, ..snapshot(&[(10, 0, 0)]) }).is_some()
        };
        assert_eq!([0, 3, 5, 6, 11, 12].map(&mut updated), [true, false, false, true, false, true]);
        assert!(tracker.output().is_some());
    }
}
