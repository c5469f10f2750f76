//! The changes of entries that every fault and every eviction makes, for callers that know the old contents.

use super::{ACCESSED, CHUNK_MASK, Chunk, DIRTY, DensePage, Entry, PRESENT, PageTable, TABLE_PAGES, WRITABLE};
use crate::memory::FrameId;
use crate::swap::SlotId;
use isotherm_units::PageRange;

impl PageTable {
    /// Replaces the entry of a present page by its slot and drops all hardware bits.
    #[inline(always)]
    pub(crate) fn swap_out(&mut self, dense: DensePage, slot: SlotId) {
        let within = dense.within();
        let chunk = &mut self.chunks[dense.slot()];
        let (word, bit) = (within / 64, 1 << (within % 64));
        let was_marked = chunk.unmark(word, bit) != 0;
        debug_assert!(was_marked || chunk.groups[word][PRESENT] & bit != 0, "the page is mapped");
        chunk.groups[word].iter_mut().for_each(|word| *word &= !bit);
        chunk.stores[word].iter_mut().for_each(|word| *word &= !bit);
        chunk.write(within, Entry::Swap(slot));
        debug_assert!(self.nr_present > 0, "a present page was counted");
        self.nr_present -= 1;
        self.note_unmapped(dense);
    }

    /// Shows `frame` where nothing is mapped, writable and just touched, by a store if `dirty`.
    #[inline(always)]
    pub(crate) fn set_present_anew(&mut self, dense: DensePage, frame: FrameId, dirty: bool) {
        debug_assert!(!self.is_present(dense) && !self.is_marked(dense), "the page is not mapped");
        let within = dense.within();
        let chunk = &mut self.chunks[dense.slot()];
        let (word, bit) = (within / 64, 1 << (within % 64));
        let (group, stores) = (&mut chunk.groups[word], &mut chunk.stores[word]);
        debug_assert!(
            (stores[WRITABLE] | stores[DIRTY]) & bit == 0,
            "nothing is stored through an entry that is absent"
        );
        group[PRESENT] |= bit;
        group[ACCESSED] |= bit;
        stores[WRITABLE] |= bit;
        stores[DIRTY] |= if dirty { bit } else { 0 };
        chunk.write(within, Entry::Frame(frame));
        chunk.upper.settle(within);
        self.nr_present += 1;
        self.note_class(dense, Entry::Frame(frame));
    }

    /// Which pages of `range`, at most 64 around `dense`, have no entry at all: bit i for page i of the range.
    pub(crate) fn lacking_around(&self, dense: DensePage, range: PageRange) -> u64 {
        let chunk = &self.chunks[dense.slot()];
        let Some(entries) = &chunk.tables[dense.within() / TABLE_PAGES] else { return u64::MAX };
        let from = (range.start & CHUNK_MASK) as usize % TABLE_PAGES;
        let of_range = entries[from..].iter().take(usize::try_from(range.len()).expect("at most 64"));
        of_range.enumerate().fold(0, |bits, (at, &entry)| bits | u64::from(entry == Entry::None.pack()) << at)
    }

