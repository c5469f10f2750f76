//! Records of damo and of the kernel's text: contents are read exactly, and errors are reported.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use isotherm_trace::region::{
    ContextMeta, Intervals, IntervalsGoal, OpenOptions, RecordForm, RecordFormat, RecordMeta, Region, RegionStore,
    RegionWriter, SchemeStats, Snapshot, TargetMeta, Warning,
};
use isotherm_trace::{Result, TraceError};
use proptest::prelude::*;

const INTERVALS: Intervals = Intervals::new(5_000_000, 100_000_000, 1_000_000_000);

fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/damo").join(name)
}

fn with_file<T>(bytes: &[u8], read: impl FnOnce(&Path) -> T) -> T {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(bytes).unwrap();
    read(file.path())
}

fn open_text(text: &str, options: OpenOptions) -> Result<(RegionStore, Vec<Snapshot>)> {
    with_file(text.as_bytes(), |path| {
        let mut store = RegionStore::open_with(path, options)?;
        let all = store.read_all()?;
        Ok((store, all))
    })
}

fn open(text: &str) -> Result<(RegionStore, Vec<Snapshot>)> {
    open_text(text, OpenOptions::default())
}

fn error(text: &str) -> String {
    open(text).unwrap_err().to_string()
}

fn zlib(text: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::default());
    encoder.write_all(text).unwrap();
    encoder.finish().unwrap()
}

/// The output of `tests/differential/damo_records.py`, by hand.
fn damo_s_record() -> Vec<Snapshot> {
    let mut all = Vec::new();
    for target in 0..2u32 {
        for index in 0..3u32 {
            let base = 94_827_419_009_024 + u64::from(target) * (1 << 40);
            let region = |start: u64, pages: u64, nr_accesses, age| Region {
                start,
                end: start + pages * 4096,
                nr_accesses,
                age: Some(age),
                ..Region::default()
            };
            all.push(Snapshot {
                number: u64::from(target * 3 + index),
                target,
                time_ns: 100_952_251_360_000 + u64::from(index + 1) * 100_000_000,
                duration_ns: Some(100_000_000),
                intervals: INTERVALS,
                stats: None,
                regions: vec![
                    region(base, 10, 20 - index, 5 + index),
                    region(base + 10 * 4096, 1000, 0, 100 + index),
                    region(base + (1 << 30), 77, 3 * target, 0),
                ],
            });
        }
    }
    all
}

#[test]
fn files_of_damo_are_read() {
    let goal = IntervalsGoal {
        access_ppm: 40_000,
        nr_aggregations: 3,
        min_sample_ns: 5_000_000,
        max_sample_ns: 10_000_000_000,
    };
    for (name, form) in [("record.json", RecordForm::DamoJson), ("record.data", RecordForm::DamoJsonCompressed)] {
        let mut store = RegionStore::open(data(name)).unwrap();
        assert_eq!((store.form(), store.warnings()), (form, &[][..]), "{name}");
        assert_eq!(store.read_all().unwrap(), damo_s_record(), "{name}");
        let meta = store.meta();
        assert_eq!((meta.snapshots, meta.regions, meta.targets.len(), meta.contexts.len()), (6, 18, 2, 1));
        assert_eq!(meta.contexts[0].intervals_goal, Some(goal));
        assert_eq!(meta.targets[1].id, Some(1));
    }
    let mut store = RegionStore::open_with(data("record.txt"), OpenOptions { intervals: INTERVALS }).unwrap();
    assert_eq!(store.form(), RecordForm::TraceText);
    assert_eq!(store.warnings(), [Warning::DurationsDeduced { snapshots: 6 }]);
    assert_eq!(store.read_all().unwrap(), damo_s_record());
    let store = RegionStore::open(data("record.txt")).unwrap();
    assert!(store.warnings().contains(&Warning::NoIntervals));
}

