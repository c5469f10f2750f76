//! The guard by groups: who waits for memory is left alone, and holds back no one else.

use super::super::guard::{Guard, Reach};
use super::super::*;
use super::configs::*;
use super::probes::with_monitor;
use super::system::*;
use crate::config::GuardConfig;
use isotherm_core::monitor::Operations;
use isotherm_units::{Clock as _, Instant, Ratio};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

/// All of the machine waits, and one user in a limit of its own is why.
fn tenant(truth: &Truth) {
    truth.pressure.set(Ratio::from_percent(50));
    for (path, percent, hits) in
        [("/user.slice", 45, 0), ("/user.slice/u1", 48, 90), ("/app", 0, 0), ("/system.slice", 0, 0)]
    {
        truth.waits(path, percent, hits);
    }
    for path in ["/app/web-1", "/app/web-2", "/app/web-4", "/app/web-5", "/system.slice/sshd.service"] {
        truth.waits(path, 0, 0);
    }
}

fn stalled(truth: &Truth) -> Vec<Stalled> {
    let lines = truth.lines.borrow();
    lines
        .iter()
        .filter_map(|line| if let Line::Stalled(stalled) = line { Some(stalled.clone()) } else { None })
        .collect()
}

#[test]
fn a_tenant_at_its_own_limit_holds_back_no_one_else() {
    let truth = Truth::new();
    let module = RefCell::new(Vec::new());
    let look = at(100, |truth: &Truth| module.borrow_mut().push(truth.knobs.borrow()[ENABLED].clone()));
    let ended = steered(&truth, &with_module(true, true), 120, vec![at(5, tenant), look]);
    holds(&truth, "a tenant at its limit");
    assert_eq!(stalled(&truth), []);
    assert_eq!((truth.evicted_of("/app/web-1"), truth.evicted_of("/app/web-2")), (9000, 20_000));
    assert_eq!(*module.borrow(), ["Y"], "DAMON_RECLAIM acts on all memory of the machine");
    assert_eq!((ended.status.paused, ended.status.stalled), (None, vec![]));
}

/// Each of these takes away what explains the pressure.
#[test]
fn pressure_of_the_machine_that_no_limit_of_others_explains_holds_back_what_acts_on_all() {
    let neighbour = |truth: &Truth| truth.waits("/user.slice/u2", 9, 0);
    let short = |truth: &Truth| truth.shortages.set(1);
    let without_limit = |truth: &Truth| truth.waits("/user.slice/u1", 48, 0);
    for (case, change) in
        [("a neighbour", &neighbour as &dyn Fn(&Truth)), ("short", &short), ("no limit", &without_limit)]
    {
        let truth = Truth::new();
        let module = RefCell::new(Vec::new());
        let look = |second| at(second, |truth: &Truth| module.borrow_mut().push(truth.knobs.borrow()[ENABLED].clone()));
        let ended =
            steered(&truth, &with_module(true, true), 60, vec![at(5, tenant), look(25), at(30, change), look(50)]);
        assert_eq!(*module.borrow(), ["Y", "N"], "{case}");
        let told = stalled(&truth);
        assert_eq!(told.len(), 1, "{case}: {told:?}");
        assert_eq!((&*told[0].target, &told[0].sections[..]), ("machine", &["monitors.proactive".to_owned()][..]));
        assert_eq!(ended.status.paused, None, "{case}: a section over other groups goes on");
        assert_eq!(ended.status.stalled.len(), 1, "{case}");
        assert_eq!(truth.evicted_of("/app/web-2"), 20_000, "{case}");
    }
}

#[test]
fn a_group_that_waits_is_left_alone_and_its_neighbours_are_not() {
    for (config, section) in [(config(true), "generations.cold"), (with_monitor(true), "monitors.cold")] {
        let truth = Truth::new();
        let waits = at(1, |truth: &Truth| truth.waits("/app/web-1", 20, 0));
        steered(&truth, &config, 90, vec![waits]);
        holds(&truth, section);
        assert_eq!(truth.evicted_of("/app/web-1"), 0, "{section}");
        assert!(truth.evicted_of("/app/web-2") > 500, "{section}");
        let told = stalled(&truth);
        assert_eq!(told.len(), 1, "{section}: {told:?}");
        let Stalled { target, sections, share_ppm } = &told[0];
        assert_eq!((&**target, &sections[..], *share_ppm), ("/app/web-1", &[section.to_owned()][..], 200_000));
        let refused = |act: &Act| {
            act.target.starts_with("/app/web-1")
                && matches!(&act.effect, Effect::Refused { why } if why.contains("tasks of /app/web-1 waited"))
        };
        assert!(truth.acts().iter().any(refused), "{section}: {:?}", truth.acts());
    }
}

