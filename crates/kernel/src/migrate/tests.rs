//! State that a moved page keeps, the cost of moving, and the waits for it.

use super::*;
use crate::fault::{FaultOutcome, FaultState, fault};
use crate::memory::{Mark, NodeId, NodeSetup};
use crate::mmu::{Need, SpaceId};
use crate::swap::device::DeviceKind;
use crate::testkit::{MACHINE_PAGES, Rig};
use isotherm_units::access::{FileKind, Sharing};
use isotherm_units::{PageRange, Pages};

const NODE: NodeId = NodeId(0);

fn target(rig: &mut Rig) -> FrameId {
    rig.memory.take_target(NODE, Mark::Nothing).expect("a free frame")
}

/// Moves the page at `page` anywhere else.
fn migrate(rig: &mut Rig, space: SpaceId, page: u64) -> (FrameId, Migrated) {
    let (from, to) = (rig.frame(space, page).expect("resident"), target(rig));
    let moved = rig.memory.migrate_batch(&mut rig.policy, &[(from, to)], MigrateMode::SyncLight);
    if moved.pages == 0 {
        rig.memory.give_target(to, 0);
    }
    rig.check();
    (to, moved)
}

/// CPU time of a batch of pages that one entry maps each.
fn batch_ns(rig: &Rig, pages: u64) -> u64 {
    let costs = &rig.memory.costs;
    let page = costs.migrate_isolate_ns
        + costs.migrate_lock_ns
        + costs.migrate_unmap_ns
        + costs.migrate_copy_ns
        + costs.migrate_remap_ns;
    pages * page + costs.migrate_flush_ns
}

#[test]
fn a_page_keeps_everything_but_its_frame() {
    let mut rig = Rig::new(DeviceKind::Nvme);
    let space = rig.anonymous(8);
    rig.write(space, 3);
    rig.read(space, 3);
    let frame = rig.frame(space, 3).unwrap();
    rig.memory.frames.set(frame, Flag::Workingset);
    rig.memory.frames.leave_young(frame);
    rig.memory.ledger.take();
    let usage = rig.usage();
    let (to, moved) = migrate(&mut rig, space, 3);
    assert_eq!((rig.frame(space, 3), moved.pages, rig.usage()), (Some(to), 1, usage));
    assert!(rig.has(space, 3, Flag::Workingset) && rig.memory.frames.is_left_young(to));
    let (dense, table) = (rig.dense(space, 3), &rig.memory.space(space).table);
    assert!(table.is_young(dense) && table.is_dirty(dense) && table.is_writable(dense));
    assert_eq!(rig.memory.ledger.take(), batch_ns(&rig, 1));
    assert_eq!((rig.count(Counter::PgMigrateSuccess), rig.count(Counter::PgMigrateFail)), (1, 0));
    // The old frame is free; a page in the swap cache takes its slot along.
    rig.evict(space, 3);
    rig.read(space, 3);
    let slot = rig.memory.frames.slot(rig.frame(space, 3).unwrap());
    assert!(slot.is_some());
    let (to, _) = migrate(&mut rig, space, 3);
    assert_eq!((rig.memory.frames.slot(to), rig.memory.slots.cached(slot.unwrap())), (slot, Some(to)));
    rig.exit(space);
    rig.assert_empty();
}

#[test]
fn everybody_who_shows_a_page_shows_it_afterwards() {
    let mut rig = Rig::new(DeviceKind::None);
    let parent = rig.anonymous(8);
    rig.write(parent, 3);
    let child = rig.fork(parent);
    let (to, _) = migrate(&mut rig, child, 3);
    assert_eq!([parent, child].map(|space| rig.frame(space, 3)), [Some(to); 2]);
    let file = rig.space();
    for kind in [FileKind::Regular, FileKind::SharedMemory] {
        let at = if kind == FileKind::Regular { 100 } else { 200 };
        for space in [parent, file] {
            rig.map_file(space, "data", at, 16, Sharing::Shared, kind);
            rig.write(space, at + 5);
        }
        rig.memory.ledger.take();
        let (to, _) = migrate(&mut rig, file, at + 5);
        assert_eq!([parent, file].map(|space| rig.frame(space, at + 5)), [Some(to); 2]);
        let costs = &rig.memory.costs;
        let second = costs.migrate_unmap_ns + costs.migrate_remap_ns;
        let spent = batch_ns(&rig, 1) + second;
        assert_eq!(rig.memory.ledger.take(), spent, "two entries");
    }
}

