//! The simulated machine as a host of promotion: facts of nodes and areas, scans, moves, and the daemon itself over it.

use super::stage::{PHYSICAL, Stage};
use isotherm_core::host::{
    Action, AddressRange, Area, AreaKind, Destination, HostError, MoveOrder, NodeId as HostNode, NodeMemory, PageMove,
    TargetId, Tiering,
};
use isotherm_core::promotion::{Mode, Promotion, PromotionConfig};
use isotherm_kernel::counters::Counter;
use isotherm_kernel::memory::{Flag, Mark, NodeId};
use isotherm_kernel::mmu::SpaceId;
use isotherm_kernel::reclaim::driver::{Attempt, ReclaimStep};
use isotherm_kernel::swap::device::DeviceKind;
use isotherm_units::access::{FileKind, Mapping, Sharing};
use isotherm_units::{Duration, Instant, PageRange};

const PAGE: u64 = 4096;
const FAST: HostNode = HostNode(0);
const SLOW: HostNode = HostNode(1);

fn stage() -> Stage {
    Stage::with_nodes("classic", DeviceKind::Zram, &[4096, 8192])
}

fn order(pages: &[u64], to: HostNode) -> MoveOrder<'_> {
    MoveOrder {
        pages,
        to,
        together: 512,
        keeps_high_watermark: false,
        only_active: false,
        leaves_shared: false,
        only_promotes: false,
    }
}

fn move_all(stage: &mut Stage, target: u32, pages: PageRange, to: HostNode) -> Vec<PageMove> {
    let addresses: Vec<u64> = (pages.start..pages.end).map(|page| page * PAGE).collect();
    let mut results = vec![PageMove::NotPresent; addresses.len()];
    let before = stage.memory.ledger.peek();
    let spent = stage.host().migrate(TargetId(target), &order(&addresses, to), &mut results).unwrap();
    assert_eq!(spent.ns(), stage.memory.ledger.peek() - before, "whoever runs the core pays");
    stage.check();
    results
}

fn nodes(stage: &mut Stage, target: u32, pages: PageRange) -> Vec<Option<u32>> {
    let addresses: Vec<u64> = (pages.start..pages.end).map(|page| page * PAGE).collect();
    let mut out = vec![None; addresses.len()];
    stage.host().page_nodes(TargetId(target), &addresses, &mut out).unwrap();
    out.into_iter().map(|node| node.map(|node| node.0)).collect()
}

fn on(stage: &mut Stage, target: u32, pages: PageRange, node: HostNode) -> usize {
    nodes(stage, target, pages).iter().filter(|&&at| at == Some(node.0)).count()
}

#[test]
fn nodes_areas_and_watermarks_are_told() {
    let mut stage = stage();
    let (space, target) = stage.process(64);
    stage.map_file(space, "data", 100, 16, Sharing::Shared, FileKind::Regular);
    stage.write(space, 3);
    let has = stage.host().tiering_capabilities();
    let tiers: Vec<_> = has.nodes.iter().map(|node| (node.node, node.is_top_tier, node.has_memory)).collect();
    assert_eq!(tiers, [(FAST, true, true), (SLOW, false, true)]);
    assert!(has.spaces && has.scan_accessed && has.page_nodes && has.node_memory && has.migrate && has.knows_active);
    let mut areas = Vec::new();
    stage.host().areas(TargetId(target), &mut areas).unwrap();
    let area = |start, end, kind| Area { range: AddressRange::new(start * PAGE, end * PAGE), kind };
    let plain = AreaKind::default();
    assert_eq!(areas, [area(0, 64, plain), area(100, 116, plain)]);
    stage.memory.space_mut(space).is_bound = true;
    areas.clear();
    stage.host().areas(TargetId(target), &mut areas).unwrap();
    assert!(areas.iter().all(|area| area.kind.is_bound));
    assert_eq!(nodes(&mut stage, target, PageRange::new(2, 5)), [None, Some(0), None]);
    let marks = stage.memory.nodes.get(NodeId::default()).zones[0].marks;
    let expected = NodeMemory { present: 4096, free: 4095, high: marks.high, promo: marks.promo };
    assert_eq!(stage.host().node_memory(FAST), Ok(Some(expected)));
    assert_eq!(stage.host().node_memory(HostNode(9)), Ok(None));
    let mut living = Vec::new();
    stage.host().spaces(&mut living).unwrap();
    assert_eq!(living, [TargetId(target)], "physical memory is no space");
    stage.exit(space);
    assert_eq!(stage.host().areas(TargetId(target), &mut areas), Err(HostError::Gone(TargetId(target))));
    assert!(matches!(stage.host().areas(TargetId(PHYSICAL), &mut areas), Err(HostError::NotHere(_))));
}

