//! Entries that were made inaccessible so that the next use faults (`PROT_NONE`): how NUMA balancing learns which thread uses a
//! page.
//!
//! To the processor such an entry is absent, to the kernel it is present: it keeps its page, its accessed and its dirty bit,
//! reverse maps find it and walks age it. So its bits are cleared in the words that the hit path reads, at no cost for it. All
//! other code reads the words together with these.

use super::{Bits, Chunk, DensePage, Groups, PRESENT, PageTable, WRITABLE};
use crate::memory::FrameId;
use crate::mmu::entry::Entry;
use isotherm_units::PageRange;

/// Index of the bits of pages that are marked, in the groups of marks.
const MARKED: usize = 0;
/// Marked pages that were writable.
const WAS_WRITABLE: usize = 1;

/// Bits of the marked pages among the 64 of a word.
#[inline]
pub(super) fn marked(marks: Option<&Groups>, word: usize) -> u64 {
    marks.map_or(0, |marks| marks[word][MARKED])
}

impl Chunk {
    /// Bits of the pages, of 64, that are present to the kernel.
    #[inline]
    pub(super) fn present(&self, word: usize) -> u64 {
        self.groups[word][PRESENT] | marked(self.marks.as_deref(), word)
    }

    /// Bits of the pages, of 64, that are writable once their marks are off.
    #[inline]
    pub(super) fn writable(&self, word: usize) -> u64 {
        self.stores[word][WRITABLE] | self.marks.as_ref().map_or(0, |marks| marks[word][WAS_WRITABLE])
    }

    /// Takes the marks of pages off, without making them accessible again. Bits of the pages that were marked.
    #[inline]
    pub(super) fn unmark(&mut self, word: usize, bits: u64) -> u64 {
        let Some(marks) = &mut self.marks else { return 0 };
        let was = marks[word][MARKED] & bits;
        debug_assert!(self.groups[word][PRESENT] & was == 0, "a marked page is inaccessible");
        if was != 0 {
            marks[word].iter_mut().for_each(|word| *word &= !bits);
        }
        was
    }

    /// Makes stores to a marked page fault once more when its mark is off.
    #[inline]
    pub(super) fn protect_marked(&mut self, word: usize, bit: u64) {
        if let Some(marks) = &mut self.marks {
            marks[word][WAS_WRITABLE] &= !bit;
        }
    }

    fn mark(&mut self, word: usize, bits: u64) {
        debug_assert!(bits & !self.groups[word][PRESENT] == 0, "only accessible pages are marked");
        let marks = self.marks.get_or_insert_with(|| {
            Box::<Groups>::try_from(vec![[0; 2]; self.groups.len()]).expect("as many as there are words of pages")
        });
        marks[word][MARKED] |= bits;
        marks[word][WAS_WRITABLE] |= self.stores[word][WRITABLE] & bits;
        self.groups[word][PRESENT] &= !bits;
        self.stores[word][WRITABLE] &= !bits;
    }

    fn restore(&mut self, word: usize, bits: u64) {
        let Some(marks) = &mut self.marks else { return };
        let bits = marks[word][MARKED] & bits;
        debug_assert!(self.groups[word][PRESENT] & bits == 0, "a marked page is inaccessible");
        self.groups[word][PRESENT] |= bits;
        self.stores[word][WRITABLE] |= marks[word][WAS_WRITABLE] & bits;
        marks[word].iter_mut().for_each(|word| *word &= !bits);
    }
}

impl PageTable {
    /// Whether the next use of this page faults although it is mapped.
    #[inline]
    pub fn is_marked(&self, dense: DensePage) -> bool {
        let within = dense.within();
        let marks = self.chunks.get(dense.slot()).and_then(|chunk| chunk.marks.as_ref());
        marks.is_some_and(|marks| marks[within / 64][MARKED] >> (within % 64) & 1 != 0)
    }

