//! Time of processors, from `/proc/stat`.

use super::parsed;
use crate::{LiveError, Root};
pub use isotherm_texts::cpu_time::CpuTime;

/// Time of all processors together since boot.
///
/// # Errors
/// [`LiveError::Io`], [`LiveError::Strange`].
pub fn read(root: &Root) -> Result<CpuTime, LiveError> {
    parsed(root, "/proc/stat", CpuTime::parse)
}
