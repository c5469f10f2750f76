//! The cost of monitors in a replay: the `lru-sort` and `reclaim` presets next to a program of the density of a long recording,
//! and next to programs that do little or sleep. With the latter, ticks of 5 ms are nearly all that happens; they also run with a
//! monitor of the program alone.
//!
//! Prints one JSON object a line: `name, unit, bar, value, pass`. Times are CPU times of the program that simulates, not simulated
//! ones: the least of some runs. Without `--bench` it runs small and only checks that it works.

#![expect(clippy::print_stdout, reason = "a benchmark's output")]

use std::sync::OnceLock;
use std::time::Instant as Clock;

use isotherm_core::monitor::{MonitorConfig, Operations};
use isotherm_core::presets::{LruSort, Preset, Reclaim};
use isotherm_kernel::cgroup::{CgroupId, Knob, Limit};
use isotherm_kernel::reclaim::policy_by_name;
use isotherm_kernel::swap::device::DeviceKind;
use isotherm_sim::machine::{MachineBuilder, MachineConfig, MonitorTarget, NodeConfig, SwapConfig, Watched};
use isotherm_units::access::{
    After, Batch, Mapping, Process, Program, Run, Stream, StreamError, Thread, ThreadStart, Timing,
};
use isotherm_units::{Bytes, Duration, Instant, PageRange, Pages, Ratio};

/// Of 256 MiB, under a limit of half of them.
const PAGES: u32 = 1 << 16;

fn main() {
    let measuring = std::env::args().any(|argument| argument == "--bench");
    let scale = if measuring { 1 } else { 100 };
    let bar = |bar: f64| measuring.then_some(bar);
    let presets = [("lru-sort", lru_sort()), ("reclaim", reclaim())];

    // 40 million touches in ten minutes are one in 15 us.
    let busy = Load { touches: Touches::new(15_000), length_ms: 20_000 / scale, runs: 5 };
    let (alone, _) = busy.cpu_ns(None);
    for (name, config) in &presets {
        let (ns, _) = busy.cpu_ns(Some(config));
        report(&format!("replay with {name}, a touch in 15 us"), "times", bar(1.25), ns / alone);
    }
    let little = Touches::new(2_000_000);
    let resident = Touches { spread: 12, ..little };
    let asleep = Touches { think_ns: 1_000, naps: Some(Duration::from_secs(1)), ..resident };
    let quiet =
        [("a touch in 2 ms", little), ("a touch of few pages in 2 ms", resident), ("64 touches a second", asleep)];
    let monitors = presets.into_iter().chain([("vaddr", MonitorConfig::default())]).collect::<Vec<_>>();
    for (what, touches) in quiet {
        let load = Load { touches, length_ms: 400_000 / scale, runs: 5 };
        let (alone, _) = load.cpu_ns(None);
        for (name, config) in &monitors {
            let (ns, nr_ticks) = load.cpu_ns(Some(config));
            report(&format!("a tick of {name}, {what}"), "ns", bar(4000.0), (ns - alone).max(0.0) / nr_ticks);
        }
    }
}