#[test]
fn moves_are_answered_page_by_page_and_a_wrong_node_moves_nothing() {
    let mut stage = stage();
    let (space, target) = stage.process(64);
    stage.write_all(space, PageRange::new(0, 8));
    assert_eq!(move_all(&mut stage, target, PageRange::new(0, 4), SLOW), [PageMove::Moved(1); 4]);
    let moved = PageMove::Moved(1);
    let results = move_all(&mut stage, target, PageRange::new(2, 10), FAST);
    let same = PageMove::SameNode;
    assert_eq!(results, [moved, moved, same, same, same, same, PageMove::NotPresent, PageMove::NotPresent]);
    assert_eq!(nodes(&mut stage, target, PageRange::new(0, 4)), [Some(1), Some(1), Some(0), Some(0)]);
    let promoted = |stage: &Stage| stage.memory.counters.get(Counter::PgPromoteSuccess);
    assert_eq!(promoted(&stage), 2);
    let mut results = [PageMove::Full];
    let wrong = stage.host().migrate(TargetId(target), &order(&[0], HostNode(7)), &mut results);
    assert_eq!(wrong, Err(HostError::Failed("node 7 is not on this machine".to_owned())));
    assert_eq!((results, promoted(&stage)), ([PageMove::Full], 2));
    let mut exact = Stage::with_nodes("lru", DeviceKind::Zram, &[4096, 4096]);
    let (space, target) = exact.process(8);
    exact.write(space, 0);
    assert!(!exact.host().tiering_capabilities().migrate);
    assert!(matches!(
        exact.host().migrate(TargetId(target), &order(&[0], SLOW), &mut results),
        Err(HostError::NotHere(_))
    ));
}

/// Runs the daemon over the stage for `span`; `hot` is touched before each step.
fn run(stage: &mut Stage, promotion: &mut Promotion, span: Duration, space: SpaceId, hot: PageRange) {
    let until = stage.memory.now + span;
    while let Some((at, thread)) = promotion.next_timeout() {
        if at > until {
            break;
        }
        stage.pass_time(at);
        (hot.start..hot.end).for_each(|page| stage.read(space, page));
        promotion.handle_timeout(thread, at, &mut stage.host());
        stage.check();
    }
    stage.pass_time(until);
}

fn daemon(stage: &mut Stage, mode: Mode, target: u32) -> Promotion {
    let mut promotion = Promotion::new(PromotionConfig::of_mode(mode), 1, &stage.host()).unwrap();
    promotion.enter(TargetId(target), None, Instant::START).unwrap();
    promotion
}

/// 1024 pages on the slow node; the 300 in the middle are used.
fn slow_process(stage: &mut Stage) -> (SpaceId, u32) {
    let (space, target) = stage.process(1024);
    stage.write_all(space, PageRange::new(0, 1024));
    let moved = move_all(stage, target, PageRange::new(0, 1024), SLOW);
    assert!(moved.iter().all(|&result| result == PageMove::Moved(1)));
    (space, target)
}

#[test]
fn the_daemon_finds_what_is_used_and_brings_it_home() {
    for mode in [Mode::V3, Mode::Rch] {
        let mut stage = stage();
        let (space, target) = slow_process(&mut stage);
        // As long after it was made: a page that no scan has seen and whose bit is set counts as found twice.
        for page in 0..1024 {
            let table = &mut stage.memory.space_mut(space).table;
            let dense = table.dense(page).unwrap();
            table.test_and_clear_young(dense);
        }
        let hot = PageRange::new(400, 700);
        let mut promotion = daemon(&mut stage, mode, target);
        run(&mut stage, &mut promotion, Duration::from_secs(20), space, hot);
        assert_eq!(on(&mut stage, target, hot, FAST), 300, "{mode:?}");
        let all = on(&mut stage, target, PageRange::new(0, 1024), FAST);
        assert!(all < 400, "{mode:?}: the rest was not used: {all}");
        assert_eq!(stage.memory.counters.get(Counter::PgPromoteSuccess), all as u64);
    }
}

