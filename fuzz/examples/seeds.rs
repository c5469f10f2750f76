//! Writes the corpus entries that no text editor can: `cargo run -p isotherm-fuzz --example seeds`. After a change of a file format,
//! run it and commit the files.

use isotherm_fuzz::corpus;
use isotherm_trace::group::{Gauges, Generation, GroupMeta, GroupWriter, Look, LookKind, finish_group_record};
use isotherm_trace::region::{
    ContextMeta, Intervals, RecordMeta, Region, RegionWriter, SchemeStats, Snapshot, TargetMeta, finish_record,
};
use isotherm_trace::{
    EventKind, MapRange, ProcessMeta, ThreadMeta, TraceMeta, TraceReader, TraceRow, TraceWriter, finish_stream,
};
use std::error::Error;
use std::path::{Path, PathBuf};

fn main() -> Result<(), Box<dyn Error>> {
    let trace = place("page-trace-stream", "rows.arrow")?;
    write_trace(&trace)?;
    let finished = finish(&trace, "page-trace", "rows.parquet", |path| finish_stream(path).map(drop))?;
    std::fs::copy(&finished, place("import-parquet", "rows.parquet")?)?;
    std::fs::copy(&finished, place("import-any", "rows.parquet")?)?;
    let meta = serde_json::to_string_pretty(TraceReader::open(&finished)?.meta())?;
    std::fs::write(place("page-trace-metadata", "meta.json")?, meta)?;

    let record = place("region-record-stream", "regions.arrow")?;
    let meta = write_record(&record)?;
    std::fs::write(place("region-record-metadata", "meta.json")?, serde_json::to_string_pretty(&meta)?)?;
    finish(&record, "region-record", "regions.parquet", |path| finish_record(path).map(drop))?;

    let group = place("group-record", "looks.arrow")?;
    let meta = write_group(&group)?;
    std::fs::write(place("group-record-metadata", "meta.json")?, serde_json::to_string_pretty(&meta)?)?;
    finish(&group, "group-record", "looks.parquet", |path| finish_group_record(path).map(drop))?;

    for kind in isotherm_workload::KINDS {
        std::fs::write(place("workload", &format!("{}.toml", kind.name))?, format!("[load]\n{}", kind.example))?;
    }
    Ok(())
}

fn place(target: &str, name: &str) -> std::io::Result<PathBuf> {
    let folder = corpus::folder().join(target);
    std::fs::create_dir_all(&folder)?;
    Ok(folder.join(name))
}

/// A copy of the stream in its finished form.
fn finish(
    stream: &Path,
    target: &str,
    name: &str,
    finish: impl Fn(&Path) -> isotherm_trace::Result<()>,
) -> Result<PathBuf, Box<dyn Error>> {
    let path = place(target, name)?;
    std::fs::copy(stream, &path)?;
    finish(&path)?;
    Ok(path)
}

/// Two threads of two processes, every kind of event, batches with and without rows.
fn write_trace(path: &Path) -> Result<(), Box<dyn Error>> {
    let meta = TraceMeta { epoch_ns: 1_000_000, command: vec!["program".to_owned()], ..TraceMeta::default() };
    let mut writer = TraceWriter::create(path, meta)?;
    for pid in [10, 11] {
        let process = writer.add_process(ProcessMeta { pid, name: "program".to_owned(), ..ProcessMeta::default() })?;
        writer.add_thread(ThreadMeta { tid: pid, process, ..ThreadMeta::default() })?;
    }
    let map = MapRange { start: 1000, end: 2000, ..MapRange::default() };
    writer.event(0, 0, EventKind::Map(map))?;
    for index in 0..300_u64 {
        let thread = u32::try_from(index % 2)?;
        let (page, pages) = (1000 + index * 37 % 900, 1 + u32::try_from(index % 5)?);
        let write = index.is_multiple_of(3);
        writer.push(TraceRow { time_ns: index / 20 * 1_000_000, thread, page, pages, write, kernel: index == 7 })?;
        if index % 100 == 99 {
            writer.flush()?;
        }
    }
    writer.event(0, 20_000_000, EventKind::Unmap { start: 1000, end: 1100 })?;
    writer.event(1, 20_000_000, EventKind::EndThread)?;
    writer.note("a remark")?;
    writer.set_outcome(Some(0), true)?;
    writer.flush()?;
    Ok(())
}

fn write_record(path: &Path) -> Result<RecordMeta, Box<dyn Error>> {
    let intervals = Intervals::new(5_000_000, 100_000_000, 1_000_000_000);
    let mut writer =
        RegionWriter::create(path, RecordMeta { command: vec!["a b".to_owned()], ..RecordMeta::default() })?;
    let context = ContextMeta {
        operations: "vaddr".to_owned(),
        intervals,
        min_regions: Some(10),
        max_regions: Some(1000),
        probes: vec!["anon".to_owned()],
        ..ContextMeta::default()
    };
    let context = writer.add_context(context)?;
    writer.add_target(TargetMeta { context, pid: Some(10), ..TargetMeta::default() })?;
    for number in 0..20_u64 {
        let region = |index: u64| Region {
            start: 0x5000_0000_0000 + index * 0x10_0000,
            end: 0x5000_0008_0000 + index * 0x10_0000,
            nr_accesses: u32::try_from((index + number) % 21).unwrap_or(0),
            age: Some(u32::try_from(number).unwrap_or(0)),
            ..Region::default()
        };
        writer.push(&Snapshot {
            number,
            time_ns: 1_000_000_000 + number * 100_000_000,
            duration_ns: Some(100_000_000),
            intervals,
            stats: Some(SchemeStats { nr_tried: number, ..SchemeStats::default() }),
            regions: (0..number % 6).map(region).collect(),
            ..Snapshot::default()
        })?;
        if number == 10 {
            writer.note("a remark")?;
            writer.flush()?;
        }
    }
    writer.set_outcome(true)?;
    writer.flush()?;
    Ok(writer.meta().clone())
}

fn write_group(path: &Path) -> Result<GroupMeta, Box<dyn Error>> {
    let meta = GroupMeta { group: "/app/db".to_owned(), interval_ns: 1_000_000_000, ..GroupMeta::default() };
    let mut writer = GroupWriter::create(path, meta)?;
    for number in 0..6_u64 {
        let generation = |index: u64| Generation {
            node: 0,
            seq: number + index,
            age_ns: (3 - index) * 1_000_000_000,
            anon_bytes: 4096 * index,
            file_bytes: 8192 * index,
        };
        let gauges = Gauges { memory_current_bytes: Some(1 << 30), refaults_file: Some(number), ..Gauges::default() };
        let kind = if number.is_multiple_of(3) { LookKind::Read } else { LookKind::Aged };
        let generations = (0..4).map(generation).collect();
        writer.push(&Look { time_ns: number * 1_000_000_000, kind, gauges, generations })?;
        if number == 3 {
            writer.note("a remark")?;
            writer.flush()?;
        }
    }
    writer.set_outcome(true)?;
    writer.flush()?;
    Ok(writer.meta().clone())
}
