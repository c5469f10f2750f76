//! Files, their cached pages and their mappings.

use super::FrameId;
use super::shadow_nodes::{CacheNode, ShadowNodes};
use crate::mmu::SpaceId;
use crate::reclaim::LruvecId;
use crate::reclaim::refault::SHADOWS_PER_NODE;
use crate::swap::SlotId;
use isotherm_units::PageRange;
use isotherm_units::access::FileKind;

/// Index of a file. At most 65 535 files are open in one run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileId(pub(crate) u16);

impl FileId {
    /// The file with this [`index`](Self::index), in the form of mappings of an address space.
    ///
    /// # Panics
    /// Above 65 535.
    pub fn from_index(index: usize) -> Self {
        Self(u16::try_from(index).expect("made from a FileId"))
    }
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// The state of one page of a file in the page cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CachePage {
    /// Never cached, or forgotten.
    Absent,
    /// Resident.
    Frame(FrameId),
    /// Page of shared memory that is swapped out (or in the swap cache: then the slot knows the frame).
    Swap(SlotId),
    /// Evicted: the packed shadow ([`crate::reclaim::refault`]).
    Shadow(u64),
}

/// Slots of a node of the page cache.
const NODE_SLOTS: usize = 64;
const _: () = assert!(NODE_SLOTS as u64 == SHADOWS_PER_NODE, "each may hold a shadow");

const FRAME_BIT: u64 = 1 << 63;
const SWAP_BITS: u64 = 1 << 63 | 1 << 62;

/// Part of an address space that shows part of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileMapping {
    /// Address space.
    pub space: SpaceId,
    /// Virtual pages.
    pub pages: PageRange,
    /// File page behind the first page of the mapping.
    pub first_page: u64,
    /// Whether code runs from it.
    pub executable: bool,
}

impl FileMapping {
    /// The virtual page that shows file page `page`.
    pub fn virtual_page(&self, page: u64) -> Option<u64> {
        let virtual_page = self.pages.start + page.checked_sub(self.first_page)?;
        self.pages.contains(virtual_page).then_some(virtual_page)
    }
}

#[derive(Clone, Debug)]
pub struct SimFile {
    /// Path or name.
    pub name: String,
    /// File on a disk, or shared memory.
    pub kind: FileKind,
    /// Mappings of the file, in the order in which they were made.
    pub mappings: Vec<FileMapping>,
    /// Cached pages.
    pub nr_cached: u64,
    /// Evicted pages that left a shadow.
    pub nr_shadows: u64,
    /// One word per page: 0 = absent; top bit = frame; two top bits = slot; else shadow + 1. Untouched memory until used.
    pages: Vec<u64>,
    /// Nodes of the page cache, 64 pages each. Shared memory has none here: its shadows are not pruned.
    nodes: Vec<CacheNode>,
}

impl SimFile {
    /// Length in pages.
    pub fn len(&self) -> u64 {
        self.pages.len() as u64
    }
    /// Whether the file has no pages.
    pub fn is_empty(&self) -> bool {
        self.pages.is_empty()
    }

    /// The state of page `page`; pages beyond the end are absent.
    #[inline]
    pub fn page(&self, page: u64) -> CachePage {
        let word = usize::try_from(page).ok().and_then(|page| self.pages.get(page)).copied().unwrap_or(0);
        match word {
            0 => CachePage::Absent,
            slot if slot & SWAP_BITS == SWAP_BITS => {
                CachePage::Swap(SlotId::new(u32::try_from(slot & !SWAP_BITS).expect("stored from a u32")))
            }
            frame if frame & FRAME_BIT != 0 => {
                CachePage::Frame(FrameId::new(u32::try_from(frame & !FRAME_BIT).expect("stored from a u32")))
            }
            shadow => CachePage::Shadow(shadow - 1),
        }
    }