#[test]
fn pages_go_to_another_node_and_its_lists() {
    let mut rig = Rig::with(DeviceKind::None, 0, |setup| {
        setup.nodes = [100, 300].map(|ns| NodeSetup::new(vec![Pages::new(2048)], ns)).to_vec();
    });
    let space = rig.anonymous(600);
    rig.write_all(space, PageRange::new(0, 600));
    let far = NodeId(1);
    let frames = (0..600).map(|page| rig.frame(space, page).unwrap());
    let mut moves: Vec<Move> = frames.map(|frame| (frame, frame)).collect();
    for (_, to) in &mut moves {
        *to = rig.memory.take_target(far, Mark::Low).unwrap();
    }
    rig.memory.ledger.take();
    let moved = rig.memory.migrate_batch(&mut rig.policy, &moves, MigrateMode::Async);
    rig.check();
    assert_eq!((moved.pages, moved.failed.len(), rig.memory.nodes.get(NODE).free()), (600, 0, 2048));
    assert!((0..600).all(|page| rig.memory.nodes.of(rig.frame(space, page).unwrap()) == far));
    // 1.5 µs and half a one for the copy each; no processor runs the space, so that a flush is 1 µs.
    assert_eq!(rig.memory.ledger.take(), 600 * (1500 + 512) + 2 * 1000, "two batches");
}

/// A number of pages on a slow node, and a fast one; with these bandwidths, on a machine where 60 processors run their owner.
fn rig_of_two(mb_per_s: [Option<u64>; 2], pages: u64) -> (Rig, SpaceId) {
    let mut rig = Rig::with(DeviceKind::None, 0, |setup| {
        let zones = || vec![Pages::new(2048)];
        let [slow, fast] = mb_per_s;
        setup.nodes = vec![
            NodeSetup { bandwidth_mb_per_s: slow, ..NodeSetup::slow(zones(), 250) },
            NodeSetup { bandwidth_mb_per_s: fast, ..NodeSetup::new(zones(), 100) },
        ];
    });
    let space = rig.anonymous(pages);
    rig.write_all(space, PageRange::new(0, pages));
    rig.memory.space_mut(space).running_cpus = 60;
    (rig, space)
}

/// CPU time of moving the first `pages` to the other node, in batches under one flush.
fn moved_ns((rig, space): &mut (Rig, SpaceId), pages: u64, together: usize) -> u64 {
    let folios: Vec<Option<FrameId>> = (0..pages).map(|page| rig.frame(*space, page)).collect();
    let mut results = vec![isotherm_core::host::PageMove::NotPresent; folios.len()];
    rig.memory.ledger.take();
    let how = NodeMove { together, ..NodeMove::freely(NodeId(1)) };
    rig.memory.move_to_node(&mut rig.policy, &folios, &how, &mut results);
    assert!(results.iter().all(|result| matches!(result, isotherm_core::host::PageMove::Moved(1))), "{results:?}");
    rig.check();
    rig.memory.ledger.take()
}

/// docs/spec/promotion.md#s7, example 25: 1.5 µs a page, a flush of 4 µs (60 processors) and 8 GB/s.
#[test]
fn oracle_25_a_flush_for_a_page_or_for_a_batch() {
    let table = [(1, 512, 6_012), (512, 512, 1_034_144), (512, 1, 3_078_144), (1000, 512, 2_020_000)];
    for (pages, together, ns) in table {
        let mut world = rig_of_two([Some(25_000), Some(200_000)], pages);
        assert_eq!(moved_ns(&mut world, pages, together), ns, "example 25: {pages} pages, {together} together");
        let flushes = world.0.memory.space(world.1).shootdowns;
        assert_eq!(flushes, pages.div_ceil(together as u64), "each interrupts who runs the space");
    }
}

