//! damo's configurations: every notation is read, round trips are exact, and errors name their place.

use std::path::Path;

use isotherm_trace::Result;
use isotherm_trace::region::kdamonds::{
    AccessPattern, AccessUnit, AddressRange, AgeUnit, Bounds, Context, Destination, Kdamond, Kdamonds, Limit,
    MonitorIntervals, Probe, ProbeFilter, QuotaGoal, Quotas, SampleControl, SampleFilter, Scheme, SchemeFilter, Target,
    Watermarks, parse_kdamonds, print_kdamonds, read_kdamonds, write_kdamonds,
};
use isotherm_trace::region::{IntervalsGoal, Warning};
use proptest::prelude::*;

fn data(name: &str) -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/damo").join(name)
}

fn parse(text: &str) -> Result<(Kdamonds, Vec<Warning>)> {
    parse_kdamonds(Path::new("k"), text)
}

fn error(text: &str) -> String {
    parse(text).unwrap_err().to_string()
}

fn one(context: Context) -> Kdamonds {
    Kdamonds { kdamonds: vec![Kdamond { refresh_ns: 0, contexts: vec![context] }] }
}

/// The output of `tests/differential/damo_records.py make-kdamonds`, by hand.
fn damo_s_configuration() -> Kdamonds {
    let scheme = Scheme {
        action: "pageout".into(),
        pattern: AccessPattern {
            accesses: Bounds { min: Limit::At(0), max: Limit::At(0) },
            age: Bounds { min: Limit::At(120_000_000_000), max: Limit::Max },
            ..AccessPattern::default()
        },
        quotas: Quotas {
            bytes: 100 << 20,
            reset_interval_ns: Limit::At(1_000_000_000),
            weight_size_ppm: 1000,
            weight_accesses_ppm: 1000,
            weight_age_ppm: 1000,
            goals: vec![QuotaGoal { metric: "some_mem_psi_us".into(), target_value: 10_000, ..QuotaGoal::default() }],
            ..Quotas::default()
        },
        watermarks: Watermarks {
            metric: "free_mem_rate".into(),
            interval_ns: 5_000_000_000,
            high_ppm: 500_000,
            mid_ppm: 400_000,
            low_ppm: 200_000,
        },
        filters: vec![
            SchemeFilter { filter_type: "anon".into(), matching: true, allow: true, ..SchemeFilter::default() },
            SchemeFilter {
                filter_type: "hugepage_size".into(),
                matching: true,
                allow: true,
                hugepage_bytes: Some(Bounds { min: Limit::At(2 << 20), max: Limit::At(1 << 30) }),
                ..SchemeFilter::default()
            },
        ],
        ..Scheme::default()
    };
    let goal = IntervalsGoal {
        access_ppm: 40_000,
        nr_aggregations: 3,
        min_sample_ns: 5_000_000,
        max_sample_ns: 10_000_000_000,
    };
    one(Context {
        operations: "paddr".into(),
        targets: vec![Target { regions: vec![AddressRange { start: 4096, end: 26_843_545_600 }], ..Target::default() }],
        intervals: MonitorIntervals { goal, ..MonitorIntervals::default() },
        schemes: vec![scheme],
        ..Context::default()
    })
}

#[test]
fn files_of_damo_are_read() {
    let (kdamonds, warnings) = read_kdamonds(data("kdamonds.json")).unwrap();
    assert_eq!(kdamonds, damo_s_configuration());
    assert_eq!(warnings, []);
}

