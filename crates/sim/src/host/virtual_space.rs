//! Probes of a process's page table (docs/spec/monitoring.md#s4; docs/spec/page-table-profiling.md#s4-4).

use super::{MemoryHost, Wish, seen};
use isotherm_core::host::{Level as HostLevel, Seen};
use isotherm_kernel::mmu::{DensePage, Entry, Found, Level, SpaceId};

impl MemoryHost<'_> {
    /// Whether base pages with frames are all that the space has.
    pub(super) fn is_plain(&self, space: SpaceId) -> bool {
        let owner = self.memory.space(space);
        owner.huge_blocks.is_empty() && !owner.table.has_premapped()
    }

    /// Probes the leaf at `page` of a [plain](Self::is_plain) space. The result, and the level where the walk ended, are those of
    /// [`probe_space`](Self::probe_space); the caller adds cost and counts. `None`: nothing was read.
    #[inline]
    pub(super) fn probe_plain_page(&mut self, wish: Wish, space: SpaceId, page: u64) -> Option<(Seen, Level)> {
        let table = &self.memory.space(space).table;
        let dense = table.dense(page)?;
        if table.is_present(dense) {
            return Some((self.look_at_page(wish, space, page, dense), Level::LEAF));
        }
        Some((Seen::NotMapped, if table.has_leaf_table(dense) { Level::LEAF } else { Level::PMD }))
    }

    /// Probes `page`. Returns the result, and the level of the entry where the walk ended.
    pub(super) fn probe_space(&mut self, wish: Wish, space: SpaceId, page: u64, wanted: HostLevel) -> (Seen, Level) {
        let highest = self.memory.mmu.highest_level();
        let exists = |level: &Level| level.number() < self.memory.mmu.levels;
        let Some(wanted) = Level::new(wanted.0).filter(exists) else { return (Seen::Unknown, Level::LEAF) };
        let owner = self.memory.space(space);
        match owner.table.find(page, wanted, &owner.huge_blocks) {
            Found::Nothing(at) => {
                let at = at.min(self.top());
                self.pay(at, false);
                (Seen::NotMapped, at)
            }
            // Bits that the processor does not set, or sets in another copy of the table.
            Found::Table(at) if at > highest => (Seen::Unknown, at),
            Found::Table(at) => {
                self.pay(at, false);
                (self.look_at_entry(wish, space, at, page), at)
            }
            Found::Leaf(Level::LEAF, Some(dense)) => {
                self.pay(Level::LEAF, true);
                (self.look_at_page(wish, space, page, dense), Level::LEAF)
            }
            // A huge page: reclaim goes by the bits of its base entries, which stay. Premapped memory: nothing reclaims it.
            Found::Leaf(at, _) => {
                self.pay(at, true);
                (self.look_at_entry(wish, space, at, page), at)
            }
        }
    }

    /// The level of the entries where a walk begins.
    fn top(&self) -> Level {
        Level::new(self.memory.mmu.levels - 1).expect("4 or 5 levels")
    }

    fn look_at_entry(&mut self, wish: Wish, space: SpaceId, at: Level, page: u64) -> Seen {
        let table = &mut self.memory.space_mut(space).table;
        match wish {
            Wish::Clear => {
                if at <= Level::PMD {
                    table.watch_kind(page);
                }
                seen(table.take_entry_young(at, page))
            }
            Wish::Test if at <= Level::PMD && table.is_reshaped(page) => Seen::Unknown,
            Wish::Test => seen(table.is_entry_young(at, page)),
        }
    }

    #[inline]
    fn look_at_page(&mut self, wish: Wish, space: SpaceId, page: u64, dense: DensePage) -> Seen {
        let entry = self.memory.space(space).table.entry(dense);
        let Entry::Frame(frame) = entry else { return Seen::Idle }; // the zero page says nothing
        // As in Linux, a page that is off its list at this moment is skipped here, and not when it is tested.
        let is_passed_over = wish == Wish::Clear && !self.is_listed(frame);
        let table = &mut self.memory.space_mut(space).table;
        match wish {
            Wish::Clear if is_passed_over => Seen::Unknown,
            Wish::Clear => {
                table.watch_kind(page);
                let was = table.test_and_clear_young(dense);
                if was {
                    self.memory.frames.leave_young(frame);
                }
                self.memory.frames.mark_idle(frame);
                seen(was)
            }
            Wish::Test if table.is_reshaped(page) => Seen::Unknown,
            Wish::Test => seen(table.is_young(dense) || !self.memory.frames.is_idle(frame)),
        }
    }

    /// Takes the accessed bits of the table below the entry at `parent` on the way to `page`.
    pub(super) fn scan_table(&mut self, space: SpaceId, parent: Level, page: u64, out: &mut Vec<u64>) {
        let owner = self.memory.space(space);
        let children = match owner.table.find(page, parent, &owner.huge_blocks) {
            Found::Nothing(at) => {
                self.pay(at.min(self.top()), false);
                [0; 8]
            }
            // One entry for all 512.
            Found::Leaf(at, _) => {
                self.pay(at, true);
                let was = self.memory.space_mut(space).table.take_entry_young(at, page);
                [if was { u64::MAX } else { 0 }; 8]
            }
            Found::Table(_) => {
                let children = self.memory.space_mut(space).table.take_children(parent, page);
                self.pay_scan(children.iter().map(|word| word.count_ones()).sum());
                if parent == Level::PMD {
                    self.leave_marks(space, page, &children);
                }
                children
            }
        };
        self.counts.scans[usize::from(parent.number())] += 1;
        out.extend(children);
    }

    /// Pages whose accessed bits were taken keep their uses for reclaim, and count as idle from now on.
    fn leave_marks(&mut self, space: SpaceId, page: u64, children: &[u64; 8]) {
        let first = page & !(Level::PMD.span_pages() - 1);
        let Some(first) = self.memory.space(space).table.dense(first) else { return };
        for (index, dense) in (0..512).filter_map(|index| Some((index as usize, first.checked_add(index)?))) {
            let table = &self.memory.space(space).table;
            if let Entry::Frame(frame) = table.entry(dense) {
                if children[index / 64] >> (index % 64) & 1 != 0 {
                    self.memory.frames.leave_young(frame);
                }
                self.memory.frames.mark_idle(frame);
            }
        }
    }
}
