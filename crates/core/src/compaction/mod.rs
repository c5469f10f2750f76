//! Compaction ahead of demand: how far free memory is scattered, and when, where and how far to compact it.
//!
//! Indices come from counts of free blocks alone ([`FreeBlocks`]), so that the kernel's own files (`crates/texts`) and the
//! simulated machine are read by the same code. Designs decide ([`DESIGNS`]): three from the history of Linux's proactive
//! compaction, one of our own. They are state machines without I/O; a [host](crate::host::Compacting) compacts for them, step by
//! step.
//!
//! Behaviour follows Linux 7.2 unless a comment names another release. Sections named in comments are sections of the project's
//! specification `docs/spec/compaction.md`. Design and departures in one place: `docs/mechanism/compaction.md#fragmentation`.

mod caller;
mod controller;
mod daemon;
mod decision;
mod deferral;
mod designs;
mod explicit;
#[cfg(test)]
pub(crate) mod fake;
mod keep;
mod merged;
mod proactiveness;
mod rfc;
mod run;
mod suitability;
mod tally;
#[cfg(test)]
mod tests;
mod yields;

#[cfg(test)]
pub(crate) use crate::vocabulary::blocks_tests::{blocks as blocks_of, stride};
pub use crate::vocabulary::{
    BlockUse, BlocksError, FreeBlocks, HUGE_ORDER, MAX_FREE_PAGES, MAX_ORDERS, Marks, node_score, weighted_score,
};
pub use caller::{Explicit, ExplicitConfig};
pub use controller::{Controller, ControllerConfig};
pub use daemon::CompactionDaemon;
pub use decision::{Decision, Hold, Verdict};
pub use deferral::Deferral;
pub use designs::{Activity, Compactor, DESIGNS, Design, DesignEntry};
pub use explicit::{CompactExtfrag, Request, StartError};
pub use merged::{Merged, MergedConfig};
pub use proactiveness::{Leeway, Proactiveness, ScoreMarks};
pub use rfc::{OrderMarks, Rfc, RfcConfig};
pub use run::{Budget, BudgetLimit, Why, ZoneReport};
pub use suitability::{COSTLY_ORDER, EXTFRAG_THRESHOLD, Gap, Level, Suitability, margin, suitability};
pub use tally::Tally;
pub use yields::{SpoilRate, estimated_yield, predicted_yield};
