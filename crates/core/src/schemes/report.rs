//! What schemes give out.

use super::why::Why;
use crate::host::{AddressRange, TargetId};
use crate::monitor::PROBES_MAX;
use crate::vocabulary::Action;
use serde::{Deserialize, Serialize};

/// What a scheme has done since it was made. Bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stats {
    pub nr_tried: u64,
    /// Bytes of the regions tried. Where a filter on addresses cut a region inside the try, with what was cut off: as in the
    /// kernel.
    pub sz_tried: u64,
    /// Tries that changed something.
    pub nr_applied: u64,
    /// Bytes changed.
    pub sz_applied: u64,
    /// Bytes that passed page filters.
    pub sz_ops_filter_passed: u64,
    /// Windows that ended with a full quota.
    pub qt_exceeds: u64,
    /// Looks at the last region of a target, not skipped and with quota left.
    pub nr_snapshots: u64,
}

/// How a scheme stands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SchemeReport {
    /// Its place in the list.
    pub index: usize,
    pub action: Action,
    /// What it has done.
    pub stats: Stats,
    /// Its watermarks have it at work.
    pub is_active: bool,
    /// For how long its watermarks have had it switched off, up to their last look.
    pub inactive_ns: u64,
    /// Free per mille of memory at the last look of its watermarks.
    pub free_permil: Option<u64>,
    /// The effective quota of this window in bytes; `None` without any.
    pub effective_quota_bytes: Option<u64>,
    /// Less than this is as good as nothing: the smallest region.
    pub smallest_region_bytes: u64,
    /// What was charged in this window.
    pub charged_bytes: u64,
    /// CPU time that tries took in this window.
    pub charged_ns: u64,
    /// Regions of a lower priority waited in the last pass.
    pub min_score: u32,
    /// Last values of the goals' metrics.
    pub goal_values: Vec<u64>,
    /// What became of the regions in the last pass.
    pub last_pass: Why,
    pub all_passes: Why,
}

/// A region that a scheme was tried on, as it was then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TriedRegion {
    /// The scheme's place in the list.
    pub scheme: usize,
    pub target: TargetId,
    /// Byte addresses.
    pub range: AddressRange,
    /// Positive samples of the last aggregation interval, from the moving sum.
    pub nr_accesses: u32,
    /// Before the try, which begins it anew.
    pub age: u32,
    /// Samples that passed each attribute probe.
    pub probe_hits: [u32; PROBES_MAX],
    /// Bytes that passed page filters.
    pub sz_filter_passed: u64,
}