    /// The cached pages of `range`, at most 64, among those that `bits` names (bit i: page i of the range), each with its frame, ascending.
    #[inline]
    pub(crate) fn frames_among(&self, range: PageRange, bits: u64) -> impl Iterator<Item = (u64, FrameId)> + '_ {
        debug_assert!(range.len() <= 64, "a bit for each page");
        let words = self.words(range);
        let mut left = bits & u64::MAX.checked_shr(64 - u32::try_from(words.len()).expect("few")).unwrap_or(0);
        std::iter::from_fn(move || {
            while left != 0 {
                let at = left.trailing_zeros();
                left &= left - 1;
                let word = words[at as usize];
                if word & SWAP_BITS == FRAME_BIT {
                    let frame = FrameId::new(u32::try_from(word & !FRAME_BIT).expect("stored from a u32"));
                    return Some((range.start + u64::from(at), frame));
                }
            }
            None
        })
    }

    /// The pages of `range` that lie in the file, as they are stored.
    #[inline]
    fn words(&self, range: PageRange) -> &[u64] {
        let at = |page: u64| usize::try_from(page.min(self.len())).expect("in the file");
        &self.pages[at(range.start)..at(range.end)]
    }

    /// The shadows of the first pages of `range` up to the first one that is cached, `None` for a page without one.
    #[inline]
    pub(crate) fn shadows_before_cached(&self, range: PageRange) -> impl Iterator<Item = Option<u64>> + '_ {
        self.words(range).iter().take_while(|word| **word & FRAME_BIT == 0).map(|word| word.checked_sub(1))
    }

    /// Replaces the state of page `page`, which lies in the file.
    fn set_page(&mut self, page: u64, to: CachePage) {
        debug_assert!(page < self.len(), "the page lies in the file");
        let before = self.page(page);
        let mut none = CacheNode::default();
        let at = usize::try_from(page / SHADOWS_PER_NODE).expect("in the file");
        let node = self.nodes.get_mut(at).unwrap_or(&mut none);
        match before {
            CachePage::Frame(_) => {
                debug_assert!(self.nr_cached > 0, "a cached page was counted");
                self.nr_cached -= 1;
                node.nr_cached = node.nr_cached.saturating_sub(1);
            }
            CachePage::Shadow(_) => {
                debug_assert!(self.nr_shadows > 0, "a shadow was counted");
                self.nr_shadows -= 1;
                node.nr_shadows = node.nr_shadows.saturating_sub(1);
            }
            CachePage::Absent | CachePage::Swap(_) => {}
        }
        let word = match to {
            CachePage::Absent => 0,
            CachePage::Frame(frame) => {
                self.nr_cached += 1;
                node.nr_cached += 1;
                u64::from(frame.index_u32()) | FRAME_BIT
            }
            CachePage::Swap(slot) => u64::from(slot.index_u32()) | SWAP_BITS,
            CachePage::Shadow(shadow) => {
                self.nr_shadows += 1;
                node.nr_shadows += 1;
                debug_assert!(shadow < FRAME_BIT - 1, "shadows leave the top bit free");
                shadow + 1
            }
        };
        debug_assert!(
            u64::from(node.nr_cached) + u64::from(node.nr_shadows) <= SHADOWS_PER_NODE,
            "a node has a slot for each page"
        );
        self.pages[usize::try_from(page).expect("in the file")] = word;
    }

    /// Makes the file at least `pages` long.
    pub fn ensure_len(&mut self, pages: u64) {
        self.grow(pages);
    }

    /// All pages with an entry, ascending.
    pub fn known_pages(&self) -> impl Iterator<Item = (u64, CachePage)> + '_ {
        (0..self.len()).filter_map(|page| match self.page(page) {
            CachePage::Absent => None,
            known => Some((page, known)),
        })
    }

    /// `space` does not show the virtual pages `range` any more: cuts its mappings.
    pub fn unmap(&mut self, space: SpaceId, range: PageRange) {
        let mut kept = Vec::with_capacity(self.mappings.len() + 1);
        for mapping in self.mappings.drain(..) {
            if mapping.space != space || !mapping.pages.overlaps(range) {
                kept.push(mapping);
                continue;
            }
            let before = PageRange::new(mapping.pages.start, range.start);
            let after = PageRange::new(range.end, mapping.pages.end);
            kept.extend([before, after].into_iter().filter(|part| !part.is_empty()).map(|pages| {
                let first_page = mapping.first_page + (pages.start - mapping.pages.start);
                FileMapping { pages, first_page, ..mapping }
            }));
        }
        self.mappings = kept;
    }

    fn grow(&mut self, pages: u64) {
        let pages = usize::try_from(pages).expect("page counts fit the address space");
        if pages > self.pages.len() {
            self.pages.resize(pages, 0);
            if self.kind == FileKind::Regular {
                let slots = usize::try_from(SHADOWS_PER_NODE).expect("64");
                self.nodes.resize_with(pages.div_ceil(slots), CacheNode::default);
            }
        }
        debug_assert!(
            self.kind != FileKind::Regular || self.nodes.len() as u64 * SHADOWS_PER_NODE >= self.len(),
            "each page of a file on a disk has its node"
        );
    }
}

