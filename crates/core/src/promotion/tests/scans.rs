//! How far a scan goes: docs/spec/promotion.md#s7, examples 10, 11, 12 and 28, and the properties of section 1.5.

use super::*;
use crate::host::{Area, PageMove};
use crate::promotion::Case;

/// Areas of a size, one behind the other.
fn areas(nr: u64, size: u64) -> Vec<(u64, u64)> {
    (0..nr).map(|nth| (nth * size, (nth + 1) * size)).collect()
}

/// A space whose areas begin with this number of pages each, used all the time, that cannot be moved.
fn world(areas: &[(u64, u64)], pages: &[u64]) -> World {
    let mut world = World::new();
    world.map(0, areas).hot = areas.iter().map(|&(start, end)| crate::host::AddressRange::new(start, end)).collect();
    for (&(start, _), &pages) in areas.iter().zip(pages) {
        world.fill(0, start, pages, 1);
    }
    world.refuse_all(0, PageMove::Pinned);
    world
}

fn first_scan(areas: &[(u64, u64)], pages: &[u64]) -> (ScanReport, u64) {
    let mut world = world(areas, pages);
    let mut promotion = of_mode(Mode::V0, &mut world);
    let scan = scans(&mut promotion, &mut world, Instant::START, 1)[0].1;
    (scan, promotion.counters().vma_scans)
}

#[test]
fn more_than_a_hundred_useful_pages_lift_the_budget() {
    // (useful pages an area, areas passed, useful, address in GiB, case)
    let table = [(20, 4, 80, 4, Case::StillNothing), (30, 5, 150, 0, Case::Found), (25, 4, 100, 4, Case::Found)];
    for (pages, passed, useful, address, case) in table {
        let (scan, vmas) = first_scan(&areas(5, GIB), &[pages; 5]);
        let got = (vmas, scan.useful, scan.address / GIB, scan.case);
        assert_eq!(got, (passed, useful, address, case), "example 10: {pages} pages an area");
    }
}

#[test]
fn once_lifted_the_budget_ends_nothing() {
    let areas = areas(30, GIB);
    let mut world = world(&areas, &[40; 30]);
    let mut promotion = of_mode(Mode::V0, &mut world);
    promotion.slots.values_mut().for_each(|slot| slot.throttle.size = 512 * MIB);
    let scan = scans(&mut promotion, &mut world, Instant::START, 1)[0].1;
    let got = (promotion.counters().vma_scans, scan.useful, scan.address);
    assert_eq!(got, (1, 40, GIB), "example 11: 40 pages in the first area");
    let (scan, vmas) = first_scan(&areas, &[101]);
    assert_eq!((vmas, scan.useful, scan.address), (30, 101, 0), "example 11: 101 pages in the first area");
}

#[test]
fn a_large_area_is_scanned_whole_whatever_the_budget() {
    let mut world = World::new();
    world.map(0, &[(0, 32 * GIB)]).background = Some(1);
    let mut promotion = of_mode(Mode::V0, &mut world);
    promotion.slots.values_mut().for_each(|slot| slot.throttle.size = 512 * MIB);
    let scan = scans(&mut promotion, &mut world, Instant::START, 1)[0].1;
    assert_eq!((promotion.counters().scanned, scan.address), (8_388_608, 32 * GIB), "example 12");
}