/// docs/spec/promotion.md#s5-4: the slowest of both memories and the processor limits the copy, and the flush costs more with
/// each processor asked, the own one left out.
#[test]
fn a_move_is_as_fast_as_the_slower_memory_and_the_flush_grows_with_processors() {
    let fixed = 1500 + 4000;
    for (mb_per_s, copy_ns) in [([None, None], 512), ([Some(4000), None], 1024), ([Some(25_000), Some(1000)], 4096)] {
        assert_eq!(moved_ns(&mut rig_of_two(mb_per_s, 1), 1, 1), fixed + copy_ns, "{mb_per_s:?}");
    }
    for (running_cpus, own, flush_ns) in [(0, false, 1000), (1, true, 1000), (16, false, 1800), (16, true, 1750)] {
        let mut world = rig_of_two([None, Some(200_000)], 1);
        world.0.memory.space_mut(world.1).running_cpus = running_cpus;
        world.0.memory.running = own.then_some(world.1);
        assert_eq!(moved_ns(&mut world, 1, 1), 1500 + 512 + flush_ns, "{running_cpus} processors");
    }
}

#[test]
fn a_huge_page_moves_as_one() {
    let mut rig = Rig::new(DeviceKind::None);
    let space = rig.space();
    rig.map_huge(space, PageRange::new(0, 1024));
    rig.write(space, 7);
    let from = rig.frame(space, 0).unwrap();
    assert_eq!(rig.memory.huge_page_of(rig.frame(space, 9).unwrap()), Some(from));
    let to = rig.memory.take_huge_target(NODE, Mark::Nothing).unwrap();
    rig.memory.ledger.take();
    let inner = FrameId::new(from.index_u32() + 9);
    let moved = rig.memory.migrate_batch(&mut rig.policy, &[(inner, to)], MigrateMode::Sync);
    assert_eq!(moved.failed, [(0, Refusal::PartOfHuge)]);
    let moved = rig.memory.migrate_batch(&mut rig.policy, &[(from, to)], MigrateMode::Sync);
    rig.check();
    assert_eq!(
        (moved.pages, moved.huge_pages, rig.frame(space, 511)),
        (512, 512, Some(FrameId::new(to.index_u32() + 511)))
    );
    let costs = &rig.memory.costs;
    let spent = batch_ns(&rig, 1) - costs.migrate_copy_ns + 512 * costs.page_copy_ns;
    assert_eq!(rig.memory.ledger.take(), spent, "one entry");
    assert_eq!(rig.counts([Counter::PgMigrateSuccess, Counter::ThpMigrationSuccess]), [512, 1]);
    assert!(rig.memory.space(space).huge_blocks.contains(&0));
    let until = moved.until;
    rig.memory.now = Instant::from_ns(until.ns() - 1);
    assert_eq!(rig.memory.arrival_of(space, 300), Some((until, Mover::Anybody)), "all of it is out of reach");
    rig.exit(space);
    rig.assert_empty();
}

#[test]
fn a_huge_page_stays_where_any_of_its_pages_is_held() {
    let mut rig = Rig::new(DeviceKind::None);
    let space = rig.space();
    rig.map_huge(space, PageRange::new(0, 1024));
    rig.write(space, 7);
    let (from, held) = (rig.frame(space, 0).unwrap(), rig.frame(space, 300).unwrap());
    let to = rig.memory.take_huge_target(NODE, Mark::Nothing).unwrap();
    rig.memory.frames.pin(held);
    let moved = rig.memory.migrate_batch(&mut rig.policy, &[(from, to)], MigrateMode::Sync);
    assert_eq!((moved.pages, moved.failed.as_slice()), (0, &[(0, Refusal::Pinned)][..]));
    assert_eq!(rig.counts([Counter::PgMigrateFail, Counter::ThpMigrationFail]), [512, 1]);
    assert_eq!(rig.frame(space, 300), Some(held));
    rig.memory.frames.unpin(held);
    let moved = rig.memory.migrate_batch(&mut rig.policy, &[(from, to)], MigrateMode::Sync);
    rig.check();
    assert_eq!((moved.pages, moved.failed.len()), (512, 0));
    rig.exit(space);
    rig.assert_empty();
}

