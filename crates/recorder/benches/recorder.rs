//! Cost of the recorder behind an engine: CPU time a touch, from the engine's chunks to the finished file. A touch is a page access of a
//! row. Also its memory use, and the growth of that for four times as many touches.
//!
//! Streams: `scattered`, 10 million single pages, uniform over 16 GiB, 800 an epoch; `four threads`, the same by four threads over 4 GiB
//! each; `local`, runs of 16 to 63 pages and hot pages. Prints one JSON object a line: `name, unit, bar, value, pass`. Bar: DESIGN
//! section 5. `BENCH_TOUCHES` sets the number of touches; without `--bench` it uses few and only checks that it works.

#![expect(clippy::print_stdout, reason = "a benchmark's output")]

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;
use std::process::Command;

use isotherm_recorder::trace_from_stream;
use isotherm_units::Duration;
use isotherm_units::random::Random;

/// Bar for CPU time, in ns a touch.
const TOUCH_BAR: f64 = 100.0;
/// Bar for memory: largest ratio for four times as many touches.
const GROWTH_BAR: f64 = 1.25;
/// Each stream runs in its own process, so that memory is measured separately. The variable names the stream.
const SHAPE: &str = "BENCH_SHAPE";
const RUNS: usize = 3;

/// One thread's chunks in the making.
struct Thread {
    uid: u32,
    sequence: u32,
    payload: Vec<u8>,
    row_end: u64,
    epoch: u64,
    rows_of_epoch: u64,
}

impl Thread {
    fn new(uid: u32) -> Self {
        let mut thread = Self { uid, sequence: 0, payload: Vec::new(), row_end: 0, epoch: 0, rows_of_epoch: 0 };
        // Hello: version 1, pid 9, tid, started by and how, at 0 ns, named `p`.
        let (by, origin) = if uid == 0 { (0, 0) } else { (1, 1) };
        thread.record(1, &[1, 9, 9 + u64::from(uid), by, origin, 0, 1]);
        thread.payload.push(b'p');
        thread
    }

    fn record(&mut self, tag: u8, values: &[u64]) {
        self.payload.push(tag);
        for &value in values {
            let mut value = value;
            while value >= 0x80 {
                self.payload.push(value.to_le_bytes()[0] | 0x80);
                value >>= 7;
            }
            self.payload.push(value.to_le_bytes()[0]);
        }
    }

    fn row(&mut self, page: u64, pages: u64, write: bool, rows_of_epoch: u64, out: &mut impl Write) {
        if self.rows_of_epoch == rows_of_epoch {
            (self.epoch, self.rows_of_epoch) = (self.epoch + 1, 0);
        }
        if self.rows_of_epoch == 0 || self.payload.is_empty() {
            let order_ns = self.epoch * 1_000_000 + u64::from(self.uid);
            self.record(2, &[self.epoch, order_ns]);
        }
        self.rows_of_epoch += 1;
        let delta = page.wrapping_sub(self.row_end).cast_signed();
        self.record(3, &[((delta << 1) ^ (delta >> 63)).cast_unsigned(), (pages - 1) << 1 | u64::from(write)]);
        self.row_end = page + pages;
        if self.payload.len() > 4096 - 16 - 40 {
            self.send(out);
        }
    }

    fn send(&mut self, out: &mut impl Write) {
        let len = u32::try_from(self.payload.len()).expect("a chunk is short");
        for part in [&b"iTR1"[..], &len.to_le_bytes(), &self.uid.to_le_bytes(), &self.sequence.to_le_bytes()] {
            out.write_all(part).expect("a temporary folder is writable");
        }
        out.write_all(&self.payload).expect("a temporary folder is writable");
        self.payload.clear();
        self.sequence += 1;
        self.row_end = 0;
    }
}

fn scattered(path: &Path, touches: u64, nr_threads: u32) {
    let mut out = BufWriter::new(File::create(path).expect("a temporary folder is writable"));
    let mut threads: Vec<Thread> = (0..nr_threads).map(Thread::new).collect();
    let mut random = Random::new(42);
    let pages = (4 << 20) / u64::from(nr_threads);
    for index in 0..touches {
        // Threads take turns of an epoch.
        let number = (index / 800 % u64::from(nr_threads)) as usize;
        let page = 0x7_f000_0000 + number as u64 * pages + random.below(pages);
        threads[number].row(page, 1, random.below(3) == 0, 800, &mut out);
    }
    threads.iter_mut().for_each(|thread| thread.send(&mut out));
    out.flush().expect("a temporary folder is writable");
}

