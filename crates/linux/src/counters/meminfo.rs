//! `/proc/meminfo`.

use super::{Counters, parsed};
use crate::{LiveError, Root};
use isotherm_texts::meminfo::parse;

/// Reads the file of the whole system: bytes by name (`MemTotal`), counts if the kernel writes no unit.
///
/// # Errors
/// [`LiveError::Io`], [`LiveError::Strange`].
pub fn read(root: &Root) -> Result<Counters, LiveError> {
    parsed(root, "/proc/meminfo", parse)
}
