//! Hot memory on a slow node: the guest's job and report.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

use crate::patterns::Pattern;

/// Runs, one after the other, each in a new process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tierings {
    /// Runs in order; each is answered by a report of its own.
    pub runs: Vec<Tiering>,
}

/// One run: memory is filled on the slow node, then a pattern is played.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tiering {
    pub pattern: Pattern,
    /// Time from the start of one pass to the start of the next; late passes follow at once.
    pub pass_us: u64,
    pub passes: u64,
    /// `kernel.numa_balancing` while it is played.
    pub numa_balancing: u32,
    /// `kernel.numa_balancing_promote_rate_limit_MBps`.
    pub promote_rate_mbps: u32,
    /// The node whose memory it begins in.
    pub slow_node: u32,
    /// Passes between two samples.
    pub look_every: u64,
    /// First page and number of pages of the part that is used, which is also sampled separately.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hot: Option<(u32, u32)>,
    /// Program that runs from before the first pass to the end, with the player in the group `/tier`: its absolute path and arguments.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub program: Vec<String>,
}

/// Result of one run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tiered {
    /// The nodes that hot memory is demoted to, and tiers, as the kernel prints them.
    pub tiers: Vec<String>,
    /// `pgpromote_*`, `pgdemote_*`, `numa_*` and `pgmigrate_*` of `/proc/vmstat` at the end, minus their values before the first
    /// pass.
    pub vmstat: BTreeMap<String, i64>,
    /// (passes done, pages of the arena on each node).
    pub nodes: Vec<(u64, Vec<u64>)>,
    /// The same for the part that is used, if that part is known.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hot_nodes: Vec<(u64, Vec<u64>)>,
    /// Exit and output of the program.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub said: String,
}
