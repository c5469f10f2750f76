//! Thrashing prevention by `min-ttl`: written, foretold, restored.

use super::super::*;
use super::configs::*;
use super::system::*;
use isotherm_units::Ratio;
use std::cell::RefCell;
use std::rc::Rc;

const SWITCH: &str = "/sys/kernel/mm/lru_gen/enabled";
const FILE: &str = "/sys/kernel/mm/lru_gen/min_ttl_ms";

fn with_min_ttl(enable: bool) -> Config {
    let mut config = config(enable);
    config.generations.truncate(1);
    config.generations[0].min_ttl = Some(Duration::from_secs(1));
    config
}

fn machine(switch: &str) -> Rc<Truth> {
    let truth = Truth::new();
    let knobs = [(SWITCH, switch), (FILE, "0")].map(|(path, value)| (path.to_owned(), value.to_owned()));
    truth.knobs.borrow_mut().extend(knobs);
    truth
}

fn foretold(truth: &Truth) -> Vec<String> {
    let lines = truth.lines.borrow();
    let words = lines.iter().filter_map(|line| match line {
        Line::Forecast { section, words } if section == "min-ttl.kernel" => Some(words.clone()),
        _ => None,
    });
    words.collect()
}

#[test]
fn it_is_written_kept_under_pressure_and_put_back() {
    let truth = machine("0x0007");
    let seen = RefCell::new(Vec::new());
    let look = |second| at(second, |truth: &Truth| seen.borrow_mut().push(truth.knob(FILE).unwrap()));
    let events = vec![
        look(10),
        at(20, |truth: &Truth| truth.pressure.set(Ratio::from_percent(50))),
        look(40),
        at(50, |truth: &Truth| truth.pressure.set(Ratio::from_percent(0))),
        at(60, |truth: &Truth| truth.has_kill_file.set(true)),
        look(65),
        at(70, |truth: &Truth| truth.has_kill_file.set(false)),
        look(75),
    ];
    let whole = steered(&truth, &with_min_ttl(true), 90, events);
    assert_eq!(
        seen.into_inner(),
        ["1000", "1000", "0", "1000"],
        "pressure is what it is for; the kill file takes it back"
    );
    assert_eq!(truth.knob(FILE).as_deref(), Some("0"));
    let section = whole.status.sections.iter().find(|section| section.section == "min-ttl.kernel").unwrap();
    assert_eq!(
        (section.engine.as_ref(), section.targets.as_slice()),
        ("kernel: min_ttl_ms", &["the whole machine".to_owned()][..])
    );
    let lines = truth.lines.borrow();
    let place = |is_it: fn(&Line) -> bool| lines.iter().position(is_it).unwrap();
    let written = place(|line| matches!(line, Line::Writes { path, value, .. } if path == FILE && value == "1000"));
    assert!(place(|line| matches!(line, Line::Forecast { .. })) < written, "{lines:?}");
}

#[test]
fn a_dry_run_foretells_and_writes_nothing() {
    let truth = machine("0x0007");
    steered(&truth, &with_min_ttl(false), 30, Vec::new());
    assert_eq!(truth.knob(FILE).as_deref(), Some("0"));
    assert_eq!(foretold(&truth).len(), 1);
    assert!(foretold(&truth)[0].starts_with("min-ttl = 1s: "), "{:?}", foretold(&truth));
    assert!(
        truth.has_line(|line| matches!(line, Line::WouldWrite { path, value, .. } if path == FILE && value == "1000"))
    );
}

#[test]
fn where_generations_are_off_or_missing_nothing_is_written_and_it_is_said() {
    let truth = machine("0x0006");
    steered(&truth, &with_min_ttl(true), 30, Vec::new());
    assert_eq!(truth.knob(FILE).as_deref(), Some("0"));
    let is_off = |why: &str| why.contains("the Multi-Gen LRU is off (/sys/kernel/mm/lru_gen/enabled is 0x0006)");
    assert!(truth.has_line(|line| matches!(line, Line::Trouble { why, .. } if is_off(why))), "{:?}", truth.lines);
    let mut world = Rc::clone(&truth);
    assert!(lacking(&with_min_ttl(true), &mut world).iter().any(|why| is_off(why)));
    assert!(super::super::foretold(&with_min_ttl(true), &mut world).is_empty());
    truth.knobs.borrow_mut().insert(SWITCH.to_owned(), "0x0003".to_owned());
    assert!(!lacking(&with_min_ttl(true), &mut world).iter().any(|why| is_off(why)));
    assert_eq!(super::super::foretold(&with_min_ttl(true), &mut world).len(), 1);
    assert!(super::super::foretold(&config(true), &mut world).is_empty(), "nothing is said where the key is not");
    let truth = machine("0x0007");
    truth.knobs.borrow_mut().remove(FILE);
    steered(&truth, &with_min_ttl(true), 30, Vec::new());
    let is_missing = |why: &str| why.contains("this kernel has no /sys/kernel/mm/lru_gen/min_ttl_ms");
    assert!(truth.has_line(|line| matches!(line, Line::Trouble { why, .. } if is_missing(why))));
}

#[test]
fn a_value_of_another_program_stays() {
    let truth = machine("0x0007");
    let other = |truth: &Truth| drop(truth.knobs.borrow_mut().insert(FILE.to_owned(), "3000".to_owned()));
    steered(&truth, &with_min_ttl(true), 60, vec![at(20, other)]);
    assert_eq!(truth.knob(FILE).as_deref(), Some("3000"));
    assert!(truth.has_line(|line| matches!(line, Line::Trouble { why, .. } if why.contains("set it otherwise"))));
}

#[test]
fn a_fault_at_any_call_leaves_no_value() {
    let whole = machine("0x0007");
    steered(&whole, &with_min_ttl(true), 20, Vec::new());
    let calls = whole.calls.get();
    assert!(calls > 20, "{calls}");
    for call in 0..calls {
        let truth = machine("0x0007");
        truth.fails_at.set(Some(call));
        swept(call, &truth, &with_min_ttl(true), 100, Vec::new());
        assert_eq!(truth.knob(FILE).as_deref(), Some("0"), "fault at call {call}");
    }
}
