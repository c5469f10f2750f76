//! Swap devices, and what zram makes of them.

use super::parsed;
use crate::{LiveError, Root};
pub use isotherm_texts::swaps::{Swap, ZramUse};
use isotherm_texts::swaps::{parse, parse_zram};

/// The swap devices, as `/proc/swaps` has them. None where swap is off or not built.
///
/// # Errors
/// [`LiveError::Io`], [`LiveError::Strange`].
pub fn read(root: &Root) -> Result<Vec<Swap>, LiveError> {
    if root.has("/proc/swaps") { parsed(root, "/proc/swaps", parse) } else { Ok(Vec::new()) }
}

/// What a zram device (`zram0`) holds.
///
/// # Errors
/// [`LiveError::Io`], [`LiveError::Strange`].
pub fn zram(root: &Root, device: &str) -> Result<ZramUse, LiveError> {
    parsed(root, format!("/sys/block/{device}/mm_stat"), parse_zram)
}
