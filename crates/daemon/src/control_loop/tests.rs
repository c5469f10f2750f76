//! The loop in a simulated world: groups that come and go, pressure, faults of every kind.

mod configs;
mod guard;
mod kernels;
mod memory;
mod own;
mod probes;
mod script;
mod sizes;
mod system;
mod time_to_live;

use super::*;
use configs::*;
use isotherm_core::monitor::Operations;
use isotherm_units::{Instant, PAGE_BYTES, Ratio, Woken, hash};
use memory::with_memory;
use probes::{with_monitor, with_promotion};
use system::*;

#[test]
fn what_is_cold_goes_and_nothing_else() {
    let truth = Truth::new();
    let steered = steered(&truth, &config(true), 120, Vec::new());
    assert_eq!(steered.end, Ended::TimeOver);
    assert_eq!((truth.evicted_of("/app/web-1"), truth.evicted_of("/app/web-2")), (9000, 20_000));
    for spared in ["/app/db", "/system.slice/sshd.service", "/app/web-4", "/app/web-5"] {
        assert_eq!(truth.evicted_of(spared), 0, "{spared}");
    }
    assert!(truth.forbidden.borrow().is_empty(), "{:?}", truth.forbidden);
    let verified: u64 = truth.acts().iter().map(|act| act.verified_bytes).sum();
    assert_eq!(verified, 29_000 * PAGE_BYTES, "each page that went stands in a line");
    let status = &steered.status.sections[0];
    assert_eq!(status.verified_bytes, verified);
    let last = truth.evicted.borrow().last().map(|evicted| evicted.0).unwrap();
    assert_eq!(status.since_acted_ns, Some(truth.now().since(last).ns()));
    for (target, why) in
        [("/system.slice/sshd.service", "people come in"), ("/app/web-4", "guaranteed"), ("/app/web-5", "protect")]
    {
        let is_it = |line: &Line| matches!(line, Line::LeftAlone { target: found, why: said, .. } if found == target && said.contains(why));
        assert!(truth.has_line(is_it), "{target} {why}");
    }
    assert!(truth.has_line(|line| matches!(line, Line::Trouble { why, .. } if why.contains("no swap is free"))));
}

#[test]
fn without_enable_it_tells_what_it_would_do_and_does_nothing() {
    let (watched, acted) = (Truth::new(), Truth::new());
    let told = steered(&watched, &config(false), 45, Vec::new());
    assert_eq!(told.status.sections[0].since_acted_ns, None, "what it would have done does not count");
    steered(&acted, &config(true), 45, Vec::new());
    assert!(watched.evicted.borrow().is_empty());
    let acts = watched.acts();
    assert!(!acts.is_empty() && acts.iter().all(|act| act.effect == Effect::Would && act.verified_bytes == 0));
    // The first pass lists exactly the writes of the real run.
    let list = |acts: &[Act]| acts[..2].iter().map(|act| (act.write.clone(), act.asked_bytes)).collect::<Vec<_>>();
    assert_eq!(list(&acts), list(&acted.acts()));
}

#[test]
fn pressure_and_the_kill_file_pause_it() {
    let truth = Truth::new();
    let events = vec![
        at(5, |truth: &Truth| truth.pressure.set(Ratio::from_percent(10))),
        at(50, |truth: &Truth| truth.pressure.set(Ratio::from_ppm(0))),
    ];
    steered(&truth, &config(true), 200, events);
    let first = truth.evicted.borrow().first().map(|evicted| evicted.0).unwrap();
    assert!(first >= Instant::START + Duration::from_secs(110), "a minute of calm first: {first}");
    let refused = |act: &Act| matches!(&act.effect, Effect::Refused { why } if why.contains("waited for memory"));
    assert!(truth.acts().iter().any(refused), "why nothing happened is told");
    let calmed = |line: &Line| matches!(line, Line::Calmed { target } if target == "/app/web-1");
    assert!(truth.has_line(calmed), "{:?}", truth.lines);

    let truth = Truth::new();
    truth.has_kill_file.set(true);
    steered(&truth, &config(true), 90, vec![at(60, |truth: &Truth| truth.has_kill_file.set(false))]);
    assert!(truth.forbidden.borrow().is_empty() && truth.evicted_of("/app/web-1") == 9000);

    let truth = Truth::new();
    truth.has_psi.set(false);
    steered(&truth, &config(true), 90, Vec::new());
    assert!(truth.evicted.borrow().is_empty(), "who cannot see harm does none");
    let mut unguarded = config(true);
    unguarded.guard.pressure_full = Ratio::ONE;
    steered(&truth, &unguarded, 90, Vec::new());
    assert!(truth.evicted_of("/app/web-1") > 0);
}

