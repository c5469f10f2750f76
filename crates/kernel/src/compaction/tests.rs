//! The worked examples of docs/spec/compaction.md, and the invariants of every pass.

use super::*;
use crate::memory::watermarks::WatermarkConfig;
use crate::memory::{Flag, FrameId, NodeSetup};
use crate::migrate::MigrateMode;
use crate::mmu::SpaceId;
use crate::swap::device::DeviceKind;
use crate::testkit::Rig;
use isotherm_core::host::Stop;
use isotherm_units::access::{Advice, LayoutChange};
use isotherm_units::{PageRange, Pages};

const NODE: NodeId = NodeId(0);
/// Pages of the zone below the one under test, so that this begins at page frame 4096.
const BELOW: u64 = 4096;
const ZONE: usize = 1;

/// A zone of `blocks` page blocks at page frame 4096, without watermarks and pages at hand, whose pages are all in use by one
/// process in the order of addresses.
fn full(blocks: u64) -> (Rig, SpaceId) {
    let mut rig = Rig::with(DeviceKind::None, 0, |setup| {
        setup.nodes = vec![NodeSetup::new(vec![Pages::new(BELOW), Pages::new(blocks * 512)], 100)];
        setup.watermarks = WatermarkConfig {
            scale_factor: 0,
            min_free_kib: Some(0),
            lowmem_reserve_ratio: 0,
            ..WatermarkConfig::default()
        };
    });
    for zone in 0..2 {
        let crate::memory::Memory { nodes, frames, .. } = &mut rig.memory;
        nodes.zone_mut(NODE, zone).keep_none_at_hand(frames);
    }
    let space = rig.anonymous(blocks * 512);
    for page in 0..blocks * 512 {
        let need = crate::mmu::Need::Write;
        crate::fault::fault(&mut rig.memory, &mut rig.policy, space, page, need, &mut rig.state);
    }
    for page in [0, blocks * 512 - 1] {
        assert_eq!(u64::from(rig.frame(space, page).unwrap().index_u32()), BELOW + page, "in order");
    }
    rig.memory.ledger.take();
    (rig, space)
}

/// How the fragmenter leaves a page block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pattern {
    /// The first 384 of 512 pages are free.
    Contig,
    /// Every fourth is kept.
    Stride,
}

/// Frees three quarters of the pages of the first blocks.
fn fragment(rig: &mut Rig, space: SpaceId, blocks: u64, pattern: Pattern) {
    for block in 0..blocks {
        let free = match pattern {
            Pattern::Contig => vec![PageRange::at(block * 512, 384)],
            Pattern::Stride => (0..128).map(|group| PageRange::at(block * 512 + group * 4 + 1, 3)).collect(),
        };
        for range in free {
            let change = LayoutChange::Advise(range, Advice::DontNeed);
            crate::fault::change_layout(&mut rig.memory, &mut rig.policy, space, change, &[]).unwrap();
        }
    }
    rig.check();
}

fn zone(rig: &Rig) -> &Zone {
    &rig.memory.nodes.get(NODE).zones[ZONE]
}

/// The zone's row in `/proc/buddyinfo`.
fn row(rig: &Rig) -> Vec<u64> {
    zone(rig).buddy().blocks().counts().to_vec()
}

/// Steps a pass to its end: its result, its work, and the pages that each batch moved.
fn run(rig: &mut Rig, request: Request) -> (CompactResult, Work, Vec<u64>) {
    let mut pass = ZoneRun::new(NODE, ZONE, request);
    let mut batches = Vec::new();
    loop {
        let before = pass.work().moved;
        let step = pass.step(&mut rig.memory, &mut rig.policy);
        if pass.work().moved > before {
            batches.push(pass.work().moved - before);
        }
        if let RunStep::Done(result) = step {
            rig.check();
            return (result, *pass.work(), batches);
        }
        rig.check();
    }
}

const fn down_to(low: u32) -> Request {
    let stop = Stop::Order { order: 9, low };
    let until = Until::Level { stop, counts_in_flight: false, stops_for_reclaim: true };
    Request::whole(MigrateMode::SyncLight, until)
}

const fn by_hand() -> Request {
    let until = Until::Level { stop: Stop::Never, counts_in_flight: false, stops_for_reclaim: false };
    Request::whole(MigrateMode::Sync, until)
}

