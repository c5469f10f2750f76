//! The invariants of free memory after every operation.

use super::types::MigrateType;
use super::{BLOCK_ORDER, Buddy, MAX_ORDER, MAX_PAGES};
use crate::memory::{FrameId, Frames};

impl Buddy {
    /// Free blocks as (first frame, order, type), by list, in the order in which they would be allocated. Memory that was
    /// never used comes last.
    pub fn free_blocks<'a>(&'a self, frames: &'a Frames) -> impl Iterator<Item = (FrameId, u32, MigrateType)> + 'a {
        let of = move |order: u32, migrate_type: MigrateType| {
            let list = &self.lists[order as usize][migrate_type as usize];
            let mut blocks: Vec<FrameId> = list.from_tail(frames).collect();
            blocks.reverse();
            blocks.into_iter().map(move |start| (start, order, migrate_type))
        };
        let listed = (0..=MAX_ORDER).flat_map(move |order| MigrateType::ALL.into_iter().map(move |kind| (order, kind)));
        let fresh = (self.fresh.0..self.fresh.1).step_by(MAX_PAGES as usize);
        listed
            .flat_map(move |(order, kind)| of(order, kind))
            .chain(fresh.map(|start| (FrameId::new(start), MAX_ORDER, MigrateType::Movable)))
    }

    /// Frames that are free after they were used.
    pub fn used_before<'a>(&'a self, frames: &'a Frames) -> impl Iterator<Item = FrameId> + 'a {
        let is_fresh = |start: FrameId| (self.fresh.0..self.fresh.1).contains(&start.index_u32());
        let blocks = self.free_blocks(frames).filter(move |&(start, ..)| !is_fresh(start));
        blocks.flat_map(|(start, order, _)| (0..1 << order).map(move |at| FrameId::new(start.index_u32() + at)))
    }

    /// Whether a frame lies in a free block.
    pub fn is_free(&self, frame: FrameId) -> bool {
        let at = frame.index_u32();
        let is_fresh = (self.fresh.0..self.fresh.1).contains(&at);
        is_fresh || (0..=MAX_ORDER).any(|order| self.is_head(at >> order << order, order))
    }

    /// Checks the whole allocator: blocks lie in the zone at multiples of their size and do not overlap; lists, counts and bits agree;
    /// blocks smaller than a page block are on the list of their page block's type; no two free buddies are unmerged.
    ///
    /// # Errors
    /// The first thing that is wrong.
    pub fn check(&self, frames: &Frames) -> Result<(), String> {
        let ensure = |holds: bool, what: &dyn Fn() -> String| if holds { Ok(()) } else { Err(what()) };
        let mut blocks: Vec<(u32, u32, MigrateType)> =
            self.free_blocks(frames).map(|(start, order, kind)| (start.index_u32(), order, kind)).collect();
        for (order, lengths) in (0..).zip(&self.lengths) {
            for kind in MigrateType::ALL {
                let listed = blocks.iter().filter(|&&(_, o, k)| (o, k) == (order, kind)).count();
                let counted = lengths[kind as usize] as usize;
                ensure(listed == counted, &|| format!("order {order}, {kind:?}: {counted} counted, {listed} listed"))?;
                let is_filled = self.filled[kind as usize] >> order & 1 != 0;
                ensure(is_filled == (listed > 0), &|| format!("order {order}, {kind:?}: filled is {is_filled}"))?;
            }
        }
        let pages: u64 = blocks.iter().map(|&(_, order, _)| 1_u64 << order).sum();
        ensure(pages == self.free_pages, &|| format!("{} pages counted, {pages} listed", self.free_pages))?;
        let fresh = u64::from((self.fresh.1 - self.fresh.0) / MAX_PAGES);
        let bits: u64 = self.heads.iter().map(super::Bits::count).sum();
        ensure(bits + fresh == blocks.len() as u64, &|| format!("{bits} bits for {} blocks", blocks.len()))?;
        ensure(self.fixed.count() == self.nr_fixed, &|| format!("{} fixed pages counted", self.nr_fixed))?;
        blocks.sort_unstable();
        let mut free_up_to = self.first;
        for &(start, order, kind) in &blocks {
            let what = || format!("block {start:#x} of order {order}, {kind:?}");
            ensure(start >= free_up_to && start + (1 << order) <= self.end, &|| format!("{} overlaps", what()))?;
            free_up_to = start + (1 << order);
            ensure(start.is_multiple_of(1 << order), &|| format!("{} is not aligned", what()))?;
            ensure(self.free_order(start) == Some(order), &|| format!("{}: {:?}", what(), self.free_order(start)))?;
            for part in (start..free_up_to).step_by(1 << order.min(BLOCK_ORDER)) {
                let of_block = self.type_of(FrameId::new(part));
                ensure(of_block == kind, &|| format!("{} lies in a page block of {of_block:?}", what()))?;
            }
            let is_apart = order < MAX_ORDER && self.is_head(start ^ (1 << order), order);
            ensure(!is_apart, &|| format!("{} and its buddy are free, and apart", what()))?;
            let fixed = (start..free_up_to).any(|frame| self.fixed.get(frame - self.base));
            ensure(!fixed, &|| format!("{} is free and fixed", what()))?;
        }
        Ok(())
    }
}
