//! Full replay with reclaim, next to libCacheSim on the same trace file in the same run.
//!
//! Writes an oracleGeneral trace of Zipf-like requests, replays it with memory for a part of its pages, fewer than it touches: by
//! libCacheSim's LRU (its C loop, `libcachesim_speed.py`) and by the simulated machine under `lru`, `clock`, `classic` and `mglru`. Prints one
//! JSON object a line: `name, unit, bar, value, pass`. Without `--bench` it runs small and only checks that it works.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a benchmark's output")]

use std::fs::File;
use std::io::{BufWriter, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::process::Command;

use isotherm_kernel::cgroup::{CgroupId, Knob, Limit};
use isotherm_kernel::counters::Counter;
use isotherm_kernel::reclaim::policy_by_name;
use isotherm_sim::machine::{Ending, MachineBuilder, MachineConfig, NodeConfig};
use isotherm_units::access::{
    After, Batch, Forks, Mapping, Process, Program, Run, Stream, StreamError, Thread, ThreadStart, Timing,
};
use isotherm_units::random::Random;
use isotherm_units::{Bytes, Instant, PageRange, Pages};

/// A trace, and the memory that it is played with.
struct Size {
    name: &'static str,
    pages: u64,
    requests: u64,
    /// The limit is the pages divided by this. Of ten million pages the requests touch fewer than five.
    parts: u64,
    /// Required speed relative to libCacheSim's LRU, by policy.
    bars: [(&'static str, f64); 4],
}

const SIZES: [Size; 2] = [
    Size {
        name: "1 M pages",
        pages: 1_000_000,
        requests: 20_000_000,
        parts: 2,
        bars: [("lru", 8.0), ("clock", 8.0), ("classic", 8.0), ("mglru", 5.0)],
    },
    Size {
        name: "10 M pages",
        pages: 10_000_000,
        requests: 40_000_000,
        parts: 10,
        bars: [("lru", 8.0), ("clock", 8.0), ("classic", 4.0), ("mglru", 2.5)],
    },
];
const RECORD: usize = 24;

fn main() {
    let measuring = std::env::args().any(|argument| argument == "--bench");
    let folder = tempfile::tempdir_in(root().join("target")).expect("target/ is writable");
    for Size { name, pages, requests, parts, bars } in SIZES {
        let (pages, requests) = if measuring { (pages, requests) } else { (1000, 10_000) };
        let trace = folder.path().join("zipf.bin");
        write_trace(&trace, pages, requests);
        let theirs = libcachesim(&trace, pages / parts);
        if let Some(theirs) = &theirs {
            report(&format!("replay, libCacheSim LRU, {name}"), "ns/access", None, theirs.ns);
            let percent = theirs.misses as f64 * 100.0 / requests as f64;
            report(&format!("replay, misses of exact LRU, {name}"), "% of accesses", None, percent);
        }
        for (policy, bar) in bars {
            let ours = replay(&trace, policy, pages, pages / parts);
            report(&format!("replay, {policy}, {name}"), "ns/access", None, ours.ns);
            let percent = ours.misses as f64 * 100.0 / requests as f64;
            report(&format!("replay, faults of {policy}, {name}"), "% of accesses", None, percent);
            let Some(theirs) = &theirs else { continue };
            let bar = measuring.then_some(bar);
            report(
                &format!("replay, {policy}, {name}: against libCacheSim LRU"),
                "times faster",
                bar,
                theirs.ns / ours.ns,
            );
            if policy == "lru" {
                assert_eq!(ours.misses, theirs.misses, "exact LRU must miss as often as libCacheSim's");
            }
        }
        std::fs::remove_file(&trace).expect("just written");
    }
}

fn report(name: &str, unit: &str, bar: Option<f64>, value: f64) {
    let pass = bar.is_none_or(|bar| value >= bar);
    let value = (value * 100.0).round() / 100.0;
    println!("{}", serde_json::json!({"name": name, "unit": unit, "bar": bar, "value": value, "pass": pass}));
}

struct Measured {
    ns: f64,
    misses: u64,
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Every power of two of ranks has the same weight; ranks are scattered over the pages.
fn write_trace(path: &Path, pages: u64, requests: u64) {
    let mut out = BufWriter::with_capacity(1 << 20, File::create(path).expect("writable"));
    let mut random = Random::new(0x2545_f491_4f6c_dd1d);
    let levels = u64::from(pages.ilog2()) + 1;
    for _ in 0..requests {
        let rank = loop {
            let level = random.below(levels);
            let rank = (1 << level) + random.below(1 << level);
            if rank < pages {
                break rank;
            }
        };
        let mut record = [0; RECORD];
        record[4..12].copy_from_slice(&(rank * 2_654_435_761 % pages).to_le_bytes());
        record[12..16].copy_from_slice(&4096u32.to_le_bytes());
        record[16..].copy_from_slice(&(-1i64).to_le_bytes());
        out.write_all(&record).expect("space for the trace");
    }
    out.flush().expect("space for the trace");
}

/// `None`, with a message, if libCacheSim is not installed.
fn libcachesim(trace: &Path, capacity: u64) -> Option<Measured> {
    let python = root().join("target/test-needs/bin/python");
    let script = root().join("tests/differential/libcachesim_speed.py");
    let output = Command::new(python).arg(script).arg(trace).arg(capacity.to_string()).output();
    let Some(output) = output.ok().filter(|output| output.status.success()) else {
        eprintln!("libcachesim is not installed (scripts/install-test-needs): nothing to compare with");
        return None;
    };
    let text = String::from_utf8(output.stdout).expect("numbers");
    let fields: Vec<&str> = text.trim().split('\t').collect();
    Some(Measured { misses: fields[1].parse().expect("a count"), ns: fields[2].parse().expect("a time") })
}

fn replay(trace: &Path, policy: &str, pages: u64, capacity: u64) -> Measured {
    let mut best = Measured { ns: f64::INFINITY, misses: 0 };
    for _ in 0..3 {
        let memory = Bytes::new(pages * 4096 * 2 + (64 << 20));
        let config = MachineConfig {
            nodes: vec![NodeConfig { memory, ..NodeConfig::default() }],
            page_cluster: 0,
            ..MachineConfig::default()
        };
        let policy = policy_by_name(policy).expect("in the table");
        let mut builder = MachineBuilder::new(&config, policy.build()).expect("a valid machine");
        let group = builder.add_cgroup(CgroupId::ROOT, "limited").expect("one group");
        builder.set(group, Knob::Max, Limit::At(Pages::new(capacity)));
        let requests = std::fs::metadata(trace).expect("just written").len() / RECORD as u64;
        let program = builder.add_program(program(trace, pages), group).expect("fits");
        builder.start_at(program, Instant::START);
        let machine = builder.build();
        let start = cpu_ns();
        let outcome = machine.run(Instant::NEVER).expect("runs");
        // The kernel accounts CPU time at ticks, so small runs may show none.
        let ns = (cpu_ns() - start).max(1.0) / requests as f64;
        assert_eq!(outcome.programs[program.0].ending, Ending::Finished, "{:?}", outcome.incidents);
        let counters = &outcome.system().counters;
        let misses = counters.get(Counter::PgFault);
        assert!(misses > capacity, "the limit of {capacity} pages does not bind: only {misses} faults");
        best = Measured { ns: best.ns.min(ns), misses };
    }
    best
}

fn program(trace: &Path, pages: u64) -> Program {
    let stream = Records {
        path: trace.to_owned(),
        file: File::open(trace).expect("just written"),
        read: 0,
        buffer: vec![0; RECORD << 12],
    };
    Program {
        name: "replay".to_owned(),
        files: Vec::new(),
        processes: vec![Process { layout: vec![Mapping::anonymous(PageRange::at(BASE, pages))], ..Process::default() }],
        threads: vec![Thread { process: 0, start: ThreadStart::WithProgram, stream: Box::new(stream) }],
        timing: Timing::Recorded,
        future: None,
    }
}

const BASE: u64 = 1 << 20;

/// Streams the trace file, as libCacheSim does.
struct Records {
    path: PathBuf,
    file: File,
    /// Bytes read so far.
    read: u64,
    buffer: Vec<u8>,
}

impl Stream for Records {
    fn next_batch(&mut self, _now: Instant, batch: &mut Batch) -> Result<After, StreamError> {
        let mut filled = 0;
        while filled < self.buffer.len() {
            match self.file.read(&mut self.buffer[filled..])? {
                0 => break,
                bytes => filled += bytes,
            }
        }
        if filled == 0 {
            return Ok(After::Finish);
        }
        self.read += filled as u64;
        batch.runs.extend(self.buffer[..filled].chunks_exact(RECORD).map(|record| {
            let page = u64::from_le_bytes(record[4..12].try_into().expect("8 bytes"));
            Run::write(BASE + page, 1)
        }));
        Ok(After::Continue)
    }

    fn fork(&self, _forks: &mut Forks) -> Option<Box<dyn Stream>> {
        let mut file = File::open(&self.path).ok()?;
        file.seek(SeekFrom::Start(self.read)).ok()?;
        Some(Box::new(Self { path: self.path.clone(), file, read: self.read, buffer: vec![0; self.buffer.len()] }))
    }
}

/// CPU time of this thread, the measure that other programs disturb least.
fn cpu_ns() -> f64 {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").expect("Linux keeps it");
    stat.split(' ').next().and_then(|ns| ns.parse().ok()).expect("a number")
}
