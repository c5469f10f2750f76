//! Probes of page frames through the reverse map (docs/spec/monitoring.md#s4).

use super::{MemoryHost, Wish, seen};
use crate::memory::{Flag, FrameId, Mapper};
use crate::mmu::{Level, PremappedFrames, SpaceId};
use isotherm_core::host::{Attribute, Seen};

impl MemoryHost<'_> {
    /// One probe of page frame `number`. Returns what was seen, and the level of the entry that maps the page.
    pub(super) fn probe_frame(&mut self, wish: Wish, number: u64) -> (Seen, Level) {
        let Some(frame) = self.frame(number) else { return self.probe_premapped(wish, number) };
        if !self.is_listed(frame) {
            self.pay(Level::LEAF, true);
            return (Seen::NotMapped, Level::LEAF);
        }
        if self.memory.frames.has(frame, Flag::Reading) {
            // Locked: passed over, and no use is seen.
            self.pay(Level::LEAF, true);
            return (if wish == Wish::Clear { Seen::Unknown } else { Seen::Idle }, Level::LEAF);
        }
        let mappers = self.memory.mappers(frame);
        let is_huge = mappers.iter().any(|&mapper| self.is_huge(mapper));
        let at = if is_huge { Level::PMD } else { Level::LEAF };
        self.pay(at, true);
        let further = mappers.len().saturating_sub(1) as u64;
        self.memory.ledger.spend(further * self.memory.costs.rmap_walk_ns);
        let was_idle = self.memory.frames.is_idle(frame);
        let mut young = false;
        for mapper in mappers {
            young |= self.look_through(wish, frame, mapper);
        }
        if wish == Wish::Clear {
            self.memory.frames.mark_idle(frame);
        }
        (seen(young || !was_idle), at)
    }

    /// The accessed bit of one entry that maps `frame`; cleared on a clear, and left to reclaim.
    fn look_through(&mut self, wish: Wish, frame: FrameId, mapper: Mapper) -> bool {
        let is_huge = self.is_huge(mapper);
        let table = &mut self.memory.space_mut(mapper.space).table;
        let page = table.page_of(mapper.page);
        match (wish, is_huge) {
            (Wish::Test, true) => table.is_entry_young(Level::PMD, page),
            (Wish::Test, false) => table.is_young(mapper.page),
            (Wish::Clear, true) => table.take_entry_young(Level::PMD, page),
            (Wish::Clear, false) => {
                let was = table.test_and_clear_young(mapper.page);
                if was {
                    self.memory.frames.leave_young(frame);
                }
                was
            }
        }
    }

    fn is_huge(&self, mapper: Mapper) -> bool {
        let space = self.memory.space(mapper.space);
        let block = || space.table.page_of(mapper.page) >> Level::PMD.span_shift();
        !space.huge_blocks.is_empty() && space.huge_blocks.contains(&block())
    }

    /// Memory without frames: its reverse map is arithmetic.
    fn probe_premapped(&mut self, wish: Wish, number: u64) -> (Seen, Level) {
        let Some((space, page, leaf)) = self.premapped_at(number) else {
            self.pay(Level::LEAF, true);
            return (Seen::NotMapped, Level::LEAF);
        };
        self.pay(leaf, true);
        let table = &mut self.memory.space_mut(space).table;
        let young = match wish {
            Wish::Clear => table.take_entry_young(leaf, page),
            Wish::Test => table.is_entry_young(leaf, page),
        };
        (seen(young), leaf)
    }

    fn premapped_at(&self, number: u64) -> Option<(SpaceId, u64, Level)> {
        let premapped = &self.memory.premapped;
        let after = premapped.partition_point(|premapped| premapped.first_frame <= number);
        let PremappedFrames { space, pages, first_frame } = *premapped[..after].last()?;
        let page = pages.start + (number - first_frame);
        let is_there = page < pages.end && self.memory.space(space).alive;
        let leaf = is_there.then(|| self.memory.space(space).table.premapped()?.leaf_level(page))??;
        Some((space, page, leaf))
    }

    fn frame(&self, number: u64) -> Option<FrameId> {
        let number = u32::try_from(number).ok()?;
        let is_frame = (number as usize) < self.memory.frames.len();
        is_frame.then(|| FrameId::new(number))
    }

    /// Whether the page in page frame `number` has `attribute`.
    pub(super) fn attribute_at(&self, attribute: Attribute, number: u64) -> Option<bool> {
        let (is_anonymous, group) = match self.frame(number) {
            Some(frame) if !self.is_listed(frame) => return None,
            Some(frame) => (!self.memory.frames.has(frame, Flag::FileOwned), self.memory.frames.cgroup(frame)),
            None => (true, self.memory.space(self.premapped_at(number)?.0).cgroup),
        };
        Some(match attribute {
            Attribute::Anon => is_anonymous,
            Attribute::Memcg(id) => id == group.index() as u64,
        })
    }
}