#[test]
fn what_cannot_move_says_why() {
    let mut rig = Rig::new(DeviceKind::Nvme);
    let space = rig.anonymous(64);
    rig.map_file(space, "data", 100, 64, Sharing::Shared, FileKind::Regular);
    rig.write_all(space, PageRange::new(0, 4));
    let frame = rig.frame(space, 0).unwrap();
    // Pinned: three passes together and seven alone, twice unmapped, and back where it was.
    rig.memory.frames.pin(frame);
    rig.memory.ledger.take();
    let (_, moved) = migrate(&mut rig, space, 0);
    assert_eq!((moved.pages, moved.failed.as_slice()), (0, &[(0, Refusal::Pinned)][..]));
    let costs = rig.memory.costs;
    let once = costs.migrate_lock_ns + costs.migrate_unmap_ns + costs.migrate_flush_ns + costs.migrate_remap_ns;
    assert_eq!(rig.memory.ledger.take(), costs.migrate_isolate_ns + 2 * once + 10 * costs.migrate_lock_ns);
    assert_eq!((rig.frame(space, 0), rig.count(Counter::PgMigrateFail)), (Some(frame), 1));
    rig.memory.frames.unpin(frame);
    assert_eq!(migrate(&mut rig, space, 0).1.pages, 1);
    // Being written, being read.
    let written = rig.frame(space, 1).unwrap();
    rig.evict_frame(written);
    let due = rig.memory.io.due(written);
    let to = target(&mut rig);
    for (mode, retry_at) in [(MigrateMode::SyncLight, None), (MigrateMode::Sync, due)] {
        let moved = rig.memory.migrate_batch(&mut rig.policy, &[(written, to)], mode);
        assert_eq!((moved.failed, moved.retry_at), (vec![(0, Refusal::Writeback)], retry_at), "{mode:?}");
    }
    let mut state = FaultState::default();
    let outcome = fault(&mut rig.memory, &mut rig.policy, space, 103, Need::Read, &mut state);
    assert!(matches!(outcome, FaultOutcome::Wait { .. }));
    let crate::memory::CachePage::Frame(read) = rig.memory.files.get(crate::memory::FileId::from_index(0)).page(3)
    else {
        panic!("being read")
    };
    let other = rig.frame(space, 2).unwrap();
    let cases =
        [(read, to, Refusal::Reading), (other, other, Refusal::TargetTaken), (other, read, Refusal::TargetTaken)];
    for (from, to, refusal) in cases {
        let moved = rig.memory.migrate_batch(&mut rig.policy, &[(from, to)], MigrateMode::Sync);
        assert_eq!(moved.failed, [(0, refusal)], "{refusal:?}");
    }
    let unused = FrameId::new(u32::try_from(MACHINE_PAGES).unwrap() - 1);
    let moved = rig.memory.migrate_batch(&mut rig.policy, &[(unused, to)], MigrateMode::Sync);
    assert_eq!(moved.failed, [(0, Refusal::Isolated)]);
    rig.memory.give_target(to, 0);
    rig.settle();
    rig.check();
}

