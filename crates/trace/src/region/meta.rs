//! Metadata of a region record.
//!
//! Written as JSON into the file's metadata under the key `isotherm`. Reading is tolerant: absent keys take their
//! defaults, unknown keys are ignored.

use serde::{Deserialize, Serialize};

use super::{Intervals, Region, SchemeStats};

/// The version of the format that this crate writes. Readers refuse later ones.
pub const RECORD_VERSION: u32 = 1;

/// Everything about a region record except its snapshots.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct RecordMeta {
    /// The [`RECORD_VERSION`] that the file was written with.
    pub record_version: u32,
    /// The command that was monitored, or empty.
    pub command: Vec<String>,
    /// Tool that observed the accesses, for example `isotherm monitor`, `damo json`.
    pub recorder: String,
    /// Program and version that wrote the file.
    pub created_by: String,
    /// Description of the machine of the recording (architecture, kernel, CPU).
    pub host: String,
    /// The monitoring contexts; [`TargetMeta::context`] is an index in this list.
    pub contexts: Vec<ContextMeta>,
    /// Targets of monitoring; [`super::Snapshot::target`] is an index in this list.
    pub targets: Vec<TargetMeta>,
    /// Statistics of schemes, by snapshot; ascending.
    pub stats: Vec<SnapshotStats>,
    /// Whether the recording ran to its end. `false`: interrupted or torn; the existing part is valid.
    pub complete: bool,
    /// Number of snapshots in the file.
    pub snapshots: u64,
    /// Number of regions of all snapshots together.
    pub regions: u64,
    /// Notes for readers of results: data that a conversion dropped, changed or made up.
    pub notes: Vec<String>,
}

impl Default for RecordMeta {
    fn default() -> Self {
        Self {
            record_version: RECORD_VERSION,
            command: Vec::new(),
            recorder: String::new(),
            created_by: concat!("isotherm ", env!("CARGO_PKG_VERSION")).to_owned(),
            host: String::new(),
            contexts: Vec::new(),
            targets: Vec::new(),
            stats: Vec::new(),
            complete: false,
            snapshots: 0,
            regions: 0,
            notes: Vec::new(),
        }
    }
}

impl RecordMeta {
    /// The meta of a record with one context of operations set `operations` (`vaddr`, `fvaddr`, `paddr`) and one target.
    pub fn single(operations: &str, target_name: &str) -> Self {
        Self {
            contexts: vec![ContextMeta { operations: operations.to_owned(), ..ContextMeta::default() }],
            targets: vec![TargetMeta { id: Some(0), name: target_name.to_owned(), ..TargetMeta::default() }],
            ..Self::default()
        }
    }
    /// The context of target `target`.
    ///
    /// # Panics
    /// When there is no such target; readers never return one.
    pub fn context_of(&self, target: u32) -> &ContextMeta {
        &self.contexts[self.targets[target as usize].context]
    }
    /// Why the record is invalid; `None` if it is valid.
    pub(crate) fn flaw(&self) -> Option<String> {
        let strange = |(index, target): (usize, &TargetMeta)| {
            (target.context >= self.contexts.len())
                .then(|| format!("target {index} belongs to context {}, which is not listed", target.context))
        };
        let no_unit = |(index, context): (usize, &ContextMeta)| {
            (context.address_unit_bytes == 0).then(|| format!("context {index} has an address unit of 0 bytes"))
        };
        let targets = self.targets.iter().enumerate().find_map(strange);
        targets.or_else(|| self.contexts.iter().enumerate().find_map(no_unit))
    }
}

