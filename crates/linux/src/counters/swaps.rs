//! Swap devices, and the use of zram devices.

use super::parsed;
use crate::{LiveError, Root};
pub use isotherm_texts::swaps::{Swap, ZramUse};
use isotherm_texts::swaps::{parse, parse_zram};

/// The swap devices in `/proc/swaps`; empty if swap is off or not built in.
///
/// # Errors
/// [`LiveError::Io`], [`LiveError::Strange`].
pub fn read(root: &Root) -> Result<Vec<Swap>, LiveError> {
    if root.has("/proc/swaps") { parsed(root, "/proc/swaps", parse) } else { Ok(Vec::new()) }
}

/// Contents of a zram device (`zram0`).
///
/// # Errors
/// [`LiveError::Io`], [`LiveError::Strange`].
pub fn zram(root: &Root, device: &str) -> Result<ZramUse, LiveError> {
    parsed(root, format!("/sys/block/{device}/mm_stat"), parse_zram)
}
