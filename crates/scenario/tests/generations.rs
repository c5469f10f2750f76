//! Tools over generations in scenarios: their reports on the bundled recordings, compared with ground truth.

use isotherm_core::generations::EstimatorConfig;
use isotherm_scenario::monitoring::Replay;
use isotherm_scenario::{GenerationsSpec, RunOptions, Scenario, WorkloadEntry, parse, print, run};
use isotherm_sim::machine::{GenerationsSample, MachineConfig, NodeConfig};
use isotherm_units::{Bytes, Duration};
use isotherm_workload::{TraceSpec, WorkloadSpec};
use std::path::PathBuf;

const INTERVAL: Duration = Duration::from_ms(100);

/// All samples of a recording that is replayed with memory for everything, a generation each [`INTERVAL`].
fn samples(recording: &str, intervals: u64) -> Vec<GenerationsSample> {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(format!("../../traces/{recording}.parquet"));
    let nodes = vec![NodeConfig { memory: Bytes::from_gib(4), ..NodeConfig::default() }];
    let window = Some(INTERVAL.saturating_mul(intervals));
    let config = EstimatorConfig { interval: INTERVAL, window, ..EstimatorConfig::default() };
    let scenario = Scenario {
        policy: "mglru".to_owned(),
        machine: MachineConfig { nodes, ..MachineConfig::default() },
        workloads: vec![WorkloadEntry::new(recording, WorkloadSpec::Trace(TraceSpec::new(&path)))],
        generations: vec![GenerationsSpec::estimate("wss", config)],
        ..Scenario::named(recording)
    };
    let replay = Replay::of_scenario(&scenario, &options(), None, None).expect("a scenario");
    let (_, outcome) = replay.play().expect("it plays");
    outcome.generations.into_iter().next().expect("one tool").samples
}

fn options() -> RunOptions {
    RunOptions { base_dir: PathBuf::from("."), place: "test".to_owned(), threads: Some(1) }
}

/// Issue 5: the working set, estimated, is within 10 % of the truth on every bundled recording. Estimate and truth are pages
/// used within one and two intervals before a sample, the mean over all samples except the first, when the program has hardly
/// begun; truth are the pages used that are still there. Half of all samples are far closer than the mean: the error sits in
/// the first few, where files are mapped for the first time.
fn is_within_ten_percent(recording: &str) {
    for intervals in [1, 2] {
        let samples = samples(recording, intervals);
        let reported: Vec<(u64, u64)> = (samples.iter().skip(1))
            .filter(|sample| sample.estimate.reported_window_ms.is_some())
            .map(|sample| (sample.estimate.pages, sample.used.expect("ground truth").present_pages))
            .collect();
        assert!(reported.len() >= 15, "{recording}: {} looks", reported.len());
        let sums = reported.iter().fold((0, 0), |(estimated, used), pair| (estimated + pair.0, used + pair.1));
        let permil = |(estimated, used): (u64, u64)| estimated.abs_diff(used) * 1000 / used.max(1);
        assert!(permil(sums) < 100, "{recording}, {intervals} intervals: estimated {} of {} used", sums.0, sums.1);
        let mut errors: Vec<u64> = reported.into_iter().map(permil).collect();
        errors.sort_unstable();
        assert!(errors[errors.len() / 2] < 50, "{recording}, {intervals} intervals: {errors:?} per mille");
        for sample in &samples {
            let estimate = sample.estimate;
            assert!(estimate.low_pages <= estimate.high_pages, "{estimate:?}");
            // Where a window is reported, its bounds contain the one asked for.
            if estimate.reported_window_ms.is_some_and(|reported| reported == estimate.window_ms) {
                assert!((estimate.low_pages..=estimate.high_pages).contains(&estimate.pages), "{estimate:?}");
            }
        }
    }
}

