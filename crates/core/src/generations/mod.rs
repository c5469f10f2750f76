//! Tools over the generations of the Multi-Gen LRU: how much memory is in use, what is cold, and freeing it before it is missed.
//!
//! The kernel sorts pages by when a walk over page tables last saw them in use, two to four generations for each memory cgroup
//! and node. Its file `lru_gen` shows their sizes and takes commands: make a generation, evict generations. What is built here
//! on it needs no more than that: an [`Estimator`] makes a generation each interval and says how much memory was used within a
//! window, and how far it can be sure; a [`Reclaimer`] evicts what is old, within a budget, and stops when it hurts; a
//! [`MinTtl`] is checked, and what it would do is told beforehand.
//!
//! [`parse_lru_gen`] and the `Display` of [`Ageing`] and [`Eviction`] are the kernel's text (docs/spec/mglru.md#s14). Design, precision
//! and traps: `docs/mechanism/mglru.md#generations-in-user-space`.

mod error;
mod estimate;
mod estimator;
mod explain;
#[cfg(test)]
pub(crate) mod fake;
mod history;
mod min_ttl;
mod reclaimer;
#[cfg(test)]
mod tests;
mod text;
mod tool;
mod why;

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
pub use min_ttl::{Forecast, GroupFacts, MinTtl, MinTtlError, parse_unsigned};
pub use reclaimer::{Pass, Reclaimer, ReclaimerConfig};
pub use text::{TextError, TextProblem, parse_lru_gen, write_lru_gen};
pub use tool::{Sample, Tool, ToolAccount, ToolConfig};
pub use why::{GENERATION_REASONS, GenerationReason, GenerationWhy, Passes, Times};
