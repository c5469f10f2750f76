//! Monitors in scenarios, and replays watched for front ends.

use isotherm_core::monitor::{Attributes, MonitorConfig, Strategy};
use isotherm_core::presets::PRESETS;
use isotherm_core::schemes::Reason;
use isotherm_scenario::monitoring::{HotDefinition, Replay, Setting, Watch, accuracy, cheapest, settings, watch};
use isotherm_scenario::{RunOptions, Scenario, ScenarioResult, parse, print, run};
use isotherm_trace::region::{RegionStore, RegionWriter};
use isotherm_units::Duration;
use proptest::prelude::*;
use std::ops::ControlFlow;

fn options(threads: usize) -> RunOptions {
    RunOptions { base_dir: "../..".into(), place: "test".to_owned(), threads: Some(threads) }
}

fn play(text: &str, threads: usize) -> ScenarioResult {
    let scenario = parse(text, "test").unwrap_or_else(|error| panic!("{error}"));
    run(&scenario, &options(threads), &()).unwrap_or_else(|error| panic!("{error}"))
}

/// 64 MiB, 6.4 MiB of it used, half of that each 5 ms.
const SMALL: &str = r#"
name = "small"
repeats = 2
until = "6s"
against = "leaf"
[machine]
nodes = [{ memory = "256MiB" }]
[[monitors]]
name = "kdamond"
config = { operations = "fvaddr", attributes = { sample-interval = "5ms", aggr-interval = "100ms" } }
[[workloads]]
name = "w"
premapped = true
[workloads.load]
kind = "hot-cold"
footprint = "64MiB"
hot = "10%"
hot-pieces = 1
hot-accesses = "100%"
accesses-per-second = 200000
duration = "7s"
[[variants]]
name = "leaf"
[[variants]]
name = "ptp"
patch = { monitors = { kdamond = { config = { strategy = "ptp" } } } }
[[variants]]
name = "short"
patch = { repeats = 1, until = "1s", workloads = { "*" = { load = { accesses-per-second = 20000 } } } }
"#;

fn mean(result: &ScenarioResult, variant: &str, metric: &str) -> f64 {
    result.row("w", variant, metric).unwrap_or_else(|| panic!("no row {variant} {metric}")).mean
}

#[test]
fn monitors_have_metrics_like_anything_else() {
    let result = play(SMALL, 2);
    for variant in ["leaf", "ptp"] {
        for metric in ["precision", "recall", "f1", "recall_recent", "converged"] {
            assert!(mean(&result, variant, metric) >= 0.9, "{variant} {metric}: {}", mean(&result, variant, metric));
        }
        assert!((200e6..3e9).contains(&mean(&result, variant, "converge_ns")), "{variant}");
        assert!((10.0..1000.0).contains(&mean(&result, variant, "regions_mean")), "{variant}");
        let (ns, cycles) = (mean(&result, variant, "monitor_cpu_ns"), mean(&result, variant, "cpu_cycles"));
        assert_eq!(cycles, ns * 3.0, "3 GHz");
        // One clear and one test for each region, 200 times a second.
        let checks = mean(&result, variant, "checks_per_second");
        let regions = mean(&result, variant, "regions_mean");
        assert!((checks / (regions * 400.0) - 1.0).abs() < 0.1, "{variant}: {checks} of {regions}");
    }
    // A page in use is hit each 5 ms with 1 - exp(-1000 / 1638) = 0.46.
    assert!(mean(&result, "leaf", "nr_accesses_error") < 0.15);
    assert_eq!(result.row("w", "leaf", "recall").unwrap().n, 2);
    assert_eq!(result.row("w", "short", "checks_per_second").unwrap().n, 1, "a variant has its own repeats");
    assert!(result.ratios.iter().any(|row| row.variant == "ptp" && row.metric == "cpu_cycles" && row.n == 2));
    assert!(result.row("w", "short", "converge_ns").is_none(), "never is no number");
}

#[test]
fn results_do_not_depend_on_the_number_of_threads() {
    let text = |threads| serde_json::to_string(&play(SMALL, threads)).unwrap();
    assert_eq!(text(1), text(3));
}

