//! Advice from data of a stock kernel on a running program: how much of its memory is cold, how often such memory is used again, and the
//! least `memory.high` that this supports. The data are [group records](isotherm_trace::group) (generations of the Multi-Gen LRU) or
//! [region records](isotherm_trace::region) (DAMON). The method and its limits: `docs/use/advise.md#records-of-a-running-program`.

mod advice;
mod groups;
mod regions;
mod stall;
mod step;

pub use advice::{AgeRow, ColdAdvice, CurvePoint, Goals, Recommendation, Source};
pub use groups::GroupRecord;
pub use stall::StallRange;
pub use step::Bounds;

use isotherm_trace::TraceError;
use isotherm_trace::region::RegionStore;

/// Why a record gives no advice.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ColdnessError {
    /// The record cannot be read.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// The record does not hold enough for any figure.
    #[error("no advice can be drawn from this record: {0}")]
    Unsupported(String),
}

/// Advice from samples of the generations of a group.
///
/// # Errors
/// The samples support no figure: the error names the missing ones.
pub fn advise_group(record: &GroupRecord, goals: Goals) -> Result<ColdAdvice, ColdnessError> {
    let observed = groups::observe(record)?;
    Ok(advice::of(&observed, goals))
}

/// Advice from the snapshots of a monitor. Reads the record once, with the memory of two snapshots.
///
/// # Errors
/// The record cannot be read, or supports no figure: the error names what is missing.
pub fn advise_regions(store: &mut RegionStore, goals: Goals) -> Result<ColdAdvice, ColdnessError> {
    let observed = regions::observe(store)?;
    Ok(advice::of(&observed, goals))
}
