//! `/proc/zoneinfo`: each zone's pages and watermarks, and the counters of each node.

use super::{parsed, unknown};
use crate::{LiveError, Root};
use isotherm_texts::zoneinfo::{ZoneInfo, parse};

/// Reads it.
///
/// # Errors
/// [`LiveError::Io`], [`LiveError::Strange`].
pub fn read(root: &Root) -> Result<ZoneInfo, LiveError> {
    parsed(root, "/proc/zoneinfo", |text| parse(text).map_err(unknown))
}