#[test]
fn a_budget_met_by_the_last_area_makes_the_next_scan_empty() {
    // (useful pages a walk, of each scan: period, size in MiB, address in GiB)
    type Row = (u64, &'static [(u64, u64, u64)]);
    let table: [Row; 3] = [
        (50, &[(2300, 2048, 8), (2645, 1024, 0), (3041, 512, 8)]),
        (150, &[(400, 16384, 0), (400, 16384, 0), (400, 16384, 0)]),
        (100, &[(400, 16384, 8), (3200, 16384, 0), (400, 16384, 0), (400, 16384, 0), (400, 16384, 0)]),
    ];
    for (pages, expected) in table {
        let mut world = world(&[(0, 8 * GIB)], &[pages]);
        let mut promotion = of_mode(Mode::V0, &mut world);
        let scans = scans(&mut promotion, &mut world, Instant::START, expected.len());
        let got: Vec<(u64, u64, u64)> =
            scans.iter().map(|(_, scan)| (pace(scan).0, pace(scan).1, scan.address / GIB)).collect();
        assert_eq!(got, expected, "example 28: {pages} pages");
    }
}

/// docs/spec/promotion.md#s7, example 1, with the sleeps of the daemon: a scan begins with the first round after it is due.
#[test]
fn rounds_come_every_16_ms() {
    let mut world = World::new();
    world.map(0, &[(0, 64 * MIB)]).background = Some(1);
    let mut promotion = of_mode(Mode::V0, &mut world);
    let times: Vec<u64> =
        scans(&mut promotion, &mut world, Instant::START, 4).iter().map(|(now, _)| now.ns() / 1_000_000).collect();
    // 2300 is met by the round at 2304, 2304 + 2645 by that at 4960 (from 2304 on), 4960 + 3041 by that at 8016.
    assert_eq!(times, [0, 2304, 4960, 8016]);
}

#[test]
fn areas_that_are_not_eligible_use_the_budget_and_are_not_looked_at() {
    let areas = areas(6, GIB);
    let mut world = world(&areas, &[10; 6]);
    for area in &mut world.space(0).areas[..3] {
        area.kind.is_io = true;
    }
    let mut promotion = of_mode(Mode::V0, &mut world);
    let scan = scans(&mut promotion, &mut world, Instant::START, 1)[0].1;
    assert_eq!((scan.useful, scan.address, promotion.counters().vma_scans), (10, 4 * GIB, 4));
    let mut promotion = of_mode(Mode::Rch, &mut world);
    scans(&mut promotion, &mut world, Instant::START, 40);
    let cursor = promotion.space(SPACE).expect("it is there").address;
    assert!(cursor > 3 * GIB, "`rch` goes round eligible areas only: {cursor}");
}

#[test]
fn v0_stops_an_area_at_its_first_hole_and_later_modes_do_not() {
    for (mode, useful) in [(Mode::V0, 3), (Mode::V1, 5), (Mode::V2, 5)] {
        let mut world = World::new();
        world.map(0, &[(0, 64 * MIB)]).hot = vec![crate::host::AddressRange::new(0, 64 * MIB)];
        world.fill(0, 0, 3, 1);
        world.fill(0, 5 << 12, 2, 1);
        let mut promotion = of_mode(mode, &mut world);
        let scan = scans(&mut promotion, &mut world, Instant::START, 1)[0].1;
        assert_eq!(scan.useful, useful, "{mode:?}");
    }
}

#[test]
fn the_second_posting_never_lifts_the_budget_and_waits_a_second_first() {
    let mut world = world(&areas(5, GIB), &[200; 5]);
    let mut promotion = of_mode(Mode::V1, &mut world);
    let scans = scans(&mut promotion, &mut world, Instant::START, 2);
    assert_eq!((scans[0].0, scans[0].1.address, scans[0].1.useful), (ms(1008), GIB, 200), "1 GiB a scan");
    assert_eq!(scans[1].1.address, 2 * GIB);
}

#[test]
fn a_locked_space_is_passed_over_as_it_is() {
    let mut world = world(&areas(2, GIB), &[10, 10]);
    world.map(1, &[(0, GIB)]);
    world.space(0).is_locked = true;
    let mut promotion = of_mode(Mode::V0, &mut world);
    let before = promotion.space(SPACE);
    let first = scans(&mut promotion, &mut world, Instant::START, 1);
    assert_eq!((first[0].1.target, promotion.space(SPACE)), (TargetId(1), before));
    assert_eq!(promotion.counters().lock_busy, 1);
    world.space(0).is_locked = false;
    assert_eq!(scans(&mut promotion, &mut world, ms(1), 1)[0].1.target, SPACE, "at the next round");
}

#[test]
fn a_round_visits_as_many_spaces_as_the_knob_says() {
    let mut world = World::new();
    for target in 0..5 {
        world.map(target, &[(0, MIB)]);
    }
    let mut promotion = of_mode(Mode::V0, &mut world);
    promotion.set_knob("mms_to_scan", "2", Instant::START).unwrap();
    let scans = scans(&mut promotion, &mut world, Instant::START, 5);
    let got: Vec<(u64, u32)> = scans.iter().map(|(now, scan)| (now.ns() / 1_000_000, scan.target.0)).collect();
    assert_eq!(got, [(0, 0), (0, 1), (16, 2), (16, 3), (32, 4)]);
    promotion.set_knob("mms_to_scan", "0", ms(40)).unwrap();
    assert_eq!(promotion.next_timeout(), None, "0 visits none");
}

#[test]
fn a_space_without_areas_is_scanned_and_found_empty() {
    for entry in crate::promotion::MODES {
        let mut world = World::new();
        world.map(0, &[]).areas = Vec::<Area>::new();
        let mut promotion = of_mode(entry.mode, &mut world);
        let scan = scans(&mut promotion, &mut world, Instant::START, 1)[0].1;
        assert_eq!((scan.useful, scan.address, scan.case), (0, 0, Case::StillNothing), "{}", entry.name);
    }
}

#[test]
fn idle_spaces_cost_a_few_scans_and_then_little() {
    for mode in [Mode::V0, Mode::Rch] {
        let mut world = World::new();
        for target in 0..8 {
            world.map(target, &[(0, GIB)]).background = Some(1);
        }
        let mut promotion = of_mode(mode, &mut world);
        drive(&mut promotion, &mut world, Instant::START, ms(60_000), |_, _, _, _| true);
        let spaces: Vec<_> = promotion.spaces().collect();
        for target in spaces {
            let space = promotion.space(target).expect("listed");
            assert_eq!((space.scan_period, space.scan_size.get()), (Duration::from_secs(5), 512 * MIB), "{mode:?}");
        }
        let before = world.shown;
        drive(&mut promotion, &mut world, ms(60_000), ms(120_000), |_, _, _, _| true);
        // Two scans of everything in a minute: v0 covers 1 GiB every second scan, `rch` a quarter of it each scan... at most 12
        // scans.
        let scans = (world.shown - before) / (8 * GIB / 4096);
        assert!(scans <= 6, "{mode:?}: {scans} looks at everything in a minute");
        assert_eq!(promotion.counters().migrated, 0);
    }
}
