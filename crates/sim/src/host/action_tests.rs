//! Actions, filters and gauges of the simulated machine, row by row of docs/spec/schemes.md#s10 and of the host's contract.

use super::stage::{FRAMES, PHYSICAL, Stage};
use isotherm_core::host::{
    Action, AddressRange, FilterType, Gauge, Gauging, HostError, Metric, NodeId, PageFilter, PageFilters, PageTest,
    TargetId, Untreated,
};
use isotherm_kernel::cgroup::CgroupId;
use isotherm_kernel::counters::Counter;
use isotherm_kernel::memory::{Flag, FrameId};
use isotherm_kernel::mmu::SpaceId;
use isotherm_kernel::pressure::TaskState;
use isotherm_kernel::reclaim::{POLICIES, baselines};
use isotherm_kernel::swap::device::DeviceKind;
use isotherm_units::access::{Channel, FileKind, Run, Sharing};
use isotherm_units::{Duration, Instant, PageRange};

const PAGE: u64 = 4096;
const HUGE_PAGE: u64 = 512 * PAGE;
const ALL: PageRange = PageRange { start: 0, end: FRAMES };

fn at(page: u64) -> PageRange {
    PageRange::at(page, 1)
}

/// Lets pages with this answer pass, and no others.
fn only(test: PageTest, matching: bool) -> PageFilters {
    PageFilters::new(vec![PageFilter { test, matching, allow: true }], true)
}

fn written(policy: &str, swap: DeviceKind, pages: u64) -> (Stage, SpaceId, u32) {
    let mut stage = Stage::new(policy, swap);
    let (space, target) = stage.process(1024);
    stage.write_all(space, PageRange::new(0, pages));
    (stage, space, target)
}

/// docs/spec/classic-lru.md#s3-6: inactive pages go to the head of the active list, active ones stay; `referenced` and the clock of
/// shadows are left alone. All count.
#[test]
fn lru_prio_moves_inactive_pages_to_the_head_of_the_active_list() {
    let (mut stage, space, _) = written("classic", DeviceKind::Zram, 4);
    let frame = |stage: &Stage, page| stage.frame(space, page).unwrap();
    let second = frame(&stage, 1);
    stage.memory.frames.set(second, Flag::Referenced);
    let age = stage.memory.nonresident_age.clone();
    let first = stage.number(space, 1);
    assert_eq!(stage.apply(PHYSICAL, Action::LruPrio, PageRange::at(first, 2)), Ok(2 * PAGE));
    let states: Vec<_> =
        (0..4).map(|page| (stage.has(space, page, Flag::Active), stage.has(space, page, Flag::Referenced))).collect();
    assert_eq!(states, [(false, false), (true, true), (true, false), (false, false)]);
    assert_eq!(stage.memory.counters.get(Counter::PgActivate), 2);
    assert_eq!(
        stage.apply(PHYSICAL, Action::LruPrio, PageRange::at(first, 2)),
        Ok(2 * PAGE),
        "also where nothing moved"
    );
    assert_eq!((stage.memory.counters.get(Counter::PgActivate), stage.memory.nonresident_age.clone()), (2, age));
}

/// docs/spec/classic-lru.md#s3-6: active pages go to the head of the inactive list, and lose both flags; inactive ones stay.
#[test]
fn lru_deprio_moves_active_pages_to_the_head_of_the_inactive_list() {
    let (mut stage, space, _) = written("classic", DeviceKind::Zram, 4);
    let numbers = [0, 1].map(|page| stage.number(space, page));
    stage.apply(PHYSICAL, Action::LruPrio, at(numbers[0])).unwrap();
    for page in [0, 1] {
        let frame = stage.frame(space, page).unwrap();
        stage.memory.frames.set(frame, Flag::Referenced);
    }
    assert_eq!(stage.apply(PHYSICAL, Action::LruDeprio, PageRange::new(numbers[0], numbers[1] + 1)), Ok(2 * PAGE));
    let flags = |page| [Flag::Active, Flag::Referenced].map(|flag| stage.has(space, page, flag));
    assert_eq!((flags(0), flags(1)), ([false, false], [false, true]), "the inactive one is not touched");
    assert_eq!(stage.memory.counters.get(Counter::PgDeactivate), 1);
}

