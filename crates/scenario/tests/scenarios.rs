//! Scenarios as users run them: from text to result.

use isotherm_kernel::reclaim::baselines;
use isotherm_scenario::{BUNDLED, RunOptions, Scenario, ScenarioResult, parse, print, run};
use proptest::prelude::*;

fn options(threads: usize) -> RunOptions {
    RunOptions { base_dir: "../..".into(), place: "test".to_owned(), threads: Some(threads) }
}

fn play(text: &str, threads: usize) -> ScenarioResult {
    let scenario = parse(text, "test").unwrap_or_else(|error| panic!("{error}"));
    run(&scenario, &options(threads), &()).unwrap_or_else(|error| panic!("{error}"))
}

fn mean(result: &ScenarioResult, workload: &str, variant: &str, metric: &str) -> f64 {
    result.row(workload, variant, metric).unwrap_or_else(|| panic!("no row {workload} {variant} {metric}")).mean
}

const SMALL: &str = r#"
name = "small"
against = "classic@90%"
repeats = 3
machine = { nodes = [{ memory = "1GiB" }], page-cluster = 0, readahead = "0B" }
matrix = { policies = ["all"], limits = ["90%", "60%"] }
[[workloads]]
name = "zipf"
load = { kind = "key-value", footprint = "4MiB", item-size = "4KiB", operations = 20000, writes = "30%" }
[[workloads]]
name = "hot"
load = { kind = "hot-cold", footprint = "4MiB", hot = "25%", hot-accesses = "90%", operations = 20000 }
"#;

#[test]
fn opt_is_the_floor_of_every_policy_on_every_workload() {
    let result = play(SMALL, 2);
    for workload in ["zipf", "hot"] {
        for limit in ["90%", "60%"] {
            let floor = mean(&result, workload, &format!("opt@{limit}"), "major_faults");
            for policy in std::iter::once("classic").chain(baselines().map(|entry| entry.name)) {
                let faults = mean(&result, workload, &format!("{policy}@{limit}"), "major_faults");
                assert!(floor <= faults, "{workload} {policy}@{limit}: {faults} < {floor}");
            }
        }
    }
    assert!(mean(&result, "zipf", "classic@60%", "major_faults") > 0.0);
}

/// Prices have hyphens as all keys have; the older spelling with underscores is the name in the table of costs.
#[test]
fn a_machine_has_prices_of_its_own() {
    let text = |keys: &str| SMALL.replace("machine = {", "machine.prices = { KEYS }\n#").replace("KEYS", keys);
    let dear = parse(&text("swap-in-fault-ns = 9000"), "test").unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(dear.machine.prices.get("swap_in_fault_ns"), Some(9000));
    assert_eq!(parse(&text("swap_in_fault_ns = 9000"), "test").unwrap(), dear);
    assert!(print(&dear).contains("swap-in-fault-ns = 9000"), "{}", print(&dear));
    assert_eq!(parse(&print(&dear), "printed").unwrap(), dear);
    let error = parse(&text("swap-fault-ns = 9000"), "test").unwrap_err().to_string();
    assert!(error.contains("no price has the name `swap_fault_ns`"), "{error}");
}

#[test]
fn results_do_not_depend_on_the_number_of_threads() {
    let text = |threads| serde_json::to_string(&play(SMALL, threads)).unwrap();
    assert_eq!(text(1), text(3));
}

#[test]
fn rows_and_ratios_have_the_documented_keys() {
    let json = serde_json::to_value(play(SMALL, 2)).unwrap();
    let keys = |value: &serde_json::Value| value.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
    assert_eq!(
        keys(&json),
        ["scenario", "rows", "ratios"]
            .map(String::from)
            .into_iter()
            .collect::<std::collections::BTreeSet<_>>()
            .into_iter()
            .collect::<Vec<_>>()
    );
    let mut row = keys(&json["rows"][0]);
    row.sort();
    let mut expected =
        ["workload", "variant", "kernel", "metric", "n", "mean", "stddev", "ci95_low", "ci95_high", "reference"];
    expected.sort_unstable();
    assert_eq!(row, expected);
    assert!(keys(&json["ratios"][0]).contains(&"against".to_owned()));
    assert_eq!(json["rows"][0]["n"], 3);
    assert!(json["rows"][0]["ci95_low"].is_number());
}

