//! `lru` (`docs/mechanism/reclaim.md#baselines`): [`Lru`](crate::reclaim::Lru) as a log of all touches.
//!
//! A touch adds the page to the young end of the log, and writes its place there to the page's word; the older entry goes stale. The oldest
//! page is the first entry from the old end whose page has that place. Entries near the old end are mostly stale, and each test misses the
//! host's caches, so that 64 are tested at a time.

use super::account::{Account, Batch};
use super::attempt::Scan;
use super::bits::State;
use super::layout::Layout;
use super::play::{Arrival, Policy};
use crate::reclaim::ListSizes;

/// Words of pages that are not on the log; places follow.
const ABSENT: u32 = 0;
const ZERO: u32 = 1;
const SWAPPED: u32 = 2;
const FIRST_PLACE: u32 = 3;
/// Entries tested together.
const BLOCK: usize = 64;
/// Entries of the shortest log.
const LOG_MIN: usize = 1 << 16;
/// Entries of a log, at least, for each resident page.
const ENTRIES_A_PAGE: usize = 6;

#[derive(Clone, Debug)]
pub(super) struct Lru {
    /// By page.
    words: Vec<u32>,
    /// A ring; its length is a power of two.
    log: Vec<u32>,
    /// Where the next entry goes.
    head: usize,
    /// Entries before this one were tested.
    tested: usize,
    /// Of the last [`BLOCK`] that were tested: those that were live then and have not been taken since.
    candidates: u64,
    resident: u64,
}

#[inline]
const fn place(slot: usize) -> u32 {
    slot as u32 + FIRST_PLACE
}

impl Lru {
    #[inline(always)]
    fn append(&mut self, page: u32) {
        let slot = self.head & (self.log.len() - 1);
        self.log[slot] = page;
        self.words[page as usize] = place(slot);
        self.head += 1;
    }

    /// The page of an entry, if it is the latest of that page.
    #[inline]
    fn live(&self, entry: usize) -> Option<u32> {
        let slot = entry & (self.log.len() - 1);
        Some(self.log[slot]).filter(|&page| self.words[page as usize] == place(slot))
    }

    /// Takes the oldest page.
    #[inline]
    fn oldest(&mut self) -> Option<u32> {
        loop {
            while self.candidates != 0 {
                let entry = self.tested + self.candidates.trailing_zeros() as usize - BLOCK;
                self.candidates &= self.candidates - 1;
                if let Some(page) = self.live(entry) {
                    return Some(page);
                }
            }
            let (first, end) = (self.tested, self.head.min(self.tested + BLOCK));
            if first == end {
                return None;
            }
            let live =
                (first..end).fold(0, |live, entry| live | u64::from(self.live(entry).is_some()) << (entry - first));
            // Bits are numbered from the end of a whole block.
            self.candidates = live << (BLOCK - (end - first));
            self.tested = end;
        }
    }

    /// Throws stale entries out.
    #[cold]
    fn compact(&mut self, more: usize) {
        let live: Vec<u32> = (self.oldest_entry()..self.head).filter_map(|entry| self.live(entry)).collect();
        debug_assert_eq!(live.len() as u64, self.resident, "each resident page has one live entry");
        let len = ((live.len() + more) * ENTRIES_A_PAGE).max(LOG_MIN).next_power_of_two();
        self.log = vec![0; len];
        (self.head, self.tested, self.candidates) = (0, 0, 0);
        live.into_iter().for_each(|page| self.append(page));
    }

    /// No entry before this one is live.
    fn oldest_entry(&self) -> usize {
        self.tested.saturating_sub(BLOCK)
    }
}

impl Policy for Lru {
    const IS_EXACT: bool = true;

    fn new(layout: &Layout, _account: &Account) -> Self {
        let words = vec![ABSENT; layout.span as usize];
        Self { words, log: vec![0; LOG_MIN], head: 0, tested: 0, candidates: 0, resident: 0 }
    }

    #[inline(always)]
    fn touch(&mut self, page: u32, write: bool) -> bool {
        let Some(word) = self.words.get_mut(page as usize) else { return false };
        if *word < FIRST_PLACE {
            return *word == ZERO && !write;
        }
        let slot = self.head & (self.log.len() - 1);
        *word = place(slot);
        self.log[slot] = page;
        self.head += 1;
        true
    }

    #[inline]
    fn touch_row(&mut self, page: u32, _most: u64, write: bool) -> u32 {
        self.reserve(1);
        self.touch(page, write).into()
    }

    #[inline]
    fn reserve(&mut self, touches: usize) {
        if self.head - self.oldest_entry() + touches > self.log.len() {
            self.compact(touches);
        }
    }

    #[inline]
    fn state(&self, page: u32) -> State {
        match self.words[page as usize] {
            ABSENT => State::Absent,
            ZERO => State::Zero,
            SWAPPED => State::Swapped,
            _ => State::Resident,
        }
    }

    fn map_zero(&mut self, page: u32) {
        self.words[page as usize] = ZERO;
    }

    #[inline]
    fn added(&mut self, account: &mut Account, page: u32, arrival: Arrival) {
        account.tally.refaults += u64::from(arrival != Arrival::New);
        self.reserve(1);
        self.resident += 1;
        self.append(page);
    }

    #[inline]
    fn shrink(&mut self, account: &mut Account, scan: &mut Scan) {
        let Some(page) = self.oldest() else { return };
        self.words[page as usize] = SWAPPED;
        self.resident -= 1;
        scan.nr_reclaimed += 1;
        account.book(Batch { scanned: 1, swapped_out: 1, ..Batch::default() });
    }

    fn sizes(&self) -> ListSizes {
        ListSizes { inactive_anon: self.resident, ..ListSizes::default() }
    }

    fn exit(&mut self) {
        self.resident = 0;
    }

    #[inline]
    fn warm(&self, page: u32) -> u64 {
        self.words.get(page as usize).copied().unwrap_or(0).into()
    }
}