/// docs/spec/classic-lru.md#s3-2: as the original series did it, two passes make a page active.
#[test]
fn pages_that_are_marked_accessed_become_active_in_two_passes() {
    for by_process in [false, true] {
        let (mut stage, space, process) = written("classic", DeviceKind::Zram, 4);
        stage.marks_accessed = true;
        let (target, pages) = if by_process {
            (process, PageRange::new(0, 2))
        } else {
            (PHYSICAL, PageRange::at(stage.number(space, 0), 2))
        };
        let states = |stage: &Stage| {
            let state = |page| (stage.has(space, page, Flag::Referenced), stage.has(space, page, Flag::Active));
            [state(0), state(1), state(2)]
        };
        assert_eq!(stage.apply(target, Action::LruPrio, pages), Ok(2 * PAGE));
        assert_eq!(states(&stage), [(true, false), (true, false), (false, false)], "{by_process}");
        stage.apply(target, Action::LruPrio, pages).unwrap();
        assert_eq!(states(&stage), [(false, true), (false, true), (false, false)], "{by_process}");
    }
}

/// A live machine sorts lists process by process, by the accessed-bit module and `process_madvise`.
#[test]
fn lists_are_sorted_by_addresses_of_processes_too() {
    let (mut stage, space, target) = written("classic", DeviceKind::Zram, 8);
    let active = |stage: &Stage| (0..8).filter(|&page| stage.has(space, page, Flag::Active)).collect::<Vec<_>>();
    assert_eq!(stage.apply(target, Action::LruPrio, PageRange::new(2, 6)), Ok(4 * PAGE));
    assert_eq!(active(&stage), [2, 3, 4, 5]);
    stage.apply(target, Action::LruDeprio, PageRange::new(4, 8)).unwrap();
    assert_eq!(active(&stage), [2, 3]);
}

#[test]
fn deprioritised_pages_are_the_youngest_inactive_ones() {
    let (mut stage, space, _) = written("classic", DeviceKind::Zram, 64);
    let first = stage.number(space, 0);
    for action in [Action::LruPrio, Action::LruDeprio] {
        stage.apply(PHYSICAL, action, PageRange::at(first, 32)).unwrap();
    }
    stage.apply_through(only(PageTest::Young, true), Action::Stat, ALL);
    (0..64).for_each(|page| {
        let frame = stage.frame(space, page).unwrap();
        stage.memory.frames.take_young(frame);
    });
    stage.reclaim(32);
    let left: Vec<u64> = (0..64).filter(|&page| !stage.is_swapped(space, page)).collect();
    assert!(!left.is_empty() && left.iter().all(|&page| page < 32), "the others went first: {left:?}");
}

#[test]
fn physical_pageout_frees_what_can_go_at_once() {
    for entry in POLICIES {
        // (device, bytes freed at once)
        for (swap, freed) in [(DeviceKind::Zram, 10), (DeviceKind::None, 0)] {
            let (mut stage, space, _) = written(entry.name, swap, 10);
            let frame = stage.frame(space, 0).unwrap();
            stage.memory.frames.set(frame, Flag::Referenced);
            let bytes = stage.apply(PHYSICAL, Action::Pageout, ALL).unwrap();
            assert_eq!(bytes, freed * PAGE, "{} on {swap}", entry.name);
            assert_eq!(stage.memory.space(space).nr_resident, 10 - freed, "{} on {swap}", entry.name);
            assert_eq!(stage.apply(PHYSICAL, Action::Pageout, ALL), Ok(0), "{} on {swap}: nothing is left", entry.name);
            stage.write_all(space, PageRange::new(0, 10));
            stage.check();
        }
    }
}

/// A device that is not synchronous: written now, freed when reclaim meets them at the tail.
#[test]
fn pages_under_write_back_do_not_count_as_reclaimed() {
    let (mut stage, space, _) = written("classic", DeviceKind::Nvme, 10);
    assert_eq!(stage.apply(PHYSICAL, Action::Pageout, ALL), Ok(0));
    assert_eq!(
        (stage.memory.io.writes_in_flight(), stage.memory.space(space).nr_swapped),
        (10, 10),
        "unmapped, being written"
    );
    stage.settle();
    assert_eq!(stage.apply(PHYSICAL, Action::Pageout, ALL), Ok(10 * PAGE), "clean now");
    assert_eq!(stage.memory.nodes.nr_used(), 0);
}

