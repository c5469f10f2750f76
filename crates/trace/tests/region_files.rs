//! Region records on disk: round trips are exact, other readers agree, and damage only gives errors.

use std::path::Path;

use isotherm_trace::region::{
    ContextMeta, Intervals, RecordForm, RecordMeta, Region, RegionReader, RegionStore, RegionWriter, SchemeStats,
    Snapshot, TargetMeta, Warning, finish_record,
};
use isotherm_trace::{Result, TraceError, TraceMeta, TraceRow, TraceWriter};
use proptest::prelude::*;

fn read(path: &Path) -> Result<(RecordMeta, Vec<Snapshot>)> {
    let mut store = RegionStore::open(path)?;
    let all = store.read_all()?;
    let regions: usize = all.iter().map(|snapshot| snapshot.regions.len()).sum();
    assert_eq!((store.meta().snapshots, store.meta().regions), (all.len() as u64, regions as u64));
    Ok((store.meta().clone(), all))
}

fn regions(count: u64, seed: u64) -> Vec<Region> {
    let region = |index: u64| Region {
        start: 0x5000_0000_0000 + index * 0x10_0000,
        end: 0x5000_0000_0000 + index * 0x10_0000 + 4096 * (1 + (index + seed) % 256),
        nr_accesses: u32::try_from((index * 7 + seed) % 21).unwrap(),
        age: (index + seed).is_multiple_of(3).then_some(u32::try_from(index).unwrap()),
        level: u8::try_from(index % 5).unwrap(),
        probe_hits: [u32::try_from(seed).unwrap(), 0, 300, u32::MAX],
        filter_passed_bytes: index * 4096,
    };
    (0..count).map(region).collect()
}

/// Snapshots of two targets, with tuning, an empty one, and one larger than a batch of the reader.
fn snapshots() -> Vec<Snapshot> {
    let mut all = Vec::new();
    for index in 0..40u64 {
        let sample_ns = if index < 20 { 5_000_000 } else { 7_500_001 };
        all.push(Snapshot {
            number: index,
            target: u32::try_from(index % 2).unwrap(),
            time_ns: 1_000_000_000 + index / 2 * 100_000_000,
            duration_ns: (index > 3).then_some(100_000_000),
            intervals: Intervals::new(sample_ns, sample_ns * 20, 1_000_000_000),
            stats: index.is_multiple_of(7).then_some(SchemeStats { nr_tried: index, ..SchemeStats::default() }),
            regions: regions(if index == 9 { 20_000 } else { index % 11 }, index),
        });
    }
    all[30].intervals = Intervals::default();
    all
}

fn record(path: &Path, snapshots: &[Snapshot]) -> RegionWriter {
    let start = RecordMeta { command: vec!["a b".into()], host: "here".into(), ..RecordMeta::default() };
    let mut writer = RegionWriter::create(path, start).unwrap();
    let context = ContextMeta {
        operations: "vaddr".into(),
        intervals: Intervals::new(5_000_000, 100_000_000, 1_000_000_000),
        min_regions: Some(10),
        max_regions: Some(1000),
        probes: vec!["anon".into()],
        ..ContextMeta::default()
    };
    assert_eq!(writer.add_context(context).unwrap(), 0);
    for id in 0..2 {
        let target = TargetMeta { id: Some(id), pid: Some(7), name: format!("t{id}"), ..TargetMeta::default() };
        assert_eq!(u64::from(writer.add_target(target).unwrap()), id);
    }
    snapshots.iter().for_each(|snapshot| writer.push(snapshot).unwrap());
    writer.note("a remark").unwrap();
    writer.set_outcome(true).unwrap();
    writer
}

#[test]
fn a_recording_reads_the_same_before_and_after_it_is_finished() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("r.parquet");
    let all = snapshots();
    let mut writer = record(&path, &all);
    writer.flush().unwrap();
    let store = RegionStore::open(&path).unwrap();
    assert_eq!(store.form(), RecordForm::ArrowStream);
    assert_eq!(store.warnings(), [Warning::NotFinished { cut_bytes: 0 }]);
    let (meta, found) = read(&path).unwrap();
    assert_eq!(found, all);
    assert!(!meta.complete);
    let finished = writer.finish().unwrap();
    let (meta, found) = read(&path).unwrap();
    assert_eq!((&found, &meta), (&all, &finished));
    assert_eq!((meta.complete, meta.notes.as_slice(), meta.targets.len()), (true, &["a remark".to_owned()][..], 2));
    assert_eq!(RegionStore::open(&path).unwrap().form(), RecordForm::Parquet);
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "no temporary is left");
    let mut reader = RegionReader::open(&path).unwrap();
    let mut snapshot = Snapshot::default();
    for expected in [&all[0], &all[1]] {
        assert!(reader.next_snapshot(&mut snapshot).unwrap());
        assert_eq!(&snapshot, expected);
    }
    reader.rewind();
    assert!(reader.next_snapshot(&mut snapshot).unwrap());
    assert_eq!(snapshot, all[0]);
}