/// docs/spec/compaction.md#s11, E19: batches of 32 and of the rest, scores without pages in flight.
#[test]
fn e19_a_proactive_run_stops_at_its_level() {
    type Row<'a> = (Pattern, u32, u64, u64, Option<u64>, u32, Option<&'a [u64]>);
    let table: [Row<'_>; 5] = [
        (Pattern::Stride, 80, 256, 1024, Some(342), 66, Some(&[682, 683, 0, 0, 0, 0, 0, 0, 0, 0, 1])),
        (Pattern::Contig, 80, 256, 1024, Some(256), 66, Some(&[0, 0, 0, 0, 0, 0, 0, 6, 5, 0, 1])),
        (Pattern::Stride, 50, 384, 1536, None, 50, Some(&[512, 512, 0, 0, 0, 0, 0, 0, 0, 1, 1])),
        (Pattern::Stride, 25, 640, 2560, None, 16, None),
        (Pattern::Contig, 25, 640, 2560, None, 16, None),
    ];
    for (pattern, low, moved, scanned, free_scanned, extfrag, blocks) in table {
        let (mut rig, space) = full(8);
        fragment(&mut rig, space, 8, pattern);
        let (result, work, batches) = run(&mut rig, down_to(low));
        assert_eq!(
            (result, work.moved, work.scanned_migrate),
            (CompactResult::Success, moved, scanned),
            "{pattern:?} {low}"
        );
        assert!(batches.chunks(2).all(|pair| pair == [32, 96]), "{pattern:?} {low}: {batches:?}");
        assert_eq!(zone(&rig).buddy().blocks().extfrag(9), extfrag, "{pattern:?} {low}");
        if let Some(free_scanned) = free_scanned {
            assert_eq!(work.scanned_free, free_scanned, "{pattern:?} {low}");
        }
        if let Some(blocks) = blocks {
            assert_eq!(row(&rig), blocks, "{pattern:?} {low}");
        }
        assert_eq!(work.blocks_freed, moved / 128);
    }
}

/// E19, the scores seen after each batch: with pages in flight neither free nor in use.
#[test]
fn e19_pages_in_flight_are_not_in_the_score() {
    let table = [
        (Pattern::Stride, [(100, 3071), (83, 3071), (83, 3072), (66, 3072)]),
        (Pattern::Contig, [(100, 2848), (82, 2944), (82, 2976), (66, 3072)]),
    ];
    for (pattern, expected) in table {
        let (mut rig, space) = full(8);
        fragment(&mut rig, space, 8, pattern);
        let mut pass = ZoneRun::new(NODE, ZONE, down_to(80));
        for (extfrag, free) in expected {
            assert_eq!(pass.step(&mut rig.memory, &mut rig.policy), RunStep::Again);
            let blocks = zone(&rig).buddy().blocks();
            assert_eq!((blocks.extfrag(9), blocks.pages()), (extfrag, free), "{pattern:?}");
            assert_eq!(blocks.pages() + pass.in_flight(), 3072);
        }
        let last = pass.step(&mut rig.memory, &mut rig.policy);
        assert_eq!((last, pass.in_flight()), (RunStep::Done(CompactResult::Success), 0));
    }
}

/// E20: to the end. The block next to the scanner for sources takes no pages, so that one block more stays in pieces where
/// targets are taken one by one.
#[test]
fn e20_a_manual_run_goes_on_until_the_scanners_meet() {
    type Row<'a> = (u64, Pattern, u64, u64, u32, Option<&'a [u64]>);
    let table: [Row<'_>; 4] = [
        (8, Pattern::Contig, 768, 6, 0, Some(&[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 3])),
        (8, Pattern::Stride, 672, 5, 16, Some(&[128, 128, 0, 0, 0, 0, 0, 1, 0, 1, 2])),
        (16, Pattern::Contig, 1536, 12, 0, None),
        (16, Pattern::Stride, 1440, 11, 8, None),
    ];
    for (blocks, pattern, moved, freed, extfrag, expected) in table {
        let (mut rig, space) = full(blocks);
        fragment(&mut rig, space, blocks, pattern);
        let (result, work, _) = run(&mut rig, by_hand());
        assert_eq!((result, work.moved), (CompactResult::Complete, moved), "{blocks} {pattern:?}");
        let found = zone(&rig).buddy().blocks();
        assert_eq!((found.suitable(9), found.extfrag(9)), (freed, extfrag), "{blocks} {pattern:?}");
        if let Some(expected) = expected {
            assert_eq!(row(&rig), expected);
        }
        if (blocks, pattern) == (8, Pattern::Contig) {
            assert_eq!(work.scanned_migrate, 3072);
        }
    }
}

