//! Folios of several pages of a file (docs/spec/large-folios.md#f10): which files have them, and what the frame table knows of them.
//!
//! A folio of order o lies in 2^o frames in a row. Its first frame, the *head*, has the flags of the whole folio and is the member of a
//! list; of its other frames, the *tails*, only owner and group are of use, and they are on no list. A single page is a folio of order 0
//! and its own head.

use super::{CachePage, FileId, Flag, FrameId, Frames, KernelRelease, Mapper, Memory, PageOwner};
use isotherm_units::PageRange;
use isotherm_units::access::FileKind;
use serde::{Deserialize, Serialize};
use std::fmt;

/// The largest order of a folio in the page cache: 2 MiB (`MAX_PAGECACHE_ORDER`, include/linux/pagemap.h, Linux 6.12 and 7.2).
pub const FOLIO_ORDER_MAX: u32 = 9;

/// The file system under all files on the disk, as far as it decides about folios (docs/spec/large-folios.md#f1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FileSystem {
    /// Single pages in 6.12, folios of 1 to 512 pages from 6.18 on.
    Ext4,
    /// Folios of 1 to 512 pages.
    Xfs,
}

impl FileSystem {
    /// The largest order of a folio of its files; blocks of 4 KiB.
    pub const fn order_max(self, release: KernelRelease) -> u32 {
        match (self, release) {
            (Self::Ext4, KernelRelease::V6_12) => 0,
            (Self::Ext4, KernelRelease::V6_18 | KernelRelease::V7_2) | (Self::Xfs, _) => FOLIO_ORDER_MAX,
        }
    }
}

impl fmt::Display for FileSystem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Ext4 => "ext4",
            Self::Xfs => "xfs",
        })
    }
}

impl Frames {
    /// From now on there may be folios of several pages. Untouched memory until there are.
    pub(super) fn keep_folios(&mut self) {
        self.orders = vec![0; self.len()];
    }

    /// Whether there may be folios of several pages.
    #[inline]
    pub fn has_folios(&self) -> bool {
        !self.orders.is_empty()
    }

    /// The order of the folio that the frame is part of.
    #[inline]
    pub fn order(&self, frame: FrameId) -> u32 {
        self.orders.get(frame.index()).copied().map_or(0, u32::from)
    }

    /// Pages of the folio that the frame is part of.
    #[inline]
    pub fn nr_pages(&self, frame: FrameId) -> u64 {
        1 << self.order(frame)
    }

    /// Pages of the folios of these heads.
    #[inline]
    pub fn pages_of(&self, heads: &[FrameId]) -> u64 {
        if self.has_folios() { heads.iter().map(|&head| self.nr_pages(head)).sum() } else { heads.len() as u64 }
    }

    /// The first frame of the folio that the frame is part of.
    #[inline]
    pub fn head(&self, frame: FrameId) -> FrameId {
        match self.order(frame) {
            0 => frame,
            order => self.head_of_large(frame, order),
        }
    }

    fn head_of_large(&self, frame: FrameId, order: u32) -> FrameId {
        let PageOwner::File { page, .. } = self.owner(frame) else { unreachable!("only files have them") };
        FrameId::new(frame.index_u32() - page % (1 << order))
    }

    /// All frames of the folio with this head, ascending.
    pub fn folio(&self, head: FrameId) -> impl Iterator<Item = FrameId> + use<> {
        debug_assert_eq!(self.head(head), head, "the first frame names a folio");
        let first = head.index_u32();
        (first..first + (1 << self.order(head))).map(FrameId::new)
    }

    /// Makes one folio of 2^`order` frames from `head` on, which hold pages of a file that follow each other and are on no list.
    pub(crate) fn join(&mut self, head: FrameId, order: u32) {
        debug_assert!((1..=FOLIO_ORDER_MAX).contains(&order), "of two pages at least, and of 512 at most");
        let stored = u8::try_from(order).expect("9 at most");
        self.orders[head.index()..head.index() + (1 << order)].fill(stored);
        debug_assert_eq!(self.head(head), head, "a folio begins at a multiple of its size in the file");
    }

    /// The frames of a folio are single again.
    pub(crate) fn part(&mut self, head: FrameId) {
        let order = self.order(head);
        self.orders[head.index()..head.index() + (1 << order)].fill(0);
    }
}

