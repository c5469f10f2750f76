//! How soon hot memory is found: docs/spec/promotion.md#s7, example 27, and section 3.

use super::*;
use crate::host::{AddressRange, PageMove};

/// A space of 512 MiB areas, all idle except `hot`, which is used from now on. Returns the number of scans until some of the hot memory is
/// found, and the time. The daemon has run before for long enough to be slow.
struct Search {
    world: World,
    promotion: Promotion,
    now: Instant,
}

impl Search {
    fn new(mode: Mode, size: u64, hot: AddressRange) -> Self {
        let mut world = World::new();
        let areas: Vec<(u64, u64)> =
            (0..size / (512 * MIB)).map(|nth| (nth * 512 * MIB, (nth + 1) * 512 * MIB)).collect();
        world.map(0, &areas).background = Some(1);
        world.fill(0, hot.start, hot.len() / 4096, 1);
        world.space(0).folios.values_mut().for_each(|folio| folio.marks.idle = true);
        let promotion = of_mode(mode, &mut world);
        Self { world, promotion, now: Instant::START }
    }

    /// Goes on until `stop` says so after a scan. Returns how many scans that took.
    fn until(&mut self, mut stop: impl FnMut(&Promotion, &ScanReport) -> bool) -> u64 {
        let mut nr = 0;
        let end = self.now + Duration::from_secs(200_000);
        self.now = drive(&mut self.promotion, &mut self.world, self.now, end, |promotion, _, _, step| {
            let Some(scan) = step.scan else { return true };
            nr += 1;
            !stop(promotion, &scan)
        });
        nr
    }
}

fn is_slow(scan: &ScanReport) -> bool {
    pace(scan) == (5000, 512)
}

#[test]
fn a_hot_chunk_at_the_far_end_is_found_in_a_lap_and_not_after_all_areas() {
    let hot = AddressRange::new(32 * GIB - 8 * MIB, 32 * GIB);
    let mut v0 = Search::new(Mode::V0, 32 * GIB, hot);
    v0.until(|_, scan| is_slow(scan) && scan.address == 0);
    v0.world.space(0).hot = vec![hot];
    let begin = v0.now;
    assert_eq!(v0.until(|_, scan| scan.useful > 0), 64, "example 27: v0 in scans");
    let seconds = v0.now.since(begin).ns() / 1_000_000_000;
    assert!((319..=322).contains(&seconds), "example 27: v0 in {seconds} s");

    // Wherever the cursor is when the chunk becomes hot: a lap takes 12 scans, and it may just have passed.
    let mut worst = 0;
    for head_start in 0..13 {
        let mut rch = Search::new(Mode::Rch, 32 * GIB, hot);
        let mut slow = 0;
        rch.until(|_, scan| {
            slow += u64::from(is_slow(scan));
            slow == 30 + head_start
        });
        rch.world.space(0).hot = vec![hot];
        let (begin, hits) = (rch.now, rch.promotion.counters().probes_hit);
        let scans = rch.until(|promotion, _| promotion.counters().probes_hit > hits);
        assert!(scans <= 13, "example 27: `rch` in {scans} scans");
        assert!(rch.now.since(begin) <= Duration::from_secs(66), "example 27: {}", rch.now.since(begin));
        worst = worst.max(scans);
    }
    assert!(worst >= 12, "the cursor does go round, in {worst} scans");
}

#[test]
fn in_a_tebibyte_too() {
    let hot = AddressRange::new((1 << 40) - 256 * MIB, 1 << 40);
    let mut v0 = Search::new(Mode::V0, 1 << 40, hot);
    v0.until(|_, scan| is_slow(scan) && scan.address == 0);
    v0.world.space(0).hot = vec![hot];
    let begin = v0.now;
    assert_eq!(v0.until(|_, scan| scan.useful > 0), 2048, "section 3.1: 2048 scans");
    assert_eq!(v0.now.since(begin).ns() / 60_000_000_000, 170, "section 3.1: 2.84 h");

    let mut rch = Search::new(Mode::Rch, 1 << 40, hot);
    let mut slow = 0;
    rch.until(|_, scan| {
        slow += u64::from(is_slow(scan));
        slow == 30
    });
    rch.world.space(0).hot = vec![hot];
    let (begin, shown, probed) = (rch.now, rch.world.shown, rch.promotion.counters().regions_probed);
    let scans = rch.until(|promotion, _| promotion.counters().probes_hit > 0);
    assert!(scans <= 13 && rch.now.since(begin) <= Duration::from_secs(66), "{scans} scans, {}", rch.now.since(begin));
    let scanned = (rch.world.shown - shown) * 4096;
    assert!(scanned <= 512 * MIB, "probes find it, not looks at {scanned} bytes");
    let probed = rch.promotion.counters().regions_probed - probed;
    assert!(probed <= 342 * scans, "section 3.2: {probed} regions in {scans} scans");
    // From there on it is hot, and moves.
    let end = rch.now + Duration::from_secs(10);
    let begin = rch.now;
    let mut done = begin;
    drive(&mut rch.promotion, &mut rch.world, begin, end, |_, world, now, _| {
        done = now;
        world.moves < 65_536
    });
    assert_eq!(rch.world.moves, 65_536, "all of the chunk has moved");
    assert!(done.since(begin) < Duration::from_secs(6), "{}", done.since(begin));
}

