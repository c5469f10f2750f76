//! Worked examples of the spec (classic-lru 8), on small machines.

use crate::cgroup::CgroupId;
use crate::counters::Counter;
use crate::memory::{CachePage, Flag, FrameId};
use crate::mmu::{Entry, SpaceId};
use crate::reclaim::driver::{Attempt, ReclaimStep};
use crate::reclaim::{Hint, ListSizes, Reclaimer, Scan};
use crate::swap::SlotId;
use crate::swap::device::DeviceKind;
use crate::testkit::{Testbed, Touch};
use isotherm_units::PageRange;

use super::Classic;

const ROOT: CgroupId = CgroupId::ROOT;

fn bed(frames: u64, swap: DeviceKind) -> Testbed {
    Testbed::new(Box::new(Classic::new()), frames, swap, 4096)
}

fn sizes(bed: &Testbed) -> ListSizes {
    bed.policy.sizes(bed.memory.lruvec(ROOT, crate::memory::NodeId(0)))
}

/// One pass over the root's lists at priority 0.
fn scan_all(bed: &mut Testbed) -> Scan {
    let node = crate::memory::NodeId(0);
    let mut scan = Scan::new(Reclaimer::Direct, ROOT, u64::MAX, 60);
    scan.priority = 0;
    bed.policy.begin_walk(&mut bed.memory, node, &mut scan);
    let lruvec = bed.memory.lruvec(ROOT, node);
    bed.policy.shrink_lruvec(&mut bed.memory, lruvec, &mut scan);
    bed.check_lists();
    scan
}

fn flags(bed: &Testbed, frame: FrameId) -> (bool, bool) {
    (bed.memory.frames.has(frame, Flag::Active), bed.memory.frames.has(frame, Flag::Referenced))
}

#[test]
fn c1_mark_accessed() {
    let mut bed = bed(8, DeviceKind::Zram);
    let file = bed.file("data", 1);
    let frame = bed.cached(ROOT, file, 0);
    // (active, referenced), age of the lruvec after each of four calls.
    let table = [((false, true), 0), ((true, false), 1), ((true, true), 1), ((true, true), 1)];
    for (call, (expected, age)) in table.into_iter().enumerate() {
        bed.policy.mark_accessed(&mut bed.memory, frame);
        assert_eq!((flags(&bed, frame), bed.memory.nonresident_age[0]), (expected, age), "call {}", call + 1);
    }
    assert_eq!((bed.count(Counter::PgActivate), sizes(&bed).active_file), (1, 1));
}

#[test]
fn c2_check_table_anonymous() {
    for used_again in [true, false] {
        let mut bed = bed(8, DeviceKind::Zram);
        let space = bed.space(ROOT, 1);
        bed.write(space, 0);
        let frame = bed.frame(space, 0).unwrap();
        assert_eq!(scan_all(&mut bed).nr_reclaimed, 0);
        assert_eq!(flags(&bed, frame), (false, true), "kept, referenced");
        if used_again {
            bed.read(space, 0);
        }
        let reclaimed = scan_all(&mut bed).nr_reclaimed;
        assert_eq!((reclaimed, bed.count(Counter::PgActivate)), if used_again { (0, 1) } else { (1, 0) });
        assert_eq!(bed.frame(space, 0).is_some(), used_again);
    }
}

#[test]
fn c2_check_table_file() {
    // Unmapped, `referenced` or not: clean pages go, dirty ones are activated and marked for the end of their write.
    for referenced in [false, true] {
        let mut bed = bed(8, DeviceKind::Zram);
        let file = bed.file("data", 2);
        let (clean, dirty) = (bed.cached(ROOT, file, 0), bed.cached(ROOT, file, 1));
        bed.memory.dirty_file_page(dirty);
        if referenced {
            bed.policy.mark_accessed(&mut bed.memory, clean);
            bed.policy.mark_accessed(&mut bed.memory, dirty);
        }
        assert_eq!(scan_all(&mut bed).nr_reclaimed, 1);
        assert!(matches!(bed.memory.files.get(file).page(0), CachePage::Shadow(_)));
        assert!(bed.memory.frames.has(dirty, Flag::Reclaim) && flags(&bed, dirty).0);
        assert_eq!((bed.count(Counter::PgActivate), bed.count(Counter::PgStealFile)), (1, 1));
        // The flusher was not needed (one of two was clean); once the page is written it goes to the cold tail.
        bed.memory.wake_flusher();
        bed.settle();
        assert_eq!((flags(&bed, dirty).0, bed.count(Counter::PgRotated)), (false, 1));
        assert_eq!(scan_all(&mut bed).nr_reclaimed, 1);
    }
}