#[test]
fn absent_keys_have_damo_s_defaults() {
    let (kdamonds, warnings) = parse(r#"{"kdamonds": [{"contexts": [{"ops": "vaddr"}]}]}"#).unwrap();
    assert_eq!(kdamonds, one(Context { operations: "vaddr".into(), ..Context::default() }));
    assert_eq!(warnings, []);
    let text =
        r#"{"kdamonds": [{"contexts": [{"ops": "vaddr", "targets": [{"pid": 42}], "schemes": [{}], "odd": 1}]}]}"#;
    let (kdamonds, warnings) = parse(text).unwrap();
    let context = &kdamonds.kdamonds[0].contexts[0];
    assert_eq!((context.targets[0].pid, &context.schemes[0]), (Some(42), &Scheme::default()));
    assert_eq!(warnings, [Warning::UnknownKey { key: "kdamonds[0].contexts[0].odd".into() }]);
}

#[test]
fn units_of_values_and_of_keys() {
    let context = |context: &str| {
        let (kdamonds, _) =
            parse(&format!(r#"{{"kdamonds": [{{"contexts": [{{"ops": "x", {context}}}]}}]}}"#)).unwrap();
        kdamonds.kdamonds[0].contexts[0].clone()
    };
    // The key's suffix is the unit only of a bare number.
    for (text, sample_ns) in [("5000", 5_000_000), ("\"5 ms\"", 5_000_000), ("\"5,000\"", 5_000_000), ("\"7 ns\"", 7)] {
        let found = context(&format!(r#""intervals": {{"sample_us": {text}}}"#));
        assert_eq!((found.intervals.sample_ns, found.intervals.aggregation_ns), (sample_ns, 100_000_000), "{text}");
    }
    for (text, ppm) in [("1", 1000), ("\"0.1 %\"", 1000), ("1.5", 1500), ("\"50%\"", 500_000)] {
        let found = context(&format!(r#""schemes": [{{"quotas": {{"weights": {{"sz_permil": {text}}}}}}}]"#));
        assert_eq!(found.schemes[0].quotas.weight_size_ppm, ppm, "{text}");
    }
    let pattern =
        |pattern: &str| context(&format!(r#""schemes": [{{"access_pattern": {pattern}}}]"#)).schemes[0].pattern;
    let found =
        pattern(r#"{"nr_accesses": {"min": "3 samples", "max": "max"}, "age": {"min": "1,000 aggr_intervals"}}"#);
    assert_eq!((found.access_unit, found.age_unit), (AccessUnit::Samples, AgeUnit::Aggregations));
    assert_eq!((found.accesses.min, found.accesses.max, found.age.min), (Limit::At(3), Limit::Max, Limit::At(1000)));
    // damo's notation for "no limit".
    let found = pattern(r#"{"nr_accesses": {"min": "0 %", "max": "18,446,744,073,709,551,615 %"}}"#);
    assert_eq!(found.accesses, Bounds::default());
    // Names from older versions.
    let found = context(
        r#""schemes": [{"filters": [{"filter_type": "anon", "matching": "yes", "filter_pass": true}],
          "quotas": {"reset_interval_ms": 5, "goals": [{"target_value_bp": "7", "current_value_bp": 1}]}}]"#,
    );
    assert!(found.schemes[0].filters[0].allow && found.schemes[0].filters[0].matching);
    assert_eq!(found.schemes[0].quotas.goals[0].target_value, 7);
    assert_eq!(found.schemes[0].quotas.reset_interval_ns, Limit::At(5_000_000));
}

#[test]
fn what_is_wrong_is_named_with_its_place() {
    let context = |context: &str| format!(r#"{{"kdamonds": [{{"contexts": [{{"ops": "x", {context}}}]}}]}}"#);
    let table = [
        (String::new(), "it is empty"),
        ("[5]".to_owned(), "[0]: 5 where an object"),
        ("hello".to_owned(), "line 1: not JSON"),
        ("5".to_owned(), "5 where an object"),
        ("{}".to_owned(), "kdamonds: it is missing"),
        (r#"{"kdamonds": 5}"#.to_owned(), "kdamonds: 5 where a list should be"),
        (r#"{"kdamonds": [{}]}"#.to_owned(), "kdamonds[0].contexts: it is missing"),
        (r#"{"kdamonds": [{"contexts": [{}]}]}"#.to_owned(), "kdamonds[0].contexts[0].ops: it is missing"),
        (r#"{"kdamonds": [{"contexts": [7]}]}"#.to_owned(), "7 where an object with keys should be"),
        (context(r#""intervals": {"aggr_us": "5 parsecs"}"#), "intervals.aggr_us: `5 parsecs` is not a number"),
        (context(r#""nr_regions": {"min": 10, "max": "3"}"#), "nr_regions: min 10 is above max 3"),
        (context(r#""targets": [{"regions": [{"start": "5", "end": "4"}]}]"#), "regions[0]: from 5 to 4"),
        (context(r#""targets": [{"pid": 99999999999}]"#), "targets[0].pid: 99999999999 is no process id"),
        (context(r#""addr_unit": 0"#), "addr_unit: 0; an address must count"),
        (context(r#""pause": 7"#), "pause: 7 where true or false should be"),
        (context(r#""schemes": [{"quotas": {"goals": [{"metric": "user_input"}]}}]"#), "needs `reset_interval_ms`"),
        (
            context(r#""schemes": [{"access_pattern": {"age": {"min": "5 s", "max": "7 aggr_intervals"}}}]"#),
            "both in aggr_intervals or both in a unit of time",
        ),
        (context(r#""schemes": [{"access_pattern": {"sz_bytes": {"min": "8 K", "max": "4 K"}}}]"#), "min is above max"),
        (context(r#""schemes": [{"filters": [{}]}]"#), "filters[0].filter_type: it is missing"),
        (
            context(r#""schemes": [{"filters": [{"filter_type": "hugepage_size", "hugepage_size": ["2 M"]}]}]"#),
            "not two numbers",
        ),
        ("{\"kdamonds\": [\n{".to_owned(), "line 2: the file ends inside its JSON"),
        ("kdamonds:\n- contexts:".to_owned(), "it is YAML. `damo args damon FILE.yaml --format json` makes JSON of it"),
        ("# mine\n---\n{}".to_owned(), "it is YAML"),
        ("- contexts:\n  - ops: vaddr".to_owned(), "it is YAML"),
    ];
    for (text, part) in table {
        let error = error(&text);
        assert!(error.contains(part), "{text}\n{error}");
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("k");
    std::fs::write(&path, b"kdamonds: \xff").unwrap();
    assert!(read_kdamonds(&path).unwrap_err().to_string().contains("damaged at byte 10: not UTF-8"));
    std::fs::write(&path, vec![b' '; (16 << 20) + 1]).unwrap();
    assert!(read_kdamonds(&path).unwrap_err().to_string().contains("more than 16 MiB"));
}

#[test]
fn every_truncation_and_deep_nesting_are_survived() {
    let text = std::fs::read_to_string(data("kdamonds.json")).unwrap();
    for cut in 0..text.len() {
        assert!(parse(&text[..cut]).is_err(), "cut at {cut}");
    }
    for at in (0..text.len()).step_by(5) {
        let mut bytes = text.clone().into_bytes();
        bytes[at] ^= 0x15;
        let _ = String::from_utf8(bytes).map(|text| parse(&text));
    }
    assert!(parse(&format!("{{\"kdamonds\": {}", "[".repeat(1 << 20))).is_err());
}

fn any_configuration() -> impl Strategy<Value = Kdamonds> {
    let word = || "[a-z_]{1,9}|[0-9]{1,3}|true|null|~|y: z|- x|#c|1e5|0x10|''|é\"";
    let limit = || prop_oneof![(0u64..1 << 62).prop_map(Limit::At), Just(Limit::Max)];
    let bounds =
        move || (limit(), limit()).prop_map(|(left, right)| Bounds { min: left.min(right), max: left.max(right) });
    let pattern = (bounds(), bounds(), bounds(), any::<bool>(), any::<bool>());
    let pattern = pattern.prop_map(|(bytes, accesses, age, samples, aggregations)| AccessPattern {
        bytes,
        accesses,
        access_unit: if samples { AccessUnit::Samples } else { AccessUnit::Ppm },
        age,
        age_unit: if aggregations { AgeUnit::Aggregations } else { AgeUnit::Nanoseconds },
    });
    let number = || 0u64..1 << 62;
    let text = move || proptest::option::of(word());
    (word(), pattern, number(), number(), text(), any::<bool>(), limit(), bounds()).prop_map(
        |(word, pattern, number, other, text, flag, limit, bounds)| {
            // Bounds without any limit carry no unit.
            let unlimited = |bounds: Bounds| bounds.min == Limit::Max && bounds.max == Limit::Max;
            let mut pattern = pattern;
            if unlimited(pattern.accesses) {
                pattern.access_unit = AccessUnit::Ppm;
            }
            if unlimited(pattern.age) {
                pattern.age_unit = AgeUnit::Nanoseconds;
            }
            let quotas = Quotas {
                time_ns: number,
                bytes: other,
                reset_interval_ns: limit,
                weight_size_ppm: number,
                fail_charge_numerator: other,
                goals: vec![QuotaGoal {
                    metric: "user_input".into(),
                    complement: flag,
                    nid: flag.then_some(other),
                    memcg_path: text.clone(),
                    target_value: number,
                    current_value: other,
                }],
                goal_tuner: word.clone(),
                effective_bytes: other,
                ..Quotas::default()
            };
            let filter = SchemeFilter {
                filter_type: word.clone(),
                matching: flag,
                allow: !flag,
                memcg_path: text.clone(),
                address_range: flag.then_some(AddressRange { start: number, end: number + 1 }),
                target_index: flag.then_some(other),
                hugepage_bytes: flag.then_some(bounds),
                probe_hits: flag.then_some(bounds),
            };
            let scheme = Scheme {
                action: word.clone(),
                target_nid: flag.then_some(other),
                destinations: vec![Destination { id: number, weight: other }],
                pattern,
                apply_interval_ns: number,
                quotas,
                watermarks: Watermarks {
                    metric: word.clone(),
                    interval_ns: other,
                    high_ppm: number,
                    ..Watermarks::default()
                },
                filters: vec![filter],
                max_nr_snapshots: other,
            };
            let probe_filter =
                ProbeFilter { filter_type: word.clone(), matching: flag, allow: !flag, path: text.clone() };
            let sample_filter = SampleFilter {
                filter_type: word.clone(),
                matching: flag,
                allow: flag,
                cpumask: text.clone(),
                threads: text.clone(),
            };
            let context = Context {
                operations: word.clone(),
                address_unit_bytes: number.max(1),
                targets: vec![Target { pid: flag.then_some(7), obsolete: flag, regions: vec![] }],
                intervals: MonitorIntervals { sample_ns: number, aggregation_ns: other, ..MonitorIntervals::default() },
                min_regions: number.min(other),
                max_regions: number.max(other),
                probes: vec![Probe { preparations: vec![word], filters: vec![probe_filter], weight: number }],
                sample_control: SampleControl {
                    page_fault: flag,
                    filters: vec![sample_filter],
                    ..SampleControl::default()
                },
                pause: flag,
                schemes: vec![scheme],
            };
            Kdamonds { kdamonds: vec![Kdamond { refresh_ns: other, contexts: vec![context] }] }
        },
    )
}

proptest! {
    #[test]
    fn what_is_written_reads_the_same(kdamonds in any_configuration()) {
        let text = print_kdamonds(&kdamonds);
        let (found, warnings) = parse(&text).map_err(|error| TestCaseError::fail(format!("{error}\n{text}")))?;
        prop_assert_eq!(&found, &kdamonds, "{}", text);
        prop_assert_eq!(warnings, []);
    }

    #[test]
    fn any_text_is_survived(text in ".{0,200}") {
        let _ = parse(&text);
        let _ = parse(&format!("{{\"kdamonds\": [{{\"contexts\": {text}}}]}}"));
    }
}

#[test]
fn files_are_written() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("k");
    write_kdamonds(&path, &damo_s_configuration()).unwrap();
    assert_eq!(read_kdamonds(&path).unwrap().0, damo_s_configuration());
}

/// What `damo schemes` takes.
#[test]
fn a_list_of_schemes_alone_is_read() {
    let scheme = r#"{"action": "pageout", "access_pattern": {"age": {"min": "5 s", "max": "max"}}}"#;
    let (kdamonds, warnings) = parse(&format!("[{scheme}, {scheme}]")).unwrap();
    let context = &kdamonds.kdamonds[0].contexts[0];
    assert_eq!((context.operations.as_str(), context.schemes.len(), warnings.len()), ("vaddr", 2, 0));
    assert_eq!(context.schemes[0].pattern.age.min, Limit::At(5_000_000_000));
    let (_, warnings) = parse(r#"[{"action": "pageout"}, {"contexts": []}]"#).unwrap();
    assert!(matches!(&warnings[..], [Warning::UnknownKey { key }] if key == "[1].contexts"), "{warnings:?}");
    let refused = error(r#"[{"action": "pageout"}, 7]"#);
    assert!(refused.contains("[1]"), "{refused}");
}
