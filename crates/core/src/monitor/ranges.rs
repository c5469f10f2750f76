//! Addresses that a target's regions cover: the layout of a process, and how regions follow when it changes.

use super::region::Region;
use super::split::{align_down, align_up};
use crate::vocabulary::{AddressRange, UnitRange};

/// Why ranges cannot be monitored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RangesError {
    /// A process is monitored as three ranges around its two largest gaps, and has not two gaps.
    #[error(
        "the mappings have fewer than two gaps; allowed: mappings in at least three separate places, or fixed ranges"
    )]
    TooFewGaps,
    /// A range is empty.
    #[error("range {index} ({:#x}-{:#x}) is empty; allowed: an end above the start", range.start, range.end)]
    Empty {
        /// Position of the range in the list, from 0.
        index: usize,
        range: UnitRange,
    },
    /// Two ranges overlap or are out of order once aligned.
    #[error(
        "range {index} ({:#x}-{:#x}) begins before the end of range {}; allowed: ascending ranges that do not overlap once \
         aligned to {align_bytes} bytes",
        range.start, range.end, index - 1
    )]
    Overlapping {
        /// Position of the range in the list, from 0.
        index: usize,
        range: UnitRange,
        /// Starts of ranges are rounded down to a multiple of this, ends are rounded up.
        align_bytes: u64,
    },
    /// The address does not fit 64 bits once multiplied by the address unit.
    #[error("range {index} ends at {end:#x} units of {addr_unit} bytes; allowed: up to 2^64 bytes")]
    OutOfSpace {
        /// Position of the range in the list, from 0.
        index: usize,
        end: u64,
        /// Bytes of an address unit.
        addr_unit: u64,
    },
}

/// The three ranges of a process between its two largest gaps, in address order, bounds aligned up.
///
/// Mappings are in bytes, as units are in a process. In a usual layout these are heap, mapped area and stack; smaller holes stay inside and
/// are never found accessed. Of equal gaps the first found keeps the better place.
pub(crate) fn three_ranges(mappings: &[AddressRange], align: u64) -> Result<[UnitRange; 3], RangesError> {
    debug_assert!(align.is_power_of_two(), "bounds are aligned by masks");
    let (mut largest, mut second) = (AddressRange::default(), AddressRange::default());
    for pair in mappings.windows(2) {
        debug_assert!(pair[0].end <= pair[1].start, "the host gives mappings in order");
        let gap = AddressRange::new(pair[0].end, pair[1].start);
        if gap.len() > largest.len() {
            second = largest;
            largest = gap;
        } else if gap.len() > second.len() {
            second = gap;
        }
    }
    let (Some(first), Some(last), false) = (mappings.first(), mappings.last(), second.is_empty()) else {
        return Err(RangesError::TooFewGaps);
    };
    let (low, high) = if largest.start < second.start { (largest, second) } else { (second, largest) };
    debug_assert!(low.end <= high.start, "something is mapped between two gaps");
    let aligned = |start, end| UnitRange::new(align_up(start, align), align_up(end, align));
    Ok([aligned(first.start, low.start), aligned(low.end, high.start), aligned(high.end, last.end)])
}

/// Each of the separate places of a process's mappings, where there are too few for [`three_ranges`], aligned outwards. `fvaddr`
/// would have the same ones if they were configured; the kernel monitors nothing then.
pub(crate) fn separate_ranges(mappings: &[AddressRange], align: u64) -> Vec<UnitRange> {
    debug_assert!(align.is_power_of_two(), "bounds are aligned by masks");
    let mut ranges: Vec<UnitRange> = Vec::new();
    for mapping in mappings {
        let range = UnitRange::new(align_down(mapping.start, align), align_up(mapping.end, align));
        match ranges.last_mut() {
            Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
            _ => ranges.push(range),
        }
    }
    ranges
}

