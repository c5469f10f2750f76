//! Our own engines: when they act, and when they do not.

use super::super::*;
use super::configs::with_kdamond;
use super::memory::BALANCING;
use super::probes::*;
use super::system::*;
use crate::config::TargetConfig;
use isotherm_core::monitor::Operations;
use isotherm_units::{Instant, PAGE_BYTES, Ratio, Woken};
use std::cell::RefCell;

#[test]
fn cold_memory_of_processes_goes_and_hot_memory_stays() {
    let truth = Truth::new();
    let steered = steered(&truth, &with_monitor(true), 120, Vec::new());
    holds(&truth, "own monitor");
    let spaces = truth.spaces.borrow();
    for process in [1, 101] {
        assert!(spaces.gone(process) > COLD_PAGES * 9 / 10, "{process}: {}", spaces.gone(process));
    }
    let verified: u64 = truth.acts().iter().map(|act| act.verified_bytes).sum();
    assert_eq!(verified, (spaces.gone(1) + spaces.gone(101)) * PAGE_BYTES, "each page that went stands in a line");
    assert_eq!(steered.status.sections[0].verified_bytes, verified);
    let asked: u64 = truth.acts().iter().map(|act| act.asked_bytes).sum();
    assert!(asked >= verified && steered.status.sections[0].asked_bytes == asked);
    assert!(truth.has_line(|line| matches!(line, Line::LeftAlone { target, .. } if target == "/app/web-4")));
    let last = |line: &Line| match line {
        Line::Acted { at_ns, act, .. } if matches!(act.effect, Effect::Done | Effect::Partly) => Some(*at_ns),
        _ => None,
    };
    let last_ns = truth.lines.borrow().iter().filter_map(last).max().unwrap();
    assert_eq!(steered.status.sections[0].since_acted_ns, Some(truth.now().since(Instant::START).ns() - last_ns));
    let engine = |line: &Line| matches!(line, Line::Section { engine, .. } if engine.starts_with("isotherm"));
    assert!(truth.has_line(engine));
}

#[test]
fn an_engine_that_observes_tells_and_does_nothing() {
    let truth = Truth::new();
    let told = steered(&truth, &with_monitor(false), 120, Vec::new());
    assert_eq!(told.status.sections[0].since_acted_ns, None);
    let acts = truth.acts();
    assert!(!acts.is_empty() && acts.iter().all(|act| act.effect == Effect::Would && act.verified_bytes == 0));
    assert!(acts.len() <= 3 * 5, "a line a minute for each process: {}", acts.len());
    assert_eq!(truth.spaces.borrow().gone(1), 0);
}

#[test]
fn pressure_and_the_kill_file_hold_engines_too() {
    let truth = Truth::new();
    truth.has_kill_file.set(true);
    let events = vec![at(60, |truth: &Truth| truth.has_kill_file.set(false))];
    steered(&truth, &with_monitor(true), 120, events);
    holds(&truth, "kill file");
    assert!(truth.evicted.borrow().iter().all(|evicted| evicted.0 >= since_start(60)));
    assert!(truth.spaces.borrow().gone(1) > 0);
    let truth = Truth::new();
    truth.pressure.set(Ratio::from_percent(10));
    steered(&truth, &with_monitor(true), 60, Vec::new());
    assert!(truth.evicted.borrow().iter().all(|evicted| evicted.0 <= since_start(1)), "{:?}", truth.evicted);
}

#[test]
fn hot_pages_are_promoted_and_no_others() {
    let truth = unbalanced();
    let steered = steered(&truth, &with_promotion(true), 120, Vec::new());
    let spaces = truth.spaces.borrow();
    for process in [1, 101] {
        let fast = spaces.by_process[&process].fast.iter().filter(|fast| **fast).count();
        assert!(fast > 240, "{process}: {fast} of 256; {:?}", steered.status.sections[0].words);
    }
    for process in [201, 301, 401, 501] {
        assert!(!spaces.is_touched(process), "{process}");
    }
    let acts = truth.acts();
    let verified: u64 = acts.iter().map(|act| act.verified_bytes).sum();
    assert!(acts.iter().all(|act| act.action == "promote") && verified >= 2 * 240 * PAGE_BYTES);
    let watched = unbalanced();
    super::system::steered(&watched, &with_promotion(false), 60, Vec::new());
    assert!(!watched.spaces.borrow().is_touched(1) && watched.acts().iter().all(|act| act.effect == Effect::Would));
}

