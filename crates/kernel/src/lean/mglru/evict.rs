//! Eviction from the oldest generation (docs/spec/mglru.md#s6), and what is found next to a page that was used (docs/spec/mglru.md#s9).

use super::{ANON, Mglru, WAS_WORKINGSET};
use crate::lean::account::{Account, Batch};
use crate::lean::attempt::Scan;
use crate::lean::layout::BLOCK_PAGES;
use crate::lean::play::Policy;
use crate::lean::ring::NOWHERE;
use crate::reclaim::mglru::rules::{
    MIN_LRU_BATCH, MIN_NR_GENS, ProbeResult, TIER_GAINS, is_worthwhile, list_of, table_id, tier_limit, token,
    type_to_evict, window,
};
use crate::reclaim::scan_balance::PageType;
use isotherm_units::PageRange;

impl Mglru {
    /// Takes pages off the oldest generation. Returns how many were scanned. See `isolate` in `crate::reclaim::mglru`: it scans twice, and
    /// the other type only if nothing was there to scan. Of file pages there is nothing.
    fn isolate(&mut self, account: &mut Account, wanted: u64) -> u64 {
        let times = match type_to_evict(&self.lruvec.history, account.swappiness) {
            PageType::File => 1,
            PageType::Anon => 2,
        };
        let mut scanned = 0;
        for _ in 0..times {
            let found = self.scan_oldest(account, wanted);
            scanned += found;
            if found == 0 || !self.isolated.is_empty() {
                break;
            }
        }
        scanned
    }

    /// Takes up to `wanted` pages off the oldest generation. Returns how many were scanned. See `scan_type` in `crate::reclaim::mglru`.
    fn scan_oldest(&mut self, account: &mut Account, wanted: u64) -> u64 {
        if self.lruvec.nr_generations(PageType::Anon) <= MIN_NR_GENS {
            return 0;
        }
        let oldest = list_of(self.lruvec.min_seq[ANON]);
        let limit = tier_limit(&self.lruvec.history[ANON], TIER_GAINS);
        let ahead = self.lists.oldest(oldest, wanted);
        std::hint::black_box(ahead.fold(0, |sum, page| sum ^ self.warm(page)));
        let (mut scanned, mut sorted) = (0, 0);
        while let Some(page) = self.lists.tail(&self.places, oldest) {
            scanned += 1;
            let state = self.state_of(page);
            let generation = state.generation().expect("on a list");
            self.lists.unlink_tail(&mut self.places, oldest, page);
            if generation == oldest && state.tier() <= limit && !state.is_lazily_promotable() {
                self.lruvec.nr[oldest][ANON] -= 1;
                self.set_state(page, state.settled().without_generation());
                self.isolated.push(page);
            } else {
                let to = if generation == oldest { self.promote_by_one(page) } else { generation };
                self.lists.push(&mut self.places, to, page);
                if generation == oldest {
                    self.protect(state);
                }
                sorted += 1;
            }
            if scanned == wanted || self.isolated.len() as u64 >= MIN_LRU_BATCH {
                break;
            }
        }
        account.tally.refilled += sorted;
        account.work.sorted += sorted;
        account.work.isolated += self.isolated.len() as u64;
        account.spend(scanned * account.costs.lru_scan_page_ns + sorted * account.costs.lru_move_ns);
        scanned
    }

