//! `classic` (docs/spec/classic-lru.md): [`Classic`](crate::reclaim::classic::Classic) for anonymous pages of one group.
//!
//! How much is scanned, whether active pages are deactivated, and whether a refault is recent decide the functions of
//! [`scan_balance`](crate::reclaim::scan_balance) and [`refault`](crate::reclaim::refault).

use super::account::{Account, Batch};
use super::attempt::Scan;
use super::bits::{Bits, State};
use super::layout::Layout;
use super::play::{Arrival, Policy};
use super::ring::Ring;
use crate::reclaim::ListSizes;
use crate::reclaim::refault::WorkingsetSizes;
use crate::reclaim::scan_balance::{
    IoCost, Lru, PageType, SWAP_CLUSTER_MAX, ScanInputs, ScanLoop, inactive_is_low, scan_size,
};

/// Flags of a resident page.
const ACTIVE: u32 = 1;
const REFERENCED: u32 = 2;
const WORKINGSET: u32 = 4;
/// The shadow of a swapped page: this bit for the working set, and the age at its eviction.
const WAS_WORKINGSET: u32 = 1 << 31;
const TOKEN: u32 = WAS_WORKINGSET - 1;
/// Pages of a batch.
const BATCH: usize = SWAP_CLUSTER_MAX as usize;

#[derive(Clone, Debug)]
pub(super) struct Classic {
    bits: Bits,
    /// By page: flags or shadow.
    words: Vec<u32>,
    inactive: Ring,
    active: Ring,
    /// Evictions and activations.
    age: u64,
    cost: IoCost,
    activations: u64,
    /// `activations` when reclaim last ended.
    activations_seen: u64,
    sample_pages: u64,
    /// Counters as they were added up last, where that is done now and then only. See `Statistics` in `crate::reclaim::classic`.
    counted: Option<Counted>,
}

/// What decides about deactivation, and whether a refault is recent.
#[derive(Clone, Copy, Debug, Default)]
struct Counted {
    inactive: u64,
    active: u64,
    activations: u64,
}

impl Classic {
    #[inline]
    fn counted(&self) -> Counted {
        self.counted.unwrap_or_else(|| self.count())
    }

    #[inline]
    fn count(&self) -> Counted {
        Counted { inactive: self.inactive.len(), active: self.active.len(), activations: self.activations }
    }

    fn inactive_is_low(&self) -> bool {
        let Counted { inactive, active, .. } = self.counted();
        inactive_is_low(inactive, active, self.sample_pages)
    }

    fn note_cost(&mut self, nr_io: u64, nr_rotated: u64) {
        let list_pages = self.inactive.len() + self.active.len();
        self.cost.note(PageType::Anon, nr_io, nr_rotated, list_pages);
    }

    /// A page with a shadow is back. Returns its flags. See `refault` in `crate::reclaim::classic`.
    #[inline]
    fn refault(&mut self, account: &mut Account, shadow: u32) -> u32 {
        account.tally.refaults += 1;
        let distance = (self.age as u32).wrapping_sub(shadow) & TOKEN;
        let Counted { inactive, active, .. } = self.counted();
        let sizes = WorkingsetSizes {
            active_anon: active,
            inactive_anon: inactive,
            swap_available: true,
            ..WorkingsetSizes::default()
        };
        if !sizes.is_recent(PageType::Anon, distance.into()) {
            return 0;
        }
        self.age += 1;
        self.activations += 1;
        account.tally.refaults_activated += 1;
        if shadow & WAS_WORKINGSET == 0 {
            return ACTIVE;
        }
        self.note_cost(1, 0);
        account.tally.refaults_restored += 1;
        ACTIVE | WORKINGSET
    }

    /// Pages to scan of each list. See `scan_targets` in `crate::reclaim::classic`.
    fn scan_targets(&self, account: &Account, priority: u32) -> [u64; 4] {
        let sizes = [self.inactive.len(), self.active.len(), 0, 0];
        if sizes.iter().all(|size| size >> priority == 0) {
            return [0; 4];
        }
        let inputs = ScanInputs {
            swappiness: account.swappiness,
            priority,
            can_reclaim_anon: true,
            cgroup_reclaim: true,
            file_is_tiny: false,
            cache_trim: false,
            cost: self.cost,
        };
        let mode = inputs.mode();
        Lru::ALL.map(|lru| scan_size(lru, sizes[lru as usize], sizes[lru as usize], priority, mode, false))
    }

    fn warm_up(&self, ring: &Ring, pages: usize) {
        std::hint::black_box((0..pages).fold(0, |sum, younger| sum ^ self.warm(ring.oldest(younger))));
    }

