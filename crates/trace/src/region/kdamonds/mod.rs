//! damo's `kdamonds`: targets, monitor settings, and schemes. JSON, read and written.
//!
//! Plain data in base units; words (`ops`, `action`, metrics, types of filters) stay as written, and callers validate them.
//! Reading accepts every notation that damo accepts: commas, units, `min` and `max`, absent keys, `null`.

mod node;
mod read;
mod tree;
mod write;

pub use read::{parse_kdamonds, read_kdamonds};
pub use write::{print_kdamonds, write_kdamonds};

use super::IntervalsGoal;

/// A configuration: all kernel threads.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Kdamonds {
    /// The kernel threads, in the order of their indices.
    pub kdamonds: Vec<Kdamond>,
}

/// One kernel thread.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Kdamond {
    /// Interval in which the kernel refreshes its statistics files, nanoseconds; 0: on demand.
    pub refresh_ns: u64,
    /// The monitoring contexts of the thread, in the order of their indices.
    pub contexts: Vec<Context>,
}

/// One monitoring context.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Context {
    /// Operations set: `vaddr`, `fvaddr`, `paddr`.
    pub operations: String,
    /// Bytes of an address unit; 1 on most machines.
    pub address_unit_bytes: u64,
    pub targets: Vec<Target>,
    /// Intervals of sampling, of snapshots and of updates.
    pub intervals: MonitorIntervals,
    /// Lower limit of the number of regions.
    pub min_regions: u64,
    /// Upper limit of the number of regions.
    pub max_regions: u64,
    /// Attribute probes, applied at each sample.
    pub probes: Vec<Probe>,
    /// Accesses that count, and how they are detected.
    pub sample_control: SampleControl,
    /// Whether monitoring is paused.
    pub pause: bool,
    /// Schemes applied to the results.
    pub schemes: Vec<Scheme>,
}

impl Default for Context {
    /// damo's defaults.
    fn default() -> Self {
        Self {
            operations: String::new(),
            address_unit_bytes: 1,
            targets: Vec::new(),
            intervals: MonitorIntervals::default(),
            min_regions: 10,
            max_regions: 1000,
            probes: Vec::new(),
            sample_control: SampleControl::default(),
            pause: false,
            schemes: Vec::new(),
        }
    }
}

/// A range of addresses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AddressRange {
    /// First address of the range.
    pub start: u64,
    /// Address after the last; not part of the range.
    pub end: u64,
}

/// A target of monitoring.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Target {
    /// Process id; `None` for physical memory.
    pub pid: Option<u32>,
    /// Whether an online change removes it.
    pub obsolete: bool,
    /// Initial regions; empty: the operations set determines them.
    pub regions: Vec<AddressRange>,
}

/// Intervals of a monitor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MonitorIntervals {
    /// From one check of a region to the next, nanoseconds.
    pub sample_ns: u64,
    /// From one snapshot to the next, nanoseconds.
    pub aggregation_ns: u64,
    /// From one read of the target's mappings to the next, nanoseconds.
    pub update_ns: u64,
    /// Goal of auto-tuning of the intervals; off if its `nr_aggregations` is 0.
    pub goal: IntervalsGoal,
}

impl Default for MonitorIntervals {
    /// DAMON's defaults: 5 ms, 100 ms, 1 s, no tuning.
    fn default() -> Self {
        let goal = IntervalsGoal::default();
        Self { sample_ns: 5_000_000, aggregation_ns: 100_000_000, update_ns: 1_000_000_000, goal }
    }
}

/// An attribute probe.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Probe {
    /// Preparations of a page before it is probed.
    pub preparations: Vec<String>,
    /// Filters, tried in order; the first match decides.
    pub filters: Vec<ProbeFilter>,
    /// Weight in sums of hits of several probes.
    pub weight: u64,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProbeFilter {
    /// Type of the filter: `anon`, `memcg`, `pgidle_set` and others.
    pub filter_type: String,
    /// Whether the filter matches pages of that type, or all others.
    pub matching: bool,
    /// Whether matches pass (`true`) or are left out.
    pub allow: bool,
    /// For `memcg`: path of the control group.
    pub path: Option<String>,
}

/// Accesses that count, and how they are detected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SampleControl {
    /// Whether accesses are detected by accessed bits of page tables.
    pub page_table: bool,
    pub page_fault: bool,
    /// Filters of accesses, tried in order.
    pub filters: Vec<SampleFilter>,
}

impl Default for SampleControl {
    fn default() -> Self {
        Self { page_table: true, page_fault: false, filters: Vec::new() }
    }
}

/// One filter of accesses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SampleFilter {
    /// Type of the filter: `cpumask`, `threads` or `write`.
    pub filter_type: String,
    /// Whether the filter matches accesses of that type, or all others.
    pub matching: bool,
    /// Whether matches pass (`true`) or are left out.
    pub allow: bool,
    /// For `cpumask`: the processors, in the kernel's notation.
    pub cpumask: Option<String>,
    /// For `threads`: the threads, in the kernel's notation.
    pub threads: Option<String>,
}

/// A number, or no limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Limit {
    /// This number.
    At(u64),
    /// No limit; written as `max`.
    Max,
}

/// From `min` to `max`, both included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    pub min: Limit,
    pub max: Limit,
}

impl Default for Bounds {
    fn default() -> Self {
        Self { min: Limit::At(0), max: Limit::Max }
    }
}

/// The unit of bounds on accesses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AccessUnit {
    /// Parts per million of the samples of an aggregation.
    #[default]
    Ppm,
    Samples,
}

/// The unit of bounds on ages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AgeUnit {
    #[default]
    Nanoseconds,
    Aggregations,
}

