//! Defragmentation: how far free memory is scattered, and when, where and how far to compact it.
//!
//! Indices come from counts of free blocks alone ([`FreeBlocks`]), so that the kernel's own files ([`text`]) and the simulated
//! machine are read by the same code. Four designs decide ([`DESIGNS`]): three from the history of Linux's proactive
//! compaction, one of our own. They are state machines without I/O; a [`Host`](crate::host::Host) compacts for them, step by
//! step.
//!
//! Behaviour follows Linux 7.2 where nothing else is said. Sections named in comments are those of the project's specification
//! `compaction.md`. Design and departures in one place: `docs/fragmentation.md`.

mod blocks;
mod deferral;
mod error;
mod proactiveness;
mod suitability;
pub mod text;
mod yields;

pub use blocks::{BlocksError, FreeBlocks, HUGE_ORDER, MAX_FREE_PAGES, MAX_ORDERS, node_score, weighted_score};
pub use deferral::Deferral;
pub use error::DefragError;
pub use proactiveness::{Leeway, Proactiveness, ScoreMarks};
pub use suitability::{COSTLY_ORDER, EXTFRAG_THRESHOLD, Gap, Level, Marks, Suitability, margin, suitability};
pub use yields::{BlockUse, SpoilRate, estimated_yield, predicted_yield};
