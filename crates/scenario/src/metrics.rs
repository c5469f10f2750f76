//! One table of all metrics, read by results, command line and docs.

use crate::monitoring::{HotDefinition, MonitorReport, Scores};
use crate::stats::Summary;
use isotherm_core::compaction::COSTLY_ORDER;
use isotherm_kernel::compaction::{BlockTaken, HugePath};
use isotherm_kernel::counters::Counter;
use isotherm_sim::machine::{
    CgroupOutcome, CompactionOutcome, Ending, GenerationsOutcome, LimitsOutcome, Outcome, ProgramOutcome,
};
use isotherm_units::PAGE_BYTES;

/// Unit of a metric; part of its name where it is not a plain count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetricUnit {
    /// Nanoseconds of simulated time.
    Nanoseconds,
    Bytes,
    /// Pages of 4 KiB.
    Pages,
    /// Events, and plain numbers such as shares.
    Count,
}

/// Source of a metric: one workload (or the whole system) of one run.
#[derive(Clone, Copy, Debug)]
pub struct Sample<'a> {
    /// The workload; `None` on the row `system`.
    pub program: Option<&'a ProgramOutcome>,
    /// The workload's group; the root group on the row `system`.
    pub cgroup: &'a CgroupOutcome,
    pub outcome: &'a Outcome,
    /// Whether kernel threads work only for this row.
    pub owns_kernel: bool,
    /// The monitor that watches it: the first, where there are several.
    pub monitor: Option<&'a MonitorReport>,
}

