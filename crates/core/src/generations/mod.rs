//! Tools over the generations of the Multi-Gen LRU: they estimate the memory in use, find cold memory, and free it before memory is short.
//!
//! The kernel sorts pages by when a walk over page tables last saw them in use, two to four generations for each memory cgroup and node.
//! Its file `lru_gen` shows their sizes and takes commands: make a generation, evict generations. The tools here need only that: an
//! [`Estimator`] makes a generation each interval and reports how much memory was used within a window, with bounds. A [`Reclaimer`] evicts
//! old pages, within a budget, and stops when that does harm.
//!
//! The `Display` of [`Ageing`] and [`Eviction`] is the kernel's text (docs/spec/mglru.md#s14); the file is read and written by
//! `crates/texts`. Design, precision and traps: `docs/mechanism/mglru.md#generations-in-user-space`.

mod error;
mod estimate;
mod estimator;
mod explain;
#[cfg(test)]
pub(crate) mod fake;
mod history;
pub mod min_ttl;
mod outcomes;
mod reclaimer;
#[cfg(test)]
mod tests;
mod tool;

pub use crate::vocabulary::{
    Ageing, Eviction, GenerationRow, Listing, Lruvec, SWAPPINESS_MAX, Swappiness, cold_pages, pages_of,
    working_set_pages,
};
pub use error::GenerationsError;
pub use estimate::{Estimate, estimate};
pub use estimator::{Estimator, EstimatorConfig, GroupReading, Reading, TARGETS_ALL, covers};
pub(crate) use explain::percent;
pub use explain::{explain_estimator, explain_reclaimer};
pub use history::{ColdBounds, History};
pub use outcomes::{GENERATION_REASONS, GenerationReason, GenerationWhy, Passes, Times};
pub use reclaimer::{Pass, Reclaimer, ReclaimerConfig};
pub use tool::{Sample, Tool, ToolAccount, ToolConfig};
