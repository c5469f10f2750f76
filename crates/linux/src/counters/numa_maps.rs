//! `/proc/PID/numa_maps`: pages of each mapping by node.

use super::parsed;
use crate::{LiveError, Root};
use isotherm_texts::numa_maps::{NumaMapping, parse};

/// Reads those of a process.
///
/// # Errors
/// [`LiveError::Io`], [`LiveError::Strange`].
pub fn read(root: &Root, pid: u32) -> Result<Vec<NumaMapping>, LiveError> {
    parsed(root, format!("/proc/{pid}/numa_maps"), parse)
}
