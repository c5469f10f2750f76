//! Places of the regions that a scheme was shown, with their results, by target and range of addresses.

use std::collections::BTreeMap;

use super::outcomes::{REASONS, Reason, Tally};
use crate::host::{AddressRange, TargetId};

/// Ranges of a target at most; above it two neighbours become one.
const RANGES_MAX: usize = 32;
/// Targets that are distinguished at most.
const TARGETS_MAX: usize = 64;
/// The smallest range, as a power of two: 2 MiB.
const SHIFT_MIN: u32 = 21;

type Counts = [Tally; REASONS.len()];

/// A range of addresses of a target, with the results for regions there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    pub target: TargetId,
    /// Byte addresses: a power of two long, and aligned to it.
    pub range: AddressRange,
    /// Counts by reason; reasons that did not occur are left out. A region across several ranges counts in the first, its bytes in each.
    pub by_reason: Vec<(Reason, Tally)>,
}

/// The ranges of one target, all of the same length.
#[derive(Clone, Debug)]
struct Ranges {
    shift: u32,
    /// Counts by number, ascending. A list: each pass counts all regions, and neighbours stand next to each other.
    counts: Vec<(u64, Counts)>,
}

/// All targets of a scheme; the first [`TARGETS_MAX`] that are met.
#[derive(Clone, Debug, Default)]
pub(super) struct Places(BTreeMap<TargetId, Ranges>);

impl Places {
    /// Counts a region. An empty range counts nothing.
    pub(super) fn count(&mut self, target: TargetId, range: AddressRange, reason: Reason) {
        if range.start >= range.end || (self.0.len() >= TARGETS_MAX && !self.0.contains_key(&target)) {
            return;
        }
        let ranges = self.0.entry(target).or_insert_with(|| Ranges { shift: SHIFT_MIN, counts: Vec::new() });
        ranges.make_room(range);
        let (first, last) = (range.start >> ranges.shift, (range.end - 1) >> ranges.shift);
        let place = ranges.counts.partition_point(|(index, _)| *index < first);
        for (index, place) in (first..=last).zip(place..) {
            if ranges.counts.get(place).is_none_or(|(found, _)| *found != index) {
                ranges.counts.insert(place, (index, [Tally::default(); REASONS.len()]));
            }
            let tally = &mut ranges.counts[place].1[reason as usize];
            let (low, high) = ranges_ends(index, ranges.shift);
            let bytes = range.end.min(high).saturating_sub(range.start.max(low));
            tally.bytes = tally.bytes.saturating_add(bytes);
            tally.regions += u64::from(index == first);
        }
        while ranges.counts.len() > RANGES_MAX {
            ranges.coarsen();
        }
    }

    /// All places, sorted by target, then by address.
    pub(super) fn all(&self) -> Vec<Place> {
        let place = |target: TargetId, shift: u32, index: u64, counts: &Counts| {
            let (start, end) = ranges_ends(index, shift);
            let met = REASONS.iter().map(|(reason, _)| (*reason, counts[*reason as usize]));
            Place {
                target,
                range: AddressRange { start, end },
                by_reason: met.filter(|(_, tally)| tally.bytes > 0).collect(),
            }
        };
        self.0
            .iter()
            .flat_map(|(target, ranges)| {
                ranges.counts.iter().map(|(index, counts)| place(*target, ranges.shift, *index, counts))
            })
            .collect()
    }
}

impl Ranges {
    /// A region must not lie across more ranges than are kept.
    fn make_room(&mut self, range: AddressRange) {
        while ((range.end - 1) >> self.shift) - (range.start >> self.shift) >= RANGES_MAX as u64 {
            self.coarsen();
        }
    }

    fn coarsen(&mut self) {
        self.shift += 1;
        self.counts.iter_mut().for_each(|(index, _)| *index >>= 1);
        self.counts.dedup_by(|(index, counts), (before, joined)| {
            let is_same = index == before;
            if is_same {
                joined.iter_mut().zip(counts).for_each(|(sum, tally)| sum.join(*tally));
            }
            is_same
        });
    }
}

/// First byte of a range, and the first byte after it.
fn ranges_ends(index: u64, shift: u32) -> (u64, u64) {
    let start = index << shift;
    (start, start.saturating_add(1 << shift))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn range(start: u64, end: u64) -> AddressRange {
        AddressRange { start, end }
    }

    /// 3 to 5 MiB lie across two ranges of 2 MiB: 1 MiB in each, one region.
    #[test]
    fn bytes_go_where_they_are_and_a_region_counts_once() {
        let mut places = Places::default();
        places.count(TargetId(1), range(3 * MIB, 5 * MIB), Reason::TooYoung);
        places.count(TargetId(0), range(4 * MIB, 5 * MIB), Reason::Applied);
        places.count(TargetId(0), range(7, 7), Reason::Applied);
        let all = places.all();
        let seen: Vec<_> = all
            .iter()
            .map(|it| (it.target.0, it.range.start / MIB, it.by_reason[0].1.regions, it.by_reason[0].1.bytes / MIB))
            .collect();
        assert_eq!(seen, [(0, 4, 1, 1), (1, 2, 1, 1), (1, 4, 0, 1)]);
    }

    #[test]
    fn ranges_grow_until_few_are_left_and_nothing_is_lost() {
        let mut places = Places::default();
        for nth in 0..1000u64 {
            places.count(TargetId(0), range(nth * 64 * MIB, nth * 64 * MIB + MIB), Reason::NoSwap);
        }
        places.count(TargetId(0), range(0, u64::MAX), Reason::Applied);
        for target in 0..200 {
            places.count(TargetId(target), range(0, MIB), Reason::Free);
        }
        let all = places.all();
        let sum = |reason: Reason| {
            let tallies = all.iter().flat_map(|place| &place.by_reason).filter(|(own, _)| *own == reason);
            tallies.fold(Tally::default(), |mut sum, (_, tally)| {
                sum.join(*tally);
                sum
            })
        };
        assert_eq!((sum(Reason::NoSwap).regions, sum(Reason::NoSwap).bytes), (1000, 1000 * MIB));
        assert_eq!(sum(Reason::Applied).regions, 1);
        assert_eq!(sum(Reason::Free).regions, TARGETS_MAX as u64, "of the first targets");
        assert!(all.iter().filter(|place| place.target == TargetId(0)).count() <= RANGES_MAX);
    }
}
