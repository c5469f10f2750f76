//! Patterns under a limit that drops and rises, with or without the kernel's LRU_SORT: the guest's job and report.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

use crate::job::Setting;
use crate::patterns::Pattern;

/// Runs, one after the other, each in a new process and group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sorts {
    /// Runs in order; each is answered by a report of its own.
    pub runs: Vec<Sort>,
}

/// One run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sort {
    pub pattern: Pattern,
    /// Time from the start of one pass to the start of the next; late passes follow at once.
    pub pass_us: u64,
    pub passes: u64,
    /// The group's limit, from the first pass on.
    pub pressure: Pressure,
    /// Files of LRU_SORT to write before the first pass, `enabled` last; empty: it stays off.
    pub lru_sort: Vec<Setting>,
    /// Program that runs from before the first pass to the end, over the group `/sort`: its absolute path and arguments. Empty: none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub program: Vec<String>,
    /// Time between its start and the first pass.
    #[serde(default)]
    pub settle_ms: u64,
}

/// A limit that goes down and up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pressure {
    /// Limit at the beginning of each period.
    pub low_bytes: u64,
    /// Limit for the rest of the run.
    pub high_bytes: u64,
    /// Time that it stays low.
    pub low_us: u64,
    /// Length of a period.
    pub period_us: u64,
}

/// Result of one run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sorted {
    /// Time from the first pass to the end of the last.
    pub took_us: u64,
    /// The group's `memory.stat` at the end, minus its values before the first pass.
    pub memory_stat: BTreeMap<String, i64>,
    /// Increases of numbers in the files of LRU_SORT; empty if it was off.
    pub lru_sort: BTreeMap<String, u64>,
    /// Exit and output of the program.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub said: String,
}
