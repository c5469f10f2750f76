//! Walking the page tables of an address space for young entries (docs/spec/mglru.md#s4-4).
//!
//! Tables are read a word at a time. The effect of a found access on a page depends only on its byte and on the walk, so it is a table of
//! 256 bytes made once a walk. The number of pages met of each byte is counted, and generations' sizes are corrected at the end.

use super::ageing::{Effort, WalkStats};
use super::baseline::Baseline;
use super::bloom::{BloomFilter, table_id};

use super::generations::{Generations, Lruvec, list_of};
use super::page::{PageState, ProbeResult};
use super::{MglruConfig, Switches};
use crate::cgroup::CgroupId;
use crate::memory::{FrameId, Frames, Memory, NodeId};
use crate::mmu::{Entries, Level, SpaceId, Vma, YoungEntries};
use crate::reclaim::{LruvecId, Work};
use isotherm_units::PageRange;
use isotherm_units::access::Backing;
use std::collections::BTreeSet;

/// Young entries wanted of a table, one in this number: one in a cache line of 64 bytes on average.
pub(super) const ENTRIES_A_LINE: u64 = 8;

/// Whether a table had enough young entries to be walked again next time.
pub(crate) const fn is_worthwhile(total: u64, young: u64) -> bool {
    young * ENTRIES_A_LINE >= total
}

/// One walk over the address spaces of a group.
pub(super) struct Walker {
    cgroup: CgroupId,
    node: NodeId,
    swappiness: u32,
    /// The generation of the walk: its filter is asked, and its pages are the young ones.
    seq: u64,
    uses_upper_bits: bool,
    uses_filter: bool,
    sightings: Box<Accessed>,
    batch: Batch,
    stats: WalkStats,
    work: Work,
}

/// The effects of found accesses on pages, and their number.
pub(crate) struct Accessed {
    baseline: Baseline,
    /// By byte: the byte after the access.
    after: [PageState; 256],
    /// By byte before the access: number of pages met.
    met: [u64; 256],
}

/// A table of entries that was entered.
#[derive(Clone, Debug)]
struct Table {
    block: u64,
    total: u64,
    young: u64,
    scanned: bool,
    /// Young entries of the table are those of the batch up to this number.
    end: usize,
}

/// Tables of one address space whose young entries are read together.
#[derive(Clone, Debug, Default)]
struct Batch {
    young: YoungEntries,
    tables: Vec<Table>,
    /// Some of the entries may show pages of other lruvecs.
    has_strangers: bool,
    /// Heads of the folios of several pages that were met, where each counts once (docs/spec/large-folios.md#f3-6).
    folios: BTreeSet<FrameId>,
}

impl Accessed {
    /// Accessed that make pages members of generation `youngest`.
    pub(crate) fn of(youngest: u64, baseline: Baseline) -> Box<Self> {
        let mut after = [PageState::default(); 256];
        for index in 0..=u8::MAX {
            let state = PageState::from_index(index);
            after[state.index()] = match baseline.seen_by_walk(state) {
                _ if state.generation().is_none() => state,
                (noted, ProbeResult::First) => noted,
                (young, ProbeResult::Again) => young.with_generation(list_of(youngest)),
            };
        }
        Box::new(Self { baseline, after, met: [0; 256] })
    }

    /// Counts a page that was met and changes its byte, unless it is on no list.
    #[inline]
    pub(crate) fn meet(&mut self, state: &mut PageState) -> bool {
        self.meet_folio(state, 1)
    }

    /// The same for a folio of `pages`.
    #[inline]
    fn meet_folio(&mut self, state: &mut PageState, pages: u64) -> bool {
        let index = state.index();
        if state.generation().is_none() {
            return false;
        }
        self.met[index] += pages;
        *state = self.after[index];
        true
    }

