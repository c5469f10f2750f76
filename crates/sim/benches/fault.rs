//! The cost of one fault together with the eviction that makes room for it: host time, and instructions where Valgrind is
//! installed.
//!
//! Prints one JSON object a line: `name, unit, bar, value, pass`. A program writes to twice as many pages as its group may hold,
//! always to the one used longest ago. Each write faults, takes its page from compressed swap, and pushes another one there. The
//! value is the difference of two runs, divided by the additional faults of the longer one. Without `--bench` it runs small and
//! only checks that it works.

#![expect(clippy::print_stdout, reason = "a benchmark's output")]

mod counted;

use isotherm_kernel::cgroup::{CgroupId, Knob, Limit};
use isotherm_kernel::counters::Counter;
use isotherm_kernel::reclaim::policy_by_name;
use isotherm_sim::machine::{Ending, MachineBuilder, MachineConfig, NodeConfig};
use isotherm_units::access::{
    After, Batch, Forks, Mapping, Process, Program, Run, Stream, StreamError, Thread, ThreadStart, Timing,
};
use isotherm_units::{Bytes, Instant, PageRange, Pages};

/// Name, and its bars: ns of the host, instructions in user mode.
const POLICIES: [(&str, f64, f64); 4] =
    [("lru", 100.0, 900.0), ("clock", 100.0, 900.0), ("classic", 100.0, 900.0), ("mglru", 130.0, 1000.0)];
/// Pages of the program; half of them fit.
const PAGES: u64 = 1 << 20;
const PAGES_COUNTED: u64 = 1 << 14;
/// An odd number scatters pages over a power of two of them.
const APART: u64 = 0x9e37_79b1;
const BASE: u64 = 1 << 20;

fn main() {
    if let Some(arguments) = counted::arguments() {
        let number = |at: usize| arguments[at].parse().expect("a number");
        play(&arguments[0], number(1), number(2), arguments[3] == IN_FULL);
        return;
    }
    let measuring = std::env::args().any(|argument| argument == "--bench");
    let pages = if measuring { PAGES } else { 1 << 10 };
    for (policy, bar_ns, bar_instructions) in POLICIES {
        if !counted::is_all() {
            let (few, many) = (best_of(3, policy, pages, 2), best_of(3, policy, pages, 6));
            let ns = (many.0 - few.0) / (many.1 - few.1) as f64;
            let name = format!("fault with eviction, {policy}, 1 M pages");
            report(&name, "ns", measuring.then_some(bar_ns), ns);
        }
        for engine in ["", IN_FULL] {
            let count = |rounds: u64| {
                let arguments = [policy, &PAGES_COUNTED.to_string(), &rounds.to_string(), engine];
                counted::instructions(&arguments.map(ToOwned::to_owned))
            };
            let Some((few, many)) = count(2).and_then(|few| Some((few, count(6)?))).filter(|_| measuring) else {
                continue;
            };
            let faults = play(policy, PAGES_COUNTED, 6, false).1 - play(policy, PAGES_COUNTED, 2, false).1;
            let each = (many - few) / faults as f64;
            let (name, bar) = match engine {
                IN_FULL => (format!("fault with eviction, {policy}, full machine"), None),
                _ => (format!("fault with eviction, {policy}"), Some(bar_instructions)),
            };
            report(&name, "instructions", bar, each);
        }
    }
}

/// The argument for a run without the lean engine.
const IN_FULL: &str = "full";

/// The least time of `times` runs in ns, and the faults of one.
fn best_of(times: u32, policy: &str, pages: u64, rounds: u64) -> (f64, u64) {
    let runs = (0..times).map(|_| play(policy, pages, rounds, false));
    runs.reduce(|best, run| (best.0.min(run.0), run.1)).expect("at least one")
}

/// CPU time of the machine in ns, and faults. `in_full`: without the lean engine.
fn play(policy: &str, pages: u64, rounds: u64, in_full: bool) -> (f64, u64) {
    let memory = Bytes::new(pages * 4096 * 2 + (64 << 20));
    let config =
        MachineConfig { nodes: vec![NodeConfig { memory, ..NodeConfig::default() }], ..MachineConfig::default() };
    let policy = policy_by_name(policy).expect("in the table");
    let mut builder = MachineBuilder::new(&config, policy.build()).expect("a valid machine");
    let group = builder.add_cgroup(CgroupId::ROOT, "limited").expect("one group");
    builder.set(group, Knob::Max, Limit::At(Pages::new(pages / 2)));
    let program = builder.add_program(program(pages, rounds), group).expect("fits");
    builder.start_at(program, Instant::START);
    if in_full {
        builder.in_full();
    }
    let machine = builder.build();
    let begun = cpu_ns();
    let outcome = machine.run(Instant::NEVER).expect("runs");
    let ns = cpu_ns() - begun;
    assert_eq!(outcome.programs[program.0].ending, Ending::Finished, "{:?}", outcome.incidents);
    let counters = &outcome.system().counters;
    let faults = counters.get(Counter::PgFault);
    assert!(faults > pages * rounds * 9 / 10, "nearly each write faults: {faults}");
    (ns, faults)
}

fn program(pages: u64, rounds: u64) -> Program {
    Program {
        name: "faulting".to_owned(),
        files: Vec::new(),
        processes: vec![Process { layout: vec![Mapping::anonymous(PageRange::at(BASE, pages))], ..Process::default() }],
        threads: vec![Thread {
            process: 0,
            start: ThreadStart::WithProgram,
            stream: Box::new(Writes { next: 0, end: pages * rounds, pages }),
        }],
        timing: Timing::Recorded,
        future: None,
    }
}

/// All pages in turn, in a scattered order.
#[derive(Clone)]
struct Writes {
    next: u64,
    end: u64,
    pages: u64,
}

impl Stream for Writes {
    fn next_batch(&mut self, _now: Instant, batch: &mut Batch) -> Result<After, StreamError> {
        if self.next == self.end {
            return Ok(After::Finish);
        }
        let end = self.end.min(self.next + 4096);
        batch.runs.extend((self.next..end).map(|at| Run::write(BASE + at.wrapping_mul(APART) % self.pages, 1)));
        self.next = end;
        Ok(After::Continue)
    }

    fn fork(&self, _forks: &mut Forks) -> Option<Box<dyn Stream>> {
        Some(Box::new(self.clone()))
    }
}

/// CPU time of this thread, which other programs disturb least.
fn cpu_ns() -> f64 {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").expect("Linux keeps it");
    stat.split(' ').next().and_then(|ns| ns.parse().ok()).expect("a number")
}

/// A value passes up to its bar, and without one.
fn report(name: &str, unit: &str, bar: Option<f64>, value: f64) {
    let pass = bar.is_none_or(|bar| value <= bar);
    let bar = bar.map_or("null".to_owned(), |bar| bar.to_string());
    println!(r#"{{"name": "{name}", "unit": "{unit}", "bar": {bar}, "value": {value:.0}, "pass": {pass}}}"#);
}
