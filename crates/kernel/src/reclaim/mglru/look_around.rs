//! Was a page used? The check through the reverse map, and its findings about neighbouring pages (docs/spec/mglru.md#s6-3, #s9).
//!
//! Where one page of a table was used, others near it often were too. Reading them while the table is in cache costs less than
//! finding each through its own reverse map later, and a table with many young entries is remembered for the next walk.

use super::Mglru;
use super::baseline::Baseline;
use super::bloom::table_id;
use super::generations::list_of;
use super::page::{MIN_LRU_BATCH, ProbeResult};
use super::walk::is_worthwhile;
use crate::cgroup::CgroupId;
use crate::counters::Counter;
use crate::memory::{Flag, FolioMapper, FrameId, Mapper, Memory};
use crate::mmu::Entries;
use crate::reclaim::LruvecId;
use isotherm_units::PageRange;

/// The decision about a page that might be evicted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Move it to a young generation.
    Activate,
    /// Noted; it goes the next time unless it is used again.
    Keep,
    /// Goes.
    Reclaim,
}

/// Pages of `mapped`, the part of a mapping under one table, that are read besides `page`: 64 around it.
pub(crate) const fn window(mapped: PageRange, page: u64) -> PageRange {
    debug_assert!(mapped.start <= page && page < mapped.end, "the page is one of the mapping");
    let half = MIN_LRU_BATCH / 2;
    if mapped.end - mapped.start <= MIN_LRU_BATCH {
        mapped
    } else if page - mapped.start < half {
        PageRange::at(mapped.start, MIN_LRU_BATCH)
    } else if mapped.end - page < half {
        PageRange::at(mapped.end - MIN_LRU_BATCH, MIN_LRU_BATCH)
    } else {
        PageRange::at(page - half, MIN_LRU_BATCH)
    }
}

impl Mglru {
    /// The check of a page that is about to be evicted by a reclaim from `root`.
    pub(super) fn check_references(&mut self, memory: &mut Memory, frame: FrameId, root: CgroupId) -> Verdict {
        let mut is_used = false;
        if let Some((space, page)) = memory.sole_mapper(frame) {
            is_used = self.look_through(memory, frame, Mapper { space, page, executable: false }, root);
        } else if memory.frames.order(frame) > 0 {
            is_used = self.look_through_folio(memory, frame, root).0 > 0;
        } else {
            for mapper in memory.mappers(frame) {
                is_used |= self.look_through(memory, frame, mapper, root);
            }
        }
        if !is_used {
            return Verdict::Reclaim;
        }
        let (state, result) = self.generations.state(frame).seen_by_rmap();
        self.generations.set_state(&memory.frames, frame, state);
        if result == ProbeResult::First { Verdict::Keep } else { Verdict::Activate }
    }

    /// Whether the page was used through one of its mappings; the accessed bit is cleared.
    pub(super) fn look_through(&mut self, memory: &mut Memory, frame: FrameId, mapper: Mapper, root: CgroupId) -> bool {
        debug_assert!(memory.space(mapper.space).alive, "a dead space maps nothing");
        memory.reclaim.work.rmap_walks += 1;
        memory.ledger.spend(memory.costs.rmap_walk_ns);
        let space = memory.space(mapper.space);
        if !memory.cgroups.is_within(space.cgroup, root) {
            return false;
        }
        // A use that a monitor found and left counts like an accessed bit.
        let was_left = memory.frames.take_young(frame);
        let space = memory.space(mapper.space);
        if !space.table.is_young(mapper.page) {
            return was_left;
        }
        let page = space.table.page_of(mapper.page);
        let Some(vma) = space.vmas.find(page).filter(|vma| vma.has_recency()) else { return was_left };
        let block = page >> 9;
        let mapped = vma.pages().intersection(PageRange::at(block << 9, 512));
        let is_huge = !space.huge_blocks.is_empty() && space.huge_blocks.contains(&block);
        memory.space_mut(mapper.space).table.test_and_clear_young(mapper.page);
        memory.frames.met_use(frame);
        memory.reclaim.work.entries_cleared += 1;
        if self.config.features.look_around && !is_huge && mapped.len() > 1 {
            let lruvec = memory.lruvec_of(frame);
            self.look_around(memory, lruvec, mapper, window(mapped, page));
        }
        true
    }

    /// The same for a folio of several pages: through how many of its mappings it was used, and whether code runs from one of these. The
    /// accessed bits of all its entries are cleared; what lies around them is read once for 64 of them.
    pub(super) fn look_through_folio(&mut self, memory: &mut Memory, head: FrameId, root: CgroupId) -> (u32, bool) {
        let (mut nr_used, mut is_code) = (0, false);
        let found = memory.folio_mappers(head);
        for entries in found.chunk_by(|one, other| one.mapping == other.mapping) {
            memory.reclaim.work.rmap_walks += 1;
            memory.ledger.spend(memory.costs.rmap_walk_ns + (entries.len() as u64 - 1) * memory.costs.pte_scan_ns);
            let FolioMapper { mapper, .. } = entries[0];
            let space = memory.space(mapper.space);
            if !memory.cgroups.is_within(space.cgroup, root) {
                continue;
            }
            let vma = space.vmas.find(space.table.page_of(mapper.page)).filter(|vma| vma.has_recency()).copied();
            let mut is_used = memory.frames.take_young(head);
            if let Some(vma) = vma {
                let mut looked_until = 0;
                for entry in entries {
                    let table = &mut memory.space_mut(mapper.space).table;
                    if !table.test_and_clear_young(entry.mapper.page) {
                        continue;
                    }
                    is_used = true;
                    memory.reclaim.work.entries_cleared += 1;
                    let page = memory.space(mapper.space).table.page_of(entry.mapper.page);
                    let mapped = vma.pages().intersection(PageRange::at(page >> 9 << 9, 512));
                    if self.config.features.look_around && mapped.len() > 1 && page >= looked_until {
                        let window = window(mapped, page);
                        looked_until = window.end;
                        let lruvec = memory.lruvec_of(head);
                        self.look_around(memory, lruvec, entry.mapper, window);
                    }
                }
            }
            if is_used {
                memory.frames.met_use(head);
                nr_used += 1;
                is_code |= mapper.executable;
            }
        }
        (nr_used, is_code)
    }