#[test]
fn side_by_side_workloads_feel_each_other_and_the_system_row_sums_up() {
    let text = r#"
        name = "pair"
        run = "together"
        machine = { cpus = 1, nodes = [{ memory = "64MiB" }] }
        cgroups = [{ path = "/both", max = "70%" }]
        [[workloads]]
        name = "a"
        cgroup = "/both"
        load = { kind = "hot-cold", footprint = "4MiB", hot = "50%", hot-accesses = "60%", operations = 8000 }
        [[workloads]]
        name = "b"
        cgroup = "/both"
        start = "1ms"
        load = { kind = "scan", footprint = "4MiB", repeat = 3 }
    "#;
    let result = play(text, 1);
    let (a, b) = (mean(&result, "a", "classic", "runtime_ns"), mean(&result, "b", "classic", "runtime_ns"));
    let system = mean(&result, "system", "classic", "runtime_ns");
    assert!(system >= a.max(b) && a > 0.0 && b > 0.0);
    assert!(mean(&result, "system", "classic", "major_faults") > 0.0);
    assert!(result.row("a", "classic", "kswapd_cpu_ns").is_none(), "kernel threads belong to no single workload");
}

#[test]
fn copies_are_programs_in_groups_of_their_own_and_one_row() {
    let text = |copies: u32| {
        format!(
            "name = \"tenants\"\nrun = \"together\"\npolicy = \"mglru\"\nmachine = {{ cpus = 2, nodes = [{{ memory = \"32MiB\" }}] }}\n\
             cgroups = [{{ path = \"/all\" }}]\n\
             events = [{{ at = \"1h\", start = \"late\" }}, {{ at = \"1ms\", set = {{ cgroup = \"/all\", low = \"1MiB\" }} }}]\n\
             [[workloads]]\nname = \"tenant\"\ncgroup = \"/all\"\ncopies = {copies}\n\
             load = {{ kind = \"hot-cold\", footprint = \"6MiB\", hot = \"50%\", hot-accesses = \"60%\", writes = \"100%\", operations = 20000 }}\n\
             [[workloads]]\nname = \"late\"\nautostart = false\nload = {{ kind = \"idle\", duration = \"1s\" }}\n\
             [[workloads]]\nname = \"sweep\"\nload = {{ kind = \"scan\", footprint = \"4MiB\", repeat = 3 }}\n"
        )
    };
    let (one, eight) = (play(&text(1), 1), play(&text(8), 1));
    assert_eq!(mean(&one, "tenant", "mglru", "operations"), 20000.0);
    assert_eq!(mean(&eight, "tenant", "mglru", "operations"), 8.0 * 20000.0);
    assert_eq!(mean(&eight, "sweep", "mglru", "operations"), 3.0, "the row behind is its own");
    assert_eq!(mean(&one, "tenant", "mglru", "major_faults"), 0.0, "one fits");
    let tenant = mean(&eight, "tenant", "mglru", "major_faults");
    assert!(tenant > 0.0 && tenant <= mean(&eight, "system", "mglru", "major_faults"), "{tenant}");
    let peak = mean(&eight, "tenant", "mglru", "peak_bytes");
    assert!(peak > 20e6, "all copies are charged to the workload's group: {peak}");
    let message = parse(&text(0), "s.toml").unwrap_err().to_string();
    assert!(message.contains("`copies` is 0; allowed: 1 to 1024"), "{message}");
}

