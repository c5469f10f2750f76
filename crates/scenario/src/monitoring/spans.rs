//! Sums over aggregations by address: regions change from one to the next, bytes do not.

use isotherm_core::host::AddressRange;
use isotherm_core::monitor::RegionRecord;

/// The regions of one target at the end of one aggregation.
#[derive(Clone, Debug)]
pub(super) struct Window {
    pub(super) regions: Vec<RegionRecord>,
    /// For each region the sum of its last counts over a period: see `carried.rs`.
    pub(super) sums: Vec<u64>,
    pub(super) nr_accesses_max: u32,
    pub(super) aggr_ns: u64,
}

/// The ranges on which the sum of `value` over all regions there satisfies `wanted`. Addresses without a region are never included.
pub(super) fn of(
    windows: &[Window],
    value: impl Fn(&Window, &RegionRecord) -> u64,
    wanted: impl Fn(u64) -> bool,
) -> Vec<AddressRange> {
    let mut found: Vec<AddressRange> = Vec::new();
    sums(windows, value, |range, sum| {
        if wanted(sum) {
            match found.last_mut().filter(|last| last.end == range.start) {
                Some(last) => last.end = range.end,
                None => found.push(range),
            }
        }
    });
    found
}

/// Calls `each` for every range on which no region begins or ends, with the sum of `value` there, by address.
pub(super) fn sums(
    windows: &[Window],
    value: impl Fn(&Window, &RegionRecord) -> u64,
    mut each: impl FnMut(AddressRange, u64),
) {
    // (address, regions more, sum more)
    let mut steps: Vec<(u64, i32, i64)> = Vec::new();
    for window in windows {
        for region in &window.regions {
            let value = i64::try_from(value(window, region)).expect("counts of samples");
            steps.push((region.range.start, 1, value));
            steps.push((region.range.end, -1, -value));
        }
    }
    steps.sort_unstable();
    let (mut from, mut depth, mut sum) = (0, 0, 0);
    for (at, deeper, more) in steps {
        if depth > 0 && at > from {
            each(AddressRange::new(from, at), u64::try_from(sum).expect("what is taken away was added before"));
        }
        (from, depth, sum) = (at, depth + deeper, sum + more);
    }
}

/// Ranges in both; each argument is ascending and disjoint.
pub(super) fn intersection(left: &[AddressRange], right: &[AddressRange]) -> Vec<AddressRange> {
    let (mut left_at, mut right_at, mut common) = (0, 0, Vec::new());
    while let (Some(a), Some(b)) = (left.get(left_at), right.get(right_at)) {
        let both = AddressRange::new(a.start.max(b.start), a.end.min(b.end));
        if !both.is_empty() {
            common.push(both);
        }
        if a.end <= b.end {
            left_at += 1;
        } else {
            right_at += 1;
        }
    }
    common
}

/// Bytes of all.
pub(super) fn len(ranges: &[AddressRange]) -> u64 {
    ranges.iter().map(|range| range.len()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn ranges(cuts: &[u64]) -> Vec<AddressRange> {
        let mut cuts = cuts.to_vec();
        cuts.sort_unstable();
        cuts.dedup();
        cuts.chunks_exact(2).map(|pair| AddressRange::new(pair[0], pair[1])).collect()
    }

    fn holds(ranges: &[AddressRange], at: u64) -> bool {
        ranges.iter().any(|range| range.start <= at && at < range.end)
    }

    proptest! {
        #[test]
        fn sums_and_intersections_agree_with_bytes(
            cuts in prop::collection::vec(prop::collection::vec(0u64..60, 0..12), 1..5),
        ) {
            let windows: Vec<Window> = cuts.iter().map(|cuts| Window {
                regions: ranges(cuts).into_iter().map(|range| RegionRecord {
                    range, nr_accesses: u32::try_from(range.start % 7).unwrap(), ..RegionRecord::default()
                }).collect(),
                sums: Vec::new(),
                nr_accesses_max: 20,
                aggr_ns: 1,
            }).collect();
            let found = of(&windows, |_, region| u64::from(region.nr_accesses), |sum| sum > 4);
            let naive = |at: u64| -> u64 {
                let regions = windows.iter().flat_map(|window| &window.regions);
                let here = regions.filter(|region| region.range.start <= at && at < region.range.end);
                here.map(|region| u64::from(region.nr_accesses)).sum()
            };
            for at in 0..60 {
                prop_assert_eq!(holds(&found, at), naive(at) > 4, "byte {}", at);
            }
            let (left, right) = (ranges(&cuts[0]), found);
            let both = intersection(&left, &right);
            for at in 0..60 {
                prop_assert_eq!(holds(&both, at), holds(&left, at) && holds(&right, at));
            }
            prop_assert_eq!(len(&both), (0..60).filter(|&at| holds(&both, at)).count() as u64);
        }
    }
}