    /// Shows frames at virtual pages, just read, wherever nothing was mapped yet. All of `pages` lie in the 64 around `dense`. Returns
    /// which of them were mapped, bit i for entry i: the same as [`set_present`](Self::set_present) page by page, with one read of their
    /// common data.
    pub(crate) fn map_around(&mut self, dense: DensePage, pages: &[(u64, FrameId)], writable: bool) -> u64 {
        if pages.is_empty() {
            return 0;
        }
        let (slot, word) = (dense.slot(), dense.within() / 64);
        let chunk = &mut self.chunks[slot];
        // Entries are made with the first page, which would be mapped where there are none.
        let first = word * 64;
        let entries = Chunk::table_mut(&mut chunk.tables, &mut chunk.upper, first);
        let (mut mapped, mut bits) = (0, 0);
        for (at, &(page, frame)) in pages.iter().enumerate() {
            let within = (page & CHUNK_MASK) as usize;
            debug_assert!(within / 64 == word && chunk.first_page == page & !CHUNK_MASK, "{page} lies in the 64");
            let entry = &mut entries[within % TABLE_PAGES];
            if *entry == Entry::None.pack() {
                *entry = Entry::Frame(frame).pack();
                mapped |= 1 << at;
                bits |= 1 << (within % 64);
            }
        }
        if bits == 0 {
            return 0;
        }
        let (group, stores) = (&mut chunk.groups[word], &mut chunk.stores[word]);
        debug_assert!(group[PRESENT] & bits == 0, "what has no entry is not present");
        group[PRESENT] |= bits;
        group[ACCESSED] |= bits;
        if writable || *stores != [0; 2] {
            stores[WRITABLE] = if writable { stores[WRITABLE] | bits } else { stores[WRITABLE] & !bits };
            stores[DIRTY] &= !bits;
        }
        chunk.upper.settle(first);
        self.nr_present += u64::from(bits.count_ones());
        if self.has_classes() {
            for (_, &(page, frame)) in pages.iter().enumerate().filter(|&(at, _)| mapped >> at & 1 != 0) {
                self.note_class(DensePage::at(slot, (page & CHUNK_MASK) as usize), Entry::Frame(frame));
            }
        }
        mapped
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::mapped;
    use super::*;

    /// The same as the general changes, page by page of a word.
    #[test]
    fn entries_change_as_by_the_general_ways() {
        let pages: Vec<u64> = (60..70).collect();
        let (mut quick, mut general) = (mapped(&pages, true), mapped(&pages, true));
        let look = |table: &PageTable| {
            let each = |page| {
                let dense = table.dense(page).unwrap();
                let bits =
                    [table.is_present(dense), table.is_writable(dense), table.is_young(dense), table.is_dirty(dense)];
                (table.entry(dense), bits)
            };
            (table.nr_present(), (58..72).map(each).collect::<Vec<_>>())
        };
        for page in [63, 64, 69] {
            let dense = quick.dense(page).unwrap();
            quick.swap_out(dense, SlotId::new(7));
            general.set_absent(dense, Entry::Swap(SlotId::new(7)));
            assert_eq!(look(&quick), look(&general), "{page}");
        }
        for (page, dirty) in [(64, true), (63, false), (58, true)] {
            let dense = quick.dense(page).unwrap();
            quick.set_present_anew(dense, FrameId::new(3), dirty);
            general.set_present(dense, Entry::Frame(FrameId::new(3)), true, true, dirty);
            assert_eq!(look(&quick), look(&general), "{page}");
        }
    }

    #[test]
    fn neighbours_are_mapped_as_page_by_page() {
        for (writable, stored) in [(false, false), (false, true), (true, false)] {
            let mut tables = [0, 1].map(|_| mapped(&[66, 70], stored));
            let [around, general] = &mut tables;
            let pages: Vec<(u64, FrameId)> = (64..80).map(|page| (page, FrameId::new(100 + page as u32))).collect();
            let at = around.dense(64).unwrap();
            for part in [&pages[..0], &pages[1..8], &pages[2..3], &pages] {
                let mut by_page = 0;
                for (at, &(page, frame)) in part.iter().enumerate() {
                    let dense = general.dense(page).unwrap();
                    if general.entry(dense) == Entry::None {
                        general.set_present(dense, Entry::Frame(frame), writable, true, false);
                        by_page |= 1 << at;
                    }
                }
                assert_eq!(around.map_around(at, part, writable), by_page);
                let look = |table: &PageTable| {
                    let each = |page| {
                        let dense = table.dense(page).unwrap();
                        let bits = [table.is_writable(dense), table.is_young(dense), table.is_dirty(dense)];
                        (table.entry(dense), table.is_present(dense), bits)
                    };
                    (table.nr_present(), (60..90).map(each).collect::<Vec<_>>())
                };
                assert_eq!(look(around), look(general));
            }
        }
    }
}
