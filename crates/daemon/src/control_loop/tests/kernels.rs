//! Engines of the kernel: switched on, checked, and restored.

use super::super::*;
use super::configs::*;
use super::system::*;
use isotherm_core::monitor::Operations;
use isotherm_units::{Ratio, Woken};
use std::cell::RefCell;
use std::collections::BTreeMap;

fn writes(truth: &Truth) -> Vec<(String, String)> {
    let lines = truth.lines.borrow();
    let write = |line: &Line| match line {
        Line::Writes { path, value, .. } | Line::WouldWrite { path, value, .. } => Some((path.clone(), value.clone())),
        _ => None,
    };
    lines.iter().filter_map(write).collect()
}

#[test]
fn a_module_of_the_kernel_is_switched_on_and_leaves_no_knob_changed() {
    let truth = Truth::new();
    let seen = RefCell::new(Vec::new());
    let look = |second| at(second, |truth: &Truth| seen.borrow_mut().push(truth.knobs.borrow().clone()));
    let events = vec![
        look(10),
        at(20, |truth: &Truth| truth.has_kill_file.set(true)),
        look(25),
        at(30, |truth: &Truth| truth.has_kill_file.set(false)),
        look(35),
    ];
    steered(&truth, &with_module(true, true), 60, events);
    let seen = seen.into_inner();
    let is_on = |knobs: &BTreeMap<String, String>| knobs[ENABLED] == "Y" && knobs[RUNS] == "77";
    assert_eq!(seen.iter().map(is_on).collect::<Vec<_>>(), [true, false, true]);
    assert_eq!(seen[0]["/sys/module/damon_reclaim/parameters/min_age"], "30000000");
    assert_eq!(seen[1], module_at_rest(), "while it is paused nothing is changed");
    assert_eq!(*truth.knobs.borrow(), module_at_rest());

    // A dry run lists exactly the later writes.
    let watched = Truth::new();
    steered(&watched, &with_module(false, true), 20, Vec::new());
    assert_eq!(*watched.knobs.borrow(), module_at_rest());
    let list = writes(&watched);
    assert_eq!(list, writes(&truth)[..list.len()]);
    assert_eq!(list.last().map(|write| write.0.as_str()), Some(ENABLED));

    // Another program uses DAMON, and keeps it.
    let truth = Truth::new();
    steered(&truth, &with_module(true, false), 60, Vec::new());
    assert_eq!(*truth.knobs.borrow(), module_at_rest());
    assert!(truth.has_line(|line| matches!(line, Line::Trouble { why, .. } if why.contains("take-damon-stat"))));

    // Another program switches it off: it stays off.
    let truth = Truth::new();
    let off = |truth: &Truth| {
        let off = [(ENABLED, "N"), (RUNS, "-1")].map(|(path, value)| (path.to_owned(), value.to_owned()));
        truth.knobs.borrow_mut().extend(off);
    };
    steered(&truth, &with_module(true, true), 60, vec![at(20, off)]);
    assert!(
        truth.has_line(|line| matches!(line, Line::Trouble { why, .. } if why.contains("somebody switched it off")))
    );
    assert_eq!(*truth.knobs.borrow(), module_at_rest());
}