/// How memory was monitored: one DAMON context.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ContextMeta {
    /// Index of the kernel thread that ran it.
    pub kdamond: u32,
    /// Index of the context in that thread.
    pub context: u32,
    /// Operations set: `vaddr`, `fvaddr`, `paddr`, or empty when the record does not say.
    pub operations: String,
    /// Intervals of the monitor when it started; each snapshot has its own.
    pub intervals: Intervals,
    /// Goal of auto-tuning, if it was on.
    pub intervals_goal: Option<IntervalsGoal>,
    /// Lower limit of the number of regions; `None` if not known.
    pub min_regions: Option<u64>,
    /// Upper limit of the number of regions; `None` if not known.
    pub max_regions: Option<u64>,
    /// Bytes of an address unit; above 0, and 1 except for the physical space of some 32-bit machines.
    pub address_unit_bytes: u64,
    /// Each count is the percentage of the region's pages that were found used, and not how often: regions are mappings, and which of their
    /// pages were used is not known.
    #[serde(skip_serializing_if = "is_not")]
    pub counts_are_shares: bool,
    /// Names of the attribute probes, at most [`super::PROBES_MAX`].
    pub probes: Vec<String>,
}

impl Default for ContextMeta {
    fn default() -> Self {
        Self {
            kdamond: 0,
            context: 0,
            operations: String::new(),
            intervals: Intervals::default(),
            intervals_goal: None,
            min_regions: None,
            max_regions: None,
            address_unit_bytes: 1,
            counts_are_shares: false,
            probes: Vec::new(),
        }
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature that serde asks for")]
const fn is_not(flag: &bool) -> bool {
    !*flag
}

impl ContextMeta {
    /// Units of a region that were found used: all of it where counts are those of samples of the region.
    pub fn used_len(&self, region: &Region) -> u64 {
        let share = u128::from(if self.counts_are_shares { region.nr_accesses.min(100) } else { 100 });
        u64::try_from(u128::from(region.len()) * share / 100).unwrap_or(u64::MAX)
    }
}

/// Goal of auto-tuning of intervals.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct IntervalsGoal {
    /// Target share of observed accesses among all possible ones, in parts per million.
    pub access_ppm: u64,
    /// Aggregations from one adjustment to the next; 0: auto-tuning is off.
    pub nr_aggregations: u64,
    /// Shortest sampling interval, nanoseconds.
    pub min_sample_ns: u64,
    /// Longest sampling interval, nanoseconds.
    pub max_sample_ns: u64,
}

/// A target: a process, a set of ranges, or the physical address space; or the regions that one scheme was tried on
/// there.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct TargetMeta {
    /// Index of its context in [`RecordMeta::contexts`].
    pub context: usize,
    /// DAMON's id: an index in its context, a kernel address before Linux 5.16; `None`: all targets together.
    pub id: Option<u64>,
    /// Process id; `None` if it is not a process.
    pub pid: Option<u32>,
    /// Display name; may be empty.
    pub name: String,
    /// Index of the scheme whose tried regions these are; `None`: all regions.
    pub scheme: Option<u32>,
    /// Filters of that scheme, as damo writes them; empty without a scheme.
    pub scheme_filters: Vec<serde_json::Value>,
    /// damo's data source of the record (`unknown`, `damon_stat`), if given.
    pub data_source: Option<String>,
}

/// Statistics of the scheme of a snapshot's target.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SnapshotStats {
    /// Number of the snapshot: [`super::Snapshot::number`].
    pub snapshot: u64,
    /// Counts of the scheme from its start up to this snapshot.
    #[serde(flatten)]
    pub stats: SchemeStats,
}

#[cfg(test)]
mod shares {
    use super::*;

    #[test]
    fn a_share_counts_as_that_part_of_a_region() {
        let region = |nr_accesses| Region { start: 1000, end: 3000, nr_accesses, ..Region::default() };
        let context = ContextMeta { counts_are_shares: true, ..ContextMeta::default() };
        let lengths = [0, 5, 100, u32::MAX].map(|count| context.used_len(&region(count)));
        assert_eq!(lengths, [0, 100, 2000, 2000]);
        assert_eq!(ContextMeta::default().used_len(&region(1)), 2000, "a sample stands for its region");
    }
}
