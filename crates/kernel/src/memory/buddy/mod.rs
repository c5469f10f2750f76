//! The buddy allocator of a zone: free blocks of 2^0 to 2^10 pages by migrate type (docs/spec/compaction.md#s2-1 to #s2-4).
//!
//! Sketch: lists go through the links of the frame table, which free frames do not need otherwise. In addition one bit per block and order,
//! a quarter of a byte a page, marks the beginnings of free blocks. Memory that was never used is not on lists at all: it is a range of
//! largest blocks behind the Movable list of the largest order, as in the kernel after boot. So a zone of a tebibyte costs nothing until it
//! is used.
//!
//! Behaviour follows `mm/page_alloc.c` of Linux 7.2. Left out: HighAtomic and CMA blocks, isolated blocks.

mod bits;
mod check;
mod fallback;
mod scan;
#[cfg(test)]
mod tests;
mod types;

pub use fallback::{Fallback, Search};
pub use types::{Effort, MigrateType};

use super::{Chain, FrameId, Frames, ListEnd};
pub(in crate::memory) use bits::Bits;
use isotherm_core::compaction::FreeBlocks;
use types::NR_TYPES;

/// log2 of the pages of the largest block.
pub const MAX_ORDER: u32 = 10;
/// log2 of the pages of a page block, which has a migrate type: 2 MiB.
pub const BLOCK_ORDER: u32 = 9;

const NR_ORDERS: usize = MAX_ORDER as usize + 1;
const MAX_PAGES: u32 = 1 << MAX_ORDER;
const BLOCK_PAGES: u32 = 1 << BLOCK_ORDER;

/// Free memory of a zone. Frames are given by their numbers in the machine; blocks begin at multiples of their size.
#[derive(Clone, Debug)]
pub struct Buddy {
    /// Frames of the zone: `first..end`.
    first: u32,
    end: u32,
    /// `first` rounded down to a largest block; bits and page blocks are counted from here.
    base: u32,
    /// Free blocks by order and type. The head is allocated next.
    lists: [[Chain; NR_TYPES]; NR_ORDERS],
    /// How many are on each list, `fresh` included.
    lengths: [[u32; NR_TYPES]; NR_ORDERS],
    /// For each type, a bit for each order whose list is not empty.
    filled: [u16; NR_TYPES],
    /// Where blocks of each order on a list begin.
    heads: [Bits; NR_ORDERS],
    free_pages: u64,
    /// Frames never used, whole largest blocks, of type Movable.
    fresh: (u32, u32),
    /// Type of each page block.
    types: Vec<MigrateType>,
    /// Frames in use that were allocated as any type but movable.
    fixed: Bits,
    nr_fixed: u64,
    effort: Effort,
    /// The request that waits for a block.
    capture: Option<scan::Capture>,
}

impl Buddy {
    /// The frames `first..end`, all free, all page blocks of type Movable as after boot.
    pub fn new(frames: &mut Frames, first: u32, end: u32) -> Self {
        debug_assert!(first <= end && end as usize <= frames.len(), "free blocks are linked through their frames");
        let base = first & !(MAX_PAGES - 1);
        let span = end.saturating_sub(base).next_multiple_of(MAX_PAGES);
        let fresh = (first.next_multiple_of(MAX_PAGES), end & !(MAX_PAGES - 1));
        let fresh = if fresh.0 < fresh.1 { fresh } else { (first, first) };
        let mut buddy = Self {
            first,
            end,
            base,
            lists: [[Chain::new(); NR_TYPES]; NR_ORDERS],
            lengths: [[0; NR_TYPES]; NR_ORDERS],
            filled: [0; NR_TYPES],
            heads: std::array::from_fn(|order| Bits::new(span >> order)),
            free_pages: 0,
            fresh: (fresh.0, fresh.0),
            types: vec![MigrateType::Movable; (span / BLOCK_PAGES) as usize],
            fixed: Bits::new(span),
            nr_fixed: 0,
            effort: Effort::default(),
            capture: None,
        };
        if fresh.0 == fresh.1 {
            buddy.add_range(frames, first, end);
        } else {
            buddy.add_range(frames, first, fresh.0);
            buddy.add_range(frames, fresh.1, end);
            buddy.fresh = fresh;
            let blocks = (fresh.1 - fresh.0) / MAX_PAGES;
            buddy.lengths[MAX_ORDER as usize][MigrateType::Movable as usize] += blocks;
            buddy.filled[MigrateType::Movable as usize] |= 1 << MAX_ORDER;
            buddy.free_pages += u64::from(fresh.1 - fresh.0);
        }
        debug_assert_eq!(buddy.free_pages, u64::from(end - first), "all memory is free at first");
        buddy
    }