fn local(path: &Path, touches: u64, _: u32) {
    let mut out = BufWriter::new(File::create(path).expect("a temporary folder is writable"));
    let (mut thread, mut random) = (Thread::new(0), Random::new(42));
    let (mut touched, mut index) = (0, 0);
    while touched < touches {
        // Each epoch of 40 rows sweeps on; every fourth row returns to a hot page.
        let hot = index % 4 == 0;
        let page = if hot { 0x5_5555 + random.below(256) } else { 0x7_f000_0000 + index * 40 % (1 << 20) };
        let pages = if hot { 1 } else { 16 + random.below(48) };
        thread.row(page, pages, (index / 4).is_multiple_of(8), 40, &mut out);
        (touched, index) = (touched + pages, index + 1);
    }
    thread.send(&mut out);
    out.flush().expect("a temporary folder is writable");
}

/// CPU time of this thread in seconds, the measure that other programs disturb least.
fn cpu_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    stat.split(' ').next().and_then(|ns| ns.parse::<u64>().ok()).map_or(0.0, |ns| ns as f64 / 1e9)
}

/// `key` of /proc/self/status in bytes.
fn memory(key: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix(key)).unwrap_or_default();
    line.split_whitespace().nth(1).and_then(|kib| kib.parse::<u64>().ok()).map_or(0, |kib| kib << 10)
}

struct Measured {
    touches: u64,
    /// CPU time, in seconds.
    seconds: f64,
    rows: u64,
    /// Peak resident memory, above that of this process at its start.
    peak_bytes: u64,
}

fn assemble(stream: &Path, trace: &Path, before: u64) -> Measured {
    let began = cpu_seconds();
    let mut file = File::open(stream).expect("just written");
    let meta = trace_from_stream(&mut file, trace, Duration::from_ms(1)).expect("the stream is right");
    let seconds = cpu_seconds() - began;
    Measured { touches: meta.accesses, rows: meta.rows, seconds, peak_bytes: memory("VmHWM").saturating_sub(before) }
}

fn report(name: &str, unit: &str, bar: Option<f64>, value: f64) {
    let pass = bar.is_none_or(|bar| value <= bar);
    let value = (value * 100.0).round() / 100.0;
    println!("{}", serde_json::json!({"name": name, "unit": unit, "bar": bar, "value": value, "pass": pass}));
}

type Make = fn(&Path, u64, u32);
const SHAPES: [(&str, Make, u32); 3] =
    [("scattered", scattered, 1), ("four threads", scattered, 4), ("local", local, 1)];

fn main() {
    let measuring = std::env::args().any(|argument| argument == "--bench");
    let Some(wanted) = std::env::var_os(SHAPE) else {
        for (shape, ..) in SHAPES {
            let this = std::env::current_exe().expect("it runs");
            let status = Command::new(this).args(std::env::args_os().skip(1)).env(SHAPE, shape).status();
            assert!(status.expect("it starts again").success(), "{shape}");
        }
        return;
    };
    let touches = std::env::var("BENCH_TOUCHES").ok().and_then(|touches| touches.parse().ok());
    let touches: u64 = touches.unwrap_or(if measuring { 10_000_000 } else { 50_000 });
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (stream, trace) = (folder.path().join("stream"), folder.path().join("trace"));
    let (shape, make, nr_threads) =
        SHAPES.into_iter().find(|(shape, ..)| wanted == *shape).expect("it is in the table");
    let before = memory("VmRSS");
    make(&stream, touches / 4, nr_threads);
    // Twice, because memory that the allocator keeps after the first run counts too.
    assemble(&stream, &trace, before);
    let quarter = assemble(&stream, &trace, before);
    make(&stream, touches, nr_threads);
    let runs: Vec<Measured> = (0..RUNS).map(|_| assemble(&stream, &trace, before)).collect();
    assert!(runs.iter().all(|run| run.touches >= touches), "touches are missing");
    let least = runs.iter().map(|run| run.seconds / run.touches as f64).fold(f64::INFINITY, f64::min);
    let name = |what: &str| format!("recorder {what}, {shape}");
    report(&name("CPU time"), "ns/touch", measuring.then_some(TOUCH_BAR), least * 1e9);
    report(&name("memory"), "MiB", None, runs[0].peak_bytes as f64 / f64::from(1 << 20));
    let growth = runs[0].peak_bytes as f64 / quarter.peak_bytes.max(1) as f64;
    // Below a million rows, a row group of the file, all of them are in memory.
    let bar = (measuring && quarter.rows > 1 << 20).then_some(GROWTH_BAR);
    report(&name("memory for four times as much"), "times", bar, growth);
    let bytes = std::fs::metadata(&trace).expect("just written").len();
    report(&name("file"), "B/touch", None, bytes as f64 / runs[0].touches as f64);
}
