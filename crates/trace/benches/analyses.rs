//! Cost per row of analyses of long traces: heatmap, working set, miss-ratio curve, and the curve of a sample. On synthetic traces of
//! single pages scattered over the footprint, half of the rows in a sixteenth of it: of a length and footprint, four times the length, and
//! four times the footprint.
//!
//! Prints one JSON object a line: `name, unit, bar, value, pass`. Bars: a minute for 10^9 rows. Figures are CPU time of all threads, the
//! least of three runs. They include decoding ahead on another thread, so an analysis takes less wall time on an idle machine.
//! `BENCH_ANALYSES_FILE` names a trace to take instead, once; under `cargo test` few rows are used and only that it works is checked.

#![expect(clippy::print_stdout, reason = "a benchmark's output")]

use std::path::Path;

use isotherm_trace::analysis::{HeatmapOptions, Sampling, heatmap, mrc, mrc_sampled, wss};
use isotherm_trace::{EventKind, MapRange, TraceMeta, TraceReader, TraceRow, TraceWriter};

const EPOCH_NS: u64 = 10_000_000;
const EPOCH_ROWS: u64 = 2_800;
const FIRST_PAGE: u64 = 0x5_5555_5556;

fn write(path: &Path, rows: u64, pages: u64) {
    let meta = TraceMeta { epoch_ns: EPOCH_NS, ..TraceMeta::single("bench") };
    let mut writer = TraceWriter::create_finished(path, meta).expect("a temporary folder is writable");
    let map = MapRange { start: FIRST_PAGE, end: FIRST_PAGE + pages, ..MapRange::default() };
    writer.event(0, 0, EventKind::Map(map)).expect("writable");
    // xorshift64*, so that every run makes the same trace.
    let mut state = 42u64;
    let mut below = |limit: u64| {
        state ^= state >> 12;
        state ^= state << 25;
        state ^= state >> 27;
        ((u128::from(state.wrapping_mul(0x2545_f491_4f6c_dd1d)) * u128::from(limit)) >> 64) as u64
    };
    for index in 0..rows {
        // Every page once, then the hot ones every second time. An odd step visits all pages of a power of two.
        let rank = match index {
            index if index < pages => index,
            index if index.is_multiple_of(2) => below(pages / 16),
            _ => below(pages),
        };
        let page = FIRST_PAGE + rank.wrapping_mul(0x9e37_79b1) % pages;
        let time_ns = index / EPOCH_ROWS * EPOCH_NS;
        let row = TraceRow { time_ns, thread: 0, page, pages: 1, write: index.is_multiple_of(3), kernel: false };
        writer.push(row).expect("writable");
    }
    writer.finish().expect("writable");
}

/// An analysis: its name, the bar in nanoseconds a row, and the function; its result is not used.
type Reading = (&'static str, f64, fn(&mut TraceReader) -> u64);

const READINGS: [Reading; 4] = [
    ("heatmap", 60.0, |reader| {
        let options = HeatmapOptions { columns: 800, rows: 4000, whole_epochs: true, ..HeatmapOptions::default() };
        heatmap(reader, &options).expect("a trace").hottest_milli
    }),
    ("wss", 60.0, |reader| wss(reader, 10 * EPOCH_NS).expect("a trace").windows.len() as u64),
    ("mrc", 60.0, |reader| mrc(reader).expect("a trace").misses_at(1000)),
    ("mrc of 1/16", 60.0, |reader| {
        let sampling: Sampling = "1/16".parse().expect("a rate");
        mrc_sampled(reader, sampling).expect("a trace").misses_at(1000)
    }),
];

/// CPU time of all threads of this process, which other programs on the machine disturb less than elapsed time. The kernel counts it in
/// hundredths of a second.
fn cpu_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").expect("Linux");
    // After the name in parentheses: the state is field 3, user and system time are fields 14 and 15.
    let fields = stat.rsplit_once(')').map_or("", |(_, fields)| fields);
    let ticks = fields.split_whitespace().skip(11).take(2).filter_map(|ticks| ticks.parse::<u64>().ok());
    ticks.sum::<u64>() as f64 / 100.0
}

/// Nanoseconds a row of each analysis.
fn measure(path: &Path, runs: u32) -> Vec<f64> {
    let mut reader = TraceReader::open(path).expect("a trace");
    let rows = reader.meta().rows as f64;
    let mut run = |read: fn(&mut TraceReader) -> u64| {
        let start = cpu_seconds();
        let seen = read(&mut reader);
        std::hint::black_box(seen);
        (cpu_seconds() - start) * 1e9 / rows
    };
    READINGS.iter().map(|&(_, _, read)| (0..runs).map(|_| run(read)).fold(f64::INFINITY, f64::min)).collect()
}

fn report(name: &str, unit: &str, bar: Option<f64>, value: f64) {
    let pass = bar.is_none_or(|bar| value <= bar);
    let rounded = (value * 1000.0).round() / 1000.0;
    println!("{}", serde_json::json!({"name": name, "unit": unit, "bar": bar, "value": rounded, "pass": pass}));
}

fn main() {
    let measuring = std::env::args().any(|argument| argument == "--bench");
    if let Some(path) = std::env::var_os("BENCH_ANALYSES_FILE") {
        for (value, (name, bar, _)) in measure(Path::new(&path), 1).into_iter().zip(READINGS) {
            report(&format!("{name} of the given trace"), "ns/row", Some(bar), value);
        }
        return;
    }
    let (rows, pages, runs) = if measuring { (8 << 20, 1 << 20, 3) } else { (20_000, 1 << 10, 1) };
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("trace.parquet");
    let bar = |bar: f64| measuring.then_some(bar);
    write(&path, rows, pages);
    let base = measure(&path, runs);
    for (&value, (name, limit, _)) in base.iter().zip(READINGS) {
        report(&format!("{name}, 8 M rows over 4 GiB"), "ns/row", bar(limit), value);
    }
    for (what, rows, pages) in [("4 times the length", 4 * rows, pages), ("4 times the footprint", rows, 4 * pages)] {
        write(&path, rows, pages);
        for ((value, before), (name, _, _)) in measure(&path, runs).into_iter().zip(&base).zip(READINGS) {
            report(&format!("{name}, cost a row at {what}"), "times", bar(2.0), value / before);
        }
    }
}