#[test]
fn two_never_move_the_same_pages() {
    let truth = Truth::new();
    let events = vec![at(60, |truth: &Truth| {
        truth.knobs.borrow_mut().insert(BALANCING.to_owned(), "0".to_owned());
    })];
    steered(&truth, &with_promotion(true), 55, Vec::new());
    assert!(!truth.spaces.borrow().is_touched(1), "the kernel balances");
    let is_it = |line: &Line| matches!(line, Line::Trouble { why, .. } if why.contains("numa_balancing"));
    assert!(truth.has_line(is_it));
    let truth = Truth::new();
    steered(&truth, &with_promotion(true), 150, events);
    assert!(truth.spaces.borrow().is_touched(1), "it begins when nobody else does");
}

/// Each host call in turn fails.
#[test]
fn a_fault_at_any_look_breaks_nothing() {
    for (config, seconds) in [(with_monitor(true), 40), (with_promotion(true), 30)] {
        let whole = unbalanced();
        steered(&whole, &config, seconds, Vec::new());
        let calls = whole.calls.get();
        assert!(calls > 100, "{calls}");
        for call in (0..calls).step_by(3) {
            let truth = unbalanced();
            truth.fails_at.set(Some(call));
            steered(&truth, &config, seconds * 2, Vec::new());
            truth.knobs.borrow_mut().insert(BALANCING.to_owned(), "1".to_owned());
            holds(&truth, &format!("fault at look {call}"));
        }
    }
}

#[test]
fn who_comes_late_is_looked_at_and_who_goes_is_let_go() {
    let truth = Truth::new();
    truth.groups.borrow_mut()[1].is_there = false;
    let events = vec![
        at(40, |truth: &Truth| truth.groups.borrow_mut()[1].is_there = true),
        at(40, |truth: &Truth| truth.groups.borrow_mut()[0].is_there = false),
    ];
    let steered = steered(&truth, &with_monitor(true), 120, events);
    let (spaces, lines) = (truth.spaces.borrow(), truth.lines.borrow());
    assert!(spaces.gone(101) > 0, "{:?} {lines:?}", steered.status.sections);
    let late = truth.evicted.borrow().iter().filter(|evicted| evicted.1 == "/app/web-1").map(|evicted| evicted.0).max();
    assert!(late.is_some_and(|late| late <= since_start(51)), "{late:?}");
}

#[test]
fn controls_of_promotion_change_while_it_runs() {
    let reload = |second| -> Event<'_> { (second, Box::new(|_: &Truth| Some(Woken::Reload))) };
    let changed = |change: &dyn Fn(&mut crate::config::TieringConfig)| {
        let mut config = with_promotion(true);
        change(config.tiering.as_mut().unwrap());
        config.check().unwrap();
        config
    };
    let looks = |later: Config| {
        let truth = unbalanced();
        let events =
            vec![at(30, move |truth: &Truth| *truth.configuration.borrow_mut() = Ok(later.clone())), reload(31)];
        let steered = steered(&truth, &with_promotion(true), 90, events);
        assert!(truth.has_line(|line| matches!(line, Line::Began { .. })), "{:?}", steered.end);
        let lines = truth.lines.borrow();
        let began = lines
            .iter()
            .filter(|line| matches!(line, Line::Section { section, .. } if section == "tiering.isotherm"))
            .count();
        let calls = truth.spaces.borrow().calls;
        (began, calls)
    };
    let usual = looks(with_promotion(true));
    let off = looks(changed(&|it| it.promotion.as_mut().unwrap().scan_enabled = false));
    let spared = looks(changed(&|it| it.scales = [("web".to_owned(), 0)].into()));
    let anew = looks(changed(&|it| it.promotion.as_mut().unwrap().cover = Some(Duration::from_secs(20))));
    assert_eq!((usual.0, off.0, spared.0, anew.0), (1, 1, 1, 2), "who is adjusted keeps what it knows");
    assert!(off.1 * 3 < usual.1 * 2 && spared.1 * 3 < usual.1 * 2, "{usual:?} {off:?} {spared:?}");
}

/// The same with processes as targets; the second section wants a process of the first.
#[test]
fn processes_are_targets_too_and_belong_to_one_section() {
    let truth = Truth::new();
    let mut config = with_monitor(true);
    config.targets = serde_json::from_value(serde_json::json!([
        { "name": "web", "process": { "command": "web" } },
        { "name": "one", "pid": 101 },
    ]))
    .unwrap();
    config.generations.clear();
    let mut second = config.monitors[0].clone();
    (second.name, second.targets) = ("second".to_owned(), vec!["one".to_owned()]);
    config.monitors.push(second);
    config.check().unwrap();
    let steered = steered(&truth, &config, 120, Vec::new());
    holds(&truth, "processes");
    let spaces = truth.spaces.borrow();
    assert!(spaces.gone(1) > 0 && spaces.gone(101) > 0, "{:?}", steered.status.sections);
    assert!(truth.has_line(|line| matches!(line, Line::Came { target, .. } if target == "process 101 (web)")));
    assert!(truth.has_line(|line| matches!(line, Line::LeftAlone { target, .. } if target == "process 501 (web)")));
    let is_taken = |line: &Line| matches!(line, Line::Trouble { section, why } if section == "monitors.second" && why.contains("process 101 is looked at by"));
    assert!(truth.has_line(is_taken));
    assert_eq!(steered.status.sections[1].verified_bytes, 0);
}

