//! The types of a scenario file.

use crate::averages::AverageSpec;
use crate::compaction::CompactionSpec;
use crate::event::{EventSpec, LimitValue};
use crate::expectations::ExpectationSpec;
use crate::generations::GenerationsSpec;
use crate::monitoring::MonitorSpec;
use crate::world::WorldSpec;
use isotherm_core::limits::LimitsConfig;
use isotherm_sim::machine::MachineConfig;
use isotherm_sim::tiering::TieringSpec;
use isotherm_units::{Amount, Duration};
use isotherm_workload::WorkloadSpec;
use serde::{Deserialize, Serialize};

/// A scenario, as written. Every key but `name` and `workloads` may be left out; unknown keys are refused.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Scenario {
    /// Short name, as on the command line.
    pub name: String,
    /// One line of description, for reports. Default: empty.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub title: String,
    /// Seed of the first repeat; the others follow. Default 1.
    #[serde(default = "one")]
    pub seed: u64,
    /// Runs of each variant, each with its own seed. Default 1.
    #[serde(default = "one_repeat")]
    pub repeats: u32,
    /// For this time from the start of the first workload other tasks run for a moment once a tick, and touch none of the workload's
    /// memory, so that the next task on the processor is switched to. Not used under a policy that knows the future. Default 0: no other
    /// task runs.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub other_tasks: Duration,
    /// Whether workloads share the machine. Default `each`.
    #[serde(default)]
    pub run: RunMode,
    /// Page-replacement policy. Default `classic`.
    #[serde(default = "classic")]
    pub policy: String,
    /// `memory.max` of the group of each workload that has no `cgroup` of its own; a share is of its peak memory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<Amount>,
    /// Runs end at this simulated time at the latest. Default 1 h.
    #[serde(default = "one_hour")]
    pub until: Duration,
    /// Metrics to report, see [`METRICS`](crate::METRICS). Default: all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub metrics: Vec<String>,
    /// Name of the variant that ratios are taken against. Left out: no ratios are taken.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub against: Option<String>,
    #[serde(default)]
    pub machine: MachineConfig,
    /// The policy that decides which pages are in fast memory, on a machine with tiers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tiering: Option<TieringSpec>,
    /// Policies and limits; each pair becomes a variant `POLICY@LIMIT`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub matrix: Option<Matrix>,
    /// Conditions of each repeat, in place of `repeats`. Without worlds, repeats differ only by their seed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub worlds: Vec<WorldSpec>,
    /// Control groups, parents before children.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cgroups: Vec<CgroupSpec>,
    pub workloads: Vec<WorkloadEntry>,
    /// Kernel threads that monitor memory.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub monitors: Vec<MonitorSpec>,
    /// Daemons over the generations of the Multi-Gen LRU.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub generations: Vec<GenerationsSpec>,
    /// Right-sizing of groups by `memory.high`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub limits: Vec<LimitsConfig>,
    /// Daemons that compact memory.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub compaction: Vec<CompactionSpec>,
    /// External events while the workloads run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub events: Vec<EventSpec>,
    /// Changes of the above to compare. Without variants (and without `matrix`) the scenario itself is the only variant.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub variants: Vec<VariantSpec>,
    /// Rows over several workloads.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub averages: Vec<AverageSpec>,
    /// Published numbers to print next to ours.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub references: Vec<Reference>,
    /// Expected results, which are printed as met or missed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub expectations: Vec<ExpectationSpec>,
}

impl Scenario {
    /// A scenario without workloads, all else by default.
    pub fn named(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            title: String::new(),
            seed: one(),
            repeats: one_repeat(),
            worlds: Vec::new(),
            other_tasks: Duration::ZERO,
            run: RunMode::default(),
            policy: classic(),
            limit: None,
            until: one_hour(),
            metrics: Vec::new(),
            against: None,
            machine: MachineConfig::default(),
            tiering: None,
            matrix: None,
            cgroups: Vec::new(),
            workloads: Vec::new(),
            monitors: Vec::new(),
            generations: Vec::new(),
            limits: Vec::new(),
            compaction: Vec::new(),
            events: Vec::new(),
            variants: Vec::new(),
            averages: Vec::new(),
            references: Vec::new(),
            expectations: Vec::new(),
        }
    }
}

impl WorkloadEntry {
    /// A workload with `load`, started at once, in a group of its own.
    pub fn new(name: &str, load: WorkloadSpec) -> Self {
        let start = Duration::ZERO;
        Self {
            name: name.to_owned(),
            cgroup: None,
            start,
            autostart: true,
            premapped: false,
            copies: one_copy(),
            node: None,
            load,
        }
    }
}