/// E32: after an empty block the scanner for targets reads every second page, in a run that may wait as well.
#[test]
fn e32_the_stride_of_the_scanner_for_targets_doubles() {
    let (mut rig, space) = full(4);
    fragment(&mut rig, space, 3, Pattern::Stride);
    let (result, work, batches) = run(&mut rig, by_hand());
    assert_eq!((result, work.moved, batches), (CompactResult::Complete, 160, vec![32, 96, 32]));
    assert_eq!((work.scanned_migrate, work.scanned_free), (1024, 744));
    assert_eq!(row(&rig), [152, 180, 0, 0, 0, 0, 0, 1, 0, 1, 0]);
    assert_eq!(zone(&rig).buddy().blocks().extfrag(9), 55);
}

/// docs/spec/compaction.md#s11, E23.
#[test]
fn e23_how_many_pages_may_be_isolated() {
    assert!(!too_many_isolated(10_000, 80_000, 80_000, true) && too_many_isolated(10_001, 80_000, 80_000, true));
    assert!(!too_many_isolated(80_000, 80_000, 80_000, false) && too_many_isolated(80_001, 80_000, 80_000, false));
}

/// Steps an allocation to its end: its result, and its path.
fn allocate(rig: &mut Rig, effort: HugeEffort) -> (Option<FrameId>, HugePath) {
    let mut allocation =
        HugeAllocation::new(&rig.memory, 9, crate::memory::buddy::MigrateType::Movable, effort, &[NODE]);
    for _ in 0..10_000 {
        let step = allocation.step(&mut rig.memory, &mut rig.policy);
        rig.memory.now += isotherm_units::Duration::from_ns(rig.memory.ledger.take());
        match step {
            AllocateStep::Again => {}
            AllocateStep::Wait(until) => rig.memory.now = until,
            AllocateStep::Got(block) => return (Some(block), allocation.path()),
            AllocateStep::Failed => return (None, allocation.path()),
        }
    }
    panic!("it does not end");
}

/// docs/spec/compaction.md#s2-7: free blocks come first, then blocks that direct compaction makes and keeps for the thread, and in the end
/// there is none.
#[test]
fn an_allocation_goes_from_what_is_free_to_what_it_makes() {
    use crate::counters::Counter;
    for pattern in [Pattern::Contig, Pattern::Stride] {
        let (mut rig, space) = full(8);
        fragment(&mut rig, space, 8, pattern);
        // The zone below is wholly free: eight blocks.
        let mut blocks = Vec::new();
        for _ in 0..8 {
            let (block, path) = allocate(&mut rig, HugeEffort::Light);
            assert_eq!(path, HugePath::Light);
            blocks.push(block.expect("free"));
        }
        assert_eq!(allocate(&mut rig, HugeEffort::Light), (None, HugePath::Light));
        rig.memory.ledger.take();
        let effort = HugeEffort::Direct(Persistence::MayFail);
        let (mut made, mut failed) = (0, 0);
        while failed < 100 {
            let (block, path) = allocate(&mut rig, effort);
            assert_eq!(path, HugePath::Fallback, "{pattern:?}");
            // Scanners that met, and the deferral after it, are temporary failures.
            let Some(block) = block else {
                failed += 1;
                continue;
            };
            assert!(zone(&rig).range().contains(&block.index_u32()));
            blocks.push(block);
            made += 1;
        }
        // Six of eight could be free. Where every fourth page is in use, a search that reads every 32nd finds nothing free. An
        // asynchronous run marks one block after the other as not worth a scan, and later searches skip them.
        let least = if pattern == Pattern::Contig { 5 } else { 3 };
        assert!((least..=6).contains(&made), "{pattern:?}: {made}");
        assert_eq!(rig.memory.counters.get(Counter::CompactSuccess), made, "{pattern:?}");
        let [stalls, fails] = [Counter::CompactStall, Counter::CompactFail].map(|count| rig.memory.counters.get(count));
        assert_eq!(stalls, made + fails, "{pattern:?}");
        let log = &rig.memory.blocks_taken;
        assert_eq!(log.len() as u64, 9 + made + 100);
        assert!(
            log.iter()
                .filter(|block| block.got && block.path == HugePath::Fallback)
                .all(|block| block.latency_ns > 100_000)
        );
        for block in blocks {
            rig.memory.give_target(block, 9);
        }
        rig.check();
    }
}

