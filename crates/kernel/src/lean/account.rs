//! Charges, costs and counters of the engine: sums, which the machine gets when a stretch is over.

use crate::cgroup::{CgroupId, Limit};
use crate::costs::Costs;
use crate::counters::Counter;
use crate::memory::Memory;
use crate::mmu::SpaceId;
use crate::reclaim::Work;
use crate::swap::device::Transfer;
use isotherm_units::Instant;

/// The account of a group whose pages are those of one process.
#[derive(Clone, Debug)]
pub(super) struct Account {
    pub(super) group: CgroupId,
    space: SpaceId,
    /// `memory.max` in pages.
    pub(super) max: u64,
    /// The largest limit, and the most pages, for which the machine has memory and swap.
    max_covered: u64,
    pages_covered: u64,
    charge_batch: u64,
    /// Pages charged, stock included.
    usage: u64,
    peak: u64,
    stock: u64,
    swap_usage: u64,
    resident: u64,
    pub(super) peak_resident: u64,
    pub(super) swappiness: u32,
    pub(super) sample_pages: u64,
    /// Whether counters of groups are added up now and then only.
    pub(super) has_lazy_statistics: bool,
    /// Time of the present pass of reclaim.
    pub(super) now: Instant,
    pub(super) costs: Costs,
    /// Decompression and compression of a page.
    read_ns: u64,
    write_ns: u64,
    /// The space ran on a processor since the last walk over its page table.
    pub(super) has_run: bool,
    /// CPU time not given to the machine yet.
    ledger_ns: u64,
    /// Counted since the machine got them last.
    pub(super) tally: Tally,
    pub(super) work: Work,
}

/// Counts by what happened.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Tally {
    faults: u64,
    major_faults: u64,
    read: u64,
    max_events: u64,
    scanned: u64,
    swapped_out: u64,
    pub(super) refilled: u64,
    pub(super) activated: u64,
    pub(super) deactivated: u64,
    pub(super) refaults: u64,
    pub(super) refaults_activated: u64,
    pub(super) refaults_restored: u64,
}

impl Tally {
    fn counts(&self) -> [(Counter, u64); 14] {
        [
            (Counter::PgFault, self.faults),
            (Counter::PgMajFault, self.major_faults),
            (Counter::PswpIn, self.read),
            (Counter::PswpOut, self.swapped_out),
            (Counter::PgScanDirect, self.scanned),
            (Counter::PgScanAnon, self.scanned),
            (Counter::PgStealDirect, self.swapped_out),
            (Counter::PgStealAnon, self.swapped_out),
            (Counter::PgRefill, self.refilled),
            (Counter::PgActivate, self.activated),
            (Counter::PgDeactivate, self.deactivated),
            (Counter::WorkingsetRefaultAnon, self.refaults),
            (Counter::WorkingsetActivateAnon, self.refaults_activated),
            (Counter::WorkingsetRestoreAnon, self.refaults_restored),
        ]
    }
}

impl Account {
    pub(super) fn of(memory: &Memory, space: SpaceId, pages_covered: u64) -> Self {
        let group = memory.space(space).cgroup;
        let model = memory.io.swap.model();
        let max = max_of(memory, group);
        Self {
            group,
            space,
            max,
            max_covered: if max >= pages_covered { u64::MAX } else { max },
            pages_covered,
            charge_batch: memory.cgroups.charge_batch,
            usage: 0,
            peak: 0,
            stock: 0,
            swap_usage: 0,
            resident: 0,
            peak_resident: 0,
            swappiness: memory.config.swappiness,
            sample_pages: memory.config.sample_pages,
            has_lazy_statistics: memory.config.lazy_statistics,
            now: memory.now,
            costs: memory.costs,
            read_ns: model.cpu_time(1, Transfer::Read).ns(),
            write_ns: model.cpu_time(1, Transfer::Write).ns(),
            has_run: false,
            ledger_ns: 0,
            tally: Tally::default(),
            work: Work::default(),
        }
    }

    /// Reads what others may have changed.
    pub(super) fn enter(&mut self, memory: &Memory) {
        self.max = max_of(memory, self.group);
        self.has_run = memory.space(self.space).used & 1 != 0;
    }

    /// Gives sums to the machine.
    pub(super) fn settle(&mut self, memory: &mut Memory) {
        let Tally { max_events, .. } = self.tally;
        for (counter, n) in self.tally.counts() {
            if n > 0 {
                memory.count(counter, self.group, n);
            }
        }
        self.tally = Tally::default();
        memory.reclaim.work.add(&std::mem::take(&mut self.work));
        let &mut Self { usage, peak, swap_usage, stock, .. } = self;
        memory.cgroups.for_lineage(self.group, |group| {
            group.usage = usage;
            group.peak = group.peak.max(peak);
            group.swap_usage = swap_usage;
            group.events.max += max_events;
        });
        memory.cgroups.get_mut(self.group).stock = stock;
        let space = memory.space_mut(self.space);
        space.used = space.used & !1 | u64::from(self.has_run);
    }