#[test]
fn dirty_file_pages_and_locked_ones_stay() {
    let (mut stage, space, _) = written("classic", DeviceKind::Zram, 1);
    stage.map_file(space, "data", 2000, 4, Sharing::Shared, FileKind::Regular);
    stage.write(space, 2000);
    stage.read(space, 2001);
    let dirty = stage.frame(space, 2000).unwrap();
    let locked = stage.frame(space, 0).unwrap();
    stage.bed.policy.removed(&mut stage.bed.memory, locked);
    stage.memory.frames.set(locked, Flag::Unevictable);
    isotherm_kernel::reclaim::outcome::put_back(&mut stage.bed.memory, stage.bed.policy.as_mut(), locked);
    let nr_file = stage.memory.files.get(isotherm_kernel::memory::FileId::from_index(0)).nr_cached;
    assert_eq!(stage.apply(PHYSICAL, Action::Pageout, ALL), Ok((nr_file - 1) * PAGE), "all but the dirty one");
    let flags = [Flag::Active, Flag::Reclaim, Flag::OnList].map(|flag| stage.memory.frames.has(dirty, flag));
    assert_eq!(flags, [true; 3], "for the flusher");
    assert!(stage.frame(space, 0) == Some(locked) && stage.frame(space, 2001).is_none());
    let before = stage.memory.counters.get(Counter::PgActivate);
    assert_eq!(
        stage.apply(PHYSICAL, Action::LruPrio, at(u64::from(locked.index_u32()))),
        Ok(PAGE),
        "on a list, but not moved"
    );
    assert_eq!(stage.memory.counters.get(Counter::PgActivate), before);
}

/// docs/spec/schemes.md#s15, example 35: anonymous memory is allowed first, young pages are rejected second.
#[test]
fn example_35_the_first_filter_that_matches_decides() {
    let (mut stage, space, _) = written("classic", DeviceKind::Zram, 1);
    stage.map_file(space, "data", 2000, 2, Sharing::Shared, FileKind::Regular);
    stage.read(space, 2000);
    stage.read(space, 2001);
    let numbers = [stage.number(space, 0), stage.number(space, 2000), stage.number(space, 2001)];
    // Made old; then all but one are used again.
    stage.apply_through(only(PageTest::Young, true), Action::Stat, ALL);
    stage.write(space, 0);
    stage.read(space, 2000);
    let filter = || {
        let anon = PageFilter { test: PageTest::Anon, matching: true, allow: true };
        PageFilters::new(vec![anon, PageFilter { test: PageTest::Young, matching: true, allow: false }], false)
    };
    for (number, passed, what) in
        [(numbers[0], PAGE, "anonymous, young"), (numbers[1], 0, "file, young"), (numbers[2], PAGE, "file, not young")]
    {
        assert_eq!(stage.apply_through(filter(), Action::LruPrio, at(number)), (passed, passed), "example 35: {what}");
    }
    let states = [0, 2000, 2001].map(|page| stage.has(space, page, Flag::Active));
    assert_eq!(states, [true, false, true], "example 35");
}

#[test]
fn every_question_about_pages_is_answered() {
    let mut stage = Stage::new("classic", DeviceKind::Zram);
    let (space, _) = stage.process(1024);
    stage.write_all(space, PageRange::new(0, 3));
    stage.map_huge(space, PageRange::at(4096, 512));
    stage.write(space, 4096);
    stage.map_file(space, "data", 2000, 1, Sharing::Shared, FileKind::Regular);
    stage.read(space, 2000);
    stage.map_file(space, "shared", 3000, 1, Sharing::Shared, FileKind::SharedMemory);
    stage.write(space, 3000);
    let file = u64::from(stage.frame(space, 2000).unwrap().index_u32());
    stage.unmap(space, at(2000));
    stage.apply(PHYSICAL, Action::LruPrio, at(stage.number(space, 1))).unwrap();
    let app = stage.host().memcg("/app");
    assert_eq!((app, stage.host().memcg("/none")), (Some(1), None));
    // (what, pages of all 3 + 512 + 1 + 1)
    let table = [
        (PageTest::Anon, 515),
        (PageTest::Active, 1),
        (PageTest::Memcg(app), 517),
        (PageTest::Memcg(stage.host().memcg("/")), 0),
        (PageTest::Memcg(None), 0),
        (PageTest::FolioBytes { min: HUGE_PAGE, max: HUGE_PAGE }, 512),
        (PageTest::FolioBytes { min: 0, max: PAGE }, 5),
        (PageTest::Unmapped, 1),
    ];
    for (test, pages) in table {
        assert_eq!(stage.apply_through(only(test, true), Action::Stat, ALL), (0, pages * PAGE), "{test:?}");
        let others = stage.apply_through(only(test, false), Action::Stat, ALL).1;
        assert_eq!(others, (517 - pages) * PAGE, "not {test:?}");
    }
    assert_eq!(stage.apply_through(only(PageTest::Unmapped, true), Action::Pageout, ALL), (PAGE, PAGE));
    assert_eq!(stage.apply_through(PageFilters::default(), Action::Stat, at(file)), (0, 0), "its frame is free");
}

