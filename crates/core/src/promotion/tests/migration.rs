//! Moves: who makes them, where pages go, and the consequences of a refusal.

use super::*;
use crate::host::{AddressRange, NodeId, PageMove};
use crate::promotion::Thread;
use crate::promotion::fake::Node;
use isotherm_units::Bytes;

fn hot_world(pages: u64) -> World {
    let mut world = World::new();
    world.map(0, &[(0, pages * 4096)]).hot = vec![AddressRange::new(0, pages * 4096)];
    world.fill(0, 0, pages, 1);
    world
}

#[test]
fn in_v0_the_scanner_moves_and_later_a_thread_of_its_own() {
    for entry in crate::promotion::MODES {
        let mut world = hot_world(5000);
        let mut promotion = of_mode(entry.mode, &mut world);
        let mut by = [0, 0];
        let mut now = Instant::START;
        while let Some((at, thread)) = promotion.next_timeout().filter(|(at, _)| *at < ms(20_000)) {
            if at > now {
                now = at;
                world.run();
            }
            let step = promotion.handle_timeout(thread, now, &mut world);
            by[usize::from(thread == Thread::Migrate)] += step.migration.map_or(0, |report| report.moved);
        }
        let expected = if entry.mode == Mode::V0 { [5000, 0] } else { [0, 5000] };
        assert_eq!((by, world.nodes[0].used), (expected, 5000), "{}", entry.name);
        assert_eq!(promotion.counters().migrated_pages, 5000, "{}", entry.name);
    }
}

/// docs/spec/promotion.md#s1-3: 20 ms and 20 ms of waiting in patch version 1, 20 ms later.
#[test]
fn the_moving_thread_pauses_before_its_first_page() {
    for (mode, pause_ms) in [(Mode::V0, 0), (Mode::V1, 40), (Mode::V2, 20), (Mode::V3, 20), (Mode::Rch, 20)] {
        let mut world = hot_world(1000);
        let mut promotion = of_mode(mode, &mut world);
        let (mut queued_at, mut moved_at) = (None, None);
        drive(&mut promotion, &mut world, Instant::START, ms(20_000), |promotion, _, now, step| {
            queued_at = queued_at.or((promotion.counters().queued > 0).then_some(now));
            moved_at = moved_at.or(step.migration.map(|_| now));
            true
        });
        let pause = moved_at.expect("moved").since(queued_at.expect("queued"));
        assert_eq!(pause, Duration::from_ms(pause_ms), "{mode:?}");
    }
}

#[test]
fn early_calls_do_nothing() {
    let mut world = hot_world(5000);
    let mut promotion = of_mode(Mode::V1, &mut world);
    for thread in [Thread::Scan, Thread::Migrate] {
        let step = promotion.handle_timeout(thread, ms(900), &mut world);
        assert_eq!((step, world.shown), (crate::promotion::TimeoutReport::default(), 0), "{thread:?}");
    }
}

#[test]
fn pages_follow_the_space_to_its_node() {
    for (mode, node) in [(Mode::V0, 0), (Mode::V1, 2), (Mode::V2, 2), (Mode::V3, 2), (Mode::Rch, 2)] {
        let mut world = hot_world(1000);
        world.nodes.push(Node { is_top_tier: true, ..world.nodes[0] });
        world.space(0).areas[0].range.end += 4 * MIB;
        world.space(0).hot[0].end += 4 * MIB;
        world.fill(0, 1000 * 4096, 600, 2);
        let mut promotion = of_mode(mode, &mut world);
        drive(&mut promotion, &mut world, Instant::START, ms(20_000), |_, _, _, _| true);
        assert_eq!(world.nodes[node].used, 1000 + if node == 2 { 600 } else { 0 }, "{mode:?}");
        assert_eq!(promotion.space(SPACE).expect("there").target_node.is_some(), mode != Mode::V0, "{mode:?}");
    }
}

#[test]
fn rch_goes_to_the_other_fast_node_where_the_first_has_no_room() {
    let mut world = hot_world(1000);
    world.nodes.push(Node { is_top_tier: true, ..world.nodes[0] });
    (world.nodes[0].present, world.nodes[0].high) = (600, 50);
    let mut promotion = of_mode(Mode::Rch, &mut world);
    let mut nodes = Vec::new();
    drive(&mut promotion, &mut world, Instant::START, ms(20_000), |_, _, _, step| {
        nodes.extend(step.migration.map(|report| report.node));
        true
    });
    assert_eq!((nodes, world.nodes[0].used, world.nodes[2].used), (vec![NodeId(0), NodeId(2)], 512, 488));
    world.check();
}

