//! The kernel's own text about free memory: `/proc/buddyinfo`, `/proc/pagetypeinfo`, `/proc/zoneinfo` (docs/spec/compaction.md#s7-1).
//!
//! Nothing is taken for granted that differs between kernels: how many orders, which zones, which migrate types in which
//! order. What is cut short, mixed up or too large is refused with the line it is on.

mod buddyinfo;
mod line;
mod pagetypeinfo;
#[cfg(test)]
mod tests;
mod zoneinfo;

pub use buddyinfo::{ZoneBlocks, parse_buddyinfo};
pub use pagetypeinfo::{PageTypes, TypeBlocks, TypeCount, ZoneTypes, parse_pagetypeinfo};
pub use zoneinfo::{ZoneInfo, parse_zoneinfo};

use super::BlocksError;

/// Why a text is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TextError {
    /// The text has no zone.
    #[error(
        "no zones in it; /proc/buddyinfo and /proc/pagetypeinfo have at least one, /proc/pagetypeinfo only for root"
    )]
    Empty,
    /// The last line has no line end.
    #[error("line {line} is cut off: the text must end with a whole line")]
    CutOff {
        /// Number of the line, from 1.
        line: usize,
    },
    /// The text ends before it is complete.
    #[error("the text ends before {missing}")]
    Missing {
        /// The part that is missing.
        missing: String,
    },
    /// A line that should not be there.
    #[error("line {line}: expected {expected}, found {found}")]
    Unexpected {
        /// Number of the line, from 1.
        line: usize,
        /// The text that is expected in this line.
        expected: String,
        /// The text that was found, shortened and in quotes.
        found: String,
    },
    /// The counts of free blocks are impossible.
    #[error("line {line}: {source}")]
    Blocks {
        /// Number of the line, from 1.
        line: usize,
        /// What is wrong with the counts.
        source: BlocksError,
    },
    /// The same zone, or the same row of a zone, occurs twice.
    #[error("line {line}: {what} for the second time; give one reading, not several behind each other")]
    Twice {
        /// Number of the line, from 1.
        line: usize,
        /// What occurs for the second time.
        what: String,
    },
}

/// A text with counts of free blocks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FreeText {
    /// The text was `/proc/buddyinfo`: free blocks by zone.
    Buddyinfo(Vec<ZoneBlocks>),
    /// The text was `/proc/pagetypeinfo`: free blocks by zone and migrate type.
    PageTypes(PageTypes),
}

impl FreeText {
    /// Reads either text; the first line says which one it is.
    ///
    /// # Errors
    /// The first line that is wrong.
    pub fn parse(text: &str) -> Result<Self, TextError> {
        match text.lines().find(|line| !line.trim().is_empty()) {
            Some(first) if first.trim_start().starts_with("Page block order") => {
                parse_pagetypeinfo(text).map(Self::PageTypes)
            }
            _ => parse_buddyinfo(text).map(Self::Buddyinfo),
        }
    }
}