    /// Puts `start..end` on lists in blocks as large as their places allow, the lowest at the head.
    fn add_range(&mut self, frames: &mut Frames, mut start: u32, end: u32) {
        while start < end {
            let aligned = start.trailing_zeros().min(MAX_ORDER);
            let order = aligned.min((end - start).ilog2());
            self.insert(frames, start, order, MigrateType::Movable, ListEnd::Tail);
            start += 1 << order;
        }
    }

    #[inline]
    pub const fn free_pages(&self) -> u64 {
        self.free_pages
    }

    /// Free blocks by order, all types together: a row of `/proc/buddyinfo`.
    pub fn blocks(&self) -> FreeBlocks {
        self.sum(|lengths| lengths.iter().sum())
    }

    /// Free blocks of one type by order: a row of `/proc/pagetypeinfo`.
    pub fn blocks_of(&self, migrate_type: MigrateType) -> FreeBlocks {
        self.sum(|lengths| lengths[migrate_type as usize])
    }

    fn sum(&self, of: impl Fn(&[u32; NR_TYPES]) -> u32) -> FreeBlocks {
        FreeBlocks::new(&self.lengths.each_ref().map(|lengths| u64::from(of(lengths)))).expect("fewer than 2^32 pages")
    }

    /// Whether a block of `order` or larger is free.
    pub fn has_block(&self, order: u32) -> bool {
        self.filled.iter().fold(0, |all, filled| all | filled) >> order != 0
    }

    /// The type of the page block that a frame lies in.
    #[inline]
    pub fn type_of(&self, frame: FrameId) -> MigrateType {
        self.types[((frame.index_u32() - self.base) >> BLOCK_ORDER) as usize]
    }

    pub fn page_blocks(&self, migrate_type: MigrateType) -> u64 {
        self.types.iter().filter(|&&other| other == migrate_type).count() as u64
    }

    /// Counts of operations so far.
    pub const fn effort(&self) -> &Effort {
        &self.effort
    }

    /// The smallest free block of `order` or larger of this very type, split down to `order`: the lower half is kept, upper
    /// halves go to the heads of their lists. Source: `__rmqueue_smallest`.
    #[inline]
    fn smallest(&mut self, frames: &mut Frames, order: u32, migrate_type: MigrateType) -> Option<u32> {
        debug_assert!(order <= MAX_ORDER, "no list holds larger blocks");
        let filled = self.filled[migrate_type as usize] >> order << order;
        if filled == 0 {
            return None;
        }
        let found = filled.trailing_zeros();
        let start = self.head(found, migrate_type).expect("a bit for each list that is not empty");
        self.remove(frames, start, found, migrate_type);
        self.expand(frames, start, found, order, migrate_type);
        Some(start)
    }