#[test]
fn events_change_limits_start_and_stop() {
    let base = r#"
        name = "events"
        machine = { nodes = [{ memory = "64MiB" }] }
        cgroups = [{ path = "/app" }]
        events = [EVENTS]
        [[workloads]]
        name = "w"
        cgroup = "/app"
        load = { kind = "hot-cold", footprint = "8MiB", hot = "50%", hot-accesses = "60%", duration = "40ms" }
    "#;
    let faults = |events: &str| {
        let result = play(&base.replace("EVENTS", events), 1);
        (mean(&result, "w", "classic", "major_faults"), mean(&result, "w", "classic", "runtime_ns"))
    };
    let (quiet, _) = faults("");
    let (squeezed, _) = faults(r#"{ at = "10ms", set = { cgroup = "/app", max = "50%" } }"#);
    let (released, _) = faults(
        r#"{ at = "10ms", set = { cgroup = "/app", max = "50%" } }, { at = "12ms", set = { cgroup = "/app", max = "max" } }"#,
    );
    let (reclaimed, _) = faults(r#"{ at = "10ms", every = "10ms", reclaim = { cgroup = "/app", amount = "1MiB" } }"#);
    let (_, runtime) = faults(r#"{ at = "5ms", stop = "w" }"#);
    assert_eq!(quiet, 0.0);
    assert!(squeezed > released && released > 0.0, "{squeezed} {released}");
    assert!(reclaimed > 0.0);
    assert!((4.9e6..6.0e6).contains(&runtime), "{runtime}");
}

#[test]
fn names_with_slashes_and_references_reach_the_ratios() {
    let text = r#"
        name = "referred"
        repeats = 3
        against = "classic@90%"
        metrics = ["runtime_ns", "operations_per_second"]
        machine = { nodes = [{ memory = "1GiB" }] }
        matrix = { policies = ["classic", "mglru"], limits = ["90%"] }
        [[workloads]]
        name = "store/small/zipfian"
        load = { kind = "key-value", footprint = "4MiB", item-size = "4KiB", operations = 20000, load = false }
        [[references]]
        workload = "store/small/zipfian"
        variant = "mglru@90%"
        metric = "operations_per_second"
        against = "classic@90%"
        low = 0.1
        high = 10.0
        source = "by hand: holds every ratio there can be"
    "#;
    let result = play(text, 1);
    let ratio =
        |metric: &str| result.ratios.iter().find(|row| row.metric == metric && row.variant == "mglru@90%").unwrap();
    let referred = ratio("operations_per_second");
    assert_eq!((referred.reference, referred.overlaps), (Some(5.05), Some(true)));
    assert_eq!((ratio("runtime_ns").reference, ratio("runtime_ns").sign_agrees), (None, None));
    let mean = |metric| mean(&result, "store/small/zipfian", "mglru@90%", metric);
    let operations = mean("operations_per_second") * mean("runtime_ns") / 1e9;
    assert!((operations - 20000.0).abs() < 200.0, "{operations}: a mean of rates is nearly the rate of the means");
}

#[test]
fn bundled_scenarios_parse_and_survive_printing() {
    for bundled in BUNDLED {
        let scenario = parse(bundled.text, bundled.name).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(scenario.name, bundled.name);
        assert_eq!(parse(&print(&scenario), "printed").unwrap(), scenario);
    }
}

#[test]
fn bad_scenarios_say_what_where_and_what_is_allowed() {
    let head = "name = \"x\"\n";
    let entry =
        |name: &str| format!("[[workloads]]\nname = \"{name}\"\nload = {{ kind = \"idle\", duration = \"1s\" }}\n");
    let load = entry("w");
    let named = |name: &str| format!("{head}{}", entry(name));
    let refers = |rest: &str| {
        let reference = "[[references]]\nworkload = \"w\"\nvariant = \"classic\"\nsource = \"s\"\n";
        format!("{head}{load}{reference}{}\n", rest.replace(", ", "\n"))
    };
    let table = [
        (format!("{head}{load}policy = 3\n"), "unknown field `policy`"),
        (format!("{head}policy = \"clasic\"\n{load}"), "did you mean `classic`?"),
        (format!("{head}repeats = 0\n{load}"), "`repeats` is 0; allowed: 1 or more"),
        (format!("{head}workloads = []\n"), "there is no workload"),
        (format!("{head}limit = \"0%\"\n{load}"), "`limit` is 0%; allowed: more than 0%"),
        (format!("{head}limit = \"4KiB\"\n{load}"), "`limit` is 4KiB; allowed: 128KiB to 16GiB"),
        (format!("{head}limit = \"64GiB\"\n{load}"), "`limit` is 64GiB; allowed: up to the machine's memory of 16GiB"),
        (format!("{head}metrics = [\"runtime\"]\n{load}"), "unknown metric `runtime`"),
        (format!("{head}against = \"lru\"\n{load}"), "`against` names `lru`, which is no variant; variants: classic"),
        (
            format!("{head}[machine]\nnodes = [{{ memory = \"0B\" }}]\n{load}"),
            "`nodes[0].memory` is 0B; allowed: 4MiB to 4TiB",
        ),
        (format!("{head}machine = {{ cpus = 0 }}\n{load}"), "`cpus` is 0; allowed: 1 to 256"),
        (format!("{head}events = [{{ at = \"1s\" }}]\n{load}"), "exactly one of `set`, `start`, `stop`, `reclaim`"),
        (format!("{head}events = [{{ at = \"1s\", start = \"w\" }}]\n{load}"), "`w` starts by itself"),
        (format!("{head}events = [{{ at = \"1s\", stop = \"v\" }}]\n{load}"), "`v`, which is no workload"),
        (format!("{head}events = [{{ at = \"0ns\", stop = \"w\" }}]\n{load}"), "is stopped before it starts"),
        (
            format!(
                "{head}events = [{{ at = \"1s\", set = {{ cgroup = \"/w\", max = \"1MiB\" }} }}, \
                 {{ at = \"1s\", set = {{ cgroup = \"/w\", max = \"2MiB\" }} }}]\n{load}"
            ),
            "contradicts another event at the same time",
        ),
        (
            format!("{head}events = [{{ at = \"1s\", set = {{ cgroup = \"/z\", max = \"1MiB\" }} }}]\n{load}"),
            "unknown cgroup `/z`; known: /w",
        ),
        (
            format!("{head}cgroups = [{{ path = \"a/b\" }}]\n{load}"),
            "must be absolute, with its parent listed before it",
        ),
        (
            format!("{head}variants = [{{ name = \"v\", patch = {{ swapines = 1 }} }}]\n{load}"),
            "variant `v`: unknown field `swapines`",
        ),
        (format!("{head}{load}{load}"), "two workloads are called `w`"),
        (named("a/1"), "`a/1` cannot name a workload"),
        (named("/a"), "`/a` cannot name a workload"),
        (named("a//b"), "`a//b` cannot name a workload"),
        (format!("{}{}", named("a-b"), entry("a/b")), "workloads `a-b` and `a/b` would both get the cgroup `/a-b`"),
        (refers("metric = \"runtime\", value = 1.0"), "`runtime` is no metric"),
        (refers("metric = \"runtime_ns\""), "give `value`, or `low` and `high`"),
        (refers("metric = \"runtime_ns\", low = 1.0"), "`low` and `high` come together"),
        (refers("metric = \"runtime_ns\", low = 1.0, high = 0.5"), "`low` (1) is above `high` (0.5)"),
        (refers("metric = \"runtime_ns\", value = 2.0, low = 0.5, high = 1.0"), "lies outside of 0.5 to 1"),
        (refers("metric = \"runtime_ns\", value = 2.0, against = \"clasic\""), "`clasic` is no variant; did you mean"),
        (format!("{head}until = \"5\"\n{load}"), "has no unit"),
        (format!("{head}{load}[[averages]]\nname = \"w\"\n"), "`w` cannot name an average"),
        (
            format!("{head}averages = [{{ name = \"all\" }}, {{ name = \"all\" }}]\n{load}"),
            "`all` cannot name an average; allowed: what names no workload, no other average, and is not `system`",
        ),
        (
            format!("{head}{load}[[averages]]\nname = \"all\"\nworkloads = [\"w\", \"vv\"]\n"),
            "average `all` names `vv`, which is no workload; workloads: w; did you mean `w`?",
        ),
        (
            format!("{head}{load}[[averages]]\nname = \"all\"\nworkloads = [\"w\", \"w\"]\n"),
            "average `all` names `w` twice",
        ),
        (
            format!("{head}{load}[[averages]]\nname = \"all\"\nof = \"ratio\"\n"),
            "unknown variant `ratio`, expected `values` or `ratios`; did you mean `ratios`?",
        ),
        (
            format!("{head}variants = [{{ name = \"v\", patch = {{ averages = [{{ name = \"a\" }}] }} }}]\n{load}"),
            "variant `v`: a patch cannot change `averages`",
        ),
        (
            format!("{head}variants = [{{ name = \"v\", patch = {{ metrics = [\"runtime_ns\"] }} }}]\n{load}"),
            "variant `v`: a patch cannot change `metrics`; it is the scenario's as a whole",
        ),
        (
            format!("{head}variants = [{{ name = \"v\", patch = {{ run = \"together\" }} }}]\n{load}"),
            "variant `v`: a patch cannot change `run`",
        ),
    ];
    for (text, expected) in table {
        let message = parse(&text, "s.toml").expect_err(&text).to_string();
        assert!(message.contains(expected), "{message:?} lacks {expected:?}");
        assert!(message.starts_with("s.toml"), "{message:?} says no place");
    }
}

proptest! {
    #[test]
    fn printing_then_parsing_gives_the_scenario_back(
        seed in 0u64..u64::MAX / 2,
        repeats in 1u32..9,
        percent in 1u64..200,
        cpus in 1u32..64,
        every in proptest::option::of(1_000u64..1 << 40),
    ) {
        let every = every.map(|ns| format!(", every = \"{ns}ns\"")).unwrap_or_default();
        let text = format!(
            "name = \"x\"\nseed = {seed}\nrepeats = {repeats}\nlimit = \"{percent}%\"\nmachine = {{ cpus = {cpus} }}\n\
             events = [{{ at = \"1s\"{every}, set = {{ cgroup = \"/w\", max = \"{percent}MiB\", low = \"max\" }} }}]\n\
             [[variants]]\nname = \"v\"\npatch = {{ machine = {{ swappiness = 7 }} }}\n\
             [[workloads]]\nname = \"w\"\nload = {{ kind = \"idle\", duration = \"1s\" }}\n"
        );
        let scenario: Scenario = parse(&text, "t").unwrap();
        prop_assert_eq!(parse(&print(&scenario), "t").unwrap(), scenario);
    }
}

#[test]
fn the_scenario_in_the_docs_runs() {
    let docs = include_str!("../../../docs/use/scenarios.md");
    let text = docs.split("```toml\n").nth(1).and_then(|rest| rest.split("```").next()).expect("one example");
    let text = text.replace("operations = 200000", "operations = 20000");
    let result = play(&text, 2);
    let (roomy, tight) =
        (mean(&result, "store", "roomy", "major_faults"), mean(&result, "store", "tight", "major_faults"));
    assert!(roomy < tight, "{roomy} {tight}");
}

/// Rows of averages equal those computed from the rows of single seeds.
#[test]
fn averages_are_taken_seed_by_seed() {
    let text = |seed: u64, repeats: u64| {
        format!(
            r#"
            name = "averages"
            seed = {seed}
            repeats = {repeats}
            against = "roomy"
            metrics = ["runtime_ns", "major_faults"]
            machine = {{ nodes = [{{ memory = "256MiB" }}] }}
            averages = [{{ name = "average" }}, {{ name = "alike", of = "ratios" }}, {{ name = "one", workloads = ["small"] }}]
            [[workloads]]
            name = "large"
            load = {{ kind = "hot-cold", footprint = "8MiB", hot = "25%", hot-accesses = "90%", operations = 20000 }}
            [[workloads]]
            name = "small"
            load = {{ kind = "hot-cold", footprint = "1MiB", hot = "25%", hot-accesses = "90%", operations = 3000 }}
            [[variants]]
            name = "roomy"
            [[variants]]
            name = "tight"
            patch = {{ limit = "60%" }}
            [[references]]
            workload = "average"
            variant = "tight"
            metric = "runtime_ns"
            against = "roomy"
            value = 1.5407
            source = "somebody"
            "#
        )
    };
    let whole = play(&text(1, 3), 2);
    let singles: Vec<ScenarioResult> = (1..=3).map(|seed| play(&text(seed, 1), 1)).collect();
    let of = |workload: &str, variant: &str| -> Vec<f64> {
        singles.iter().map(|single| mean(single, workload, variant, "runtime_ns")).collect()
    };
    let all = [("large", "roomy"), ("large", "tight"), ("small", "roomy"), ("small", "tight")].map(|(w, v)| of(w, v));
    let [large, large_tight, small, small_tight] = &all;
    let ratio = |name: &str, metric: &str| {
        whole
            .ratios
            .iter()
            .find(|row| (row.workload.as_str(), row.variant.as_str()) == (name, "tight") && row.metric == metric)
    };
    let close = |got: f64, wanted: f64| assert!((got / wanted - 1.0).abs() < 1e-12, "{got} {wanted}");
    let mean_of = |values: Vec<f64>| values.iter().sum::<f64>() / 3.0;

    let average = whole.row("average", "tight", "runtime_ns").expect("a row of values");
    assert_eq!(average.n, 3);
    close(average.mean, mean_of((0..3).map(|at| (large_tight[at] + small_tight[at]) / 2.0).collect()));
    let of_means = ratio("average", "runtime_ns").expect("a ratio of means");
    let by_seed = |at: usize| (large_tight[at] + small_tight[at]) / (large[at] + small[at]);
    close(of_means.mean, mean_of((0..3).map(by_seed).collect()));
    assert_eq!((of_means.n, of_means.reference), (3, Some(1.5407)));
    assert!(of_means.ci95_low.unwrap() < of_means.mean && of_means.mean < of_means.ci95_high.unwrap());
    let alike = ratio("alike", "runtime_ns").expect("a mean of ratios");
    let by_seed = |at: usize| (large_tight[at] / large[at] + small_tight[at] / small[at]) / 2.0;
    close(alike.mean, mean_of((0..3).map(by_seed).collect()));
    assert!(alike.mean != of_means.mean && alike.reference.is_none());
    assert_eq!(mean(&whole, "one", "tight", "runtime_ns"), mean(&whole, "small", "tight", "runtime_ns"));
    assert!(whole.row("alike", "tight", "runtime_ns").is_none(), "ratios have no unit, and no row of values");
    assert!(
        ratio("average", "major_faults").is_none() && ratio("alike", "major_faults").is_none(),
        "no fault without limit"
    );
}