    /// Reads the entries of `window`, one of which was young.
    fn look_around(&mut self, memory: &mut Memory, lruvec: LruvecId, mapper: Mapper, window: PageRange) {
        debug_assert!(window.len() <= MIN_LRU_BATCH, "as many pages as there is room for");
        let (cgroup, node) = (memory.cgroup_of(lruvec), memory.node_of(lruvec));
        let mut used = [FrameId::new(0); 64];
        let mut nr_used = 0;
        let (frames, nodes, states) = (&memory.frames, &memory.nodes, &self.generations.states);
        let table = &mut memory.spaces[mapper.space.index()].table;
        table.age_entries(window, |entries: Entries<'_>, bits: u64| {
            let mut cleared = 0;
            for index in (0..64).filter(|index| bits >> index & 1 != 0) {
                let is_home = |&frame: &FrameId| frames.cgroup(frame) == cgroup && nodes.of(frame) == node;
                let Some(frame) = entries.frame(index).filter(is_home) else { continue };
                let head = frames.head(frame);
                if states[head.index()].generation().is_some() {
                    cleared |= 1 << index;
                    used[nr_used] = head;
                    nr_used += 1;
                }
            }
            cleared
        });
        // Entries of one folio that follow each other are one finding.
        let mut found = &used[..nr_used];
        let folios: Vec<FrameId>;
        if memory.frames.has_folios() {
            folios = found.chunk_by(|one, other| one == other).map(|same| same[0]).collect();
            found = &folios;
        }
        match self.baseline {
            Baseline::V7_2 => found.iter().for_each(|&frame| self.found_used(memory, lruvec, frame)),
            Baseline::V6_12 => self.found_used_v6_12(memory, lruvec, found),
        }
        let (total, young) = (window.len(), nr_used as u64 + 1);
        let work = &mut memory.reclaim.work;
        work.entries_examined += total;
        work.entries_cleared += nr_used as u64;
        work.neighbours_found += nr_used as u64;
        memory.ledger.spend(total * memory.costs.scan_table_ns / 512 + young * memory.costs.scan_table_clear_ns / 512);
        if is_worthwhile(total, young) {
            let own = self.generations.get_mut(lruvec);
            if let Some(filter) = &mut own.walk.filters[list_of(own.max_seq) % 2] {
                filter.add(table_id(mapper.space, mapper_block(window)));
            }
        }
    }

    /// A page next to the one in question was used: with a walk context its byte is enough, else it is moved.
    fn found_used(&mut self, memory: &mut Memory, lruvec: LruvecId, frame: FrameId) {
        let state = self.generations.state(frame);
        let own = self.generations.get_mut(lruvec);
        let youngest = list_of(own.max_seq);
        let from = state.generation().expect("on a list");
        let page_type = state.page_type() as usize;
        if self.has_walk_context {
            let (state, result) = state.seen_by_walk();
            if result == ProbeResult::First {
                self.generations.states[frame.index()] = state;
                return;
            }
            let pages = memory.frames.nr_pages(frame);
            debug_assert!(own.nr[from][page_type] >= pages, "a page that leaves a generation was counted");
            own.nr[from][page_type] -= pages;
            own.nr[youngest][page_type] += pages;
            self.generations.states[frame.index()] = state.with_generation(youngest);
            return;
        }
        let (state, result) = state.seen_by_rmap();
        self.generations.states[frame.index()] = state;
        if result == ProbeResult::Again && from != youngest {
            self.generations.take_off(memory, frame);
            memory.frames.set(frame, Flag::Active);
            self.generations.insert(memory, frame, false);
            let cgroup = memory.cgroup_of(lruvec);
            memory.count(Counter::PgActivate, cgroup, memory.frames.nr_pages(frame));
            memory.ledger.spend(memory.costs.lru_move_ns);
        }
    }
}

/// The 2 MiB block that holds the window.
const fn mapper_block(window: PageRange) -> u64 {
    window.start >> 9
}

#[cfg(test)]
mod tests {
    use super::*;

    /// E12: the window of a look-around.
    #[test]
    fn e12_window() {
        let whole = PageRange::new(0, 512);
        let table = [(10, 0, 64), (31, 0, 64), (100, 68, 132), (500, 448, 512), (32, 0, 64), (480, 448, 512)];
        for (page, start, end) in table {
            assert_eq!(window(whole, page), PageRange::new(start, end), "{page}");
        }
        let part = PageRange::new(90, 131);
        assert_eq!((window(part, 100), window(part, 100).len()), (part, 41));
    }
}