    /// Takes up to `count` single movable pages from blocks of that type, and reports them in runs: the same pages in the same
    /// order, and the same blocks left, as by taking one after the other. Returns how many were taken.
    pub fn take_pages(&mut self, frames: &mut Frames, count: u32, mut taken: impl FnMut(std::ops::Range<u32>)) -> u32 {
        let kind = MigrateType::Movable;
        let mut left = count;
        while left > 0 && self.filled[kind as usize] != 0 {
            let mut order = self.filled[kind as usize].trailing_zeros();
            let mut start = self.head(order, kind).expect("a bit for each list that is not empty");
            self.remove(frames, start, order, kind);
            while 1 << order > left {
                debug_assert!(order > 0, "a single page is never more than what is left");
                order -= 1;
                self.effort.splits += 1;
                let middle = start + (1 << order);
                if left <= 1 << order {
                    self.insert(frames, middle, order, kind, ListEnd::Head);
                } else {
                    taken(start..middle);
                    left -= 1 << order;
                    start = middle;
                }
            }
            taken(start..start + (1 << order));
            left -= 1 << order;
        }
        count - left
    }

    /// Gives back the part of a block that is not needed. Source: `expand`.
    #[inline]
    fn expand(&mut self, frames: &mut Frames, start: u32, from: u32, to: u32, migrate_type: MigrateType) {
        debug_assert!(to <= from && from <= MAX_ORDER, "a block is split downwards");
        for order in (to..from).rev() {
            self.insert(frames, start + (1 << order), order, migrate_type, ListEnd::Head);
        }
        self.effort.splits += u64::from(from - to);
    }

    /// Gives a block back, and joins it with its free neighbours. Source: `__free_one_page`; the largest blocks are fed in as
    /// two page blocks, each with its own type.
    #[inline]
    pub fn free(&mut self, frames: &mut Frames, frame: FrameId, order: u32) {
        let start = frame.index_u32();
        debug_assert!(
            start.is_multiple_of(1 << order) && start >= self.first && start + (1 << order) <= self.end,
            "a block of the zone comes back"
        );
        debug_assert!(order <= MAX_ORDER && !self.is_head(start, order), "a block is given back once");
        if self.nr_fixed > 0 {
            self.forget_fixed(start, order);
        }
        if order == MAX_ORDER {
            self.free_part(frames, start, BLOCK_ORDER);
            self.free_part(frames, start + BLOCK_PAGES, BLOCK_ORDER);
        } else {
            self.free_part(frames, start, order);
        }
    }

    /// Gives single pages back in one go, in blocks as large as their places allow. The free blocks are the same as by one page
    /// after the other, in another order on their lists.
    pub(in crate::memory) fn free_run(&mut self, frames: &mut Frames, pages: std::ops::Range<u32>) {
        debug_assert!(pages.start < pages.end, "a run holds pages");
        let mut start = pages.start;
        while start < pages.end {
            let order = start.trailing_zeros().min((pages.end - start).ilog2()).min(MAX_ORDER);
            self.free(frames, FrameId::new(start), order);
            start += 1 << order;
        }
    }

    #[inline]
    fn free_part(&mut self, frames: &mut Frames, mut start: u32, mut order: u32) {
        let migrate_type = self.type_of(FrameId::new(start));
        while order < MAX_ORDER {
            if self.is_captured(start, order, migrate_type) {
                return;
            }
            let buddy = start ^ (1 << order);
            if !self.is_head(buddy, order) {
                break;
            }
            // Whole page blocks may differ in type; those of the same block cannot.
            let other = self.type_of(FrameId::new(buddy));
            debug_assert!(other == migrate_type || order >= BLOCK_ORDER, "a page block has one type");
            self.remove(frames, buddy, order, other);
            if other != migrate_type {
                self.set_type(buddy, order, migrate_type);
            }
            start = start.min(buddy);
            order += 1;
            self.effort.merges += 1;
        }
        let end = if self.will_merge_soon(start, order) { ListEnd::Tail } else { ListEnd::Head };
        self.insert(frames, start, order, migrate_type, end);
    }

