//! Neighbours that behave alike become one region, at the end of each aggregation.

use super::attrs::Baseline;
use super::region::Region;
use super::target::Target;

/// Bounds of a merge.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MergeLimits {
    /// Neighbours whose counts differ by no more are alike: see [`threshold`].
    pub(crate) threshold: u32,
    /// The highest count that an aggregation can reach; raising the threshold above it changes nothing.
    pub(crate) threshold_max: u32,
    /// No region grows past this size. The value of the aggregation before, as in the kernel: stale by one aggregation after
    /// mappings change.
    pub(crate) size_max: u64,
    /// Regions of the context.
    pub(crate) nr_regions_max: u32,
}

/// How far counts of neighbours may differ: a tenth of the highest count of any region. Below ten, only equal counts merge,
/// so that a lone hit survives one aggregation.
pub(crate) fn threshold(highest_count: u32) -> u32 {
    highest_count / 10
}

/// Ages all regions, then merges them, with a rising threshold while there are too many. Gaps and the size limit block
/// merges at any threshold, so there may still be too many in the end. 6.6 merges once and leaves it at that.
pub(crate) fn merge_all(targets: &mut [Target], limits: MergeLimits, baseline: Baseline) {
    for region in targets.iter_mut().flat_map(|target| &mut target.regions) {
        region.grow_older(limits.threshold, baseline);
    }
    let mut threshold = limits.threshold;
    loop {
        targets.iter_mut().for_each(|target| merge_neighbours(&mut target.regions, threshold, limits.size_max));
        let nr_regions: usize = targets.iter().map(|target| target.regions.len()).sum();
        let fits = u32::try_from(nr_regions).is_ok_and(|nr| nr <= limits.nr_regions_max);
        if baseline == Baseline::V6_6 || fits || threshold >= limits.threshold_max {
            return;
        }
        debug_assert!(
            next_threshold(threshold, limits.threshold_max) > threshold,
            "a rising threshold ends the rounds"
        );
        threshold = next_threshold(threshold, limits.threshold_max);
    }
}

/// One pass from left to right. A region is compared with the running mean of the regions merged left of it: a slow ramp may merge from end
/// to end, but a step does not.
pub(crate) fn merge_neighbours(regions: &mut Vec<Region>, threshold: u32, size_max: u64) {
    let mut kept = 0;
    for index in 1..regions.len() {
        let region = regions[index];
        let last = &mut regions[kept];
        debug_assert!(last.range.end <= region.range.start, "regions are ascending and disjoint");
        let is_alike = last.nr_accesses.abs_diff(region.nr_accesses) <= threshold;
        let fits = last.len().checked_add(region.len()).is_some_and(|len| len <= size_max);
        if last.range.end == region.range.start && is_alike && fits {
            last.fold(&region);
        } else {
            kept += 1;
            regions[kept] = region;
        }
    }
    regions.truncate(kept + 1);
}

fn next_threshold(threshold: u32, max: u32) -> u32 {
    if threshold < max / 2 { (threshold * 2).max(1) } else { max }
}

#[cfg(test)]
mod tests {
    use super::super::region::tests::region;
    use super::*;

    /// docs/spec/monitoring.md#s17, example 3.
    #[test]
    fn neighbours_alike_merge_up_to_the_size_limit() {
        let starts = [0, 100, 114, 122, 130, 156, 170, 184, 230];
        let ends = [100, 112, 122, 130, 156, 170, 184, 230, 10_170];
        let counts = [0, 0, 10, 10, 20, 30, 1, 2, 5];
        let mut regions: Vec<Region> =
            starts.into_iter().zip(ends).zip(counts).map(|((start, end), nr)| region(start, end, nr, 0)).collect();
        merge_neighbours(&mut regions, 9, 9999);
        let merged: Vec<(u64, u64, u32)> =
            regions.iter().map(|region| (region.range.start, region.range.end, region.nr_accesses)).collect();
        let expected = [(0, 112, 0), (114, 130, 10), (130, 156, 20), (156, 170, 30), (170, 230, 1), (230, 10_170, 5)];
        assert_eq!(merged, expected, "example 3");
    }

    /// docs/spec/page-table-profiling.md#s9-2, D16.
    #[test]
    fn the_threshold_is_a_tenth_of_the_highest_count() {
        for (highest, expected) in [(9, 0), (10, 1), (40, 4)] {
            assert_eq!(threshold(highest), expected, "D16");
        }
    }

    #[test]
    fn nothing_merges_to_nothing() {
        let mut regions = Vec::new();
        merge_neighbours(&mut regions, 1, 1);
        assert!(regions.is_empty());
    }

    /// docs/spec/monitoring.md#s17, examples 29 and 30.
    #[test]
    fn the_threshold_doubles_up_to_the_maximum() {
        // (example, maximum, start, all)
        let table: [(u32, u32, u32, &[u32]); 4] = [
            (29, 20, 0, &[0, 1, 2, 4, 8, 16, 20]),
            (29, 20, 2, &[2, 4, 8, 16, 20]),
            (30, 100, 10, &[10, 20, 40, 80, 100]),
            (30, 2, 0, &[0, 1, 2]),
        ];
        for (example, max, start, expected) in table {
            let all: Vec<u32> =
                std::iter::successors(Some(start), |&now| (now < max).then(|| next_threshold(now, max))).collect();
            assert_eq!(all, expected, "example {example}");
        }
    }

    /// docs/spec/monitoring.md#s5 and docs/spec/page-table-profiling.md#s6-1: only 7.2 tries harder.
    #[test]
    fn too_many_regions_raise_the_threshold_in_7_2_only() {
        let ramp: Vec<Region> = (0..8).map(|n| region(n * 10, n * 10 + 10, u32::try_from(n).unwrap() * 2, 0)).collect();
        let limits = MergeLimits { threshold: 0, threshold_max: 20, size_max: 1000, nr_regions_max: 3 };
        let merged = |baseline| {
            let mut targets = [Target::for_test(ramp.clone())];
            merge_all(&mut targets, limits, baseline);
            targets[0].regions.len()
        };
        assert_eq!(merged(Baseline::V6_6), 8);
        assert!(merged(Baseline::V7_2) <= 3);
    }
}
