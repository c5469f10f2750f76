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

#[test]
fn a_fault_at_any_call_leaves_no_limit() {
    let whole = Truth::new();
    steered(&whole, &with_limits(true), 25, Vec::new());
    for call in 0..whole.calls.get() {
        let truth = Truth::new();
        truth.fails_at.set(Some(call));
        let stopped: Event<'_> = (30 + call % 20, Box::new(|_: &Truth| Some(Woken::Stopped)));
        steered(&truth, &with_limits(true), 60, vec![stopped]);
        holds(&truth, &format!("fault at call {call}"));
    }
}

#[test]
fn many_steps_are_few_lines_of_the_journal() {
    use crate::changes::Journal;
    struct Kept(std::rc::Rc<RefCell<Vec<u8>>>);
    impl Store for Kept {
        fn read(&mut self) -> std::io::Result<Vec<u8>> {
            Ok(self.0.borrow().clone())
        }
        fn append(&mut self, bytes: &[u8]) -> std::io::Result<()> {
            self.0.borrow_mut().extend_from_slice(bytes);
            Ok(())
        }
    }
    struct Knob(std::rc::Rc<RefCell<String>>);
    impl KnobStore for Knob {
        fn value(&mut self, _: &str) -> Result<Option<String>, KnobError> {
            Ok(Some(self.0.borrow().clone()))
        }
        fn write(&mut self, _: &str, value: &str) -> Result<(), KnobError> {
            *self.0.borrow_mut() = value.to_owned();
            Ok(())
        }
    }
    let (bytes, value) = <(std::rc::Rc<RefCell<Vec<u8>>>, std::rc::Rc<RefCell<String>>)>::default();
    *value.borrow_mut() = "max".to_owned();
    let hands = || JournaledKnobs::new(Journal::read(Kept(bytes.clone())).unwrap(), Knob(value.clone()), "b");
    let mut steps = hands();
    let mut high = 1u64 << 34;
    while high > 1 << 26 {
        high -= high / 100 / PAGE_BYTES * PAGE_BYTES;
        Knobs::set_within_band(&mut steps, "limits.a /x", "/x/memory.high", high).unwrap();
    }
    let lines = bytes.borrow().iter().filter(|&&byte| byte == b'\n').count();
    assert!(lines < 16, "{lines} lines for hundreds of steps");
    // Killed here. A value of another program would stay; ours returns to the original one.
    drop(steps);
    assert!(hands().restore().unwrap().iter().all(|(_, what)| *what == Returned::Back));
    assert_eq!(*value.borrow(), "max");
}
