//! The choice of the entry to probe: a pure rule over any vector of shifts (docs/spec/page-table-profiling.md#s2).

use super::Levels;
use crate::host::{AddressRange, Level};

/// The highest level whose entry on the way to `address` lies within `region`.
///
/// Spans nest, so the first level that does not fit ends the search. The result depends on the address: at its ragged
/// edges a region is probed at lower levels than in the middle.
pub(super) fn bounded(levels: &Levels, region: AddressRange, address: u64) -> Level {
    debug_assert!(region.start <= address && address < region.end, "the address stands for its region");
    let mut picked = Level::LEAF;
    for level in levels.upper() {
        let (start, end) = levels.entry(level, address);
        if start < u128::from(region.start) || end > u128::from(region.end) {
            break;
        }
        picked = level;
    }
    picked
}

/// The highest level whose entry has no larger share outside `region` than that level tolerates, in millionths.
///
/// The part outside leaks in: an access to a neighbour there counts as one to the region.
pub(super) fn tolerant(levels: &Levels, region: AddressRange, address: u64) -> Level {
    debug_assert!(region.start <= address && address < region.end, "the address stands for its region");
    let fits = |level: &Level| {
        let (start, end) = levels.entry(*level, address);
        let inside = end.min(u128::from(region.end)).saturating_sub(start.max(u128::from(region.start)));
        let outside = end - start - inside;
        outside * 1_000_000 <= u128::from(levels.leak_ppm(*level)) * (end - start)
    };
    levels.upper().rev().find(fits).unwrap_or(Level::LEAF)
}

#[cfg(test)]
mod tests {
    use super::super::tests::{five, four};
    use super::*;

    const GIB: u64 = 1 << 30;

    /// docs/spec/page-table-profiling.md#s9-1, E1 to E15. The level is the index into the shifts; where tables of four levels,
    /// of four with page-table isolation, of five and of five with isolation differ, all are given.
    #[test]
    fn the_highest_entry_inside_the_region_is_probed() {
        let table: [(&str, u64, u64, u64, [u8; 4]); 17] = [
            ("E1", 0x4000_0000, 0x8000_0000, 0x5a3c_1000, [2; 4]),
            ("E2", 0x4000_0000, 0x7fff_f000, 0x5a3c_1000, [1; 4]),
            ("E3", 0x3ff0_0000, 0xc010_0000, 0x3ff8_0000, [0; 4]),
            ("E4", 0x3ff0_0000, 0xc010_0000, 0x4000_0000, [2; 4]),
            ("E5", 0x3ff0_0000, 0xc010_0000, 0xc000_0000, [0; 4]),
            ("E6", 0x20_0000, 0x40_0000, 0x2f_f000, [1; 4]),
            ("E7", 0x20_1000, 0x40_0000, 0x2f_f000, [0; 4]),
            ("E8", 0x7f00_0000_1000, 0x7f00_0000_3000, 0x7f00_0000_2000, [0; 4]),
            ("E9", 0x7f00_0000_0000, 0x7f80_0000_0000, 0x7f12_3456_7000, [3, 2, 3, 3]),
            ("E10", 0x7f00_0000_0000, 0x7f7f_ffff_f000, 0x7f12_3456_7000, [2; 4]),
            ("E11", 0x7e80_0000_0000, 0x7f80_0000_1000, 0x7f80_0000_0000, [0; 4]),
            ("E12", 0, 0x80_0000_0000, 0x1_2345_6000, [3, 2, 3, 3]),
            ("E13", 0x1000, 0x80_0000_0000, 0x1_2345_6000, [2; 4]),
            ("E14", 0, 0x1_0000_0000_0000, 0x7f12_3456_7000, [3, 2, 4, 3]),
            ("E15", 0x10_0000, 0x2f_f000, 0x20_0000, [0; 4]),
            // The end of the address space needs no special case: section 2.3, last rows.
            ("2.3", 0xffff_ff80_0000_0000, u64::MAX, 0xffff_ffff_ffff_0000, [0; 4]),
            ("2.3", 0xffff_ff80_0000_0000, u64::MAX, 0xffff_ff80_0000_0000, [2; 4]),
        ];
        for (id, start, end, address, expected) in table {
            let region = AddressRange::new(start, end);
            let machines = [four(3), four(2), five(4), five(3)];
            for (levels, expected) in machines.iter().zip(expected) {
                assert_eq!(bounded(levels, region, address), Level(expected), "{id} with {levels:?}");
            }
        }
    }

    /// Share of `region` that is probed at `level` or above, by the closed form of section 2.2.
    fn share(levels: &Levels, level: u8, region: AddressRange) -> f64 {
        let (first, _) = levels.entry(Level(level), region.start);
        let span = levels.span(Level(level));
        let ceil = if first < u128::from(region.start) { first + span } else { first };
        let (floor, _) = levels.entry(Level(level), region.end);
        floor.saturating_sub(ceil) as f64 / region.len() as f64
    }

    /// docs/spec/page-table-profiling.md#s9-1, E16 to E18, and that the rule agrees with the closed form.
    #[test]
    fn shares_of_a_region_probed_at_each_level() {
        let levels = four(3);
        let table: [(&str, AddressRange, [f64; 3]); 3] = [
            ("E16", AddressRange::new(0x3ff0_0000, 0xc010_0000), [0.99902, 0.99902, 0.0]),
            ("E17", AddressRange::new(GIB / 2, 7 * GIB / 2), [1.0, 0.666_667, 0.0]),
            ("E18", AddressRange::new(100 * GIB + 4096, 612 * GIB + 4096), [0.999_996, 0.998_047, 0.0]),
        ];
        for (id, region, expected) in table {
            for (level, expected) in (1..).zip(expected) {
                assert!((share(&levels, level, region) - expected).abs() < 5e-6, "{id} level {level}");
            }
        }
        let (_, region, [pmd, pud, _]) = table[0];
        let pages = (region.start..region.end).step_by(4096);
        let (mut at_pmd, mut at_pud, mut all) = (0, 0, 0);
        for page in pages {
            let level = bounded(&levels, region, page).0;
            (at_pmd, at_pud, all) = (at_pmd + u32::from(level >= 1), at_pud + u32::from(level >= 2), all + 1);
        }
        assert!((f64::from(at_pmd) / f64::from(all) - pmd).abs() < 1e-4);
        assert!((f64::from(at_pud) / f64::from(all) - pud).abs() < 1e-4);
    }

    #[test]
    fn tolerance_lets_an_entry_reach_out_of_the_region() {
        // 1.75 MiB of the entry at 2 MiB: one eighth outside.
        let region = AddressRange::new(0x24_0000, 0x40_0000);
        assert_eq!(bounded(&four(3), region, 0x30_0000), Level(0));
        assert_eq!(tolerant(&four(3).with_leaks(&[125_000]), region, 0x30_0000), Level(1));
        assert_eq!(tolerant(&four(3).with_leaks(&[124_999]), region, 0x30_0000), Level(0));
    }

    proptest::proptest! {
        /// Section 5.3: no tolerance is the bounded rule.
        #[test]
        fn no_tolerance_is_the_bounded_rule(start: u64, len in 1u64.., offset: u64) {
            let region = AddressRange::new(start, start.saturating_add(len));
            proptest::prop_assume!(!region.is_empty());
            let address = start + offset % region.len();
            for levels in [four(3), five(4)] {
                let strict = levels.clone().with_leaks(&[0]);
                proptest::prop_assert_eq!(tolerant(&strict, region, address), bounded(&levels, region, address));
            }
        }
    }
}
