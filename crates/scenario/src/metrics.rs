//! What can be measured: one table, read by results, command line and docs.

use isotherm_sim::counters::Counter;
use isotherm_sim::machine::{CgroupOutcome, Outcome, ProgramOutcome};
use isotherm_units::PAGE_BYTES;

/// Unit of a metric; part of its name where it is not a plain count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetricUnit {
    /// Nanoseconds of simulated time.
    Nanoseconds,
    /// Bytes.
    Bytes,
    /// Pages of 4 KiB.
    Pages,
    /// Events.
    Count,
}

/// What a metric is taken from: one workload (or the whole system) of one run.
#[derive(Clone, Copy, Debug)]
pub struct Sample<'a> {
    /// The workload; `None` on the row `system`.
    pub program: Option<&'a ProgramOutcome>,
    /// Its group, or the root.
    pub cgroup: &'a CgroupOutcome,
    /// Everything.
    pub outcome: &'a Outcome,
    /// Whether kernel threads work for this row alone.
    pub owns_kernel: bool,
}

/// One metric.
pub struct Metric {
    /// Name in results.
    pub name: &'static str,
    /// Unit.
    pub unit: MetricUnit,
    /// One line for docs.
    pub what: &'static str,
    /// Takes it; `None` where it has no meaning (kernel time of one workload among several).
    pub take: fn(&Sample<'_>) -> Option<u64>,
}

macro_rules! metrics {
    ($($name:ident, $unit:ident, $what:literal, $take:expr;)*) => {
        /// All metrics, in the order of results.
        pub const METRICS: &[Metric] = &[$(
            Metric { name: stringify!($name), unit: MetricUnit::$unit, what: $what, take: $take },
        )*];
    };
}

fn counter(sample: &Sample<'_>, counter: Counter) -> Option<u64> {
    Some(sample.cgroup.counters.get(counter))
}

fn percentile(sample: &Sample<'_>, permille: usize) -> Option<u64> {
    let sorted = &sample.outcome.reclaim_latencies_ns;
    let last = sorted.len().checked_sub(1)?;
    // Nearest rank.
    sample.owns_kernel.then(|| sorted[((sorted.len() * permille).div_ceil(1000).max(1) - 1).min(last)])
}

fn kernel(sample: &Sample<'_>, time_ns: u64) -> Option<u64> {
    sample.owns_kernel.then_some(time_ns)
}

metrics! {
    runtime_ns, Nanoseconds, "from the start of the workload to its end",
        |s| Some(s.program.map_or(s.outcome.ended_ns, |program| program.runtime().ns()));
    major_faults, Count, "faults that read from a device (or decompressed)", |s| counter(s, Counter::PgMajFault);
    minor_faults, Count, "faults without a read", |s| {
        Some(s.cgroup.counters.get(Counter::PgFault) - s.cgroup.counters.get(Counter::PgMajFault))
    };
    refaults_anon, Pages, "evicted anonymous pages that came back", |s| counter(s, Counter::WorkingsetRefaultAnon);
    refaults_file, Pages, "evicted file pages that came back", |s| counter(s, Counter::WorkingsetRefaultFile);
    pages_scanned, Pages, "pages that reclaim examined", |s| Some(s.cgroup.counters.pgscan());
    pages_reclaimed, Pages, "pages that reclaim freed", |s| Some(s.cgroup.counters.pgsteal());
    pages_swapped_in, Pages, "pages read from swap", |s| counter(s, Counter::PswpIn);
    pages_swapped_out, Pages, "pages written to swap", |s| counter(s, Counter::PswpOut);
    psi_some_ns, Nanoseconds, "time in which some task was stalled on memory",
        |s| Some(s.cgroup.pressure.memory_some_ns);
    psi_full_ns, Nanoseconds, "time in which all tasks were stalled on memory",
        |s| Some(s.cgroup.pressure.memory_full_ns);
    reclaim_cpu_ns, Nanoseconds, "CPU time of reclaim: kswapd and direct",
        |s| kernel(s, s.outcome.kernel.kswapd_ns + s.outcome.kernel.direct_ns);
    kswapd_cpu_ns, Nanoseconds, "CPU time of kswapd", |s| kernel(s, s.outcome.kernel.kswapd_ns);
    direct_cpu_ns, Nanoseconds, "CPU time of reclaim by the tasks themselves", |s| {
        s.program.map(|program| program.time.reclaim_cpu_ns).or(kernel(s, s.outcome.kernel.direct_ns))
    };
    reclaim_p50_ns, Nanoseconds, "median duration of a task's own reclaim", |s| percentile(s, 500);
    reclaim_p99_ns, Nanoseconds, "99th percentile of it", |s| percentile(s, 990);
    reclaim_p999_ns, Nanoseconds, "99.9th percentile of it", |s| percentile(s, 999);
    io_wait_ns, Nanoseconds, "time threads waited for devices, summed", |s| s.program.map(|p| p.time.io_wait_ns);
    fault_cpu_ns, Nanoseconds, "CPU time of faults, summed over threads", |s| s.program.map(|p| p.time.fault_cpu_ns);
    operations, Count, "requests the workload completed", |s| s.program.map(|program| program.operations);
    peak_bytes, Bytes, "highest memory charge", |s| Some(s.cgroup.peak_pages * PAGE_BYTES);
    oom_kills, Count, "processes killed for lack of memory", |s| counter(s, Counter::OomKill);
}

/// The metric of this name.
pub(crate) fn metric_named(name: &str) -> Option<&'static Metric> {
    METRICS.iter().find(|metric| metric.name == name)
}
