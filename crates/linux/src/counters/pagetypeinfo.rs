//! `/proc/pagetypeinfo`: free blocks of each zone by migrate type and order, and page blocks by type. For root only.

use super::{parsed, unknown};
use crate::{LiveError, Root};
use isotherm_texts::pagetypeinfo::{PageTypes, parse};

/// Reads it.
///
/// # Errors
/// [`LiveError::Io`], [`LiveError::Strange`].
pub fn read(root: &Root) -> Result<PageTypes, LiveError> {
    parsed(root, "/proc/pagetypeinfo", |text| parse(text).map_err(unknown))
}
