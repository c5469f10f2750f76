//! A program of 5 TiB that uses 10 GiB of it: memory of the simulator, speed of accesses, speed of probes of accessed bits.
//!
//! Prints one JSON object a line: `name, unit, bar, value, pass`. A machine plays one thread that touches pages at random; only
//! time spent in the machine counts, not the making of accesses. The program's memory is premapped, except in one row of the
//! output. Without `--bench` it runs small and only checks that it works.

#![expect(clippy::print_stdout, reason = "a benchmark's output")]

use std::sync::{Arc, Mutex};
use std::time::Instant as Clock;

use isotherm_core::host::{Level, Probe, ProbeResult, Probing, TargetId, UnitRange};
use isotherm_core::monitor::{MonitorConfig, Operations};
use isotherm_kernel::cgroup::CgroupId;
use isotherm_kernel::mmu::{MmuConfig, TranslationConfig};
use isotherm_kernel::reclaim::policy_by_name;
use isotherm_sim::host::MemoryHost;
use isotherm_sim::machine::{
    DriverError, Ending, MachineBuilder, MachineConfig, MonitorDriver, MonitorTarget, NodeConfig, Outcome, ProgramId,
    TickSink, Watched,
};
use isotherm_units::access::{
    After, Batch, Mapping, Process, Program, Run, Stream, StreamError, Thread, ThreadStart, Timing,
};
use isotherm_units::random::Random;
use isotherm_units::{Bytes, Duration, Instant, PageRange};

const GIB: u64 = 1 << 18;

/// Where the used pages lie.
#[derive(Clone, Copy)]
enum Hot {
    /// Side by side.
    Clustered,
    /// Evenly over the whole mapping.
    Scattered,
}

/// What is measured.
#[derive(Clone, Copy)]
struct Setup {
    mapped: u64,
    hot: u64,
    place: Hot,
    huge: bool,
    translated: bool,
    premapped: bool,
    accesses: u64,
}

fn main() {
    let measuring = std::env::args().any(|argument| argument == "--bench");
    let (scale, accesses) = if measuring { (1, 1 << 18) } else { (64, 1 << 13) };
    let base = Setup {
        mapped: 5 * 1024 * GIB / scale,
        hot: 10 * GIB / scale,
        place: Hot::Clustered,
        huge: false,
        translated: false,
        premapped: true,
        accesses,
    };
    // All of this process counts, so the smallest come first: an allocator may keep what was freed.
    for strategy in ["ptp", "ptp-descend"] {
        let (times, resident_bytes) = monitor(base, strategy, if measuring { 20 } else { 1 });
        let name = format!("whole run, 5 TiB, clustered, 2 M accesses/s, monitored by {strategy}");
        report(&name, "times real time", Some(10.0).filter(|_| measuring), times, times >= 10.0);
        let mib = resident_bytes as f64 / 1048576.0;
        report(&format!("memory of the {name}"), "MiB", Some(64.0).filter(|_| measuring), mib, mib <= 64.0);
    }
    for (name, place, mib_bar, speed_bar) in
        [("clustered", Hot::Clustered, 64.0, 100.0), ("scattered", Hot::Scattered, 512.0, 40.0)]
    {
        let measured = play(Setup { place, ..base });
        let name = |what: &str| format!("{what}, 5 TiB mapped, 10 GiB hot, {name}");
        let mib = measured.resident_bytes as f64 / 1048576.0;
        report(&name("memory"), "MiB", Some(mib_bar).filter(|_| measuring), mib, mib <= mib_bar);
        let speed = 1000.0 / measured.best_ns;
        report(&name("speed"), "M accesses/s", Some(speed_bar).filter(|_| measuring), speed, speed >= speed_bar);
        for (variant, huge, translated) in [("2 MiB pages", true, false), ("translation caches", false, true)] {
            let ns = play(Setup { place, huge, translated, ..base }).best_ns;
            report(&name(&format!("speed with {variant}")), "M accesses/s", None, 1000.0 / ns, true);
        }
    }
    // What it saves: the same with a frame and entries for each page that is touched.
    let measured = play(Setup { premapped: false, ..base });
    let mib = measured.resident_bytes as f64 / 1048576.0;
    report("memory, 5 TiB mapped, 10 GiB hot, clustered, with frames", "MiB", None, mib, true);
    report("speed, the same", "M accesses/s", None, 1000.0 / measured.best_ns, true);
    for level in 0..=2 {
        for (name, mapped) in [("1 GiB", GIB), ("5 TiB", 5 * 1024 * GIB)] {
            let ns = look(mapped / scale, level, accesses / 4);
            report(&format!("look at an accessed bit, level {level}, {name} mapped"), "ns", None, ns, true);
        }
    }
}

