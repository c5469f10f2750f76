//! Metrics that goals of schemes use: one table of all metrics.

use serde::{Deserialize, Serialize};

/// Metric of a goal. Names that end in `-bp` are in basis points (0 to 10,000).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Metric {
    /// The value that the user reported last; it has no unit.
    #[default]
    #[serde(alias = "user_input")]
    UserInput,
    /// Microseconds in which some task was stalled by memory, since the last reading.
    #[serde(alias = "some_mem_psi_us")]
    SomeMemPsiUs,
    /// Used share of a node's memory, in basis points.
    #[serde(alias = "node_mem_used_bp")]
    NodeMemUsedBp,
    /// Free share of a node's memory, in basis points.
    #[serde(alias = "node_mem_free_bp")]
    NodeMemFreeBp,
    /// Share of a node's memory that a memory cgroup uses, in basis points.
    #[serde(alias = "node_memcg_used_bp")]
    NodeMemcgUsedBp,
    /// Share of a node's memory that a memory cgroup does not use, in basis points.
    #[serde(alias = "node_memcg_free_bp")]
    NodeMemcgFreeBp,
    /// Active share of all pages on LRU lists, in basis points.
    #[serde(alias = "active_mem_bp")]
    ActiveMemBp,
    /// Inactive share of all pages on LRU lists, in basis points.
    #[serde(alias = "inactive_mem_bp")]
    InactiveMemBp,
    /// Share of the memory that matches the scheme's pattern that is on a node.
    #[serde(alias = "node_eligible_mem_bp")]
    NodeEligibleMemBp,
}

/// A metric with its name and arguments; an entry of [`METRICS`].
#[derive(Clone, Copy, Debug)]
pub struct MetricEntry {
    pub metric: Metric,
    /// Name of the metric in files; underscores are taken as well.
    pub name: &'static str,
    pub needs_node: bool,
    /// Whether a goal with this metric must name a memory cgroup.
    pub needs_memcg: bool,
    /// Whether the metric is available only for schemes on physical memory.
    pub is_physical: bool,
}

pub const METRICS: [MetricEntry; 9] = {
    const fn entry(metric: Metric, name: &'static str, needs_node: bool, needs_memcg: bool) -> MetricEntry {
        MetricEntry { metric, name, needs_node, needs_memcg, is_physical: false }
    }
    [
        entry(Metric::UserInput, "user-input", false, false),
        entry(Metric::SomeMemPsiUs, "some-mem-psi-us", false, false),
        entry(Metric::NodeMemUsedBp, "node-mem-used-bp", true, false),
        entry(Metric::NodeMemFreeBp, "node-mem-free-bp", true, false),
        entry(Metric::NodeMemcgUsedBp, "node-memcg-used-bp", true, true),
        entry(Metric::NodeMemcgFreeBp, "node-memcg-free-bp", true, true),
        entry(Metric::ActiveMemBp, "active-mem-bp", false, false),
        entry(Metric::InactiveMemBp, "inactive-mem-bp", false, false),
        MetricEntry { is_physical: true, ..entry(Metric::NodeEligibleMemBp, "node-eligible-mem-bp", true, false) },
    ]
};

impl Metric {
    /// The entry of this metric in [`METRICS`].
    pub fn entry(self) -> &'static MetricEntry {
        METRICS.iter().find(|entry| entry.metric == self).expect("every metric has a line")
    }
}