/// If upper entries show which memory was used, an idle space costs next to nothing and a chunk that becomes hot is found by the next scan.
#[test]
fn upper_entries_tell_at_once_what_of_a_large_space_is_used() {
    // Space, its part that becomes hot, regions. In the last two a region is larger than what a scan of an idle space may cover.
    let table =
        [(32 * GIB, 8 * MIB, 4096), (1 << 40, 256 * MIB, 4096), (3 << 39, 64 * MIB, 3072), (8 << 40, 64 * MIB, 8192)];
    for (size, bytes, regions) in table {
        let hot = AddressRange::new(size - bytes, size);
        let mut rch = Search::new(Mode::Rch, size, hot);
        rch.world.highest_level = crate::host::Level(2);
        let mut slow = 0;
        rch.until(|_, scan| {
            slow += u64::from(is_slow(scan));
            slow == 30
        });
        let (begin, shown, before) = (rch.now, rch.world.shown, rch.promotion.counters().clone());
        slow = 0;
        rch.until(|_, _| {
            slow += 1;
            slow == 12
        });
        let idle = rch.promotion.counters();
        assert_eq!((rch.world.shown, idle.regions_probed), (shown, before.regions_probed), "{size:#x}: idle");
        assert_eq!(idle.regions_quiet - before.regions_quiet, regions * 12, "{size:#x}: twelve laps in twelve scans");
        assert!(rch.now.since(begin) <= Duration::from_secs(61), "{size:#x}");
        rch.world.space(0).hot = vec![hot];
        let begin = rch.now;
        let scans = rch.until(|promotion, _| promotion.counters().probes_hit > before.probes_hit);
        assert_eq!(scans, 1, "{size:#x}");
        let pages = bytes / 4096;
        let end = rch.now + Duration::from_secs(30);
        let from = rch.now;
        let mut done = begin;
        drive(&mut rch.promotion, &mut rch.world, from, end, |_, world, now, _| {
            done = now;
            world.moves < pages
        });
        assert_eq!(rch.world.moves, pages, "{size:#x}: all of it has moved");
        assert!(done.since(begin) <= Duration::from_secs(12), "{size:#x}: {}", done.since(begin));
        rch.world.check();
    }
}

/// A little of each area was filled when the process began, all of it before the first scan. That has the largest heat then, and
/// must not delay a chunk that becomes hot later.
#[test]
fn what_was_filled_everywhere_does_not_delay_what_becomes_hot() {
    let mut world = World::new();
    world.highest_level = crate::host::Level(2);
    let areas: Vec<(u64, u64)> = (0..512).map(|nth| (nth * 512 * MIB, (nth + 1) * 512 * MIB)).collect();
    world.map(0, &areas);
    for &(start, _) in &areas {
        world.fill(0, start, 64, 1);
    }
    world.space(0).hot = areas.iter().map(|&(start, _)| AddressRange::new(start, start + 64 * 4096)).collect();
    world.run();
    world.space(0).hot.clear();
    let mut promotion = of_mode(Mode::Rch, &mut world);
    let now = drive(&mut promotion, &mut world, Instant::START, ms(60_000), |_, _, _, _| true);
    assert_eq!(world.moves, 0, "filled once, and not used since");
    let hot = AddressRange::new(256 * GIB - 64 * MIB, 256 * GIB);
    world.fill(0, hot.start, hot.len() / 4096, 1);
    world.space(0).hot = vec![hot];
    let took = moved(&mut promotion, &mut world, now, 16_384);
    assert!(took <= Duration::from_secs(12), "{took}");
}

