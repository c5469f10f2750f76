//! Allocation, and the source of blocks when blocks of the wanted type are used up (docs/spec/compaction.md#s2-4). Whole page blocks are
//! claimed, the largest first; failing that, single blocks are stolen, the smallest first.

use super::types::MigrateType;
use super::{BLOCK_ORDER, BLOCK_PAGES, Buddy, MAX_ORDER};
use crate::memory::{Flag, FrameId, Frames, ListEnd};

/// How far an allocation may go.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Fallback {
    /// As far as it takes.
    #[default]
    Any,
    /// Stops before types are mixed within a page block (`ALLOC_NOFRAGMENT`).
    WholeBlocks,
}

/// Start of the next search of a bulk: a search that failed a moment ago is not repeated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Search {
    /// Blocks of the wanted type.
    #[default]
    Own,
    /// Page blocks of other types.
    Claim,
    /// Blocks of other types.
    Steal,
}

/// A block smaller than this is not worth a page block for movable memory.
const CLAIMABLE_ORDER: u32 = BLOCK_ORDER / 2;

impl Buddy {
    /// Takes a block of `order` for pages of a type. Source: `__rmqueue`.
    #[inline]
    pub fn allocate(
        &mut self,
        frames: &mut Frames,
        order: u32,
        migrate_type: MigrateType,
        fallback: Fallback,
        search: &mut Search,
    ) -> Option<FrameId> {
        debug_assert!(order <= MAX_ORDER, "no list holds larger blocks");
        let own = if *search == Search::Own { self.smallest(frames, order, migrate_type) } else { None };
        let start = match own {
            Some(start) => start,
            None => self.take_elsewhere(frames, order, migrate_type, fallback, search)?,
        };
        debug_assert!(
            start.is_multiple_of(1 << order),
            "a split keeps the lower half, which is aligned like the whole"
        );
        if migrate_type != MigrateType::Movable {
            self.remember_fixed(start, order);
        }
        Some(FrameId::new(start))
    }

    #[cold]
    fn take_elsewhere(
        &mut self,
        frames: &mut Frames,
        order: u32,
        migrate_type: MigrateType,
        fallback: Fallback,
        search: &mut Search,
    ) -> Option<u32> {
        if *search <= Search::Claim
            && let Some(start) = self.claim(frames, order, migrate_type, fallback)
        {
            // The list was filled.
            *search = Search::Own;
            return Some(start);
        }
        if fallback == Fallback::WholeBlocks {
            return None;
        }
        let start = self.steal(frames, order, migrate_type)?;
        *search = Search::Steal;
        Some(start)
    }

    /// Claims from the largest order down. Source: `__rmqueue_claim`.
    fn claim(&mut self, frames: &mut Frames, order: u32, wanted: MigrateType, fallback: Fallback) -> Option<u32> {
        let lowest = if fallback == Fallback::WholeBlocks { order.max(BLOCK_ORDER) } else { order };
        for from in (lowest..=MAX_ORDER).rev() {
            if from < CLAIMABLE_ORDER && wanted == MigrateType::Movable {
                return None;
            }
            let Some((start, owner)) = self.head_of_others(from, wanted) else { continue };
            if from >= BLOCK_ORDER {
                self.remove(frames, start, from, owner);
                self.set_type(start, from, wanted);
                self.expand(frames, start, from, order, wanted);
                self.effort.claims += 1;
                return Some(start);
            }
            debug_assert!(
                owner != wanted && from < BLOCK_ORDER,
                "own blocks were tried before, and whole page blocks need no count"
            );
            self.effort.boosts += 1;
            if self.claim_block(frames, start, owner, wanted) {
                self.effort.claims += 1;
                return self.smallest(frames, order, wanted);
            }
        }
        None
    }

    /// Gives the page block around `start` to `wanted` if half of it is free or compatible, with its free blocks. Source:
    /// `try_to_claim_block`.
    fn claim_block(&mut self, frames: &mut Frames, start: u32, owner: MigrateType, wanted: MigrateType) -> bool {
        debug_assert!(owner != wanted, "own blocks were tried before");
        let block = start & !(BLOCK_PAGES - 1);
        if block < self.first || block + BLOCK_PAGES > self.end {
            return false;
        }
        let (mut free, mut movable) = (0, 0);
        let mut at = block;
        while at < block + BLOCK_PAGES {
            match self.free_order(at) {
                Some(order) => {
                    free += 1 << order;
                    at += 1 << order;
                }
                None => {
                    // On a list of reclaim: neither pages at hand nor those that a driver has.
                    movable += u32::from(frames.has(FrameId::new(at), Flag::OnList));
                    at += 1;
                }
            }
        }
        debug_assert!(
            at == block + BLOCK_PAGES && free + movable <= BLOCK_PAGES,
            "small blocks end with their page block, and each page counts once"
        );
        let alike = match (wanted, owner) {
            (MigrateType::Movable, _) => movable,
            // Whether what cannot move is of this type or another one is not known; it is taken for alike.
            (_, MigrateType::Movable) => BLOCK_PAGES - free - movable,
            _ => 0,
        };
        if free + alike < BLOCK_PAGES / 2 {
            return false;
        }
        let mut at = block;
        while at < block + BLOCK_PAGES {
            match self.free_order(at) {
                Some(order) => {
                    self.remove(frames, at, order, owner);
                    self.insert(frames, at, order, wanted, ListEnd::Tail);
                    at += 1 << order;
                }
                None => at += 1,
            }
        }
        self.set_type(block, BLOCK_ORDER, wanted);
        true
    }

    /// Searches from `order` up, and the page block keeps its type. Source: `__rmqueue_steal`.
    fn steal(&mut self, frames: &mut Frames, order: u32, wanted: MigrateType) -> Option<u32> {
        for from in order..=MAX_ORDER {
            let Some((start, owner)) = self.head_of_others(from, wanted) else { continue };
            debug_assert!(owner != wanted, "own blocks were tried before");
            self.remove(frames, start, from, owner);
            self.expand(frames, start, from, order, owner);
            self.effort.steals += 1;
            return Some(start);
        }
        None
    }

    fn head_of_others(&self, order: u32, wanted: MigrateType) -> Option<(u32, MigrateType)> {
        wanted.fallbacks().into_iter().find_map(|other| self.head(order, other).map(|start| (start, other)))
    }
}