#[test]
fn older_and_stranger_json_is_read() {
    // docs/spec/formats.md (a): only target_id and snapshots; a kernel address as id; times without units; keys in any order.
    let text = r#"[{"snapshots": [
      {"end_time": "1 m 5 s", "start_time": "539809434100", "regions": [], "new": {"x": [1]}}], "target_id": null}]"#;
    assert!(error(text).contains("start_time is after end_time"));
    let text = r#"[{"snapshots": [{"start_time": "539809434100", "end_time": "539914032967", "regions": [
        {"start": "94,827,423,150,080", "end": "94,827,423,150,081",
         "nr_accesses": {"samples": 3.0, "percent": null}, "age": {"usec": null, "aggr_intervals": null}},
        {"start": "94,827,419,009,024", "end": "94,827,423,150,080", "probe_hits": [1, "2", 3, 4, 5],
         "nr_accesses": {"samples": 0, "percent": null}, "sz_filter_passed": "143.027 MiB"}]}],
       "target_id": 18446623438842320000}]"#;
    let (store, all) = open(text).unwrap();
    assert_eq!(store.meta().targets[0].id, Some(18_446_623_438_842_320_000));
    let expected = [
        Warning::NoIntervals,
        Warning::NoAges { regions: 2 },
        Warning::Rounded { values: 1 },
        Warning::Sorted { snapshots: 1 },
        Warning::ProbesLeftOut { regions: 1 },
    ];
    assert_eq!(store.warnings(), expected);
    assert_eq!((all[0].time_ns, all[0].duration_ns), (539_914_032_967, Some(104_598_867)));
    let first = Region {
        start: 94_827_419_009_024,
        end: 94_827_423_150_080,
        probe_hits: [1, 2, 3, 4],
        filter_passed_bytes: 149_974_679,
        ..Region::default()
    };
    assert_eq!(all[0].regions[0], first);
    assert_eq!(all[0].regions[1].nr_accesses, 3);
    assert_eq!(all[0].intervals, Intervals::default());

    // docs/spec/formats.md (b): a snapshot with its scheme; counts in percent and ages in time, which intervals convert to ours.
    let text = r#"[{"kdamond_idx": 1, "context_idx": 2, "intervals": {"sample_us": "150000", "aggr_us": "3 s",
        "ops_update_us": "1000000"}, "scheme_idx": 3, "target_id": null,
        "scheme_filters": [{"filter_type": "anon", "matching": true, "allow": true}], "data_source": "damon_stat",
        "snapshots": [{"start_time": "1748191726781395200", "end_time": "1748191729781395200", "regions": [
          {"start": "0", "end": "4 K", "nr_accesses": {"percent": "50 %"}, "age": {"usec": "9,000,001", "aggr_intervals": null}}],
          "total_bytes": "4.000 KiB", "damos_stats": {"nr_tried": "1,000", "sz_tried": "1.5 GiB", "qt_exceeds": "7"},
          "sample_interval_us": "75000"}]}]"#;
    let (store, all) = open(text).unwrap();
    assert_eq!(store.warnings(), [Warning::Rounded { values: 1 }, Warning::Converted { values: 2 }]);
    let (context, target) = (store.meta().context_of(0), &store.meta().targets[0]);
    assert_eq!((context.kdamond, context.context, target.scheme, target.id), (1, 2, Some(3), None));
    assert_eq!((target.scheme_filters.len(), target.data_source.as_deref()), (1, Some("damon_stat")));
    assert_eq!(all[0].intervals, Intervals::new(75_000_000, 3_000_000_000, 1_000_000_000));
    let stats = SchemeStats { nr_tried: 1000, tried_bytes: 3 << 29, nr_quota_exceeded: 7, ..SchemeStats::default() };
    assert_eq!(all[0].stats, Some(stats));
    // Half of 3 s / 75 ms = 40 samples; 9.000001 s in aggregations of 3 s.
    assert_eq!(all[0].regions[0], Region { end: 4096, nr_accesses: 20, age: Some(3), ..Region::default() });

    // The placeholder after an only snapshot is no snapshot.
    let stand_in = r#"{"start_time": 2, "end_time": 3, "regions": [{"start": "0", "end": "0",
        "nr_accesses": {"samples": -1, "percent": null}, "age": {"usec": null, "aggr_intervals": "-1"}}]}"#;
    let (store, all) = open(&format!("[{{\"target_id\": 0, \"snapshots\": [{stand_in}]}}]")).unwrap();
    assert_eq!((all.len(), store.meta().snapshots), (0, 0));
}