#[test]
fn nothing_but_dirty_pages_wakes_the_flusher() {
    let mut bed = bed(8, DeviceKind::Zram);
    let file = bed.file("data", 3);
    for page in 0..3 {
        let frame = bed.cached(ROOT, file, page);
        bed.memory.dirty_file_page(frame);
    }
    let scan = scan_all(&mut bed);
    assert_eq!((scan.taken.pages, scan.taken.dirty_unqueued), (3, 3));
    assert_eq!((bed.memory.io.writes_in_flight(), bed.memory.flusher.nr_dirty()), (3, 0));
}

#[test]
fn c2_check_table_mapped_file() {
    // (executable, mappings that used it) -> activated?
    for (executable, nr_users, activated) in [(false, 1, false), (true, 1, true), (false, 2, true)] {
        let mut bed = bed(16, DeviceKind::Zram);
        let file = bed.file("data", 1);
        for _ in 0..nr_users {
            let space = bed.space(ROOT, 1);
            bed.map_open_file(space, 100, file, 1, executable);
            bed.read(space, 100);
        }
        assert_eq!(scan_all(&mut bed).nr_reclaimed, 0);
        assert_eq!(bed.count(Counter::PgActivate), u64::from(activated), "{executable} {nr_users}");
        assert_eq!(sizes(&bed).active_file, u64::from(activated), "{executable} {nr_users}");
    }
}

#[test]
fn processes_outside_the_group_do_not_count() {
    let mut bed = bed(16, DeviceKind::Zram);
    let (group, other) = (bed.group(ROOT, "a"), bed.group(ROOT, "b"));
    bed.memory.cgroups.charge_batch = 1;
    let file = bed.file("data", 1);
    let (space, outside) = (bed.space(group, 1), bed.space(other, 1));
    bed.map_open_file(space, 100, file, 1, false);
    bed.map_open_file(outside, 100, file, 1, false);
    bed.read(space, 100);
    bed.read(outside, 100);
    let (mine, theirs) = ((space, 100), (outside, 100));
    let young = |bed: &Testbed, (space, page): (SpaceId, u64)| {
        let table = &bed.memory.space(space).table;
        table.is_young(table.dense(page).unwrap())
    };
    let mut scan = Scan::new(Reclaimer::Limit, group, 32, 60);
    scan.priority = 0;
    bed.policy.begin_walk(&mut bed.memory, crate::memory::NodeId(0), &mut scan);
    let lruvec = bed.memory.lruvec(group, crate::memory::NodeId(0));
    bed.policy.shrink_lruvec(&mut bed.memory, lruvec, &mut scan);
    assert_eq!(bed.count(Counter::PgActivate), 0, "one mapping counts, not two");
    assert!(!young(&bed, mine) && young(&bed, theirs), "their bit is left alone");
}

#[test]
fn deactivation_spares_used_code_only() {
    // Spec 3.5: young anonymous pages go to the cold list all the same; young code stays.
    let mut bed = bed(16, DeviceKind::Zram);
    let file = bed.file("program", 2);
    let space = bed.space(ROOT, 2);
    bed.map_open_file(space, 100, file, 1, true);
    bed.map_open_file(space, 200, file, 2, false);
    bed.write(space, 0);
    bed.read(space, 100);
    bed.read(space, 201);
    let frames = [(space, 0), (space, 100), (space, 201)].map(|(space, page)| bed.frame(space, page).unwrap());
    for frame in frames {
        assert!(bed.policy.hint(&mut bed.memory, frame, Hint::Prioritise));
    }
    scan_all(&mut bed);
    assert_eq!(bed.count(Counter::PgRefill), 3);
    assert_eq!(bed.count(Counter::PgDeactivate), 2);
    assert_eq!(frames.map(|frame| flags(&bed, frame).0), [false, true, false]);
    assert_eq!(frames.map(|frame| bed.memory.frames.has(frame, Flag::Workingset)), [true, false, true]);
}