    /// The same for pages of consecutive frames, if all are alike.
    #[inline]
    fn meet_row(&mut self, states: &mut [PageState]) -> bool {
        debug_assert!(!states.is_empty(), "a row is as long as a word has bits");
        let first = states[0];
        let strays = states.iter().fold(0, |strays, state| strays | (state.bits() ^ first.bits()));
        if strays != 0 || first.generation().is_none() {
            return false;
        }
        self.met[first.index()] += states.len() as u64;
        states.fill(self.after[first.index()]);
        true
    }

    /// Pages that joined another generation.
    pub(crate) fn settle(&self, own: &mut Lruvec) -> u64 {
        let mut moved = 0;
        for index in 0..=u8::MAX {
            let state = PageState::from_index(index);
            let count = self.met[state.index()];
            let (Some(from), Some(to)) = (state.generation(), self.after[state.index()].generation()) else { continue };
            if count > 0 && from != to {
                debug_assert!(own.nr[from][state.page_type() as usize] >= count, "each page that was met was counted");
                own.nr[from][state.page_type() as usize] -= count;
                own.nr[to][state.page_type() as usize] += count;
                moved += count;
            }
        }
        moved
    }
}

/// Young entries of folios of several pages, as the walk counts them: 6.12 each one, 7.2 all pages of a folio with any.
#[derive(Clone, Copy, Debug, Default)]
struct Weight {
    /// Entries that were met.
    entries: u64,
    /// Pages that count instead.
    pages: u64,
}

impl Weight {
    /// A young entry shows `frame` of a folio. Whether that is on a list.
    #[cold]
    fn meet(
        &mut self,
        sightings: &mut Accessed,
        (frames, states): (&Frames, &mut [PageState]),
        folios: &mut BTreeSet<FrameId>,
        frame: FrameId,
    ) -> bool {
        let (head, pages) = (frames.head(frame), frames.nr_pages(frame));
        let Some(state) = states.get_mut(head.index()).filter(|state| state.generation().is_some()) else {
            return false;
        };
        self.entries += 1;
        match sightings.baseline {
            Baseline::V6_12 => self.pages += 1,
            Baseline::V7_2 if folios.insert(head) => self.pages += pages,
            Baseline::V7_2 => return true,
        }
        sightings.meet_folio(state, pages)
    }

    /// Young entries as they count, of `young` that were met.
    const fn correct(self, young: u64) -> u64 {
        young - self.entries + self.pages
    }
}

impl Walker {
    pub(super) fn new(
        generations: &Generations,
        config: &MglruConfig,
        switches: Switches,
        memory: &Memory,
        lruvec: LruvecId,
        swappiness: u32,
    ) -> Self {
        let seq = generations.get(lruvec).max_seq;
        Self {
            cgroup: memory.cgroup_of(lruvec),
            node: memory.node_of(lruvec),
            swappiness,
            seq,
            uses_upper_bits: config.features.upper_bits && switches.has_upper_bits() && memory.mmu.nonleaf_accessed,
            uses_filter: config.features.bloom_filter,
            sightings: Accessed::of(seq, generations.baseline),
            batch: Batch { young: YoungEntries::new(), ..Batch::default() },
            stats: WalkStats::default(),
            work: Work::default(),
        }
    }