/// docs/spec/promotion.md#s1-6: in its first scan every page counts as accessed, and the walk ends at the first empty entry.
#[test]
fn v0_takes_every_page_at_first_sight_up_to_the_first_hole() {
    let mut stage = stage();
    let (space, target) = slow_process(&mut stage);
    stage.unmap(space, PageRange::new(600, 601));
    stage.map(space, Mapping::anonymous(PageRange::new(600, 601)));
    let mut promotion = daemon(&mut stage, Mode::V0, target);
    // One mapping became three; the hole is in the second, and alone there.
    run(&mut stage, &mut promotion, Duration::from_secs(1), space, PageRange::new(0, 0));
    assert_eq!(on(&mut stage, target, PageRange::new(0, 1024), FAST), 1023);
    let (sparse, target) = slow_process(&mut stage);
    let frame = stage.frame(sparse, 512).unwrap();
    stage.memory.frames.clear(frame, Flag::Referenced);
    let mut order = PageRange::new(512, 513);
    // MADV_DONTNEED leaves an empty entry inside the mapping.
    isotherm_kernel::fault::advise(
        &mut stage.bed.memory,
        stage.bed.policy.as_mut(),
        sparse,
        std::mem::take(&mut order),
        isotherm_units::access::Advice::DontNeed,
    );
    let mut promotion = daemon(&mut stage, Mode::V0, target);
    run(&mut stage, &mut promotion, Duration::from_secs(1), sparse, PageRange::new(0, 0));
    assert_eq!(on(&mut stage, target, PageRange::new(0, 512), FAST), 512);
    assert_eq!(on(&mut stage, target, PageRange::new(513, 1024), SLOW), 511, "behind the hole nothing is seen");
}

#[test]
fn a_huge_page_is_one_folio_or_is_split() {
    for (split, nr_huge) in [(false, 1), (true, 0)] {
        let mut stage = stage();
        let (space, target) = stage.process(1);
        stage.map_huge(space, PageRange::new(512, 1024));
        stage.write(space, 700);
        assert_eq!(move_all(&mut stage, target, PageRange::new(600, 601), SLOW), [PageMove::Moved(512)]);
        let config = PromotionConfig { split_thp_on_scan: Some(split), ..PromotionConfig::of_mode(Mode::V0) };
        let mut promotion = Promotion::new(config, 1, &stage.host()).unwrap();
        promotion.enter(TargetId(target), None, Instant::START).unwrap();
        run(&mut stage, &mut promotion, Duration::from_secs(1), space, PageRange::new(0, 0));
        assert_eq!(on(&mut stage, target, PageRange::new(512, 1024), FAST), 512, "split: {split}");
        assert_eq!(stage.memory.space(space).huge_blocks.len(), nr_huge, "split: {split}");
    }
}