#[test]
fn a_kdamond_watches_the_processes_of_its_groups_and_leaves_nothing() {
    let truth = Truth::new();
    let seen = RefCell::new(Vec::new());
    let look = |second| at(second, |truth: &Truth| seen.borrow_mut().push(truth.knobs.borrow().clone()));
    let events = vec![
        look(100),
        at(120, |truth: &Truth| truth.has_kill_file.set(true)),
        look(125),
        at(130, |truth: &Truth| truth.has_kill_file.set(false)),
        look(135),
    ];
    let whole = steered(&truth, &with_kdamond(true, Operations::Vaddr), 180, events);
    holds(&truth, "a kdamond");
    let seen = seen.into_inner();
    let is_on = |knobs: &BTreeMap<String, String>| knobs.get(STATE).is_some_and(|state| state == "on");
    assert_eq!(seen.iter().map(is_on).collect::<Vec<_>>(), [true, false, true]);
    let value = |file: &str| seen[0].get(&format!("{KDAMOND}contexts/0/{file}")).map(String::as_str);
    assert_eq!((value("targets/nr_targets"), value("schemes/0/action")), (Some("2"), Some("pageout")));
    assert_eq!((value("targets/0/pid_target"), value("targets/1/pid_target")), (Some("1"), Some("101")));
    assert_eq!(seen[1], module_at_rest(), "while it is paused nothing is changed");
    let counted = |line: &Line| matches!(line, Line::Counted { asked_bytes, verified_bytes, .. } if asked_bytes / 2 == *verified_bytes);
    assert!(truth.has_line(counted), "{:?}", truth.lines);
    let switch = whole.status.sections.iter().find(|section| section.engine == "kernel: DAMON").unwrap();
    assert_eq!(switch.targets, ["/app/web-1", "/app/web-2"]);
    // It was switched on last in second 130, and is counted a minute later, and at the end.
    assert!(switch.since_acted_ns.is_some_and(|ns| ns < 60 * 1_000_000_000), "{switch:?}");

    // A dry run lists exactly the later writes.
    let watched = Truth::new();
    steered(&watched, &with_kdamond(false, Operations::Vaddr), 20, Vec::new());
    assert_eq!(*watched.knobs.borrow(), module_at_rest());
    let list = writes(&watched);
    assert_eq!(list, writes(&truth)[..list.len()]);
    assert_eq!(list.last().map(|write| write.0.as_str()), Some(STATE));

    // With physical memory, groups become filters.
    let truth = Truth::new();
    steered(&truth, &with_kdamond(true, Operations::Paddr), 60, Vec::new());
    holds(&truth, "physical memory");
    let groups: Vec<String> =
        writes(&truth).into_iter().filter(|write| write.0.ends_with("memcg_path")).map(|write| write.1).collect();
    assert_eq!(groups, ["/app/web-1", "/app/web-2"]);
}

#[test]
fn a_kdamond_follows_who_comes_and_goes() {
    // A new group is included after five minutes.
    let truth = Truth::new();
    truth.groups.borrow_mut()[1].is_there = false;
    let nr_targets = RefCell::new(Vec::new());
    let look = |second| {
        at(second, |truth: &Truth| {
            nr_targets.borrow_mut().push(truth.knob(&format!("{KDAMOND}contexts/0/targets/nr_targets")));
        })
    };
    let come = at(50, |truth: &Truth| truth.groups.borrow_mut()[1].is_there = true);
    let gone = at(400, |truth: &Truth| {
        let mut groups = truth.groups.borrow_mut();
        (groups[0].is_there, groups[1].is_there) = (false, false);
        // Its processes ended, and it ended with them.
        truth.knobs.borrow_mut().insert(STATE.to_owned(), "off".to_owned());
    });
    let back = at(600, |truth: &Truth| truth.groups.borrow_mut()[0].is_there = true);
    let events = vec![look(40), come, look(200), look(390), gone, look(500), back, look(700)];
    steered(&truth, &with_kdamond(true, Operations::Vaddr), 720, events);
    holds(&truth, "who comes and goes");
    let one = |nr: &str| Some(nr.to_owned());
    assert_eq!(nr_targets.into_inner(), [one("1"), one("1"), one("2"), None, one("1")]);
    assert!(truth.has_line(|line| matches!(line, Line::Trouble { why, .. } if why.contains("there now"))));

    // Another program switches it off: it stays off. A module that another program runs is left
    // alone.
    let truth = Truth::new();
    let off = at(20, |truth: &Truth| drop(truth.knobs.borrow_mut().insert(STATE.to_owned(), "off".to_owned())));
    steered(&truth, &with_kdamond(true, Operations::Vaddr), 200, vec![off]);
    assert!(
        truth.has_line(|line| matches!(line, Line::Trouble { why, .. } if why.contains("somebody switched it off")))
    );
    assert_eq!(writes(&truth).iter().filter(|write| write.0 == STATE).count(), 1);
    holds(&truth, "switched off");
    let truth = Truth::new();
    truth.knobs.borrow_mut().insert(NR_KDAMONDS.to_owned(), "1".to_owned());
    let before = truth.knobs.borrow().clone();
    steered(&truth, &with_kdamond(true, Operations::Vaddr), 200, Vec::new());
    assert!(truth.has_line(|line| matches!(line, Line::Trouble { why, .. } if why.contains("left alone"))));
    assert!(writes(&truth).is_empty() && *truth.knobs.borrow() == before);
}

#[test]
fn a_fault_at_any_call_leaves_no_kdamond() {
    for operations in [Operations::Vaddr, Operations::Paddr] {
        let whole = Truth::new();
        steered(&whole, &with_kdamond(true, operations), 30, Vec::new());
        for call in 0..whole.calls.get() {
            let truth = Truth::new();
            truth.fails_at.set(Some(call));
            let stopped: Event<'_> = (60 + call % 40, Box::new(|_: &Truth| Some(Woken::Stopped)));
            swept(call, &truth, &with_kdamond(true, operations), 120, vec![stopped]);
            holds(&truth, &format!("{operations:?}, fault at call {call}"));
        }
    }
}

