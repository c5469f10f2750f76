//! `/proc/vmstat`: counts of pages and events of the whole system.

use super::{Counters, parsed};
use crate::{LiveError, Root};

/// Reads them. Units are pages for `nr_…`, events otherwise.
///
/// # Errors
/// [`LiveError::Io`], [`LiveError::Strange`].
pub fn read(root: &Root) -> Result<Counters, LiveError> {
    parsed(root, "/proc/vmstat", parse)
}

/// Parses the text of the file.
///
/// # Errors
/// What stands there, if it is not lines of a name and a number.
pub fn parse(text: &str) -> Result<Counters, String> {
    Counters::parse(text)
}