#[test]
fn physical_memory_is_watched_and_not_judged() {
    let text =
        SMALL.replace("\"fvaddr\"", "\"paddr\"").replace("[[variants]]\nname = \"ptp\"", "[[variants]]\nname = \"p\"");
    let text = text.replace("strategy = \"ptp\"", "strategy = \"leaf\"");
    let result = play(&text, 2);
    assert!(mean(&result, "leaf", "checks_per_second") > 1000.0);
    assert!(result.row("w", "leaf", "precision").is_none());
}

/// docs/spec/page-table-profiling.md#s7-3: upper entries save checks of leaves of physical memory, and change no result.
#[test]
fn upper_entries_rule_physical_memory_out_at_less_cost() {
    let text = SMALL.replace("\"fvaddr\"", "\"paddr\"").replace("footprint = \"64MiB\"", "footprint = \"64GiB\"");
    let text = text.replace("hot = \"10%\"", "hot = \"0.1%\"");
    let result = play(&text, 2);
    for metric in ["regions_mean", "checks_per_second", "operations"] {
        assert!((mean(&result, "leaf", metric) - mean(&result, "ptp", metric)).abs() < 1e-9, "{metric}");
    }
    let cpu = |variant| mean(&result, variant, "monitor_cpu_ns");
    assert!(cpu("ptp") < 0.8 * cpu("leaf"), "{} and {} ns", cpu("ptp"), cpu("leaf"));
    let refused = run(
        &parse(&text.replace("strategy = \"ptp\"", "strategy = \"ptp-descend\""), "test").unwrap(),
        &options(1),
        &(),
    );
    let message = refused.unwrap_err().to_string();
    assert!(message.contains("`ptp-descend` is not available here: a scan of whole page tables"), "{message}");
}

#[test]
fn bad_monitors_say_what_where_and_what_is_allowed() {
    let load = "[[workloads]]\nname = \"store\"\nload = { kind = \"idle\", duration = \"1s\" }\n";
    let with = |monitor: &str| format!("name = \"x\"\n{load}[[monitors]]\nname = \"k\"\n{monitor}\n");
    let table = [
        (with("strategy = \"ptp\""), "unknown field `strategy`"),
        (with("config = { stratgy = \"ptp\" }"), "did you mean `strategy`?"),
        (with("config = { strategy = \"pt\" }"), "unknown strategy `pt`; allowed: leaf, ptp,"),
        (
            with("config = { attributes = { sample-interval = \"0ms\" } }"),
            "`sample-interval` is 0ns; allowed: 1us and more",
        ),
        (
            with("config = { attrs = { sample-us = \"5ms\", aggr-us = \"1ms\" } }"),
            "`aggr-interval` is 1ms; allowed: the sample-interval (5ms) and more",
        ),
        (with("config = { attributes = { min-nr-regions = 2 } }"), "`min-nr-regions` is 2; allowed: 3 and more"),
        (
            with("config = { attributes = { minr = 50, maxr = 20 } }"),
            "`max-nr-regions` is 20; allowed: min-nr-regions (50) and more",
        ),
        (
            with("targets = [\"stroe\"]"),
            "it watches `stroe`, which is no workload; workloads: store; did you mean `store`?",
        ),
        (with("targets = [\"store/x\"]"), "it watches `store/x`, which is no workload"),
        (with("targets = [\"store/\"]"), "`store/` is no target"),
        (with("targets = [\"store\", \"store\"]"), "it watches `store` twice"),
        (with("targets = [\"store\"]\nconfig = { ops = \"paddr\" }"), "leave `targets` out"),
        (with("ranges = [{ start = 4096, end = 8192 }]"), "`ranges` are those of one target"),
        (with("targets = [\"store\"]\nranges = [{ start = 8192, end = 4096 }]"), "the range 0x2000-0x1000 is empty"),
        (
            with("targets = [\"store\"]\nranges = [{ start = 0, end = 8192 }, { start = 4096, end = 9000 }]"),
            "ranges overlap at 0x1000",
        ),
        (format!("{}[[monitors]]\nname = \"k\"\n", with("")), "two monitors have this name"),
        (
            with("[[variants]]\nname = \"v\"\npatch = { monitors = { q = { config = { strategy = \"ptp\" } } } }"),
            "unknown entry `q` of `monitors`, expected `*` for all, or one of `k`",
        ),
        (
            with("config = { schemes = [{ quotas = { size = \"0B\", reset-interval = \"1s\" } }] }"),
            "s.toml:7:36: monitor `k`: schemes[0]: `quotas.size` is 0B; allowed: a page and more",
        ),
        (with("config = { schemes = [{ acton = \"stat\" }] }"), "did you mean `action`?"),
        (with("preset = \"lru\""), "unknown preset `lru`; allowed: lru-sort, reclaim, stat, plrus-radical"),
        (with("preset = { preset = \"reclaim\", min-ag = \"1s\" }"), "did you mean `min-age`?"),
        (
            with("preset = { preset = \"lru-sort\", monitor-region-end = 0, monitor-region-start = 9 }"),
            "monitor `k`: preset `lru-sort`: `monitor-region-end` is 0; allowed: above monitor-region-start (9)",
        ),
        (with("preset = \"stat\"\nconfig = {}"), "`preset` and `config` both say how it watches"),
        (
            with("preset = { preset = \"reclaim\", monitor-region-end = 8192 }\nranges = [{ start = 0, end = 4096 }]"),
            "`ranges` and `monitor-region-start` both say where it looks",
        ),
        (with("preset = \"stat\"\ntargets = [\"store\"]"), "leave `targets` out"),
        (with("[[variants]]\nname = \"v\"\npatch = { monitors = { k = { config = { maxr = 1 } } } }"), "variant `v`"),
    ];
    for (text, expected) in table {
        let message = parse(&text, "s.toml").expect_err(&text).to_string();
        assert!(message.contains(expected), "{message:?} lacks {expected:?}");
        assert!(message.starts_with("s.toml:"), "{message:?} says no place");
    }
}

