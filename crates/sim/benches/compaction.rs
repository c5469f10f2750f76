//! The cost of compacting a whole zone with one page in four in use, of 1 and of 100 GiB.
//!
//! Prints one JSON object a line: `name, unit, bar, value, pass`. In each 2 MiB 384 pages are free and 128 are a process's; a
//! pass moves them until its scanners meet. Without `--bench` it runs small and only checks that it works.

mod setup;

use std::time::Instant as Clock;

use isotherm_core::host::Stop;
use isotherm_kernel::compaction::{CompactResult, Request, RunStep, Until, ZoneRun};
use isotherm_kernel::fault::{self, FaultOutcome, FaultState};
use isotherm_kernel::memory::{Mark, Memory, NodeId, NodeSetup};
use isotherm_kernel::migrate::MigrateMode;
use isotherm_kernel::mmu::{Need, SpaceId};
use isotherm_kernel::reclaim::{ReclaimPolicy, policy_by_name};
use isotherm_units::{Duration, Pages};

/// Pages of 2 MiB, and those of them that are in use.
const BLOCK: u64 = 512;
const USED: u64 = 128;

fn main() {
    let measuring = std::env::args().any(|argument| argument == "--bench");
    let mut first = None;
    for gib in [1_u64, 100] {
        let pages = if measuring { gib << 18 } else { (gib * BLOCK * 16).min(1 << 15) };
        let (seconds, moved) = measure(pages);
        let ns = seconds * 1e9 / pages as f64;
        setup::report(&format!("compact a zone, {gib} GiB"), "ns/page of the zone", None, ns);
        setup::report(&format!("compact a zone, {gib} GiB, a page moved"), "ns", None, seconds * 1e9 / moved as f64);
        setup::report(&format!("compact a zone, {gib} GiB, in all"), "s", None, seconds);
        let growth = ns / *first.get_or_insert(ns);
        if gib == 100 {
            setup::report("compact a zone, growth to 100 GiB", "times", None, growth);
        }
    }
}

/// Seconds of one pass over a zone of `pages`, and the pages that it moved.
fn measure(pages: u64) -> (f64, u64) {
    let zone = NodeSetup::new(vec![Pages::new(pages)], 80);
    let mut policy = policy_by_name("classic").expect("in the table").build();
    let (mut memory, space) = setup::assemble(&setup::memory_setup(vec![zone]), policy.as_mut(), pages);
    fragment(&mut memory, policy.as_mut(), space, pages / BLOCK);
    let stop = Until::Level { stop: Stop::Never, counts_in_flight: false, stops_for_reclaim: false };
    let mut pass = ZoneRun::new(node(), 0, Request::whole(MigrateMode::SyncLight, stop));
    let clock = Clock::now();
    loop {
        let step = pass.step(&mut memory, policy.as_mut());
        memory.now += Duration::from_ns(memory.ledger.take());
        if let RunStep::Done(result) = step {
            assert_eq!(result, CompactResult::Complete);
            break;
        }
    }
    let seconds = clock.elapsed().as_secs_f64();
    let moved = pass.work().moved;
    assert!(moved > 0 && pass.work().blocks_freed > 0, "it did something");
    (seconds, moved)
}

/// Leaves the last quarter of each block to the process.
fn fragment(memory: &mut Memory, policy: &mut dyn ReclaimPolicy, space: SpaceId, blocks: u64) {
    let mut state = FaultState::on(node());
    let mut fillers = Vec::new();
    let keep = memory.nodes.get(node()).high_marks() + BLOCK;
    for block in 0..blocks {
        if memory.nodes.get(node()).free() < keep + BLOCK {
            break;
        }
        fillers.extend((0..BLOCK - USED).map(|_| memory.take_target(node(), Mark::Low).expect("free")));
        for page in block * USED..(block + 1) * USED {
            let outcome = fault::fault(memory, policy, space, page, Need::Write, &mut state);
            assert_eq!(outcome, FaultOutcome::Done);
        }
    }
    fillers.into_iter().for_each(|frame| memory.give_target(frame, 0));
    memory.nodes.drain(&mut memory.frames, node());
    memory.ledger.take();
}

fn node() -> NodeId {
    NodeId::default()
}