    /// Evicts the unused ones among up to `wanted` pages of the oldest generation. Returns how many were scanned.
    pub(super) fn evict_batch(&mut self, account: &mut Account, wanted: u64, scan: &mut Scan) -> u64 {
        self.flush_min_seq(account);
        let scanned = self.isolate(account, wanted);
        if scanned > 0 {
            self.flush_min_seq(account);
        }
        if self.isolated.is_empty() {
            return scanned;
        }
        let isolated = std::mem::take(&mut self.isolated);
        for &page in &isolated {
            if self.bits.take_young(page) {
                self.look_around(account, page);
                let (state, result) = self.state_of(page).seen_by_rmap();
                self.set_state(page, state);
                account.tally.activated += u64::from(result == ProbeResult::Again);
                self.staying.push((page, result == ProbeResult::Again));
                continue;
            }
            let state = self.state_of(page);
            self.lruvec.history[ANON].evicted[state.tier()] += 1;
            let token = u32::try_from(token(self.lruvec.min_seq[ANON], state.refs())).expect("generations fit");
            let workingset = if state.is_workingset() { WAS_WORKINGSET } else { 0 };
            self.places[page as usize] = workingset | token;
            self.bits.swap_out(page);
        }
        let (checked, used) = (isolated.len() as u64, self.staying.len() as u64);
        for at in 0..self.staying.len() {
            let (page, mut active) = self.staying[at];
            if self.entry(self.state_of(page), active, true) == self.lruvec.min_seq[ANON] {
                self.set_state(page, self.state_of(page).without_refs());
                active = true;
            }
            self.insert(page, active, true);
        }
        self.staying.clear();
        self.isolated = isolated;
        self.isolated.clear();
        scan.nr_reclaimed += checked - used;
        account.book(Batch { scanned: checked, checked, used, swapped_out: checked - used });
        scanned
    }

    /// Reads the entries around a page that was used (docs/spec/mglru.md#s9). See `look_around` in `crate::reclaim::mglru`.
    fn look_around(&mut self, account: &mut Account, page: u32) {
        let number = u64::from(page);
        let block = number / BLOCK_PAGES;
        let mapping = self.layout.mapping(number).expect("a resident page is mapped");
        let mapped = mapping.intersection(PageRange::at(block * BLOCK_PAGES, BLOCK_PAGES));
        if mapped.len() <= 1 {
            return;
        }
        let window = window(mapped, number);
        let (mut found, mut nr_found) = ([0; MIN_LRU_BATCH as usize], 0);
        for word in window.start / 64..window.end.div_ceil(64) {
            let mut young = self.young_in(word, window);
            let mut cleared = 0;
            while young != 0 {
                let index = young.trailing_zeros();
                young &= young - 1;
                let page = word as u32 * 64 + index;
                if self.state_of(page).generation().is_some() {
                    cleared |= 1 << index;
                    found[nr_found] = page;
                    nr_found += 1;
                }
            }
            self.bits.clear_young(word, cleared);
        }
        found[..nr_found].iter().for_each(|&page| self.found_used(account, page));
        let (total, found) = (window.len(), nr_found as u64);
        account.work.entries_examined += total;
        account.work.entries_cleared += found;
        account.work.neighbours_found += found;
        let costs = &account.costs;
        let ns = total * costs.scan_table_ns / 512 + (found + 1) * costs.scan_table_clear_ns / 512;
        account.spend(ns);
        if is_worthwhile(total, found + 1)
            && let Some(filter) = &mut self.lruvec.walk.filters[list_of(self.lruvec.max_seq) % 2]
        {
            filter.add(table_id(self.layout.space, self.layout.origin / BLOCK_PAGES + block));
        }
    }

    /// Young pages of the 64 of a word that lie in `window`.
    #[inline]
    pub(super) fn young_in(&self, word: u64, window: PageRange) -> u64 {
        let (mut young, first) = (self.bits.young_of_word(word), word * 64);
        if first < window.start {
            young &= u64::MAX << (window.start - first);
        }
        if first + 64 > window.end {
            young &= !(u64::MAX << (window.end - first));
        }
        young
    }

    /// A page next to the one in question was used. See `found_used` in `crate::reclaim::mglru`.
    fn found_used(&mut self, account: &mut Account, page: u32) {
        let state = self.state_of(page);
        let from = state.generation().expect("on a list");
        let youngest = list_of(self.lruvec.max_seq);
        if self.has_walk_context {
            let (state, result) = state.seen_by_walk();
            self.set_state(page, state);
            if result == ProbeResult::Again {
                self.lruvec.nr[from][ANON] -= 1;
                self.lruvec.nr[youngest][ANON] += 1;
                self.set_state(page, state.with_generation(youngest));
            }
            return;
        }
        let (state, result) = state.seen_by_rmap();
        self.set_state(page, state);
        if result == ProbeResult::Again && from != youngest {
            self.lruvec.nr[from][ANON] -= 1;
            self.set_state(page, state.without_generation());
            self.places[page as usize] = NOWHERE;
            self.insert(page, true, true);
            account.tally.activated += 1;
            account.spend(account.costs.lru_move_ns);
        }
    }
}