/// All files of the machine.
#[derive(Clone, Debug, Default)]
pub struct Files {
    files: Vec<SimFile>,
    shadow_nodes: ShadowNodes,
}

impl Files {
    /// The file called `name`, made if there is none; grows to `pages`. `None` when 65 535 files exist.
    pub fn open(&mut self, name: &str, kind: FileKind, pages: u64) -> Option<FileId> {
        let index = match self.files.iter().position(|file| file.name == name && file.kind == kind) {
            Some(index) => index,
            None => {
                usize::try_from(pages).ok()?;
                self.files.push(SimFile {
                    name: name.to_owned(),
                    kind,
                    mappings: Vec::new(),
                    nr_cached: 0,
                    nr_shadows: 0,
                    pages: Vec::new(),
                    nodes: Vec::new(),
                });
                self.files.len() - 1
            }
        };
        self.files[index].grow(pages);
        u16::try_from(index).ok().map(FileId)
    }

    #[inline]
    pub fn get(&self, file: FileId) -> &SimFile {
        &self.files[file.index()]
    }
    #[inline]
    pub fn get_mut(&mut self, file: FileId) -> &mut SimFile {
        &mut self.files[file.index()]
    }
    /// Replaces the state of page `page`, which lies in the file. `lruvec`: lruvec of the page that is added or removed.
    pub fn set_page(&mut self, file: FileId, page: u64, to: CachePage, lruvec: LruvecId) {
        let own = &mut self.files[file.index()];
        own.set_page(page, to);
        let at = usize::try_from(page / SHADOWS_PER_NODE).expect("in the file");
        if let Some(node) = own.nodes.get_mut(at) {
            self.shadow_nodes.update(node, (file, at), lruvec);
        }
    }

    /// Puts `frames` into the cache as the pages from `first` on, none of which is cached: the same as
    /// [`set_page`](Self::set_page) page by page.
    pub(crate) fn fill(&mut self, file: FileId, first: u64, frames: &[FrameId], lruvec: LruvecId) {
        let SimFile { pages, nodes, nr_cached, nr_shadows, .. } = &mut self.files[file.index()];
        let (mut at, mut left) = (usize::try_from(first).expect("in the file"), frames);
        while !left.is_empty() {
            let (node, slots) = (at / NODE_SLOTS, NODE_SLOTS - at % NODE_SLOTS);
            let (of_node, rest) = left.split_at(left.len().min(slots));
            let mut shadows = 0;
            for (word, frame) in pages[at..].iter_mut().zip(of_node) {
                debug_assert!(*word & FRAME_BIT == 0, "only absent pages are added");
                shadows += u8::from(*word != 0);
                *word = u64::from(frame.index_u32()) | FRAME_BIT;
            }
            *nr_cached += of_node.len() as u64;
            *nr_shadows -= u64::from(shadows);
            if let Some(counts) = nodes.get_mut(node) {
                counts.nr_cached += u8::try_from(of_node.len()).expect("slots of a node");
                counts.nr_shadows -= shadows;
                self.shadow_nodes.update(counts, (file, node), lruvec);
            }
            (at, left) = (at + of_node.len(), rest);
        }
    }

    /// Prunes nodes of shadows that `lruvec` has too many of, as reclaim does after each scan of its lists. `pages`: on them, as
    /// far as the kernel counts them; `priority`: of the reclaim, 0..=12. Returns how many went.
    pub(crate) fn prune_shadows(&mut self, lruvec: LruvecId, pages: u64, priority: u32) -> u64 {
        debug_assert!(priority <= 12, "reclaim begins with priority 12 and goes down");
        let nodes = self.shadow_nodes.prune(lruvec, pages, priority);
        for &(file, node) in &nodes {
            let first = node as u64 * SHADOWS_PER_NODE;
            for page in first..(first + SHADOWS_PER_NODE).min(self.get(file).len()) {
                if matches!(self.get(file).page(page), CachePage::Shadow(_)) {
                    self.set_page(file, page, CachePage::Absent, lruvec);
                }
            }
        }
        nodes.len() as u64
    }

    /// All files with their numbers.
    pub fn iter(&self) -> impl Iterator<Item = (FileId, &SimFile)> {
        self.files
            .iter()
            .enumerate()
            .map(|(index, file)| (FileId(u16::try_from(index).expect("checked in open")), file))
    }
}
