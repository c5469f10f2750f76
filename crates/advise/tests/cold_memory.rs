//! Advice from generations against the simulated machine: predicted refaults, and those at the recommended limit.

use std::path::PathBuf;

use isotherm_advise::cold_memory::{ColdAdvice, Goals, GroupRecord, advise_group};
use isotherm_core::generations::EstimatorConfig;
use isotherm_scenario::monitoring::Replay;
use isotherm_scenario::{GenerationsSpec, RunOptions, Scenario, WorkloadEntry};
use isotherm_sim::machine::{MachineConfig, NodeConfig, Outcome};
use isotherm_trace::group::{Gauges, Generation, GroupMeta, Look, LookKind};
use isotherm_units::{Amount, Bytes, Duration, PAGE_BYTES, Ratio};
use isotherm_workload::{TraceSpec, WorkloadSpec};

const INTERVAL: Duration = Duration::from_ms(100);

fn play(recording: &str, limit: Option<Amount>, generations: Vec<GenerationsSpec>) -> Outcome {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(format!("../../traces/{recording}.parquet"));
    let nodes = vec![NodeConfig { memory: Bytes::from_gib(4), ..NodeConfig::default() }];
    let scenario = Scenario {
        policy: "mglru".to_owned(),
        limit,
        machine: MachineConfig { nodes, ..MachineConfig::default() },
        workloads: vec![WorkloadEntry::new("app", WorkloadSpec::Trace(TraceSpec::new(&path)))],
        generations,
        ..Scenario::named("app")
    };
    let options = RunOptions { base_dir: PathBuf::from("."), place: "test".to_owned(), threads: Some(1) };
    let replay = Replay::of_scenario(&scenario, &options, None, None).expect("a scenario");
    replay.play().expect("it plays").1
}

/// The record of the group `/app` that a daemon would have made.
fn record(recording: &str) -> GroupRecord {
    let config = EstimatorConfig { interval: INTERVAL, ..EstimatorConfig::default() };
    let outcome = play(recording, None, vec![GenerationsSpec::estimate("wss", config)]);
    let samples = &outcome.generations[0].samples;
    let looks = samples.iter().map(|sample| {
        let groups = sample.reading.groups.iter().filter(|group| group.listing.path == "/app");
        let generations = groups.flat_map(|group| {
            group.listing.rows.iter().map(|row| Generation {
                node: 0,
                seq: row.seq,
                age_ns: row.age_ms * 1_000_000,
                anon_bytes: row.anon_pages * PAGE_BYTES,
                file_bytes: row.file_pages * PAGE_BYTES,
            })
        });
        let gauges = Gauges { refaults_anon: Some(0), refaults_file: Some(0), ..Gauges::default() };
        Look { time_ns: sample.reading.at_ns, kind: LookKind::Aged, gauges, generations: generations.collect() }
    });
    let meta = GroupMeta {
        group: "/app".to_owned(),
        interval_ns: INTERVAL.ns(),
        huge_pages: Some(false),
        ..GroupMeta::default()
    };
    GroupRecord { meta, looks: looks.collect() }
}

/// The advice, and the refaults a second that the simulated machine has at the recommended limit, if there is one.
fn predicted_and_simulated(recording: &str, refaults_per_s: f64) -> (ColdAdvice, Option<f64>) {
    // The goal of pressure is out of the way: refaults are compared.
    let goals = Goals { refaults_per_s, pressure_some: Ratio::from_ppm(1_000_000), ..Goals::default() };
    let advice = advise_group(&record(recording), goals).expect("enough looks");
    let Some(found) = advice.recommendation else { return (advice, None) };
    let outcome = play(recording, Some(Amount::Absolute(Bytes::new(found.high_bytes))), Vec::new());
    let refaults = outcome.cgroup("/app").expect("the group").counters.refaults();
    #[expect(clippy::cast_precision_loss, reason = "a rate for people")]
    let per_s = refaults as f64 / (outcome.ended_ns as f64 / 1e9);
    (advice, Some(per_s))
}

const RECORDINGS: [&str; 12] = [
    "sqlite",
    "redis",
    "gcc",
    "more/postgres",
    "more/perl",
    "more/rustc",
    "python",
    "node",
    "more/git",
    "more/web",
    "more/zstd",
    "more/shell",
];

/// The table of docs/use/advise.md#records-of-a-running-program: with `--nocapture` it is printed.
#[test]
#[expect(clippy::print_stderr, reason = "the table is for the documentation")]
fn every_recommended_limit_keeps_the_goal() {
    let mut limits = 0;
    for recording in RECORDINGS {
        let (advice, simulated) = predicted_and_simulated(recording, 5_000.0);
        let Some((found, simulated)) = advice.recommendation.zip(simulated) else {
            eprintln!("| {recording} | 5000 | none | | | |");
            continue;
        };
        let share_permil = found.high_bytes * 1000 / advice.memory_peak_bytes;
        let rate = found.refaults_per_s;
        let share = format!("{}.{}", share_permil / 10, share_permil % 10);
        eprintln!("| {recording} | 5000 | {share} % | {:.0} | {:.0} | {simulated:.0} |", rate.middle, rate.high);
        assert!(found.high_bytes < advice.memory_peak_bytes && found.high_bytes >= advice.floor_bytes, "{recording}");
        assert!(simulated <= 5_000.0, "{recording}: {simulated} refaults a second at {found:?}");
        limits += 1;
    }
    assert!(limits >= 4, "{limits} recordings with a limit");
}

#[test]
fn no_limit_is_recommended_where_all_memory_is_used_again() {
    let (advice, _) = predicted_and_simulated("redis", 500.0);
    assert!(advice.recommendation.is_none(), "{:?}", advice.recommendation);
    assert!(!advice.curve.is_empty() && !advice.ages.is_empty());
}
