//! What a monitor found in one aggregation of one target.

use serde::{Deserialize, Serialize};

/// Attribute probes a region can carry hits of. Source: `PROBES_MAX` of DAMON.
pub const PROBES_MAX: usize = 4;

/// A range of addresses that were about equally hot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Region {
    /// First address, in units of [`super::ContextMeta::address_unit_bytes`].
    pub start: u64,
    /// Address after the last, in the same units; always above `start`.
    pub end: u64,
    /// In how many of the aggregation's samples it was found accessed: see [`Intervals::max_nr_accesses`].
    pub nr_accesses: u32,
    /// For how many aggregations range and heat have stayed about the same; `None`: not recorded (kernels before 5.16).
    pub age: Option<u32>,
    /// Page-table level at which it was checked last: 0 the pages themselves, 1 the tables of pages, and so on.
    pub level: u8,
    /// In how many samples each probe of [`super::ContextMeta::probes`] held.
    pub probe_hits: [u32; PROBES_MAX],
    /// Bytes that passed the scheme's filters; 0 where no scheme was asked.
    pub filter_passed_bytes: u64,
}

impl Region {
    /// Length in units of the context's addresses: `end - start`.
    pub fn len(&self) -> u64 {
        self.end.saturating_sub(self.start)
    }
    /// Whether it covers nothing: no region of a record does.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Intervals of the monitor at the time of one snapshot. Auto-tuning changes this while it runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Intervals {
    /// Nanoseconds from one check of a region to the next; `None`: the record does not say.
    pub sample_ns: Option<u64>,
    /// Nanoseconds from one snapshot to the next; `None`: the record does not say.
    pub aggregation_ns: Option<u64>,
    /// Nanoseconds from one read of the target's mappings to the next; `None`: the record does not say.
    pub update_ns: Option<u64>,
}

impl Intervals {
    /// Intervals of which all three are known, nanoseconds.
    pub const fn new(sample_ns: u64, aggregation_ns: u64, update_ns: u64) -> Self {
        Self { sample_ns: Some(sample_ns), aggregation_ns: Some(aggregation_ns), update_ns: Some(update_ns) }
    }
    /// Largest [`Region::nr_accesses`] there can be: samples in an aggregation. `None`: an interval is not known, so that a
    /// count cannot be turned into a frequency.
    pub fn max_nr_accesses(&self) -> Option<u64> {
        Some((self.aggregation_ns? / self.sample_ns?.max(1)).max(1))
    }
}

/// What a scheme had done up to a snapshot. Counts since the scheme was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SchemeStats {
    /// Number of regions that the action was tried on.
    pub nr_tried: u64,
    pub tried_bytes: u64,
    /// Regions of which at least a part was changed.
    pub nr_applied: u64,
    /// Bytes on which the action succeeded.
    pub applied_bytes: u64,
    /// Bytes that passed the filters of the operations set.
    pub filter_passed_bytes: u64,
    /// Number of quota windows in which the quota ran out.
    pub nr_quota_exceeded: u64,
    /// Number of snapshots that the scheme has seen.
    pub nr_snapshots: u64,
    /// After how many snapshots it stops; 0: never.
    pub max_nr_snapshots: u64,
}

/// The regions of one target at the end of one aggregation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Snapshot {
    /// Its number in the file, from 0; set by readers, passed over by writers.
    pub number: u64,
    /// Index of the target in [`super::RecordMeta::targets`].
    pub target: u32,
    /// End of the aggregation, nanoseconds on the recording's clock; never decreases within a target.
    pub time_ns: u64,
    /// Length of the aggregation; `None`: the record does not say.
    pub duration_ns: Option<u64>,
    /// Intervals of the monitor during it.
    pub intervals: Intervals,
    /// What the target's scheme had done, where the record is of a scheme and says so.
    pub stats: Option<SchemeStats>,
    /// By address, without overlap. May be empty.
    pub regions: Vec<Region>,
}

impl Snapshot {
    /// Begin of the aggregation, its end where the length is not known.
    pub fn start_ns(&self) -> u64 {
        self.time_ns.saturating_sub(self.duration_ns.unwrap_or(0))
    }
    /// Length of all regions together, in units of the context's addresses.
    pub fn total_len(&self) -> u64 {
        self.regions.iter().map(Region::len).fold(0, u64::saturating_add)
    }
}

/// Why `regions` cannot be those of a snapshot, if they cannot.
pub(crate) fn flaw(regions: &[Region]) -> Option<String> {
    let sound = |region: &Region| region.start < region.end;
    let apart = |pair: &[Region]| pair[0].end <= pair[1].start;
    // One pass without branches; the place is searched for only when there is something to find.
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
