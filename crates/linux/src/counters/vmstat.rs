//! `/proc/vmstat`: counts of pages and events of the whole system.

use super::{Counters, parsed};
use crate::{LiveError, Root};

/// Reads them. Units are pages for `nr_…`, events otherwise.
///
/// # Errors
/// [`LiveError::Io`], [`LiveError::Strange`].
pub fn read(root: &Root) -> Result<Counters, LiveError> {
    parsed(root, "/proc/vmstat", Counters::parse)
}
