//! `mglru` (docs/spec/mglru.md): [`Mglru`](crate::reclaim::Mglru) of Linux 7.2 for anonymous pages of one group.
//!
//! States of pages, generations, tiers and their history are those of the policy; only the lists are rings, and a page has a state by its
//! number.

use super::account::{Account, Batch};
use super::attempt::Scan;
use super::bits::{Bits, State};
use super::layout::{BLOCK_PAGES, Layout};
use super::play::{Arrival, Policy};
use super::ring::{LazyRings, NOWHERE};
use crate::reclaim::ListSizes;
use crate::reclaim::mglru::rules::{
    Baseline, Entering, Lruvec, MAX_NR_GENS, MIN_LRU_BATCH, MIN_NR_GENS, NR_GENS, NR_TIERS, PENDING_MAX, PageState,
    ProbeResult, TIER_GAINS, TYPES, is_due, is_recent, is_worthwhile, list_of, refs_of, table_id, tier_limit,
    tier_of_refs, token, type_to_evict, window,
};
use crate::reclaim::scan_balance::PageType;
use isotherm_units::{Instant, PageRange};

pub(super) const ANON: usize = PageType::Anon as usize;
/// The shadow of a swapped page: this bit for the working set, and its token.
const WAS_WORKINGSET: u32 = 1 << 31;
const TOKEN: u32 = WAS_WORKINGSET - 1;
/// Bits of a token on any machine, at least: more than are kept here.
const TOKEN_BITS: u32 = 38;
/// A token has room for generations below this.
const SEQ_MAX: u64 = 1 << 28;

#[derive(Clone, Debug)]
pub(super) struct Mglru {
    pub(super) bits: Bits,
    /// By page: the bits of its state. Numbers, so that the operating system gives zero pages for those that are not used.
    states: Vec<u8>,
    /// By page: its place, or its shadow.
    places: Vec<u32>,
    /// By block of 512 pages: what is known of its table.
    pub(super) tables: Vec<u8>,
    /// By generation.
    lists: LazyRings<NR_GENS>,
    pub(super) lruvec: Lruvec,
    /// Pages that wait to be put on a list, and whether they are active.
    pending: Vec<(u32, bool)>,
    /// The findings of a look-around are noted in states and counts.
    has_walk_context: bool,
    /// A walk over the page table was made before.
    pub(super) is_known: bool,
    pub(super) layout: Layout,
    isolated: Vec<u32>,
    staying: Vec<(u32, bool)>,
}

/// The table was made.
pub(super) const MADE: u8 = 1;
/// The entry of the table has its accessed bit set.
pub(super) const YOUNG: u8 = 2;

impl Mglru {
    #[inline]
    pub(super) fn state_of(&self, page: u32) -> PageState {
        PageState::from_index(self.states[page as usize])
    }

    #[inline]
    pub(super) fn set_state(&mut self, page: u32, state: PageState) {
        self.states[page as usize] = state.bits();
    }

    /// The generation that a page enters (docs/spec/mglru.md#s3).
    #[inline]
    fn entry(&self, state: PageState, active: bool, fresh_anon: bool) -> u64 {
        self.lruvec.entry(Entering {
            page_type: PageType::Anon,
            active,
            workingset: state.is_workingset(),
            referenced: state.is_referenced(),
            rotated: false,
            fresh_anon,
            being_written: false,
        })
    }

    #[inline]
    fn insert(&mut self, page: u32, active: bool, fresh_anon: bool) {
        let state = self.state_of(page);
        let list = list_of(self.entry(state, active, fresh_anon));
        self.set_state(page, state.with_generation(list));
        self.lists.push(&mut self.places, list, page);
        self.lruvec.nr[list][ANON] += 1;
    }

