//! A monitor of the kernel over a process that plays a pattern: the guest's job and report.

use serde::{Deserialize, Serialize};

use crate::patterns::Pattern;

/// First page of the arena that a pattern is played in: 512 GiB, with no other mapping near.
pub const ARENA_PAGE: u64 = 1 << 27;
/// Most passes of one run.
pub const PASSES_MAX: usize = 1 << 16;

/// Addresses that the kernel watches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Addresses {
    /// All of the process; the kernel finds the ranges.
    Vaddr,
    /// The arena, throughout.
    Fvaddr,
}

impl Addresses {
    /// Name as the kernel writes it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Vaddr => "vaddr",
            Self::Fvaddr => "fvaddr",
        }
    }
}

/// Play patterns one after the other, each in a new process, and have DAMON watch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Watches {
    /// Runs in order; each is answered by a report of its own.
    pub runs: Vec<Watch>,
}

/// Play a pattern and have DAMON watch it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Watch {
    pub pattern: Pattern,
    /// Time from the start of one pass to the start of the next.
    pub pass_us: u64,
    /// Kind of addresses.
    pub addresses: Addresses,
    /// Sampling interval.
    pub sample_us: u64,
    /// Aggregation interval.
    pub aggr_us: u64,
    /// Fewest regions.
    pub min_regions: u32,
    /// Most regions.
    pub max_regions: u32,
    /// Length of the watch.
    pub seconds: u64,
}

/// Result of the watch. Times are nanoseconds of one clock, which began before the first pass.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Watched {
    /// Mappings of the process, `(first page, pages)`, ascending.
    pub mappings: Vec<(u64, u64)>,
    /// When each pass began.
    pub passes_ns: Vec<u64>,
    /// Snapshots in order.
    pub snapshots: Vec<Snapshot>,
}

/// The regions at the end of one aggregation.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Snapshot {
    /// Time at which they were available: just after the aggregation.
    pub at_ns: u64,
    /// Ascending.
    pub regions: Vec<Region>,
}

/// A region. Written as `[start, end, nr_accesses, age]`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "(u64, u64, u32, u32)", into = "(u64, u64, u32, u32)")]
pub struct Region {
    /// First byte.
    pub start: u64,
    /// Byte after the last.
    pub end: u64,
    /// Samples that found it used.
    pub nr_accesses: u32,
    /// Aggregations in which it changed little.
    pub age: u32,
}

impl From<(u64, u64, u32, u32)> for Region {
    fn from((start, end, nr_accesses, age): (u64, u64, u32, u32)) -> Self {
        Self { start, end, nr_accesses, age }
    }
}

impl From<Region> for (u64, u64, u32, u32) {
    fn from(region: Region) -> Self {
        (region.start, region.end, region.nr_accesses, region.age)
    }
}