/// The pages of a batch are out of reach from their own unmapping to their own arrival.
#[test]
fn a_page_in_flight_is_waited_for() {
    let mut rig = Rig::new(DeviceKind::None);
    let space = rig.anonymous(8);
    rig.write_all(space, PageRange::new(0, 3));
    rig.memory.ledger.take();
    let moves: Vec<Move> = (0..3).map(|page| (rig.frame(space, page).unwrap(), target(&mut rig))).collect();
    let now = rig.memory.now;
    rig.memory.migrate_batch(&mut rig.policy, &moves, MigrateMode::SyncLight);
    let costs = rig.memory.costs;
    let isolated = now + Duration::from_ns(3 * costs.migrate_isolate_ns);
    let [unmap, place] =
        [costs.migrate_lock_ns + costs.migrate_unmap_ns, costs.migrate_copy_ns + costs.migrate_remap_ns];
    let arrival = |page: u64| isolated + Duration::from_ns(3 * unmap + costs.migrate_flush_ns + (page + 1) * place);
    rig.memory.now = isolated + Duration::from_ns(unmap);
    let arrivals = |rig: &Rig| [0, 1, 2].map(|page| rig.memory.arrival_of(space, page).map(|(until, _mover)| until));
    assert_eq!(arrivals(&rig), [Some(arrival(0)), Some(arrival(1)), None]);
    let mut state = FaultState::default();
    rig.memory.ledger.take();
    let outcome = fault(&mut rig.memory, &mut rig.policy, space, 1, Need::Write, &mut state);
    assert_eq!(outcome, FaultOutcome::Migrating { until: arrival(1) });
    assert_eq!(rig.memory.ledger.take(), costs.migrate_fault_ns);
    let stalls = rig.memory.migration.stalls;
    assert_eq!((stalls.count, stalls.longest), (1, arrival(1).since(rig.memory.now)));
    rig.memory.now = arrival(1);
    assert_eq!(arrivals(&rig), [None, None, Some(arrival(2))]);
    let (migrating, next) = rig.memory.migration.migrating(space, arrival(1)).expect("one is on its way");
    assert_eq!((migrating, next), (vec![PageRange::at(2, 1)], arrival(2)));
    assert_eq!(rig.memory.migration.migrating(space, arrival(2)), None);
    assert!(rig.memory.migration.is_empty());
}

/// A page of the page cache that is not mapped has no entry that could be met. A thread that writes to it through a descriptor, or maps it,
/// waits for its lock; a thread that reads it does not.
#[test]
fn a_write_through_a_descriptor_waits_for_a_page_in_flight() {
    use crate::fault::descriptor;
    use crate::memory::{CachePage, FileId};
    use isotherm_units::access::{Channel, Run};
    let by_call = |run: Run| run.through(Channel::FileDescriptor);
    for kind in [FileKind::Regular, FileKind::SharedMemory] {
        let mut rig = Rig::new(DeviceKind::None);
        let space = rig.space();
        rig.map_file(space, "f", 100, 16, Sharing::Shared, kind);
        let file = FileId::from_index(0);
        rig.call(space, by_call(Run::write(100, 16)));
        let frame_of = |rig: &Rig, page: u64| match rig.memory.files.get(file).page(page) {
            CachePage::Frame(frame) => frame,
            other => panic!("{other:?}"),
        };
        let now = rig.memory.now;
        rig.memory.ledger.take();
        let moves: Vec<Move> = (0..2).map(|page| (frame_of(&rig, page), target(&mut rig))).collect();
        let moved = rig.memory.migrate_batch(&mut rig.policy, &moves, MigrateMode::SyncLight);
        assert_eq!((moved.pages, rig.memory.migration.pages_in_flight(now)), (2, 2), "{kind:?}: mapped or not");
        assert!(rig.memory.migration.is_empty(), "{kind:?}: no entry is in the way");
        let costs = rig.memory.costs;
        let arrival =
            now + Duration::from_ns(2 * (costs.migrate_isolate_ns + costs.migrate_lock_ns) + costs.migrate_copy_ns);
        rig.memory.now = now + Duration::from_ns(2 * costs.migrate_isolate_ns + costs.migrate_lock_ns);
        let attempt = |rig: &mut Rig, run: Run| {
            let (mut state, mut done) = (FaultState::default(), 0);
            let outcome = descriptor(&mut rig.memory, &mut rig.policy, space, run, &mut done, &mut state);
            (outcome, done)
        };
        let waits = (FaultOutcome::Migrating { until: arrival }, 0);
        assert_eq!(attempt(&mut rig, by_call(Run::read(100, 1))), (FaultOutcome::Done, 1), "{kind:?}");
        assert_eq!(attempt(&mut rig, by_call(Run::write(100, 1))), waits, "{kind:?}");
        assert_eq!(attempt(&mut rig, by_call(Run::write(102, 3))), (FaultOutcome::Done, 3), "{kind:?}: what stays");
        let stalls = rig.memory.migration.stalls;
        assert_eq!((stalls.count, stalls.longest), (1, arrival.since(rig.memory.now)), "{kind:?}");
        if kind == FileKind::Regular {
            let mut state = FaultState::default();
            let outcome = fault(&mut rig.memory, &mut rig.policy, space, 100, Need::Read, &mut state);
            assert_eq!(outcome, waits.0, "to map it, it is locked as well");
        }
        rig.memory.now = arrival;
        assert_eq!(attempt(&mut rig, by_call(Run::write(100, 1))), (FaultOutcome::Done, 1), "{kind:?}");
        rig.pass_time(moved.until);
        assert_eq!(rig.memory.migration.pages_in_flight(moved.until), 0);
        rig.check();
    }
}