#[test]
fn schemes_migrate_frames_and_pages_of_processes() {
    let mut stage = stage();
    let (space, target) = stage.process(1024);
    stage.write_all(space, PageRange::new(0, 64));
    for (of, offers) in [(PHYSICAL, true), (target, true)] {
        let offered = stage.offers(of);
        assert_eq!(offered.actions.contains(&Action::MigrateHot), offers);
        assert!(offered.filtered_actions.contains(&Action::MigrateCold));
    }
    // Physical memory: by page frame.
    let first = stage.number(space, 10);
    stage.target_nid = Some(SLOW);
    assert_eq!(stage.apply(PHYSICAL, Action::MigrateCold, PageRange::at(first, 4)), Ok(4 * PAGE));
    assert_eq!(
        nodes(&mut stage, target, PageRange::new(9, 15)),
        [Some(0), Some(1), Some(1), Some(1), Some(1), Some(0)]
    );
    // Pages that are there already are left.
    assert_eq!(stage.apply(target, Action::MigrateCold, PageRange::new(0, 64)), Ok(60 * PAGE));
    stage.target_nid = Some(FAST);
    assert_eq!(stage.apply(target, Action::MigrateHot, PageRange::new(0, 16)), Ok(16 * PAGE));
    assert_eq!(stage.memory.counters.get(Counter::PgPromoteSuccess), 16);
    // By turns: three pages to the fast node, one to the slow one.
    stage.destinations = vec![Destination { nid: 0, weight: 3 }, Destination { nid: 1, weight: 1 }];
    assert_eq!(stage.apply(target, Action::MigrateHot, PageRange::new(0, 64)), Ok((36 + 4) * PAGE));
    assert_eq!(nodes(&mut stage, target, PageRange::new(20, 24)), [Some(0), Some(0), Some(0), Some(1)]);
    stage.destinations.clear();
    stage.target_nid = Some(HostNode(5));
    assert!(matches!(stage.apply(PHYSICAL, Action::MigrateHot, PageRange::at(first, 4)), Err(HostError::Failed(_))));
    let mut single = Stage::new("classic", DeviceKind::None);
    assert!(matches!(single.apply(PHYSICAL, Action::MigrateHot, PageRange::at(0, 1)), Err(HostError::NotHere(_))));
    assert!(!single.offers(PHYSICAL).actions.contains(&Action::MigrateHot));
}

/// `pages` pages of a process on the fast node, unused since; demotion is on.
fn demoting(policy: &str, swap: DeviceKind, slow: u64, pages: u64) -> (Stage, SpaceId, u32) {
    let mut stage = Stage::with_nodes(policy, swap, &[4096, slow]);
    stage.memory.tiers.demotion = true;
    let (space, target) = stage.process(1 << 14);
    stage.write_all(space, PageRange::new(0, pages));
    forget_uses(&mut stage, space, pages);
    (stage, space, target)
}

fn forget_uses(stage: &mut Stage, space: SpaceId, pages: u64) {
    for page in 0..pages {
        let table = &mut stage.memory.space_mut(space).table;
        let dense = table.dense(page).unwrap();
        table.test_and_clear_young(dense);
    }
}

fn count(stage: &Stage, counter: Counter) -> u64 {
    stage.memory.counters.get(counter)
}

/// docs/spec/promotion.md#s5-2: pages to be reclaimed go down a tier, with swap or without, and count as reclaimed.
#[test]
fn reclaim_of_the_fast_node_demotes() {
    for policy in ["classic", "mglru"] {
        let (mut stage, space, target) = demoting(policy, DeviceKind::None, 8192, 3000);
        let fast = NodeId::new(0);
        let free = stage.memory.nodes.get(fast).free();
        assert!(matches!(stage.run(Attempt::direct(fast)), ReclaimStep::Done { reclaimed: 32.. }), "{policy}");
        let demoted = count(&stage, Counter::PgDemoteDirect);
        assert!((32..=512).contains(&demoted), "{policy}: {demoted}");
        assert_eq!(on(&mut stage, target, PageRange::new(0, 3000), SLOW) as u64, demoted, "{policy}");
        assert_eq!(stage.memory.nodes.get(fast).free() - free, demoted, "{policy}");
        let [fast_node, slow_node] = [0, 1].map(|node: usize| stage.memory.node_counters[node]);
        assert_eq!((fast_node.get(Counter::PgDemoteDirect), slow_node.get(Counter::PgDemoteDirect)), (demoted, 0));
        assert_eq!((count(&stage, Counter::PgStealDirect), count(&stage, Counter::PgStealAnon)), (demoted, demoted));
        assert_eq!(count(&stage, Counter::PgMigrateSuccess), demoted);
        assert_eq!(stage.memory.space(space).nr_resident, 3000, "nothing is gone");
        stage.reclaim(32);
        assert!(count(&stage, Counter::PgDemoteProactive) >= 32, "{policy}");
        stage.check();
        // Off, nothing goes: there is no swap.
        stage.memory.tiers.demotion = false;
        let before = count(&stage, Counter::PgMigrateSuccess);
        let attempt = Attempt::once(stage.cgroup, 32);
        assert_eq!(stage.run(attempt), ReclaimStep::Done { reclaimed: 0 }, "{policy}");
        assert_eq!(count(&stage, Counter::PgMigrateSuccess), before);
    }
}

