//! Cuts, filters and merges of region records.

use std::path::{Path, PathBuf};

use isotherm_trace::edit::{AddressRange, Moment};
use isotherm_trace::region::{
    Intervals, OpenOptions, RecordFormat, RecordMeta, RecordSelection, Region, RegionStore, RegionWriter, SchemeStats,
    Snapshot, TargetMeta, finish_record, merge_records, record_span_ns, write_selected,
};
use isotherm_units::{Duration, Ratio};

fn region(start: u64, end: u64, nr_accesses: u32) -> Region {
    Region { start, end, nr_accesses, age: Some(3), filter_passed_bytes: end - start, ..Region::default() }
}

fn snapshot(target: u32, time_ns: u64, regions: Vec<Region>) -> Snapshot {
    let intervals = Intervals::new(5, 100, 1000);
    Snapshot { target, time_ns, duration_ns: Some(100), intervals, regions, ..Snapshot::default() }
}

/// Two targets, `redis` with pid 1 and `sh` with pid 77; snapshots of both end at 1100, 1200, … .
fn record(path: &Path, snapshots: u64) {
    let mut meta = RecordMeta::single("vaddr", "redis");
    meta.targets[0].pid = Some(1);
    meta.targets.push(TargetMeta { id: Some(1), pid: Some(77), name: "sh".to_owned(), ..TargetMeta::default() });
    let mut writer = RegionWriter::create_finished(path, RecordMeta { complete: true, ..meta }).unwrap();
    for number in 1..=snapshots {
        let time_ns = 1000 + 100 * number;
        let stats = Some(SchemeStats { nr_tried: number, ..SchemeStats::default() });
        let first = snapshot(0, time_ns, vec![region(0, 4096, 1), region(8192, 16_384, 7)]);
        writer.push(&Snapshot { stats, ..first }).unwrap();
        writer.push(&snapshot(1, time_ns, vec![region(0, 4096, 2)])).unwrap();
    }
    writer.finish().unwrap();
}

fn selected(path: &Path, selection: &RecordSelection) -> (RecordMeta, Vec<Snapshot>) {
    let output = path.with_extension("out");
    write_selected(&mut RegionStore::open(path).unwrap(), selection, &output, |_| {}).unwrap();
    let mut store = RegionStore::open(&output).unwrap();
    let all = store.read_all().unwrap();
    (store.meta().clone(), all)
}

fn after(ns: u64) -> Option<Moment> {
    Some(Moment::After(Duration::from_ns(ns)))
}

#[test]
fn a_cut_keeps_whole_snapshots_on_their_clock() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("r");
    record(&path, 10);
    // The first moment is 1000; snapshots end at 100, 200, … from there. 200 ends at the left edge, 400 at the right one.
    let (meta, all) = selected(&path, &RecordSelection { from: after(200), to: after(400), ..Default::default() });
    assert_eq!(
        all.iter().map(|one| (one.time_ns, one.target)).collect::<Vec<_>>(),
        [(1300, 0), (1300, 1), (1400, 0), (1400, 1)]
    );
    assert_eq!(all[0].stats.unwrap().nr_tried, 3, "its own statistics");
    assert!(!meta.complete && meta.notes[0].contains("200ns to 400ns"), "{:?}", meta.notes);
    let share = |percent| Some(Moment::Share(Ratio::from_percent(percent)));
    let (meta, all) = selected(&path, &RecordSelection { from: share(80), ..Default::default() });
    assert_eq!((all.len(), meta.complete), (4, true), "the last fifth of 1000 ns, to the end");
    assert_eq!(record_span_ns(&mut RegionStore::open(&path).unwrap()).unwrap(), (1000, 2000));
}

#[test]
fn a_filter_drops_targets_and_clips_regions() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("r");
    record(&path, 2);
    for word in ["77", "sh", "1"] {
        // "1" is the number of the second target, although the first one has pid 1.
        let (meta, all) = selected(&path, &RecordSelection { targets: vec![word.into()], ..Default::default() });
        assert_eq!((meta.targets.len(), meta.targets[0].name.as_str()), (1, "sh"), "{word}");
        assert!(all.len() == 2 && all.iter().all(|one| one.target == 0 && one.regions[0].nr_accesses == 2));
    }
    let range = |start, end| AddressRange { start, end };
    let selection = RecordSelection { ranges: vec![range(12_288, 20_000), range(2048, 12_288)], ..Default::default() };
    let (_, all) = selected(&path, &selection);
    let part = |start, end, nr_accesses| region(start, end, nr_accesses);
    assert_eq!(all[0].regions, [part(2048, 4096, 1), part(8192, 16_384, 7)]);
    assert_eq!(all[1].regions, [part(2048, 4096, 2)]);
    let apart = RecordSelection { ranges: vec![range(14_000, 15_000), range(9000, 10_000)], ..Default::default() };
    assert_eq!(selected(&path, &apart).1[0].regions, [part(9000, 10_000, 7), part(14_000, 15_000, 7)]);
    let overlapping = RecordSelection { ranges: vec![range(0, 3000), range(2000, 4096)], ..Default::default() };
    assert_eq!(
        (selected(&path, &overlapping).1[0].regions[0].start, selected(&path, &overlapping).1[0].regions.len()),
        (0, 1)
    );
}

