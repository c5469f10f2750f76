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
    /// Nothing in it.
    #[error(
        "no zones in it; /proc/buddyinfo and /proc/pagetypeinfo have at least one, /proc/pagetypeinfo only for root"
    )]
    Empty,
    /// It ends within a line.
    #[error("line {line} is cut off: the text must end with a whole line")]
    CutOff {
        /// From 1.
        line: usize,
    },
    /// It ends before it is complete.
    #[error("the text ends before {missing}")]
    Missing {
        /// What is not there.
        missing: String,
    },
    /// A line that should not be there.
    #[error("line {line}: expected {expected}, found {found}")]
    Unexpected {
        /// From 1.
        line: usize,
        /// What should be there.
        expected: String,
        /// What is, shortened, in quotes.
        found: String,
    },
    /// Counts that make no memory.
    #[error("line {line}: {source}")]
    Blocks {
        /// From 1.
        line: usize,
        /// What is wrong with them.
        source: BlocksError,
    },
    /// Two rows for one thing.
    #[error("line {line}: {what} for the second time; give one reading, not several behind each other")]
    Twice {
        /// From 1.
        line: usize,
        /// What came again.
        what: String,
    },
}

/// A text that tells of free blocks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FreeText {
    /// `/proc/buddyinfo`.
    Buddyinfo(Vec<ZoneBlocks>),
    /// `/proc/pagetypeinfo`.
    PageTypes(PageTypes),
}

impl FreeText {
    /// Reads either; which one it is, its first line tells.
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
