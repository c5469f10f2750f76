//! Rows that name more pages than memory could hold data on.

use std::path::{Path, PathBuf};
use std::process::Command;

use isotherm_trace::analysis::{
    HeatmapOptions, IdleAt, Sampling, check_for_replay, footprint, heatmap, hot, huge_ranges, idle, info, mrc,
    mrc_sampled, page_cache_pages, wss,
};
use isotherm_trace::export::{ExportOptions, export};
use isotherm_trace::{
    EventKind, MapKind, MapRange, PAGE_LIMIT, PageCacheRange, Result, TraceError, TraceMeta, TraceReader, TraceRow,
    TraceWriter,
};

/// Everything that holds data on pages, by name.
type Analysis = fn(&mut TraceReader) -> Result<()>;

const ANALYSES: [(&str, Analysis); 13] = [
    ("replay", |reader| check_for_replay(reader.path())),
    ("wss", |reader| wss(reader, 1_000).map(drop)),
    ("mrc", |reader| mrc(reader).map(drop)),
    ("mrc of a half", |reader| mrc_sampled(reader, rate("1/2")).map(drop)),
    ("mrc of a small sample", |reader| mrc_sampled(reader, rate("1/65536")).map(drop)),
    ("heatmap", |reader| heatmap(reader, &HeatmapOptions::default()).map(drop)),
    ("idle", |reader| idle(reader, IdleAt::LastAccess, &[0]).map(drop)),
    ("info", |reader| info(reader).map(drop)),
    ("hot", |reader| hot(reader, 10).map(drop)),
    ("huge ranges", |reader| huge_ranges(reader).map(drop)),
    ("footprint", |reader| footprint(reader).map(drop)),
    ("page cache", |reader| page_cache_pages(reader).map(drop)),
    ("oracleGeneral", |reader| {
        let output = reader.path().with_extension("bin");
        export(None, reader.path(), &output, &ExportOptions::default())
    }),
];

fn rate(text: &str) -> Sampling {
    text.parse().unwrap()
}

/// A trace of one heap, all of which counts as page cache, too.
fn write(path: &Path, rows: impl IntoIterator<Item = (u64, u32)>) {
    let page_cache = Some(PageCacheRange { start: 0, end: PAGE_LIMIT });
    let meta = TraceMeta { epoch_ns: 10, page_cache, ..TraceMeta::single("t") };
    let mut writer = TraceWriter::create_finished(path, meta).unwrap();
    let heap = MapRange { start: 0, end: PAGE_LIMIT, what: MapKind::Heap, ..MapRange::default() };
    writer.event(0, 0, EventKind::Map(heap)).unwrap();
    for (page, pages) in rows {
        writer.push(TraceRow { time_ns: 0, thread: 0, page, pages, write: true, kernel: false }).unwrap();
    }
    writer.finish().unwrap();
}

/// The trace of the child process.
const TRACE: &str = "ISOTHERM_TEST_LONG_ROWS";

/// The analyses run in a child process with 1 GiB of address space and 20 s of processor time: without limits of their own they would take
/// all memory of the machine.
#[test]
fn rows_of_2_32_pages_are_refused() {
    if let Some(trace) = std::env::var_os(TRACE) {
        return all_refuse(&PathBuf::from(trace));
    }
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("t");
    write(&trace, (0..20).map(|number| (number << 32, u32::MAX)));
    let child = Command::new("sh")
        .args(["-c", "ulimit -v 1048576 && ulimit -t 20 && exec \"$0\" \"$@\""])
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", "limits::rows_of_2_32_pages_are_refused", "--nocapture"])
        .env(TRACE, &trace)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&child.stdout).into_owned() + &String::from_utf8_lossy(&child.stderr);
    assert!(child.status.success(), "{}: {said}", child.status);
    let names: Vec<_> = folder.path().read_dir().unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names, ["t"], "nothing is left of the export");
}

fn all_refuse(trace: &Path) {
    for (name, analysis) in ANALYSES {
        let error = analysis(&mut TraceReader::open(trace).unwrap()).expect_err(name).to_string();
        for words in ["row 0", " 4294967295 pages", "at most ", "--from"] {
            assert!(error.contains(words), "{name}: {error}");
        }
    }
}

#[test]
fn the_last_pages_are_analysed() {
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("t");
    write(&trace, [(PAGE_LIMIT - 200, 200), (0, 1), (PAGE_LIMIT - 1, 1)]);
    for (name, analysis) in ANALYSES {
        analysis(&mut TraceReader::open(&trace).unwrap()).expect(name);
    }
    let mut reader = TraceReader::open(&trace).unwrap();
    assert_eq!(footprint(&mut reader).unwrap().touched_pages, 201);
    assert_eq!(wss(&mut reader, 1_000).unwrap().windows[0].pages, 201);
}

#[test]
fn long_rows_within_the_limit_are_analysed() {
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("t");
    write(&trace, [(1 << 40, 200_000), (1 << 40, 200_000)]);
    let mut reader = TraceReader::open(&trace).unwrap();
    let curve = mrc(&mut reader).unwrap();
    assert_eq!((curve.accesses, curve.cold_misses), (400_000, 200_000));
    assert_eq!((curve.misses_at(199_999), curve.misses_at(200_000)), (400_000, 200_000));
    // Groups of 64 pages cost the same whether all or one of them is touched: 2^28 pages are 2^22 groups.
    write(&trace, [(1 << 40, 1 << 28)]);
    let mut reader = TraceReader::open(&trace).unwrap();
    let map = heatmap(&mut reader, &HeatmapOptions { columns: 1, rows: 2, ..HeatmapOptions::default() }).unwrap();
    assert_eq!((map.bands.len(), map.bands[0].touched_pages, &map.cells[..]), (1, 1 << 28, &[1 << 27, 1 << 27][..]));
}

/// A long trace is decoded on another thread, which must not wait for ever when an analysis refuses a row.
#[test]
fn a_refusal_in_a_long_trace_ends() {
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("t");
    write(&trace, (0..300_000).map(|number| (number, 1)));
    let (said, heard) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let mut reader = TraceReader::open(&trace).unwrap();
        let mut other = TraceReader::open(&trace).unwrap();
        let refused = reader.for_each_batch(|_| {
            // Long enough for the other thread to run out of batches.
            other.for_each_batch(|_| Ok::<_, TraceError>(())).unwrap();
            Err(TraceError::Empty { path: PathBuf::from("refused") })
        });
        said.send(refused.unwrap_err().to_string())
    });
    // Without an answer the test would hang; the time is only for that.
    let error = heard.recv_timeout(std::time::Duration::from_secs(60)).expect("it ends");
    assert!(error.contains("refused"), "{error}");
}
