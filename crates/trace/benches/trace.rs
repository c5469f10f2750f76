//! Decoding speed and size of traces, on two synthetic traces: `scattered` (each row one page, uniform over 16 GiB, a third
//! written, 800 rows an epoch: nothing to compress) and `local` (sweeps and revisits near by).
//!
//! Prints one JSON object a line: `name, unit, bar, value, pass`. Bars: DESIGN section 5. `BENCH_TRACE_ROWS` sets the number
//! of rows; run under `cargo test` it uses few and only checks that it works.

#![expect(clippy::print_stdout, reason = "a benchmark's output")]

use std::path::Path;
use std::sync::OnceLock;
use std::time::Instant;

use parquet::column::reader::ColumnReader;
use parquet::file::reader::{FileReader, SerializedFileReader};

use isotherm_trace::{EventKind, MapRange, RowBatch, TraceMeta, TraceReader, TraceRow, TraceWriter};
use isotherm_units::random::Random;

const EPOCH_NS: u64 = 1_000_000;

fn scattered(random: &mut Random, index: u64) -> TraceRow {
    let page = 0x0007_f000_0000 + random.below(4 << 20);
    TraceRow { time_ns: index / 800 * EPOCH_NS, thread: 0, page, pages: 1, write: random.below(3) == 0, kernel: false }
}

fn local(random: &mut Random, index: u64) -> TraceRow {
    // Each epoch of 40 rows sweeps on by a run of up to 64 pages a row; every fourth row returns to a hot index.
    let page =
        if index.is_multiple_of(4) { 0x5_5555 + random.below(256) } else { 0x0007_f000_0000 + index * 40 % (1 << 20) };
    let pages = if index.is_multiple_of(4) { 1 } else { 16 + u32::try_from(random.below(48)).expect("small") };
    TraceRow {
        time_ns: index / 40 * EPOCH_NS,
        thread: 0,
        page,
        pages,
        write: (index / 4).is_multiple_of(8),
        kernel: false,
    }
}

fn write(path: &Path, rows: u64, mut row: impl FnMut(&mut Random, u64) -> TraceRow) -> TraceMeta {
    let mut random = Random::new(42);
    let mut writer = TraceWriter::create_finished(path, TraceMeta { epoch_ns: EPOCH_NS, ..TraceMeta::single("bench") })
        .expect("a temporary folder is writable");
    let map = MapRange { start: 1, end: 1 << 36, ..MapRange::default() };
    writer.event(0, 0, EventKind::Map(map)).expect("writable");
    for index in 0..rows {
        writer.push(row(&mut random, index)).expect("writable");
    }
    writer.finish().expect("writable")
}

/// CPU time of this thread, which other programs on the machine disturb least; elapsed time if the kernel keeps none.
fn cpu_seconds() -> f64 {
    static START: OnceLock<Instant> = OnceLock::new();
    let start = START.get_or_init(Instant::now);
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").ok();
    let nanoseconds = stat.and_then(|stat| stat.split(' ').next()?.parse::<u64>().ok());
    nanoseconds.map_or_else(|| start.elapsed().as_secs_f64(), |nanoseconds| nanoseconds as f64 / 1e9)
}

/// Decodes the whole file; the checksum keeps the work from being optimised away.
fn decode(path: &Path) -> (f64, u64) {
    let start = cpu_seconds();
    let mut reader = TraceReader::open(path).expect("just written");
    let mut batch = RowBatch::new();
    let mut checksum = 0u64;
    while reader.next_batch(&mut batch).expect("just written") {
        checksum ^= batch.page[batch.len() - 1] ^ batch.time_ns[0];
    }
    (cpu_seconds() - start, checksum)
}

/// Decodes the same columns by the readers of the `parquet` crate, its fastest way: whole columns into vectors, without Arrow.
fn decode_by_crate(path: &Path) -> (f64, u64) {
    const BATCH: usize = 64 << 10;
    let start = cpu_seconds();
    let file = std::fs::File::open(path).expect("just written");
    let reader = SerializedFileReader::new(file).expect("just written");
    let mut checksum = 0u64;
    let (mut wide, mut narrow, mut bools) = (Vec::new(), Vec::new(), Vec::new());
    for group in 0..reader.num_row_groups() {
        let group = reader.get_row_group(group).expect("just written");
        for column in 0..group.num_columns() {
            let mut read = 1;
            let mut reader = group.get_column_reader(column).expect("just written");
            while read > 0 {
                (_, read, _) = match &mut reader {
                    ColumnReader::Int64ColumnReader(reader) => {
                        wide.clear();
                        reader.read_records(BATCH, None, None, &mut wide)
                    }
                    ColumnReader::Int32ColumnReader(reader) => {
                        narrow.clear();
                        reader.read_records(BATCH, None, None, &mut narrow)
                    }
                    ColumnReader::BoolColumnReader(reader) => {
                        bools.clear();
                        reader.read_records(BATCH, None, None, &mut bools)
                    }
                    _ => unreachable!("a trace has no other columns"),
                }
                .expect("just written");
                checksum ^= wide.last().map_or(0, |&value: &i64| value.unsigned_abs());
            }
        }
    }
    (cpu_seconds() - start, checksum)
}

fn report(name: &str, unit: &str, bar: Option<f64>, value: f64, at_least: bool) {
    let pass = bar.is_none_or(|bar| if at_least { value >= bar } else { value <= bar });
    let rounded = (value * 1000.0).round() / 1000.0;
    println!("{}", serde_json::json!({"name": name, "unit": unit, "bar": bar, "value": rounded, "pass": pass}));
}

fn main() {
    let measuring = std::env::args().any(|argument| argument == "--bench");
    let rows = std::env::var("BENCH_TRACE_ROWS").ok().and_then(|rows| rows.parse().ok());
    let rows: u64 = rows.unwrap_or(if measuring { 8 << 20 } else { 100_000 });
    let folder = tempfile::tempdir().expect("a temporary folder");
    type Make = fn(&mut Random, u64) -> TraceRow;
    let shapes: [(&str, Make, f64); 2] = [("scattered", scattered, 3.5), ("local", local, 0.5)];
    for (shape, make, bytes_bar) in shapes {
        let path = folder.path().join(format!("{shape}.parquet"));
        let meta = write(&path, rows, make);
        let bytes = std::fs::metadata(&path).expect("just written").len();
        // Alternately, so that disturbances hit both.
        let (mut runs, mut by_crate): (Vec<f64>, Vec<f64>) =
            (0..5).map(|_| (decode(&path).0, decode_by_crate(&path).0)).unzip();
        runs.sort_by(f64::total_cmp);
        by_crate.sort_by(f64::total_cmp);
        let seconds = runs[2];
        let bar = |bar: f64| measuring.then_some(bar);
        let accesses = meta.accesses as f64;
        let name = |what: &str| format!("trace {what}, {shape}");
        report(&name("decode"), "M accesses/s", bar(400.0), accesses / seconds / 1e6, true);
        report(&name("decode by the parquet crate"), "M accesses/s", None, accesses / by_crate[2] / 1e6, true);
        report(&name("decode rows"), "M rows/s", None, rows as f64 / seconds / 1e6, true);
        report(&name("size"), "B/access", bar(bytes_bar), bytes as f64 / accesses, false);
    }
}
