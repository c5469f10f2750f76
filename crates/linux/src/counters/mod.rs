//! Counters of the kernel, a file for each source. Unknown fields are kept or skipped; a file of another format is
//! [`LiveError::Strange`] with the path.

pub mod buddyinfo;
pub mod cpu_time;
pub mod meminfo;
pub mod memory_stat;
pub mod nodes;
pub mod pagetypeinfo;
pub mod pressure;
pub mod swaps;
pub mod vmstat;
pub mod zoneinfo;

pub use isotherm_texts::Counters;

use isotherm_texts::Strange;
use std::fmt::Display;
use std::path::Path;

use crate::{LiveError, Root};

/// Reads and parses a file; a parser's error gets the path.
pub(crate) fn parsed<T, E: Display>(
    root: &Root,
    path: impl AsRef<Path>,
    parse: impl FnOnce(&str) -> Result<T, E>,
) -> Result<T, LiveError> {
    let text = root.read(&path)?;
    parse(&text).map_err(|found| LiveError::strange(root.path(path), found.to_string()))
}

/// Text of [`LiveError::Strange`] for a parser's error that is a sentence.
pub(crate) fn unknown(error: impl Display) -> String {
    format!("an unknown text ({error})")
}

/// A text in a message of [`LiveError::Strange`].
pub(crate) fn quoted(text: &str) -> String {
    Strange::new(text).to_string()
}