    /// Walks one address space.
    pub(super) fn walk(
        &mut self,
        memory: &mut Memory,
        states: &mut [PageState],
        filters: &mut [Option<BloomFilter>; 2],
        id: SpaceId,
        effort: Effort,
    ) {
        debug_assert!(self.batch.tables.is_empty() && self.batch.young.len() == 0, "a batch is of one space");
        self.work.spaces_walked += 1;
        let vmas: Vec<Vma> = memory.space(id).vmas.iter().filter(|vma| self.is_walked(memory, vma)).copied().collect();
        for vma in vmas {
            let pages = vma.pages();
            let blocks = PageRange::new(pages.start >> 9, ((pages.end - 1) >> 9) + 1);
            let mut from = blocks.start;
            let mut nr_tables = 0;
            let is_home = Self::is_home(memory, id, &vma);
            while let Some(block) = memory.space(id).table.next_table(PageRange::new(from, blocks.end)) {
                from = block + 1;
                nr_tables += 1;
                let part = pages.intersection(PageRange::at(block << 9, 512));
                if memory.space(id).huge_blocks.contains(&block) {
                    self.look_at_huge(memory, states, id, block);
                    continue;
                }
                if self.batch.tables.last().is_none_or(|table| table.block != block) {
                    if self.batch.young.is_enough() {
                        self.look_at_batch(memory, states, filters, id);
                    }
                    let scanned = self.enters(memory, filters, id, block, effort);
                    let end = self.batch.young.len();
                    self.batch.tables.push(Table { block, total: 0, young: 0, scanned, end });
                }
                let table = self.batch.tables.last_mut().expect("just entered");
                if table.scanned {
                    self.batch.has_strangers |= !is_home;
                    self.scan(memory, states, id, is_home, part);
                }
            }
            self.stats.leaf_total += blocks.len() - nr_tables;
        }
        self.look_at_batch(memory, states, filters, id);
    }

    /// Corrects the sizes of generations, and accounts for the work.
    pub(super) fn settle(self, own: &mut Lruvec, memory: &mut Memory) {
        debug_assert_eq!(own.max_seq, self.seq, "pages joined the generation that is still the youngest");
        let moved = self.sightings.settle(own);
        let stats = &mut own.walk.stats;
        stats.leaf_total += self.stats.leaf_total;
        stats.leaf_young += self.stats.leaf_young;
        stats.nonleaf_found += self.stats.nonleaf_found;
        stats.nonleaf_added += self.stats.nonleaf_added;
        let costs = memory.costs;
        memory.ledger.spend(self.work.tables_tested * costs.pte_scan_ns + moved * costs.lru_move_ns);
        memory.ledger.spend(self.work.entries_examined * costs.scan_table_ns / 512);
        memory.ledger.spend(self.work.entries_cleared * costs.scan_table_clear_ns / 512);
        memory.reclaim.work.add(&self.work);
    }

    /// Whether a walk at this swappiness scans the mapping at all.
    fn is_walked(&self, memory: &Memory, vma: &Vma) -> bool {
        let is_anon = vma.mapping.backing == Backing::Anonymous || memory.is_shared_memory(vma);
        let is_of_use = if is_anon { self.swappiness != 0 } else { self.swappiness <= 200 };
        vma.has_recency() && is_of_use
    }

    /// Whether a table is scanned. The entry's accessed bit is cleared even if the filter then returns no.
    fn enters(
        &mut self,
        memory: &mut Memory,
        filters: &[Option<BloomFilter>; 2],
        id: SpaceId,
        block: u64,
        effort: Effort,
    ) -> bool {
        if effort == Effort::Forced {
            return true;
        }
        if self.uses_upper_bits {
            self.work.tables_tested += 1;
            if !memory.space_mut(id).table.take_entry_young(Level::PMD, block << 9) {
                return false;
            }
        }
        if !self.uses_filter {
            return true;
        }
        self.work.filter_tests += 1;
        let filter = filters[list_of(self.seq) % 2].as_ref();
        let may_hold = filter.is_none_or(|filter| filter.may_hold(table_id(id, block)));
        self.work.filter_misses += u64::from(!may_hold);
        may_hold
    }

    fn leave_table(&mut self, filters: &mut [Option<BloomFilter>; 2], id: SpaceId, table: &Table) {
        debug_assert!(table.young <= table.total, "a young entry is one of those scanned");
        self.stats.nonleaf_found += 1;
        if is_worthwhile(table.total, table.young) {
            self.stats.nonleaf_added += 1;
            if let Some(next) = &mut filters[list_of(self.seq + 1) % 2] {
                next.add(table_id(id, table.block));
            }
        }
    }

