//! The results of schemes.

use super::outcomes::Why;
use super::places::Place;
use crate::host::{AddressRange, TargetId};
use crate::monitor::PROBES_MAX;
use crate::vocabulary::Action;
use serde::{Deserialize, Serialize};

/// Counts of a scheme's work since it was made. Bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stats {
    pub nr_tried: u64,
    /// Bytes of the regions tried. If a filter on addresses cut a region inside the try, the cut-off part is included, as in the kernel.
    pub sz_tried: u64,
    /// Tries in which at least one byte was changed.
    pub nr_applied: u64,
    /// Bytes on which the action succeeded.
    pub sz_applied: u64,
    /// Bytes that passed the page filters, changed or not.
    pub sz_ops_filter_passed: u64,
    /// Quota windows that ended with the quota used up.
    pub qt_exceeds: u64,
    /// Passes over the last region of a target in which the region was not skipped and quota was left.
    pub nr_snapshots: u64,
}

/// The state and the counts of one scheme.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SchemeReport {
    /// Position of the scheme in its monitor, from 0.
    pub index: usize,
    pub action: Action,
    /// Counts since the scheme was made.
    pub stats: Stats,
    /// Whether its watermarks have it switched on.
    pub is_active: bool,
    /// Nanoseconds for which its watermarks have had it switched off, up to their last check.
    pub inactive_ns: u64,
    /// Free memory at the last check of its watermarks, per mille of all memory; `None` before the first.
    pub free_permil: Option<u64>,
    /// The effective quota of this window in bytes; `None` without any.
    pub effective_quota_bytes: Option<u64>,
    /// Size of the smallest region: a quota below it lets nothing be done.
    pub smallest_region_bytes: u64,
    /// Bytes charged to the quota in the current window; reset at the start of each.
    pub charged_bytes: u64,
    /// CPU time of tries in the current window, nanoseconds; reset at the start of each.
    pub charged_ns: u64,
    /// Regions with a priority score below this waited in the last pass; 0: none did.
    pub min_score: u32,
    /// The last value of each goal's metric, in the order of the goals.
    pub goal_values: Vec<u64>,
    /// What happened to the regions in the last pass; `all_passes` adds up all passes.
    pub last_pass: Why,
    pub all_passes: Why,
    /// Places of these results, over all passes: known only at the end of a run, and not part of results.
    #[serde(skip)]
    pub places: Vec<Place>,
}

/// A region that a scheme was tried on, as it was then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TriedRegion {
    /// Position of the scheme in its monitor, from 0.
    pub scheme: usize,
    pub target: TargetId,
    /// Byte addresses of the region.
    pub range: AddressRange,
    /// Positive samples of the last aggregation interval, from the moving sum.
    pub nr_accesses: u32,
    /// Before the try, which restarts it.
    pub age: u32,
    /// Samples in which each attribute probe held, in the order of the probes.
    pub probe_hits: [u32; PROBES_MAX],
    /// Bytes of the region that passed the page filters, changed or not.
    pub sz_filter_passed: u64,
}
