//! Spaces come and go: before, in the middle of, and after scans and moves.

use super::*;
use crate::host::AddressRange;
use crate::promotion::Thread;

fn hot_world(spaces: u32) -> World {
    let mut world = World::new();
    for target in 0..spaces {
        world.map(target, &[(0, 256 * MIB)]).hot = vec![AddressRange::new(0, 256 * MIB)];
        world.fill(target, 0, 20_000, 1);
    }
    world
}

#[test]
fn an_exit_in_the_middle_of_a_scan_ends_it_without_a_result() {
    for entry in crate::promotion::MODES {
        let mut world = hot_world(2);
        let mut promotion = of_mode(entry.mode, &mut world);
        let mut locked = None;
        let now = drive(&mut promotion, &mut world, Instant::START, ms(10_000), |promotion, _, _, _| {
            locked = promotion.locked_space();
            locked.is_none()
        });
        let locked = locked.expect("a scan takes several looks");
        assert!(promotion.exit(locked) && !promotion.exit(locked), "{}", entry.name);
        assert_eq!((promotion.locked_space(), promotion.space(locked)), (None, None), "{}", entry.name);
        world.end(locked);
        let other = if locked == SPACE { TargetId(1) } else { SPACE };
        let scans = scans(&mut promotion, &mut world, now, 3);
        assert!(scans.iter().all(|(_, scan)| scan.target == other), "{}", entry.name);
        assert_eq!(promotion.counters.outstanding(), promotion.queued(), "{}", entry.name);
        world.check();
    }
}

#[test]
fn an_exit_that_only_the_host_knows_of_is_found_at_any_call() {
    for entry in crate::promotion::MODES {
        for call in ["areas", "scan_accessed", "migrate"] {
            let mut world = hot_world(2);
            let mut promotion = of_mode(entry.mode, &mut world);
            world.dies_in = Some((call, SPACE));
            drive(&mut promotion, &mut world, Instant::START, ms(10_000), |_, world, _, _| {
                world.check();
                true
            });
            let what = format!("{}: {call}", entry.name);
            assert_eq!((promotion.space(SPACE), promotion.space(TargetId(1)).is_some()), (None, true), "{what}");
            assert_eq!(promotion.counters.outstanding(), promotion.queued(), "{what}");
            assert!(world.moves > 0, "{what}: the other one lives on");
        }
    }
}

#[test]
fn an_exit_between_two_batches_takes_only_its_own_pages_off_the_list() {
    for mode in [Mode::V1, Mode::V2, Mode::V3, Mode::Rch] {
        let mut world = hot_world(2);
        let mut promotion = of_mode(mode, &mut world);
        let now = drive(&mut promotion, &mut world, Instant::START, ms(60_000), |promotion, world, _, step| {
            step.migration.is_none() || world.moves < 512 || promotion.queued() < 1024
        });
        let queued = [SPACE, TargetId(1)].map(|target| promotion.space(target).expect("it is there").queued);
        let leaves = if queued[0] > 0 { SPACE } else { TargetId(1) };
        assert!(promotion.queued() > 0, "{mode:?}: more than a batch was found");
        promotion.exit(leaves);
        world.end(leaves);
        assert_eq!(promotion.counters().dropped_exit, queued[leaves.0 as usize], "{mode:?}");
        assert_eq!(promotion.queued(), queued[1 - leaves.0 as usize], "{mode:?}");
        drive(&mut promotion, &mut world, now, now + Duration::from_secs(10), |_, _, _, _| true);
        assert_eq!(promotion.counters().failed_not_present, 0, "{mode:?}");
        world.check();
    }
}

/// A number that is used again is another space.
#[test]
fn a_space_that_comes_back_starts_anew() {
    let mut world = hot_world(1);
    let mut promotion = of_mode(Mode::V1, &mut world);
    let now =
        drive(&mut promotion, &mut world, Instant::START, ms(5_000), |promotion, _, _, _| promotion.queued() == 0);
    promotion.exit(SPACE);
    promotion.enter(SPACE, None, now).unwrap();
    let space = promotion.space(SPACE).expect("it is back");
    assert_eq!((space.queued, space.last_useful, promotion.queued()), (0, 0, 0));
    assert_eq!(space.next_scan, Some(now + Duration::from_secs(1)));
    assert_eq!(promotion.poll_timeout(Thread::Migrate), None);
    let error = promotion.enter(SPACE, None, now).unwrap_err().to_string();
    assert_eq!(error, "space 0 is being scanned already");
}

#[test]
fn spaces_are_found_and_lost_as_the_host_lists_them() {
    let mut world = hot_world(3);
    let mut promotion = of_mode(Mode::Rch, &mut world);
    world.end(TargetId(1));
    world.map(7, &[(0, MIB)]);
    assert_eq!(promotion.find_spaces(ms(1), &mut world), Ok((1, 1)));
    let there: Vec<u32> = promotion.spaces().map(|target| target.0).collect();
    assert_eq!(there, [0, 2, 7]);
}