/// docs/spec/compaction.md#s11, E14, in a zone whose lists at hand are filled: only pages in blocks meet the watermark.
#[test]
fn e14_pages_at_hand_do_not_meet_the_watermark_of_a_block() {
    let mut rig = Rig::with(DeviceKind::None, 0, |setup| {
        setup.nodes = vec![NodeSetup::new(vec![Pages::new(8192)], 100)];
        setup.watermarks = WatermarkConfig { min_free_kib: Some(2048), ..WatermarkConfig::default() };
    });
    let min = rig.memory.nodes.get(NODE).zones[0].marks.min;
    let keep = 8192 - min - 512;
    let space = rig.anonymous(8192);
    for page in 0..keep + 64 {
        let need = crate::mmu::Need::Write;
        crate::fault::fault(&mut rig.memory, &mut rig.policy, space, page, need, &mut rig.state);
    }
    let back = LayoutChange::Advise(PageRange::at(keep, 64), Advice::DontNeed);
    crate::fault::change_layout(&mut rig.memory, &mut rig.policy, space, back, &[]).unwrap();
    let node = rig.memory.nodes.get(NODE);
    assert_eq!(node.free(), min + 512, "with all of them the mark is met: one more than it and the block");
    assert!(node.zones[0].free_in_blocks() < min + 512);
    assert_eq!(allocate(&mut rig, HugeEffort::Light).0, None);
    let Memory { nodes, frames, .. } = &mut rig.memory;
    nodes.drain(frames, NODE);
    assert!(allocate(&mut rig, HugeEffort::Light).0.is_some(), "the same pages, in blocks");
}

/// Failures of a zone are not repeated at once, and forgotten when a page was got.
#[test]
fn failures_are_deferred() {
    let (mut rig, space) = full(8);
    // Nothing is free but single pages of the last block: no block can be made.
    fragment(&mut rig, space, 8, Pattern::Stride);
    let pinned: Vec<FrameId> = (0..8 * 512).filter_map(|page| rig.frame(space, page)).collect();
    pinned.iter().for_each(|&frame| rig.memory.frames.pin(frame));
    for zone in 0..1 {
        let crate::memory::Memory { nodes, frames, .. } = &mut rig.memory;
        while nodes.zone_mut(NODE, zone).take_block(frames, 9, crate::memory::buddy::MigrateType::Movable).is_some() {}
    }
    let priority = Priority::SyncLight;
    let mut results = Vec::new();
    for _ in 0..8 {
        let zones = vec![(NODE, ZONE)];
        let mut compaction = DirectCompaction::new(9, crate::memory::buddy::MigrateType::Movable, priority, zones);
        let result = loop {
            if let super::direct::DirectStep::Done(result, got) = compaction.step(&mut rig.memory, &mut rig.policy) {
                assert_eq!(got, None);
                break result;
            }
        };
        results.push(result);
    }
    let is_attempt = |result: &CompactResult| *result != CompactResult::Deferred;
    let attempts: Vec<usize> =
        results.iter().enumerate().filter(|(_, result)| is_attempt(result)).map(|(at, _)| at + 1).collect();
    assert_eq!(attempts, [1, 3, 7], "E15: {results:?}");
    assert!(
        pinned.iter().zip((0..8 * 512).filter_map(|page| rig.frame(space, page))).all(|(&before, now)| before == now)
    );
}

mod properties {
    use super::*;
    use crate::memory::Memory;
    use crate::memory::buddy::MigrateType;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    /// The contents of a random zone.
    #[derive(Clone, Debug)]
    struct Scene {
        /// Pages dropped, by number.
        dropped: Vec<u64>,
        /// Blocks of the kernel: order and type.
        kernel: Vec<(u32, MigrateType)>,
        /// Pages pinned, by number.
        pinned: Vec<u64>,
    }