pub struct Metric {
    /// Name in results; it contains the unit unless it is a plain count.
    pub name: &'static str,
    pub unit: MetricUnit,
    /// One line of description.
    pub what: &'static str,
    /// Computes it; `None` where it has no meaning (kernel time of one workload among several).
    pub take: fn(&Sample<'_>) -> Option<f64>,
    /// Whether single repeats may lack the metric: the row is then over the repeats that have it, and its `n` is their number. Otherwise
    /// one repeat without it leaves out the row.
    pub is_partial: bool,
}

macro_rules! metrics {
    (
        $($name:ident, $unit:ident, $what:literal, $take:expr;)*
        => $($r_name:ident, $r_unit:ident, $r_what:literal, $r_take:expr;)*
        => $($m_name:ident, $m_unit:ident, $m_what:literal, $m_take:expr, $m_partial:literal;)*
    ) => {
        /// All metrics, in the order of results.
        pub const METRICS: &[Metric] = &[
            $(Metric {
                name: stringify!($name),
                unit: MetricUnit::$unit,
                what: $what,
                take: |sample| {
                    let take: fn(&Sample<'_>) -> Option<u64> = $take;
                    take(sample).map(|value| value as f64)
                },
                is_partial: false,
            },)*
            $(Metric {
                name: stringify!($r_name),
                unit: MetricUnit::$r_unit,
                what: $r_what,
                take: $r_take,
                is_partial: false,
            },)*
            $(Metric {
                name: stringify!($m_name),
                unit: MetricUnit::$m_unit,
                what: $m_what,
                take: |sample| {
                    let take: fn(&MonitorReport) -> Option<f64> = $m_take;
                    sample.monitor.and_then(take)
                },
                is_partial: $m_partial,
            },)*
        ];

        /// Names of metrics that need a judged monitor.
        const OF_MONITORS: &[&str] = &[$(stringify!($m_name),)*];
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

fn kernel(sample: &Sample<'_>, value: u64) -> Option<u64> {
    sample.owns_kernel.then_some(value)
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
    rmap_walks, Count, "mappings that reclaim found through the reverse map and checked for use",
        |s| kernel(s, s.outcome.work.rmap_walks);
    ptes_examined, Count, "page-table entries that ageing walks and look-arounds examined",
        |s| kernel(s, s.outcome.work.entries_examined);
    ptes_cleared, Count, "accessed bits that reclaim found set and cleared, the reverse map's included",
        |s| kernel(s, s.outcome.work.entries_cleared);
    accessed_faults, Count, "faults that only set an accessed bit, on a processor that sets none",
        |s| kernel(s, s.outcome.work.accessed_faults);
    tables_tested, Count, "2 MiB entries that ageing walks tested for use",
        |s| kernel(s, s.outcome.work.tables_tested);
    bloom_tests, Count, "tests of Bloom filters by ageing walks", |s| kernel(s, s.outcome.work.filter_tests);
    bloom_misses, Count, "tables that a Bloom filter had walks pass over", |s| kernel(s, s.outcome.work.filter_misses);
    spaces_walked, Count, "address spaces that ageing walked", |s| kernel(s, s.outcome.work.spaces_walked);
    ageings, Count, "generations that were made", |s| kernel(s, s.outcome.work.ageings);
    look_around_hits, Count, "pages in use that look-arounds found beside the one looked for",
        |s| kernel(s, s.outcome.work.neighbours_found);
    pages_sorted, Pages, "pages of the oldest generation that eviction moved on",
        |s| kernel(s, s.outcome.work.sorted);
    io_wait_ns, Nanoseconds, "time threads waited for devices, summed", |s| s.program.map(|p| p.time.io_wait_ns);
    fault_cpu_ns, Nanoseconds, "CPU time of faults, summed over threads", |s| s.program.map(|p| p.time.fault_cpu_ns);
    operations, Count, "requests the workload completed", |s| s.program.map(|program| program.operations);
    peak_bytes, Bytes, "highest memory charge", |s| Some(s.cgroup.peak_pages * PAGE_BYTES);
    mean_bytes, Bytes, "mean memory charge, of looks each 10 ms", |s| Some(s.cgroup.mean_pages? * PAGE_BYTES);
    oom_kills, Count, "processes killed for lack of memory", |s| counter(s, Counter::OomKill);
    working_set_bytes, Bytes, "mean working set that the first tool over generations told of",
        |s| kernel(s, s.outcome.generations.iter().find_map(|tool| tool.mean_estimate_pages())? * PAGE_BYTES);
    working_set_used_bytes, Bytes, "what was really used in the same windows, and is still there",
        |s| kernel(s, s.outcome.generations.iter().find_map(|tool| tool.mean_used_pages())? * PAGE_BYTES);
    generations_evicted_bytes, Bytes, "memory that tools over generations evicted",
        |s| kernel(s, of_generations(s, |tool| tool.evicted_bytes)?);
    generations_cpu_ns, Nanoseconds, "CPU time of tools over generations, walks and evictions included",
        |s| kernel(s, of_generations(s, |tool| tool.cpu_ns)?);
    limits_squeezes, Count, "times that right-sizing lowered the group's `memory.high`", |s| of_limits(s, |l| Some(l.why.squeezes));
    limits_relaxes, Count, "times that it raised the limit or took it away",
        |s| of_limits(s, |l| Some(l.why.relaxes + l.why.lifts));
    limits_lowest_bytes, Bytes, "the lowest limit that it set", |s| of_limits(s, LimitsOutcome::lowest_limit_bytes);
    limits_usage_bytes, Bytes, "mean memory in use at its decisions", |s| of_limits(s, LimitsOutcome::mean_usage_bytes);
    overhead_cpu_ns, Nanoseconds, "CPU time of finding and moving pages between tiers, of daemons and threads together",
        |s| kernel(s, s.outcome.tiering.as_ref()?.overhead_ns());
    tiering_daemon_ns, Nanoseconds, "of it, of daemons", |s| {
        let tiering = s.outcome.tiering.as_ref()?;
        kernel(s, tiering.daemon_scan_ns + tiering.daemon_move_ns)
    };
    tiering_threads_ns, Nanoseconds, "of it, in the threads' own time", |s| {
        let tiering = s.outcome.tiering.as_ref()?;
        kernel(s, tiering.thread_scan_ns + tiering.thread_fault_ns)
    };
    tiering_scan_ns, Nanoseconds, "of it, of scans", |s| {
        let tiering = s.outcome.tiering.as_ref()?;
        kernel(s, tiering.daemon_scan_ns + tiering.thread_scan_ns)
    };
    tiering_move_ns, Nanoseconds, "of it, of the daemon's moves, and of hint faults with theirs", |s| {
        let tiering = s.outcome.tiering.as_ref()?;
        kernel(s, tiering.daemon_move_ns + tiering.thread_fault_ns)
    };
    tiering_interrupts_ns, Nanoseconds, "CPU time that threads lost to flushes for pages that others moved or marked",
        |s| kernel(s, s.outcome.tiering.as_ref()?.interrupted_ns);
    promoted_pages, Pages, "pages moved to the top tier", |s| kernel(s, s.outcome.tiering.as_ref()?.promoted_pages);
    demoted_pages, Pages, "pages that reclaim moved to a slower tier",
        |s| kernel(s, s.outcome.tiering.as_ref()?.demoted_pages);
    hint_faults, Count, "faults on pages that NUMA balancing had made inaccessible",
        |s| s.outcome.tiering.as_ref().and(counter(s, Counter::NumaHintFaults));
    fast_settled_ns, Nanoseconds, "when the share of touches on the top tier first reached 90 % of its last value",
        |s| kernel(s, fast_settled_ns(s.outcome)?);
    hugepages, Count, "blocks of memory that a driver got, mostly huge pages", |s| Some(got(s, is_any)?.len() as u64);
    hugepages_before_failure, Count, "blocks that a driver got before the first attempt that failed",
        |s| Some(blocks(s)?.take_while(|block| block.got).count() as u64);
    hugepages_failed, Count, "attempts of a driver that failed", |s| Some(blocks(s)?.filter(|block| !block.got).count() as u64);
    latency_min_ns, Nanoseconds, "time an attempt of a driver that got a block took: the shortest", |s| rank(s, is_any, 0);
    latency_max_ns, Nanoseconds, "time an attempt of a driver that got a block took: the longest", |s| rank(s, is_any, 1000);
    latency_p5_ns, Nanoseconds, "time an attempt of a driver that got a block took: percentile, nearest rank", |s| rank(s, is_any, 50);
    latency_p10_ns, Nanoseconds, "time an attempt of a driver that got a block took: percentile, nearest rank", |s| rank(s, is_any, 100);
    latency_p25_ns, Nanoseconds, "time an attempt of a driver that got a block took: percentile, nearest rank", |s| rank(s, is_any, 250);
    latency_p30_ns, Nanoseconds, "time an attempt of a driver that got a block took: percentile, nearest rank", |s| rank(s, is_any, 300);
    latency_p40_ns, Nanoseconds, "time an attempt of a driver that got a block took: percentile, nearest rank", |s| rank(s, is_any, 400);
    latency_p50_ns, Nanoseconds, "time an attempt of a driver that got a block took: percentile, nearest rank", |s| rank(s, is_any, 500);
    latency_p60_ns, Nanoseconds, "time an attempt of a driver that got a block took: percentile, nearest rank", |s| rank(s, is_any, 600);
    latency_p75_ns, Nanoseconds, "time an attempt of a driver that got a block took: percentile, nearest rank", |s| rank(s, is_any, 750);
    latency_p80_ns, Nanoseconds, "time an attempt of a driver that got a block took: percentile, nearest rank", |s| rank(s, is_any, 800);
    latency_p90_ns, Nanoseconds, "time an attempt of a driver that got a block took: percentile, nearest rank", |s| rank(s, is_any, 900);
    latency_p95_ns, Nanoseconds, "time an attempt of a driver that got a block took: percentile, nearest rank", |s| rank(s, is_any, 950);
    latency_p99_ns, Nanoseconds, "time an attempt of a driver that got a block took: percentile, nearest rank", |s| rank(s, is_any, 990);
    latency_p999_ns, Nanoseconds, "time an attempt of a driver that got a block took: percentile, nearest rank", |s| rank(s, is_any, 999);
    latency_total_ns, Nanoseconds, "all attempts of a driver together, those that failed too",
        |s| Some(blocks(s)?.map(|block| block.latency_ns).sum());
    light_count, Count, "blocks that a driver got that were there", |s| Some(got(s, is_light)?.len() as u64);
    light_min_ns, Nanoseconds, "likewise, where one was there: the shortest", |s| rank(s, is_light, 0);
    light_max_ns, Nanoseconds, "likewise, where one was there: the longest", |s| rank(s, is_light, 1000);
    fallback_count, Count, "blocks that a driver got after compaction or reclaim", |s| Some(got(s, is_fallback)?.len() as u64);
    fallback_min_ns, Nanoseconds, "likewise, where one had to be made: the shortest", |s| rank(s, is_fallback, 0);
    fallback_max_ns, Nanoseconds, "likewise, where one had to be made: the longest", |s| rank(s, is_fallback, 1000);
    stalls, Count, "waits of threads for pages on their way to other frames", |s| Some(waits(s)?.len() as u64);
    stall_total_ns, Nanoseconds, "these waits together", |s| Some(waits(s)?.iter().sum());
    stall_p50_ns, Nanoseconds, "median of these waits; 0 without any", |s| Some(rank_of(&waits(s)?, 500).unwrap_or(0));
    stall_p99_ns, Nanoseconds, "99th percentile of them", |s| Some(rank_of(&waits(s)?, 990).unwrap_or(0));
    stall_p999_ns, Nanoseconds, "99.9th percentile of them", |s| Some(rank_of(&waits(s)?, 999).unwrap_or(0));
    stall_max_ns, Nanoseconds, "the longest of them", |s| Some(rank_of(&waits(s)?, 1000).unwrap_or(0));
    lost_ns, Nanoseconds, "what huge pages cost tasks: attempts of drivers to get them, and waits for pages on their way",
        |s| lost(s);
    pages_migrated, Pages, "pages that were moved, by whomever",
        |s| compacts(s).then(|| counter(s, Counter::PgMigrateSuccess))?;
    compaction_cpu_ns, Nanoseconds, "CPU time of daemons that compact", |s| kernel(s, of_compaction(s, |daemon| daemon.cpu_ns)?);
    compaction_starts, Count, "how often they began", |s| kernel(s, of_compaction(s, |daemon| daemon.starts)?);
    compaction_pages_moved, Pages, "pages that they moved", |s| kernel(s, of_compaction(s, |daemon| daemon.pages_moved)?);
    compaction_pages_scanned, Pages, "pages that they looked at as sources",
        |s| kernel(s, of_compaction(s, |daemon| daemon.pages_scanned)?);
    compaction_blocks_freed, Count, "page blocks that they made free",
        |s| kernel(s, of_compaction(s, |daemon| daemon.blocks_freed)?);
    // Rates.
    =>
    fast_hit_ratio, Count, "share of touched pages that were on the top tier", |s| {
        let (fast, all) = s.outcome.tiering.as_ref().filter(|_| s.owns_kernel)?.touches?;
        (all > 0).then(|| fast as f64 / all as f64)
    };
    promoted_in_vain_ratio, Count, "share of promoted pages not used again before they left the top tier or the run ended", |s| {
        let tiering = s.outcome.tiering.as_ref().filter(|_| s.owns_kernel)?;
        let in_vain = tiering.promoted_in_vain_pages?;
        (tiering.promoted_pages > 0).then(|| in_vain as f64 / tiering.promoted_pages as f64)
    };
    moved_bytes_per_second, Bytes, "bytes moved between tiers in a second of the run", |s| {
        let tiering = s.outcome.tiering.as_ref().filter(|_| s.owns_kernel)?;
        let bytes = (tiering.promoted_pages + tiering.demoted_pages) * PAGE_BYTES;
        Some(bytes as f64 * 1e9 / s.outcome.ended_ns.max(1) as f64)
    };
    operations_per_second, Count, "requests completed in a second, from the first request to the end: loading is left out", |s| {
        let program = s.program?;
        let span_ns = program.ended_ns - program.first_operation_ns?;
        Some(program.operations as f64 * 1e9 / span_ns.max(1) as f64)
    };
    light_ratio, Count, "share of the blocks that a driver got that were there", |s| {
        let all = got(s, is_any)?.len();
        (all > 0).then(|| got(s, is_light).map_or(0, |light| light.len()) as f64 / all as f64)
    };
    latency_mean_ns, Nanoseconds, "time an attempt of a driver that got a block took: the mean", |s| Some(summary_of(s, is_any)?.mean);
    latency_stddev_ns, Nanoseconds, "its sample standard deviation", |s| Some(summary_of(s, is_any)?.stddev);
    light_mean_ns, Nanoseconds, "likewise, where one was there", |s| Some(summary_of(s, is_light)?.mean);
    light_stddev_ns, Nanoseconds, "its sample standard deviation", |s| Some(summary_of(s, is_light)?.stddev);
    fallback_mean_ns, Nanoseconds, "likewise, where one had to be made", |s| Some(summary_of(s, is_fallback)?.mean);
    fallback_stddev_ns, Nanoseconds, "its sample standard deviation", |s| Some(summary_of(s, is_fallback)?.stddev);
    compaction_cpu_ratio, Count, "CPU time of daemons that compact, as a share of one CPU", |s| {
        let ns = kernel(s, of_compaction(s, |daemon| daemon.cpu_ns)?)?;
        (s.outcome.ended_ns > 0).then(|| ns as f64 / s.outcome.ended_ns as f64)
    };
    // Of monitors; the last word is `is_partial`.
    =>
    precision, Count, "share of the bytes called hot (`author`) that are: against the stated hot set, else the pages used",
        |m| scored(m, |s| s.of(HotDefinition::Author).main().precision), false;
    recall, Count, "share of the hot bytes that are called hot, likewise",
        |m| scored(m, |s| s.of(HotDefinition::Author).main().recall), false;
    f1, Count, "harmonic mean of the two, taken each period",
        |m| scored(m, |s| s.of(HotDefinition::Author).main().f1), false;
    precision_accessed, Count, "precision against the pages used in each period",
        |m| scored(m, |s| s.of(HotDefinition::Author).accessed.precision), false;
    recall_accessed, Count, "recall against the pages used in each period",
        |m| scored(m, |s| s.of(HotDefinition::Author).accessed.recall), false;
    precision_bytes, Count, "precision where counts are summed for each byte, not for each region",
        |m| scored(m, |s| s.of(HotDefinition::AuthorBytes).main().precision), false;
    recall_bytes, Count, "recall, likewise", |m| scored(m, |s| s.of(HotDefinition::AuthorBytes).main().recall), false;
    precision_strict, Count, "precision where hot is every sample positive",
        |m| scored(m, |s| s.of(HotDefinition::Strict).main().precision), false;
    recall_strict, Count, "recall, likewise", |m| scored(m, |s| s.of(HotDefinition::Strict).main().recall), false;
    precision_recent, Count, "precision where hot is not idle for more than 10 aggregations",
        |m| scored(m, |s| s.of(HotDefinition::Recent).main().precision), false;
    recall_recent, Count, "recall, likewise", |m| scored(m, |s| s.of(HotDefinition::Recent).main().recall), false;
    precision_stable, Count, "precision where hot is `author` and of an age above 10",
        |m| scored(m, |s| s.of(HotDefinition::Stable).main().precision), false;
    recall_stable, Count, "recall, likewise", |m| scored(m, |s| s.of(HotDefinition::Stable).main().recall), false;
    precision_score, Count, "precision where hot is a hot score of 50 and more",
        |m| scored(m, |s| s.of(HotDefinition::Score).main().precision), false;
    recall_score, Count, "recall, likewise", |m| scored(m, |s| s.of(HotDefinition::Score).main().recall), false;
    nr_accesses_error, Count, "mean difference of stated and true frequency of the pages used, 0 to 1",
        |m| m.scores.as_ref()?.nr_accesses_error, true;
    converged, Count, "1 if precision and recall reached 0.9 and stayed there for a period, else 0",
        |m| scored(m, |s| f64::from(u8::from(s.converge_ns.is_some()))), false;
    converge_ns, Nanoseconds, "when they did; repeats in which they never did are left out, which `n` shows",
        |m| Some(m.scores.as_ref()?.converge_ns? as f64), true;
    checks_per_second, Count, "accessed bits that the monitor cleared and tested a second, scanned words included",
        |m| Some(m.checks_per_second()), false;
    monitor_cpu_ns, Nanoseconds, "CPU time of the monitor and of its schemes' work", |m| Some(m.cpu_ns as f64), false;
    kdamond_cpu_ratio, Count, "CPU time of the monitor and of its schemes' work, as a share of one CPU while it watched",
        |m| (m.watched_ns > 0).then(|| m.cpu_ns as f64 / m.watched_ns as f64), false;
    cpu_cycles, Count, "monitor_cpu_ns in cycles of the processor that the cost table describes",
        |m| Some(m.cpu_cycles as f64), false;
    regions_mean, Count, "mean number of regions", |m| Some(m.regions_mean), false;
}

fn scored(monitor: &MonitorReport, take: fn(&Scores) -> f64) -> Option<f64> {
    monitor.scores.as_ref().map(take)
}

/// Attempts of the workload to get huge pages, or other blocks too large for the kernel to promise; `None` without any.
fn blocks<'a>(sample: &Sample<'a>) -> Option<impl Iterator<Item = &'a BlockTaken> + use<'a>> {
    sample.program.map(large).filter(|blocks| blocks.clone().next().is_some())
}

fn large(program: &ProgramOutcome) -> impl Iterator<Item = &BlockTaken> + Clone {
    program.blocks.iter().filter(|block| block.order > COSTLY_ORDER)
}

fn is_any(_: &BlockTaken) -> bool {
    true
}
fn is_light(block: &BlockTaken) -> bool {
    block.path == HugePath::Light
}
fn is_fallback(block: &BlockTaken) -> bool {
    block.path == HugePath::Fallback
}

/// Times of the successful allocations, ascending.
fn got(sample: &Sample<'_>, of: fn(&BlockTaken) -> bool) -> Option<Vec<u64>> {
    let mut times: Vec<u64> =
        blocks(sample)?.filter(|block| block.got && of(block)).map(|block| block.latency_ns).collect();
    times.sort_unstable();
    Some(times)
}

fn rank(sample: &Sample<'_>, of: fn(&BlockTaken) -> bool, permille: usize) -> Option<u64> {
    rank_of(&got(sample, of)?, permille)
}

/// Nearest rank of ascending values; rank 0 means the first.
fn rank_of(sorted: &[u64], permille: usize) -> Option<u64> {
    let last = sorted.len().checked_sub(1)?;
    Some(sorted[((sorted.len() * permille).div_ceil(1000).max(1) - 1).min(last)])
}

fn summary_of(sample: &Sample<'_>, of: fn(&BlockTaken) -> bool) -> Option<Summary> {
    Summary::of(&got(sample, of)?.into_iter().map(|ns| ns as f64).collect::<Vec<_>>())
}

/// Whether the run is about huge pages.
fn compacts(sample: &Sample<'_>) -> bool {
    let outcome = sample.outcome;
    !outcome.compaction.is_empty() || outcome.programs.iter().any(|program| large(program).next().is_some())
}

/// Waits for pages in flight, ascending: waits of the workload, or of all workloads. `None` for workloads that never began.
fn waits(sample: &Sample<'_>) -> Option<Vec<u64>> {
    if !compacts(sample) {
        return None;
    }
    let mut all: Vec<u64> = match sample.program {
        Some(program) if program.ending == Ending::NotStarted => return None,
        Some(program) => program.migration_stalls_ns.clone(),
        None => sample.outcome.programs.iter().flat_map(|program| program.migration_stalls_ns.clone()).collect(),
    };
    all.sort_unstable();
    Some(all)
}

/// Measured only on the system: the workload that waits is not the one that asks.
fn lost(sample: &Sample<'_>) -> Option<u64> {
    if !compacts(sample) || sample.program.is_some() {
        return None;
    }
    let of_program = |program: &ProgramOutcome| {
        let asked: u64 = large(program).map(|block| block.latency_ns).sum();
        asked + program.migration_stalls_ns.iter().sum::<u64>()
    };
    Some(sample.outcome.programs.iter().map(of_program).sum())
}

/// The sum over daemons that compact; `None` where there are none.
fn of_compaction(sample: &Sample<'_>, take: fn(&CompactionOutcome) -> u64) -> Option<u64> {
    let daemons = &sample.outcome.compaction;
    (!daemons.is_empty()).then(|| daemons.iter().map(take).sum())
}

/// A number of the right-sizing of the row's group; `None` if there is none.
fn of_limits(sample: &Sample<'_>, take: fn(&LimitsOutcome) -> Option<u64>) -> Option<u64> {
    sample.outcome.limits.iter().find(|limits| limits.target == sample.cgroup.path).and_then(take)
}

/// The sum over tools over generations; `None` where there are none.
fn of_generations(sample: &Sample<'_>, take: fn(&GenerationsOutcome) -> u64) -> Option<u64> {
    let tools = &sample.outcome.generations;
    (!tools.is_empty()).then(|| tools.iter().map(take).sum())
}

/// Number of rows of the time series over which shares of touches are taken.
const SHARE_ROWS: usize = 4;

/// When the share of touches on the top tier, taken over a second, first reached 90 % of its value in the last second with
/// touches; `None` without tiers, or where nothing was touched on the top tier in the end.
pub fn fast_settled_ns(outcome: &Outcome) -> Option<u64> {
    let shares = fast_shares(outcome);
    let last = shares.last().map(|(_, share)| *share).filter(|share| *share > 0)?;
    shares.into_iter().find(|(_, share)| *share * 10 >= last * 9).map(|(at, _)| at)
}

/// Share of touches on the top tier over each second of the run, in millionths, with the time at its end in ns.
pub fn fast_shares(outcome: &Outcome) -> Vec<(u64, u64)> {
    let rows: Vec<(u64, u64, u64)> =
        outcome.series.iter().filter_map(|row| row.touches.map(|(fast, all)| (row.at_ns, fast, all))).collect();
    let share = |rows: &[(u64, u64, u64)]| {
        let (first, last) = (rows.first()?, rows.last()?);
        let all = last.2 - first.2;
        let share = (u128::from(last.1 - first.1) * 1_000_000).checked_div(u128::from(all))?;
        Some((last.0, u64::try_from(share).expect("at most all of them")))
    };
    rows.windows(SHARE_ROWS + 1).filter_map(share).collect()
}

/// Whether ground truth is needed for useless promotions.
pub(crate) fn needs_promotions_judged(names: &[String]) -> bool {
    names.is_empty() || names.iter().any(|name| name == "promoted_in_vain_ratio")
}

/// Whether these metrics need every use of every page.
pub(crate) fn need_ground_truth(names: &[String]) -> bool {
    names.is_empty() || names.iter().any(|name| name == "working_set_used_bytes")
}

/// Whether monitors must be judged to give these metrics; none asked for means all.
pub(crate) fn need_scores(names: &[String]) -> bool {
    names.is_empty() || names.iter().any(|name| OF_MONITORS.contains(&name.as_str()))
}

/// The metric of this name.
pub(crate) fn metric_named(name: &str) -> Option<&'static Metric> {
    METRICS.iter().find(|metric| metric.name == name)
}
