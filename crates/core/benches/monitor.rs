//! The cost of a tick of the monitor alone, without the page tables that a host would walk: a host that answers at once. Time
//! for one region and tick, aggregations included, as regions grow and as the space grows.
//!
//! Prints one JSON object a line: `name, unit, bar, value, pass`. Bars: near-linear in regions, flat in the footprint (at most
//! 3 and 2 times, caches included). Run under `cargo test` it does little and only checks that it works.

#![expect(clippy::print_stdout, reason = "a benchmark's output")]

use std::sync::OnceLock;
use std::time::Instant as Clock;

use isotherm_core::host::{
    AddressRange, Applying, Capabilities, Gauging, HostError, Mappings, Probe, ProbeResult, Probing, Seen, TargetId,
    UnitRange,
};
use isotherm_core::monitor::{Attributes, Monitor, MonitorConfig, Operations};
use isotherm_units::Instant;

/// Every second GiB is hot.
struct Stripes;

impl Probing for Stripes {
    fn capabilities(&self, _: TargetId) -> Capabilities {
        Capabilities::four_levels()
    }

    fn clear(&mut self, _: TargetId, _: &[Probe], _: &mut [ProbeResult]) -> Result<(), HostError> {
        Ok(())
    }

    fn test(&mut self, _: TargetId, probes: &[Probe], results: &mut [ProbeResult]) -> Result<(), HostError> {
        for (probe, result) in probes.iter().zip(results) {
            let is_hot = (probe.address >> 30) & 1 == 1;
            *result = ProbeResult { seen: if is_hot { Seen::Accessed } else { Seen::Idle }, level: probe.level };
        }
        Ok(())
    }
}

impl Mappings for Stripes {
    fn mappings(&mut self, _: TargetId, _: &mut Vec<AddressRange>) -> Result<(), HostError> {
        Ok(())
    }
}

impl Applying for Stripes {}

impl Gauging for Stripes {}

/// CPU time of this thread, which other programs on the machine disturb least; elapsed time where the kernel keeps none.
fn cpu_ns() -> u64 {
    static START: OnceLock<Clock> = OnceLock::new();
    let start = START.get_or_init(Clock::now);
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").ok();
    let cpu = stat.and_then(|stat| stat.split(' ').next()?.parse::<u64>().ok());
    cpu.unwrap_or_else(|| u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX))
}

/// Nanoseconds for a region and tick: the median of five runs of whole aggregations.
fn ns_per_region(strategy: &str, nr_regions: u32, footprint: u64, region_ticks: u64) -> f64 {
    let config = MonitorConfig {
        operations: Operations::Fvaddr,
        strategy: strategy.parse().expect("a strategy"),
        attributes: Attributes { min_nr_regions: nr_regions, max_nr_regions: nr_regions, ..Attributes::default() },
        ..MonitorConfig::default()
    };
    let mut monitor = Monitor::new(config, 1).expect("a good configuration");
    monitor.add_target(TargetId(0), &[UnitRange::new(0, footprint)], &Stripes).expect("good ranges");
    monitor.start(Instant::START);
    let mut run = |nr_ticks: u64| {
        let before = (cpu_ns(), monitor.activity().tests.iter().map(|count| count.tests).sum::<u64>());
        for _ in 0..nr_ticks {
            let at = monitor.poll_timeout().expect("it runs");
            monitor.handle_timeout(at, &mut Stripes);
        }
        let tests = monitor.activity().tests.iter().map(|count| count.tests).sum::<u64>() - before.1;
        (cpu_ns() - before.0).max(1) as f64 / tests.max(1) as f64
    };
    run(40);
    let nr_ticks = (region_ticks / u64::from(nr_regions)).next_multiple_of(20).max(20);
    let mut runs: Vec<f64> = (0..5).map(|_| run(nr_ticks)).collect();
    runs.sort_by(f64::total_cmp);
    runs[2]
}

fn report(name: &str, unit: &str, bar: Option<f64>, value: f64) {
    let pass = bar.is_none_or(|bar| value <= bar);
    let bar = bar.map_or("null".to_owned(), |bar| bar.to_string());
    println!(r#"{{"name": "{name}", "unit": "{unit}", "bar": {bar}, "value": {value:.3}, "pass": {pass}}}"#);
}

fn main() {
    let measuring = std::env::args().any(|argument| argument == "--bench");
    let region_ticks = if measuring { 4_000_000 } else { 10_000 };
    let bar = |bar: f64| measuring.then_some(bar);
    const GIB: u64 = 1 << 30;
    for strategy in ["leaf", "ptp", "ptp-aligned"] {
        let counts = [10, 100, 1000, 10_000];
        let costs = counts.map(|nr_regions| ns_per_region(strategy, nr_regions, 5120 * GIB, region_ticks));
        for (nr_regions, cost) in counts.iter().zip(costs) {
            report(&format!("monitor tick, {strategy}, {nr_regions} regions of 5 TiB"), "ns/region", None, cost);
        }
        report(&format!("monitor tick, {strategy}, 10,000 regions over 100"), "times", bar(3.0), costs[3] / costs[1]);
        let small = ns_per_region(strategy, 100, GIB, region_ticks);
        report(&format!("monitor tick, {strategy}, 5 TiB over 1 GiB"), "times", bar(2.0), costs[1] / small);
    }
}