/// The test clears each access that it finds: through any mapping, by a cleared mark, and once for a huge page. A page that was never
/// tested counts as young.
#[test]
fn young_pages_are_young_once() {
    let mut stage = Stage::new("classic", DeviceKind::Zram);
    let (space, _) = stage.process(1024);
    stage.write_all(space, PageRange::new(0, 3));
    stage.map_huge(space, PageRange::at(4096, 512));
    stage.write(space, 4096);
    stage.map_file(space, "data", 2000, 1, Sharing::Shared, FileKind::Regular);
    stage.read(space, 2000);
    let young = |stage: &mut Stage| stage.apply_through(only(PageTest::Young, true), Action::Stat, ALL).1 / PAGE;
    assert_eq!((young(&mut stage), young(&mut stage)), (516, 0));
    let frame = stage.frame(space, 0).unwrap();
    assert!(stage.memory.frames.take_young(frame), "what was taken is left to reclaim");
    let (child, _) = stage.fork(space);
    young(&mut stage); // the fork split the huge page
    stage.read(child, 1);
    assert_eq!((young(&mut stage), young(&mut stage)), (1, 0), "used by the child");
    let run = Run::read(2000, 1).through(Channel::FileDescriptor);
    assert!(!stage.call(space, run).bad);
    assert_eq!(young(&mut stage), 1, "used through a descriptor");
}

#[test]
fn one_accessed_bit_answers_for_all_of_a_huge_page() {
    let mut stage = Stage::new("classic", DeviceKind::Zram);
    let (space, target) = stage.process(16);
    stage.map_huge(space, PageRange::at(4096, 512));
    stage.write(space, 4096);
    let young = |stage: &mut Stage| stage.apply_through(only(PageTest::Young, true), Action::Stat, ALL).1;
    assert_eq!((young(&mut stage), young(&mut stage)), (HUGE_PAGE, 0));
    let table = &mut stage.memory.space_mut(space).table;
    let dense = table.dense(4100).unwrap();
    table.mark_touched(dense, isotherm_kernel::mmu::Need::Read);
    assert_eq!((young(&mut stage), young(&mut stage)), (HUGE_PAGE, 0), "one use, and all of it is young");
    // In a process it is one folio, counted whole and once though regions cut it.
    let mut filter = only(PageTest::Anon, true);
    let mut last = None;
    for part in [PageRange::at(4096, 100), PageRange::at(4196, 412)] {
        stage.order(target, Action::Stat, part, &mut filter, &mut last).unwrap();
    }
    assert_eq!(filter.passed_bytes(), HUGE_PAGE);
}

#[test]
fn advice_on_a_process_is_all_or_nothing() {
    let actions = [Action::Willneed, Action::Cold, Action::Pageout, Action::Hugepage, Action::Nohugepage];
    for action in actions {
        let (mut stage, space, target) = written("classic", DeviceKind::Zram, 20);
        assert_eq!(stage.apply(target, action, PageRange::new(4, 12)), Ok(8 * PAGE), "{action}");
        assert_eq!(stage.apply(target, action, PageRange::new(1020, 1030)), Ok(0), "{action}: a hole at the end");
        let mut filter =
            PageFilters::new(vec![PageFilter { test: PageTest::Anon, matching: true, allow: false }], false);
        let filtered = stage.order(target, action, PageRange::new(4, 12), &mut filter, &mut None).unwrap();
        assert_eq!(
            (filtered.bytes, filter.stopped_bytes()),
            (8 * PAGE, &[0, 0][..]),
            "{action}: the gate is not asked"
        );
        stage.exit(space);
        let gone = Err(HostError::Gone(TargetId(target)));
        assert_eq!(stage.apply(target, action, PageRange::new(4, 12)), gone, "{action}");
    }
}

