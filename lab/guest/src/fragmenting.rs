//! Fragmented memory, compaction and huge pages in a real kernel: the guest's job and report.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Runs, one after the other.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fragments {
    /// Runs in order; each is answered by a report of its own.
    pub runs: Vec<Fragment>,
}

/// One run: fill memory, free three quarters of each 2 MiB, let the kernel compact, then ask for huge pages.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fragment {
    /// The pages freed of each section of 512 pages.
    pub holes: Holes,
    /// `vm.compaction_proactiveness` while the kernel is left alone.
    pub proactiveness: u32,
    /// How long it is left alone.
    pub wait_ms: u64,
    /// Program to run instead of the wait: its absolute path and arguments. Empty: none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub program: Vec<String>,
    /// Memory that is left free when the rest is filled.
    pub spare_bytes: u64,
    /// Huge pages to ask for, in percent of the huge pages that the freed memory would make.
    pub huge_percent: u32,
}

/// The three quarters of a section that are freed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Holes {
    /// The first 384 pages.
    Contiguous,
    /// Three pages of each four.
    Strided,
}

impl Holes {
    /// As in data.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Contiguous => "contiguous",
            Self::Strided => "strided",
        }
    }
}

/// Result of one run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fragmented {
    /// Sections filled.
    pub sections: u64,
    /// When holes were made.
    pub before: Moment,
    /// When the kernel had been left alone.
    pub after: Moment,
    /// When huge pages had been asked for.
    pub end: Moment,
    /// Time for each huge page, in order.
    pub huge_ns: Vec<u64>,
    /// Exit and output of the program.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub said: String,
}

/// State of memory at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Moment {
    /// `/proc/buddyinfo`.
    pub buddyinfo: String,
    /// debugfs `extfrag/unusable_index`; empty if the kernel has none.
    pub unusable_index: String,
    /// `compact_*`, `thp_*`, `pgmigrate_*` and other counters of huge pages from `/proc/vmstat`, unchanged.
    pub vmstat: BTreeMap<String, u64>,
}