/// A chunk below an entry that is in use all the time is found when its region is due: once in the time of a lap.
#[test]
fn a_region_below_a_busy_entry_waits_no_longer_than_a_lap() {
    let (busy, hot) = (AddressRange::new(0, 4 * MIB), AddressRange::new(512 * MIB, 520 * MIB));
    let mut rch = Search::new(Mode::Rch, 64 * GIB, AddressRange::new(0, 520 * MIB));
    rch.world.highest_level = crate::host::Level(2);
    for page in 0..1024 {
        rch.world.space(0).folios.get_mut(&page).expect("filled").node = 0;
    }
    (rch.world.nodes[0].used, rch.world.nodes[1].used) = (1024, 520 * 256 - 1024);
    rch.world.space(0).hot = vec![busy];
    let mut nr = 0;
    rch.until(|_, _| {
        nr += 1;
        nr == 40
    });
    rch.world.space(0).hot.push(hot);
    let (begin, hits) = (rch.now, rch.promotion.counters().probes_hit);
    rch.until(|promotion, _| promotion.counters().probes_hit > hits);
    assert!(rch.now.since(begin) <= Duration::from_secs(66), "{}", rch.now.since(begin));
    assert!(rch.now.since(begin) >= Duration::from_secs(6), "not by each scan: {}", rch.now.since(begin));
}

#[test]
fn what_is_hot_on_the_fast_node_needs_no_looks() {
    let hot = AddressRange::new(0, 256 * MIB);
    let mut rch = Search::new(Mode::Rch, 64 * GIB, hot);
    let folios: Vec<u64> = rch.world.space(0).folios.keys().copied().collect();
    for page in folios {
        rch.world.space(0).folios.get_mut(&page).expect("listed").node = 0;
    }
    let used: u64 = hot.len() / 4096;
    (rch.world.nodes[0].used, rch.world.nodes[1].used) = (used, 0);
    rch.world.space(0).hot = vec![hot];
    let mut nr = 0;
    rch.until(|_, _| {
        nr += 1;
        nr == 60
    });
    rch.world.check();
    assert_eq!((rch.promotion.counters().probes_hit, rch.world.moves), (0, 0));
    let space = rch.promotion.space(SPACE).expect("it is there");
    assert_eq!((space.scan_period, space.hot_regions), (Duration::from_secs(5), 0));
}

#[test]
fn only_what_is_used_again_and_again_moves() {
    let mut world = World::new();
    world.map(0, &[(0, GIB)]).hot = vec![AddressRange::new(0, 64 * MIB)];
    world.fill(0, 0, GIB / 4096, 1);
    // All of it was touched when the program began.
    world.space(0).folios.values_mut().for_each(|folio| folio.accessed = true);
    for (mode, in_vain) in [(Mode::V0, 245_760), (Mode::Rch, 0)] {
        let mut world = world.clone();
        let mut promotion = of_mode(mode, &mut world);
        drive(&mut promotion, &mut world, Instant::START, ms(60_000), |_, _, _, _| true);
        let on_fast = |range: std::ops::Range<u64>| {
            world.spaces[&SPACE].folios.range(range).filter(|(_, folio)| folio.node == 0).count()
        };
        assert_eq!(on_fast(0..16_384), 16_384, "{mode:?}: all that is hot");
        assert_eq!(on_fast(16_384..262_144), in_vain, "{mode:?}: and what is not");
        world.check();
    }
}

#[test]
fn regions_are_scanned_within_the_budget_also_in_one_large_area() {
    let mut world = World::new();
    world.map(0, &[(0, 12 * GIB)]).background = Some(1);
    let mut promotion = of_mode(Mode::Rch, &mut world);
    let settled = scans(&mut promotion, &mut world, Instant::START, 40);
    assert!(settled.iter().all(|(_, scan)| scan.useful == 0));
    let now = settled[39].0;
    let before = world.shown;
    scans(&mut promotion, &mut world, now, 1);
    let scanned = (world.shown - before) * 4096;
    // 12 GiB / 60 s * 5 s = 1 GiB, in regions of 4 MiB.
    assert!((GIB..GIB + 4 * MIB + 1).contains(&scanned), "{scanned} bytes in a scan");
}

/// 32 GiB of huge pages in areas of 512 MiB.
fn huge_world() -> World {
    let mut world = World::new();
    let areas: Vec<(u64, u64)> = (0..64).map(|nth| (nth * 512 * MIB, (nth + 1) * 512 * MIB)).collect();
    world.map(0, &areas);
    for nth in 0..16_384 {
        world.put(0, nth * 2 * MIB, 512, 1);
    }
    world
}