#[test]
fn what_only_the_machine_knows_is_an_error_of_the_run() {
    let fails = |from: &str, to: &str| {
        let scenario = parse(&SMALL.replace(from, to), "test").unwrap();
        run(&scenario, &options(1), &()).unwrap_err().to_string()
    };
    let message = fails("name = \"kdamond\"\n", "name = \"kdamond\"\ntargets = [\"w/3\"]\n");
    assert!(message.contains("it watches process 3 of `w`, which has 1; allowed: 0 to 0"), "{message}");
    let message = fails("[machine]\n", "[machine]\nmmu = { nonleaf-accessed = false }\n");
    assert!(message.contains("`ptp` is not available here: accessed bits above the leaves"), "{message}");
}

proptest! {
    #[test]
    fn printing_then_parsing_gives_monitors_back(
        sample_us in 1u64..1_000_000,
        ratio in 1u64..400,
        strategy in 0usize..5,
        process in proptest::option::of(0u64..4),
        premapped: bool,
        quota in proptest::option::of(1u64..1 << 40),
    ) {
        let strategy = isotherm_core::monitor::STRATEGIES[strategy].name;
        let targets = process.map(|process| format!("targets = [\"w/{process}\"]\nranges = [{{ start = 4096, end = 8192 }}]\n"));
        let schemes = quota.map(|bytes| {
            format!("schemes = [{{ action = \"pageout\", quotas = {{ sz = \"{bytes}B\", reset-interval = \"1s\" }} }}]\n")
        });
        let text = format!(
            "name = \"x\"\n[[workloads]]\nname = \"w\"\npremapped = {premapped}\nload = {{ kind = \"idle\", duration = \"1s\" }}\n\
             [[monitors]]\nname = \"k\"\n{}[monitors.config]\nstrategy = \"{strategy}\"\noperations = \"fvaddr\"\n\
             attrs = {{ sample = \"{sample_us}us\", aggr = \"{}us\", minr = 3 }}\nmin_region_size = \"2MiB\"\n{}",
            targets.unwrap_or_default(), sample_us * ratio, schemes.unwrap_or_default(),
        );
        let scenario: Scenario = parse(&text, "t").unwrap();
        prop_assert_eq!(parse(&print(&scenario), "t").unwrap(), scenario);
    }
}

