//! What goals of schemes look at: one table of all metrics.

use serde::{Deserialize, Serialize};

/// What a goal looks at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Metric {
    /// What the user last reported.
    #[default]
    #[serde(alias = "user_input")]
    UserInput,
    /// Microseconds in which some task was stalled by memory, since the last look.
    #[serde(alias = "some_mem_psi_us")]
    SomeMemPsiUs,
    /// Used share of a node.
    #[serde(alias = "node_mem_used_bp")]
    NodeMemUsedBp,
    /// Free share of a node.
    #[serde(alias = "node_mem_free_bp")]
    NodeMemFreeBp,
    /// Share of a node that a memory cgroup uses.
    #[serde(alias = "node_memcg_used_bp")]
    NodeMemcgUsedBp,
    /// Share of a node that a memory cgroup does not use.
    #[serde(alias = "node_memcg_free_bp")]
    NodeMemcgFreeBp,
    /// Active share of all pages on LRU lists.
    #[serde(alias = "active_mem_bp")]
    ActiveMemBp,
    /// Inactive share of all pages on LRU lists.
    #[serde(alias = "inactive_mem_bp")]
    InactiveMemBp,
    /// Of the memory that the scheme's pattern is for, the share on a node.
    #[serde(alias = "node_eligible_mem_bp")]
    NodeEligibleMemBp,
}

/// One line of [`METRICS`].
#[derive(Clone, Copy, Debug)]
pub struct MetricEntry {
    pub metric: Metric,
    /// Its name in files; underscores are taken as well.
    pub name: &'static str,
    pub needs_node: bool,
    /// It is of a memory cgroup.
    pub needs_memcg: bool,
    /// It is for schemes on physical memory.
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
    /// Its line of the table.
    pub fn entry(self) -> &'static MetricEntry {
        METRICS.iter().find(|entry| entry.metric == self).expect("every metric has a line")
    }
}