#[test]
fn pageout_and_willneed_of_a_process_move_its_pages() {
    for (swap, in_flight) in [(DeviceKind::Zram, 0), (DeviceKind::Nvme, 8)] {
        let (mut stage, space, target) = written("classic", swap, 20);
        stage.apply(target, Action::Pageout, PageRange::new(4, 12)).unwrap();
        assert_eq!(stage.memory.io.nr_in_flight(), in_flight, "{swap}");
        stage.settle();
        if in_flight > 0 {
            stage.reclaim(8);
        }
        let is_out = |stage: &Stage| (0..20).filter(|&page| stage.is_swapped(space, page)).collect::<Vec<_>>();
        assert_eq!(is_out(&stage), (4..12).collect::<Vec<_>>(), "{swap}");
        assert_eq!(stage.memory.nodes.nr_used(), 12, "{swap}: written and freed");
        stage.apply(target, Action::Willneed, PageRange::new(0, 20)).unwrap();
        assert_eq!(stage.memory.io.nr_in_flight(), in_flight, "{swap}: read without waiting");
        stage.settle();
        assert_eq!(stage.memory.nodes.nr_used(), 20, "{swap}: in the swap cache");
        stage.write_all(space, PageRange::new(0, 20));
        assert!(is_out(&stage).is_empty());
    }
}

#[test]
fn cold_pages_go_first() {
    let (mut stage, space, target) = written("classic", DeviceKind::Zram, 64);
    let first = stage.number(space, 32);
    stage.apply(PHYSICAL, Action::LruPrio, PageRange::at(first, 32)).unwrap();
    stage.apply(target, Action::Cold, PageRange::new(32, 40)).unwrap();
    let states = [(32, false, true), (39, false, true), (40, true, false), (5, false, false)];
    for (page, active, workingset) in states {
        let flags = (stage.has(space, page, Flag::Active), stage.has(space, page, Flag::Workingset));
        assert_eq!(flags, (active, workingset), "page {page}");
    }
    stage.reclaim(8);
    assert!((32..40).all(|page| stage.is_swapped(space, page)), "not young any more, unlike those before them");
}

#[test]
fn hugepage_and_nohugepage_decide_what_a_first_store_gets() {
    let mut stage = Stage::new("classic", DeviceKind::Zram);
    let (space, target) = stage.process(2048);
    let vmas = |stage: &Stage| stage.memory.space(space).vmas.iter().count();
    stage.apply(target, Action::Hugepage, PageRange::new(512, 1536)).unwrap();
    assert_eq!(vmas(&stage), 3);
    stage.write(space, 600);
    stage.write(space, 5);
    assert_eq!(stage.memory.space(space).nr_resident, 513);
    stage.apply(target, Action::Nohugepage, PageRange::new(1024, 1100)).unwrap();
    stage.write(space, 1200);
    assert_eq!(stage.memory.space(space).nr_resident, 514, "the rest is no whole block any more");
    stage.apply(target, Action::Nohugepage, PageRange::new(0, 2048)).unwrap();
    assert_eq!((vmas(&stage), stage.memory.space(space).huge_blocks.len()), (1, 1), "what is mapped stays huge");
    // Advice for ever changing ranges leaves no small ranges.
    for page in 0..200 {
        stage.apply(target, Action::Hugepage, PageRange::at(page * 3, 7)).unwrap();
    }
    assert_eq!(vmas(&stage), 2);
}