/// Whether `ranges` can be applied: not empty, ascending, and still disjoint once aligned outwards.
pub(crate) fn validate(ranges: &[UnitRange], align: u64, addr_unit: u64) -> Result<(), RangesError> {
    debug_assert!(align.is_power_of_two(), "bounds are aligned by masks");
    for (index, &range) in ranges.iter().enumerate() {
        if range.is_empty() {
            return Err(RangesError::Empty { index, range });
        }
        if align_up(range.end, align).checked_mul(addr_unit).is_none() || align_up(range.end, align) < range.end {
            return Err(RangesError::OutOfSpace { index, end: range.end, addr_unit });
        }
        if index > 0 && align_down(range.start, align) < align_up(ranges[index - 1].end, align) {
            return Err(RangesError::Overlapping { index, range, align_bytes: align });
        }
    }
    Ok(())
}

/// Makes `regions` cover exactly `ranges`, which [`validate`] has let through, aligned outwards; `spare` is scratch space.
///
/// Surviving regions keep their counters, however much they grow or shrink; new addresses begin with none. A region that spans
/// two ranges belongs to the first.
pub(crate) fn apply(regions: &mut Vec<Region>, ranges: &[UnitRange], align: u64, spare: &mut Vec<Region>) {
    debug_assert!(align.is_power_of_two(), "bounds are aligned by masks");
    regions.retain(|region| ranges.iter().any(|range| region.range.overlaps(*range)));
    std::mem::swap(regions, spare);
    regions.clear();
    let mut old = spare.drain(..).peekable();
    for range in ranges {
        debug_assert!(!range.is_empty(), "ranges were validated");
        let aligned = UnitRange::new(align_down(range.start, align), align_up(range.end, align));
        let first = regions.len();
        while let Some(mut region) = old.next_if(|region| region.range.start < range.end) {
            debug_assert!(region.range.overlaps(*range), "what overlaps an earlier range only was taken with it");
            if regions.len() == first {
                region.range.start = aligned.start;
            } else {
                let hole = UnitRange::new(regions[regions.len() - 1].range.end, region.range.start);
                if !hole.is_empty() {
                    regions.push(Region::new(hole));
                }
            }
            regions.push(region);
        }
        match regions[first..].last_mut() {
            Some(last) => last.range.end = aligned.end,
            None => regions.push(Region::new(aligned)),
        }
    }
    debug_assert_eq!(old.len(), 0, "what overlaps a range was taken with one");
}

#[cfg(test)]
mod tests {
    use super::super::region::tests::region;
    use super::*;

    fn ranges(bounds: &[(u64, u64)]) -> Vec<UnitRange> {
        bounds.iter().map(|&(start, end)| UnitRange::new(start, end)).collect()
    }

    fn bytes(bounds: &[(u64, u64)]) -> Vec<AddressRange> {
        bounds.iter().map(|&(start, end)| AddressRange::new(start, end)).collect()
    }

    /// docs/spec/monitoring.md#s17, example 14.
    #[test]
    fn too_few_places_are_watched_as_they_are() {
        let mappings = [(5, 4096), (4096, 9000), (20_000, 30_000)].map(|(start, end)| AddressRange::new(start, end));
        assert_eq!(separate_ranges(&mappings, 4096), ranges(&[(0, 12_288), (16_384, 32_768)]));
        assert_eq!(separate_ranges(&[], 4096), []);
    }

    #[test]
    fn two_gaps_make_three_ranges() {
        let mappings = bytes(&[(10, 20), (20, 25), (200, 210), (210, 220), (300, 305), (307, 330)]);
        let expected: [UnitRange; 3] = ranges(&[(10, 25), (200, 220), (300, 330)]).try_into().unwrap();
        assert_eq!(three_ranges(&mappings, 1), Ok(expected), "example 14");
        for few in [&mappings[..0], &mappings[..2], &mappings[..4]] {
            assert_eq!(three_ranges(few, 1), Err(RangesError::TooFewGaps));
        }
        // Of three equal gaps the first two count.
        let equal = bytes(&[(0, 1), (2, 3), (4, 5), (6, 7)]);
        assert_eq!(three_ranges(&equal, 1).unwrap().map(|range| range.end), [1, 3, 7]);
    }

    /// A line of regions by their bounds; every old region has nr_accesses 7.
    type Bounds = &'static [(u64, u64)];

