//! The bits of a process's page table, and what is known of pages that are absent.

/// Entry of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// Never written.
    Absent,
    /// Read and never written: the page of zeroes.
    Zero,
    Swapped,
    Resident,
}

/// Words of 64 pages, next to each other: a fault reads and writes all of them.
#[derive(Clone, Debug)]
pub(super) struct Bits(Vec<[u64; 4]>);

/// May be read.
const PRESENT: usize = 0;
/// May be written. A page of the process's own always is; the page of zeroes never.
const WRITABLE: usize = 1;
const ACCESSED: usize = 2;
const SWAPPED: usize = 3;

impl Bits {
    pub(super) fn new(pages: usize) -> Self {
        Self(vec![[0; 4]; pages.div_ceil(64)])
    }

    /// Uses a page, if its entry permits that.
    #[inline(always)]
    pub(super) fn touch(&mut self, page: u32, write: bool) -> bool {
        let Some(words) = self.0.get_mut(page as usize / 64) else { return false };
        let bit = 1 << (page % 64);
        let permitted = if write { words[WRITABLE] } else { words[PRESENT] };
        if permitted & bit == 0 {
            return false;
        }
        words[ACCESSED] |= bit;
        true
    }

    /// Uses pages from `page` on as far as their entries permit it, at most `most` and none beyond its word. Returns how many.
    #[inline]
    pub(super) fn touch_row(&mut self, page: u32, most: u64, write: bool) -> u32 {
        let (words, first) = (&mut self.0[page as usize / 64], page % 64);
        let permitted = if write { words[WRITABLE] } else { words[PRESENT] } >> first;
        let hits = most.min((!permitted).trailing_zeros().min(64 - first).into());
        if hits > 0 {
            words[ACCESSED] |= (u64::MAX >> (64 - hits)) << first;
        }
        u32::try_from(hits).expect("at most 64")
    }

    #[inline]
    pub(super) fn state(&self, page: u32) -> State {
        let (words, bit) = (&self.0[page as usize / 64], 1u64 << (page % 64));
        match (words[WRITABLE] & bit != 0, words[SWAPPED] & bit != 0, words[PRESENT] & bit != 0) {
            (true, ..) => State::Resident,
            (_, true, _) => State::Swapped,
            (.., true) => State::Zero,
            _ => State::Absent,
        }
    }

    /// A page is mapped by a fault; `accessed`: the access that follows sets its bit.
    #[inline]
    pub(super) fn map(&mut self, page: u32, accessed: bool) {
        let (words, bit) = (&mut self.0[page as usize / 64], 1u64 << (page % 64));
        words[PRESENT] |= bit;
        words[WRITABLE] |= bit;
        words[SWAPPED] &= !bit;
        words[ACCESSED] = words[ACCESSED] & !bit | if accessed { bit } else { 0 };
    }

    /// The page of zeroes is mapped.
    #[inline]
    pub(super) fn map_zero(&mut self, page: u32) {
        let (words, bit) = (&mut self.0[page as usize / 64], 1u64 << (page % 64));
        words[PRESENT] |= bit;
        words[ACCESSED] |= bit;
    }

    #[inline]
    pub(super) fn swap_out(&mut self, page: u32) {
        let (words, bit) = (&mut self.0[page as usize / 64], 1u64 << (page % 64));
        words[PRESENT] &= !bit;
        words[WRITABLE] &= !bit;
        words[ACCESSED] &= !bit;
        words[SWAPPED] |= bit;
    }

    /// Reads and clears the accessed bit.
    #[inline]
    pub(super) fn take_young(&mut self, page: u32) -> bool {
        let (words, bit) = (&mut self.0[page as usize / 64], 1u64 << (page % 64));
        let was_young = words[ACCESSED] & bit != 0;
        words[ACCESSED] &= !bit;
        was_young
    }

    /// Young pages of the process's own among the 64 of a word.
    #[inline]
    pub(super) fn young_of_word(&self, word: u64) -> u64 {
        let words = &self.0[word as usize];
        words[ACCESSED] & words[WRITABLE]
    }

    #[inline]
    pub(super) fn clear_young(&mut self, word: u64, bits: u64) {
        self.0[word as usize][ACCESSED] &= !bits;
    }

    /// Reads the words of a page, so that they are in the host's caches.
    #[inline]
    pub(super) fn warm(&self, page: u32) -> u64 {
        self.0.get(page as usize / 64).map_or(0, |words| words[PRESENT])
    }
}
