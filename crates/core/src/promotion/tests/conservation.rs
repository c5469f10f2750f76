//! Random worlds with random failures: pages are never lost, counts always agree, and the same seed gives the same run.

use super::*;
use crate::host::{AddressRange, PageMove};
use crate::monitor::Random;
use crate::promotion::fake::Node;
use crate::promotion::{KNOBS, MODES};
use proptest::prelude::*;

const REFUSALS: [PageMove; 5] =
    [PageMove::Busy, PageMove::Pinned, PageMove::Shared, PageMove::Dirty, PageMove::NotActive];

/// A small world: two fast nodes that fill up, one slow one, a few spaces with holes and huge pages.
fn random_world(random: &mut Random) -> World {
    let mut world = World::new();
    let node = |is_top_tier, present| Node { is_top_tier, present, used: 0, high: present / 8 };
    world.nodes =
        vec![node(true, random.between(100, 4000)), node(false, 1 << 20), node(true, random.between(1, 2000))];
    for target in 0..4 {
        add_space(target, &mut world, random);
    }
    world
}

fn add_space(target: u32, world: &mut World, random: &mut Random) {
    let mut areas = Vec::new();
    let mut at = 0;
    for _ in 0..random.between(0, 6) {
        at += random.between(0, 3) * 3 * MIB;
        let end = at + random.between(1, 20) * MIB;
        areas.push((at, end));
        at = end;
    }
    world.map(target, &areas).areas.iter_mut().for_each(|area| area.kind.is_dax = random.between(0, 6) == 0);
    for (start, end) in areas {
        let mut at = start;
        while at < end {
            let is_huge = at.is_multiple_of(2 * MIB) && end - at >= 2 * MIB && random.between(0, 200) == 0;
            let pages = if is_huge { 512 } else { 1 };
            if random.between(0, 3) > 0 || is_huge {
                world.put(target, at, pages, 1);
            }
            at += u64::from(pages) * 4096;
        }
        if random.between(0, 2) == 0 {
            world.space(target).hot.push(AddressRange::new(start, start + (end - start) / 2));
        }
    }
}

/// Makes an event in the world.
fn disturb(promotion: &mut Promotion, world: &mut World, now: Instant, random: &mut Random) {
    let target = TargetId(u32::try_from(random.between(0, 6)).expect("small"));
    match random.between(0, 40) {
        0 => world.end(target),
        1 => {
            promotion.exit(target);
            world.end(target);
        }
        2 if !world.spaces.contains_key(&target) => {
            add_space(target.0, world, random);
            promotion.exit(target);
            promotion.enter(target, None, now).expect("it is new");
        }
        3 => {
            world.failing = Some(["areas", "scan_accessed", "migrate", "clear", "test", "page_nodes"][pick(random, 6)])
        }
        4..=8 => world.failing = None,
        9 => world.spaces.values_mut().for_each(|space| space.is_locked ^= true),
        10..=14 => {
            let refusal = REFUSALS[pick(random, REFUSALS.len())];
            if let Some(space) = world.spaces.get_mut(&target) {
                let folios = space.folios.values_mut().enumerate();
                folios.for_each(|(nth, folio)| folio.refuses = nth.is_multiple_of(3).then_some(refusal));
            }
        }
        15..=17 => {
            // Pages go away, or are demoted, behind the daemon's back.
            if let Some(space) = world.spaces.get_mut(&target) {
                let gone: Vec<u64> = space.folios.keys().copied().filter(|page| page.is_multiple_of(7)).collect();
                for folio in gone.iter().filter_map(|page| space.folios.remove(page)) {
                    world.nodes[folio.node as usize].used -= u64::from(folio.pages);
                }
                for folio in space.folios.values_mut().step_by(5) {
                    world.nodes[folio.node as usize].used -= u64::from(folio.pages);
                    folio.node = 1;
                    world.nodes[1].used += u64::from(folio.pages);
                }
            }
        }
        18 => {
            let text = ["0", "1", "2", "7", "4096", "x"][pick(random, 6)];
            // Refused or taken: either is an answer.
            let _ = promotion.set_knob(KNOBS[pick(random, KNOBS.len())], text, now);
        }
        19 => {
            for knob in ["scan_enabled", "mms_to_scan"] {
                promotion.set_knob(knob, "1", now).expect("allowed");
            }
        }
        _ => {}
    }
}

fn pick(random: &mut Random, nr: usize) -> usize {
    usize::try_from(random.between(0, nr as u64)).expect("below nr")
}

/// Plays a run with a check after each step. Returns all that was done, and the folios moved.
fn play(mode: Mode, seed: u64) -> (String, u64) {
    let mut random = Random::new(seed);
    let mut world = random_world(&mut random);
    let probe_above = (mode == Mode::Rch).then_some(isotherm_units::Bytes::new(random.between(0, 64) * MIB));
    let mut promotion = daemon(PromotionConfig { probe_above, ..PromotionConfig::of_mode(mode) }, &mut world);
    let mut log = String::new();
    let mut now = Instant::START;
    for _ in 0..400 {
        let Some((at, thread)) = promotion.next_timeout() else {
            disturb(&mut promotion, &mut world, now, &mut random);
            continue;
        };
        now = now.max(at);
        world.run();
        let moves = world.moves;
        let step = promotion.handle_timeout(thread, now, &mut world);
        let reported = step.migration.map_or(0, |report| report.moved);
        log.push_str(&format!("{now} {thread:?} {step:?}\n"));
        world.check();
        assert_eq!(world.moves - moves, reported, "a step tells what it moved");
        assert_eq!(world.moves, promotion.counters().migrated, "counters are the sums of the moves");
        assert_eq!(promotion.counters.outstanding(), promotion.queued(), "each entry ends in one way");
        disturb(&mut promotion, &mut world, now, &mut random);
    }
    log.push_str(&format!("{:?}\n", promotion.counters()));
    (log, world.moves)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]
    #[test]
    fn pages_and_counts_are_conserved_whatever_fails(seed: u64, mode in 0..MODES.len()) {
        play(MODES[mode].mode, seed);
    }
}

#[test]
fn the_same_seed_gives_the_same_run() {
    for entry in MODES {
        let runs = [play(entry.mode, 11), play(entry.mode, 11)];
        assert_eq!(runs[0], runs[1], "{}", entry.name);
        assert_ne!(runs[0], play(entry.mode, 12), "{}: a seed matters", entry.name);
    }
}

#[test]
fn random_runs_do_move_pages() {
    for entry in MODES {
        let moves: u64 = (0..10).map(|seed| play(entry.mode, seed).1).sum();
        assert!(moves > 200, "{}: {moves}", entry.name);
    }
}
