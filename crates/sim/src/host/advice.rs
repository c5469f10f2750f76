//! Actions on processes: `madvise` in their name, and `stat` with page filters.

use super::MemoryHost;
use super::actions::pages;
use super::folios::{Folio, YoungBlocks};
use isotherm_core::host::{Action, HostError, Order, Untreated};
use isotherm_kernel::fault;
use isotherm_kernel::memory::FrameId;
use isotherm_kernel::mmu::{DensePage, Entry, SpaceId};
use isotherm_kernel::reclaim::Hint;
use isotherm_units::access::Advice;
use isotherm_units::{PAGE_BYTES, PageRange};

/// Marks the number of a huge page among folios' numbers.
const HUGE: u64 = 1 << 63;
/// Bits of the number of a 2 MiB block below 2^57 bytes.
const BLOCK_BITS: u32 = 57 - 21;

impl MemoryHost<'_> {
    /// Carries out an order on a process. Returns the bytes treated.
    pub(super) fn apply_to_space(
        &mut self,
        space: SpaceId,
        order: &mut Order<'_>,
        untreated: &mut Untreated,
    ) -> Result<u64, HostError> {
        let range = pages(order.range);
        if self.memory.space(space).table.is_premapped_in(range) {
            return Err(HostError::NotHere("memory from before the run has no frames; let the program touch its own"));
        }
        if order.action == Action::Stat {
            self.count_folios(space, range, order);
            return Ok(0);
        }
        if matches!(order.action, Action::MigrateHot | Action::MigrateCold) {
            return self.migrate_range(space, range, order);
        }
        if order.action == Action::LruPrio {
            return Ok(self.prioritise(space, range, order.marks_accessed));
        }
        let is_mapped = self.look_up(space, range);
        let is_done = self.advise(space, range, order.action, untreated);
        Ok(if is_mapped && is_done { order.range.len() } else { 0 })
    }

    /// Finds the mappings of a range. Whether the mappings leave no hole.
    fn look_up(&mut self, space: SpaceId, range: PageRange) -> bool {
        let vmas = self.memory.space(space).vmas.iter().filter(|vma| vma.pages().overlaps(range));
        let (nr_vmas, nr_mapped) = vmas
            .fold((0, 0), |(nr_vmas, nr_mapped), vma| (nr_vmas + 1, nr_mapped + vma.pages().intersection(range).len()));
        self.memory.ledger.spend(nr_vmas * self.memory.costs.read_mapping_ns());
        nr_mapped == range.len()
    }

    /// Does to the mapped parts of a range what `madvise` of that name does. Returns whether it succeeded there.
    fn advise(&mut self, space: SpaceId, range: PageRange, action: Action, untreated: &mut Untreated) -> bool {
        let Self { memory, policy, .. } = self;
        let advice = match action {
            Action::Hugepage | Action::Nohugepage => {
                fault::set_huge(memory, space, range, action == Action::Hugepage);
                return true;
            }
            Action::Collapse => {
                let is_done = fault::collapse(memory, *policy, space, range);
                memory.update_hidden();
                return is_done;
            }
            Action::Willneed => Advice::WillNeed,
            // As a live machine does it, by `process_madvise`.
            Action::Cold | Action::LruDeprio => Advice::Cold,
            Action::Pageout => Advice::PageOut,
            // Not by advice: see `apply_to_space`.
            Action::Stat | Action::LruPrio | Action::MigrateHot | Action::MigrateCold => return false,
        };
        let populated = memory.space(space).table.collect_populated(range);
        if action != Action::Willneed {
            untreated.nothing_there = range.len().saturating_sub(populated.len() as u64) * PAGE_BYTES;
        }
        let nr_present = populated.iter().filter(|&&dense| memory.space(space).table.is_present(dense)).count() as u64;
        let costs = &memory.costs;
        let walk = populated.len() as u64 * costs.pte_scan_ns();
        let flush = if nr_present > 0 { costs.tlb_flush_ns() } else { 0 };
        let price = match advice {
            Advice::WillNeed => walk,
            Advice::Cold => flush, // the walk is paid page by page
            _ => walk + flush + nr_present * costs.lru_scan_page_ns(),
        };
        memory.ledger.spend(price);
        fault::advise(memory, *policy, space, range, advice);
        if advice == Advice::PageOut && self.memory.slots.free() == 0 {
            let table = &self.memory.space(space).table;
            let frame = |&dense: &DensePage| match table.entry(dense) {
                Entry::Frame(frame) => Some(frame),
                _ => None,
            };
            let left: Vec<FrameId> = populated.iter().filter_map(frame).collect();
            self.note_swapless(&left, untreated);
        }
        if advice != Advice::WillNeed && nr_present > 0 {
            self.caches.iter_mut().for_each(|caches| caches.flush(space));
        }
        true
    }

    /// Prioritises the pages that are mapped in a range. Returns the bytes that are on lists. No kernel does this to processes:
    /// on a live machine it is done by the accessed-bit module (docs/mechanism/schemes.md).
    fn prioritise(&mut self, space: SpaceId, range: PageRange, marks_accessed: bool) -> u64 {
        let mapped: Vec<DensePage> = self.memory.space(space).table.present_in(range).collect();
        let mut bytes = 0;
        for dense in mapped {
            self.memory.ledger.spend(self.memory.costs.pte_scan_ns() + self.memory.costs.scheme_folio_ns());
            let Entry::Frame(frame) = self.memory.space(space).table.entry(dense) else { continue };
            if self.is_listed(frame) {
                if marks_accessed {
                    self.policy.mark_accessed(self.memory, frame);
                } else {
                    self.policy.hint(self.memory, frame, Hint::Prioritise);
                }
                bytes += PAGE_BYTES;
            }
        }
        bytes
    }

    /// Asks the filter about each folio that is mapped in a range.
    fn count_folios(&mut self, space: SpaceId, range: PageRange, order: &mut Order<'_>) {
        let mapped: Vec<DensePage> = self.memory.space(space).table.present_in(range).collect();
        let mut young = YoungBlocks::default();
        for dense in mapped {
            self.memory.ledger.spend(self.memory.costs.pte_scan_ns());
            let Entry::Frame(frame) = self.memory.space(space).table.entry(dense) else { continue };
            if !self.is_listed(frame) {
                continue;
            }
            let folio = Folio::of(self.memory, frame);
            let number = match folio.block {
                Some((space, block)) => HUGE | (space.index() as u64) << BLOCK_BITS | block,
                None => u64::from(frame.index_u32()),
            };
            if *order.last_folio == Some(number) {
                continue;
            }
            *order.last_folio = Some(number);
            self.memory.ledger.spend(self.memory.costs.scheme_folio_ns());
            self.admit(order.filter, folio.bytes(), frame, &mut young);
        }
    }
}
