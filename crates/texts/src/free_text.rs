//! Either text with counts of free blocks: `/proc/buddyinfo` or `/proc/pagetypeinfo` (docs/spec/compaction.md#s7-1).

use crate::buddyinfo::ZoneBlocks;
use crate::pagetypeinfo::PageTypes;
use crate::{TextError, buddyinfo, pagetypeinfo};

/// A text with counts of free blocks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FreeText {
    /// The text was `/proc/buddyinfo`: free blocks by zone.
    Buddyinfo(Vec<ZoneBlocks>),
    /// The text was `/proc/pagetypeinfo`: free blocks by zone and migrate type.
    PageTypes(PageTypes),
}

impl FreeText {
    /// Reads either text; the first line tells which one it is.
    ///
    /// # Errors
    /// The first line that is wrong.
    pub fn parse(text: &str) -> Result<Self, TextError> {
        match text.lines().find(|line| !line.trim().is_empty()) {
            Some(first) if first.trim_start().starts_with("Page block order") => {
                pagetypeinfo::parse(text).map(Self::PageTypes)
            }
            _ => buddyinfo::parse(text).map(Self::Buddyinfo),
        }
    }
}
