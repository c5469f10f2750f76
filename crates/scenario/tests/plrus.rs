//! The bundled scenario `plrus`: that it matches the published evaluation, and small plays of it. Its tables are in
//! `docs/evidence/plrus.md`.

use isotherm_core::presets::Preset;
use isotherm_kernel::swap::device::DeviceKind;
use isotherm_scenario::{BUNDLED, LimitValue, RunOptions, Scenario, ScenarioResult, parse, run};
use isotherm_units::{Amount, Duration, Ratio};
use isotherm_workload::{MasimSpec, WorkloadSpec};

fn bundled() -> Scenario {
    let found = BUNDLED.iter().find(|bundled| bundled.name == "plrus").expect("it is bundled");
    parse(found.text, "plrus").unwrap_or_else(|error| panic!("{error}"))
}

/// docs/spec/schemes.md#s13: 75 % of peak for 1 s, 200 % for 10 s, repeated; zram; 25 runs; schemes on all physical memory.
#[test]
fn it_is_set_up_as_the_series_was() {
    let scenario = bundled();
    assert_eq!((scenario.repeats, scenario.machine.swap.device), (25, DeviceKind::Zram.into()));
    assert!(scenario.workloads.len() >= 10);
    assert!(scenario.workloads.iter().all(|workload| workload.cgroup.as_deref() == Some("/run")));
    let pressure: Vec<_> = scenario
        .events
        .iter()
        .map(|event| (event.at, event.every, event.set.as_ref().expect("limits only").max.expect("of all memory")))
        .collect();
    let share = |percent| LimitValue::Amount(Amount::Share(Ratio::from_percent(percent)));
    let cycle = Some(Duration::from_secs(11));
    assert_eq!(pressure, [(Duration::ZERO, cycle, share(75)), (Duration::from_secs(1), cycle, share(200))]);
    assert!(scenario.monitors.is_empty(), "`orig` and `mprs` have no schemes");
    let plrus = scenario.variants.iter().find(|variant| variant.name == "plrus").expect("a variant");
    assert_eq!(plrus.patch["monitors"][0]["preset"].as_str(), Some("plrus-radical"));
    let setup = "plrus-radical".parse::<Preset>().expect("a preset").setup().expect("its defaults");
    assert_eq!(setup.range, None, "all of memory");
    let wanted = ["runtime_ns", "major_faults", "psi_some_ns", "kdamond_cpu_ratio"];
    assert!(wanted.iter().all(|metric| scenario.metrics.iter().any(|named| named == metric)));
}

/// Two small programs in its place, on cycles a twentieth as long.
fn small() -> Scenario {
    let mut scenario = bundled();
    let configs = [
        ("frames", "state, 8388608\nscene, 25165824\n\nframes\n1500\nstate, 0, 4096, 999, rw\nscene, 1, 0, 1, ro"),
        (
            "transform",
            "a, 8388608\nb, 8388608\n\na\n500\na, 0, 4096, 1, rw\n\ncopy\n250\na, 0, 4096, 1, ro\nb, 0, 4096, 1, wo\n\n\
             b\n500\nb, 0, 4096, 1, rw",
        ),
    ];
    scenario.workloads.retain(|workload| configs.iter().any(|(name, _)| workload.name == *name));
    for (workload, (name, config)) in scenario.workloads.iter_mut().zip(configs) {
        let WorkloadSpec::Masim(spec) = &mut workload.load else { panic!("{name} is not masim's") };
        *spec = MasimSpec { config: Some(config.to_owned()), repeat: 1, ..spec.clone() };
    }
    scenario.repeats = 2;
    for (event, at_ms) in scenario.events.iter_mut().zip([0, 50]) {
        (event.at, event.every) = (Duration::from_ms(at_ms), Some(Duration::from_ms(550)));
    }
    scenario.machine.nodes[0].memory = isotherm_units::Bytes::from_mib(128);
    scenario.variants.retain(|variant| ["orig", "mprs", "plrus", "lru-sort-awake"].contains(&variant.name.as_str()));
    for variant in &mut scenario.variants {
        variant.patch.remove("repeats");
    }
    scenario
}

fn play(scenario: &Scenario) -> ScenarioResult {
    let options = RunOptions { base_dir: "../..".into(), place: "plrus".to_owned(), threads: Some(2) };
    run(scenario, &options, &()).unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn small_plays_have_the_rows_that_the_tables_are_made_of() {
    let result = play(&small());
    let mean = |workload: &str, variant: &str, metric: &str| {
        result.row(workload, variant, metric).unwrap_or_else(|| panic!("{workload} {variant} {metric}")).mean
    };
    for metric in ["runtime_ns", "major_faults", "psi_some_ns"] {
        for variant in ["orig", "mprs", "plrus"] {
            let by_hand = (mean("frames", variant, metric) + mean("transform", variant, metric)) / 2.0;
            let row = mean("average", variant, metric);
            assert!((row - by_hand).abs() <= by_hand * 1e-12, "{variant} {metric}: {row} is not {by_hand}");
        }
        assert!(mean("average", "mprs", metric) > mean("average", "orig", metric), "{metric} does not feel pressure");
    }
    assert_eq!(mean("average", "orig", "major_faults"), 0.0);
    let of = |workload: &str, variant: &str, metric: &str| {
        result.ratios.iter().find(|row| (&*row.workload, &*row.variant, &*row.metric) == (workload, variant, metric))
    };
    let references = [("runtime_ns", 0.963), ("major_faults", 0.858), ("psi_some_ns", 0.896)];
    for (metric, reference) in references {
        let ratio = of("average", "plrus", metric).unwrap_or_else(|| panic!("no ratio of {metric}"));
        assert_eq!((ratio.against.as_str(), ratio.reference, ratio.n), ("mprs", Some(reference), 2));
        assert!(ratio.ci95_low.is_some());
        assert!(of("average-of-ratios", "plrus", metric).is_some());
    }
    assert_eq!(of("average", "mprs", "runtime_ns").and_then(|ratio| ratio.reference), Some(1.5407));
    let kdamond = result.row("average", "plrus", "kdamond_cpu_ratio").expect("plrus has a monitor");
    assert_eq!(kdamond.reference, Some(0.0261));
    assert!(kdamond.mean > 0.0 && kdamond.mean < 0.2, "{}", kdamond.mean);
    assert!(result.row("average", "mprs", "kdamond_cpu_ratio").is_none(), "without a monitor there is nothing to tell");
}

/// The careful defaults on a machine without pressure, even where watermarks never switch them off.
#[test]
fn careful_defaults_do_no_harm() {
    let result = play(&small());
    let quiet = |row: &&isotherm_scenario::RatioRow| row.variant == "lru-sort-awake" && row.metric == "runtime_ns";
    let ratios: Vec<_> = result.ratios.iter().filter(quiet).collect();
    assert_eq!(ratios.len(), 4, "two workloads, two averages");
    for ratio in ratios {
        assert!((ratio.mean - 1.0).abs() < 0.005, "{}: {}", ratio.workload, ratio.mean);
    }
}
