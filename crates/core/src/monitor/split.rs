//! Regions are cut, because parts that behave differently do not show it inside one region.

use super::region::Region;
use crate::vocabulary::UnitRange;

/// Into how many pieces each region is cut at the end of an aggregation; `None`: not at all.
///
/// Never more regions than allowed: two pieces each up to half the maximum, three below a third of it. Three only where
/// two did not help the last time: `nr_before` is the number of regions when they were last cut. The kernel keeps that
/// number in one global of all contexts; here each context has its own.
pub(crate) fn pieces(nr_regions: u64, nr_before: u64, nr_max: u64) -> Option<u32> {
    match () {
        () if nr_regions > nr_max / 2 => None,
        () if nr_regions == nr_before && nr_regions < nr_max / 3 => Some(3),
        () => Some(2),
    }
}

/// Cuts `region` into up to `pieces` at random tenths and appends them to `out` from left to right.
///
/// `draw` gives a number of `[low, high)`; `place` moves a cut, given as an offset into a range, to where a strategy wants
/// it. A further cut cuts the left piece again. A draw that would leave an empty piece is spent.
pub(crate) fn split_at_random(
    mut region: Region,
    pieces: u32,
    size_min: u64,
    mut draw: impl FnMut(u64, u64) -> u64,
    place: impl Fn(UnitRange, u64) -> u64,
    out: &mut Vec<Region>,
) {
    debug_assert!(size_min.is_power_of_two(), "cuts are aligned by masks");
    debug_assert!(!region.is_empty(), "only what holds something is cut");
    let first = out.len();
    for _ in 1..pieces {
        let len = region.len();
        if len <= size_min.saturating_mul(2) {
            break;
        }
        let tenths = draw(1, 10);
        debug_assert!((1..10).contains(&tenths), "a draw lies within its bounds");
        // u128: ten times the largest space does not fit 64 bits.
        let drawn = u64::try_from(u128::from(tenths) * u128::from(len) / 10).expect("below the length");
        let drawn = align_down(drawn, size_min);
        if drawn == 0 || drawn >= len {
            continue;
        }
        out.insert(first, region.split_off(place(region.range, drawn)));
    }
    out.insert(first, region);
}

/// The size above which a region is cut however alike its parts are, so that there are enough regions; not yet aligned.
pub(crate) fn size_limit(total: u64, nr_min: u32, size_min: u64) -> u64 {
    (total / u64::from(nr_min.max(1))).max(size_min)
}

/// Cuts everything larger than `size_max` from the left into pieces of `size_max`; `spare` is scratch space.
pub(crate) fn split_large(regions: &mut Vec<Region>, size_max: u64, spare: &mut Vec<Region>) {
    debug_assert!(size_max > 0, "pieces of nothing would be cut for ever");
    if regions.iter().all(|region| region.len() <= size_max) {
        return;
    }
    spare.clear();
    for &region in regions.iter() {
        let mut rest = region;
        while rest.len() > size_max {
            let right = rest.split_off(size_max);
            spare.push(rest);
            rest = right;
        }
        spare.push(rest);
    }
    std::mem::swap(regions, spare);
}

/// `value` down to a multiple of the power of two `unit`.
pub(crate) const fn align_down(value: u64, unit: u64) -> u64 {
    debug_assert!(unit.is_power_of_two(), "a mask aligns to powers of two alone");
    value & !(unit - 1)
}

/// `value` up to a multiple of the power of two `unit`; the last multiple where the next would not fit 64 bits.
pub(crate) const fn align_up(value: u64, unit: u64) -> u64 {
    match value.checked_add(unit - 1) {
        Some(sum) => align_down(sum, unit),
        None => align_down(u64::MAX, unit),
    }
}

#[cfg(test)]
mod tests {
    use super::super::region::tests::region;
    use super::*;

    const PAGE: u64 = 4096;

    /// docs/spec/monitoring.md#s17, examples 9 to 13. (example, end, smallest size, fewest regions, limit, lengths)
    #[test]
    fn large_regions_are_cut_from_the_left() {
        type Row = (u32, u64, u64, u32, u64, &'static [u64]);
        let table: [Row; 4] = [
            (9, 10, 1, 10, 1, &[1; 10]),
            (10, 10, 1, 15, 1, &[1; 10]),
            (11, 10, 2, 2, 6, &[6, 4]),
            (12, 10, 2, 10, 2, &[2; 5]),
        ];
        for (example, end, size_min, nr_min, limit, lengths) in table {
            let aligned = align_up(size_limit(end, nr_min, size_min), size_min);
            assert_eq!(aligned, limit, "example {example}");
            let mut regions = vec![region(0, end, 0, 0)];
            split_large(&mut regions, aligned, &mut Vec::new());
            let cut: Vec<u64> = regions.iter().map(Region::len).collect();
            assert_eq!(cut, lengths, "example {example}");
        }
        assert_eq!(align_up(size_limit(62 << 30, 10, PAGE), PAGE), 6_657_200_128, "example 13");
    }

    /// docs/spec/monitoring.md#s17, examples 32 to 36. (example, pages, pieces, draws, pages of each piece)
    #[test]
    fn random_cuts_fall_on_tenths() {
        type Row = (u32, u64, u32, &'static [u64], &'static [u64]);
        let table: [Row; 5] = [
            (32, 100, 2, &[3], &[30, 70]),
            (33, 100, 3, &[7, 4], &[28, 42, 30]),
            (34, 3, 2, &[1], &[3]),
            (35, 3, 2, &[9], &[2, 1]),
            (36, 2, 2, &[], &[2]),
        ];
        for (example, pages, pieces, draws, expected) in table {
            let mut draws = draws.iter();
            let mut out = vec![region(0, PAGE, 0, 0)];
            let whole = region(PAGE, PAGE + pages * PAGE, 3, 4);
            let draw = |low, high| {
                assert_eq!((low, high), (1, 10));
                *draws.next().expect("no more draws than listed")
            };
            split_at_random(whole, pieces, PAGE, draw, |_, offset| offset, &mut out);
            let cut: Vec<u64> = out[1..].iter().map(|region| region.len() / PAGE).collect();
            assert_eq!(cut, expected, "example {example}");
            assert_eq!(draws.next(), None, "example {example}: each draw is used");
            assert!(out.windows(2).all(|pair| pair[0].range.end == pair[1].range.start), "example {example}");
            assert!(out[1..].iter().all(|region| (region.nr_accesses, region.age) == (3, 4)), "example {example}");
        }
    }

    /// docs/spec/monitoring.md#s17, example 37.
    #[test]
    fn as_many_pieces_as_the_maximum_allows() {
        let table = [(501, 0, None), (500, 0, Some(2)), (333, 333, Some(2)), (332, 332, Some(3)), (332, 331, Some(2))];
        for (nr_regions, nr_before, expected) in table {
            assert_eq!(pieces(nr_regions, nr_before, 1000), expected, "example 37: {nr_regions} after {nr_before}");
        }
    }

    #[test]
    fn alignment_ends_at_the_end_of_the_space() {
        assert_eq!((align_up(1, PAGE), align_up(PAGE, PAGE), align_up(0, PAGE)), (PAGE, PAGE, 0));
        assert_eq!(align_up(u64::MAX, PAGE), u64::MAX - (PAGE - 1));
    }
}