    /// Whether the block's buddy is in use, but the buddy of both together is free: then the block is better left free for a while. Source:
    /// `buddy_merge_likely`.
    #[inline]
    fn will_merge_soon(&self, start: u32, order: u32) -> bool {
        if order >= MAX_ORDER - 1 {
            return false;
        }
        let both = start & !(1 << order);
        self.is_head(both ^ (1 << (order + 1)), order + 1)
    }

    /// Whether a free block of exactly this order begins here.
    #[inline]
    fn is_head(&self, start: u32, order: u32) -> bool {
        start >= self.base && self.heads[order as usize].get((start - self.base) >> order)
    }

    /// The order of the free block that begins here.
    fn free_order(&self, start: u32) -> Option<u32> {
        if self.fresh.0 <= start && start < self.fresh.1 {
            return start.is_multiple_of(MAX_PAGES).then_some(MAX_ORDER);
        }
        (0..=MAX_ORDER.min(start.trailing_zeros())).rev().find(|&order| self.is_head(start, order))
    }

    /// The block that is allocated next from a list.
    #[inline]
    fn head(&self, order: u32, migrate_type: MigrateType) -> Option<u32> {
        let head = self.lists[order as usize][migrate_type as usize].head().map(FrameId::index_u32);
        let has_fresh = order == MAX_ORDER && migrate_type == MigrateType::Movable && self.fresh.0 < self.fresh.1;
        head.or_else(|| has_fresh.then_some(self.fresh.0))
    }

    #[inline]
    fn insert(&mut self, frames: &mut Frames, start: u32, order: u32, migrate_type: MigrateType, end: ListEnd) {
        debug_assert!(start.is_multiple_of(1 << order), "blocks begin at multiples of their size");
        debug_assert!(self.first <= start && start + (1 << order) <= self.end, "blocks lie in their zone");
        self.lists[order as usize][migrate_type as usize].push(frames, FrameId::new(start), end);
        self.heads[order as usize].set((start - self.base) >> order);
        self.lengths[order as usize][migrate_type as usize] += 1;
        self.filled[migrate_type as usize] |= 1 << order;
        self.free_pages += 1 << order;
    }

    #[inline]
    fn remove(&mut self, frames: &mut Frames, start: u32, order: u32, migrate_type: MigrateType) {
        if order == MAX_ORDER && self.fresh.0 <= start && start < self.fresh.1 {
            debug_assert_eq!(start, self.fresh.0, "taken in order");
            self.fresh.0 += MAX_PAGES;
        } else {
            self.lists[order as usize][migrate_type as usize].remove(frames, FrameId::new(start));
            self.heads[order as usize].clear((start - self.base) >> order);
        }
        let length = &mut self.lengths[order as usize][migrate_type as usize];
        debug_assert!(*length > 0, "a block that leaves a list was on it");
        *length -= 1;
        if *length == 0 {
            self.filled[migrate_type as usize] &= !(1 << order);
        }
        self.free_pages -= 1 << order;
    }

    /// Gives all page blocks of a block of at least that size another type.
    fn set_type(&mut self, start: u32, order: u32, migrate_type: MigrateType) {
        debug_assert!(order >= BLOCK_ORDER && start.is_multiple_of(BLOCK_PAGES), "a type is that of whole page blocks");
        let block = ((start - self.base) >> BLOCK_ORDER) as usize;
        self.types[block..block + (1 << (order - BLOCK_ORDER))].fill(migrate_type);
    }

    fn remember_fixed(&mut self, start: u32, order: u32) {
        debug_assert!(start.is_multiple_of(1 << order), "a block was asked for, not a part of one");
        (start..start + (1 << order)).for_each(|frame| self.fixed.set(frame - self.base));
        self.nr_fixed += 1 << order;
    }

    fn forget_fixed(&mut self, start: u32, order: u32) {
        for frame in start..start + (1 << order) {
            if self.fixed.get(frame - self.base) {
                self.fixed.clear(frame - self.base);
                debug_assert!(self.nr_fixed > 0, "each fixed page was counted");
                self.nr_fixed -= 1;
            }
        }
    }
}