    /// docs/spec/monitoring.md#s17, examples 15 to 20 and 51. (example, regions, ranges, expected; new regions)
    #[test]
    fn regions_follow_their_ranges() {
        const OLD: Bounds = &[(10, 20), (20, 30), (50, 55), (55, 57), (57, 59), (70, 80), (80, 90), (90, 100)];
        let table: &[(u32, Bounds, Bounds, Bounds, Bounds)] = &[
            (
                15,
                OLD,
                &[(5, 27), (45, 55), (73, 104)],
                &[(5, 20), (20, 27), (45, 55), (73, 80), (80, 90), (90, 104)],
                &[],
            ),
            (
                16,
                OLD,
                &[(5, 27), (56, 57), (65, 104)],
                &[(5, 20), (20, 27), (56, 57), (65, 80), (80, 90), (90, 104)],
                &[],
            ),
            (
                17,
                OLD,
                &[(5, 27), (61, 63), (65, 104)],
                &[(5, 20), (20, 27), (61, 63), (65, 80), (80, 90), (90, 104)],
                &[(61, 63)],
            ),
            (18, OLD, &[(5, 7), (30, 32), (65, 68)], &[(5, 7), (30, 32), (65, 68)], &[(5, 7), (30, 32), (65, 68)]),
            (19, &[(4, 16), (24, 32)], &[(8, 28)], &[(8, 16), (16, 24), (24, 28)], &[(16, 24)]),
            (20, &[(0, 4), (4, 17)], &[(0, 15), (25, 40)], &[(0, 4), (4, 15), (25, 40)], &[(25, 40)]),
            (20, &[(0, 4), (42, 52)], &[(0, 15), (25, 40), (44, 50)], &[(0, 15), (25, 40), (44, 50)], &[(25, 40)]),
            (21, &[(3, 8), (8, 10)], &[(4, 6)], &[(4, 6)], &[]),
            (51, &[(0, 100), (100, 200)], &[(0, 30), (50, 150)], &[(0, 30), (50, 150)], &[]),
            (51, &[(0, 100)], &[(0, 30), (50, 80)], &[(0, 30), (50, 80)], &[(50, 80)]),
        ];
        for (example, old, new_ranges, expected, fresh) in table {
            let mut regions: Vec<Region> = old.iter().map(|&(start, end)| region(start, end, 7, 0)).collect();
            let new_ranges = ranges(new_ranges);
            validate(&new_ranges, 1, 1).unwrap();
            apply(&mut regions, &new_ranges, 1, &mut Vec::new());
            let bounds: Vec<(u64, u64)> = regions.iter().map(|region| (region.range.start, region.range.end)).collect();
            assert_eq!(&bounds, expected, "example {example}");
            for region in regions {
                let is_fresh = fresh.contains(&(region.range.start, region.range.end));
                assert_eq!(region.nr_accesses, if is_fresh { 0 } else { 7 }, "example {example}: {:?}", region.range);
            }
        }
    }

    #[test]
    fn bad_ranges_say_what_is_wrong() {
        let error = |bounds: &[(u64, u64)], align| validate(&ranges(bounds), align, 1).unwrap_err().to_string();
        assert!(error(&[(0, 4), (9, 9)], 1).starts_with("range 1 (0x9-0x9) is empty"));
        assert!(error(&[(9, 4)], 1).contains("empty"));
        assert!(error(&[(0, 4), (3, 9)], 1).starts_with("range 1 (0x3-0x9) begins before the end of range 0"));
        assert!(error(&[(0, 5), (6, 9)], 4).contains("aligned to 4 bytes"), "they share an aligned unit");
        assert!(error(&[(5, 9), (0, 4)], 1).contains("before the end"));
        assert!(error(&[(0, u64::MAX)], 4096).contains("up to 2^64 bytes"));
        assert_eq!(validate(&ranges(&[(0, 4), (4, 9)]), 1, 1), Ok(()), "touching is fine");
        assert!(validate(&ranges(&[(0, 1 << 40)]), 1, 1 << 30).is_err());
    }
}
