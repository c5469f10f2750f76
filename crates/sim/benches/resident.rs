//! The cost of an access to resident memory, with one kind of memory and with two, and the memory of the machine's own tables.
//!
//! Prints one JSON object a line: `name, unit, bar, value, pass`. A machine plays one thread that first writes all of its
//! memory and then touches it at random or in order. Only time spent in the machine counts, not the making of accesses.
//! Without `--bench` it runs small and only checks that it works.

#![expect(clippy::print_stdout, reason = "a benchmark's output")]

mod counted;

use std::sync::{Arc, Mutex};
use std::time::Instant as Clock;

use isotherm_kernel::cgroup::CgroupId;
use isotherm_kernel::reclaim::policy_by_name;
use isotherm_sim::machine::{Ending, MachineBuilder, MachineConfig, MemoryKind, NodeConfig};
use isotherm_units::access::{
    After, Batch, Forks, Mapping, Process, Program, Run, Stream, StreamError, Thread, ThreadStart, Timing,
};
use isotherm_units::random::Random;
use isotherm_units::{Bytes, Instant, PageRange};

/// Order of the measured accesses.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Pattern {
    /// About 1 / rank, ranks scattered over the memory.
    Zipf,
    /// Every page equally often.
    Uniform,
    /// Runs of 512 pages in order.
    Sequential,
    /// Nothing is measured; the touched pages lie side by side.
    Clustered,
    /// Nothing is measured; the touched pages are scattered over the mapping.
    Scattered,
    /// Every page equally often, from a list that is made once.
    Again,
}

fn main() {
    if let Some(arguments) = counted::arguments() {
        play_rounds(COUNTED_PAGES, Pattern::Again, COUNTED_PAGES, arguments[0].parse().expect("rounds"));
        return;
    }
    let measuring = std::env::args().any(|argument| argument == "--bench");
    if counted::is_all() {
        return report_instructions(measuring);
    }
    let accesses = if measuring { 1 << 19 } else { 1 << 12 };
    let mib = |mib: u64| if measuring { mib << 8 } else { (mib << 8).min(1 << 10) };

    // First, while the process is small: memory. What is freed need not go back to the system, so the smallest comes first.
    let sparse = |name: &str, pattern| {
        let before = resident_bytes();
        let run = play(mib(1 << 20), mib(1 << 10), pattern, 0);
        let used = run.resident_bytes.saturating_sub(before) as f64 / 1048576.0;
        report(&format!("memory, 1 TiB mapped, 1 GiB touched, {name}"), "MiB", Some(1024.0), used, measuring);
    };
    sparse("clustered", Pattern::Clustered);
    let before = resident_bytes();
    let run = play(mib(16 << 10), mib(16 << 10), Pattern::Clustered, 0);
    let used = run.resident_bytes.saturating_sub(before) as f64 / mib(16 << 10) as f64;
    report("memory per resident page, 16 GiB", "B", Some(24.0), used, measuring);
    sparse("scattered", Pattern::Scattered);

    for (pattern_name, pattern) in [("zipf", Pattern::Zipf), ("uniform", Pattern::Uniform)] {
        let mut first = None;
        for (size_name, size_mib, bar) in SIZES {
            let ns = play(mib(size_mib), mib(size_mib), pattern, accesses).best_ns;
            report(&format!("resident access, {pattern_name}, {size_name}"), "ns/access", Some(bar), ns, measuring);
            let growth = ns / *first.get_or_insert(ns);
            if size_mib == 100 << 10 {
                report(
                    &format!("resident access, {pattern_name}, growth to 100 GiB"),
                    "times",
                    Some(3.0),
                    growth,
                    measuring,
                );
            }
        }
    }
    report_instructions(measuring);
    for (size_name, size_mib, bar) in SIZES {
        let ns = play_on_two_kinds(mib(size_mib), Pattern::Uniform, accesses).best_ns;
        let name = format!("resident access, uniform, half of it in slow memory, {size_name}");
        report(&name, "ns/access", Some(bar), ns, measuring);
    }
    for (size_name, size_mib, _) in SIZES {
        let pages = accesses.max(mib(size_mib));
        let ns = play(mib(size_mib), mib(size_mib), Pattern::Sequential, pages).best_ns;
        report(&format!("resident access, sequential runs, {size_name}"), "ns/page", Some(0.5), ns, measuring);
    }
}