#[test]
fn a_node_at_its_watermark_takes_no_more_but_in_v0() {
    for (mode, used) in [(Mode::V0, 600), (Mode::V1, 499), (Mode::V2, 499), (Mode::V3, 499), (Mode::Rch, 499)] {
        let mut world = hot_world(1000);
        (world.nodes[0].present, world.nodes[0].high) = (600, 100);
        let mut promotion = of_mode(mode, &mut world);
        drive(&mut promotion, &mut world, Instant::START, ms(60_000), |_, world, _, _| {
            world.check();
            true
        });
        assert_eq!((world.nodes[0].used, world.wakes > 0), (used, mode != Mode::V0), "{mode:?}");
        let counters = promotion.counters();
        assert_eq!(counters.failed_full > 0, mode == Mode::V0, "{mode:?}");
        assert_eq!(counters.failed_below_watermark > 0, mode != Mode::V0, "{mode:?}");
    }
}

/// `rch` takes what fits and tries again while the node's reclaim makes room; where nothing does, it gives up.
#[test]
fn on_a_full_node_rch_keeps_pace_with_reclaim() {
    let mut world = hot_world(3000);
    (world.nodes[0].present, world.nodes[0].high) = (200, 100);
    let mut promotion = of_mode(Mode::Rch, &mut world);
    let mut woken = 0;
    drive(&mut promotion, &mut world, Instant::START, ms(20_000), |_, world, _, _| {
        // Reclaim frees 60 pages each time it is woken.
        world.nodes[0].present += 60 * (world.wakes - woken);
        woken = world.wakes;
        world.check();
        true
    });
    let counters = promotion.counters().clone();
    assert_eq!((world.moves, promotion.queued()), (3000, 0));
    let refused = counters.failed_below_watermark;
    assert!((30..=60).contains(&refused), "a try for each 60 pages: {refused}");

    let mut world = hot_world(3000);
    (world.nodes[0].present, world.nodes[0].high) = (200, 100);
    let mut promotion = of_mode(Mode::Rch, &mut world);
    drive(&mut promotion, &mut world, Instant::START, ms(20_000), |_, _, _, _| true);
    let counters = promotion.counters();
    assert_eq!(world.moves, 99, "above the high watermark");
    assert!(counters.dropped_stale > 0 && counters.failed_below_watermark < 1000, "{counters:?}");
    assert_eq!(promotion.counters.outstanding(), promotion.queued());
}

/// The original hack against pages that can never move does not help where there are more than 100; counting failures does.
#[test]
fn pages_that_never_move_slow_the_scans_of_their_space_down() {
    let scans_in_a_minute = |mode: Mode| {
        let mut world = hot_world(5000);
        world.refuse_all(0, PageMove::Pinned);
        let mut promotion = of_mode(mode, &mut world);
        drive(&mut promotion, &mut world, Instant::START, ms(60_000), |_, _, _, _| true);
        assert_eq!((world.moves, promotion.counters().failed_pinned > 0), (0, true), "{mode:?}");
        promotion.counters().mm_scans
    };
    assert_eq!(scans_in_a_minute(Mode::V0), 1 + 60_000 / 400, "v0 scans at full speed for ever");
    assert!(scans_in_a_minute(Mode::V3) < 15);
    assert!(scans_in_a_minute(Mode::Rch) < 20);
}

#[test]
fn a_rate_is_kept_from_second_to_second() {
    let mut world = hot_world(30_000);
    let rate_limit = Some(Bytes::new(8 * MIB));
    let mut promotion = daemon(PromotionConfig { rate_limit, ..PromotionConfig::default() }, &mut world);
    let mut seconds = [0u64; 10];
    drive(&mut promotion, &mut world, Instant::START, ms(9_999), |_, _, now, step| {
        let second = usize::try_from(now.ns() / 1_000_000_000).expect("ten");
        seconds[second] += step.migration.map_or(0, |report| report.moved);
        true
    });
    let first = seconds.iter().position(|moved| *moved > 0).expect("something moved");
    for (second, moved) in seconds.iter().enumerate().skip(first + 2) {
        assert!(
            (1536..=2048 + 512).contains(moved),
            "2048 pages a second, in batches of 512; second {second}: {seconds:?}"
        );
    }
    assert!(promotion.counters().dropped_stale > 0, "what could not move in time is found anew");
    assert_eq!(promotion.counters.outstanding(), promotion.queued());
}

#[test]
fn huge_pages_move_as_one() {
    for (mode, entries) in [(Mode::Rch, 4)] {
        let mut world = World::new();
        world.map(0, &[(0, 8 * MIB)]).hot = vec![AddressRange::new(0, 8 * MIB)];
        for nth in 0..4 {
            world.put(0, nth * 2 * MIB, 512, 1);
        }
        let mut promotion = of_mode(mode, &mut world);
        drive(&mut promotion, &mut world, Instant::START, ms(20_000), |_, _, _, _| true);
        let counters = promotion.counters();
        assert_eq!((counters.migrated, counters.migrated_pages, world.nodes[0].used), (entries, 2048, 2048));
        world.check();
    }
}
