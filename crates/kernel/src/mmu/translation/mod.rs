//! Translation caches: which words of the page table an access really reads (`docs/mechanism/machine.md#translation`).
//!
//! A processor sets the accessed bit of the words that a walk reads, and of no others. A TLB hit reads none; a hit in a paging-structure
//! cache lets the walk begin below the cached word. So a cleared bit is only set again after the translation was evicted or flushed: a page
//! that appears cold may be the hottest of all.
//!
//! The model is a type parameter of the play loop: with `Off` it vanishes in compilation.

mod caches;
mod config;
#[cfg(test)]
mod tests;

pub use caches::Caches;
pub use config::TranslationConfig;

use super::{Level, PageTable, SpaceId, Stale};

/// The levels whose words a walk read, one bit each: bit 0 is the page-table entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reads(u8);

impl Reads {
    /// A TLB hit: no word is read.
    pub const NONE: Self = Self(0);
    /// Levels from `leaf` up to, but not including, `end`.
    pub(crate) const fn levels(leaf: Level, end: u8) -> Self {
        debug_assert!(leaf.number() < end, "a walk reads the leaf at least");
        Self(((1 << end) - 1) & !((1 << leaf.number()) - 1))
    }
    /// Whether the word at `level` was read.
    #[inline]
    pub const fn has(self, level: Level) -> bool {
        self.0 >> level.number() & 1 != 0
    }
}

/// The translation caches between an access and the page table.
pub(crate) trait Translation {
    /// Every access walks from the top.
    const OFF: bool;

    /// Translates `page`; returns the words that the walk read. `leaf` gives the level of the entry that maps it, and is
    /// called on a TLB miss only.
    fn walk(&mut self, page: u64, leaf: impl FnOnce() -> Level) -> Reads;
}

/// No caches at all.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Off;

impl Translation for Off {
    const OFF: bool = true;

    #[inline]
    fn walk(&mut self, _page: u64, leaf: impl FnOnce() -> Level) -> Reads {
        Reads::levels(leaf(), Level::PGD.number() + 1)
    }
}

/// Drops what `caches` hold of `space` and the kernel's changes of its table made void since the last call.
#[inline]
pub fn drop_stale(caches: &mut [Caches], space: SpaceId, table: &mut PageTable) {
    match table.take_stale() {
        None => {}
        Some(Stale::All) => caches.iter_mut().for_each(|caches| caches.flush(space)),
        Some(Stale::Pages(pages)) => {
            for caches in caches {
                pages.iter().for_each(|&page| caches.invalidate_page(space, page));
            }
        }
    }
}