fn report_instructions(measuring: bool) {
    let count = |rounds: u32| counted::instructions(&[rounds.to_string()]);
    if let Some((few, many)) = count(2).and_then(|few| Some((few, count(6)?))).filter(|_| measuring) {
        let each = (many - few) / (4 * COUNTED_PAGES) as f64;
        report("resident access, uniform, 256 MiB", "instructions", Some(25.0), each, measuring);
    }
}

/// Pages of the run whose instructions are counted.
const COUNTED_PAGES: u64 = 1 << 16;

/// Name, MiB, bar for scattered accesses in ns.
const SIZES: [(&str, u64, f64); 4] =
    [("64 MiB", 64, 5.0), ("1 GiB", 1 << 10, 5.0), ("16 GiB", 16 << 10, 5.0), ("100 GiB", 100 << 10, 8.0)];

fn report(name: &str, unit: &str, bar: Option<f64>, value: f64, measuring: bool) {
    let bar = bar.filter(|_| measuring);
    let pass = bar.is_none_or(|bar| value <= bar);
    let bar = bar.map_or("null".to_owned(), |bar| bar.to_string());
    println!(r#"{{"name": "{name}", "unit": "{unit}", "bar": {bar}, "value": {value:.3}, "pass": {pass}}}"#);
}

/// The measure of a run.
#[derive(Clone, Copy)]
struct Measured {
    /// Time in the machine per page touched, best round; infinite when nothing was measured.
    best_ns: f64,
    /// Of this process, when all memory was touched.
    resident_bytes: u64,
}

/// Many short rounds: the best one is little disturbed by other programs.
const ROUNDS: u32 = 40;

/// Maps `mapped` pages, writes `touched` of them once, then makes `accesses` accesses in each round.
fn play(mapped: u64, touched: u64, pattern: Pattern, accesses: u64) -> Measured {
    let memory = Bytes::new(touched * 4096 + touched * 4096 / 8 + (64 << 20));
    play_on(vec![NodeConfig { memory, ..NodeConfig::default() }], mapped, touched, pattern, accesses, ROUNDS)
}

/// The same for `rounds` rounds, of memory that is touched as a whole.
fn play_rounds(pages: u64, pattern: Pattern, accesses: u64, rounds: u32) -> Measured {
    let memory = Bytes::new(pages * 4096 * 2 + (64 << 20));
    play_on(vec![NodeConfig { memory, ..NodeConfig::default() }], pages, pages, pattern, accesses, rounds)
}

/// The same on a machine whose fast memory holds one half, and whose slow memory holds the other.
fn play_on_two_kinds(pages: u64, pattern: Pattern, accesses: u64) -> Measured {
    let half = Bytes::new(pages * 4096 / 2);
    let rest = Bytes::new(pages * 4096 * 3 / 4 + (64 << 20));
    let nodes = vec![NodeConfig::of_kind(MemoryKind::Dram, half), NodeConfig::of_kind(MemoryKind::Cxl, rest)];
    play_on(nodes, pages, pages, pattern, accesses, ROUNDS)
}

fn play_on(
    nodes: Vec<NodeConfig>,
    mapped: u64,
    touched: u64,
    pattern: Pattern,
    accesses: u64,
    rounds: u32,
) -> Measured {
    let config = MachineConfig { nodes, ..MachineConfig::default() };
    let policy = policy_by_name("classic").expect("in the table");
    let mut builder = MachineBuilder::new(&config, policy.build()).expect("a valid machine");
    let base = 1 << 20;
    let measured = Arc::new(Mutex::new(Measured { best_ns: f64::INFINITY, resident_bytes: 0 }));
    let mut random = Random::new(0x9e37_79b9_7f4a_7c15);
    let listed = if pattern == Pattern::Again { accesses } else { 0 };
    let again = (0..listed).map(|_| Run::read(base + random.below(touched), 1)).collect();
    let stream = Toucher {
        base,
        mapped,
        touched,
        pattern,
        accesses,
        measured: measured.clone(),
        rounds,
        random,
        again: Arc::new(again),
        phase: Phase::Populate { done: 0 },
        handed_out: None,
    };
    let program = Program {
        name: "toucher".to_owned(),
        files: Vec::new(),
        processes: vec![Process {
            layout: vec![Mapping::anonymous(PageRange::at(base, mapped))],
            ..Process::default()
        }],
        threads: vec![Thread { process: 0, start: ThreadStart::WithProgram, stream: Box::new(stream) }],
        timing: Timing::Modelled,
        future: None,
    };
    let program = builder.add_program(program, CgroupId::ROOT).expect("fits");
    builder.start_at(program, Instant::START);
    let outcome = builder.build().run(Instant::NEVER).expect("runs");
    assert_eq!(outcome.programs[program.0].ending, Ending::Finished, "{:?}", outcome.incidents);
    *measured.lock().expect("one thread")
}

/// Touches pages and measures the machine's time.
#[derive(Clone)]
struct Toucher {
    base: u64,
    mapped: u64,
    touched: u64,
    pattern: Pattern,
    accesses: u64,
    rounds: u32,
    /// All accesses of a round, for [`Pattern::Again`].
    again: Arc<Vec<Run>>,
    measured: Arc<Mutex<Measured>>,
    random: Random,
    phase: Phase,
    /// When the last batch was handed out.
    handed_out: Option<Clock>,
}

#[derive(Clone, Copy)]
enum Phase {
    Populate { done: u64 },
    Measure { round: u32, done: u64, spent_ns: u128 },
}

const BATCH: u64 = 4096;
const RUN: u64 = 512;

impl Stream for Toucher {
    fn next_batch(&mut self, _now: Instant, batch: &mut Batch) -> Result<After, StreamError> {
        let in_machine = self.handed_out.map_or(0, |at| at.elapsed().as_nanos());
        match &mut self.phase {
            Phase::Populate { done } if *done < self.touched => {
                let from = *done;
                *done = (from + BATCH).min(self.touched);
                let to = *done;
                self.populate(from, to, batch);
            }
            Phase::Populate { .. } => {
                self.measured.lock().expect("one thread").resident_bytes = resident_bytes();
                if self.accesses == 0 {
                    return Ok(After::Finish);
                }
                self.phase = Phase::Measure { round: 0, done: 0, spent_ns: 0 };
                self.fill(0, batch);
            }
            Phase::Measure { round, done, spent_ns } => {
                *spent_ns += in_machine;
                *done += if self.pattern == Pattern::Sequential { BATCH * RUN } else { BATCH };
                if *done >= self.accesses {
                    let ns = *spent_ns as f64 / *done as f64;
                    let mut measured = self.measured.lock().expect("one thread");
                    measured.best_ns = measured.best_ns.min(ns);
                    if *round + 1 == self.rounds {
                        return Ok(After::Finish);
                    }
                    (*round, *done, *spent_ns) = (*round + 1, 0, 0);
                }
                let from = *done;
                self.fill(from, batch);
            }
        }
        self.handed_out = Some(Clock::now());
        Ok(After::Continue)
    }

    fn fork(&self, _forks: &mut Forks) -> Option<Box<dyn Stream>> {
        Some(Box::new(self.clone()))
    }
}

impl Toucher {
    fn populate(&self, from: u64, to: u64, batch: &mut Batch) {
        if self.pattern == Pattern::Scattered {
            let apart = self.mapped / self.touched;
            batch.runs.extend((from..to).map(|page| Run::write(self.base + page * apart, 1)));
        } else {
            let pages = u32::try_from(to - from).expect("a batch is small");
            batch.runs.push(Run::write(self.base + from, pages));
        }
    }

    fn fill(&mut self, from: u64, batch: &mut Batch) {
        if self.pattern == Pattern::Again {
            let [from, to] = [from, from + BATCH].map(|at| usize::try_from(at).expect("in memory"));
            return batch.runs.share(&self.again, from..to);
        }
        for index in 0..BATCH {
            let run = match self.pattern {
                Pattern::Sequential => {
                    let run_pages = RUN.min(self.touched);
                    let runs = self.touched / run_pages;
                    let page = (from / RUN + index) % runs * run_pages;
                    Run::read(self.base + page, u32::try_from(run_pages).expect("small"))
                }
                Pattern::Zipf => Run::read(self.base + self.zipf(), 1),
                _ => Run::read(self.base + self.random.below(self.touched), 1),
            };
            batch.runs.push(run);
        }
    }

    /// The same weight on every power of two of ranks.
    fn zipf(&mut self) -> u64 {
        let levels = u64::from(self.touched.ilog2());
        let level = self.random.below(levels);
        let rank = (1 << level) + self.random.below(1 << level);
        rank * 2_654_435_761 % self.touched
    }
}

/// `VmRSS` of this process; 0 where the kernel does not say.
fn resident_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|line| line.split_whitespace().next()).and_then(|kib| kib.parse::<u64>().ok());
    kib.unwrap_or(0) * 1024
}
