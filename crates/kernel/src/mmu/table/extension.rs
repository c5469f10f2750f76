//! Parts of a page table other than its words: its kind, premapped memory, and changes that caches of entries must be informed of.

use super::super::config::TableKind;
use super::super::premapped::Premapped;
use super::{CHUNK_PAGES, DensePage, Level, PageTable};
use crate::memory::LatencyClasses;
use isotherm_units::PageRange;
use std::collections::BTreeSet;
use std::sync::Arc;

/// Most pages that are invalidated one by one, as in Linux; with more, the whole space is flushed.
const STALE_MAX: usize = 33;

#[derive(Clone, Debug, Default)]
pub(super) struct Extension {
    pub(super) kind: TableKind,
    pub(super) premapped: Option<Box<Premapped>>,
    /// Kinds of memory that differ in latency, where there are several.
    pub(super) classes: Option<Arc<LatencyClasses>>,
    /// Planes of classes slower than the fastest.
    pub(super) nr_planes: usize,
    /// Pages whose cached translations are void, and have not been dropped yet. Only used if there are caches.
    stale: Vec<u64>,
    /// Whether the kind of entry that maps a 2 MiB block is remembered elsewhere.
    watched: bool,
    /// Watched blocks that changed since from one kind of entry to the other.
    reshaped: BTreeSet<u64>,
}

/// Translations that caches must drop.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Stale {
    Pages(Vec<u64>),
    All,
}

impl PageTable {
    /// An empty table of this kind.
    pub(crate) fn of_kind(kind: TableKind) -> Self {
        Self { extension: Extension { kind, ..Extension::default() }, ..Self::new() }
    }

    /// Maps `range` as premapped: from now on it never faults. Nothing may be mapped there.
    pub fn premap(&mut self, range: PageRange, huge: bool) {
        let kind = self.extension.kind;
        self.extension.premapped.get_or_insert_with(|| Box::new(Premapped::new(kind))).lay(range, huge);
    }

    /// Unmaps premapped memory in `range`.
    pub(crate) fn cut_premapped(&mut self, range: PageRange) {
        if let Some(premapped) = &mut self.extension.premapped {
            premapped.cut(range);
            if self.extension.kind.translated {
                self.extension.stale.resize(STALE_MAX + 1, range.start);
            }
        }
    }

    /// Level of the entry that maps the premapped `page`; `None`: it is not premapped.
    #[inline]
    pub fn premapped_leaf(&self, page: u64) -> Option<Level> {
        self.premapped()?.leaf_level(page)
    }

    /// Whether a page of `range` is premapped.
    pub fn is_premapped_in(&self, range: PageRange) -> bool {
        self.premapped().is_some_and(|premapped| premapped.overlaps(range))
    }

    /// Whether a part of the space is premapped, or was.
    #[inline]
    pub fn has_premapped(&self) -> bool {
        self.extension.premapped.is_some()
    }

    /// Memory that was mapped before the run, page for page without a frame.
    pub(crate) fn premapped(&self) -> Option<&Premapped> {
        self.extension.premapped.as_deref()
    }

    /// After the newest chunk was made: its upper tables are new.
    pub(super) fn preset_upper(&mut self) {
        let Some((chunk, others)) = self.chunks.split_last_mut() else { return };
        chunk.upper.preset(Level::PUD, 0);
        for level in [Level::P4D, Level::PGD] {
            let is_beside = |first_page: u64| (first_page ^ chunk.first_page) >> level.span_shift() == 0;
            if !others.iter().rev().any(|other| is_beside(other.first_page)) {
                chunk.upper.preset(level, 0);
            }
        }
    }

    /// The entry of a page went away: the kernel flushes its translation.
    #[inline]
    pub(super) fn note_unmapped(&mut self, dense: DensePage) {
        if self.extension.kind.translated {
            let page = self.page_of(dense);
            self.push_stale(page);
        }
    }

    /// A block of 2 MiB (first page / 512) is mapped by another kind of entry from now on: by one huge one, or by base ones.
    pub(crate) fn note_reshaped(&mut self, block: u64) {
        if self.extension.kind.translated {
            self.push_stale(block << Level::PMD.span_shift());
        }
        if self.extension.watched {
            self.extension.reshaped.insert(block);
        }
    }

    fn push_stale(&mut self, page: u64) {
        debug_assert!(self.extension.kind.translated, "without caches nothing gets stale");
        if self.extension.stale.len() <= STALE_MAX {
            self.extension.stale.push(page);
        }
    }

    /// Translations that must not be used any more, since the last call.
    #[inline]
    pub(crate) fn take_stale(&mut self) -> Option<Stale> {
        if self.extension.stale.is_empty() {
            return None;
        }
        let pages = std::mem::take(&mut self.extension.stale);
        Some(if pages.len() > STALE_MAX { Stale::All } else { Stale::Pages(pages) })
    }

    /// The caller remembers the kind of entry that maps `page`: [`is_reshaped`](Self::is_reshaped) says later whether it changed.
    pub fn watch_kind(&mut self, page: u64) {
        self.extension.watched = true;
        if !self.extension.reshaped.is_empty() {
            self.extension.reshaped.remove(&(page >> Level::PMD.span_shift()));
        }
    }

    /// Whether the kind of entry that maps `page` changed since it was remembered.
    pub fn is_reshaped(&self, page: u64) -> bool {
        !self.extension.reshaped.is_empty() && self.extension.reshaped.contains(&(page >> Level::PMD.span_shift()))
    }
}

const _: () = assert!(CHUNK_PAGES == Level::PUD.span_pages(), "a chunk is what an entry of 1 GiB points to");