/// A preset is kept as it was written, and may be changed by variants.
#[test]
fn presets_stand_for_a_configuration_and_a_range() {
    let load = "[[workloads]]\nname = \"w\"\nload = { kind = \"idle\", duration = \"1s\" }\n";
    let monitor = |preset: &str| {
        let text = format!("name = \"x\"\n{load}[[monitors]]\nname = \"k\"\npreset = {preset}\n");
        let scenario = parse(&text, "t").unwrap_or_else(|error| panic!("{error}"));
        let printed = print(&scenario);
        assert_eq!(parse(&printed, "t").unwrap(), scenario, "{printed}");
        (scenario.monitors[0].clone(), printed)
    };
    for entry in PRESETS {
        let (spec, printed) = monitor(&format!("\"{}\"", entry.name));
        let preset = (entry.make)();
        assert_eq!((spec.preset(), &spec.config), (Some(&preset), &preset.setup().unwrap().config));
        assert!(!printed.contains("config"), "{printed}");
    }
    let (spec, printed) = monitor(
        "{ preset = \"lru_sort\", quota-time = \"20ms\", monitor-region-start = 4096, monitor-region-end = 16384 }",
    );
    assert_eq!((spec.ranges[0].start, spec.ranges[0].end, spec.ranges.len()), (4096, 16384, 1));
    assert_eq!(spec.config.schemes[0].quotas.time, Some(Duration::from_ms(10)), "half for each of the two");
    assert!(printed.contains("quota-time") && !printed.contains("cold-min-age"), "what differs: {printed}");

    let variants = "[[variants]]\nname = \"a\"\npatch = { monitors = { k = { preset = { quota-time = \"40ms\" } } } }\n\
                    [[variants]]\nname = \"b\"\npatch = { monitors = { k = { preset = \"reclaim\" } } }\n";
    let text = format!("name = \"x\"\n{load}[[monitors]]\nname = \"k\"\npreset = \"lru-sort\"\n{variants}");
    let scenario = parse(&text, "t").unwrap_or_else(|error| panic!("{error}"));
    let name_in = |variant| {
        let replay = Replay::of_scenario(&scenario, &options(1), Some(variant), None).unwrap();
        let spec = replay.monitors()[0].clone();
        (spec.preset().unwrap().name(), spec.config.schemes[0].quotas.time.unwrap())
    };
    assert_eq!(name_in("a"), ("lru-sort", Duration::from_ms(20)));
    assert_eq!(name_in("b"), ("reclaim", Duration::from_ms(10)));
}

/// Every monitor of a run reports the results of its schemes, watched alone as well as among others.
#[test]
fn reports_of_schemes_are_kept() {
    let schemes = "schemes = [{ access-pattern = { nr-accesses = { max = 0 } } }, \
                   { quotas = { size = \"64KiB\", reset-interval = \"1s\" } }, \
                   { access-pattern = { age = { min = \"1h\" } } }]";
    let text = SMALL.replace("config = { operations", &format!("config = {{ {schemes}, operations"));
    let more = "[[monitors]]\nname = \"stat\"\npreset = \"stat\"\n[[workloads]]";
    let text = text.replace("until = \"6s\"", "until = \"2s\"").replacen("[[workloads]]", more, 1);
    let scenario = parse(&text, "test").unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(parse(&print(&scenario), "test").unwrap(), scenario);
    let replay = Replay::of_scenario(&scenario, &options(1), Some("leaf"), None).unwrap();
    assert_eq!((replay.variant(), replay.workload(), replay.monitors().len()), ("leaf", "w", 2));
    let (monitors, _) = replay.play().unwrap();
    assert_eq!((monitors[0].name.as_str(), monitors[1].name.as_str()), ("kdamond", "stat"));
    assert!(monitors[1].schemes.is_empty() && monitors[1].snapshots > 0);
    let [open, quota, pattern] = &monitors[0].schemes[..] else { panic!("three schemes") };
    let passes = monitors[0].snapshots;
    assert!(passes > 10 && [open, quota, pattern].iter().all(|report| report.all_passes.passes == passes));
    assert!(open.stats.nr_tried > 0 && open.all_passes.of(Reason::Counted).bytes == open.stats.sz_tried);
    assert!(quota.all_passes.of(Reason::QuotaFull).regions > 0 && quota.stats.sz_tried <= 3 * 64 * 1024);
    assert_eq!(pattern.all_passes.of(Reason::TooYoung), pattern.all_passes.shown());

    let alone = watch(&Watch::scenario(&scenario, &options(1), Some("leaf"), None, None).unwrap(), &mut |_| {
        ControlFlow::Continue(())
    });
    assert_eq!(alone.unwrap().monitor.schemes.len(), 3);
}