    const BLOCKS: u64 = 6;

    fn scene() -> impl Strategy<Value = Scene> {
        let page = 0..BLOCKS * 512;
        let kind = prop::sample::select(vec![MigrateType::Unmovable, MigrateType::Reclaimable]);
        (
            prop::collection::vec(page.clone(), 0..2000),
            prop::collection::vec((0u32..4, kind), 0..40),
            prop::collection::vec(page, 0..30),
        )
            .prop_map(|(dropped, kernel, pinned)| Scene { dropped, kernel, pinned })
    }

    fn request() -> impl Strategy<Value = Request> {
        let priority = prop::sample::select(vec![Priority::Async, Priority::SyncLight, Priority::Full]);
        prop_oneof![
            (1u32..=10, priority).prop_map(|(order, priority)| Request::direct(order, MigrateType::Movable, priority)),
            (1u32..=10).prop_map(Request::on_demand),
            (0u32..100).prop_map(down_to),
            Just(by_hand()),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 32, ..ProptestConfig::default() })]
        /// Properties of every compaction: no unmovable page is moved, no wanted block is broken up, no page is lost or doubled, and after
        /// each batch the free blocks are where they must be.
        #[test]
        fn passes_keep_to_what_they_promise(scene in scene(), requests in prop::collection::vec(request(), 1..4)) {
            let (mut rig, space) = full(BLOCKS);
            let drop = |page| LayoutChange::Advise(PageRange::at(page, 1), Advice::DontNeed);
            for &page in &scene.dropped {
                crate::fault::change_layout(&mut rig.memory, &mut rig.policy, space, drop(page), &[]).unwrap();
            }
            for &(order, kind) in &scene.kernel {
                let Memory { nodes, frames, .. } = &mut rig.memory;
                if let Some(block) = nodes.zone_mut(NODE, ZONE).take_block(frames, order, kind) {
                    rig.memory.keep_for_kernel(block, order, kind);
                }
            }
            let pinned: BTreeMap<u64, FrameId> =
                scene.pinned.iter().filter_map(|&page| Some((page, rig.frame(space, page)?))).collect();
            pinned.values().for_each(|&frame| rig.memory.frames.pin(frame));
            let kernel: Vec<_> = rig.memory.kernel.blocks().collect();
            let resident: Vec<u64> = (0..BLOCKS * 512).filter(|&page| rig.frame(space, page).is_some()).collect();
            rig.check();
            for request in requests {
                let order = request.order.unwrap_or(9);
                let mut whole = zone(&rig).buddy().blocks().suitable(order);
                let free = zone(&rig).free_in_blocks();
                let mut pass = ZoneRun::new(NODE, ZONE, request);
                for steps in 0.. {
                    prop_assert!(steps < 5000, "it does not end");
                    let step = pass.step(&mut rig.memory, &mut rig.policy);
                    rig.memory.now += isotherm_units::Duration::from_ns(rig.memory.ledger.take());
                    if let RunStep::Throttled(until) = step {
                        rig.memory.now = until;
                    }
                    zone(&rig).check(&rig.memory.frames).unwrap();
                    let now = zone(&rig).buddy().blocks().suitable(order);
                    prop_assert!(now >= whole || order < 9, "{} blocks of order {order} were {whole}", now);
                    whole = now;
                    prop_assert_eq!(zone(&rig).free_in_blocks() + pass.in_flight(), free);
                    if let RunStep::Done(_) = step {
                        break;
                    }
                }
                rig.check();
                prop_assert_eq!(pass.in_flight(), 0);
                prop_assert_eq!(&rig.memory.kernel.blocks().collect::<Vec<_>>(), &kernel);
                for (&page, &frame) in &pinned {
                    prop_assert_eq!(rig.frame(space, page), Some(frame), "pinned");
                }
                let still: Vec<u64> = (0..BLOCKS * 512).filter(|&page| rig.frame(space, page).is_some()).collect();
                prop_assert_eq!(&still, &resident);
                for frame in resident.iter().filter_map(|&page| rig.frame(space, page)) {
                    prop_assert!(rig.memory.frames.has(frame, Flag::OnList), "isolated");
                }
            }
        }
    }
}