fn report(name: &str, unit: &str, bar: Option<f64>, value: f64, pass: bool) {
    let pass = bar.is_none() || pass;
    let bar = bar.map_or("null".to_owned(), |bar| bar.to_string());
    println!(r#"{{"name": "{name}", "unit": "{unit}", "bar": {bar}, "value": {value:.3}, "pass": {pass}}}"#);
}

/// The measure of a run.
#[derive(Clone, Copy)]
struct Measured {
    /// Time in the machine per access, best round.
    best_ns: f64,
    /// Of this process, when all hot pages were touched.
    resident_bytes: u64,
}

const BASE: u64 = 77_777;

fn machine(
    mmu: MmuConfig,
    mapped: u64,
    (premapped, huge): (bool, bool),
    stream: Box<dyn Stream>,
) -> (MachineBuilder, ProgramId) {
    let memory = if premapped { Bytes::from_mib(64) } else { Bytes::from_gib(12) };
    let nodes = vec![NodeConfig { memory, ..NodeConfig::default() }];
    let config = MachineConfig { nodes, mmu, ..MachineConfig::default() };
    let policy = policy_by_name("classic").expect("in the table");
    let mut builder = MachineBuilder::new(&config, policy.build()).expect("a valid machine");
    let layout = vec![Mapping { huge, ..Mapping::anonymous(PageRange::at(BASE, mapped)) }];
    let program = Program {
        name: "sparse".to_owned(),
        files: Vec::new(),
        processes: vec![Process { layout, ..Process::default() }],
        threads: vec![Thread { process: 0, start: ThreadStart::WithProgram, stream }],
        timing: Timing::Modelled,
        future: None,
    };
    let program = builder.add_program(program, CgroupId::ROOT).expect("fits");
    if premapped {
        builder.premap(program);
    }
    builder.start_at(program, Instant::START);
    (builder, program)
}

fn run(builder: MachineBuilder, program: ProgramId) -> Outcome {
    let outcome = builder.build().run(Instant::NEVER).expect("runs");
    assert_eq!(outcome.programs[program.0].ending, Ending::Finished, "{:?}", outcome.incidents);
    outcome
}

fn play(setup: Setup) -> Measured {
    let measured = Arc::new(Mutex::new(Measured { best_ns: f64::INFINITY, resident_bytes: 0 }));
    let translation = setup.translated.then(TranslationConfig::default);
    let toucher = Toucher {
        setup,
        measured: measured.clone(),
        random: Random::new(0x9e37_79b9_7f4a_7c15),
        touched: 0,
        round: 0,
        done: 0,
        spent_ns: 0,
        handed_out: None,
    };
    let mmu = MmuConfig { translation, ..MmuConfig::default() };
    let (builder, program) = machine(mmu, setup.mapped, (setup.premapped, setup.huge), Box::new(toucher));
    run(builder, program);
    *measured.lock().expect("one thread")
}

const BATCH: u64 = 4096;
/// Many short rounds: the best one is little disturbed by other programs.
const ROUNDS: u32 = 60;

/// Touches every hot page once, then hot pages at random, and measures the machine's time.
struct Toucher {
    setup: Setup,
    measured: Arc<Mutex<Measured>>,
    random: Random,
    touched: u64,
    round: u32,
    done: u64,
    spent_ns: u128,
    handed_out: Option<Clock>,
}

impl Toucher {
    fn page(&self, index: u64) -> u64 {
        let Setup { mapped, hot, place, .. } = self.setup;
        BASE + match place {
            Hot::Clustered => mapped / 3 + index,
            Hot::Scattered => index * (mapped / hot),
        }
    }
}

impl Stream for Toucher {
    fn next_batch(&mut self, _now: Instant, batch: &mut Batch) -> Result<After, StreamError> {
        let in_machine = self.handed_out.map_or(0, |at| at.elapsed().as_nanos());
        if self.touched < self.setup.hot {
            let end = (self.touched + BATCH).min(self.setup.hot);
            batch.runs.extend((self.touched..end).map(|index| Run::write(self.page(index), 1)));
            self.touched = end;
            return Ok(After::Continue);
        }
        if self.handed_out.is_some() {
            self.spent_ns += in_machine;
            self.done += BATCH;
        } else {
            self.measured.lock().expect("one thread").resident_bytes = resident_bytes();
        }
        if self.done >= self.setup.accesses {
            let ns = self.spent_ns as f64 / self.done as f64;
            let mut measured = self.measured.lock().expect("one thread");
            measured.best_ns = measured.best_ns.min(ns);
            (self.round, self.done, self.spent_ns) = (self.round + 1, 0, 0);
            if self.round == ROUNDS {
                return Ok(After::Finish);
            }
        }
        for _ in 0..BATCH {
            let index = self.random.below(self.setup.hot);
            batch.runs.push(Run::write(self.page(index), 1));
        }
        self.handed_out = Some(Clock::now());
        Ok(After::Continue)
    }
}

/// A run of this number of simulated seconds with a monitor: the speed as a multiple of real time, and the memory of this
/// process at the last snapshot.
fn monitor(setup: Setup, strategy: &str, seconds: u64) -> (f64, u64) {
    struct Steady(Setup, Random);
    impl Stream for Steady {
        fn next_batch(&mut self, _now: Instant, batch: &mut Batch) -> Result<After, StreamError> {
            let Setup { mapped, hot, .. } = self.0;
            let mut page = || BASE + mapped / 3 + self.1.below(hot);
            batch.runs.extend((0..BATCH).map(|_| Run::write(page(), 1).after_ns(420)));
            Ok(After::Continue)
        }
    }
    let begun = Clock::now();
    let stream = Steady(setup, Random::new(5));
    let (mut builder, program) = machine(MmuConfig::default(), setup.mapped, (true, false), Box::new(stream));
    let mut config = MonitorConfig { operations: Operations::Fvaddr, ..MonitorConfig::default() };
    config.strategy = strategy.parse().expect("a strategy");
    config.attributes.aggr_interval = Duration::from_ms(200);
    let ranges = vec![UnitRange::new(BASE << 12, (BASE + setup.mapped) << 12)];
    let watched = vec![Watched { target: MonitorTarget::Process(program, 0), ranges }];
    let resident = Arc::new(Mutex::new(0));
    let noted = resident.clone();
    let sink: TickSink = Box::new(move |_, tick| {
        if tick.has_snapshot {
            *noted.lock().expect("one thread") = resident_bytes();
        }
    });
    builder.kdamond("kdamond.0", config, 1, watched, sink).expect("a good configuration");
    builder.build().run(Instant::START + Duration::from_secs(seconds)).expect("runs");
    let resident = *resident.lock().expect("one thread");
    (seconds as f64 / begun.elapsed().as_secs_f64(), resident)
}

/// Time per probe, in ns, to clear and test `looks` entries at `level`, 1000 at a time: the best time.
fn look(mapped: u64, level: u8, looks: u64) -> f64 {
    struct Sleeper(u32);
    impl Stream for Sleeper {
        fn next_batch(&mut self, _now: Instant, _batch: &mut Batch) -> Result<After, StreamError> {
            self.0 += 1;
            Ok(if self.0 > 1 { After::Finish } else { After::Sleep(Duration::from_secs(1)) })
        }
    }
    struct Looker {
        mapped: u64,
        level: u8,
        looks: u64,
        ns: Arc<Mutex<f64>>,
    }
    impl MonitorDriver for Looker {
        fn run(&mut self, _now: Instant, host: &mut MemoryHost<'_>) -> Result<Option<Instant>, DriverError> {
            let mut random = Random::new(7);
            let mut results = vec![ProbeResult::default(); 1000];
            let (mut best_ns, mut done) = (f64::INFINITY, 0);
            while done < self.looks {
                let mut probe = |_| {
                    let page = BASE + random.below(self.mapped);
                    Probe { address: page << 12, level: Level(self.level) }
                };
                let probes: Vec<Probe> = (0..1000).map(&mut probe).collect();
                let begun = Clock::now();
                host.clear(TargetId(0), &probes, &mut results).expect("alive");
                host.test(TargetId(0), &probes, &mut results).expect("alive");
                best_ns = best_ns.min(begun.elapsed().as_nanos() as f64 / 2000.0);
                done += 2000;
            }
            *self.ns.lock().expect("one thread") = best_ns;
            Ok(None)
        }
    }
    let ns = Arc::new(Mutex::new(0.0));
    let (mut builder, program) = machine(MmuConfig::default(), mapped, (true, false), Box::new(Sleeper(0)));
    let looker = Looker { mapped, level, looks, ns: ns.clone() };
    builder.monitor("looker", vec![MonitorTarget::Process(program, 0)], Box::new(looker)).expect("a process");
    run(builder, program);
    *ns.lock().expect("one thread")
}

/// `VmRSS` of this process; 0 where the kernel does not say.
fn resident_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|line| line.split_whitespace().next()).and_then(|kib| kib.parse::<u64>().ok());
    kib.unwrap_or(0) * 1024
}
