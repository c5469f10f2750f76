//! Configuration of a live machine: the types of `/etc/isotherm/isotherm.toml` (docs/spec/live.md#5-configuration).

mod check;
mod compaction;
mod engine;
mod group_path;
mod metrics;
mod monitors;
mod sections;
mod tables;
mod targets;
mod tiering;

pub use check::Contradiction;
pub use compaction::CompactionConfig;
pub use engine::Engine;
pub(crate) use group_path::group_path;
pub use metrics::{Listen, MetricsConfig};
pub use sections::{GenerationsConfig, LimitsConfig, MonitorsConfig, TimeToLive};
pub use tables::Table;
use tables::tables;
pub use targets::{ProcessConfig, Target, TargetConfig};
pub use tiering::{BalancingKnobs, TieringConfig};

use isotherm_units::{Bytes, Ratio};
use serde::{Deserialize, Serialize};

/// A live configuration. Every table may be left out; unknown keys are refused.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "kebab-case", deny_unknown_fields)]
pub struct Config {
    pub daemon: DaemonConfig,
    /// Control groups, processes or physical memory under a name.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub targets: Vec<TargetConfig>,
    /// Modules of the kernel that watch physical memory and act on it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub monitors: Vec<MonitorsConfig>,
    /// Tools over the generations of the Multi-Gen LRU.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub generations: Vec<GenerationsConfig>,
    /// Right-sizing of groups.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub limits: Vec<LimitsConfig>,
    /// Compaction of nodes ahead of demand.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub compaction: Vec<CompactionConfig>,
    /// Promotion and demotion between tiers of memory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tiering: Option<TieringConfig>,
    pub guard: GuardConfig,
    /// Where metrics can be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metrics: Option<MetricsConfig>,
}

// The key and its type, how it is written, the name of a section, whether it ever acts, its checks.
tables! {
    generations: GenerationsConfig, "[[generations]]", |it| format!("generations.{}", it.name), |it| it.acts() || it.min_ttl.is_some(), Self::check_generations;
    monitors: MonitorsConfig, "[[monitors]]", |it| format!("monitors.{}", it.name), |_| true, Self::check_monitors;
    limits: LimitsConfig, "[[limits]]", |it| format!("limits.{}", it.name), |_| true, Self::check_limits;
    compaction: CompactionConfig, "[[compaction]]", |it| format!("compaction.{}", it.name), |_| true, Self::check_compaction;
    tiering: TieringConfig, "[tiering]", |_| "tiering".to_owned(), |_| true, Self::check_tiering;
}

/// The daemon itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "kebab-case", deny_unknown_fields)]
pub struct DaemonConfig {
    /// Share of one processor that it may take. It is divided among sections so that each gets what it needs, or the same part as all others
    /// that need more; sections above their part run less often. Half of it is theirs; the search for groups may take a quarter, reports
    /// of the state an eighth. Readers of metrics may cost the same share again. A kdamond that takes more for a minute is switched off
    /// for ten. Default 1 %; above 0 % up to 100 %.
    pub max_cpu: Ratio,
    /// Resident memory at which it ends, after it has put everything back. Default 64 MiB; 16 MiB and more.
    pub max_memory: Bytes,
    /// Groups that are never acted on, with all below them, in addition to the built-in ones: paths, in which `*` and `?` stand for parts
    /// of a name.
    pub protect: Vec<String>,
}

impl Default for DaemonConfig {
    fn default() -> Self {
        Self { max_cpu: Ratio::from_percent(1), max_memory: Bytes::from_mib(64), protect: Vec::new() }
    }
}

/// When sections that act pause.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "kebab-case", deny_unknown_fields)]
pub struct GuardConfig {
    /// Share of the time in which all tasks of a group waited for memory. Above it nothing acts on the group until it was below half of
    /// it for a minute. For sections that act on memory of everyone the machine counts, without groups at a limit of their own. Default
    /// 2 %; 100 % switches the guard off, which a kernel without PSI needs.
    pub pressure_full: Ratio,
    /// While this file exists, no section acts.
    pub file: String,
}

impl Default for GuardConfig {
    fn default() -> Self {
        Self { pressure_full: Ratio::from_percent(2), file: "/run/isotherm/stop".to_owned() }
    }
}