#[test]
fn c6_refault() {
    // (active file, swap) -> recent. 100 active and 50 inactive anonymous pages, distance 500.
    let table = [
        (300, DeviceKind::Zram, false), // room 450
        (400, DeviceKind::Zram, true),  // 550
        (350, DeviceKind::Zram, true),  // 500: the boundary
        (400, DeviceKind::None, false), // 400: anonymous pages cannot make room
    ];
    for (active_file, swap, recent) in table {
        let mut bed = bed(1024, swap);
        let file = bed.file("data", 1000);
        let space = bed.space(ROOT, 150);
        for page in 0..150 {
            bed.write(space, page);
        }
        for page in 0..100 {
            let frame = bed.frame(space, page).unwrap();
            bed.policy.hint(&mut bed.memory, frame, Hint::Prioritise);
        }
        for page in 1..=active_file {
            let frame = bed.cached(ROOT, file, page);
            bed.policy.hint(&mut bed.memory, frame, Hint::Prioritise);
        }
        let evicted = bed.cached(ROOT, file, 0);
        bed.memory.nonresident_age[0] = 1000;
        let shadow = bed.policy.shadow_of(&mut bed.memory, evicted, ROOT);
        assert_eq!(bed.memory.nonresident_age[0], 1001, "an eviction ages the lruvec");
        bed.policy.removed(&mut bed.memory, evicted);
        bed.memory.free_page(evicted, shadow);
        bed.memory.nonresident_age[0] = 1500;
        let back = bed.cached(ROOT, file, 0);
        assert_eq!(flags(&bed, back).0, recent, "{active_file} {swap}");
        let counted =
            [Counter::WorkingsetRefaultFile, Counter::WorkingsetActivateFile].map(|counter| bed.count(counter));
        assert_eq!(counted, [1, u64::from(recent)]);
        assert_eq!(bed.memory.nonresident_age[0], 1500 + u64::from(recent));
        bed.check_lists();
    }
}

#[test]
fn a_restored_page_raises_the_cost_of_its_type() {
    let mut bed = bed(1024, DeviceKind::Zram);
    let file = bed.file("data", 600);
    for page in 1..=512 {
        bed.cached(ROOT, file, page);
    }
    let frame = bed.cached(ROOT, file, 0);
    bed.memory.frames.set(frame, Flag::Workingset);
    let shadow = bed.policy.shadow_of(&mut bed.memory, frame, ROOT);
    bed.policy.removed(&mut bed.memory, frame);
    bed.memory.free_page(frame, shadow);
    // Distance 1; room: nothing is active, so it is not recent.
    assert!(!{
        let back = bed.cached(ROOT, file, 0);
        flags(&bed, back).0
    });
    for page in 1..=512 {
        if let CachePage::Frame(frame) = bed.memory.files.get(file).page(page) {
            bed.policy.hint(&mut bed.memory, frame, Hint::Prioritise);
        }
    }
    let CachePage::Frame(frame) = bed.memory.files.get(file).page(0) else { panic!("resident") };
    bed.memory.frames.set(frame, Flag::Workingset);
    let shadow = bed.policy.shadow_of(&mut bed.memory, frame, ROOT);
    bed.policy.removed(&mut bed.memory, frame);
    bed.memory.free_page(frame, shadow);
    let back = bed.cached(ROOT, file, 0);
    assert!(flags(&bed, back).0 && bed.memory.frames.has(back, Flag::Workingset));
    assert_eq!(bed.count(Counter::WorkingsetRestoreFile), 1);
}

#[test]
fn hints() {
    let mut bed = bed(16, DeviceKind::Zram);
    let file = bed.file("data", 1);
    let frame = bed.cached(ROOT, file, 0);
    let hint = |bed: &mut Testbed, hint| {
        let changed = bed.policy.hint(&mut bed.memory, frame, hint);
        bed.check_lists();
        (changed, flags(bed, frame))
    };
    assert_eq!(hint(&mut bed, Hint::Deprioritise), (false, (false, false)));
    assert_eq!(hint(&mut bed, Hint::Prioritise), (true, (true, false)));
    assert_eq!(hint(&mut bed, Hint::Prioritise), (false, (true, false)));
    assert_eq!(hint(&mut bed, Hint::UnmappedYoung), (true, (true, true)));
    assert_eq!(hint(&mut bed, Hint::Deprioritise), (true, (false, false)));
    assert_eq!(hint(&mut bed, Hint::DeactivateFile), (true, (false, false)));
    let counters = [Counter::PgActivate, Counter::PgDeactivate, Counter::PgRotated].map(|counter| bed.count(counter));
    assert_eq!((counters, bed.memory.nonresident_age[0]), ([1, 1, 1], 0));
}

