//! `ptp-aligned`: like `ptp`, and cuts fall on the borders of page-table entries.
//!
//! A random cut leaves two ragged edges, where only lower levels fit. A cut on a border leaves none, so that each piece can
//! be probed by whole entries down to the smallest region, one entry of level 1 (2 MiB on x86-64). Source:
//! docs/spec/page-table-profiling.md#s7-2; the maintainer's wish to use upper bits as hints for splitting.

use super::{Levels, StrategyEntry, pick};
use crate::host::{AddressRange, Level};

pub(super) const ENTRY: StrategyEntry = StrategyEntry {
    name: "ptp-aligned",
    summary: "like ptp, with regions cut on borders of page-table entries",
    probes_upper: true,
    walks_down: false,
    smallest: Level(1),
    pick: pick::bounded,
    place: nearest_border,
};

/// Moves a cut to the nearest border of the largest entries that fit twice into `range`. A cut that would then leave a piece
/// below `size_min` stays.
pub(super) fn nearest_border(levels: &Levels, range: AddressRange, offset: u64, size_min: u64) -> u64 {
    debug_assert!(size_min.is_power_of_two(), "borders of entries are multiples of the smallest region or the reverse");
    debug_assert!(0 < offset && offset < range.len(), "a cut leaves something on both sides");
    debug_assert!(2 * u128::from(size_min) <= u128::from(range.len()), "a smaller range is not cut");
    let fits_twice = |level: &Level| 2 * levels.span(*level) <= u128::from(range.len());
    let span = levels.upper().rev().find(fits_twice).map_or(u128::from(levels.page()), |level| levels.span(level));
    let drawn = u128::from(range.start) + u128::from(offset);
    let border = (drawn + span / 2) & !(span - 1);
    let (low, high) = (u128::from(range.start) + u128::from(size_min), u128::from(range.end) - u128::from(size_min));
    let placed = if low <= border && border <= high { border } else { drawn };
    u64::try_from(placed - u128::from(range.start)).expect("within the range")
}

#[cfg(test)]
mod tests {
    use super::super::tests::four;
    use super::*;
    use crate::monitor::split::align_down;

    const GIB: u64 = 1 << 30;

    /// docs/spec/page-table-profiling.md#s9-2, D15.
    #[test]
    fn cuts_fall_on_borders() {
        let range = AddressRange::new(0x10 * GIB, 0x10 * GIB + 512 * GIB);
        let drawn = align_down(3 * range.len() / 10, 4096);
        assert_eq!(drawn, 0x26_6666_6000, "D15");
        assert_eq!(nearest_border(&four(3), range, drawn, 2 << 20), 154 * GIB, "D15");
    }

    #[test]
    fn cuts_stay_where_no_border_is_near() {
        let levels = four(3);
        // (start, end, offset, smallest, expected)
        let table = [
            // Half of a GiB next to a border: rounding would leave nothing on the left.
            (GIB, 3 * GIB, GIB / 10, 2 << 20, GIB / 10),
            // Below twice an entry of level 1, cuts fall on pages.
            (0, 3 << 20, (1 << 20) + 5, 4096, 1 << 20),
            // A ragged start: the nearest border is an odd offset into the range.
            (4096, 4096 + (8 << 20), 3 << 20, 2 << 20, (4 << 20) - 4096),
            // The border would leave less than the smallest region.
            ((2 << 20) - 4096, 6 << 20, 4096, 2 << 20, 4096),
        ];
        for (start, end, offset, size_min, expected) in table {
            let placed = nearest_border(&levels, AddressRange::new(start, end), offset, size_min);
            assert_eq!(placed, expected, "{start:#x}-{end:#x} at {offset:#x}");
        }
    }
}
