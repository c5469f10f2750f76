//! Right-sizing: limits that are found, held, and restored.

use super::super::*;
use super::configs::*;
use super::system::*;
use isotherm_units::{PAGE_BYTES, Woken};
use std::cell::RefCell;

#[test]
fn cold_memory_goes_by_the_limit_and_what_is_in_use_stays() {
    let truth = Truth::new();
    let seen = RefCell::new(Vec::new());
    let look = |second| {
        at(second, |truth: &Truth| {
            let groups = truth.groups.borrow();
            seen.borrow_mut()
                .push(groups.iter().map(|group| (group.usage() / PAGE_BYTES, group.high)).collect::<Vec<_>>());
        })
    };
    let events = vec![
        look(90),
        at(100, |truth: &Truth| truth.has_kill_file.set(true)),
        look(105),
        at(110, |truth: &Truth| truth.has_kill_file.set(false)),
    ];
    let whole = steered(&truth, &with_limits(true), 130, events);
    holds(&truth, "sizes");
    let seen = seen.into_inner();
    for (index, hot) in [(0, 1000), (1, 500)] {
        let (usage, high) = seen[0][index];
        // The limit stays above what is in use by a step.
        assert!((hot..hot + hot / 4).contains(&usage) && high.is_some(), "{:?}", seen[0]);
        assert_eq!(seen[1][index].1, None, "while it is paused nothing is changed");
    }
    for spared in [2, 3, 4, 5] {
        assert_eq!(seen[0][spared].1, None, "{:?}", seen[0]);
    }
    let refaulted: u64 = truth.groups.borrow().iter().map(|group| group.refaulted_bytes).sum();
    assert_eq!(refaulted, 0, "it is refused before it takes what has no swap to go to");
    let verified: u64 = truth.acts().iter().map(|act| act.verified_bytes).sum();
    assert!(verified >= 28_000 * PAGE_BYTES, "{verified}");
    assert_eq!(whole.status.sections[0].verified_bytes, verified);
    assert!(truth.has_line(|line| matches!(line, Line::LeftAlone { target, .. } if target == "/app/web-4")));
}

#[test]
fn without_enable_the_first_limit_is_told_alone() {
    let truth = Truth::new();
    steered(&truth, &with_limits(false), 60, Vec::new());
    let groups = truth.groups.borrow();
    assert!(groups.iter().all(|group| group.high.is_none()) && truth.acts().is_empty());
    let told = |path: &str| {
        let lines = truth.lines.borrow();
        let is_it = |line: &&Line| matches!(line, Line::WouldWrite { path: file, .. } if file.starts_with(path));
        lines.iter().filter(is_it).count()
    };
    assert_eq!((told("/cg/app/web-1/"), told("/cg/app/db/")), (1, 0));
}

#[test]
fn a_limit_in_other_hands_is_left_there() {
    let truth = Truth::new();
    truth.groups.borrow_mut()[0].high = Some(30 << 20);
    let meddle = at(20, |truth: &Truth| truth.groups.borrow_mut()[1].high = Some(77 << 20));
    let steered = steered(&truth, &with_limits(true), 90, vec![meddle]);
    let groups = truth.groups.borrow();
    assert_eq!((groups[0].high, groups[1].high), (Some(30 << 20), Some(77 << 20)));
    for path in ["/app/web-1", "/app/web-2"] {
        let is_it = |line: &Line| matches!(line, Line::LeftAlone { target, why, .. } if target == path && why.contains("somebody else"));
        assert!(truth.has_line(is_it), "{path}");
    }
    assert!(steered.left.is_empty(), "{:?}", steered.left);
}

/// A target that means no group, as one with a typing error does.
#[test]
fn limits_of_nobody_are_reported_at_once() {
    let truth = Truth::new();
    let mut config = with_limits(true);
    "/app.slcie/wbe-*".clone_into(&mut config.limits[0].limits.target);
    let steered = steered(&truth, &config, 15, Vec::new());
    let is_it = |line: &Line| matches!(line, Line::Trouble { why, .. } if why.contains("/app.slcie/wbe-*"));
    assert!(truth.has_line(is_it), "{:?}", truth.lines);
    assert_eq!(truth.lines.borrow().iter().filter(|line| is_it(line)).count(), 1, "once");
    assert!(steered.status.sections[0].state.contains("/app.slcie/wbe-*"), "{:?}", steered.status);
}