#[test]
fn lazily_freed_pages_go_without_being_written_unless_they_are_used_again() {
    for written_again in [false, true] {
        let mut bed = bed(8, DeviceKind::Nvme);
        let space = bed.space(ROOT, 1);
        bed.write(space, 0);
        let change =
            isotherm_units::access::LayoutChange::Advise(PageRange::new(0, 1), isotherm_units::access::Advice::Free);
        bed.change(space, change);
        assert_eq!((sizes(&bed).inactive_file, bed.count(Counter::PgLazyFree)), (1, 1));
        if written_again {
            bed.write(space, 0);
        }
        for _ in 0..3 {
            scan_all(&mut bed);
        }
        bed.settle();
        assert_eq!(bed.count(Counter::PgLazyFreed), u64::from(!written_again));
        if !written_again {
            assert_eq!(bed.write(space, 0), Touch::Minor, "a new page of zeroes");
        } else {
            assert_eq!(bed.count(Counter::PswpOut), 1, "wanted after all");
        }
    }
}

/// Evicts the root's pages, as often as it takes for written pages to be free.
fn evict(bed: &mut Testbed, space: SpaceId, page: u64) -> SlotId {
    for _ in 0..8 {
        bed.run(Attempt::once(ROOT, 1));
        bed.settle();
        let table = &bed.memory.space(space).table;
        if let Entry::Swap(slot) = table.entry(table.dense(page).unwrap())
            && bed.memory.slots.cached(slot).is_none()
        {
            bed.check_lists();
            return slot;
        }
    }
    panic!("page {page} is not evicted");
}

#[test]
fn c15_slot_reuse() {
    /// Events on the page between its two evictions.
    #[derive(Clone, Copy, Debug)]
    enum Use {
        Read,
        ReadThenWrite,
        Write,
        WriteAfterFork,
    }
    // (device, slots, use) -> pages written by the second eviction, and whether they go to the same slot.
    let table = [
        (DeviceKind::Disk, 64, Use::Read, 0, true),
        (DeviceKind::Disk, 64, Use::ReadThenWrite, 1, true),
        (DeviceKind::Disk, 64, Use::Write, 1, true),
        (DeviceKind::Disk, 64, Use::WriteAfterFork, 1, false),
        // Two slots of three: more than half is in use.
        (DeviceKind::Disk, 3, Use::Read, 1, false),
        (DeviceKind::Zram, 64, Use::Read, 1, false),
        (DeviceKind::Zram, 64, Use::Write, 1, false),
    ];
    for (device, slots, how, written, same_slot) in table {
        let mut bed = Testbed::new(Box::new(Classic::new()), 8, device, slots);
        let space = bed.space(ROOT, 2);
        bed.write(space, 0);
        bed.write(space, 1);
        let child = matches!(how, Use::WriteAfterFork).then(|| bed.fork(space));
        let first = evict(&mut bed, space, 0);
        if let Some(child) = child {
            bed.exit(child);
        }
        evict(&mut bed, space, 1);
        let before = bed.count(Counter::PswpOut);
        assert_eq!(before, 2);
        let touch = match how {
            Use::Read | Use::ReadThenWrite => bed.read(space, 0),
            Use::Write | Use::WriteAfterFork => bed.write(space, 0),
        };
        assert_eq!(touch, Touch::Major, "{device} {how:?}");
        if matches!(how, Use::ReadThenWrite) {
            assert_eq!(bed.write(space, 0), Touch::Hit, "an exclusive page is mapped writable");
        }
        assert_eq!(bed.memory.slots.used(), 1 + u64::from(same_slot), "{device} {how:?}: slot kept?");
        let second = evict(&mut bed, space, 0);
        assert_eq!(bed.count(Counter::PswpOut) - before, written, "{device} {how:?}");
        assert_eq!(second == first, same_slot, "{device} {how:?}");
    }
}

#[test]
fn zero_filled_pages_are_marked_and_not_written() {
    let mut bed = bed(8, DeviceKind::Nvme);
    let space = bed.space(ROOT, 1);
    bed.write(space, 0);
    let frame = bed.frame(space, 0).unwrap();
    bed.memory.frames.set(frame, Flag::ZeroFilled);
    evict(&mut bed, space, 0);
    assert_eq!((bed.count(Counter::PswpOut), bed.memory.io.swap.stats().pages_written), (0, 0));
    assert_eq!(bed.read(space, 0), Touch::Major);
    assert_eq!(bed.count(Counter::PswpIn), 0);
}

