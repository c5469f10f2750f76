//! Functions for compaction's scanners: which frames are free, single blocks by their place, lists in their order, and a block that is
//! handed over as soon as it is whole.

use super::types::MigrateType;
use super::{BLOCK_ORDER, BLOCK_PAGES, Buddy, MAX_ORDER};
use crate::memory::{Chain, FrameId, Frames, ListEnd};

/// A block that an allocation waits for (docs/spec/compaction.md#s4-7).
#[derive(Clone, Copy, Debug)]
pub(super) struct Capture {
    order: u32,
    wanted: MigrateType,
    got: Option<u32>,
}

impl Buddy {
    /// Frames of the zone.
    pub fn range(&self) -> std::ops::Range<u32> {
        self.first..self.end
    }

    /// The order of the free block that begins at a frame.
    #[inline]
    pub fn order_at(&self, frame: FrameId) -> Option<u32> {
        self.free_order(frame.index_u32())
    }

    /// The end of the free block in which a frame lies; `None`: it lies in none.
    pub fn free_until(&self, frame: FrameId) -> Option<u32> {
        let at = frame.index_u32();
        if self.fresh.0 <= at && at < self.fresh.1 {
            return Some(self.fresh.1);
        }
        let head = |order: &u32| self.is_head(at >> order << order, *order);
        (0..=MAX_ORDER).find(head).map(|order| (at >> order << order) + (1 << order))
    }

    /// Whether a frame in use was allocated as any type but movable.
    #[inline]
    pub fn is_fixed(&self, frame: FrameId) -> bool {
        self.nr_fixed > 0 && self.fixed.get(frame.index_u32() - self.base)
    }

    /// Whether all of the page block around a frame is free.
    pub fn is_block_free(&self, frame: FrameId) -> bool {
        let block = frame.index_u32() & !(BLOCK_PAGES - 1);
        let is_fresh = self.fresh.0 <= block && block < self.fresh.1;
        is_fresh || (BLOCK_ORDER..=MAX_ORDER).any(|order| self.is_head(block >> order << order, order))
    }

    /// Takes the free block that begins at a frame, whole; one of at least half a page block makes its page blocks Movable, as
    /// it is taken for movable pages. Source: `__isolate_free_page`.
    ///
    /// # Panics
    /// If no free block begins there, or memory was never used there.
    pub fn take_at(&mut self, frames: &mut Frames, frame: FrameId) -> u32 {
        let start = frame.index_u32();
        let order = self.free_order(start).expect("a free block");
        let kind = self.type_of(frame);
        debug_assert!(!self.is_fixed(frame), "a free page belongs to nobody");
        self.remove(frames, start, order, kind);
        if order + 1 >= BLOCK_ORDER && kind != MigrateType::Movable {
            self.retype(frames, start, order, kind, MigrateType::Movable);
        }
        order
    }

    /// Gives the page blocks around a block another type, with the free blocks in them.
    fn retype(&mut self, frames: &mut Frames, start: u32, order: u32, from: MigrateType, to: MigrateType) {
        debug_assert!(from != to && start.is_multiple_of(1 << order), "a block is given away, not a part of one");
        let block = start & !(BLOCK_PAGES - 1);
        let end = (start + (1 << order)).next_multiple_of(BLOCK_PAGES);
        let mut at = block.max(self.first);
        while at < end.min(self.end) {
            match self.free_order(at) {
                Some(part) => {
                    self.remove(frames, at, part, from);
                    self.insert(frames, at, part, to, ListEnd::Tail);
                    at += 1 << part;
                }
                None => at += 1,
            }
        }
        self.set_type(block, order.max(BLOCK_ORDER), to);
    }

    /// Whether a request of this type and order would find a block: on its own list, or one that it may claim. Source:
    /// `__compact_finished`.
    pub fn serves(&self, order: u32, wanted: MigrateType) -> bool {
        (order..=MAX_ORDER).any(|order| {
            let is_filled = |kind: MigrateType| self.filled[kind as usize] >> order & 1 != 0;
            let may_claim = order >= BLOCK_ORDER / 2 || wanted != MigrateType::Movable;
            is_filled(wanted) || may_claim && wanted.fallbacks().into_iter().any(is_filled)
        })
    }

    /// Free blocks of a list, in the order of allocation; memory that was never used is left out.
    pub fn from_head<'a>(
        &'a self,
        frames: &'a Frames,
        order: u32,
        kind: MigrateType,
    ) -> impl Iterator<Item = FrameId> + 'a {
        std::iter::successors(self.chain(order, kind).head(), move |&frame| frames.link(frame).1)
    }

    /// The same, beginning at the other end.
    pub fn from_tail<'a>(
        &'a self,
        frames: &'a Frames,
        order: u32,
        kind: MigrateType,
    ) -> impl Iterator<Item = FrameId> + 'a {
        self.chain(order, kind).from_tail(frames)
    }

    const fn chain(&self, order: u32, kind: MigrateType) -> &Chain {
        &self.lists[order as usize][kind as usize]
    }

    /// Turns a list so that a block becomes its last: a search from the head does not meet it soon again.
    pub fn turn_to_tail(&mut self, frames: &mut Frames, order: u32, kind: MigrateType, last: FrameId) {
        self.lists[order as usize][kind as usize].turn_to_tail(frames, last);
    }

    /// Turns a list so that a block becomes its first: a search from the tail does not meet it soon again.
    pub fn turn_to_head(&mut self, frames: &mut Frames, order: u32, kind: MigrateType, first: FrameId) {
        if let Some(before) = frames.link(first).0 {
            self.lists[order as usize][kind as usize].turn_to_tail(frames, before);
        }
    }

    /// From now on a block of exactly this order, as soon as it is whole, is kept for the caller of
    /// [`captured`](Self::captured).
    pub fn capture(&mut self, order: u32, wanted: MigrateType) {
        debug_assert!(self.capture.is_none() && order <= MAX_ORDER, "one waits at a time, for a block that can be");
        self.capture = Some(Capture { order, wanted, got: None });
    }

    /// Whether a block is kept.
    pub fn has_captured(&self) -> bool {
        self.capture.is_some_and(|capture| capture.got.is_some())
    }

    /// Ends the wait; the block, which is in use from now on, if there is one.
    pub fn captured(&mut self) -> Option<FrameId> {
        let Capture { order, wanted, got } = self.capture.take()?;
        let start = got?;
        if wanted != MigrateType::Movable {
            self.remember_fixed(start, order);
        }
        Some(FrameId::new(start))
    }

    /// Whether a block that is being freed goes to an allocation that waits for it. Source: `compaction_capture`.
    #[inline]
    pub(super) fn is_captured(&mut self, start: u32, order: u32, kind: MigrateType) -> bool {
        let Some(capture) = &mut self.capture else { return false };
        // A Movable block is not given away for less than a huge page.
        let is_kept = order < BLOCK_ORDER && kind == MigrateType::Movable && capture.wanted != MigrateType::Movable;
        if capture.order != order || capture.got.is_some() || is_kept {
            return false;
        }
        debug_assert!(start.is_multiple_of(1 << order), "what is kept is a block");
        capture.got = Some(start);
        true
    }
}