    /// Puts waiting pages on their lists. `in_swap_cache`: a page that is just read from swap.
    fn insert_pending(&mut self, in_swap_cache: Option<u32>) {
        for at in 0..self.pending.len() {
            let (page, active) = self.pending[at];
            self.set_state(page, self.state_of(page).without_generation());
            self.insert(page, active, Some(page) != in_swap_cache);
        }
        self.pending.clear();
    }

    /// The state of a page with a shadow that is back (docs/spec/mglru.md#s8). See `refaulted` in `crate::reclaim::mglru`.
    #[inline]
    fn refault(&mut self, account: &mut Account, shadow: u32, state: PageState) -> PageState {
        account.tally.refaults += 1;
        let token = u64::from(shadow & TOKEN);
        if !is_recent(token, self.lruvec.max_seq, TOKEN_BITS) {
            return state;
        }
        let (refs, workingset) = (refs_of(token), shadow & WAS_WORKINGSET != 0);
        let tier = if workingset { NR_TIERS - 1 } else { tier_of_refs(refs) };
        self.lruvec.history[ANON].refaulted[tier] += 1;
        if !workingset {
            return state.with_further_uses(refs - 1);
        }
        account.tally.refaults_restored += 1;
        account.tally.refaults_activated += 1;
        state.with_workingset()
    }

    /// Empty generations at the old end are given up (docs/spec/mglru.md#s4-6).
    fn flush_min_seq(&mut self, account: &Account) {
        let (lists, places) = (&mut self.lists, &self.places);
        let is_empty = |page_type: PageType, list: usize| match page_type {
            PageType::Anon => lists.tail(places, list).is_none(),
            PageType::File => true,
        };
        if let Some(candidates) = self.lruvec.after_empty(account.swappiness, is_empty) {
            self.lruvec.give_up(candidates, account.swappiness, Baseline::V7_2);
        }
    }

    /// Moves a page of the oldest generation to the next, unless a walk has promoted it. See `promote_by_one` in `crate::reclaim::mglru`.
    fn promote_by_one(&mut self, page: u32) -> usize {
        let state = self.state_of(page);
        let generation = state.generation().expect("on a list");
        let oldest = self.lruvec.min_seq[ANON];
        if generation != list_of(oldest) {
            return generation;
        }
        let next = list_of(oldest + 1);
        self.set_state(page, state.moved_on(Baseline::V7_2).with_generation(next));
        self.lruvec.nr[generation][ANON] -= 1;
        self.lruvec.nr[next][ANON] += 1;
        next
    }

    /// A page is spared, or moved on, in the generation that it was used in.
    fn protect(&mut self, state: PageState) {
        if !state.is_lazily_promotable() {
            self.lruvec.history[ANON].protected[state.tier()] += 1;
        }
    }