fn report(name: &str, unit: &str, bar: Option<f64>, value: f64) {
    let pass = bar.is_none_or(|bar| value <= bar);
    let bar = bar.map_or("null".to_owned(), |bar| bar.to_string());
    println!(r#"{{"name": "{name}", "unit": "{unit}", "bar": {bar}, "value": {value:.3}, "pass": {pass}}}"#);
}

/// At work however much memory is free, as advice sets them up.
fn lru_sort() -> MonitorConfig {
    let all = Ratio::from_percent(100);
    let cold_min_age = Duration::from_secs(5);
    let preset = LruSort { cold_min_age, wmarks_high: all, wmarks_mid: all, ..LruSort::default() };
    Preset::LruSort(preset).setup().expect("allowed").config
}

fn reclaim() -> MonitorConfig {
    let all = Ratio::from_percent(100);
    let (min_age, quota_size) = (Duration::from_secs(5), Bytes::ZERO);
    let preset = Reclaim { min_age, quota_size, wmarks_high: all, wmarks_mid: all, ..Reclaim::default() };
    Preset::Reclaim(preset).setup().expect("allowed").config
}

/// A program that touches a page now and then, for this time.
struct Load {
    touches: Touches,
    length_ms: u64,
    runs: u32,
}

impl Load {
    /// CPU time of a run, with a monitor if wanted, and how often that was woken.
    fn cpu_ns(&self, config: Option<&MonitorConfig>) -> (f64, f64) {
        let runs = (0..self.runs).map(|_| self.run(config));
        runs.min_by(|one, other| one.0.total_cmp(&other.0)).expect("one run at least")
    }

    fn run(&self, config: Option<&MonitorConfig>) -> (f64, f64) {
        let machine = MachineConfig {
            nodes: vec![NodeConfig { memory: Bytes::from_mib(512), ..NodeConfig::default() }],
            swap: SwapConfig { device: DeviceKind::Zram.into(), ..SwapConfig::default() },
            ..MachineConfig::default()
        };
        let policy = policy_by_name("classic").expect("in the table").build();
        let mut builder = MachineBuilder::new(&machine, policy).expect("allowed");
        let group = builder.add_cgroup(CgroupId::ROOT, "app").expect("a new name");
        builder.set(group, Knob::Max, Limit::At(Pages::new(u64::from(PAGES / 2))));
        let stream = Box::new(self.touches);
        let layout = vec![Mapping::anonymous(PageRange::new(0, u64::from(PAGES)))];
        let program = Program {
            name: "app".to_owned(),
            files: Vec::new(),
            processes: vec![Process { layout, ..Process::default() }],
            threads: vec![Thread { process: 0, start: ThreadStart::WithProgram, stream }],
            timing: Timing::Recorded,
            future: None,
        };
        let program = builder.add_program(program, group).expect("it fits");
        builder.start_at(program, Instant::START);
        if let Some(config) = config {
            let watched = vec![match config.operations {
                Operations::Paddr => {
                    Watched { target: MonitorTarget::Physical, ranges: vec![builder.physical_range(config.addr_unit)] }
                }
                _ => Watched { target: MonitorTarget::Process(program, 0), ranges: Vec::new() },
            }];
            builder.kdamond("kdamond", config.clone(), 1, watched, Box::new(|_, _| {})).expect("allowed");
        }
        let until = Instant::START + Duration::from_ms(self.length_ms);
        let machine = builder.build();
        let before = cpu_ns();
        let outcome = machine.run(until).expect("nothing fails");
        let ns = (cpu_ns() - before).max(1) as f64;
        (ns, outcome.monitors.first().map_or(0.0, |monitor| monitor.wakeups as f64).max(1.0))
    }
}

/// Touches of pages, low ones far more often than high ones, without end.
#[derive(Clone, Copy)]
struct Touches {
    random: u64,
    think_ns: u32,
    /// They spread over two to the power of this many pages.
    spread: u32,
    /// It sleeps for this time after every 64.
    naps: Option<Duration>,
}

impl Touches {
    fn new(think_ns: u32) -> Self {
        Self { random: 1, think_ns, spread: PAGES.ilog2(), naps: None }
    }
}

impl Stream for Touches {
    fn next_batch(&mut self, _now: Instant, batch: &mut Batch) -> Result<After, StreamError> {
        for _ in 0..if self.naps.is_some() { 64 } else { 256 } {
            self.random = self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let [high, low] = [self.random >> 48, self.random >> 32 & 0xffff];
            let page = (high * low) >> (32 - self.spread);
            batch.runs.push(Run::write(page, 1).after_ns(self.think_ns));
        }
        Ok(self.naps.map_or(After::Continue, After::Sleep))
    }
}

/// CPU time of this thread, which other programs on the machine disturb least; elapsed time where the kernel keeps none.
fn cpu_ns() -> u64 {
    static START: OnceLock<Clock> = OnceLock::new();
    let start = START.get_or_init(Clock::now);
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").ok();
    let cpu = stat.and_then(|stat| stat.split(' ').next()?.parse::<u64>().ok());
    cpu.unwrap_or_else(|| u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX))
}
