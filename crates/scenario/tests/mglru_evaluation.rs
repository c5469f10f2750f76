//! The bundled scenarios around the Multi-Gen LRU: complete against the original table, and each of them runs.

use isotherm_scenario::{BUNDLED, RunOptions, Scenario, parse, run};
use isotherm_units::Duration;
use std::collections::BTreeSet;

fn bundled(name: &str) -> Scenario {
    let found = BUNDLED.iter().find(|bundled| bundled.name == name).unwrap_or_else(|| panic!("no scenario {name}"));
    parse(found.text, name).unwrap_or_else(|error| panic!("{error}"))
}

/// Subject of the published intervals.
#[derive(Clone, Copy, PartialEq)]
enum Of {
    More,
    LessTime,
}

/// docs/spec/mglru.md#s16-1: the eight applications, row by row, in percent.
#[rustfmt::skip]
const SEED: [(&str, Of, f64, f64); 32] = [
    ("spark/overcommit/medium", Of::LessTime, 9.28, 11.19),
    ("spark/overcommit/high", Of::LessTime, 12.20, 14.93),
    ("mariadb/overcommit/medium", Of::More, 5.24, 10.71),
    ("mariadb/overcommit/high", Of::More, 20.22, 25.97),
    ("memcached/thp-always/sequential", Of::More, 23.54, 32.25),
    ("memcached/thp-always/random", Of::More, 20.76, 41.61),
    ("memcached/thp-always/gaussian", Of::More, 21.59, 30.02),
    ("memcached/thp-never/random", Of::More, 13.85, 15.97),
    ("memcached/thp-never/gaussian", Of::More, 23.94, 29.92),
    ("mongodb/underutilized/exponential", Of::More, 2.23, 3.44),
    ("mongodb/underutilized/random", Of::More, 6.97, 9.73),
    ("mongodb/underutilized/zipfian", Of::More, 2.16, 3.55),
    ("mongodb/overcommit/exponential", Of::More, 8.83, 10.03),
    ("mongodb/overcommit/random", Of::More, 21.12, 23.14),
    ("mongodb/overcommit/zipfian", Of::More, 5.53, 6.46),
    ("cassandra/swap-off/exponential", Of::More, 1.06, 4.10),
    ("cassandra/swap-off/random", Of::More, 1.94, 5.43),
    ("cassandra/swap-off/zipfian", Of::More, 4.11, 7.50),
    ("cassandra/swap-on/exponential", Of::More, 0.50, 2.60),
    ("cassandra/swap-on/random", Of::More, 6.51, 8.77),
    ("cassandra/swap-on/zipfian", Of::More, 3.29, 6.75),
    ("hadoop/swap-on/medium", Of::LessTime, 5.31, 9.69),
    ("hadoop/swap-on/high", Of::LessTime, 2.02, 7.86),
    ("postgresql/swap-off/high", Of::More, 1.75, 6.42),
    ("postgresql/swap-on/medium", Of::More, 12.82, 18.69),
    ("postgresql/swap-on/high", Of::More, 22.70, 46.86),
    ("redis/thp-always/sequential", Of::More, 0.58, 5.94),
    ("redis/thp-always/random", Of::More, 6.55, 14.58),
    ("redis/thp-always/gaussian", Of::More, 11.47, 19.36),
    ("redis/thp-never/sequential", Of::More, 1.27, 3.54),
    ("redis/thp-never/random", Of::More, 10.11, 14.81),
    ("redis/thp-never/gaussian", Of::More, 8.75, 13.64),
];

#[test]
fn every_row_of_the_seed_is_a_workload_with_its_interval() {
    let scenario = bundled("mglru");
    assert!(scenario.repeats >= 10);
    for (name, of, low, high) in SEED {
        assert!(scenario.workloads.iter().any(|workload| workload.name == name), "no workload {name}");
        let (metric, expected) = match of {
            Of::More => ("operations_per_second", (1.0 + low / 100.0, 1.0 + high / 100.0)),
            Of::LessTime => ("runtime_ns", (1.0 - high / 100.0, 1.0 - low / 100.0)),
        };
        let found = scenario.references.iter().find(|reference| reference.workload == name);
        let reference = found.unwrap_or_else(|| panic!("no reference for {name}"));
        assert_eq!((reference.metric.as_str(), reference.against.as_deref()), (metric, Some("classic")), "{name}");
        let interval = reference.interval().unwrap();
        let is_near = |one: f64, other: f64| (one - other).abs() < 5e-5;
        assert!(is_near(interval.0, expected.0) && is_near(interval.1, expected.1), "{name}: {interval:?}");
    }
    let eight = scenario.averages.iter().find(|average| average.name == "eight applications").unwrap();
    let names: BTreeSet<&str> = SEED.iter().map(|(name, ..)| *name).collect();
    assert_eq!(eight.workloads.iter().map(String::as_str).collect::<BTreeSet<_>>(), names);
}

/// One workload of each family (the name before the first `/`), one seed, 40 ms of each variant.
#[test]
fn each_scenario_runs() {
    for name in ["mglru", "mglru-features", "mglru-matrix", "mglru-tenants", "mglru-thrashing"] {
        let mut scenario = bundled(name);
        (scenario.repeats, scenario.until) = (1, Duration::from_ms(40));
        let mut families = BTreeSet::new();
        scenario
            .workloads
            .retain(|workload| families.insert(workload.name.split('/').next().unwrap_or_default().to_owned()));
        for node in &mut scenario.machine.nodes {
            // Filled within the available time.
            node.memory = isotherm_units::Bytes::from_mib(32);
        }
        scenario.averages.clear();
        let options = RunOptions { base_dir: "../..".into(), place: name.to_owned(), threads: None };
        let result = run(&scenario, &options, &()).unwrap_or_else(|error| panic!("{name}: {error}"));
        let variants: BTreeSet<&str> = result.rows.iter().map(|row| row.variant.as_str()).collect();
        assert!(variants.len() >= 2 && variants.contains("classic"), "{name}: {variants:?}");
        let reclaims = |row: &&isotherm_scenario::ResultRow| row.metric == "reclaim_cpu_ns" && row.mean > 0.0;
        let busy: BTreeSet<&str> = result.rows.iter().filter(reclaims).map(|row| row.variant.as_str()).collect();
        assert_eq!(busy, variants, "{name}: every variant has something to reclaim");
    }
}