#[test]
fn the_working_set_of_sqlite_is_within_ten_percent() {
    is_within_ten_percent("sqlite");
}
#[test]
fn the_working_set_of_gcc_is_within_ten_percent() {
    is_within_ten_percent("gcc");
}
#[test]
fn the_working_set_of_redis_is_within_ten_percent() {
    is_within_ten_percent("redis");
}
#[test]
fn the_working_set_of_python_is_within_ten_percent() {
    is_within_ten_percent("python");
}
#[test]
fn the_working_set_of_node_is_within_ten_percent() {
    is_within_ten_percent("node");
}

/// 32 MiB, a tenth of it used, another tenth each 200 ms.
const SCENARIO: &str = r#"
name = "proactive"
policy = "mglru"
metrics = ["runtime_ns", "working_set_bytes", "generations_evicted_bytes", "generations_cpu_ns"]
machine = { nodes = [{ memory = "128MiB" }] }
[[workloads]]
name = "app"
[workloads.load]
kind = "hot-cold"
footprint = "32MiB"
hot = "10%"
hot-accesses = "100%"
move-every = "200ms"
writes = "100%"
duration = "1s"
[[generations]]
name = "proactive"
mode = "reclaim"
targets = ["/app"]
threshold = "100ms"
swappiness = 200
[[variants]]
name = "mglru"
[[variants]]
name = "classic"
patch = { policy = "classic" }
[[variants]]
name = "larger budget"
patch.generations = { proactive = { budget = "1GiB" } }
"#;

#[test]
fn tools_stand_in_scenarios_and_in_results() {
    let scenario = parse(SCENARIO, "test").expect("as in the docs");
    assert_eq!(parse(&print(&scenario), "test").expect("as printed"), scenario);
    let result = run(&scenario, &options(), &()).expect("it plays");
    let mean = |variant: &str, metric: &str| result.row("app", variant, metric).map(|row| row.mean);
    for variant in ["mglru", "larger budget"] {
        assert!(mean(variant, "generations_evicted_bytes").is_some_and(|bytes| bytes > 3e6), "{variant}");
        assert!(mean(variant, "working_set_bytes").is_some_and(|bytes| bytes > 2e6 && bytes < 12e6), "{variant}");
        assert!(mean(variant, "generations_cpu_ns").is_some_and(|ns| ns > 0.0), "{variant}");
    }
    assert_eq!(mean("classic", "generations_evicted_bytes"), Some(0.0), "there is nothing to evict by");
    assert_eq!(mean("classic", "working_set_bytes"), None);
}

#[test]
fn what_makes_no_sense_is_refused_with_its_place() {
    let error = |from: &str, to: &str| {
        let text = SCENARIO.replacen(from, to, 1);
        assert_ne!(text, SCENARIO, "{from}");
        parse(&text, "s.toml").expect_err(to).to_string()
    };
    let twice = "[[generations]]\nname = \"proactive\"\nmode = \"reclaim\"\n[[variants]]\nname = \"mglru\"";
    let both = "[[generations]]\nname = \"wss\"\nmode = \"estimate\"\n[[variants]]\nname = \"mglru\"";
    let table = [
        ("targets = [\"/app\"]", "targets = [\"/ap\"]", "no group `/ap`; groups: /, /app; did you mean `/app`?"),
        ("swappiness = 200", "interval = \"30ms\"", "`threshold` is 100ms; allowed: from the interval"),
        ("threshold = \"100ms\"", "threshold = \"10ms\"", "`interval` is 5ms; allowed: 10ms and more"),
        ("[[variants]]\nname = \"mglru\"", twice, "two tools have this name"),
        ("[[variants]]\nname = \"mglru\"", both, "two tools on a group age it twice"),
        ("swappiness = 200", "swappiness = 300", "allowed: 0 to 200, or \"max\""),
        ("mode = \"reclaim\"", "mode = \"guess\"", "unknown variant `guess`"),
        ("threshold = \"100ms\"", "treshold = \"100ms\"", "unknown field `treshold`"),
    ];
    for (from, to, expected) in table {
        let message = error(from, to);
        assert!(message.starts_with("s.toml:") && message.contains(expected), "{message}");
    }
}