#[test]
fn a_killed_recorder_leaves_all_whole_batches() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("r.parquet");
    let all = snapshots();
    let mut writer = record(&path, &all[..20]);
    writer.flush().unwrap();
    all[20..].iter().for_each(|snapshot| writer.push(snapshot).unwrap());
    // Neither flushed nor finished, as after kill -9.
    std::mem::forget(writer);
    assert_eq!(read(&path).unwrap().1, all[..20]);
    let meta = finish_record(&path).unwrap();
    let (again, found) = read(&path).unwrap();
    assert_eq!((again, found.as_slice()), (meta.clone(), &all[..20]));
    assert_eq!(finish_record(&path).unwrap(), meta, "a finished file stays as it is");
}

#[test]
fn other_readers_see_the_same_parquet() {
    use parquet::file::reader::FileReader;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("r.parquet");
    let all = snapshots();
    record(&path, &all).finish().unwrap();
    let reader = parquet::file::reader::SerializedFileReader::new(std::fs::File::open(&path).unwrap()).unwrap();
    let mut rows = reader.get_row_iter(None).unwrap();
    for snapshot in &all {
        let nothing = [Region::default()];
        let regions = if snapshot.regions.is_empty() { &nothing[..] } else { &snapshot.regions };
        for region in regions {
            let row = rows.next().unwrap().unwrap();
            let text = row.to_string();
            let expected = format!(
                "{{snapshot: {}, time_ns: {}, duration_ns: {}, target: {}, start: {}, end: {}, nr_accesses: {}, age: {}, \
                 has_age: {}, level: {},",
                snapshot.number,
                snapshot.time_ns,
                snapshot.duration_ns.unwrap_or(0),
                snapshot.target,
                region.start,
                region.end,
                region.nr_accesses,
                region.age.unwrap_or(0),
                region.age.is_some(),
                region.level
            );
            assert!(text.starts_with(&expected), "{text}\n{expected}");
        }
    }
    assert!(rows.next().is_none());
}

#[test]
fn other_readers_see_the_same_stream() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("r.arrows");
    let mut writer = record(&path, &snapshots());
    writer.flush().unwrap();
    let file = std::fs::File::open(&path).unwrap();
    let reader = arrow_ipc::reader::StreamReader::try_new(file, None).unwrap();
    let mut nr_rows = 0;
    for batch in reader.take(1) {
        let batch = batch.unwrap();
        let event = batch.column_by_name("event").unwrap();
        nr_rows += batch.num_rows() - (event.len() - event.null_count());
    }
    let rows = |snapshot: &Snapshot| snapshot.regions.len().max(1);
    assert_eq!(nr_rows, snapshots().iter().map(rows).sum::<usize>());
}

#[test]
fn what_no_monitor_finds_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("r.parquet");
    let mut writer = RegionWriter::create(&path, RecordMeta::single("vaddr", "x")).unwrap();
    let region = |start, end| Region { start, end, ..Region::default() };
    let snapshot = |target, time_ns, regions| Snapshot { target, time_ns, regions, ..Snapshot::default() };
    writer.push(&snapshot(0, 9, vec![region(4, 8), region(8, 9)])).unwrap();
    let table = [
        (snapshot(1, 9, vec![]), "target 1 is not among the 1 declared"),
        (snapshot(0, 8, vec![]), "time may not go back"),
        (snapshot(0, 9, vec![region(8, 8)]), "region 0 is 8-8"),
        (snapshot(0, 9, vec![region(4, 8), region(7, 9)]), "may not overlap"),
    ];
    for (bad, part) in table {
        let error = writer.push(&bad).unwrap_err().to_string();
        assert!(error.contains(part) && error.contains("snapshot 1"), "{error}");
    }
    let error = writer.add_target(TargetMeta { context: 3, ..TargetMeta::default() }).unwrap_err().to_string();
    assert!(error.contains("context 3, which is not listed"), "{error}");
}

