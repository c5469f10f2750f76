//! The counts of a region over several aggregations, carried on through splits and merges as the monitor carries its own.

use isotherm_core::host::AddressRange;
use isotherm_core::monitor::RegionRecord;

/// The last counts of each region of one target.
///
/// A split copies them. A merge takes means weighted by size, from left to right, each cut down to a whole number: the kernel
/// does so with every counter of a region, which makes rare accesses vanish. Where no region was before, counts are 0.
#[derive(Clone, Debug)]
pub(super) struct Carried {
    /// Counts a region.
    windows: usize,
    ranges: Vec<AddressRange>,
    /// `windows` for each range, oldest first.
    counts: Vec<u64>,
}

impl Carried {
    /// No counts yet; the last `windows` counts are kept for each region.
    pub(super) fn new(windows: usize) -> Self {
        Self { windows: windows.max(1), ranges: Vec::new(), counts: Vec::new() }
    }

    /// Takes in the regions of the next aggregation, and gives the sum of the last counts of each.
    pub(super) fn push(&mut self, regions: &[RegionRecord]) -> Vec<u64> {
        let kept = self.windows - 1;
        let (mut ranges, mut counts) = (Vec::with_capacity(regions.len()), Vec::new());
        let mut first = 0;
        for region in regions {
            let range = region.range;
            while self.ranges.get(first).is_some_and(|old| old.end <= range.start) {
                first += 1;
            }
            let mut merged_to = range.start;
            let place = counts.len();
            counts.resize(place + kept, 0);
            let overlapping = self.ranges[first..].iter().take_while(|old| old.start < range.end);
            for (old, index) in overlapping.zip(first..) {
                let part = AddressRange::new(old.start.max(range.start), old.end.min(range.end));
                let before = u128::from(part.start - range.start).min(u128::from(merged_to - range.start));
                let all = before + u128::from(part.len());
                let old_counts = &self.counts[index * self.windows + 1..(index + 1) * self.windows];
                for (mean, &count) in counts[place..].iter_mut().zip(old_counts) {
                    let sum = u128::from(*mean) * before + u128::from(count) * u128::from(part.len());
                    *mean = u64::try_from(sum / all).expect("a mean lies between the two");
                }
                merged_to = part.end;
            }
            ranges.push(range);
            counts.push(u64::from(region.nr_accesses));
        }
        (self.ranges, self.counts) = (ranges, counts);
        self.counts.chunks_exact(self.windows).map(|counts| counts.iter().sum()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn regions(list: &[(u64, u64, u32)]) -> Vec<RegionRecord> {
        let region = |&(start, end, nr_accesses): &(u64, u64, u32)| RegionRecord {
            range: AddressRange::new(start, end),
            nr_accesses,
            ..RegionRecord::default()
        };
        list.iter().map(region).collect()
    }

    #[test]
    fn splits_copy_and_merges_cut_down() {
        let mut carried = Carried::new(3);
        assert_eq!(carried.push(&regions(&[(0, 100, 3), (100, 200, 2)])), [3, 2]);
        // Split at 50 and moved border: 0-50 copies 3; 50-200 is 3 on 50 and 2 on 100 = 2.33, cut to 2.
        assert_eq!(carried.push(&regions(&[(0, 50, 1), (50, 200, 0)])), [4, 2]);
        // All merged: (3 * 50 + 2 * 150) / 200 = 2.25 to 2, (1 * 50) / 200 to 0.
        assert_eq!(carried.push(&regions(&[(0, 200, 5)])), [2 + 5]);
        // The first window is out of the three.
        assert_eq!(carried.push(&regions(&[(0, 200, 1), (300, 400, 4)])), [6, 4]);
    }

    #[test]
    fn three_are_merged_one_after_the_other() {
        let mut carried = Carried::new(2);
        carried.push(&regions(&[(0, 100, 1), (100, 200, 0), (200, 201, 40)]));
        // 1 and 0 of equal size give 0; then 0 on 200 and 40 on 1 give 0.
        assert_eq!(carried.push(&regions(&[(0, 201, 0)])), [0]);
    }
}