fn attributes(sample_ms: u64, aggr_ms: u64) -> Attributes {
    Attributes {
        sample_interval: Duration::from_ms(sample_ms),
        aggr_interval: Duration::from_ms(aggr_ms),
        ..Attributes::default()
    }
}

/// A recording is watched from end to end; its snapshots make a record that opens.
#[test]
fn a_watched_recording_becomes_a_record() {
    let config = MonitorConfig { attributes: attributes(10, 200), ..MonitorConfig::default() };
    let replay = Watch::trace("../../traces/sqlite.parquet", 0, config).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("sqlite.regions.parquet");
    let mut writer = RegionWriter::create(&path, replay.record_meta()).unwrap();
    let watched = watch(&replay, &mut |snapshot| {
        writer.push(snapshot).unwrap();
        ControlFlow::Continue(())
    })
    .unwrap();
    writer.set_outcome(true).unwrap();
    let meta = writer.finish().unwrap();
    assert_eq!(meta.targets[0].name, "sqlite/0");
    assert_eq!(meta.snapshots, watched.monitor.snapshots);
    assert!((10..20).contains(&meta.snapshots), "2.8 s of 200 ms: {}", meta.snapshots);
    assert!(RegionStore::open(&path).is_ok());
    assert!(watched.monitor.scores.is_none());
    let [(event, _)] = watched.monitor.events.as_slice() else { panic!("{:?}", watched.monitor.events) };
    assert!(event.contains("watched as they are"), "as it begins: {event}");

    let mut seen = 0;
    let stopped = watch(&replay, &mut |_| {
        seen += 1;
        ControlFlow::Break(())
    });
    assert_eq!((seen, stopped.unwrap().monitor), (1, watched.monitor), "a listener that leaves changes nothing");

    let scores = accuracy(&replay).unwrap().monitor.scores.unwrap();
    assert!(scores.periods >= 2, "{scores:?}");
    let author = scores.of(HotDefinition::Author);
    assert!(author.stated.is_none() && author.main().recall > 0.0, "{scores:?}");
    assert!(scores.nr_accesses_error.is_some());
}

#[test]
fn the_cheapest_good_setting_is_found() {
    let scenario = parse(SMALL, "test").unwrap();
    let replay = Watch::scenario(&scenario, &options(1), Some("leaf"), Some("w"), None).unwrap();
    let base = replay.config().clone();
    assert_eq!(settings(&base).len(), 36);
    let setting = |name: &str, sample_ms, strategy: &str| Setting {
        name: name.to_owned(),
        config: MonitorConfig {
            attributes: attributes(sample_ms, sample_ms * 20),
            strategy: strategy.parse::<Strategy>().unwrap(),
            ..base.clone()
        },
    };
    // The second is too slow to find anything in six seconds.
    let all = [setting("fine", 1, "leaf"), setting("coarse", 200, "leaf"), setting("usual", 5, "ptp")];
    let found = cheapest(&replay, &all, HotDefinition::Author, Some(2), &()).unwrap();
    assert_eq!(found.cheapest, Some(2), "{found:?}");
    assert!(found.tried[0].detection.is_good() && !found.tried[1].detection.is_good());
    assert!(found.tried[2].monitor.cpu_ns < found.tried[0].monitor.cpu_ns);
}

#[test]
fn a_watch_of_a_scenario_names_what_there_is() {
    let scenario = parse(SMALL, "test").unwrap();
    let fails = |variant, workload| {
        Watch::scenario(&scenario, &options(1), variant, workload, None).map(|_| ()).unwrap_err().to_string()
    };
    assert!(fails(Some("x"), None).contains("there is no variant `x`; variants: leaf, ptp, short"));
    assert!(fails(None, Some("v")).contains("there is no workload `v`; workloads: w"));
    let plain = Scenario { monitors: Vec::new(), variants: Vec::new(), against: None, ..scenario.clone() };
    let error = Watch::scenario(&plain, &options(1), None, None, None).map(|_| ()).unwrap_err().to_string();
    assert!(error.contains("it has no monitor; add a `[[monitors]]` table"), "{error}");
}
