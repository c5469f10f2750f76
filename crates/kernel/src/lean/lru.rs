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
/// Shorter logs are not worth compacting.
const LOG_MIN: usize = 1 << 16;

#[derive(Clone, Debug)]
pub(super) struct Lru {
    /// By page.
    words: Vec<u32>,
    log: Vec<u32>,
    /// Entries before this one were tested.
    tested: usize,
    /// Of the last [`BLOCK`] that were tested: those that were live then and have not been taken since.
    candidates: u64,
    resident: u64,
}

#[inline]
#[expect(clippy::cast_possible_truncation, reason = "the log is compacted long before")]
const fn place(index: usize) -> u32 {
    index as u32 + FIRST_PLACE
}

impl Lru {
    #[inline(always)]
    fn append(&mut self, page: u32) {
        self.words[page as usize] = place(self.log.len());
        self.log.push(page);
    }

    /// The oldest page.
    #[inline]
    fn oldest(&mut self) -> Option<u32> {
        loop {
            while self.candidates != 0 {
                let index = self.tested + self.candidates.trailing_zeros() as usize - BLOCK;
                let page = self.log[index];
                if self.words[page as usize] == place(index) {
                    return Some(page);
                }
                self.candidates &= self.candidates - 1;
            }
            let (first, end) = (self.tested, self.log.len().min(self.tested + BLOCK));
            if first == end {
                return None;
            }
            for (offset, &page) in self.log[first..end].iter().enumerate() {
                self.candidates |= u64::from(self.words[page as usize] == place(first + offset)) << offset;
            }
            self.tested = first + BLOCK;
            if self.tested > end {
                // The last entries: numbered from the end of a whole block, which later entries fill.
                self.candidates <<= BLOCK - (end - first);
                self.tested = end;
            }
        }
    }

    /// Throws stale entries out.
    #[cold]
    fn compact(&mut self) {
        let mut live = 0;
        for index in self.tested.saturating_sub(BLOCK)..self.log.len() {
            let page = self.log[index];
            if self.words[page as usize] == place(index) {
                self.log[live] = page;
                self.words[page as usize] = place(live);
                live += 1;
            }
        }
        debug_assert_eq!(live as u64, self.resident, "each resident page has one live entry");
        self.log.truncate(live);
        (self.tested, self.candidates) = (0, 0);
        self.log.reserve_exact((live * 3).max(LOG_MIN));
    }
}

impl Policy for Lru {
    const IS_EXACT: bool = true;

    fn new(layout: &Layout, _account: &Account) -> Self {
        let words = vec![ABSENT; layout.span as usize];
        Self { words, log: Vec::with_capacity(LOG_MIN), tested: 0, candidates: 0, resident: 0 }
    }

    #[inline(always)]
    fn touch(&mut self, page: usize, write: bool) -> bool {
        let Some(word) = self.words.get_mut(page) else { return false };
        if *word < FIRST_PLACE {
            return *word == ZERO && !write;
        }
        *word = place(self.log.len());
        #[expect(clippy::cast_possible_truncation, reason = "it has a word")]
        self.log.push(page as u32);
        true
    }

    #[inline]
    fn touch_row(&mut self, page: u32, _most: u64, write: bool) -> u32 {
        self.touch(page as usize, write).into()
    }

    #[inline]
    fn reserve(&mut self, touches: usize) {
        if self.log.capacity() - self.log.len() < touches + 1 {
            self.compact();
            self.log.reserve(touches + 1);
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
        self.candidates &= self.candidates - 1;
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