#[test]
fn every_truncation_and_any_flipped_byte_is_survived() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("r");
    let all = &snapshots()[..6];
    let mut writer = record(&path, &all[..3]);
    writer.flush().unwrap();
    all[3..].iter().for_each(|snapshot| writer.push(snapshot).unwrap());
    writer.flush().unwrap();
    let stream = std::fs::read(&path).unwrap();
    writer.finish().unwrap();
    let parquet = std::fs::read(&path).unwrap();
    let torn = folder.path().join("torn");
    let mut lengths = std::collections::BTreeSet::new();
    for cut in 0..stream.len() {
        std::fs::write(&torn, &stream[..cut]).unwrap();
        match read(&torn) {
            Ok((meta, found)) => {
                assert_eq!(found, all[..found.len()], "cut at {cut}");
                assert!(!meta.complete);
                lengths.insert(found.len());
            }
            Err(error) => assert!(error.to_string().contains("torn"), "names the file: {error}"),
        }
    }
    assert_eq!(lengths.into_iter().collect::<Vec<_>>(), [0, 3], "whole batches only");
    for cut in 0..parquet.len() {
        std::fs::write(&torn, &parquet[..cut]).unwrap();
        let error = read(&torn).unwrap_err().to_string();
        assert!(error.contains("torn"), "{error}");
    }
    for original in [&stream, &parquet] {
        for at in (0..original.len()).step_by(3) {
            let mut bytes = original.clone();
            bytes[at] ^= 0x55;
            std::fs::write(&torn, &bytes).unwrap();
            let _ = RegionStore::open(&torn).and_then(|mut store| store.read_all());
        }
    }
}

#[test]
fn what_is_no_record_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x");
    let mut writer = TraceWriter::create(&path, TraceMeta::single("t")).unwrap();
    writer.push(TraceRow { time_ns: 0, thread: 0, page: 1, pages: 1, write: false, kernel: false }).unwrap();
    writer.flush().unwrap();
    let error = RegionStore::open(&path).unwrap_err().to_string();
    assert!(error.contains("not a region record") && error.contains("isotherm monitor"), "{error}");
    writer.finish().unwrap();
    let error = RegionStore::open(&path).unwrap_err().to_string();
    assert!(error.contains("without a column `snapshot`"), "{error}");
    record(&path, &snapshots()[..2]).finish().unwrap();
    let error = isotherm_trace::TraceReader::open(&path).unwrap_err().to_string();
    assert!(error.contains("not a page trace"), "{error}");
    let error = RegionStore::open(folder.path()).unwrap_err().to_string();
    assert!(error.contains("not a regular file"), "{error}");
    assert!(matches!(RegionStore::open(folder.path().join("none")), Err(TraceError::Io { action: "open", .. })));
    let mut meta = RecordMeta::single("vaddr", "x");
    meta.record_version = 99;
    RegionWriter::create_finished(&path, meta).unwrap().finish().unwrap();
    assert!(matches!(RegionStore::open(&path), Err(TraceError::TooNew { found: 99, .. })));
}

fn any_snapshots() -> impl Strategy<Value = Vec<Snapshot>> {
    let region = (0u64..1 << 40, 1u64..1 << 40, any::<u32>(), any::<Option<u32>>(), any::<[u32; 4]>(), any::<u64>());
    let regions = proptest::collection::vec(region, 0..9);
    let interval = || proptest::option::of(1u64..u64::MAX);
    let intervals = (interval(), interval(), interval());
    let snapshot = (0u32..2, 0u64..1 << 50, interval(), intervals, regions);
    proptest::collection::vec(snapshot, 0..30).prop_map(|all| {
        let mut times = [0; 2];
        let build =
            |(number, (target, wait, duration_ns, intervals, raw)): (usize, (u32, u64, _, (_, _, _), Vec<_>))| {
                times[target as usize] += wait;
                let mut at = 0;
                let mut regions = Vec::new();
                for (gap, len, nr_accesses, age, probe_hits, filter_passed_bytes) in raw {
                    let start = at + gap;
                    at = start + len;
                    let level = u8::try_from(nr_accesses % 5).unwrap();
                    regions.push(Region { start, end: at, nr_accesses, age, level, probe_hits, filter_passed_bytes });
                }
                let (sample_ns, aggregation_ns, update_ns) = intervals;
                Snapshot {
                    number: number as u64,
                    target,
                    time_ns: times[target as usize],
                    duration_ns,
                    intervals: Intervals { sample_ns, aggregation_ns, update_ns },
                    stats: None,
                    regions,
                }
            };
        all.into_iter().enumerate().map(build).collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]
    #[test]
    fn any_record_is_read_as_written(all in any_snapshots()) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("r");
        let mut writer = record(&path, &all);
        writer.flush().unwrap();
        prop_assert_eq!(&read(&path).unwrap().1, &all);
        writer.finish().unwrap();
        prop_assert_eq!(&read(&path).unwrap().1, &all);
    }
}