/// The kernel thread that it started counts too.
#[test]
fn a_kdamond_that_takes_too_much_is_switched_off_for_a_while() {
    let truth = Truth::new();
    truth.kdamond_share.set(Ratio::from_percent(3));
    let seen = RefCell::new(Vec::new());
    let look = |second| at(second, |truth: &Truth| seen.borrow_mut().push(truth.knobs.borrow()[ENABLED].clone()));
    let calm = at(300, |truth: &Truth| truth.kdamond_share.set(Ratio::from_ppm(5000)));
    steered(&truth, &with_module(true, true), 900, vec![look(50), look(140), calm, look(600), look(880)]);
    holds(&truth, "an expensive kdamond");
    assert_eq!(seen.into_inner(), ["Y", "N", "N", "Y"]);
    let is_it =
        |line: &Line| matches!(line, Line::Trouble { why, .. } if why.contains("3%") && why.contains("max-cpu"));
    assert!(truth.has_line(is_it), "{:?}", truth.lines);
}

/// Anyone who may start processes in a group, or under a name, starts many small ones.
#[test]
fn of_many_processes_the_largest_are_watched() {
    let truth = Truth::new();
    truth.more.borrow_mut().extend((1000..1299).map(|process| (process, 0)));
    // The service itself has the largest number, and 256 and 257 are of one size.
    truth.sizes.borrow_mut().extend((1000..1299).map(|process| (process, u64::from(process / 2))));
    truth.sizes.borrow_mut().extend([(1, 5), (101, 1 << 30)]);
    let seen = RefCell::new(Vec::new());
    let look = at(30, |truth: &Truth| {
        let knobs = truth.knobs.borrow();
        let pids = knobs.iter().filter(|(path, _)| path.ends_with("pid_target"));
        let mut pids: Vec<u32> = pids.map(|(_, pid)| pid.parse().unwrap()).collect();
        pids.sort_unstable();
        seen.borrow_mut().extend(pids);
    });
    let ended = steered(&truth, &with_kdamond(true, Operations::Vaddr), 60, vec![look]);
    holds(&truth, "many processes");
    let expected: Vec<u32> = std::iter::once(101).chain(1044..1299).collect();
    assert_eq!(*seen.borrow(), expected);
    let switch = ended.status.sections.iter().find(|section| section.engine == "kernel: DAMON").unwrap();
    assert!(switch.state.contains("256 largest") && switch.state.contains("45 more are left out"), "{switch:?}");
}

/// Sizes change all the time, and a kdamond that is made again forgets what it knows.
#[test]
fn a_kdamond_is_made_again_for_a_large_process_and_for_no_small_one() {
    for (size, is_again) in [(1100, false), (1 << 30, true)] {
        let truth = Truth::new();
        truth.more.borrow_mut().extend((1000..1299).map(|process| (process, 0)));
        truth.sizes.borrow_mut().extend((1000..1299).map(|process| (process, u64::from(process))));
        let come = at(100, |truth: &Truth| {
            truth.more.borrow_mut().insert(2000, 1);
            truth.sizes.borrow_mut().insert(2000, size);
        });
        steered(&truth, &with_kdamond(true, Operations::Vaddr), 420, vec![come]);
        let is_made = |write: &&(String, String)| write.0 == STATE;
        let made = writes(&truth).iter().filter(is_made).count();
        assert_eq!(made, 1 + usize::from(is_again), "{size}");
    }
}

/// DAMON takes numbers, and a number may be another process's by the time it is used.
#[test]
fn a_kdamond_whose_process_left_its_group_does_not_go_on() {
    let truth = Truth::new();
    truth.goes_at_switch.set(true);
    let seen = RefCell::new(Vec::new());
    let look = |second| {
        at(second, |truth: &Truth| {
            let pid = truth.knob(&format!("{KDAMOND}contexts/0/targets/0/pid_target"));
            seen.borrow_mut().push((truth.knob(STATE), pid));
        })
    };
    steered(&truth, &with_kdamond(true, Operations::Vaddr), 120, vec![look(5), look(110)]);
    holds(&truth, "a process that left");
    let left = |line: &Line| matches!(line, Line::Trouble { why, .. } if why.contains("process 1 left its group"));
    assert!(truth.has_line(left), "{:?}", truth.lines);
    let on = (Some("on".to_owned()), Some("101".to_owned()));
    assert_eq!(*seen.borrow(), [(None, None), on], "off at once, and made again without it");
}