#[test]
fn collapse_makes_huge_pages_of_base_pages() {
    let mut stage = Stage::new("classic", DeviceKind::Zram);
    let (space, target) = stage.process(2048);
    stage.write_all(space, PageRange::new(512, 700));
    stage.read(space, 900);
    stage.apply(target, Action::Pageout, PageRange::new(600, 650)).unwrap();
    assert_eq!(stage.apply(target, Action::Collapse, PageRange::new(500, 1100)), Ok(600 * PAGE));
    let owner = stage.memory.space(space);
    assert_eq!((owner.nr_resident, owner.nr_swapped, owner.huge_blocks.len()), (512, 0, 1));
    assert_eq!((stage.memory.nodes.nr_used(), stage.memory.slots.used()), (512, 0));
    assert_eq!(stage.apply(target, Action::Collapse, PageRange::new(512, 1024)), Ok(HUGE_PAGE), "it is one already");
    for (range, why) in [
        (PageRange::new(600, 1000), "no whole block"),
        (PageRange::new(1024, 1536), "nothing is there"),
        (PageRange::new(512, 1536), "one of two"),
    ] {
        assert_eq!(stage.apply(target, Action::Collapse, range), Ok(0), "{why}");
    }
    stage.write(space, 1024);
    let (child, _) = stage.fork(space);
    assert_eq!(stage.apply(target, Action::Collapse, PageRange::new(1024, 1536)), Ok(0), "shared");
    stage.exit(child);
    stage.limit(600);
    assert_eq!(stage.apply(target, Action::Collapse, PageRange::new(1024, 1536)), Ok(0), "no room under the limit");
    stage.exit(space);
    assert_eq!(stage.memory.nodes.nr_used(), 0);
}

#[test]
fn a_collapse_waits_for_no_device() {
    let (mut stage, _, target) = {
        let mut stage = Stage::new("classic", DeviceKind::Nvme);
        let (space, target) = stage.process(512);
        stage.write_all(space, PageRange::new(0, 40));
        (stage, space, target)
    };
    let whole = PageRange::new(0, 512);
    stage.apply(target, Action::Pageout, PageRange::new(0, 4)).unwrap();
    assert_eq!(stage.apply(target, Action::Collapse, whole), Ok(0), "pages are in flight");
    for _ in 0..10 {
        stage.settle();
        if stage.apply(target, Action::Collapse, whole).unwrap() > 0 {
            return;
        }
    }
    panic!("reads go on without it");
}

#[test]
fn what_is_not_here_says_what_it_needs() {
    let mut stage = Stage::new("classic", DeviceKind::Zram);
    let (space, target) = stage.process(64);
    stage.premap(space, PageRange::at(1 << 20, 64));
    let not_here = |stage: &mut Stage, target, action, pages| match stage.apply(target, action, pages) {
        Err(HostError::NotHere(needs)) => needs,
        other => panic!("{action}: {other:?}"),
    };
    for (number, action, needs) in [
        (PHYSICAL, Action::MigrateHot, "more than one node"),
        (target, Action::MigrateCold, "more than one node"),
        (PHYSICAL, Action::Cold, "for processes"),
        (PHYSICAL, Action::Collapse, "for processes"),
    ] {
        assert!(not_here(&mut stage, number, action, PageRange::new(0, 4)).contains(needs), "{action}");
        assert!(!stage.offers(number).actions.contains(&action), "{action}");
    }
    assert!(not_here(&mut stage, target, Action::Pageout, PageRange::at((1 << 20) + 60, 8)).contains("no frames"));
    let premapped = stage.memory.premapped[0].first_frame;
    assert_eq!(stage.apply(PHYSICAL, Action::Pageout, PageRange::at(premapped, 64)), Ok(0), "passed over");
    for name in baselines().map(|entry| entry.name) {
        let mut stage = Stage::new(name, DeviceKind::Zram);
        let (_, target) = stage.process(64);
        assert!(not_here(&mut stage, PHYSICAL, Action::LruPrio, ALL).contains("cannot be sorted"), "{name}");
        assert!(not_here(&mut stage, target, Action::Collapse, ALL).contains("no huge pages"), "{name}");
        assert!(stage.gauge(Gauge::ActiveBytes).is_err(), "{name}");
    }
}