/// Time until this number of huge pages have moved.
fn moved(promotion: &mut Promotion, world: &mut World, from: Instant, nr: u64) -> Duration {
    let end = from + Duration::from_secs(1000);
    let now = drive(promotion, world, from, end, |_, world, _, _| world.moves < nr);
    now.since(from)
}

#[test]
fn a_large_space_that_is_hot_all_over_is_home_in_seconds() {
    let all = AddressRange::new(0, 32 * GIB);
    for (mode, seconds) in [(Mode::V0, 1), (Mode::Rch, 10)] {
        let mut world = huge_world();
        world.space(0).hot = vec![all];
        let mut promotion = of_mode(mode, &mut world);
        let took = moved(&mut promotion, &mut world, Instant::START, 14_746);
        assert!(took <= Duration::from_secs(seconds), "{mode:?} from the start: nine tenths in {took}");

        let mut world = huge_world();
        let mut promotion = of_mode(mode, &mut world);
        let idle = if mode == Mode::V0 { PageMove::Pinned } else { PageMove::Busy };
        world.refuse_all(0, idle);
        let now = drive(&mut promotion, &mut world, Instant::START, ms(300_000), |_, _, _, _| true);
        world.space(0).folios.values_mut().for_each(|folio| folio.refuses = None);
        world.space(0).hot = vec![all];
        let took = moved(&mut promotion, &mut world, now, 14_746);
        assert!(took <= Duration::from_secs(5 + seconds), "{mode:?} after five idle minutes: nine tenths in {took}");
    }
}

/// Each probe reads the pages that the one before has armed. So pages touched once, when the program began, do not send the
/// scanner through all of memory.
#[test]
fn bits_from_long_ago_are_no_hits() {
    let mut world = huge_world();
    world.space(0).folios.values_mut().for_each(|folio| folio.accessed = true);
    let mut promotion = of_mode(Mode::Rch, &mut world);
    let now = drive(&mut promotion, &mut world, Instant::START, ms(180_000), |_, _, _, _| true);
    let counters = promotion.counters();
    assert!(counters.regions_probed > 3 * 4096, "a first lap at once, and three more: {}", counters.regions_probed);
    assert_eq!((counters.probes_hit, counters.scanned), (0, 0));
    world.space(0).hot = vec![AddressRange::new(20 * GIB, 20 * GIB + 64 * MIB)];
    let took = moved(&mut promotion, &mut world, now, 32);
    assert!(took <= Duration::from_secs(70), "{took}");
}

/// A sweep each second is met by one of two scans 400 ms apart, and by each of two that are a second apart.
#[test]
fn what_is_used_once_a_second_is_hot() {
    let mut world = World::new();
    let hot = AddressRange::new(0, 64 * MIB);
    world.map(0, &[(0, GIB)]);
    world.fill(0, 0, GIB / 4096, 1);
    let mut promotion = of_mode(Mode::Rch, &mut world);
    let (mut now, mut swept) = (Instant::START, 0);
    while let Some((at, thread)) = promotion.next_timeout().filter(|(at, _)| *at < ms(20_000)) {
        now = now.max(at);
        // Sweeps take no time, 1 s apart.
        if now.ns() / 1_000_000_000 >= swept {
            swept = now.ns() / 1_000_000_000 + 1;
            world.space(0).hot = vec![hot];
            world.run();
            world.space(0).hot.clear();
        }
        promotion.handle_timeout(thread, now, &mut world);
    }
    assert_eq!(world.moves, 16_384, "all of it, and nothing else");
}

/// Pages that are touched once and never twice in a row make `rch` scan again soon, and then slow down; no such page moves.
#[test]
fn what_is_touched_once_neither_moves_nor_keeps_the_daemon_fast() {
    let mut world = World::new();
    world.map(0, &[(0, GIB)]);
    world.fill(0, 0, GIB / 4096, 1);
    let mut promotion = of_mode(Mode::Rch, &mut world);
    let mut nr = 0;
    drive(&mut promotion, &mut world, Instant::START, ms(60_000), |_, world, _, step| {
        if step.scan.is_some() {
            nr += 1;
            let start = nr % 64 * 16 * MIB;
            world.space(0).hot = vec![AddressRange::new(start, start + 16 * MIB)];
        }
        true
    });
    assert_eq!(world.moves, 0);
    assert!((12..=55).contains(&nr), "five scans in 6 s, not one each 0.4 s: {nr} in a minute");
}
