//! `mglru` (docs/spec/mglru.md): [`Mglru`](crate::reclaim::Mglru) of Linux 7.2 for anonymous pages of one group.
//!
//! States of pages, generations, tiers and their history are those of the policy; only the lists are rings, and a page has a state by its
//! number.

mod evict;
mod walk;

use super::account::Account;
use super::attempt::Scan;
use super::bits::{Bits, State};
use super::layout::{BLOCK_PAGES, Layout};
use super::play::{Arrival, Policy};
use super::ring::{LazyRings, NOWHERE};
use crate::reclaim::ListSizes;
use crate::reclaim::mglru::rules::{
    Baseline, Entering, Lruvec, MAX_NR_GENS, MIN_LRU_BATCH, NR_GENS, NR_TIERS, PENDING_MAX, PageState, TYPES, is_due,
    is_recent, list_of, refs_of, tier_of_refs,
};
use crate::reclaim::scan_balance::PageType;
use isotherm_units::Instant;

const ANON: usize = PageType::Anon as usize;
/// The shadow of a swapped page: this bit for the working set, and its token.
const WAS_WORKINGSET: u32 = 1 << 31;
const TOKEN: u32 = WAS_WORKINGSET - 1;
/// Bits of a token on any machine, at least: more than are kept here.
const TOKEN_BITS: u32 = 38;
/// A token has room for generations below this.
const SEQ_MAX: u64 = 1 << 28;

#[derive(Clone, Debug)]
pub(super) struct Mglru {
    bits: Bits,
    /// By page: the bits of its state. Numbers, so that the operating system gives zero pages for those that are not used.
    states: Vec<u8>,
    /// By page: its place, or its shadow.
    places: Vec<u32>,
    /// By block of 512 pages: what is known of its table.
    tables: Vec<u8>,
    /// By generation.
    lists: LazyRings<NR_GENS>,
    lruvec: Lruvec,
    /// Pages that wait to be put on a list, and whether they are active.
    pending: Vec<(u32, bool)>,
    /// The findings of a look-around are noted in states and counts.
    has_walk_context: bool,
    /// A walk over the page table was made before.
    is_known: bool,
    layout: Layout,
    isolated: Vec<u32>,
    staying: Vec<(u32, bool)>,
}

/// The table was made.
const MADE: u8 = 1;
/// The entry of the table has its accessed bit set.
const YOUNG: u8 = 2;

impl Mglru {
    #[inline]
    fn state_of(&self, page: u32) -> PageState {
        PageState::from_index(self.states[page as usize])
    }

    #[inline]
    fn set_state(&mut self, page: u32, state: PageState) {
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
    fn touch(&mut self, page: u32, write: bool) -> bool {
        if !self.bits.touch(page, write) {
            return false;
        }
        if let Some(table) = self.tables.get_mut(page as usize / BLOCK_PAGES as usize) {
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