/// An entry that shows a page of a folio.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FolioMapper {
    /// The frame that it shows.
    pub(crate) frame: FrameId,
    /// Number of the mapping among those of the file.
    pub(crate) mapping: usize,
    pub(crate) mapper: Mapper,
}

impl Memory {
    /// The largest order of a folio of `file`: 0 means single pages.
    #[inline]
    pub fn folio_order_max(&self, file: FileId) -> u32 {
        match self.config.file_system {
            Some(file_system) if self.files.get(file).kind == FileKind::Regular => {
                file_system.order_max(self.config.release)
            }
            _ => 0,
        }
    }

    /// The first page of the folio of `frame`, which holds page `page` of a file.
    #[inline]
    pub(crate) fn first_page_of(&self, page: u64, frame: FrameId) -> u64 {
        page >> self.frames.order(frame) << self.frames.order(frame)
    }

    /// Whether an entry shows a page of the folio.
    pub fn is_mapped(&self, head: FrameId) -> bool {
        if self.frames.order(head) > 0 {
            return self.frames.folio(head).any(|frame| !self.mappers(frame).is_empty());
        }
        self.sole_mapper(head).is_some() || !self.mappers(head).is_empty()
    }

    /// All entries that show pages of a folio of several pages, mapping by mapping, pages ascending.
    pub(crate) fn folio_mappers(&self, head: FrameId) -> Vec<FolioMapper> {
        let PageOwner::File { file, page } = self.frames.owner(head) else { unreachable!("only files have them") };
        let pages = PageRange::at(u64::from(page), self.frames.nr_pages(head));
        let mut found = Vec::new();
        for (mapping, part) in self.files.get(file).mappings.iter().enumerate() {
            let shown = pages.intersection(PageRange::at(part.first_page, part.pages.len()));
            for file_page in shown.start..shown.end {
                let virtual_page = part.virtual_page(file_page).expect("in the mapping");
                let at = u32::try_from(file_page - pages.start).expect("in the folio");
                let frame = FrameId::new(head.index_u32() + at);
                if let Some(page) = self.space(part.space).table.dense(virtual_page)
                    && self.shows(part.space, page, frame)
                {
                    let mapper = Mapper { space: part.space, page, executable: part.executable };
                    found.push(FolioMapper { frame, mapping, mapper });
                }
            }
        }
        found
    }

    /// The shadow that decides about a folio which is put over the absent pages `range` of a file: the last one (`__filemap_add_folio`,
    /// mm/filemap.c, Linux 6.12 and 7.2).
    pub(crate) fn last_shadow(&self, file: FileId, range: PageRange) -> Option<u64> {
        (range.start..range.end).rev().find_map(|page| match self.files.get(file).page(page) {
            CachePage::Shadow(shadow) => Some(shadow),
            _ => None,
        })
    }

    /// Takes a folio of several pages out of the page cache, leaving `shadow` for each page, uncharges it and gives its frames back as one
    /// block. Nothing maps it, it is on no list and not under I/O.
    pub(super) fn free_folio(&mut self, head: FrameId, shadow: Option<u64>) {
        debug_assert!(!self.frames.flags(head).has_any([Flag::OnList, Flag::Writeback, Flag::Reading]), "in use");
        debug_assert!(!self.is_mapped(head), "nothing maps it any more");
        let PageOwner::File { file, page } = self.frames.owner(head) else { unreachable!("only files have them") };
        let (order, pages, lruvec) = (self.frames.order(head), self.frames.nr_pages(head), self.lruvec_of(head));
        let to = shadow.map_or(CachePage::Absent, CachePage::Shadow);
        for page in u64::from(page)..u64::from(page) + pages {
            self.files.set_page(file, page, to, lruvec);
        }
        for frame in self.frames.folio(head) {
            self.frames.forget_pin(frame);
        }
        let cgroup = self.frames.cgroup(head);
        self.frames.part(head);
        self.cgroups.uncharge(cgroup, pages);
        self.nodes.give_block(&mut self.frames, head, order);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn f1_orders_by_file_system_and_release() {
        let orders = |file_system: FileSystem| KernelRelease::ALL.map(|release| file_system.order_max(release));
        assert_eq!((orders(FileSystem::Ext4), orders(FileSystem::Xfs)), ([0, 9, 9], [9; 3]));
    }
}