    /// Whether the machine has memory for as many pages as the limit allows.
    pub(super) const fn is_limit_covered(&self) -> bool {
        self.max <= self.max_covered
    }

    /// Whether the machine has memory and swap for one page more than are used.
    #[inline]
    pub(super) const fn is_covered(&self) -> bool {
        self.resident + self.swap_usage < self.pages_covered
    }

    #[inline]
    pub(super) fn spend(&mut self, ns: u64) {
        self.ledger_ns += ns;
    }

    #[inline]
    pub(super) fn take_ns(&mut self) -> u64 {
        std::mem::take(&mut self.ledger_ns)
    }

    /// Counts a fault.
    #[inline]
    pub(super) fn fault(&mut self, is_major: bool) {
        self.tally.faults += 1;
        if is_major {
            self.tally.major_faults += 1;
            self.spend(self.costs.swap_in_fault_ns);
        }
    }

    /// A fault is served with the page of zeroes.
    pub(super) fn fault_zero(&mut self) {
        self.fault(false);
        self.spend(self.costs.minor_fault_zero_page_ns);
    }

    /// Charges a page (docs/spec/classic-lru.md#s7-5); `false`: there is no room. See [`Cgroups::charge`](crate::cgroup::Cgroups::charge).
    #[inline]
    pub(super) fn charge(&mut self) -> bool {
        if self.stock > 0 {
            self.stock -= 1;
            return true;
        }
        let room = self.room();
        if room == 0 {
            return false;
        }
        let charged = if room >= self.charge_batch { self.charge_batch } else { 1 };
        self.stock = charged - 1;
        self.usage += charged;
        self.peak = self.peak.max(self.usage);
        true
    }

    /// A page has come, read from swap or new.
    #[inline]
    pub(super) fn filled(&mut self, was_swapped: bool) {
        self.resident += 1;
        self.peak_resident = self.peak_resident.max(self.resident);
        if was_swapped {
            self.swap_usage -= 1;
            self.tally.read += 1;
            self.spend(self.read_ns);
        } else {
            self.spend(self.costs.minor_fault_anon_ns + self.costs.page_zero_ns);
        }
    }

    #[inline]
    fn room(&self) -> u64 {
        self.max.saturating_sub(self.usage)
    }

    /// Whether a page fits under the limit.
    #[inline]
    pub(super) fn has_room(&self) -> bool {
        self.room() > 0
    }

    /// Gives back what was charged ahead.
    pub(super) fn drain_stock(&mut self) {
        self.usage -= std::mem::take(&mut self.stock);
    }

    /// A run of reclaim begins at the limit.
    #[inline]
    pub(super) fn begin_reclaim(&mut self) {
        self.spend(self.costs.direct_reclaim_entry_ns);
        self.tally.max_events += u64::from(!self.has_room());
    }

    /// Books a batch: pages scanned, found through the reverse map, used, and swapped out.
    #[inline]
    pub(super) fn book(&mut self, batch: Batch) {
        let Batch { scanned, checked, used, swapped_out } = batch;
        self.tally.scanned += scanned;
        self.tally.swapped_out += swapped_out;
        self.work.rmap_walks += checked;
        self.work.entries_cleared += used;
        let costs = &self.costs;
        let mut ns = checked * costs.rmap_walk_ns;
        if swapped_out > 0 {
            let each = self.write_ns + costs.swap_out_page_ns + costs.unmap_page_ns + costs.free_page_ns;
            ns += swapped_out * each + costs.tlb_flush_ns;
            self.usage -= swapped_out;
            self.resident -= swapped_out;
            self.swap_usage += swapped_out;
        }
        self.spend(ns);
    }

    /// All pages are freed.
    pub(super) fn exit(&mut self) {
        self.usage -= self.resident;
        (self.resident, self.swap_usage) = (0, 0);
    }
}

/// Pages that were taken off a list together.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Batch {
    /// Counted as scanned.
    pub(super) scanned: u64,
    /// Asked for uses through their entries.
    pub(super) checked: u64,
    /// Of these, used.
    pub(super) used: u64,
    pub(super) swapped_out: u64,
}

fn max_of(memory: &Memory, group: CgroupId) -> u64 {
    match memory.cgroups.get(group).max {
        Limit::Unlimited => u64::MAX,
        Limit::At(max) => max.get(),
    }
}
