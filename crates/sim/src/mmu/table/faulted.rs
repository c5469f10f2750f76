//! The two changes of an entry that every fault and every eviction makes, where it is known what was there before.

use super::{ACCESSED, DIRTY, DensePage, Entry, PRESENT, PageTable, WRITABLE};
use crate::memory::FrameId;
use crate::swap::SlotId;

impl PageTable {
    /// Replaces the entry of a present page by its slot and drops all hardware bits.
    #[inline]
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
    #[inline]
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
}
