//! What hosts answer designs of compaction: the kernel's own results through the calls of a host, and moves of single pages.

use super::stage::{FRAMES, Stage};
use crate::memory::{FrameId, Memory, NodeId};
use crate::mmu::{Need, SpaceId};
use crate::swap::device::DeviceKind;
use isotherm_core::compaction::{CompactExtfrag, Request, Why};
use isotherm_core::host::{
    BlocksScan, CompactEnd, CompactMode, Compacting, HostError, MoveBatch, PageBlock, PageContent, ZoneId,
};
use isotherm_units::access::{Advice, LayoutChange};
use isotherm_units::{Duration, Instant, PageRange};

const ZONE: ZoneId = ZoneId { node: isotherm_core::host::NodeId(0), zone: 0 };

/// Six page blocks whose first three quarters are free, and two that are free.
fn fragmented() -> (Stage, SpaceId) {
    let mut stage = Stage::new("classic", DeviceKind::None);
    let (space, _) = stage.process(6 * 512);
    stage.write_all(space, PageRange::new(0, 6 * 512));
    for block in 0..6 {
        let change = LayoutChange::Advise(PageRange::at(block * 512, 384), Advice::DontNeed);
        stage.change(space, change);
    }
    let Memory { nodes, frames, .. } = &mut stage.memory;
    nodes.drain(frames, NodeId::default());
    stage.memory.ledger.take();
    (stage, space)
}

fn check(stage: &mut Stage, samples: u32, turn: u32) -> Vec<PageBlock> {
    let mut blocks = Vec::new();
    stage.host().page_blocks(&BlocksScan { zone: ZONE, samples, turn }, &mut blocks).unwrap();
    blocks
}

#[test]
fn a_request_to_a_level_is_carried_out_by_steps() {
    let (mut stage, _) = fragmented();
    let mut zones = Vec::new();
    stage.host().zones(&mut zones).unwrap();
    let [zone] = &zones[..] else { panic!("one zone") };
    let before = zone.blocks.extfrag(9);
    // 6 · 384 loose pages beside two blocks: 2304 of 3328.
    assert_eq!((zone.blocks.pages(), zone.blocks.suitable(9), before), (3328, 2, 69));
    assert_eq!((zone.movable, zone.present, zone.exact_yield), (Some(zone.blocks), FRAMES, None));
    let request = Request::new(0, None, 9, 60, 40);
    let mut run = CompactExtfrag::new(request, Instant::START, &mut stage.host()).unwrap();
    let mut now = Instant::START;
    while run.poll_timeout().is_some() {
        now += run.handle_timeout(now, &mut stage.host()).unwrap() + Duration::from_ns(1);
        stage.memory.now = now;
    }
    stage.memory.check().unwrap();
    let [report] = run.reports() else { panic!("one zone") };
    assert_eq!((report.why, report.extfrag_before), (Why::ReachedLow, before));
    assert!(report.extfrag_after <= 40 && report.work.blocks_freed >= 2, "{report:?}");
    assert_eq!(report.work.pages_moved, 128 * report.work.blocks_freed);
    assert!(report.work.cpu.ns() >= report.work.pages_moved * 4500);
    assert_eq!(stage.memory.nodes.nr_used(), 6 * 128, "nothing is held back");
    let missing = ZoneId { zone: 3, ..ZONE };
    let error = stage.host().page_blocks(&BlocksScan { zone: missing, samples: 0, turn: 0 }, &mut Vec::new());
    assert_eq!(error, Err(HostError::Failed("there is no such zone: node 0, zone 3".to_owned())));
}

#[test]
fn blocks_tell_what_they_hold_and_how_much_of_it_is_used() {
    let (mut stage, space) = fragmented();
    let first = stage.frame(space, 384).expect("resident");
    stage.memory.frames.pin(first);
    let blocks = check(&mut stage, 0, 0);
    let held: Vec<(u32, u32)> = blocks.iter().map(|block| (block.usage.movable, block.usage.fixed)).collect();
    assert_eq!(held, [(127, 1), (128, 0), (128, 0), (128, 0), (128, 0), (128, 0), (0, 0), (0, 0)]);
    assert!(blocks.iter().all(|block| block.usage.is_target && block.sampled == 0));
    // All were written: the first look takes the bits, the second finds what was used since.
    let sampled =
        |blocks: Vec<PageBlock>| blocks.iter().map(|block| (block.sampled, block.accessed)).collect::<Vec<_>>();
    assert_eq!(sampled(check(&mut stage, 1000, 0))[..2], [(127, 127), (128, 128)]);
    for page in [384 + 512, 400 + 512] {
        stage.touch(space, page, Need::Read);
    }
    assert_eq!(sampled(check(&mut stage, 32, 0))[1], (32, 2), "every fourth page, the first and the seventeenth");
    assert_eq!(sampled(check(&mut stage, 32, 1))[1], (32, 0), "others, and the bits are taken");
    let mut results = Vec::new();
    stage.host().block_pages(ZONE, 0, false, &mut results).unwrap();
    let count = |result: PageContent| results.iter().filter(|&&other| other == result).count();
    assert_eq!((results.len(), count(PageContent::Free), count(PageContent::Fixed)), (512, 384, 1));
    let error = stage.host().block_pages(ZONE, 8, false, &mut results);
    assert_eq!(error, Err(HostError::Failed("there is no page block 8; the zone has 8".to_owned())));
}

#[test]
fn single_pages_move_into_the_blocks_that_are_named() {
    let (mut stage, space) = fragmented();
    check(&mut stage, 1000, 0);
    stage.touch(space, 384 + 5, Need::Read);
    let pages: Vec<u32> = (384..512).collect();
    let batch = MoveBatch {
        zone: ZONE,
        block: 0,
        pages: &pages,
        targets: &[6, 3, 2],
        spares_accessed: true,
        mode: CompactMode::SyncLight,
    };
    let done = stage.host().move_pages(&batch).unwrap();
    stage.memory.check().unwrap();
    assert_eq!((done.end, done.pages_moved, done.blocks_freed), (None, 127, 0), "one is in use");
    let block_of = |stage: &Stage, page| stage.frame(space, page).map(|frame: FrameId| frame.index_u32() / 512);
    assert_eq!((block_of(&stage, 384 + 5), block_of(&stage, 384)), (Some(0), Some(3)), "not into a block that is free");
    stage.memory.now += Duration::from_ms(10);
    let done = stage.host().move_pages(&MoveBatch { spares_accessed: false, ..batch }).unwrap();
    assert_eq!((done.end, done.pages_moved, done.blocks_freed), (None, 1, 1));
    // Nowhere to go: the block that is named is full or free.
    let done = stage.host().move_pages(&MoveBatch { block: 1, targets: &[6], ..batch }).unwrap();
    assert_eq!((done.end, done.pages_moved), (Some(CompactEnd::NoTargets), 0));
    let error = stage.host().move_pages(&MoveBatch { targets: &[0], ..batch });
    assert_eq!(error, Err(HostError::Failed("page block 0 is to be emptied and filled".to_owned())));
    stage.memory.check().unwrap();
}