/// docs/spec/compaction.md#s11, E26: with the later preset a batch of 32 pages takes 154 µs and one of 96 442 µs.
#[test]
fn e26_a_batch_flushes_once_and_a_page_alone_each_time() {
    for (flush, pages, us) in [(Flush::PerBatch, 32, 154), (Flush::PerBatch, 96, 442), (Flush::PerPage, 128, 1856)] {
        let mut rig = Rig::new(DeviceKind::None);
        rig.memory.migration.flush = flush;
        let space = rig.anonymous(pages);
        rig.write_all(space, PageRange::new(0, pages));
        let moves: Vec<Move> = (0..pages).map(|page| (rig.frame(space, page).unwrap(), target(&mut rig))).collect();
        rig.memory.ledger.take();
        let now = rig.memory.now;
        let moved = rig.memory.migrate_batch(&mut rig.policy, &moves, MigrateMode::SyncLight);
        let spent = rig.memory.ledger.take();
        assert_eq!((spent / 1000, moved.until.since(now).ns()), (us, spent), "{flush:?} {pages}");
    }
}

/// Migration entries restore the bits that they clear, and the hit path cannot pass them.
#[test]
fn the_veil_stops_accesses_and_changes_nothing() {
    use crate::mmu::{Cursor, Pace, Stop};
    use isotherm_units::access::Run;
    let mut rig = Rig::new(DeviceKind::None);
    let space = rig.anonymous(200);
    rig.write_all(space, PageRange::new(0, 200));
    let table = &mut rig.memory.space_mut(space).table;
    let set_migration_entries = table.set_migration_entries(&[PageRange::at(70, 2), PageRange::at(190, 30)]);
    let runs = [Run::write(0, 70), Run::read(71, 1)];
    let mut pace = Pace { until_ns: u64::MAX, page_ns: 1, ..Pace::default() };
    let mut cursor = Cursor::default();
    let stop = table.play(&runs, &mut cursor, &mut pace);
    assert_eq!((stop, pace.now_ns, cursor.run), (Stop::Fault { page: 71, need: Need::Read }, 70, 1));
    let mut cursor = Cursor::default();
    let stop = table.play(&[Run::write(180, 20)], &mut cursor, &mut pace);
    assert_eq!((stop, cursor.page), (Stop::Fault { page: 190, need: Need::Write }, 10));
    table.remove_migration_entries(set_migration_entries);
    assert_eq!(table.play(&[Run::write(0, 200)], &mut Cursor::default(), &mut pace), Stop::Done);
    rig.check();
}
