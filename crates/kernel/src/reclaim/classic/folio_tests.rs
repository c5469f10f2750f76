//! Worked examples of large folios on the two lists (docs/spec/large-folios.md#f8).

use super::Classic;
use crate::cgroup::CgroupId;
use crate::counters::Counter::{PgActivate, PgStealFile, WorkingsetActivateFile, WorkingsetRefaultFile};
use crate::memory::{CachePage, FileId, Flag, FrameId, KernelRelease, NodeId};
use crate::mmu::SpaceId;
use crate::reclaim::scan_balance::Lru;
use crate::reclaim::{LruvecId, Reclaimer, Scan};
use crate::testkit::Testbed;
use isotherm_units::PageRange;
use isotherm_units::access::{Channel, Run};

const ROOT: CgroupId = CgroupId::ROOT;
const LRUVEC: LruvecId = LruvecId(0);

fn bed() -> (Testbed, FileId) {
    let mut bed = Testbed::with_folios(Box::new(Classic::new()), KernelRelease::V7_2, 4096);
    let file = bed.file("data", 2048);
    (bed, file)
}

/// Folios and pages that one batch of 32 takes off the inactive list.
fn isolated(orders: &[u32]) -> (usize, u64) {
    let (mut bed, file) = bed();
    let mut lists = super::lists::Lists::default();
    lists.add_lruvec(LRUVEC);
    let mut page = 0;
    for &order in orders {
        let page_of = |page: u64| page.next_multiple_of(1 << order);
        let head = if order == 0 {
            bed.cached(ROOT, file, u32::try_from(page).unwrap())
        } else {
            bed.cached_folio(ROOT, file, page_of(page), order)
        };
        page = page_of(page) + (1 << order);
        bed.policy.removed(&mut bed.memory, head);
        lists.push(&mut bed.memory, head, crate::memory::ListEnd::Head);
    }
    lists.check(&bed.memory).unwrap();
    let before = lists.len(LRUVEC, Lru::InactiveFile);
    let mut taken = Vec::new();
    let pages = lists.isolate(&mut bed.memory, LRUVEC, Lru::InactiveFile, 32, &mut taken);
    assert_eq!(lists.len(LRUVEC, Lru::InactiveFile), before - pages);
    assert_eq!(lists.subtree_len(LRUVEC, Lru::InactiveFile), before - pages);
    lists.check(&bed.memory).unwrap();
    (taken.len(), pages)
}

#[test]
fn l13_a_batch_takes_whole_folios() {
    assert_eq!(isolated(&[4; 5]), (2, 32));
    assert_eq!(isolated(&[&[0; 31][..], &[9]].concat()), (32, 543));
    assert_eq!(isolated(&[9, 0, 0]), (1, 512));
}

/// One pass over the root's inactive file list.
fn scan_all(bed: &mut Testbed) -> Scan {
    let node = NodeId(0);
    let mut scan = Scan::new(Reclaimer::Direct, ROOT, u64::MAX, 60);
    scan.priority = 0;
    bed.policy.begin_walk(&mut bed.memory, node, &mut scan);
    bed.policy.shrink_lruvec(&mut bed.memory, LRUVEC, &mut scan);
    bed.check_lists();
    scan
}

/// Maps the first 64 pages of the file at page 0 and touches some.
fn process(bed: &mut Testbed, file: FileId, touched: std::ops::Range<u64>) -> SpaceId {
    let space = bed.process_of(ROOT);
    bed.map_open_file(space, 0, file, 64, false);
    bed.read(space, 32);
    clear_young(bed, space);
    touched.for_each(|page| _ = bed.read(space, page));
    space
}

fn clear_young(bed: &mut Testbed, space: SpaceId) {
    for page in 32..48 {
        let dense = bed.dense(space, page);
        bed.memory.space_mut(space).table.test_and_clear_young(dense);
    }
}

#[test]
fn l14_a_mapping_counts_once() {
    let flags = |bed: &Testbed, head| [Flag::Active, Flag::Referenced].map(|flag| bed.memory.frames.has(head, flag));
    // Five young entries of one process: kept. One of each of two: activated.
    let (mut bed, file) = bed();
    let head = bed.cached_folio(ROOT, file, 32, 4);
    process(&mut bed, file, 34..39);
    assert_eq!(scan_all(&mut bed).nr_reclaimed, 0);
    assert_eq!((flags(&bed, head), bed.count(PgActivate)), ([false, true], 0));
    let (mut bed, file) = self::bed();
    let head = bed.cached_folio(ROOT, file, 32, 4);
    let spaces = [34, 40].map(|page| (process(&mut bed, file, page..page), page));
    for (space, page) in spaces {
        clear_young(&mut bed, space);
        bed.read(space, page);
    }
    assert_eq!(scan_all(&mut bed).nr_reclaimed, 0);
    assert_eq!((flags(&bed, head)[0], bed.count(PgActivate)), (true, 16));
    // Not used: it goes whole.
    let (mut bed, file) = self::bed();
    bed.cached_folio(ROOT, file, 32, 4);
    let space = process(&mut bed, file, 0..0);
    assert_eq!(bed.memory.space(space).nr_resident, 16);
    assert_eq!((scan_all(&mut bed).nr_reclaimed, bed.count(PgStealFile)), (16, 16));
    assert_eq!((bed.memory.space(space).nr_resident, bed.memory.nodes.nr_used()), (0, 0));
    let left = bed.memory.files.get(file);
    assert_eq!((left.nr_cached, left.nr_shadows), (0, 16), "each page finds the one shadow");
    let shadows: Vec<CachePage> = (32..48).map(|page| left.page(page)).collect();
    assert!(matches!(shadows[0], CachePage::Shadow(_)) && shadows.iter().all(|shadow| *shadow == shadows[0]));
}