#[test]
fn what_leaves_nothing_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("r");
    record(&path, 2);
    let error = |selection: &RecordSelection| {
        let output = folder.path().join("out");
        let error = write_selected(&mut RegionStore::open(&path).unwrap(), selection, &output, |_| {}).unwrap_err();
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "neither output nor temporary");
        error.to_string()
    };
    for (selection, words) in [
        (RecordSelection { from: after(300), ..Default::default() }, ["no snapshot", "4 snapshots from 0 to 200 ns"]),
        (RecordSelection { from: after(3), to: after(2), ..Default::default() }, ["`from`", "not before --to"]),
        (RecordSelection { targets: vec!["x".into()], ..Default::default() }, ["no target `x`", "0 (pid 1, redis)"]),
        (
            RecordSelection { ranges: vec![AddressRange { start: 1 << 40, end: 1 << 41 }], ..Default::default() },
            ["no region", "4 snapshots"],
        ),
    ] {
        let error = error(&selection);
        assert!(words.iter().all(|word| error.contains(word)), "{words:?}: {error}");
    }
}

#[test]
fn records_of_the_same_intervals_are_merged() {
    let folder = tempfile::tempdir().unwrap();
    let (a, b, json, out) =
        (folder.path().join("a"), folder.path().join("b"), folder.path().join("b.json"), folder.path().join("out"));
    record(&a, 3);
    record(&b, 1);
    RegionStore::open(&b).unwrap().write(&json, RecordFormat::Json).unwrap();
    for second in [&b, &json] {
        let meta = merge_records(&[a.clone(), second.clone()], OpenOptions::default(), &out, |_| {}).unwrap();
        assert_eq!((meta.snapshots, meta.targets.len(), meta.contexts.len()), (8, 4, 2), "{}", second.display());
        assert_eq!((meta.contexts[1].kdamond, meta.targets[2].context), (1, 1));
        let mut store = RegionStore::open(&out).unwrap();
        let all = store.read_all().unwrap();
        assert_eq!(all.iter().filter(|one| one.target >= 2).count(), 2);
        let ours: Vec<_> = all.iter().filter(|one| one.target < 2).map(|one| one.regions.clone()).collect();
        let theirs: Vec<_> =
            RegionStore::open(&a).unwrap().read_all().unwrap().into_iter().map(|one| one.regions).collect();
        assert_eq!(ours, theirs);
        assert!(meta.notes.iter().any(|note| note.starts_with("targets 2 to 3 are merged from b")), "{:?}", meta.notes);
    }
}

#[test]
fn only_what_fits_is_merged() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let other = path("other");
    record(&path("a"), 1);
    let mut writer = RegionWriter::create_finished(&other, RecordMeta::single("paddr", "all")).unwrap();
    let intervals = Intervals::new(5_000_000, 100_000_000, 1);
    writer.push(&Snapshot { intervals, ..snapshot(0, 100, vec![region(0, 1, 0)]) }).unwrap();
    writer.finish().unwrap();
    let empty = path("empty");
    RegionWriter::create_finished(&empty, RecordMeta::single("vaddr", "t")).unwrap().finish().unwrap();
    let error = |inputs: &[PathBuf]| {
        merge_records(inputs, OpenOptions::default(), path("out"), |_| {}).unwrap_err().to_string()
    };
    for (inputs, words) in [
        (vec![path("a"), other], vec!["other", "5ms and 100ms", "/a (5ns and 100ns)", "same intervals"]),
        (vec![path("a")], vec!["two records"]),
        (vec![empty.clone(), empty], vec!["no record has snapshots"]),
        (vec![path("a"), path("none")], vec!["cannot open", "none"]),
    ] {
        let error = error(&inputs);
        assert!(words.iter().all(|word| error.contains(word)), "{words:?}: {error}");
        assert!(!path("out").exists());
    }
}

#[test]
fn a_torn_record_is_read_and_stays_marked() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("torn");
    let mut writer = RegionWriter::create(&path, RecordMeta::single("vaddr", "t")).unwrap();
    writer.push(&snapshot(0, 100, vec![region(0, 4096, 1)])).unwrap();
    writer.flush().unwrap();
    drop(writer);
    let (meta, all) = selected(&path, &RecordSelection::default());
    assert_eq!((all.len(), meta.complete), (1, false));
    assert!(meta.notes.iter().any(|note| note.contains("not finished")), "{:?}", meta.notes);
    assert!(!finish_record(path.with_extension("out")).unwrap().complete);
}