#[test]
fn capabilities_are_what_is_done() {
    let mut classic = Stage::new("classic", DeviceKind::Zram);
    let (_, target) = classic.process(64);
    let physical = classic.offers(PHYSICAL);
    assert_eq!(physical.actions, [Action::Stat, Action::Pageout, Action::LruPrio, Action::LruDeprio]);
    assert_eq!(physical.filtered_actions, physical.actions);
    assert!(
        physical.filters.contains(&FilterType::Active)
            && classic.reads(PHYSICAL).metrics.contains(&Metric::NodeEligibleMemBp)
    );
    let process = classic.offers(target);
    assert_eq!((process.actions.len(), process.filtered_actions), (9, vec![Action::Stat]));
    assert!(!classic.reads(target).metrics.contains(&Metric::NodeEligibleMemBp) && classic.reads(target).free_mem_rate);
    assert_eq!(classic.offers(9), isotherm_core::host::SchemeCapabilities::default(), "no such target");
    assert_eq!(classic.reads(9), isotherm_core::host::GaugeCapabilities::default());
    let mut lru = Stage::new("lru", DeviceKind::Zram);
    let (_, target) = lru.process(64);
    assert_eq!(lru.offers(PHYSICAL).actions, [Action::Stat, Action::Pageout]);
    assert_eq!(lru.offers(target).actions, [Action::Stat, Action::Willneed, Action::Pageout]);
    assert!(!lru.offers(PHYSICAL).filters.contains(&FilterType::Active));
    assert!(!lru.reads(PHYSICAL).metrics.contains(&Metric::ActiveMemBp));
}

#[test]
fn gauges_read_nodes_lists_groups_and_stalls() {
    let mut stage = Stage::with_nodes("classic", DeviceKind::Zram, &[2048, 1024]);
    let (space, target) = stage.process(1024);
    stage.write_all(space, PageRange::new(0, 100));
    let first = stage.number(space, 0);
    stage.apply(PHYSICAL, Action::LruPrio, PageRange::at(first, 30)).unwrap();
    let (near, far, none) = (NodeId(0), NodeId(1), NodeId(2));
    let app = stage.host().memcg("/app").unwrap();
    let table = [
        (Gauge::TotalBytes(None), Some(3072 * PAGE)),
        (Gauge::FreeBytes(None), Some(2972 * PAGE)),
        (Gauge::TotalBytes(Some(far)), Some(1024 * PAGE)),
        (Gauge::FreeBytes(Some(near)), Some(1948 * PAGE)),
        (Gauge::FreeBytes(Some(none)), None),
        (Gauge::ActiveBytes, Some(30 * PAGE)),
        (Gauge::InactiveBytes, Some(70 * PAGE)),
        (Gauge::MemcgBytes { node: near, memcg: app }, Some(100 * PAGE)),
        (Gauge::MemcgBytes { node: near, memcg: 0 }, Some(100 * PAGE)), // and all below the root
        (Gauge::MemcgBytes { node: far, memcg: app }, Some(0)),
        (Gauge::MemcgBytes { node: none, memcg: app }, None),
        (Gauge::MemcgBytes { node: near, memcg: 7 }, None),
        (Gauge::StallSomeUs, Some(0)),
    ];
    for (gauge, expected) in table {
        assert_eq!(stage.gauge(gauge), Ok(expected), "{gauge:?}");
    }
    // What accounting last sampled, no more: reading takes no sample.
    let ms = |ms| Instant::START + Duration::from_ms(ms);
    stage.pressure.task_change(ms(0), 0, [CgroupId::ROOT], TaskState::ASLEEP, TaskState::ASLEEP.stalled());
    stage.pressure.handle_timeout(ms(500));
    assert_eq!(stage.gauge(Gauge::StallSomeUs), Ok(Some(0)));
    let due = stage.pressure.poll_timeout().unwrap();
    stage.pressure.handle_timeout(due);
    assert_eq!(stage.gauge(Gauge::StallSomeUs), Ok(Some(due.ns() / 1000)));
    // A page that sticks out of a range counts with the part inside.
    let start = first * PAGE;
    let ranges = [AddressRange::new(start + 1000, start + 2 * PAGE), AddressRange::new(2048 * PAGE, u64::MAX)];
    assert_eq!(stage.node_bytes(PHYSICAL, &ranges), Ok(vec![(0, 2 * PAGE - 1000), (1, 0)]));
    assert!(matches!(stage.node_bytes(target, &ranges), Err(HostError::NotHere(_))));
}