    /// Examines up to `nr` pages at the old end of the inactive list, at most a batch.
    fn shrink_inactive(&mut self, account: &mut Account, nr: u64, scan: &mut Scan) {
        let scanned = nr.min(self.inactive.len());
        if scanned == 0 {
            return;
        }
        self.warm_up(&self.inactive, scanned as usize);
        let (mut kept, mut nr_kept) = ([0; BATCH], 0);
        for younger in 0..scanned as usize {
            let page = self.inactive.oldest(younger);
            if self.bits.take_young(page) {
                kept[nr_kept % BATCH] = page;
                nr_kept += 1;
                continue;
            }
            let word = &mut self.words[page as usize];
            let workingset = if *word & WORKINGSET == 0 { 0 } else { WAS_WORKINGSET };
            let token = self.age as u32 & TOKEN;
            *word = workingset | token;
            self.age += 1;
            self.bits.swap_out(page);
        }
        self.inactive.pop(scanned as usize);
        for &page in &kept[..nr_kept] {
            let word = &mut self.words[page as usize];
            if *word & REFERENCED == 0 {
                *word |= REFERENCED;
                self.inactive.push(page);
            } else {
                *word |= ACTIVE;
                self.active.push(page);
                self.age += 1;
                account.tally.activated += 1;
            }
        }
        let used = nr_kept as u64;
        let swapped_out = scanned - used;
        account.spend(scanned * account.costs.lru_scan_page_ns);
        account.book(Batch { scanned, checked: scanned, used, swapped_out });
        scan.nr_reclaimed += swapped_out;
        self.note_cost(swapped_out, used);
    }

    /// Moves up to `nr` pages, at most a batch, from the old end of the active list to the inactive list, used or not.
    fn shrink_active(&mut self, account: &mut Account, nr: u64) {
        let scanned = nr.min(self.active.len());
        self.warm_up(&self.active, scanned as usize);
        let mut used = 0;
        for younger in 0..scanned as usize {
            let page = self.active.oldest(younger);
            used += u64::from(self.bits.take_young(page));
            let word = &mut self.words[page as usize];
            *word = *word & !ACTIVE | WORKINGSET;
            self.inactive.push(page);
        }
        self.active.pop(scanned as usize);
        account.spend(scanned * account.costs.lru_scan_page_ns);
        account.book(Batch { checked: scanned, used, ..Batch::default() });
        account.tally.refilled += scanned;
        account.tally.deactivated += scanned;
    }
}

impl Policy for Classic {
    const IS_EXACT: bool = false;

    fn new(layout: &Layout, account: &Account) -> Self {
        let pages = layout.span as usize;
        Self {
            bits: Bits::new(pages),
            words: vec![0; pages],
            inactive: Ring::new(),
            active: Ring::new(),
            age: 0,
            cost: IoCost::default(),
            activations: 0,
            activations_seen: 0,
            sample_pages: account.sample_pages,
            counted: account.has_lazy_statistics.then(Counted::default),
        }
    }

    #[inline(always)]
    fn touch(&mut self, page: u32, write: bool) -> bool {
        self.bits.touch(page, write)
    }

    #[inline]
    fn touch_row(&mut self, page: u32, most: u64, write: bool) -> u32 {
        self.bits.touch_row(page, most, write)
    }

    #[inline]
    fn state(&self, page: u32) -> State {
        self.bits.state(page)
    }

    fn map_zero(&mut self, page: u32) {
        self.bits.map_zero(page);
    }

    #[inline]
    fn added(&mut self, account: &mut Account, page: u32, arrival: Arrival) {
        let flags = if arrival == Arrival::New { 0 } else { self.refault(account, self.words[page as usize]) };
        self.bits.map(page, true);
        self.words[page as usize] = flags;
        let list = if flags & ACTIVE == 0 { &mut self.inactive } else { &mut self.active };
        list.push(page);
    }

    fn shrink(&mut self, account: &mut Account, scan: &mut Scan) {
        let may_deactivate =
            scan.force_deactivate || self.counted().activations != self.activations_seen || self.inactive_is_low();
        let mut left = ScanLoop::new(self.scan_targets(account, scan.priority), false);
        let before = scan.nr_reclaimed;
        while left.goes_on() {
            let nr = left.take(Lru::InactiveAnon);
            self.shrink_inactive(account, nr, scan);
            let nr = left.take(Lru::ActiveAnon);
            if nr > 0 && may_deactivate {
                self.shrink_active(account, nr);
            } else if nr > 0 {
                scan.skipped_deactivate = true;
            }
            left.end_round(scan.nr_reclaimed - before, scan.nr_to_reclaim);
        }
        if self.inactive_is_low() {
            self.shrink_active(account, SWAP_CLUSTER_MAX);
        }
    }

    fn flush_statistics(&mut self) {
        self.counted = self.counted.map(|_| self.count());
    }

    fn reclaim_ended(&mut self) {
        self.activations_seen = self.counted().activations;
    }

    fn sizes(&self) -> ListSizes {
        ListSizes { inactive_anon: self.inactive.len(), active_anon: self.active.len(), ..ListSizes::default() }
    }

    fn exit(&mut self) {
        self.inactive.clear();
        self.active.clear();
    }

    fn fits(&self) -> bool {
        self.age < u64::from(TOKEN / 2)
    }

    #[inline]
    fn warm(&self, page: u32) -> u64 {
        self.bits.warm(page) ^ u64::from(self.words.get(page as usize).copied().unwrap_or(0))
    }
}
