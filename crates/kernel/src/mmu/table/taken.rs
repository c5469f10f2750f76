//! Entries taken out of the table, one or up to 64 at a time: unmapping and exit.

use super::{ACCESSED, DIRTY, DensePage, Entry, PRESENT, PageTable, TABLE_PAGES};
use isotherm_units::PageRange;

/// An entry that was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Taken {
    pub(crate) dense: DensePage,
    pub(crate) entry: Entry,
    /// It was young.
    pub(crate) young: bool,
    /// It was dirty.
    pub(crate) dirty: bool,
}

/// Pages with entries among 64 that share their words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PopulatedWord {
    /// The first of the 64.
    first: DensePage,
    bits: u64,
}

impl PopulatedWord {
    /// How many there are.
    pub(crate) const fn nr_pages(self) -> u32 {
        self.bits.count_ones()
    }
}

impl PageTable {
    /// The pages of `range` with a non-empty entry (present or swapped), ascending.
    pub(crate) fn populated_words(&self, range: PageRange) -> Vec<PopulatedWord> {
        let mut words = Vec::new();
        for (slot, start, end) in self.pieces_of(range) {
            let tables = &self.chunks[slot].tables;
            for index in start / 64..end.div_ceil(64) {
                let first = index * 64;
                let Some(table) = &tables[first / TABLE_PAGES] else { continue };
                let entries = &table[first % TABLE_PAGES..][..64];
                let used = entries.iter().rev().fold(0, |bits, &entry| bits << 1 | u64::from(entry != 0));
                let bits =
                    used & u64::MAX << (start.max(first) - first) & u64::MAX >> (first + 64 - end.min(first + 64));
                if bits != 0 {
                    words.push(PopulatedWord { first: DensePage::at(slot, first), bits });
                }
            }
        }
        words
    }

    /// Empties the entry of a page.
    pub(crate) fn take(&mut self, dense: DensePage) -> Taken {
        let within = dense.within() % 64;
        let mut taken = [Taken { dense, entry: Entry::None, young: false, dirty: false }];
        let word = PopulatedWord { first: DensePage(dense.0 - within as u32), bits: 1 << within };
        self.take_each(word, |one| taken[0] = one);
        taken[0]
    }

    /// Empties entries that share their words, and appends them to `taken` in their order.
    pub(crate) fn take_word(&mut self, word: PopulatedWord, taken: &mut Vec<Taken>) {
        self.take_each(word, |one| taken.push(one));
    }

    #[inline]
    fn take_each(&mut self, word: PopulatedWord, mut each: impl FnMut(Taken)) {
        let PopulatedWord { first, bits } = word;
        let within = first.within();
        let chunk = &mut self.chunks[first.slot()];
        let was_marked = chunk.unmark(within / 64, bits);
        let (group, stores) = (&mut chunk.groups[within / 64], &mut chunk.stores[within / 64]);
        let present = group[PRESENT] & bits | was_marked;
        let (young, dirty) = (group[ACCESSED], stores[DIRTY]);
        if present != 0 {
            group.iter_mut().chain(stores).for_each(|word| *word &= !present);
        }
        let mut no_entries = [0; 64];
        let entries = match &mut chunk.tables[within / TABLE_PAGES] {
            Some(table) => &mut table[within % TABLE_PAGES..][..64],
            None => &mut no_entries[..],
        };
        for at in super::Bits(bits) {
            each(Taken {
                dense: DensePage(first.0 + at as u32),
                entry: Entry::unpack(std::mem::take(&mut entries[at])),
                young: young >> at & 1 != 0,
                dirty: dirty >> at & 1 != 0,
            });
        }
        debug_assert!(self.nr_present >= u64::from(present.count_ones()), "present pages were counted");
        self.nr_present -= u64::from(present.count_ones());
        if self.extension.kind.translated {
            super::Bits(present).for_each(|at| self.note_unmapped(DensePage(first.0 + at as u32)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::CHUNK_SHIFT;
    use super::super::tests::mapped;
    use super::*;
    use crate::mmu::Need;
    use crate::swap::SlotId;

    /// Parts of two words, one with a swapped page in it, and a word of another chunk, as one page after the other.
    #[test]
    fn words_go_as_page_by_page() {
        let pages: Vec<u64> = (3..9).chain(60..70).chain([130, 1 << CHUNK_SHIFT, (1 << CHUNK_SHIFT) + 63]).collect();
        let mut by_word = mapped(&pages, true);
        let dense = |page| by_word.dense(page).unwrap();
        let (swapped, young, dirty) = (dense(61), dense(62), dense(64));
        by_word.set_absent(swapped, Entry::Swap(SlotId::new(7)));
        by_word.mark_touched(young, Need::Read);
        by_word.mark_touched(dirty, Need::Write);
        let mut by_page = by_word.clone();
        for range in [PageRange::new(4, 66), PageRange::new(0, 2 << CHUNK_SHIFT), PageRange::new(5, 5)] {
            let one_by_one: Vec<Taken> =
                by_page.collect_populated(range).into_iter().map(|dense| by_page.take(dense)).collect();
            let words = by_word.populated_words(range);
            let mut together = Vec::new();
            words.iter().for_each(|&word| by_word.take_word(word, &mut together));
            assert_eq!(together, one_by_one);
            assert_eq!(words.iter().map(|word| word.nr_pages() as usize).sum::<usize>(), together.len());
            assert_eq!(by_word.nr_present(), by_page.nr_present());
            assert!(together.iter().all(|taken| taken.young == [young, dirty].contains(&taken.dense)));
        }
        assert_eq!((by_word.nr_present(), by_word.collect_populated(PageRange::new(0, 2 << CHUNK_SHIFT))), (0, vec![]));
    }
}