/// In ns: a try, the visit of each frame, and the action on each page.
#[test]
fn work_is_paid_for() {
    let (mut stage, space, target) = written("classic", DeviceKind::Zram, 100);
    let first = stage.number(space, 0);
    let costs = stage.memory.costs;
    let mut spent = |target, action, start| {
        let pages = PageRange::at(start, 100);
        stage.order(target, action, pages, &mut PageFilters::default(), &mut None).unwrap().spent.ns()
    };
    let checks = costs.scheme_try_ns() + 100 * costs.scheme_folio_ns();
    assert_eq!(spent(PHYSICAL, Action::Stat, first), checks);
    assert_eq!(spent(PHYSICAL, Action::LruPrio, first), checks + 100 * costs.lru_move_ns());
    assert_eq!(spent(PHYSICAL, Action::LruPrio, first), checks, "nothing moves");
    let advice = costs.scheme_try_ns() + costs.read_mapping_ns();
    assert_eq!(spent(target, Action::Hugepage, 0), advice);
    let cold = 100 * (costs.pte_scan_ns() + costs.lru_move_ns()) + costs.tlb_flush_ns();
    assert_eq!(spent(target, Action::Cold, 0), advice + cold);
    let page = costs.lru_scan_page_ns()
        + costs.swap_out_page_ns()
        + costs.unmap_page_ns()
        + costs.lzo_rle_compress_ns()
        + costs.free_page_ns();
    assert_eq!(spent(PHYSICAL, Action::Pageout, first), checks + 100 * page + 4 * costs.tlb_flush_ns());
}

#[test]
fn what_could_not_be_treated_is_told_by_why() {
    let pageout = |stage: &mut Stage, target, pages| {
        let applied = stage.order(target, Action::Pageout, pages, &mut PageFilters::default(), &mut None).unwrap();
        (applied.bytes / PAGE, applied.untreated)
    };
    let untreated = Untreated::default();
    let (mut stage, _, target) = written("classic", DeviceKind::None, 20);
    // Advice of a process counts whole, and nothing went.
    let there = pageout(&mut stage, target, PageRange::new(0, 20));
    assert_eq!(there, (20, Untreated { no_swap: 20 * PAGE, ..untreated }));
    let (_, beside) = pageout(&mut stage, target, PageRange::new(10, 30));
    assert_eq!(beside, Untreated { no_swap: 10 * PAGE, nothing_there: 10 * PAGE, ..untreated });
    let (freed, all) = pageout(&mut stage, PHYSICAL, PageRange::new(0, FRAMES + 100));
    assert_eq!((freed, all.no_swap, all.elsewhere), (0, 20 * PAGE, 100 * PAGE));
    // Some frames are the kernel's, or at hand for the next fault.
    assert!(all.free > (FRAMES - 500) * PAGE && all.free <= (FRAMES - 20) * PAGE, "{all:?}");

    // The device has 1000 slots.
    let (mut stage, _, target) = written("classic", DeviceKind::Zram, 1000);
    let (other, late) = stage.process(100);
    stage.write_all(other, PageRange::new(0, 100));
    let (_, first) = pageout(&mut stage, target, PageRange::new(0, 900));
    let (_, full) = pageout(&mut stage, target, PageRange::new(900, 1000));
    let (_, rest) = pageout(&mut stage, late, PageRange::new(0, 100));
    let rest_full = Untreated { swap_full: 100 * PAGE, ..untreated };
    assert_eq!((first, full, rest), (untreated, untreated, rest_full));
}

#[test]
fn frames_beyond_the_machine_are_passed_over() {
    let (mut stage, ..) = written("classic", DeviceKind::Zram, 10);
    for range in [PageRange::new(FRAMES, FRAMES + 100), PageRange::new(1 << 40, 1 << 41), PageRange::new(0, 0)] {
        assert_eq!(stage.apply(PHYSICAL, Action::Pageout, range), Ok(0));
    }
    assert_eq!(stage.apply(PHYSICAL, Action::Pageout, PageRange::new(0, 1 << 51)), Ok(10 * PAGE));
    let mut last = Some(3);
    let applied = stage.order(PHYSICAL, Action::Stat, PageRange::at(3, 1), &mut only(PageTest::Anon, true), &mut last);
    assert_eq!((applied.unwrap().bytes, last), (0, Some(3)));
    assert!(!stage.memory.frames.has(FrameId::new(3), Flag::OnList));
}
