//! Oracles of docs/spec/page-table-profiling.md#s3-2 and #s6-7.

use super::*;
use crate::mmu::config::{MmuConfig, TableKind};
use crate::mmu::table::{Cursor, Pace, PageTable, Stop};
use crate::mmu::{Level, SpaceId};
use isotherm_units::PageRange;
use isotherm_units::access::Run;
use rand_core::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use std::collections::BTreeSet;

const GIB: u64 = 1 << 18;
const SPACE: SpaceId = SpaceId(7);
/// Larger than anything that is touched here.
const INFINITE_TLB: TranslationConfig = TranslationConfig { tlb_entries: 1 << 20, tlb_ways: 8, ..NO_CACHES };
const NO_CACHES: TranslationConfig = TranslationConfig {
    tlb_entries: 0,
    tlb_ways: 1,
    pde_entries: 0,
    pdpte_entries: 0,
    pml4_entries: 0,
    pml5_entries: 0,
    pcid: true,
};

struct Rig {
    table: PageTable,
    caches: Caches,
}

impl Rig {
    /// `pages` of premapped memory under `config`.
    fn new(config: &TranslationConfig, pages: PageRange) -> Self {
        assert_eq!(config.first_error(), None);
        let mmu = MmuConfig { preset_accessed: false, translation: Some(config.clone()), ..MmuConfig::default() };
        let mut table = PageTable::of_kind(mmu.table_kind());
        table.premap(pages, false);
        let mut caches = Caches::new(config, mmu.levels);
        caches.switch_to(SPACE);
        Self { table, caches }
    }
    fn touch(&mut self, page: u64) {
        assert_eq!(play(&mut self.table, &mut self.caches, page), Stop::Done);
    }
    fn young(&self, level: Level, page: u64) -> bool {
        self.table.is_entry_young(level, page)
    }
    fn take(&mut self, level: Level, page: u64) -> bool {
        self.table.take_entry_young(level, page)
    }
}

fn play<T: Translation>(table: &mut PageTable, translation: &mut T, page: u64) -> Stop {
    let mut pace = Pace { until_ns: 9, page_ns: 1, ..Pace::default() };
    table.play_in(translation, &BTreeSet::new(), &[Run::read(page, 1)], &mut Cursor::default(), &mut pace)
}

fn below(random: &mut Xoshiro256PlusPlus, bound: u64) -> u64 {
    u64::try_from((u128::from(random.next_u64()) * u128::from(bound)) >> 64).expect("a high half")
}

/// U1: with paging-structure caches that hold everything, a cleared upper bit is never set again.
#[test]
fn u1_with_an_infinite_cache_a_cleared_upper_bit_stays_clear() {
    let config = TranslationConfig {
        pde_entries: 4096,
        pdpte_entries: 4096,
        pml4_entries: 4096,
        pml5_entries: 4096,
        ..NO_CACHES
    };
    let mut rig = Rig::new(&config, PageRange::at(100, 4 * GIB));
    let pages: Vec<u64> = (0..4).map(|gib| 100 + gib * GIB).collect();
    pages.iter().for_each(|&page| rig.touch(page));
    for &page in &pages {
        assert!(Level::UPPER[..3].iter().all(|&level| rig.take(level, page) || level == Level::P4D));
        assert!(rig.take(Level::LEAF, page));
    }
    for _ in 0..100 {
        pages.iter().for_each(|&page| rig.touch(page));
    }
    for &page in &pages {
        assert!(rig.young(Level::LEAF, page), "there is no TLB: every walk reads the leaf");
        assert!(Level::UPPER.iter().all(|&level| !rig.young(level, page)), "{page}");
    }
    rig.caches.flush(SPACE);
    rig.touch(pages[0]);
    assert!(Level::UPPER[..3].iter().all(|&level| rig.young(level, pages[0])), "a flush ends it");
}

/// U2: without caches the bits equal those of a machine that walks from the top at every access.
#[test]
fn u2_without_caches_nothing_changes() {
    let span = PageRange::at(70_000, 3 * GIB);
    let mut with = Rig::new(&NO_CACHES, span);
    let mut without = PageTable::of_kind(TableKind { preset: false, ..TableKind::default() });
    without.premap(span, false);
    let mut random = Xoshiro256PlusPlus::seed_from_u64(3);
    for step in 0..4000 {
        let page = span.start + below(&mut random, span.len());
        if step % 5 == 0 {
            let level = Level::new(u8::try_from(step / 5 % 4).unwrap()).unwrap();
            assert_eq!(with.take(level, page), without.take_entry_young(level, page), "step {step}");
        } else {
            with.touch(page);
            assert_eq!(play(&mut without, &mut Off, page), Stop::Done);
        }
    }
    for level in [Level::PMD, Level::PUD, Level::P4D] {
        assert_eq!(with.table.take_children(level, span.start), without.take_children(level, span.start));
    }
}