    /// Whether all pages that the mapping shows are of this lruvec: no check per page is needed.
    fn is_home(memory: &Memory, id: SpaceId, vma: &Vma) -> bool {
        let is_private = vma.mapping.backing == Backing::Anonymous && memory.space(id).family.is_empty();
        memory.nodes.len() == 1 && (is_private || memory.cgroups.len() == 1)
    }

    /// Scans entries of the table entered last.
    fn scan(&mut self, memory: &mut Memory, states: &mut [PageState], id: SpaceId, is_home: bool, part: PageRange) {
        debug_assert!(part.len() <= 512, "a part lies under one table");
        let (cgroup, node) = (self.cgroup, self.node);
        let (frames, nodes) = (&memory.frames, &memory.nodes);
        let belongs = |frame: FrameId| is_home || (frames.cgroup(frame) == cgroup && nodes.of(frame) == node);
        let (batch, sightings) = (&mut self.batch, &mut self.sightings);
        let (folios, mut of_folios) = (&mut batch.folios, Weight::default());
        let visit = |entries: Entries<'_>, bits: u64| {
            if is_home
                && bits == u64::MAX
                && let Some(first) = entries.first_of_row()
                && let Some(row) = states.get_mut(first.index()..first.index() + 64)
                && sightings.meet_row(row)
            {
                return bits;
            }
            let (mut cleared, mut left) = (0u64, bits);
            while left != 0 {
                let index = left.trailing_zeros() as usize;
                left &= left - 1;
                let Some(frame) = entries.frame(index).filter(|&frame| belongs(frame)) else { continue };
                if frames.order(frame) > 0 {
                    let is_met = of_folios.meet(sightings, (frames, states), folios, frame);
                    cleared |= u64::from(is_met) << index;
                    continue;
                }
                if states.get_mut(frame.index()).is_some_and(|state| sightings.meet(state)) {
                    cleared |= 1 << index;
                }
            }
            cleared
        };
        let cleared = memory.spaces[id.index()].table.take_young_entries(part, &mut batch.young, visit);
        let table = batch.tables.last_mut().expect("just entered");
        table.total += part.len();
        table.young = (table.young + of_folios.correct(cleared)).min(table.total);
        table.end = batch.young.len();
        self.work.entries_examined += part.len();
        self.work.entries_cleared += cleared;
    }

    /// Reads the pages of all young entries taken, and leaves their tables.
    fn look_at_batch(
        &mut self,
        memory: &mut Memory,
        states: &mut [PageState],
        filters: &mut [Option<BloomFilter>; 2],
        id: SpaceId,
    ) {
        let (cgroup, node) = (self.cgroup, self.node);
        let (frames, nodes) = (&memory.frames, &memory.nodes);
        let table = &mut memory.spaces[id.index()].table;
        let Batch { mut young, mut tables, has_strangers, mut folios } = std::mem::take(&mut self.batch);
        table.fetch_young_entries(&mut young);
        // Bytes are fetched before they are changed one by one, likewise.
        let bytes = young.frames(0..young.len()).filter_map(|(_, frame)| states.get(frame?.index()));
        std::hint::black_box(bytes.fold(0, |all, state| all ^ state.bits()));
        let mut from = 0;
        for entered in tables.iter_mut().filter(|table| table.scanned) {
            debug_assert!(
                from <= entered.end && entered.end <= young.len(),
                "each table has its share of the entries, in order"
            );
            let (mut met, mut of_folios) = (0, Weight::default());
            for (page, frame) in young.frames(from..entered.end) {
                let belongs =
                    |frame: &FrameId| !has_strangers || (frames.cgroup(*frame) == cgroup && nodes.of(*frame) == node);
                let frame = frame.filter(belongs);
                if let Some(frame) = frame.filter(|&frame| frames.order(frame) > 0) {
                    match of_folios.meet(&mut self.sightings, (frames, states), &mut folios, frame) {
                        true => met += 1,
                        false => table.give_back_young(page),
                    }
                    continue;
                }
                let state = frame.and_then(|frame| states.get_mut(frame.index()));
                if state.is_some_and(|state| self.sightings.meet(state)) {
                    met += 1;
                } else {
                    table.give_back_young(page);
                }
            }
            from = entered.end;
            entered.young = (entered.young + of_folios.correct(met)).min(entered.total);
            self.work.entries_cleared += met;
        }
        for table in tables.iter().filter(|table| table.scanned) {
            self.leave_table(filters, id, table);
        }
        folios.clear();
        self.batch = Batch { young, tables, has_strangers: false, folios };
        self.batch.young.clear();
        self.batch.tables.clear();
    }

    /// One entry maps 512 pages: one bit decides about all 512.
    fn look_at_huge(&mut self, memory: &mut Memory, states: &mut [PageState], id: SpaceId, block: u64) {
        self.stats.leaf_total += 1;
        self.work.tables_tested += 1;
        let pages = PageRange::at(block << 9, 512);
        let table = &mut memory.spaces[id.index()].table;
        let (frames, nodes) = (&memory.frames, &memory.nodes);
        let is_home = |frame: &FrameId| frames.cgroup(*frame) == self.cgroup && nodes.of(*frame) == self.node;
        // The owner of these pages is checked before the bit is cleared: the owner's walk has yet to see it.
        if !(pages.start..pages.end).any(|page| table.frame_at(page).as_ref().is_some_and(is_home)) {
            return;
        }
        let mut is_young = false;
        table.age_entries(pages, |_, bits| {
            is_young = true;
            bits
        });
        if !is_young {
            return;
        }
        let mut met = false;
        for page in pages.start..pages.end {
            let frame = table.frame_at(page).filter(is_home);
            if let Some(state) = frame.and_then(|frame| states.get_mut(frame.index())) {
                met |= self.sightings.meet(state);
            }
        }
        self.stats.leaf_young += u64::from(met);
        self.work.entries_cleared += u64::from(met);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reclaim::mglru::Mglru;
    use crate::swap::device::DeviceKind;
    use crate::testkit::{Testbed, Touch};

    /// A huge entry over pages of another group keeps its bit.
    #[test]
    fn huge_entries_are_left_to_the_walk_of_their_owner() {
        let mut bed = Testbed::new(Box::new(Mglru::new()), 1024, DeviceKind::Nvme, 64);
        let other = bed.group(CgroupId::ROOT, "other");
        let space = bed.space(CgroupId::ROOT, 512);
        (0..512).for_each(|page| assert_eq!(bed.write(space, page), Touch::Minor));
        bed.memory.space_mut(space).huge_blocks.insert(0);
        let seen = [other, CgroupId::ROOT, CgroupId::ROOT].map(|group| {
            let (mglru, memory) = (bed.policy.as_mglru().expect("generations"), &mut bed.memory);
            mglru.insert_pending(memory);
            let lruvec = memory.lruvec(group, NodeId::default());
            let mut walker = Walker::new(&mglru.generations, &mglru.config, mglru.switches, memory, lruvec, 60);
            walker.walk(memory, &mut mglru.generations.states, &mut [None, None], space, Effort::Forced);
            (walker.stats.leaf_total, walker.stats.leaf_young)
        });
        assert_eq!(seen, [(1, 0), (1, 1), (1, 0)], "looked at each time; young for its owner, once");
    }

    /// E11: tables worth another walk.
    #[test]
    fn e11_worthwhile() {
        let table = [(64, 8, true), (64, 7, false), (512, 64, true), (512, 63, false), (41, 6, true), (41, 5, false)];
        for (total, young, worthwhile) in table {
            assert_eq!(is_worthwhile(total, young), worthwhile, "{young} of {total}");
        }
    }
}