#[test]
fn json_that_lacks_something_says_what() {
    let region = |region: &str| {
        format!(
            "[{{\"target_id\": 0, \"snapshots\": [{{\"start_time\": 0, \"end_time\": 5, \"regions\": [{region}]}}]}}]"
        )
    };
    let table = [
        ("{}".to_owned(), "an empty object"),
        (r#"{"kdamonds": []}"#.to_owned(), "this is a configuration"),
        (r#"{"a": []}"#.to_owned(), "begins with `a`"),
        ("[1]".to_owned(), "record 0 of damo"),
        ("[{}]".to_owned(), "no list `snapshots`"),
        (r#"[{"snapshots": 5}]"#.to_owned(), "the list of snapshots of record 0"),
        (r#"[{"snapshots": [{"regions": []}]}]"#.to_owned(), "missing field `end_time`"),
        (r#"[{"snapshots": [{"end_time": 5}]}]"#.to_owned(), "missing field `regions`"),
        (r#"[{"snapshots": [{"end_time": null, "regions": []}]}]"#.to_owned(), "end_time is missing or null"),
        (r#"[{"snapshots": [{"end_time": "5 parsecs", "regions": []}]}]"#.to_owned(), "units ns, us, ms"),
        (r#"[{"intervals": {"sample_us": 0, "aggr_us": 5}, "snapshots": []}]"#.to_owned(), "sample_us is 0"),
        (r#"[{"intervals": {"sample_us": 0}, "snapshots": []}]"#.to_owned(), "missing field `aggr_us`"),
        (
            r#"[{"snapshots": [{"end_time": 5, "regions": []}, {"end_time": 4, "regions": []}]}]"#.to_owned(),
            "record 0, snapshot 1: it ends at 4 ns",
        ),
        (region(r#"{"end": 5}"#), "missing field `start`"),
        (region(r#"{"start": null, "end": 5, "nr_accesses": {}}"#), "region 0: start is null"),
        (region(r#"{"start": 1, "end": 5}"#), "region 0: it has no nr_accesses"),
        (region(r#"{"start": 1, "end": 5, "nr_accesses": {}}"#), "neither samples nor percent"),
        (
            region(r#"{"start": 1, "end": 5, "nr_accesses": {"percent": 5}}"#),
            "has no intervals to turn that into samples",
        ),
        (region(r#"{"start": 1, "end": 5, "nr_accesses": {"samples": -1}}"#), "negative"),
        (region(r#"{"start": 1, "end": 5, "nr_accesses": {"samples": 4294967296}}"#), "at most 2^32 - 1"),
        (region(r#"{"start": 5, "end": 5, "nr_accesses": {"samples": 1}}"#), "above its start"),
        (
            region(r#"{"start": 1, "end": 5, "nr_accesses": {"samples": 1}, "age": {"usec": 5}}"#),
            "no aggregation interval to turn that into a count",
        ),
        (
            region(
                r#"{"start": 1, "end": 5, "nr_accesses": {"samples": 1}}, {"start": 4, "end": 6,
            "nr_accesses": {"samples": 1}}"#,
            ),
            "may not overlap",
        ),
        ("[] []".to_owned(), "trailing"),
    ];
    for (text, part) in table {
        let error = error(&text);
        assert!(error.contains(part), "{text}\n{error}");
    }
    // Missing settings can be given.
    let text = region(r#"{"start": 1, "end": 5, "nr_accesses": {"percent": 5}}"#);
    let (_, all) = open_text(&text, OpenOptions { intervals: INTERVALS }).unwrap();
    assert_eq!((all[0].regions[0].nr_accesses, all[0].intervals), (1, INTERVALS));
}

fn line(time: &str, target: u64, count: u64, region: &str) -> String {
    format!("kdamond.0  4452 [000] {time}: damon:damon_aggregated: target_id={target} nr_regions={count} {region}\n")
}

#[test]
fn text_is_put_together_to_snapshots() {
    // Two targets mixed; times within a snapshot differ, as in the kernel.
    let text = [
        line("1.000001", 0, 2, "0-10: 1"),
        line("1.000002", 0, 2, "10-20: 2"),
        line("1.000003", 1, 1, "5-6: 3"),
        line("1.100001", 0, 1, "0-20: 1"),
        line("1.300001", 0, 1, "0-20: 0"),
    ]
    .concat();
    let (store, all) = open(&text).unwrap();
    let found: Vec<_> = all.iter().map(|snapshot| (snapshot.target, snapshot.time_ns, snapshot.duration_ns)).collect();
    // The first is as long as the others on average: 300 ms / 2.
    let expected = [
        (0, 1_000_001_000, Some(150_000_000)),
        (1, 1_000_003_000, None),
        (0, 1_100_001_000, Some(100_000_000)),
        (0, 1_300_001_000, Some(200_000_000)),
    ];
    assert_eq!(found, expected);
    assert_eq!(store.warnings()[1], Warning::NoAges { regions: 5 });
    assert_eq!(store.meta().targets.len(), 2);

    // Other front ends, headers, other events; an only snapshot with damo's placeholder; tuning.
    let text = "cpus=4\n# tracer: nop\n\
        kdamond.3-9 [005] ..... 10.5: damon_monitor_intervals_tune: sample_us=10000\n\
        kdamond.3-9 [005] ..... 11.000000: damon_aggregated:     target_id=0 nr_regions=1 0-10: 7 505\n\
        kdamond.3-9 [005] ..... 11.000001: damos_esz: ctx_idx=0 scheme_idx=0 esz=7\n\
        kdamond.3-9 [005] ..... 11.200000: damon_aggregated:     target_id=0 nr_regions=1 0-0: -1 -1\n";
    let (store, all) = open_text(text, OpenOptions { intervals: INTERVALS }).unwrap();
    assert_eq!(store.warnings(), [Warning::DurationsDeduced { snapshots: 1 }, Warning::OtherLines { lines: 2 }]);
    assert_eq!(store.meta().contexts[0].kdamond, 3);
    assert_eq!((all[0].duration_ns, all[0].regions[0].age), (Some(200_000_000), Some(505)));
    assert_eq!(
        all[0].intervals,
        Intervals { update_ns: INTERVALS.update_ns, ..Intervals::new(10_000_000, 200_000_000, 1) }
    );

    // Probes: the richer event is used, and the plain one repeats it.
    let text = "k.0 1 [0] 1.0: damon:damon_aggregated: target_id=0 nr_regions=1 0-10: 7 5\n\
        k.0 1 [0] 1.0: damon:damon_region_aggregated: target_id=0 nr_regions=1 0-10: 7 5 03 0a\n";
    let (store, all) = open(text).unwrap();
    assert!(store.warnings().contains(&Warning::RepeatedLines { lines: 1 }));
    assert_eq!((all.len(), all[0].regions[0].probe_hits), (1, [3, 10, 0, 0]));
}

#[test]
fn lost_events_cost_their_snapshot_and_no_other() {
    let text = [
        line("1.0", 0, 2, "0-10: 1 1"),
        line("1.0", 0, 2, "10-20: 2 1"),
        line("2.0", 0, 3, "0-10: 1 1"),
        line("2.0", 0, 3, "15-20: 1 1"),
        line("3.0", 0, 2, "0-10: 1 1"),
        line("3.0", 0, 2, "10-20: 1 1"),
        line("4.0", 0, 2, "0-10: 1 1"),
        line("5.0", 0, 2, "0-10: 1 1"),
        line("5.0", 0, 2, "10-20: 1 1"),
        line("6.0", 0, 2, "0-10: 1 1"),
    ]
    .concat();
    let (store, all) = open(&text).unwrap();
    let times: Vec<u64> = all.iter().map(|snapshot| snapshot.time_ns / 1_000_000_000).collect();
    assert_eq!(times, [1, 3, 5]);
    assert!(store.warnings().contains(&Warning::IncompleteSnapshots { snapshots: 3, first_line: 3 }));
    // A last line without a line break may be cut anywhere.
    let (store, all) = open(text.trim_end()).unwrap();
    assert_eq!(all.len(), 3);
    assert!(store.warnings().contains(&Warning::LastLineCut { line: 10 }));
    let error = error(&[line("2.0", 0, 1, "0-10: 1 1"), line("1.0", 0, 1, "0-10: 1 1")].concat());
    assert!(error.contains("line 2: time goes back"), "{error}");
}

#[test]
fn the_configuration_beside_a_record_completes_it() {
    // As written by `damo record`: a list without the key `kdamonds`.
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("damon.data");
    std::fs::copy(data("record.txt"), &path).unwrap();
    let beside = folder.path().join("damon.data.kdamonds");
    let text = r#"[{"state": "on", "pid": "98414", "refresh_ms": 0, "contexts": [{"ops": "vaddr", "addr_unit": "1 B",
        "targets": [{"pid": 28077, "obsolete": false, "regions": []}, {"pid": 28078, "regions": []}],
        "nr_regions": {"min": "10", "max": "1,000"}}]}]"#;
    std::fs::write(&beside, text).unwrap();
    let mut store = RegionStore::open(&path).unwrap();
    assert_eq!(store.warnings(), [Warning::DurationsDeduced { snapshots: 6 }]);
    assert_eq!(store.read_all().unwrap(), damo_s_record());
    let (context, targets) = (store.meta().context_of(0), &store.meta().targets);
    assert_eq!((&*context.operations, context.max_regions), ("vaddr", Some(1000)));
    assert_eq!((targets[0].pid, targets[1].pid), (Some(28077), Some(28078)));
    // Given settings take precedence.
    let given = Intervals::new(1, 20, 300);
    assert_eq!(
        RegionStore::open_with(&path, OpenOptions { intervals: given }).unwrap().read_all().unwrap()[0].intervals,
        given
    );
    std::fs::write(&beside, "[").unwrap();
    let store = RegionStore::open(&path).unwrap();
    let warning = store.warnings().last().unwrap().to_string();
    assert!(warning.contains("damon.data.kdamonds") && warning.contains("cut off"), "{warning}");
}

#[test]
fn what_is_no_record_says_so() {
    let table: [(&[u8], &str); 12] = [
        (b"", "it is empty"),
        (b"\x1f\x8b\x08", "gunzip"),
        (b"\x28\xb5\x2f\xfd", "zstd -d"),
        (b"PERFILE2....", "perf script -i FILE"),
        (b"\x17\x08\x44tracing", "trace-cmd report -i FILE"),
        (b"ARROW1", "Feather"),
        (b"\x00\x01\x02", "binary data"),
        (b"hello\n", "without any line of these events"),
        (b"\n", "without any line of these events"),
        (b"kdamond.0 1 [0] damon:damon_aggregated: x\n", "line 1: before the event's name there is no time"),
        (b"{", "cut off"),
        (b"[nonsense", "line 1"),
    ];
    for (bytes, part) in table {
        let error = with_file(bytes, |path| RegionStore::open(path).unwrap_err()).to_string();
        assert!(error.contains(part), "{bytes:?}: {error}");
    }
    assert!(RegionStore::open(data("kdamonds.json")).is_err());
    assert_eq!(RecordFormat::of(Path::new("a/b.json")), Some(RecordFormat::Json));
    assert_eq!(RecordFormat::of(Path::new("a/b.doc")), None);
}

#[test]
fn every_truncation_is_survived() {
    for name in ["record.json", "record.data", "record.txt"] {
        let bytes = std::fs::read(data(name)).unwrap();
        let whole = RegionStore::open(data(name)).unwrap().read_all().unwrap();
        // Cuts of JSON are sampled, because one inside a number is like any other; the other formats are cut at every byte.
        let step = if name == "record.json" { 5 } else { 1 };
        for cut in (0..bytes.len()).step_by(step) {
            let found = with_file(&bytes[..cut], |path| RegionStore::open(path).and_then(|mut store| store.read_all()));
            match found {
                Ok(found) => {
                    assert_eq!(name, "record.txt", "cut at {cut}");
                    // Lengths are deduced from the remaining data; everything else is unchanged.
                    for (found, whole) in found.iter().zip(&whole) {
                        assert_eq!((&found.regions, found.time_ns), (&whole.regions, whole.time_ns), "cut at {cut}");
                    }
                }
                Err(error) => assert!(!error.to_string().is_empty()),
            }
        }
    }
}

#[test]
fn garbage_is_survived() {
    for name in ["record.json", "record.data", "record.txt"] {
        let bytes = std::fs::read(data(name)).unwrap();
        for at in (0..bytes.len()).step_by(7) {
            let mut bytes = bytes.clone();
            bytes[at] ^= 0x15;
            let _ = with_file(&bytes, |path| RegionStore::open(path).and_then(|mut store| store.read_all()));
        }
    }
}

#[test]
fn huge_input_is_survived() {
    // Nesting, long lines, large numbers, a zlib stream of a gigabyte of spaces.
    assert!(error(&"[".repeat(1 << 20)).contains("line 1"));
    let deep = format!("[{{\"x\": {}{}, \"snapshots\": []}}]", "[".repeat(100_000), "]".repeat(100_000));
    assert!(open(&deep).is_ok(), "what is passed over may be as deep as it likes");
    assert!(error(&"x".repeat(1 << 20)).contains("longer than 64 KiB"));
    assert!(error(&line("99999999999999999999.0", 0, 1, "0-1: 1")).contains("no time"));
    assert!(error(&line("1.0", 0, u64::MAX, "0-1: 1")).contains("nr_regions="));
    assert!(error(&line("1.0", 0, 5, "0-99999999999999999999: 1")).contains("`start-end:`"));
    let spaces = vec![b' '; 1 << 20];
    let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::fast());
    (0..64).for_each(|_| encoder.write_all(&spaces).unwrap());
    let bytes = encoder.finish().unwrap();
    assert!(with_file(&bytes, |path| RegionStore::open(path).unwrap_err()).to_string().contains("cut off"));
}

/// Writes `snapshots` in our format with `meta`, then in `format`, and reads that; damo's JSON also compressed.
fn through(
    format: RecordFormat,
    meta: &RecordMeta,
    snapshots: &[Snapshot],
) -> (RegionStore, Vec<Snapshot>, Vec<Warning>) {
    let folder = tempfile::tempdir().unwrap();
    let (own, foreign) = (folder.path().join("own"), folder.path().join("foreign"));
    let mut writer = RegionWriter::create_finished(&own, meta.clone()).unwrap();
    snapshots.iter().for_each(|snapshot| writer.push(snapshot).unwrap());
    writer.finish().unwrap();
    let warnings = RegionStore::open(&own).unwrap().write(&foreign, format).unwrap();
    let mut store = RegionStore::open(&foreign).unwrap();
    let all = store.read_all().unwrap();
    if format == RecordFormat::Json {
        let compressed = zlib(&std::fs::read(&foreign).unwrap());
        with_file(&compressed, |path| {
            let mut compressed = RegionStore::open(path).unwrap();
            assert_eq!((compressed.read_all().unwrap(), compressed.meta()), (all.clone(), store.meta()));
        });
    }
    (store, all, warnings)
}

#[test]
fn every_format_says_what_it_cannot_carry() {
    let mut meta = RecordMeta::single("vaddr", "app");
    meta.host = "here".into();
    let region = Region { start: 1, end: 2, level: 1, probe_hits: [1, 0, 0, 0], ..Region::default() };
    let snapshot = Snapshot { time_ns: 5, regions: vec![region], intervals: INTERVALS, ..Snapshot::default() };
    let texts = |warnings: Vec<Warning>| warnings.iter().map(Warning::to_string).collect::<Vec<_>>().join("\n");
    let lost = texts(through(RecordFormat::Json, &meta, std::slice::from_ref(&snapshot)).2);
    for part in ["levels", "command and host", "names and pids", "operations set"] {
        assert!(lost.contains(part), "{lost}");
    }
    assert!(!lost.contains("hits of probes"), "{lost}");
    assert_eq!(through(RecordFormat::Parquet, &meta, &[snapshot]).2, []);

    // Addresses in units larger than a byte are written in bytes, or not at all.
    meta.contexts[0].address_unit_bytes = 4096;
    let far = Region { start: 1 << 60, end: (1 << 60) + 1, ..Region::default() };
    let folder = tempfile::tempdir().unwrap();
    let (own, foreign) = (folder.path().join("own"), folder.path().join("foreign"));
    let mut writer = RegionWriter::create_finished(&own, meta.clone()).unwrap();
    writer.push(&Snapshot { regions: vec![far], ..Snapshot::default() }).unwrap();
    writer.finish().unwrap();
    let error = RegionStore::open(&own).unwrap().write(&foreign, RecordFormat::Json).unwrap_err();
    assert!(matches!(&error, TraceError::Unsupported { .. }) && error.to_string().contains("beyond 2^64"), "{error}");
    assert!(!foreign.exists() && std::fs::read_dir(folder.path()).unwrap().count() == 1, "nothing is left behind");
    let near = Region { start: 1, end: 3, ..Region::default() };
    let (_, all, _) = through(RecordFormat::Json, &meta, &[Snapshot { regions: vec![near], ..Snapshot::default() }]);
    assert_eq!((all[0].regions[0].start, all[0].regions[0].end), (4096, 12288));
}

#[test]
fn targets_that_damo_cannot_tell_apart_are_numbered() {
    let mut meta = RecordMeta::single("vaddr", "a");
    meta.targets.push(TargetMeta { name: "b".into(), ..meta.targets[0].clone() });
    let snapshot = |target, time_ns| {
        let regions = vec![Region { start: u64::from(target), end: 9, age: Some(1), ..Region::default() }];
        Snapshot { target, time_ns, duration_ns: Some(5), intervals: INTERVALS, regions, ..Snapshot::default() }
    };
    let snapshots = [snapshot(0, 50), snapshot(1, 45), snapshot(0, 55)];
    let (store, all, warnings) = through(RecordFormat::Json, &meta, &snapshots);
    assert_eq!((store.meta().targets.len(), all.len()), (2, 3));
    assert_eq!(store.meta().targets[1].id, Some(1));
    assert!(warnings.iter().any(|warning| warning.to_string().contains("not unique")));
}

/// What damo's JSON can carry, at random: contexts, schemes, ids, tuning of all three intervals, stats, gaps, no ages.
fn any_record() -> impl Strategy<Value = (RecordMeta, Vec<Snapshot>)> {
    let region = (0u64..1 << 40, 1u64..1 << 40, any::<u32>(), any::<Option<u32>>(), any::<[u32; 4]>(), any::<u64>());
    let regions = proptest::collection::vec(region, 0..5);
    let tuned = proptest::option::of((proptest::option::of(1u64..1 << 50), 1u64..1 << 50));
    let snapshot = (0u32..3, 1u64..1 << 40, proptest::option::of(1u64..1 << 30), tuned, any::<bool>(), regions);
    (proptest::collection::vec(snapshot, 1..20), any::<bool>()).prop_map(|(raw, known)| {
        let goal = IntervalsGoal { access_ppm: 40_001, nr_aggregations: 3, min_sample_ns: 1500, max_sample_ns: 7 };
        let intervals = if known { INTERVALS } else { Intervals::default() };
        let contexts = vec![
            ContextMeta { intervals, intervals_goal: known.then_some(goal), ..ContextMeta::default() },
            ContextMeta { kdamond: 1, context: 2, intervals, ..ContextMeta::default() },
        ];
        let scheme_filters = vec![serde_json::json!({"filter_type": "anon", "allow": true})];
        let targets = vec![
            TargetMeta { id: Some(u64::MAX), ..TargetMeta::default() },
            TargetMeta { context: 1, ..TargetMeta::default() },
            TargetMeta { context: 1, scheme: Some(4), scheme_filters, ..TargetMeta::default() },
        ];
        let mut all = Vec::new();
        let mut time_ns = 1 << 40;
        for (target, wait, duration_ns, tuned, with_stats, raw) in raw {
            time_ns += wait;
            let mut end = 0;
            let mut regions = Vec::new();
            for (gap, len, nr_accesses, age, probe_hits, filter_passed_bytes) in raw {
                let start = end + gap;
                end = start + len;
                regions.push(Region { start, end, nr_accesses, age, level: 0, probe_hits, filter_passed_bytes });
            }
            let intervals = tuned.map_or(intervals, |(sample_ns, update_ns)| Intervals {
                sample_ns,
                aggregation_ns: sample_ns.map(|sample| sample * 20 + 1),
                update_ns: Some(update_ns),
            });
            let stats = SchemeStats { nr_tried: wait, applied_bytes: u64::MAX, ..SchemeStats::default() };
            let stats = (target == 2 && with_stats).then_some(stats);
            all.push(Snapshot { number: 0, target, time_ns, duration_ns, intervals, stats, regions });
        }
        // A file of damo has one target after the other, numbered in file order.
        all.sort_by_key(|snapshot: &Snapshot| snapshot.target);
        (RecordMeta { contexts, targets, ..RecordMeta::default() }, all)
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]
    #[test]
    fn damo_json_carries_a_record_there_and_back((meta, all) in any_record()) {
        // Targets without snapshots are left out, so the others are renumbered.
        let used: Vec<u32> = (0..3).filter(|&target| all.iter().any(|snapshot| snapshot.target == target)).collect();
        let (store, found, _) = through(RecordFormat::Json, &meta, &all);
        prop_assert_eq!(store.meta().targets.len(), used.len());
        for (index, &target) in used.iter().enumerate() {
            let (new, old) = (&store.meta().targets[index], &meta.targets[target as usize]);
            prop_assert_eq!((new.id, new.scheme, &new.scheme_filters), (old.id, old.scheme, &old.scheme_filters));
            let (new, old) = (store.meta().context_of(u32::try_from(index).unwrap()), meta.context_of(target));
            prop_assert_eq!((new.kdamond, new.context), (old.kdamond, old.context));
            prop_assert_eq!(new.intervals_goal, old.intervals_goal);
        }
        let expected: Vec<Snapshot> = all.iter().enumerate().map(|(number, snapshot)| Snapshot {
            number: number as u64,
            target: u32::try_from(used.iter().position(|&target| target == snapshot.target).unwrap()).unwrap(),
            ..snapshot.clone()
        }).collect();
        prop_assert_eq!(found, expected);
    }

    #[test]
    fn text_is_read_with_any_number_of_regions(counts in proptest::collection::vec(1u64..9, 1..20), with_age in any::<bool>()) {
        let snapshot = |(index, &count): (usize, &u64)| Snapshot {
            number: index as u64,
            time_ns: 1_000_000_007 + index as u64 * 100_000_000,
            duration_ns: Some(100_000_000),
            intervals: INTERVALS,
            regions: (0..count).map(|region| Region {
                start: region * 100 + count,
                end: region * 100 + 100,
                nr_accesses: u32::try_from(region).unwrap(),
                age: with_age.then_some(u32::MAX),
                ..Region::default()
            }).collect(),
            ..Snapshot::default()
        };
        let all: Vec<Snapshot> = counts.iter().enumerate().map(snapshot).collect();
        let print = |snapshot: &Snapshot| {
            let time = format!("{}.{:09}", snapshot.time_ns / 1_000_000_000, snapshot.time_ns % 1_000_000_000);
            let print = |Region { start, end, nr_accesses, age, .. }: &Region| {
                let age = age.map_or(String::new(), |age| format!(" {age}"));
                line(&time, 0, snapshot.regions.len() as u64, &format!("{start}-{end}: {nr_accesses}{age}"))
            };
            snapshot.regions.iter().map(print).collect::<String>()
        };
        let text: String = all.iter().map(print).collect();
        let (_, found) = open_text(&text, OpenOptions { intervals: INTERVALS }).unwrap();
        prop_assert_eq!(found, all);
    }

    #[test]
    fn any_bytes_are_survived(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _ = with_file(&bytes, |path| RegionStore::open(path).and_then(|mut store| store.read_all()));
        let _ = with_file(&zlib(&bytes), |path| RegionStore::open(path).and_then(|mut store| store.read_all()));
    }
}
