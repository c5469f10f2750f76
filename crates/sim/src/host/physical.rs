//! Probes of page frames through the reverse map (docs/spec/monitoring.md#s4).

use super::{MemoryHost, Wish, seen};
use isotherm_core::host::{Attribute, Level as HostLevel, Seen};
use isotherm_kernel::memory::{Flag, FrameId, Mapper, PageOwner};
use isotherm_kernel::mmu::{Entry, Level, PremappedFrames, SpaceId};

/// Findings of one probe of a page frame.
pub(super) struct Found {
    pub(super) seen: Seen,
    /// The level of the entry that maps the page.
    pub(super) leaf: Level,
    /// The level of the lowest entry that was read: above `leaf` where upper entries ruled all mappings out.
    pub(super) ended: Level,
}

impl Found {
    fn at(seen: Seen, level: Level) -> Self {
        Self { seen, leaf: level, ended: level }
    }
}

impl MemoryHost<'_> {
    /// Probes page frame `number`, by its leaves only.
    pub(super) fn probe_leaf(&mut self, wish: Wish, number: u64) -> Seen {
        self.probe_frame(wish, number, HostLevel::LEAF).seen
    }

    /// Probes page frame `number` if that takes no search: the page of one process, mapped by a base entry or not at all, or of no process.
    /// The result is that of [`probe_frame`](Self::probe_frame) with the leaf as the highest level; the caller pays for reading the leaf.
    /// `None`: nothing was read.
    #[inline]
    pub(super) fn probe_plain(&mut self, wish: Wish, number: u64) -> Option<Seen> {
        let frame = self.frame(number)?;
        let flags = self.memory.frames.flags(frame);
        if !flags.has(Flag::OnList) {
            return Some(Seen::NotMapped);
        }
        if flags.has_any([Flag::Reading, Flag::FileOwned, Flag::Shared]) {
            return None;
        }
        let PageOwner::Anonymous { space, page } = self.memory.frames.owner(frame) else { return None };
        let space = self.memory.space_mut(space);
        if !space.alive || !space.huge_blocks.is_empty() {
            return None;
        }
        let table = &mut space.table;
        // Most are not: only then is it asked whose bit that was.
        let young = table.is_young(page) && table.is_present(page) && table.entry(page) == Entry::Frame(frame);
        if young && wish == Wish::Clear {
            table.test_and_clear_young(page);
        }
        let was_idle = self.memory.frames.is_idle(frame);
        if wish == Wish::Clear {
            if young {
                self.memory.frames.leave_young(frame);
            }
            if !was_idle {
                self.memory.frames.mark_idle(frame);
            }
        }
        Some(seen(young || !was_idle))
    }

    /// Probes page frame `number`. Entries above the leaf, up to `highest`, rule mappings out (docs/spec/page-table-profiling.md#s7-3).
    pub(super) fn probe_frame(&mut self, wish: Wish, number: u64, highest: HostLevel) -> Found {
        let highest = Level::new(highest.0).map_or(Level::LEAF, |level| level.min(self.memory.mmu.highest_level()));
        let Some(frame) = self.frame(number) else { return self.probe_premapped(wish, number, highest) };
        if !self.is_listed(frame) {
            self.pay(Level::LEAF, true);
            return Found::at(Seen::NotMapped, Level::LEAF);
        }
        if self.memory.frames.has(frame, Flag::Reading) {
            // Locked: skipped, and no use is seen.
            self.pay(Level::LEAF, true);
            return Found::at(if wish == Wish::Clear { Seen::Unknown } else { Seen::Idle }, Level::LEAF);
        }
        let mappers = self.memory.mappers(frame);
        let is_huge = mappers.iter().any(|&mapper| self.is_huge(mapper));
        let leaf = if is_huge { Level::PMD } else { Level::LEAF };
        let further = mappers.len().saturating_sub(1) as u64;
        self.memory.ledger.spend(further * self.memory.costs.rmap_walk_ns());
        let was_idle = self.memory.frames.is_idle(frame);
        let mut young = false;
        let mut ended = None::<Level>;
        for mapper in mappers {
            let at = if self.is_huge(mapper) { Level::PMD } else { Level::LEAF };
            let page = self.memory.space_mut(mapper.space).table.page_of(mapper.page);
            let lowest = self.pass_upper(wish, mapper.space, page, at, highest);
            ended = Some(ended.map_or(lowest, |ended| ended.min(lowest)));
            young |= lowest == at && self.look_through(wish, frame, mapper);
        }
        let ended = ended.unwrap_or(leaf);
        self.pay(ended, ended == leaf);
        if wish == Wish::Clear {
            self.memory.frames.mark_idle(frame);
        }
        Found { seen: seen(young || !was_idle), leaf, ended }
    }

    /// The entries above the leaf at `leaf` that maps `page`, from `highest` down: cleared, or read as far as their bits are set. Returns
    /// the level of the first clear entry, or the leaf's level. Clears are paid for here; the caller pays for the last read.
    fn pass_upper(&mut self, wish: Wish, space: SpaceId, page: u64, leaf: Level, highest: Level) -> Level {
        for number in (leaf.number() + 1..=highest.number()).rev() {
            let Some(level) = Level::new(number) else { continue };
            let table = &mut self.memory.space_mut(space).table;
            match wish {
                Wish::Clear => {
                    // The walk to the leaf has fetched the entry: what is left is the exchange in a line that is at hand.
                    if table.take_entry_young(level, page) {
                        self.memory.ledger.spend(self.memory.costs.probe_top_ns());
                    }
                }
                Wish::Test if !table.is_entry_young(level, page) => return level,
                Wish::Test => {}
            }
        }
        leaf
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
    fn probe_premapped(&mut self, wish: Wish, number: u64, highest: Level) -> Found {
        let Some((space, page, leaf)) = self.premapped_at(number) else {
            self.pay(Level::LEAF, true);
            return Found::at(Seen::NotMapped, Level::LEAF);
        };
        let ended = self.pass_upper(wish, space, page, leaf, highest);
        self.pay(ended, ended == leaf);
        let table = &mut self.memory.space_mut(space).table;
        let young = match wish {
            Wish::Clear => table.take_entry_young(leaf, page),
            Wish::Test => ended == leaf && table.is_entry_young(leaf, page),
        };
        Found { seen: seen(young), leaf, ended }
    }

    fn premapped_at(&self, number: u64) -> Option<(SpaceId, u64, Level)> {
        let premapped = &self.memory.premapped;
        let after = premapped.partition_point(|premapped| premapped.first_frame <= number);
        let PremappedFrames { space, pages, first_frame } = *premapped[..after].last()?;
        let page = pages.start + (number - first_frame);
        let is_there = page < pages.end && self.memory.space(space).alive;
        let leaf = is_there.then(|| self.memory.space(space).table.premapped_leaf(page))??;
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