/// `memory.high` of a group takes from all below it.
#[test]
fn a_limit_above_a_protected_group_is_not_written() {
    for (target, protect, why) in [
        ("/app", vec![], "memory is guaranteed to /app/web-4, below it"),
        ("/ap*", vec!["/app/db".to_owned()], "[daemon] protect names /app/db, which is below it"),
    ] {
        let truth = Truth::new();
        let mut config = with_limits(true);
        target.clone_into(&mut config.limits[0].limits.target);
        config.daemon.protect.clone_from(&protect);
        config.check().unwrap();
        steered(&truth, &config, 30, Vec::new());
        assert!(truth.groups.borrow().iter().all(|group| group.high.is_none()), "{target}");
        assert!(!truth.has_line(|line| matches!(line, Line::Writes { .. })), "{target}");
        let is_it = |line: &Line| matches!(line, Line::LeftAlone { target, why: said, .. } if target == "/app" && said.contains(why));
        assert!(truth.has_line(is_it), "{target}: {:?}", truth.lines);
    }
    // Where both are known beforehand, the configuration is refused.
    let mut config = with_limits(true);
    "/app".clone_into(&mut config.limits[0].limits.target);
    let refused = config.check().unwrap_err();
    assert!(refused.message.contains("`/app/web-5` is protected"), "{refused:?}");
    assert_eq!(refused.other.as_deref(), Some("daemon.protect[0]"));
    config.limits[0].enable = false;
    config.check().unwrap();
}

/// The group is removed and made again, as `systemctl restart` does it, at the time of a search for groups or between two.
#[test]
fn a_service_that_was_restarted_is_sized_again() {
    for second in [40, 44, 45] {
        let truth = Truth::new();
        let restart = at(second, |truth: &Truth| {
            let group = &mut truth.groups.borrow_mut()[0];
            assert!(group.high.is_some(), "it has a limit of ours");
            (group.remade, group.high, group.idle) = (group.remade + 1, None, [0, 0, 8000, 0]);
        });
        let sizes = RefCell::new(Vec::new());
        let look = |second| at(second, |truth: &Truth| sizes.borrow_mut().push(truth.groups.borrow()[0].high));
        let steered = steered(&truth, &with_limits(true), 150, vec![restart, look(140)]);
        assert!(sizes.borrow()[0].is_some(), "restarted at {second} s");
        assert!(!truth.has_line(|line| matches!(line, Line::LeftAlone { target, .. } if target == "/app/web-1")));
        assert!(steered.left.is_empty() && truth.groups.borrow()[0].high.is_none(), "{:?}", steered.left);
    }
}

/// A limit that another program set goes with its group.
#[test]
fn a_group_that_was_left_alone_is_looked_at_again_when_it_was_made_again() {
    let truth = Truth::new();
    truth.groups.borrow_mut()[0].high = Some(30 << 20);
    let restart = at(40, |truth: &Truth| {
        let group = &mut truth.groups.borrow_mut()[0];
        (group.remade, group.high) = (group.remade + 1, None);
    });
    let sizes = RefCell::new(Vec::new());
    let look = at(140, |truth: &Truth| sizes.borrow_mut().push(truth.groups.borrow()[0].high));
    steered(&truth, &with_limits(true), 150, vec![restart, look]);
    assert!(sizes.borrow()[0].is_some_and(|high| high != 30 << 20), "{sizes:?}");
}

/// The audit's disk is full when the limit hurts: giving memory back waits for no line.
#[test]
fn a_limit_that_hurts_is_lifted_though_no_line_can_be_written() {
    let truth = Truth::new();
    let full = at(40, |truth: &Truth| {
        assert!(truth.groups.borrow()[0].high.is_some(), "it has a limit of ours");
        truth.is_log_full.set(true);
    });
    let sizes = RefCell::new(Vec::new());
    let mut events = vec![full];
    events
        .extend((41..50).map(|second| at(second, |truth: &Truth| truth.groups.borrow_mut()[0].stalled_us += 900_000)));
    events.push(at(50, |truth: &Truth| sizes.borrow_mut().push(truth.groups.borrow()[0].high)));
    steered(&truth, &with_limits(true), 51, events);
    assert_eq!(*sizes.borrow(), [None]);
}

#[test]
fn a_fault_at_any_call_leaves_no_limit() {
    let whole = Truth::new();
    steered(&whole, &with_limits(true), 25, Vec::new());
    for call in 0..whole.calls.get() {
        let truth = Truth::new();
        truth.fails_at.set(Some(call));
        let stopped: Event<'_> = (30 + call % 20, Box::new(|_: &Truth| Some(Woken::Stopped)));
        swept(call, &truth, &with_limits(true), 60, vec![stopped]);
        holds(&truth, &format!("fault at call {call}"));
    }
}