    /// Makes the pages of `range` inaccessible that have a frame, are not marked yet and are wanted; asks in ascending order.
    /// Returns how many were marked, and how many mapped pages it has read.
    pub fn mark(&mut self, range: PageRange, mut wants: impl FnMut(DensePage, FrameId) -> bool) -> (u64, u64) {
        let pieces: Vec<(usize, usize, usize)> = self.pieces_of(range).collect();
        let (mut nr_marked, mut nr_seen) = (0, 0);
        for (slot, start, end) in pieces {
            for word in start / 64..end.div_ceil(64) {
                let chunk = &self.chunks[slot];
                let mut inside = u64::MAX;
                if word == start / 64 {
                    inside &= u64::MAX << (start % 64);
                }
                if word == end / 64 {
                    inside &= !(u64::MAX << (end % 64));
                }
                nr_seen += u64::from((chunk.present(word) & inside).count_ones());
                let mut marked = 0;
                for bit in Bits(chunk.groups[word][PRESENT] & inside) {
                    let within = word * 64 + bit;
                    let dense = DensePage::at(slot, within);
                    if let Entry::Frame(frame) = chunk.read(within)
                        && wants(dense, frame)
                    {
                        marked |= 1 << bit;
                    }
                }
                if marked == 0 {
                    continue;
                }
                self.chunks[slot].mark(word, marked);
                for bit in Bits(marked) {
                    self.note_unmapped(DensePage::at(slot, word * 64 + bit));
                    nr_marked += 1;
                }
            }
        }
        debug_assert!(nr_marked <= nr_seen, "only pages that were seen are marked");
        (nr_marked, nr_seen)
    }

    /// Makes a [marked](Self::mark) page accessible again as it was.
    pub fn restore(&mut self, dense: DensePage) {
        let within = dense.within();
        self.chunks[dense.slot()].restore(within / 64, 1 << (within % 64));
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{mapped, pace};
    use super::super::{Cursor, Need, Stop};
    use super::*;
    use isotherm_units::access::Run;

    fn touch(table: &mut PageTable, run: Run) -> Stop {
        table.play(&[run], &mut Cursor::default(), &mut pace(99, 1))
    }

    /// Pages that the kernel sees as present.
    fn present(table: &PageTable) -> Vec<u64> {
        table.present_in(PageRange::new(0, 1000)).map(|dense| table.page_of(dense)).collect()
    }

    #[test]
    fn marked_pages_fault_and_are_there_all_the_same() {
        let mut table = mapped(&[10, 63, 64, 65, 700], true);
        for page in [10, 63, 64] {
            assert_eq!(touch(&mut table, Run::write(page, 1)), Stop::Done);
        }
        let odd = |_, frame: FrameId| frame.index_u32() != 1;
        assert_eq!(table.mark(PageRange::new(11, 700), odd), (2, 3), "64 and 65 of three; 10 and 700 are outside");
        assert_eq!(table.mark(PageRange::new(0, 1000), odd), (2, 5), "none is marked twice");
        assert_eq!(present(&table), [10, 63, 64, 65, 700]);
        assert_eq!(table.nr_present(), 5);
        let dense = table.dense(64).unwrap();
        assert!(table.is_marked(dense) && table.is_present(dense) && table.is_writable(dense));
        assert!(table.is_young(dense) && table.is_dirty(dense), "bits stay");
        assert!(table.test_and_clear_young(dense));
        for run in [Run::read(64, 1), Run::read(63, 2)] {
            assert_eq!(touch(&mut table, run), Stop::Fault { page: 64, need: Need::Read });
        }
        assert_eq!(touch(&mut table, Run::write(64, 1)), Stop::Fault { page: 64, need: Need::Write });
        table.restore(dense);
        assert!(!table.is_marked(dense));
        assert_eq!(touch(&mut table, Run::write(64, 1)), Stop::Done, "writable as it was");
        assert_eq!(touch(&mut table, Run::read(63, 2)), Stop::Done);
    }

    #[test]
    fn what_happens_to_a_marked_entry_takes_its_mark_off() {
        let mut table = mapped(&[1, 2, 3, 4], true);
        assert_eq!(table.mark(PageRange::new(0, 9), |_, _| true).0, 4);
        let dense = |table: &PageTable, page| table.dense(page).unwrap();
        let first = dense(&table, 1);
        let taken = table.take(first);
        assert_eq!((taken.entry, taken.young, taken.dirty), (Entry::Frame(FrameId::new(0)), false, false));
        let second = dense(&table, 2);
        table.set_absent(second, Entry::None);
        let third = dense(&table, 3);
        table.set_present(third, Entry::Frame(FrameId::new(9)), false, true, false);
        let fourth = dense(&table, 4);
        table.protect(fourth);
        assert_eq!((present(&table), table.nr_present()), (vec![3, 4], 2));
        assert!(![first, second, third].into_iter().any(|dense| table.is_marked(dense)));
        assert!(!table.is_writable(third), "a new entry is what it was set to");
        table.restore(fourth);
        assert!(table.is_present(fourth) && !table.is_writable(fourth), "write protection holds");
    }
}