#[test]
fn a_limit_on_swap_keeps_pages_in() {
    let mut bed = bed(16, DeviceKind::Zram);
    let group = bed.group(ROOT, "g");
    bed.memory.cgroups.charge_batch = 1;
    bed.set(group, crate::cgroup::Knob::SwapMax, 2);
    let space = bed.space(group, 8);
    for page in 0..8 {
        bed.write(space, page);
    }
    for _ in 0..4 {
        bed.run(Attempt::once(group, 8));
    }
    assert_eq!((bed.memory.cgroups.get(group).usage, bed.memory.cgroups.get(group).swap_usage), (6, 2));
    bed.check_lists();
}

/// docs/spec/classic-lru.md#s6-5: all pages are hot by now, there is no file, and counters are of before: the loop over the lists never begins, so that nothing notes that hot
/// pages were spared. One cold page, or newer counters, and reclaim goes on.
#[test]
fn a_group_of_hot_anonymous_pages_frees_nothing_until_counters_are_new() {
    for (cold, is_counted, fails) in [(0, false, true), (1, false, false), (0, true, false)] {
        let mut bed = bed(256, DeviceKind::Zram);
        bed.memory.config.lazy_statistics = true;
        let group = bed.group(ROOT, "g");
        bed.cgroup = group;
        bed.limit(200);
        let space = bed.space(group, 150);
        bed.write_all(space, PageRange::new(0, 100));
        bed.policy.flush_statistics();
        for page in cold..100 {
            let frame = bed.frame(space, page).expect("just written");
            bed.policy.hint(&mut bed.memory, frame, Hint::Prioritise);
        }
        if is_counted {
            bed.policy.flush_statistics();
        }
        bed.limit(100);
        let step = bed.run(Attempt::limit(group, 1));
        assert_eq!(step == ReclaimStep::Failed, fails, "{cold} cold, {is_counted}: {step:?}");
    }
}

/// docs/spec/classic-lru.md#s6-5: the last cold pages are new ones in a processor's batch, which no scan sees, so that the group fails with
/// cold pages. A full batch is put on the lists.
#[test]
fn new_pages_that_wait_in_a_batch_do_not_keep_reclaim_going() {
    for (has_batches, new, fails) in [(true, 1, true), (true, 30, true), (true, 31, false), (false, 1, false)] {
        let mut bed = bed(256, DeviceKind::Zram);
        bed.memory.config.lazy_statistics = true;
        bed.memory.config.lru_batches = has_batches;
        let group = bed.group(ROOT, "g");
        bed.cgroup = group;
        bed.limit(200);
        let space = bed.space(group, 200);
        bed.write_all(space, PageRange::new(0, 93));
        bed.policy.flush_statistics();
        for page in 0..93 {
            let frame = bed.frame(space, page).expect("just written");
            bed.policy.hint(&mut bed.memory, frame, Hint::Prioritise);
        }
        bed.write_all(space, PageRange::new(93, 93 + new));
        bed.limit(93 + new);
        let step = bed.run(Attempt::limit(group, 1));
        assert_eq!(step == ReclaimStep::Failed, fails, "{has_batches}, {new} new: {step:?}");
        bed.check_lists();
    }
}

/// A page that leaves while it waits is forgotten: what is left waits on, and no scan sees it.
#[test]
fn a_page_may_leave_its_batch() {
    let mut bed = bed(64, DeviceKind::Zram);
    bed.memory.config.lru_batches = true;
    bed.memory.cgroups.charge_batch = 1;
    let group = bed.group(ROOT, "g");
    let space = bed.space(group, 64);
    bed.write_all(space, PageRange::new(0, 4));
    bed.unmap(space, PageRange::new(1, 4));
    bed.run(Attempt::once(group, 8));
    bed.check_lists();
    assert_eq!(bed.memory.cgroups.get(group).usage, 1);
    // Thirty more: a full batch.
    bed.write_all(space, PageRange::new(4, 34));
    bed.run(Attempt::once(group, 64));
    bed.check_lists();
    assert!(bed.memory.cgroups.get(group).usage < 31, "scans see a full batch");
}