#[test]
fn a_limit_of_a_group_that_waits_is_lifted_and_comes_back_after_a_minute() {
    let truth = Truth::new();
    let highs = RefCell::new(Vec::new());
    let look = |second| {
        at(second, |truth: &Truth| {
            let groups = truth.groups.borrow();
            highs.borrow_mut().push([0, 1].map(|at| groups[at].high.is_some()));
        })
    };
    let events = vec![
        look(40),
        at(41, |truth: &Truth| truth.waits("/app/web-1", 20, 9)),
        look(45),
        at(46, |truth: &Truth| {
            truth.waits("/app/web-1", 0, 0);
            truth.groups.borrow_mut()[0].idle[2] = 8000;
        }),
        look(100),
        look(160),
    ];
    let ended = steered(&truth, &with_limits(true), 161, events);
    holds(&truth, "a group that waits");
    assert_eq!(*highs.borrow(), [[true, true], [false, true], [false, true], [true, true]]);
    assert!(truth.has_line(|line| matches!(line, Line::Calmed { target } if target == "/app/web-1")));
    assert_eq!(ended.status.stalled, []);
}

/// One kdamond watches the processes of all groups.
#[test]
fn a_kdamond_is_off_while_one_of_its_groups_waits() {
    let truth = Truth::new();
    let seen = RefCell::new(Vec::new());
    let look = |second| at(second, |truth: &Truth| seen.borrow_mut().push(truth.knob(STATE)));
    let waits = at(20, |truth: &Truth| truth.waits("/app/web-2", 20, 0));
    let events = vec![look(15), waits, look(25)];
    steered(&truth, &with_kdamond(true, Operations::Vaddr), 60, events);
    holds(&truth, "a group of a kdamond waits");
    assert_eq!(*seen.borrow(), [Some("on".to_owned()), None]);
    let told = &stalled(&truth)[0];
    assert_eq!(told.sections, ["generations.cold", "monitors.cold"]);
}

/// A limit that the daemon wrote is no excuse of the group that it is on.
#[test]
fn a_limit_of_ours_explains_no_pressure() {
    let truth = Truth::new();
    let both = Config { monitors: with_module(true, true).monitors, ..with_limits(true) };
    let module = RefCell::new(Vec::new());
    let look = |second| at(second, |truth: &Truth| module.borrow_mut().push(truth.knobs.borrow()[ENABLED].clone()));
    let hurt = at(40, |truth: &Truth| {
        assert!(truth.groups.borrow()[0].high.is_some(), "it has a limit of ours");
        truth.pressure.set(Ratio::from_percent(50));
        truth.waits("/app", 1, 0);
        // Just below what the guard of the group takes, so that the limit stays.
        truth.waits("/app/web-1", 2, 9);
        truth.waits("/app/web-2", 0, 0);
    });
    steered(&truth, &both, 60, vec![look(38), hurt, look(50)]);
    assert_eq!(*module.borrow(), ["Y", "N"]);
    assert_eq!(stalled(&truth).iter().map(|stalled| &*stalled.target).collect::<Vec<_>>(), ["machine"]);
}

#[test]
fn of_many_groups_some_are_read_in_a_second_and_all_in_turn() {
    let mut truth: Rc<Truth> = Truth::new();
    let paths: Vec<String> = (0..200).map(|group| format!("/u/{group}")).collect();
    truth.waits("/u/150", 30, 0);
    truth.stalls_read.set(0);
    let mut guard = Guard::default();
    let config = GuardConfig::default();
    guard.watch(BTreeMap::from([("limits.x".to_owned(), Reach::groups(paths.iter().map(String::as_str)))]));
    for second in 0..12 {
        let before = truth.stalls_read.get();
        guard.look(&config, Instant::START + Duration::from_secs(second), &mut truth, BTreeSet::new);
        assert!(truth.stalls_read.get() - before <= 64, "too many reads in a second");
        truth.clock.clone().sleep_until(Instant::START + Duration::from_secs(second + 1));
    }
    assert!(guard.group("/u/150/x").is_some_and(|why| why.contains("/u/150")), "{:?}", guard.group("/u/150"));
    assert!(paths.iter().filter(|path| *path != "/u/150").all(|path| guard.group(path).is_none()));
    assert_eq!((guard.whole("limits.x"), guard.everything()), (None, None));
    assert!(guard.any("limits.x").is_some());
    // One that is not watched yet is not acted on.
    assert!(guard.group("/other").is_some_and(|why| why.contains("not known")));
}