#[test]
fn what_cannot_be_written_down_is_not_done() {
    let truth = Truth::new();
    let events =
        vec![at(8, |truth: &Truth| truth.is_log_full.set(true)), at(70, |truth: &Truth| truth.is_log_full.set(false))];
    steered(&truth, &config(true), 120, events);
    assert!(truth.forbidden.borrow().is_empty(), "{:?}", truth.forbidden);
    assert_eq!(truth.evicted_of("/app/web-2"), 20_000, "it goes on when there is room again");
}

#[test]
fn groups_come_and_go_and_are_told_once() {
    let truth = Truth::new();
    let events = vec![
        at(30, |truth: &Truth| truth.groups.borrow_mut()[1].is_there = false),
        at(60, |truth: &Truth| truth.groups.borrow_mut()[1].is_there = true),
    ];
    steered(&truth, &config(true), 120, events);
    let told = |is_it: &dyn Fn(&Line) -> bool| truth.lines.borrow().iter().filter(|line| is_it(line)).count();
    assert_eq!(told(&|line| matches!(line, Line::Came { target, .. } if target == "/app/web-2")), 2);
    assert_eq!(told(&|line| matches!(line, Line::Went { target, .. } if target == "/app/web-2")), 1);
    assert!(truth.forbidden.borrow().is_empty());
}

#[test]
fn a_new_configuration_is_taken_whole_or_not_at_all() {
    let truth = Truth::new();
    let reload = |second| -> Event<'_> { (second, Box::new(|_: &Truth| Some(Woken::Reload))) };
    let events = vec![
        reload(5),
        at(10, |truth: &Truth| {
            let mut both = config(true);
            both.generations.push(section("base", "/app/db", true));
            *truth.configuration.borrow_mut() = Ok(both);
        }),
        reload(11),
    ];
    steered(&truth, &config(true), 120, events);
    assert!(truth.has_line(|line| matches!(line, Line::NotReloaded { why } if why == "not written yet")));
    assert_eq!((truth.evicted_of("/app/db"), truth.evicted_of("/app/web-1")), (8000, 9000));
    let began = |name: &str| {
        let lines = truth.lines.borrow();
        lines.iter().filter(|line| matches!(line, Line::Section { section, .. } if section == name)).count()
    };
    assert_eq!((began("generations.cold"), began("generations.base")), (1, 1), "who stays goes on");
}

#[test]
fn who_asks_gets_the_state_of_now() {
    let truth = Truth::new();
    let ask = |second| -> Event<'_> { (second, Box::new(|_: &Truth| Some(Woken::Asked))) };
    steered(&truth, &config(true), 20, vec![ask(7), ask(8)]);
    let reported: Vec<u64> =
        truth.reported.borrow().iter().map(|at| at.since(Instant::START).ns() / 1_000_000_000).collect();
    assert!(reported.contains(&7) && reported.contains(&8), "{reported:?}");
    let calm = Truth::new();
    steered(&calm, &config(true), 20, Vec::new());
    assert!(calm.reported.borrow().iter().all(|at| ![7, 8].contains(&(at.since(Instant::START).ns() / 1_000_000_000))));
    assert_eq!(*truth.evicted.borrow(), *calm.evicted.borrow(), "it decides nothing");
}

#[test]
fn it_ends_between_two_pieces() {
    let truth = Truth::new();
    truth.groups.borrow_mut()[1].idle[2] = 1 << 20;
    truth.is_ending.set(true);
    steered(&truth, &config(true), 60, Vec::new());
    assert!(truth.evicted.borrow().is_empty());
    let truth = Truth::new();
    let stop: Event<'_> = (7, Box::new(|_: &Truth| Some(Woken::Stopped)));
    let steered = steered(&truth, &config(true), 60, vec![stop]);
    assert_eq!((steered.end, truth.now()), (Ended::Stopped, Instant::START + Duration::from_secs(7)));
}