/// Evicts these folios, oldest first, while the lruvec's age is 1000.
fn evicted(bed: &mut Testbed, heads: &[FrameId]) {
    bed.memory.nonresident_age[0] = 1000;
    let pages = bed.memory.frames.pages_of(heads);
    assert_eq!(scan_all(bed).nr_reclaimed, pages);
    assert_eq!(bed.memory.nonresident_age[0], 1000 + pages);
}

fn refaults(bed: &Testbed) -> [u64; 2] {
    [WorkingsetRefaultFile, WorkingsetActivateFile].map(|counter| bed.count(counter))
}

/// Active pages of another file: the size of the working set that a refault competes with.
fn active(bed: &mut Testbed, nr: u32) {
    let file = bed.file("other", 64);
    for page in 0..nr {
        let frame = bed.cached(ROOT, file, page);
        [(), ()].iter().for_each(|()| bed.policy.mark_accessed(&mut bed.memory, frame));
    }
}

#[test]
fn l15_each_page_of_an_evicted_folio_is_a_refault_of_its_own() {
    for (room, is_active) in [(16, true), (15, false)] {
        let (mut bed, file) = bed();
        let head = bed.cached_folio(ROOT, file, 32, 4);
        evicted(&mut bed, &[head]);
        active(&mut bed, room);
        bed.memory.nonresident_age[0] = 1016;
        let frame = bed.cached(ROOT, file, 35);
        assert_eq!(bed.memory.frames.has(frame, Flag::Active), is_active);
        assert_eq!(refaults(&bed), [1, u64::from(is_active)]);
        assert_eq!(bed.memory.nonresident_age[0], 1016 + u64::from(is_active));
        for page in (32..48).filter(|&page| page != 35) {
            bed.cached(ROOT, file, page);
        }
        assert_eq!(refaults(&bed)[0], 16);
        bed.check_lists();
    }
    // As one folio.
    let (mut bed, file) = bed();
    let head = bed.cached_folio(ROOT, file, 32, 4);
    evicted(&mut bed, &[head]);
    active(&mut bed, 16);
    bed.memory.nonresident_age[0] = 1016;
    let head = bed.cached_folio(ROOT, file, 32, 4);
    assert!(bed.memory.frames.has(head, Flag::Active));
    assert_eq!((refaults(&bed), bed.memory.nonresident_age[0]), ([16, 16], 1032));
}

#[test]
fn l16_the_last_shadow_of_several_counts() {
    for (room, is_active) in [(1, true), (0, false)] {
        let (mut bed, file) = bed();
        let heads: Vec<FrameId> = (32..48).map(|page| bed.cached(ROOT, file, page)).collect();
        evicted(&mut bed, &heads);
        active(&mut bed, room);
        bed.memory.nonresident_age[0] = 1016;
        let head = bed.cached_folio(ROOT, file, 32, 4);
        assert_eq!((bed.memory.frames.has(head, Flag::Active), refaults(&bed)[0]), (is_active, 16), "distance 1");
    }
}

/// Sixteen reads of 4 KiB in one folio are one use; a second pass over it activates it.
#[test]
fn reads_within_a_folio_are_one_use() {
    let (mut bed, file) = bed();
    let space = bed.process_of(ROOT);
    bed.map_open_file(space, 0, file, 64, false);
    let head = bed.cached_folio(ROOT, file, 32, 4);
    let read =
        |bed: &mut Testbed, page, pages| bed.call(space, Run::read(page, pages).through(Channel::FileDescriptor));
    for page in 32..48 {
        read(&mut bed, page, 1);
    }
    let has = |bed: &Testbed, flag| bed.memory.frames.has(head, flag);
    assert!(has(&bed, Flag::Referenced) && !has(&bed, Flag::Active));
    bed.cached(ROOT, file, 0);
    read(&mut bed, 0, 1);
    read(&mut bed, 33, 9);
    assert!(has(&bed, Flag::Active) && bed.count(PgActivate) == 16);
    bed.check_lists();
    let part = PageRange::new(32, 40);
    bed.unmap(space, part);
    assert_eq!(bed.memory.files.get(file).nr_cached, 17, "a part of a mapping goes, the folio stays");
    bed.check_lists();
}
