//! The cost of generating an access: `cargo bench -p isotherm-workload`. One JSON object a line; `value` is CPU time, the
//! best of several rounds, so that a busy machine counts little.

#![expect(clippy::print_stdout, reason = "its output is data for `make bench`")]

use std::hint::black_box;
use std::time::Instant as Clock;

use isotherm_units::access::{After, Batch, Program};
use isotherm_units::{Bytes, Instant, Ratio};
use isotherm_workload::key_value::Distribution;
use isotherm_workload::{BuildContext, KeyValueSpec, ScanSpec, WorkloadSpec};

const OPERATIONS: u64 = 16 << 20;
const ROUNDS: usize = 7;

fn main() {
    let zipfian = |scrambled| Distribution::Zipfian { theta: 0.99, scrambled };
    report("generate_uniform", 3.0, &reads(Distribution::Uniform {}));
    report("generate_zipfian", 8.0, &reads(zipfian(false)));
    report("generate_zipfian_scrambled", 8.0, &reads(zipfian(true)));
    report("generate_sequential", 3.0, &reads(Distribution::Sequential {}));
    report(
        "generate_gaussian",
        8.0,
        &reads(Distribution::Gaussian { center: Ratio::from_percent(50), deviation: Ratio::from_percent(10) }),
    );
    let mixed = KeyValueSpec {
        footprint: Bytes::from_gib(16),
        item_size: Bytes::from_kib(1),
        writes: Ratio::from_percent(20),
        ..reads(zipfian(true))
    };
    report("generate_zipfian_1kib_20pct_writes", 8.0, &mixed);
    let scan = ScanSpec { footprint: Bytes::from_gib(64), repeat: 1024, ..ScanSpec::default() };
    let per_page =
        best(|| WorkloadSpec::Scan(scan.clone()), |batch| batch.runs.iter().map(|r| u64::from(r.pages)).sum());
    print("generate_scan_per_page", 0.1, per_page);
}

/// 16 M items of a page, read only.
fn reads(distribution: Distribution) -> KeyValueSpec {
    KeyValueSpec {
        footprint: Bytes::from_gib(64),
        item_size: Bytes::from_kib(4),
        distribution,
        writes: Ratio::ZERO,
        operations: Some(OPERATIONS),
        load: false,
        ..KeyValueSpec::default()
    }
}

fn report(name: &str, bar: f64, spec: &KeyValueSpec) {
    print(name, bar, best(|| WorkloadSpec::KeyValue(spec.clone()), |batch| batch.runs.len() as u64));
}

/// Nanoseconds for each unit of `count`.
fn best(spec: impl Fn() -> WorkloadSpec, count: impl Fn(&Batch) -> u64) -> f64 {
    let rounds = (0..ROUNDS).map(|round| {
        let context = BuildContext::new(".").with_seed(round as u64);
        let program = spec().build(&context).expect("the spec is right");
        let (cpu, clock) = (cpu_ns(), Clock::now());
        let counted = play(program, &count);
        let elapsed_ns =
            cpu.zip(cpu_ns()).map_or_else(|| clock.elapsed().as_nanos(), |(from, to)| u128::from(to - from));
        elapsed_ns as f64 / counted as f64
    });
    rounds.fold(f64::INFINITY, f64::min)
}

/// CPU time of this thread, to the precision of a scheduler tick; `None` where the system does not say.
fn cpu_ns() -> Option<u64> {
    std::fs::read_to_string("/proc/thread-self/schedstat").ok()?.split_whitespace().next()?.parse().ok()
}

fn play(mut program: Program, count: impl Fn(&Batch) -> u64) -> u64 {
    let stream = &mut program.threads[0].stream;
    let mut batch = Batch::default();
    let mut counted = 0;
    loop {
        batch.clear();
        let after = stream.next_batch(Instant::START, &mut batch).expect("generators do not fail");
        counted += count(black_box(&batch));
        if after == After::Finish {
            return counted;
        }
    }
}

fn print(name: &str, bar: f64, value: f64) {
    let pass = value <= bar;
    println!(r#"{{"name": "{name}", "unit": "ns/access", "bar": {bar}, "value": {value:.3}, "pass": {pass}}}"#);
}
