//! `/proc/buddyinfo`: free blocks of each zone by order.

use super::{parsed, unknown};
use crate::{LiveError, Root};
use isotherm_texts::buddyinfo::{ZoneBlocks, parse};

/// Reads the zones that have memory, in the order of the file.
///
/// # Errors
/// [`LiveError::Io`], [`LiveError::Strange`].
pub fn read(root: &Root) -> Result<Vec<ZoneBlocks>, LiveError> {
    parsed(root, "/proc/buddyinfo", |text| parse(text).map_err(unknown))
}