fn one() -> u64 {
    1
}
fn one_repeat() -> u32 {
    1
}
fn classic() -> String {
    "classic".to_owned()
}
fn one_hour() -> Duration {
    Duration::from_secs(3600)
}

/// How the workloads of a scenario meet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RunMode {
    /// Each workload has the machine for itself, one run after the other.
    #[default]
    Each,
    /// All run side by side on one machine; a row `system` is added.
    Together,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct WorkloadEntry {
    /// Name in results. The workload's own group gets this name, if there is one.
    pub name: String,
    /// Group it runs in. Default: its own group, with the workload's name and with `limit`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cgroup: Option<String>,
    /// Time of the start; `false` in `autostart` leaves the start to an event. Default 0.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub start: Duration,
    /// Whether the workload starts without an event. Default true.
    #[serde(default = "yes", skip_serializing_if = "is_true")]
    pub autostart: bool,
    /// Whether the anonymous memory it starts with was touched before the run: resident from the start, never evicted, and so cheap that
    /// terabytes fit (`docs/mechanism/machine.md#translation`). Default false.
    #[serde(default, skip_serializing_if = "is_false")]
    pub premapped: bool,
    /// Number of programs that do the same, each with its own choices and files, in a group of its own below the workload's; these groups
    /// are called `1` and so on. Results have the copies together: runtime is the longest, all other metrics are sums. Monitors watch the
    /// first. Default 1: one program in the workload's group itself.
    #[serde(default = "one_copy", skip_serializing_if = "is_one")]
    pub copies: u32,
    /// It takes memory of this node first, and of the others in its order. Default: of the node it runs on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<usize>,
    pub load: WorkloadSpec,
}

fn yes() -> bool {
    true
}
fn is_true(value: &bool) -> bool {
    *value
}
fn is_false(value: &bool) -> bool {
    !*value
}
fn one_copy() -> u32 {
    1
}
fn is_one(value: &u32) -> bool {
    *value == 1
}
fn is_zero(span: &Duration) -> bool {
    *span == Duration::ZERO
}

/// A control group.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct CgroupSpec {
    /// Absolute path, for example `/app/db`. Parents come first.
    pub path: String,
    /// `memory.max`. Shares are of the peak memory of the workloads in it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max: Option<LimitValue>,
    /// `memory.high`. Shares as for `max`. Left out: no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub high: Option<LimitValue>,
    /// `memory.low`. Shares as for `max`. Left out: no protection.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub low: Option<LimitValue>,
    /// `memory.min`. Shares as for `max`. Left out: no protection.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min: Option<LimitValue>,
    /// `memory.swap.max`. Shares as for `max`. Left out: no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub swap_max: Option<LimitValue>,
}

/// Makes a variant `POLICY@LIMIT` of each pair.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Matrix {
    /// Policies; `all` stands for every registered one.
    pub policies: Vec<String>,
    /// Values of [`Scenario::limit`]: sizes, or shares of peak memory.
    pub limits: Vec<Amount>,
}

/// A named change of the scenario.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct VariantSpec {
    /// Name in results, and for `against`.
    pub name: String,
    /// Workloads that it plays, where each has the machine for itself. Default: all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub only: Vec<String>,
    /// Keys to change: tables are merged key by key, everything else (lists too) is replaced. A table in place of a list of named tables
    /// changes entries of the list: its keys are their names, `*` is all of them.
    #[serde(default)]
    pub patch: toml::Table,
}

/// A published number, or the interval in which it lies. Published values, which are only printed next to ours.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Reference {
    /// Workload of the row, or the name of an average.
    pub workload: String,
    /// Variant of the row that it belongs to.
    pub variant: String,
    /// Metric of the row that it belongs to.
    pub metric: String,
    /// The number; of the ratio if `against` is given. Default: the middle of the interval.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<f64>,
    /// Lower end of the published confidence interval; comes with `high`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub low: Option<f64>,
    /// Upper end of the published confidence interval; comes with `low`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub high: Option<f64>,
    /// For ratios: the variant it is taken against.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub against: Option<String>,
    /// Where the number was published.
    pub source: String,
}

impl Reference {
    /// The number, or the middle of the interval.
    pub fn number(&self) -> Option<f64> {
        self.value.or_else(|| Some((self.low? + self.high?) / 2.0))
    }
    /// Both ends of the published interval; `None` if no interval is given.
    pub fn interval(&self) -> Option<(f64, f64)> {
        Some((self.low?, self.high?))
    }
}