/// docs/spec/promotion.md#s5-3: in tiering mode kswapd keeps a step more free than otherwise.
#[test]
fn kswapd_stops_at_the_high_or_at_the_promo_watermark() {
    for promo_watermark in [false, true] {
        let (mut stage, space, _) = demoting("classic", DeviceKind::None, 8192, 4000);
        let fast = NodeId::new(0);
        stage.memory.nodes.set_promo_watermark(promo_watermark);
        let marks = stage.memory.nodes.get(fast).zones[0].marks;
        let step = marks.promo - marks.high;
        assert!(step > 0 && marks.high - marks.low == step && marks.low - marks.min == step, "{marks:?}");
        while stage.memory.nodes.get(fast).free() > marks.low {
            let next = stage.memory.space(space).nr_resident;
            stage.write(space, next);
        }
        let resident = stage.memory.space(space).nr_resident;
        forget_uses(&mut stage, space, resident);
        assert!(matches!(stage.run(Attempt::kswapd(fast)), ReclaimStep::Done { reclaimed: 1.. }));
        let free = stage.memory.nodes.get(fast).free();
        let stop = if promo_watermark { marks.promo } else { marks.high };
        assert!(free > stop && free <= stop + 600, "{free} against {stop}");
        assert!(count(&stage, Counter::PgDemoteKswapd) > 0);
        stage.check();
    }
}

/// docs/spec/promotion.md#s5-2: folios that cannot go are reclaimed in a second pass, but not by proactive reclaim.
#[test]
fn with_no_room_below_pages_are_swapped_unless_reclaim_was_asked_for() {
    let (mut stage, space, target) = demoting("classic", DeviceKind::Zram, 1024, 3000);
    let (slow, min) = (NodeId::new(1), stage.memory.nodes.get(NodeId::new(1)).min_marks());
    while stage.memory.nodes.get(slow).free() > min {
        stage.memory.take_target(slow, Mark::Min).expect("above the min watermark");
    }
    // Not checked from here on: the frames taken belong to no process.
    let mut attempt = Attempt::proactive(stage.cgroup, 32, 60);
    while attempt.step(&mut stage.bed.memory, stage.bed.policy.as_mut()) == ReclaimStep::Again {}
    assert_eq!((count(&stage, Counter::PgDemoteProactive), count(&stage, Counter::PswpOut)), (0, 0));
    let mut attempt = Attempt::direct(NodeId::new(0));
    while attempt.step(&mut stage.bed.memory, stage.bed.policy.as_mut()) == ReclaimStep::Again {}
    assert_eq!(count(&stage, Counter::PgDemoteDirect), 0);
    assert!(count(&stage, Counter::PgStealDirect) >= 32 && count(&stage, Counter::PgMigrateFail) == 0);
    assert!(stage.memory.kswapd_wanted[1], "the slow node's daemon is woken");
    assert_eq!(on(&mut stage, target, PageRange::new(0, 3000), SLOW), 0);
    assert!(stage.memory.space(space).nr_swapped >= 32);
}

#[test]
fn huge_and_pinned_pages_on_their_way_down() {
    let mut stage = Stage::with_nodes("classic", DeviceKind::None, &[4096, 8192]);
    stage.memory.tiers.demotion = true;
    let (space, target) = stage.process(1);
    stage.map_huge(space, PageRange::new(512, 1024));
    stage.write(space, 700);
    let pinned = stage.frame(space, 600).unwrap();
    stage.memory.frames.pin(pinned);
    for page in 512..1024 {
        let table = &mut stage.memory.space_mut(space).table;
        let dense = table.dense(page).unwrap();
        table.test_and_clear_young(dense);
    }
    for _ in 0..40 {
        stage.reclaim(64);
    }
    stage.check();
    assert_eq!(on(&mut stage, target, PageRange::new(512, 1024), SLOW), 511, "all but the pinned page");
    assert!(stage.memory.space(space).huge_blocks.is_empty(), "split on the way");
    assert_eq!(nodes(&mut stage, target, PageRange::new(600, 601)), [Some(0)]);
    assert!(count(&stage, Counter::PgMigrateFail) > 0);
}
