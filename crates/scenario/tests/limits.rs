//! Right-sizing in scenarios: refused configurations, and the effect on the bundled scenario.

use isotherm_core::limits::LimitAction;
use isotherm_scenario::monitoring::Replay;
use isotherm_scenario::{BUNDLED, RunOptions, Scenario, parse, print};
use isotherm_sim::machine::Outcome;
use isotherm_units::PAGE_BYTES;
use std::path::PathBuf;

const MIB: u64 = 1 << 20;

/// A variant of the bundled scenario, played.
fn played(variant: &str) -> Outcome {
    let bundled = BUNDLED.iter().find(|bundled| bundled.name == "right-sizing").expect("it is bundled");
    let scenario = parse(bundled.text, bundled.name).unwrap_or_else(|error| panic!("{error}"));
    let options = RunOptions { base_dir: PathBuf::from("."), place: "test".to_owned(), threads: Some(1) };
    let replay =
        Replay::of_scenario(&scenario, &options, Some(variant), None).unwrap_or_else(|error| panic!("{error}"));
    replay.play().unwrap_or_else(|error| panic!("{error}")).1
}

/// 60 of 100 MiB are cold. Before the helper comes, at 60 s, at least 80 % of that is gone, and refaults are within the goal of
/// 50 a second. Two seconds after the helper came the limit no longer constrains it.
#[test]
fn cold_memory_goes_and_a_growing_working_set_gets_room() {
    let free = played("unlimited");
    for variant in ["classic", "mglru"] {
        let outcome = played(variant);
        let sized = outcome.limits.first().expect("there is one");
        let before = |at_s: u64| sized.steps.iter().filter(move |step| step.at_ns < at_s * 1_000_000_000);
        let last = before(60).next_back().expect("it ran");
        assert!(last.usage_bytes <= 52 * MIB, "{variant}: {} of 100 MiB are left\n{:?}", last.usage_bytes, sized.words);
        let refaults: u64 = before(60).map(|step| step.refaulted_pages).sum();
        assert!(refaults <= 50 * 60, "{variant}: {refaults} refaults in 60 s");
        let relaxes = |step: &&isotherm_core::limits::LimitsStep| {
            matches!(step.action, LimitAction::Relax | LimitAction::Lift) && step.at_ns >= 60_000_000_000
        };
        let relaxed = sized.steps.iter().find(relaxes).expect("it grew");
        assert!(relaxed.at_ns <= 62_000_000_000, "{variant}: {relaxed:?}");
        for step in sized.steps.iter().filter(|step| step.at_ns >= 64_000_000_000) {
            assert!(step.limit_bytes.is_none_or(|limit| limit >= 90 * MIB || step.at_ns > 80_000_000_000), "{step:?}");
        }
        let operations = |outcome: &Outcome, nth: usize| outcome.programs[nth].operations;
        for (nth, percent) in [(0, 98), (1, 95)] {
            let (got, full) = (operations(&outcome, nth), operations(&free, nth));
            assert!(got * 100 >= full * percent, "{variant}: {got} of {full} operations of program {nth}");
        }
        assert!(outcome.cgroup("/web").expect("it is there").usage_pages * PAGE_BYTES < 160 * MIB);
    }
}

const HEAD: &str = "name = \"x\"\n[[cgroups]]\npath = \"/web\"\n[[workloads]]\nname = \"w\"\ncgroup = \"/web\"\n\
                    load = { kind = \"idle\", duration = \"1s\" }\n";

fn with(rest: &str) -> Result<Scenario, String> {
    parse(&format!("{HEAD}{rest}"), "t.toml").map_err(|error| error.to_string())
}

#[test]
fn tables_are_read_and_printed() {
    let scenario =
        with("[[limits]]\ntarget = \"/web\"\nceiling = \"1GiB\"\ngoal = { refaults = \"9/s\" }\n").expect("allowed");
    assert_eq!(parse(&print(&scenario), "printed").expect("as printed"), scenario);
}

#[test]
fn what_makes_no_sense_is_refused_with_both_places() {
    let table = [
        ("target = \"/wbe\"", "limits of `/wbe`: there is no group `/wbe`; groups: /web; did you mean `/web`?"),
        ("target = \"/web\"\n[[limits]]\ntarget = \"/web\"", "`limits[0]` has `/web` already"),
        (
            "target = \"/web\"\nfloor = \"2MiB\"\nceiling = \"1MiB\"",
            "`ceiling` is 1MiB; allowed: the floor (2MiB) and more",
        ),
        (
            "target = \"/web\"\ngoal = { pressure-some = \"0%\" }",
            "`goal.pressure-some` is 0ppm; allowed: more than 0%, at most 100%",
        ),
        ("target = \"/web\"\ngoal = { pressure-some = \"101%\" }", "`goal.pressure-some` is 101%; allowed"),
        ("target = \"/web\"\ngoal = { refaults = \"0/s\" }", "`goal.refaults` is 0/s; allowed: 1/s and more"),
        (
            "target = \"/web\"\ngoal = { refaults = \"50\" }",
            "`50` is not a rate; allowed: a whole number a second, such as `50/s`",
        ),
        ("target = \"/web\"\nfloor = \"1PiB\"", "allowed: up to the machine's memory of"),
        ("target = \"/web\"\nsort-first = true", "nothing sorts the lists of `classic`"),
        (
            "target = \"/web\"\n[[events]]\nat = \"1s\"\nset = { cgroup = \"/web\", high = \"1MiB\" }",
            "`/web` has a fixed `high` in `events[0].set.high`",
        ),
        ("target = \"/web\"\nhigh = \"1MiB\"", "unknown field `high`"),
    ];
    for (rest, words) in table {
        let error = with(&format!("[[limits]]\n{rest}\n")).expect_err(rest);
        assert!(error.contains(words) && error.starts_with("t.toml:"), "{rest}\n{error}");
    }
    let fixed = HEAD.replace("path = \"/web\"", "path = \"/web\"\nhigh = \"40MiB\"");
    let error =
        parse(&format!("{fixed}[[limits]]\ntarget = \"/web\"\n"), "t.toml").expect_err("two writers").to_string();
    assert!(error.contains("`cgroups[0].high`") && error.contains("limits of `/web`"), "{error}");
    let sorted = "policy = \"mglru\"\n";
    let text = format!("{sorted}{HEAD}[[limits]]\ntarget = \"/web\"\nsort-first = true\n");
    assert!(parse(&text, "t.toml").is_ok(), "generations can be made");
}