/// U3: 1 GiB in a TLB that holds all of it: once all pages were used, no bit is set any more.
#[test]
fn u3_with_an_infinite_tlb_no_bit_comes_back() {
    let span = PageRange::at(5, GIB);
    let mut rig = Rig::new(&INFINITE_TLB, span);
    (span.start..span.end).for_each(|page| rig.touch(page));
    for block in 0..=512 {
        rig.table.take_children(Level::PMD, span.start + block * 512);
    }
    for level in [Level::PUD, Level::P4D] {
        rig.table.take_children(level, 5);
    }
    rig.table.take_children(Level::PUD, span.end);
    rig.take(Level::P4D, 5);
    (span.start..span.end).for_each(|page| rig.touch(page));
    let any = |level: Level| (span.start..span.end).step_by(509).any(|page| rig.young(level, page));
    assert!([Level::LEAF, Level::PMD, Level::PUD, Level::P4D].into_iter().all(|level| !any(level)));
}

/// Section 3.2: a TLB-missing access reads the 2 MiB word again with chance 1 - min(1, c / n).
#[test]
fn reload_chances_are_those_of_the_closed_form() {
    // (hot pages, entries of the cache, n = hot 2 MiB entries, expected reloads per thousand walks)
    let table = [(5120 * 512, 32, 994), (512 * 512, 32, 937), (50 * 512, 32, 360), (32 * 512, 32, 0)];
    for (hot_pages, pde_entries, expected_permille) in table {
        let config = TranslationConfig { pde_entries, ..NO_CACHES };
        let mut caches = Caches::new(&config, 4);
        caches.switch_to(SPACE);
        let mut random = Xoshiro256PlusPlus::seed_from_u64(11);
        let walk = |_| caches.walk(below(&mut random, hot_pages), || Level::LEAF).has(Level::PMD);
        let walks: Vec<bool> = (0..22_000).map(walk).collect();
        let reloads = walks[2000..].iter().filter(|&&reloaded| reloaded).count() / 20;
        assert!(reloads.abs_diff(expected_permille) <= 12, "{hot_pages} pages: {reloads}, not {expected_permille}");
    }
}

/// Section 3.2: with 10 of 11 entries of 1 GiB hot and 4 cached, about 0.6 of the walks read the 1 GiB word; with 2, none.
#[test]
fn the_1_gib_words_are_read_again_only_where_they_do_not_fit() {
    for (gib, expected_permille) in [(10, 596), (2, 0)] {
        let mut caches = Caches::new(&TranslationConfig::default(), 4);
        caches.switch_to(SPACE);
        let mut random = Xoshiro256PlusPlus::seed_from_u64(12);
        let (mut walks, mut reloads, mut tops) = (0, 0, 0);
        for step in 0..60_000 {
            let reads = caches.walk(below(&mut random, gib * GIB), || Level::LEAF);
            if step >= 5000 && reads != Reads::NONE {
                walks += 1;
                reloads += u64::from(reads.has(Level::PUD));
                tops += u64::from(reads.has(Level::P4D));
            }
        }
        let permille = reloads * 1000 / walks;
        assert!(permille.abs_diff(expected_permille) <= 12, "{gib} GiB: {permille}");
        assert_eq!(tops, 0, "one entry of 512 GiB never leaves its cache");
    }
}

#[test]
fn a_hit_in_a_lower_cache_hides_all_words_above() {
    let mut caches = Caches::new(&TranslationConfig { tlb_entries: 0, ..TranslationConfig::default() }, 5);
    caches.switch_to(SPACE);
    let mut reads = |page: u64, leaf: Level| {
        let reads = caches.walk(page, || leaf);
        (0..5).filter(|&level| reads.has(Level::new(level).unwrap())).collect::<Vec<u8>>()
    };
    assert_eq!(reads(0, Level::LEAF), [0, 1, 2, 3, 4], "the first walk reads everything");
    assert_eq!(reads(511, Level::LEAF), [0], "the same table of base pages");
    assert_eq!(reads(512, Level::LEAF), [0, 1], "the same 1 GiB");
    assert_eq!(reads(GIB, Level::LEAF), [0, 1, 2], "the same 512 GiB");
    assert_eq!(reads(512 * GIB, Level::LEAF), [0, 1, 2, 3], "the same 256 TiB");
    assert_eq!(reads(1024, Level::PMD), [1], "a huge page ends one level up");
    assert_eq!(reads(1024, Level::PMD), [1], "and its entry is no paging structure");
}