/// The regions that a scheme applies to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AccessPattern {
    /// Length of a region in bytes.
    pub bytes: Bounds,
    /// Accesses of a region, in `access_unit`.
    pub accesses: Bounds,
    /// The unit of `accesses`.
    pub access_unit: AccessUnit,
    /// Age of a region, in `age_unit`.
    pub age: Bounds,
    /// The unit of `age`.
    pub age_unit: AgeUnit,
}

/// Destination of a migrating scheme.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Destination {
    /// Number of the NUMA node.
    pub id: u64,
    /// Weight of this node among all destinations.
    pub weight: u64,
}

/// An action for regions of a pattern.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scheme {
    /// Name of the action: `pageout`, `lru_prio`, `migrate_hot`, `stat` and others.
    pub action: String,
    /// Node that memory is moved to, if there is only one.
    pub target_nid: Option<u64>,
    /// Nodes that memory is moved to, with weights; empty if there is one node or none.
    pub destinations: Vec<Destination>,
    /// Pattern of matching regions.
    pub pattern: AccessPattern,
    /// Time from one pass of the scheme to the next, nanoseconds; 0: with each snapshot.
    pub apply_interval_ns: u64,
    pub quotas: Quotas,
    pub watermarks: Watermarks,
    /// Filters that leave memory out, in order.
    pub filters: Vec<SchemeFilter>,
    /// Snapshots after which it stops; 0: never. damo prints it among the statistics, and accepts it only on its command
    /// line.
    pub max_nr_snapshots: u64,
}

impl Default for Scheme {
    /// damo's default: counts all regions and does nothing.
    fn default() -> Self {
        Self {
            action: "stat".to_owned(),
            target_nid: None,
            destinations: Vec::new(),
            pattern: AccessPattern::default(),
            apply_interval_ns: 0,
            quotas: Quotas::default(),
            watermarks: Watermarks::default(),
            filters: Vec::new(),
            max_nr_snapshots: 0,
        }
    }
}

/// Limits of a scheme.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Quotas {
    /// CPU time of the scheme in an interval, nanoseconds; 0: no limit.
    pub time_ns: u64,
    /// Bytes that may be tried in an interval; 0: no limit.
    pub bytes: u64,
    /// Length of a quota interval, nanoseconds; [`Limit::Max`]: it never ends.
    pub reset_interval_ns: Limit,
    /// Weight of a region's size if the quota does not allow all, parts per million.
    pub weight_size_ppm: u64,
    /// Weight of its accesses, parts per million.
    pub weight_accesses_ppm: u64,
    /// Weight of its age, parts per million.
    pub weight_age_ppm: u64,
    /// Share of failed bytes charged to the quota: numerator.
    pub fail_charge_numerator: u64,
    /// Share of failed bytes charged to the quota: denominator; 0: all are charged.
    pub fail_charge_denominator: u64,
    /// Goals that the quota is tuned towards.
    pub goals: Vec<QuotaGoal>,
    /// Tuner of the goals: `consist`, `temporal`.
    pub goal_tuner: String,
    /// Result of tuning, bytes; read only.
    pub effective_bytes: u64,
}

impl Default for Quotas {
    fn default() -> Self {
        Self {
            time_ns: 0,
            bytes: 0,
            reset_interval_ns: Limit::Max,
            weight_size_ppm: 0,
            weight_accesses_ppm: 0,
            weight_age_ppm: 0,
            fail_charge_numerator: 0,
            fail_charge_denominator: 0,
            goals: Vec::new(),
            goal_tuner: "consist".to_owned(),
            effective_bytes: 0,
        }
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QuotaGoal {
    /// Name of the metric: `user_input`, `some_mem_psi_us`, `node_mem_used_bp` and others.
    pub metric: String,
    /// Whether the metric is its complement, the whole minus the value.
    pub complement: bool,
    /// Number of the node, for metrics of a node.
    pub nid: Option<u64>,
    /// Path of the control group, for metrics of a group.
    pub memcg_path: Option<String>,
    /// Target value, in the unit that the metric's name ends in: microseconds, basis points, or a bare number.
    pub target_value: u64,
    /// The current value, in the unit of `target_value`.
    pub current_value: u64,
}

/// When a scheme is switched on, depending on a metric.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Watermarks {
    /// Metric that is compared with the marks: `none` or `free_mem_rate`.
    pub metric: String,
    /// Time from one check of the metric to the next, nanoseconds.
    pub interval_ns: u64,
    /// The scheme switches off above this, parts per million.
    pub high_ppm: u64,
    /// The scheme switches on below this, parts per million.
    pub mid_ppm: u64,
    /// The scheme switches off below this, parts per million.
    pub low_ppm: u64,
}

impl Default for Watermarks {
    fn default() -> Self {
        Self { metric: "none".to_owned(), interval_ns: 0, high_ppm: 0, mid_ppm: 0, low_ppm: 0 }
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SchemeFilter {
    /// Type of the filter: `anon`, `memcg`, `young`, `addr`, `target`, `hugepage_size` and others.
    pub filter_type: String,
    /// Whether the filter matches memory of that type, or all other memory.
    pub matching: bool,
    /// Whether matches pass (`true`) or are left out.
    pub allow: bool,
    /// For `memcg`: path of the control group.
    pub memcg_path: Option<String>,
    /// For `addr`: the range of addresses.
    pub address_range: Option<AddressRange>,
    /// For `target`: index of the target in its context.
    pub target_index: Option<u64>,
    /// For `hugepage_size`: sizes of the folio in bytes.
    pub hugepage_bytes: Option<Bounds>,
    /// For `probe_hits_wsum`: the weighted sum of probe hits.
    pub probe_hits: Option<Bounds>,
}