    /// Makes a new generation (docs/spec/mglru.md#s4-1 to #s4-5).
    fn age(&mut self, account: &mut Account) {
        self.walk(account);
        for page_type in TYPES {
            let at = page_type as usize;
            if self.lruvec.nr_generations(page_type) < MAX_NR_GENS {
                continue;
            }
            let oldest = list_of(self.lruvec.min_seq[at]);
            while page_type == PageType::Anon
                && let Some(page) = self.lists.tail(&self.places, oldest)
            {
                let before = self.state_of(page);
                let to = self.promote_by_one(page);
                self.lists.unlink_tail(&mut self.places, oldest, page);
                self.lists.push_old(&mut self.places, to, page);
                account.spend(account.costs.lru_move_ns);
                self.protect(before);
            }
            self.lruvec.history[at].carry_over();
            self.lruvec.min_seq[at] += 1;
        }
        self.lruvec.max_seq += 1;
        account.work.ageings += 1;
    }

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
    fn evict_batch(&mut self, account: &mut Account, wanted: u64, scan: &mut Scan) -> u64 {
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
                #[expect(clippy::cast_possible_truncation, reason = "numbers fit 30 bits")]
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

impl Policy for Mglru {
    const IS_EXACT: bool = false;

    fn new(layout: &Layout, _account: &Account) -> Self {
        let pages = layout.span as usize;
        Self {
            bits: Bits::new(pages),
            states: vec![0; pages],
            places: vec![0; pages],
            tables: vec![0; pages.div_ceil(BLOCK_PAGES as usize)],
            lists: LazyRings::new(),
            lruvec: Lruvec::new(Instant::START),
            pending: Vec::with_capacity(PENDING_MAX),
            has_walk_context: false,
            is_known: false,
            layout: layout.clone(),
            isolated: Vec::new(),
            staying: Vec::new(),
        }
    }

    #[inline(always)]
    fn touch(&mut self, page: usize, write: bool) -> bool {
        if !self.bits.touch(page, write) {
            return false;
        }
        if let Some(table) = self.tables.get_mut(page / BLOCK_PAGES as usize) {
            *table = MADE | YOUNG;
        }
        true
    }

    #[inline]
    fn touch_row(&mut self, page: u32, most: u64, write: bool) -> u32 {
        let touched = self.bits.touch_row(page, most, write);
        if touched > 0 {
            self.tables[page as usize / BLOCK_PAGES as usize] = MADE | YOUNG;
        }
        touched
    }

    #[inline]
    fn state(&self, page: u32) -> State {
        self.bits.state(page)
    }

    fn map_zero(&mut self, page: u32) {
        self.bits.map_zero(page);
        self.tables[page as usize / BLOCK_PAGES as usize] = MADE | YOUNG;
    }

    /// docs/spec/mglru.md#s3-1, #s5-4.
    fn added(&mut self, account: &mut Account, page: u32, arrival: Arrival) {
        let mut state = PageState::new(PageType::Anon);
        if arrival != Arrival::New {
            state = self.refault(account, self.places[page as usize], state);
        }
        let active = state.is_workingset();
        if !active && !state.is_referenced() {
            state = state.used_by_descriptor();
        }
        self.bits.map(page, true);
        self.tables[page as usize / BLOCK_PAGES as usize] = MADE | YOUNG;
        self.set_state(page, state.waiting());
        self.places[page as usize] = NOWHERE;
        self.pending.push((page, active));
        let in_swap_cache = (arrival != Arrival::New).then_some(page);
        if self.pending.len() == PENDING_MAX || arrival == (Arrival::SwapIn { write: true }) {
            self.insert_pending(in_swap_cache);
        }
    }

    /// See `shrink_generations` in `crate::reclaim::mglru`.
    fn shrink(&mut self, account: &mut Account, scan: &mut Scan) {
        self.insert_pending(None);
        let mut left = self.lruvec.evictable_pages(account.swappiness) >> scan.priority;
        while left > 0 {
            if is_due(self.lruvec.max_seq, self.lruvec.min_evictable(account.swappiness), scan.priority) {
                self.age(account);
                self.has_walk_context = true;
            }
            let scanned = self.evict_batch(account, left.min(MIN_LRU_BATCH), scan);
            if scanned == 0 || scan.nr_reclaimed >= scan.nr_to_reclaim {
                break;
            }
            left = left.saturating_sub(scanned);
        }
        self.has_walk_context = false;
    }

    fn sizes(&self) -> ListSizes {
        let mut sizes = self.lruvec.sizes();
        sizes.inactive_anon += self.pending.len() as u64;
        sizes
    }

    fn exit(&mut self) {
        self.lists.clear();
        self.pending.clear();
        self.lruvec.nr = [[0; 2]; NR_GENS];
    }

    fn fits(&self) -> bool {
        self.lruvec.max_seq < SEQ_MAX
    }

    #[inline]
    fn warm(&self, page: u32) -> u64 {
        let place = self.places.get(page as usize).copied().unwrap_or(0);
        let state = self.states.get(page as usize).copied().unwrap_or(0);
        self.bits.warm(page) ^ u64::from(place) ^ u64::from(state)
    }
}