#[test]
fn the_tlb_is_shared_by_both_page_sizes_and_evicts_the_least_recently_used() {
    let config = TranslationConfig { tlb_entries: 4, tlb_ways: 2, ..NO_CACHES };
    let mut caches = Caches::new(&config, 4);
    caches.switch_to(SPACE);
    let mut hits = |page: u64, leaf: Level| caches.walk(page, || leaf) == Reads::NONE;
    // Two sets: even and odd numbers.
    assert_eq!([0, 2, 0, 4, 0, 2].map(|page| hits(page, Level::LEAF)), [false, false, true, false, true, false]);
    assert!(!hits(512 * 4 + 7, Level::PMD), "block 4 goes to the even set");
    assert!(hits(512 * 4 + 400, Level::PMD), "one entry for 2 MiB");
    assert!(!hits(0, Level::LEAF), "pushed out by it");
    assert!(!hits(1, Level::LEAF) && hits(1, Level::LEAF), "the odd set was not disturbed");
}

/// Events: flush of a space, one page, a context switch with and without PCID.
#[test]
fn events_drop_what_they_drop_on_the_processor() {
    let other = SpaceId(8);
    let first_walk = |caches: &mut Caches, page| caches.walk(page, || Level::LEAF);
    let all = Reads::levels(Level::LEAF, 4);
    let mut caches = Caches::new(&TranslationConfig::default(), 4);
    caches.switch_to(SPACE);
    assert_eq!(first_walk(&mut caches, 3), all);
    assert_eq!(first_walk(&mut caches, 3), Reads::NONE);

    caches.invalidate_page(SPACE, 9_999_999);
    assert_eq!(first_walk(&mut caches, 3), Reads::NONE, "the translation of another page stays");
    assert_eq!(first_walk(&mut caches, 4), all, "but all cached upper words of the space went");
    caches.invalidate_page(SPACE, 3);
    assert_eq!(first_walk(&mut caches, 3), all);

    caches.switch_to(other);
    assert_eq!(first_walk(&mut caches, 3), all, "another space's page 3");
    caches.switch_to(SPACE);
    assert_eq!(first_walk(&mut caches, 3), Reads::NONE, "kept under PCID");
    caches.flush(other);
    assert_eq!(first_walk(&mut caches, 3), Reads::NONE, "flushes spare other spaces");
    caches.flush(SPACE);
    assert_eq!(first_walk(&mut caches, 3), all);

    (20..26).for_each(|space| caches.switch_to(SpaceId(space)));
    caches.switch_to(SPACE);
    assert_eq!(first_walk(&mut caches, 3), all, "a core knows six spaces");

    let mut caches = Caches::new(&TranslationConfig { pcid: false, ..TranslationConfig::default() }, 4);
    caches.switch_to(SPACE);
    first_walk(&mut caches, 3);
    caches.switch_to(SPACE);
    assert_eq!(first_walk(&mut caches, 3), Reads::NONE, "no switch, no flush");
    caches.switch_to(other);
    caches.switch_to(SPACE);
    assert_eq!(first_walk(&mut caches, 3), all);
}

/// T7: with a flush, a cleared parent that stays clear means that all children stay clear.
#[test]
fn t7_after_a_flush_a_clear_parent_has_clear_children() {
    let span = PageRange::at(1000, 6 * GIB);
    let mut rig = Rig::new(&TranslationConfig::default(), span);
    let mut random = Xoshiro256PlusPlus::seed_from_u64(5);
    for _ in 0..20 {
        for gib in 0..7 {
            let page = span.start + gib * GIB;
            for block in 0..512 {
                rig.table.take_children(Level::PMD, page + block * 512);
            }
            rig.table.take_children(Level::PUD, page);
            rig.take(Level::PUD, page);
        }
        rig.caches.flush(SPACE);
        let hot = below(&mut random, 6 * GIB - 2000);
        (0..2000).for_each(|offset| rig.touch(span.start + hot + offset));
        for page in (span.start..span.end).step_by(256) {
            assert!(rig.young(Level::PUD, page) || !rig.young(Level::PMD, page), "{page}");
            assert!(rig.young(Level::PMD, page) || !rig.young(Level::LEAF, page), "{page}");
        }
        assert!(rig.young(Level::PUD, span.start + hot) && rig.young(Level::LEAF, span.start + hot));
    }
}

/// Errors about bad sizes name the allowed ones.
#[test]
fn sizes_out_of_range_are_refused() {
    let default = TranslationConfig::default;
    let cases = [
        (TranslationConfig { tlb_entries: 1000, ..default() }, "mmu.translation.tlb-entries"),
        (TranslationConfig { tlb_entries: 12 * 3, ..default() }, "mmu.translation.tlb-entries"),
        (TranslationConfig { tlb_ways: 0, ..default() }, "mmu.translation.tlb-ways"),
        (TranslationConfig { pdpte_entries: 5000, ..default() }, "mmu.translation.pdpte-entries"),
    ];
    for (config, key) in cases {
        assert_eq!(config.first_error().map(|(key, ..)| key), Some(key));
    }
    assert_eq!((default().first_error(), NO_CACHES.first_error()), (None, None));
}
