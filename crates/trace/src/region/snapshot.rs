//! Results of a monitor for one aggregation of one target.

use serde::{Deserialize, Serialize};

/// Attribute probes a region can carry hits of. Source: `PROBES_MAX` of DAMON.
pub const PROBES_MAX: usize = 4;

/// A range of addresses of about equal heat.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Region {
    /// First address, in units of [`super::ContextMeta::address_unit_bytes`].
    pub start: u64,
    /// Address after the last, in the same units; always above `start`.
    pub end: u64,
    /// Number of the aggregation's samples that found it accessed: see [`Intervals::max_nr_accesses`].
    pub nr_accesses: u32,
    /// Number of aggregations for which range and heat have stayed about the same; `None`: not recorded (kernels before
    /// 5.16).
    pub age: Option<u32>,
    /// Page-table level of the last check: 0 for pages, 1 for tables of pages, and so on.
    pub level: u8,
    /// Number of samples with a hit, for each probe of [`super::ContextMeta::probes`].
    pub probe_hits: [u32; PROBES_MAX],
    /// Bytes that passed the scheme's filters; 0 without a scheme.
    pub filter_passed_bytes: u64,
}

impl Region {
    /// Length in units of the context's addresses: `end - start`.
    pub fn len(&self) -> u64 {
        self.end.saturating_sub(self.start)
    }
    /// Whether the region is empty, which no region of a record is.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Intervals of the monitor at the time of one snapshot. Auto-tuning changes them while it runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Intervals {
    /// Nanoseconds from one check of a region to the next; `None`: not in the record.
    pub sample_ns: Option<u64>,
    /// Nanoseconds from one snapshot to the next; `None`: not in the record.
    pub aggregation_ns: Option<u64>,
    /// Nanoseconds from one read of the target's mappings to the next; `None`: not in the record.
    pub update_ns: Option<u64>,
}

impl Intervals {
    /// Intervals with all three known, nanoseconds.
    pub const fn new(sample_ns: u64, aggregation_ns: u64, update_ns: u64) -> Self {
        Self { sample_ns: Some(sample_ns), aggregation_ns: Some(aggregation_ns), update_ns: Some(update_ns) }
    }
    /// Largest [`Region::nr_accesses`] there can be: samples in an aggregation. `None`: an interval is unknown, so a count
    /// cannot be converted to a frequency.
    pub fn max_nr_accesses(&self) -> Option<u64> {
        Some((self.aggregation_ns? / self.sample_ns?.max(1)).max(1))
    }
}

/// Statistics of a scheme up to a snapshot, counted since its creation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SchemeStats {
    /// Number of regions that the action was tried on.
    pub nr_tried: u64,
    pub tried_bytes: u64,
    /// Number of regions that were changed at least partly.
    pub nr_applied: u64,
    /// Bytes on which the action succeeded.
    pub applied_bytes: u64,
    /// Bytes that passed the filters of the operations set.
    pub filter_passed_bytes: u64,
    /// Number of quota windows in which the quota ran out.
    pub nr_quota_exceeded: u64,
    /// Number of snapshots that the scheme has seen.
    pub nr_snapshots: u64,
    /// Number of snapshots after which it stops; 0: never.
    pub max_nr_snapshots: u64,
}

/// The regions of one target at the end of one aggregation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Snapshot {
    /// Number in the file, from 0; set by readers, ignored by writers.
    pub number: u64,
    /// Index of the target in [`super::RecordMeta::targets`].
    pub target: u32,
    /// End of the aggregation, nanoseconds on the recording's clock; never decreases within a target.
    pub time_ns: u64,
    /// Length of the aggregation; `None`: not in the record.
    pub duration_ns: Option<u64>,
    /// Intervals of the monitor during it.
    pub intervals: Intervals,
    /// Statistics of the target's scheme, if the record is of a scheme and has them.
    pub stats: Option<SchemeStats>,
    /// Regions by address, without overlap. May be empty.
    pub regions: Vec<Region>,
}

impl Snapshot {
    /// Start of the aggregation; its end if the length is unknown.
    pub fn start_ns(&self) -> u64 {
        self.time_ns.saturating_sub(self.duration_ns.unwrap_or(0))
    }
    /// Length of all regions together, in units of the context's addresses.
    pub fn total_len(&self) -> u64 {
        self.regions.iter().map(Region::len).fold(0, u64::saturating_add)
    }
}

/// Why `regions` are not valid for a snapshot; `None` if they are.
pub(crate) fn flaw(regions: &[Region]) -> Option<String> {
    let sound = |region: &Region| region.start < region.end;
    let apart = |pair: &[Region]| pair[0].end <= pair[1].start;
    // One pass without branches; the region is searched for only if there is an error.
    if regions.iter().all(sound) && regions.windows(2).all(apart) {
        return None;
    }
    if let Some(index) = regions.iter().position(|region| !sound(region)) {
        let Region { start, end, .. } = regions[index];
        return Some(format!("region {index} is {start}-{end}; its end must be above its start"));
    }
    let index = regions.windows(2).position(|pair| !apart(pair))?;
    let (left, right) = (regions[index], regions[index + 1]);
    let what = "regions must be in order of addresses and may not overlap";
    Some(format!("region {index} is {}-{}, the next {}-{}; {what}", left.start, left.end, right.start, right.end))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_out_of_samples_in_an_aggregation() {
        // docs/spec/monitoring.md#s2: 100 ms / 5 ms = 20; never below 1, so that nothing divides by zero.
        let table = [(5, 100, Some(20)), (5, 12, Some(2)), (10, 5, Some(1)), (0, 5, Some(5))];
        for (sample_ns, aggregation_ns, expected) in table {
            assert_eq!(Intervals::new(sample_ns, aggregation_ns, 1).max_nr_accesses(), expected);
        }
        assert_eq!(Intervals { sample_ns: None, ..Intervals::new(1, 1, 1) }.max_nr_accesses(), None);
    }

    #[test]
    fn flaws_name_the_region() {
        let regions = |list: &[(u64, u64)]| -> Vec<Region> {
            list.iter().map(|&(start, end)| Region { start, end, ..Region::default() }).collect()
        };
        assert_eq!(flaw(&regions(&[(0, 4), (4, 8), (9, 10)])), None);
        assert_eq!(flaw(&[]), None);
        assert!(flaw(&regions(&[(0, 4), (8, 8)])).unwrap().starts_with("region 1 is 8-8"));
        assert!(flaw(&regions(&[(0, 4), (3, 8)])).unwrap().starts_with("region 0 is 0-4, the next 3-8"));
    }
}