/// If free memory is unknown, none is brought back.
#[test]
fn nothing_is_brought_back_without_room() {
    let mut config = with_monitor(true);
    let monitor = config.monitors[0].config.as_mut().unwrap();
    monitor.schemes[0].action = isotherm_core::vocabulary::Action::Willneed;
    config.check().unwrap();
    for (free, is_refused) in [(None, true), (Some(1 << 20), true), (Some(1 << 30), false)] {
        let truth = Truth::new();
        truth.free_bytes.set(free);
        steered(&truth, &config, 60, Vec::new());
        let acts = truth.acts();
        let refused = |act: &Act| matches!(&act.effect, Effect::Refused { why } if why.contains("free"));
        assert!(!acts.is_empty() && acts.iter().all(|act| refused(act) == is_refused), "{free:?}: {acts:?}");
    }
}

/// The same as for a kdamond. A process that is sampled keeps its place until a large one needs it.
#[test]
fn of_many_processes_an_engine_samples_the_largest() {
    let truth = Truth::new();
    truth.more.borrow_mut().extend((1000..1299).map(|process| (process, 0)));
    truth.sizes.borrow_mut().extend((1000..1299).map(|process| (process, u64::from(process))));
    truth.sizes.borrow_mut().insert(101, 1 << 30);
    let seen = RefCell::new(Vec::new());
    let look = |second| at(second, |truth: &Truth| seen.borrow_mut().push(truth.spaces.borrow().sampled()));
    let events = vec![
        look(12),
        at(13, |truth: &Truth| {
            truth.more.borrow_mut().extend([(2000, 1), (2001, 1)]);
            truth.sizes.borrow_mut().extend([(2000, 1100), (2001, 1 << 20)]);
        }),
        look(35),
    ];
    let mut config = with_monitor(false);
    config.monitors[0].config.as_mut().unwrap().attributes.sample_interval = Duration::from_secs(5);
    let ended = steered(&truth, &config, 36, events);
    let seen = seen.into_inner();
    let largest: Vec<u32> = std::iter::once(101).chain(1044..1299).collect();
    assert_eq!(seen[0], largest);
    assert!(seen[1].contains(&2001) && !seen[1].contains(&2000) && seen[1].len() == 256, "{:?}", seen[1]);
    let state = &ended.status.sections[0].state;
    assert!(state.contains("256 largest") && state.contains("50 more are left out"), "{state}");
}

/// A machine cannot be reached without some programs. They are known by their files, so that no process can exempt itself by a name.
#[test]
fn programs_that_are_protected_are_not_acted_on_in_any_group() {
    let mut own = with_monitor(true);
    let mut kernel = with_kdamond(true, Operations::Vaddr);
    // By process, as a group is protected by its own name.
    let targets: Vec<TargetConfig> = serde_json::from_value(serde_json::json!([
        { "name": "one", "pid": 101 },
        { "name": "two", "process": { "command": "web" } },
    ]))
    .unwrap();
    for config in [&mut own, &mut kernel] {
        config.targets.clone_from(&targets);
        config.generations.clear();
        config.monitors[0].targets = vec!["one".to_owned(), "two".to_owned()];
        config.check().unwrap();
    }
    for (program, is_protected) in
        [((Some("sshd"), "web"), true), ((None, "sshd"), true), ((Some("web"), "sshd"), false)]
    {
        let by = |config: &Config| {
            let truth = Truth::new();
            truth.programs.borrow_mut().insert(101, program);
            steered(&truth, config, 60, Vec::new());
            truth
        };
        let truth = by(&own);
        assert_eq!(truth.spaces.borrow().gone(101) == 0, is_protected, "{program:?}");
        assert!(truth.spaces.borrow().gone(1) > 0, "{program:?}");
        let left = |line: &Line| matches!(line, Line::LeftAlone { target, why, .. } if target.contains("process 101 ") && why.contains("people come in"));
        assert_eq!(truth.has_line(left), is_protected, "{program:?}");
        let truth = by(&kernel);
        let watched = |line: &Line| matches!(line, Line::Writes { path, value, .. } if path.ends_with("pid_target") && value == "101");
        assert_eq!((truth.has_line(watched), truth.has_line(left)), (!is_protected, is_protected), "{program:?}");
    }
}
