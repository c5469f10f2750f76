//! Results are the same bytes in debug and release builds, and on every machine: digests of short runs, which are kept in a file.
//!
//! `cargo test` compares what a debug build makes of them, `cargo xtask digests` what a release build makes of them. A change
//! that means to change results writes the file: `cargo xtask bless digests`.

use isotherm_scenario::{BUNDLED, RunOptions, Scenario, parse, run};
use isotherm_units::hash::fnv1a;
use isotherm_units::{Bytes, Duration};

/// A bundled scenario, made short.
struct Short {
    scenario: &'static str,
    /// Names of the workloads that are kept.
    workloads: &'static [&'static str],
    variants: &'static [&'static str],
    /// Its end, if that is not its own.
    until_ms: Option<u64>,
    /// Memory of each node, if that is not its own.
    memory_mib: Option<u64>,
}

/// Each mechanism is in one of them: every policy, recordings, schemes, monitors at page-table levels, tiers, compaction.
const RUNS: &[Short] = &[
    Short {
        scenario: "policies",
        workloads: &["zipf", "sqlite"],
        variants: &[],
        until_ms: Some(200),
        memory_mib: None,
    },
    Short { scenario: "mglru-features", workloads: &[], variants: &[], until_ms: Some(40), memory_mib: Some(32) },
    Short { scenario: "mglru-thrashing", workloads: &[], variants: &[], until_ms: Some(400), memory_mib: Some(32) },
    Short {
        scenario: "plrus",
        workloads: &["sqlite"],
        variants: &["orig", "mprs", "plrus", "exact-lru"],
        until_ms: Some(200),
        memory_mib: None,
    },
    Short {
        scenario: "ptp",
        workloads: &["1GiB"],
        variants: &["leaf", "ptp", "ptp-aligned", "ptp-descend"],
        until_ms: Some(3000),
        memory_mib: None,
    },
    Short {
        scenario: "promotion-policies",
        workloads: &["hot set stays", "redis"],
        variants: &[],
        until_ms: Some(300),
        memory_mib: None,
    },
    Short {
        scenario: "compaction",
        workloads: &[],
        variants: &["vanilla", "controller"],
        until_ms: None,
        memory_mib: None,
    },
];

const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/digests.txt");

fn shortened(short: &Short) -> Scenario {
    let bundled = BUNDLED.iter().find(|bundled| bundled.name == short.scenario).expect("it is bundled");
    let mut scenario = parse(bundled.text, short.scenario).unwrap_or_else(|error| panic!("{error}"));
    scenario.repeats = 1;
    scenario.variants.iter_mut().for_each(|variant| drop(variant.patch.remove("repeats")));
    scenario.variants.retain(|variant| short.variants.is_empty() || short.variants.contains(&variant.name.as_str()));
    scenario.until = short.until_ms.map_or(scenario.until, Duration::from_ms);
    if !short.workloads.is_empty() {
        scenario.workloads.retain(|workload| short.workloads.contains(&workload.name.as_str()));
        assert_eq!(scenario.workloads.len(), short.workloads.len(), "{}", short.scenario);
    }
    if let Some(mib) = short.memory_mib {
        scenario.machine.nodes.iter_mut().for_each(|node| node.memory = Bytes::from_mib(mib));
    }
    // These concern the whole scenario.
    scenario.averages.clear();
    scenario.references.clear();
    scenario.expectations.clear();
    scenario
}

fn line_of(short: &Short) -> String {
    let options = RunOptions { base_dir: "../..".into(), place: short.scenario.to_owned(), threads: None };
    let result = run(&shortened(short), &options, &()).unwrap_or_else(|error| panic!("{}: {error}", short.scenario));
    let bytes = serde_json::to_vec(&result).expect("results can be written");
    format!("{:016x} {} rows of {}\n", fnv1a(bytes), result.rows.len(), short.scenario)
}

#[test]
fn results_are_the_bytes_of_every_build() {
    let found: String = RUNS.iter().map(line_of).collect();
    if std::env::var_os("ISOTHERM_BLESS").is_some_and(|value| value == "1") {
        std::fs::write(FILE, &found).expect("the file can be written");
    }
    let expected = std::fs::read_to_string(FILE).expect("the file can be read");
    assert_eq!(
        found, expected,
        "results are not the bytes they were; if they are meant to change, see the top of this file"
    );
}