/// A signal in the middle of thousands of groups: a few more are asked about, and the loop ends.
#[test]
fn it_ends_between_two_groups() {
    const GROUPS: u64 = 1000;
    let many = || {
        let truth = Truth::new();
        let group = truth.groups.borrow()[0].clone();
        let groups = (0..GROUPS).map(|nth| Group { path: format!("/app/many-{nth}").leak(), ..group.clone() });
        *truth.groups.borrow_mut() = groups.collect();
        truth
    };
    for (case, config, parts) in [
        ("limits", with_limits(true), 4),
        ("generations", config(true), 1),
        ("a kdamond", with_kdamond(true, Operations::Paddr), 2),
        ("an engine of our own", with_monitor(true), 2),
    ] {
        for part in 0..parts {
            let truth = many();
            let signal = part * GROUPS + GROUPS / 2;
            truth.ends_at.set(Some(signal));
            let steered = steered(&truth, &config, 60, Vec::new());
            let looks = truth.looks.get();
            assert!(looks >= signal, "{case}, part {part}: {looks} questions");
            let further = looks - signal;
            assert!(steered.end == Ended::Stopped && further <= 8, "{case}, part {part}: {further} further groups");
            let is_trouble = |line: &Line| matches!(line, Line::Trouble { why, .. } if why.contains("has to end"));
            assert!(!truth.has_line(is_trouble), "{case}, part {part}: {:?}", truth.lines);
        }
    }
}

/// A user who makes thousands of groups makes the search dear, and no pace of the sections makes it cheaper: they keep theirs.
#[test]
fn a_dear_search_slows_no_section_down() {
    let searches = |cost_ms| {
        let truth = Truth::new();
        truth.search_cost.set(Duration::from_ms(cost_ms));
        steered(&truth, &with_limits(true), 300, Vec::new());
        let paced: Vec<_> =
            truth.lines.borrow().iter().filter(|line| matches!(line, Line::Paced { .. })).cloned().collect();
        assert_eq!(paced, [], "{cost_ms} ms a search");
        truth.searches.get()
    };
    let (cheap, dear) = (searches(1), searches(1000));
    assert!(cheap >= 29 && dear <= 4, "{cheap} searches, or {dear} of a second each");
}

/// Who can make the groups of one section costly slows down that one alone.
#[test]
fn a_costly_section_slows_no_other_down() {
    let runs = |cost_ms| {
        let truth = Truth::new();
        truth.costly.set(Some(("/app/web-2", Duration::from_ms(cost_ms))));
        let status = steered(&truth, &with_two_limits(), 600, Vec::new()).status;
        let [cheap, costly] = [0, 1].map(|index| &status.sections[index]);
        let is_of_it =
            |line: &Line| matches!(line, Line::Paced { section: Some(section), .. } if *section == cheap.section);
        assert!(!truth.has_line(is_of_it) && cheap.stretch == 1, "{cost_ms} ms: {status:?}");
        assert!(truth.spent.get() <= Duration::from_secs(7), "1 % of 600 s, and a start: {:?}", truth.spent.get());
        (cheap.runs, costly.runs)
    };
    let (cheap, costly) = (runs(0), runs(200));
    assert_eq!((cheap.0, costly.0), (costly.0, cheap.0), "as often as configured");
    assert!(cheap.1 == cheap.0 && (5..60).contains(&costly.1), "{} runs", costly.1);
}

/// Each host call in turn fails: protected groups stay untouched, evictions have lines, and the loop goes on.
#[test]
fn a_fault_at_any_call_breaks_nothing() {
    let whole = Truth::new();
    steered(&whole, &with_module(true, true), 90, Vec::new());
    let calls = whole.calls.get();
    assert!(calls > 100, "{calls}");
    for call in 0..calls {
        let truth = Truth::new();
        truth.fails_at.set(Some(call));
        swept(call, &truth, &with_module(true, true), 180, Vec::new());
        holds(&truth, &format!("fault at call {call}"));
        assert_eq!(truth.evicted_of("/app/web-2"), 20_000, "fault at call {call}");
    }
}

