//! Worked examples of large folios in generations (docs/spec/large-folios.md#f8).

use super::ageing::Effort;
use super::tests::ROOT;
use super::*;
use crate::counters::Counter;
use crate::memory::KernelRelease;
use crate::reclaim::scan_balance::PageType;
use crate::testkit::Testbed;

fn bed(release: KernelRelease) -> Testbed {
    let baseline = Some(release.into());
    Testbed::with_folios(
        Box::new(Mglru::with_config(MglruConfig { baseline, ..MglruConfig::default() })),
        release,
        1 << 16,
    )
}

/// Gives up generations that are empty: 6.12 puts new pages into the second oldest.
fn flush(bed: &mut Testbed) {
    bed.mglru(|mglru, _| {
        let baseline = mglru.baseline;
        mglru.generations.get_mut(ROOT).flush_min_seq(0, baseline);
    });
}

/// A hundred folios of this order in the oldest generation, and what one scan for `wanted` of them finds: folios taken off, their pages,
/// pages scanned. `limit`: the highest tier that is not spared; all are of tier 1.
fn scanned(release: KernelRelease, order: u32, wanted: u64, limit: usize) -> (usize, u64, u64) {
    let mut bed = bed(release);
    let file = bed.file("data", 100 << order);
    let heads: Vec<FrameId> = (0..100).map(|at| bed.cached_folio(CgroupId::ROOT, file, at << order, order)).collect();
    for &head in &heads {
        [(), ()].iter().for_each(|()| bed.policy.mark_accessed(&mut bed.memory, head));
    }
    assert!(heads.iter().all(|&head| bed.mglru(|mglru, _| mglru.baseline.tier(mglru.generations.state(head))) == 1));
    assert_eq!(bed.policy.sizes(ROOT).file(), 100 << order);
    flush(&mut bed);
    let found = bed.mglru(|mglru, memory| {
        let found = mglru.scan_type(memory, ROOT, PageType::File, wanted, limit);
        (found.pages.len(), memory.frames.pages_of(&found.pages), found.scanned)
    });
    let sorted = bed.count(Counter::PgRefill);
    assert_eq!(sorted, found.2 - found.1);
    if sorted > 0 {
        let own = bed.mglru(|mglru, _| mglru.generations.get(ROOT).history[PageType::File as usize].protected[1]);
        assert_eq!(own, sorted, "pages are protected, not folios");
    }
    bed.policy.check(&bed.memory).unwrap();
    found
}

#[test]
fn l17_the_budget_is_of_folios_and_the_stop_of_pages() {
    use KernelRelease::{V6_12, V7_2};
    assert_eq!(scanned(V7_2, 4, 64, 3), (4, 64, 64));
    assert_eq!(scanned(V7_2, 4, 64, 0), (0, 0, 1024));
    assert_eq!(scanned(V6_12, 4, 4096, 0), (0, 0, 1600));
    for wanted in [64, 32] {
        assert_eq!(scanned(V7_2, 9, wanted, 3), (1, 512, 512));
    }
}

#[test]
fn l18_young_entries_of_a_walk() {
    for (release, young, is_visited) in [(KernelRelease::V6_12, 8, 0), (KernelRelease::V7_2, 128, 1)] {
        let mut bed = bed(release);
        let file = bed.file("data", 512);
        (0..32).for_each(|at| _ = bed.cached_folio(CgroupId::ROOT, file, at << 4, 4));
        let space = bed.process_of(CgroupId::ROOT);
        bed.map_open_file(space, 0, file, 512, false);
        (0..512).for_each(|page| _ = bed.read(space, page));
        for page in (0..512).filter(|page| page % 16 != 3 || page / 16 >= 8) {
            let dense = bed.dense(space, page);
            bed.memory.space_mut(space).table.test_and_clear_young(dense);
        }
        bed.age(Effort::Forced);
        let (stats, history) = bed.mglru(|mglru, _| {
            let own = mglru.generations.get(ROOT);
            (own.walk.stats, own.nr.map(|nr| nr[PageType::File as usize]))
        });
        assert_eq!(stats.nonleaf_added, is_visited, "{release}: {young} of 512");
        assert_eq!(history.iter().sum::<u64>(), 512);
        // 6.12 makes them young, 7.2 only notes the first sight.
        let youngest = bed.mglru(|mglru, _| mglru.generations.get(ROOT).max_seq - 1);
        let moved = history[super::generations::list_of(youngest)];
        assert_eq!(moved, if release == KernelRelease::V6_12 { 128 } else { 0 });
        bed.check_lists();
    }
}

/// Evicted as one, back as one: counts are of pages.
#[test]
fn a_folio_comes_back_with_all_its_pages() {
    for release in KernelRelease::ALL {
        let mut bed = bed(release);
        let file = bed.file("data", 512);
        bed.cached_folio(CgroupId::ROOT, file, 32, 4);
        flush(&mut bed);
        let scan = bed.evict(64, 0);
        assert_eq!((scan.nr_reclaimed, bed.count(Counter::PgStealFile)), (16, 16), "{release}");
        let evicted = bed.mglru(|mglru, _| mglru.generations.get(ROOT).history[PageType::File as usize].evicted);
        assert_eq!(evicted[0], 16);
        bed.cached_folio(CgroupId::ROOT, file, 32, 4);
        let refaulted = bed.mglru(|mglru, _| mglru.generations.get(ROOT).history[PageType::File as usize].refaulted);
        assert_eq!((refaulted[0], bed.count(Counter::WorkingsetRefaultFile)), (16, 16), "{release}");
        bed.check_lists();
    }
}
