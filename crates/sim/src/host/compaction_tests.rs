//! Answers of hosts to compaction designs: the kernel's own results through the calls of a host.

use super::stage::{FRAMES, Stage};
use isotherm_core::compaction::{CompactExtfrag, Request, Why};
use isotherm_core::host::{CompactMode, CompactStep, Compacting, HostError, Stop, ZoneId};
use isotherm_kernel::memory::{Memory, NodeId};
use isotherm_kernel::mmu::SpaceId;
use isotherm_kernel::swap::device::DeviceKind;
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

#[test]
fn a_request_to_a_level_is_carried_out_by_steps() {
    let (mut stage, _) = fragmented();
    let mut zones = Vec::new();
    stage.host().zones(&mut zones).unwrap();
    let [zone] = &zones[..] else { panic!("one zone") };
    let before = zone.blocks.extfrag(9);
    // 6 · 384 loose pages next to two blocks: 2304 of 3328.
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
    let step = CompactStep {
        zone: missing,
        is_first: true,
        mode: CompactMode::SyncLight,
        stop: Stop::Never,
        counts_in_flight: false,
        stops_for_reclaim: false,
        max_scanned: 1,
        max_moved: 1,
    };
    assert_eq!(stage.host().compact(&step), Err(HostError::Failed("there is no such zone: node 0, zone 3".to_owned())));
}