/// Random events: pressure, the kill file, full disks, groups, reloads, faults. `ISOTHERM_SEEDS=100000` is the long run, `ISOTHERM_SEED=N`
/// runs a single seed.
#[test]
fn seeds_of_chance_break_nothing() {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let seeds = match number("ISOTHERM_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number("ISOTHERM_SEEDS").unwrap_or(300),
    };
    for seed in seeds {
        let mut state = seed;
        let mut chance = move |below: u64| {
            state = state.wrapping_add(hash::GOLDEN);
            hash::mix(state) % below
        };
        let truth = Truth::new();
        let mut events: Vec<Event<'_>> = Vec::new();
        let mut second = 0;
        while second < 280 {
            second += 1 + chance(20);
            let (kind, value) = (chance(8), chance(7));
            let index = usize::try_from(value).expect("below 7");
            events.push((
                second,
                Box::new(move |truth| {
                    match kind {
                        0 if second % 3 == 0 => truth.waits(["/app/web-1", "/app/db"][index % 2], value, value / 4),
                        0 => truth.pressure.set(Ratio::from_percent(value)),
                        1 => truth.has_kill_file.set(value < 2),
                        2 => truth.is_log_full.set(value < 2),
                        3 => {
                            let mut groups = truth.groups.borrow_mut();
                            let group = &mut groups[index % 6];
                            group.is_there = !group.is_there;
                            // A group that is created again has no limit.
                            group.high = None;
                        }
                        4 => truth.fails_at.set(Some(truth.calls.get() + value)),
                        5 => {
                            *truth.configuration.borrow_mut() = if value < 3 {
                                Ok(with_module(value > 0, value > 1))
                            } else if value == 6 {
                                Ok(match second % 3 {
                                    0 => with_limits(true),
                                    1 => with_monitor(true),
                                    _ => with_promotion(true),
                                })
                            } else if value < 5 {
                                let physical = if value == 3 { Operations::Vaddr } else { Operations::Paddr };
                                Ok(with_kdamond(true, physical))
                            } else {
                                Err(SystemError::new("broken"))
                            };
                            return Some(Woken::Reload);
                        }
                        6 => {
                            truth.groups.borrow_mut()[index % 6].idle[3] += 3000;
                            return Some(Woken::Asked);
                        }
                        _ => {
                            truth.memory.loose.set(truth.memory.loose.get() + 20_480);
                            truth.memory.nr_tiers.set(if value < 4 { 2 } else { 1 });
                            *truth.configuration.borrow_mut() = Ok(with_memory(value > 0, value % 2 == 0));
                            return Some(Woken::Reload);
                        }
                    }
                    None
                }),
            ));
        }
        swept(seed, &truth, &with_module(true, true), 300, events);
        holds(&truth, &format!("ISOTHERM_SEED={seed} cargo test -p isotherm-daemon seeds_of_chance"));
    }
}

/// A day of virtual time: `ISOTHERM_MINUTES=1440`; `make test` runs some minutes. The log does not grow while nothing happens.
#[test]
fn a_long_calm_is_few_lines() {
    let minutes = std::env::var("ISOTHERM_MINUTES").ok().and_then(|text| text.parse().ok()).unwrap_or(6);
    for sections in
        [with_module(true, true), with_kdamond(true, Operations::Paddr), with_limits(true), with_monitor(true)]
    {
        let truth = Truth::new();
        let steered = steered(&truth, &sections, minutes * 60, Vec::new());
        holds(&truth, "a long calm");
        assert_eq!(steered.end, Ended::TimeOver);
        let lines = truth.lines.borrow();
        let is_count = |line: &&Line| matches!(line, Line::Counted { .. });
        let acts = lines.iter().filter(|line| !is_count(line)).count() as u64;
        // Kernel counts are reported once a minute; everything else happens in the first minutes.
        assert!(lines.iter().filter(is_count).count() as u64 <= minutes, "counted more than once a minute");
        assert!(acts < 600, "{acts} lines in {minutes} minutes: {:?}", lines.iter().rev().take(5).collect::<Vec<_>>());
    }
}
