//! The page table as a walk that ages pages sees it: tables of 512 entries, and their young entries 64 at a time.

use super::{ACCESSED, CHUNK_MASK, CHUNK_PAGES, CHUNK_SHIFT, NO_CHUNK, PRESENT, PageTable, TABLE_PAGES};
use crate::memory::FrameId;
use crate::mmu::entry::Entry;
use isotherm_units::PageRange;

/// Entries that one look serves: those of a word.
pub(crate) const LOOK: usize = 64;

/// 64 entries whose accessed bits are looked at together.
#[derive(Clone, Copy)]
pub(crate) struct Looked<'a>(&'a [u32; LOOK]);

impl Looked<'_> {
    /// The frame that entry `index` shows; the zero page and absent pages have none.
    #[inline]
    pub(crate) fn frame(self, index: usize) -> Option<FrameId> {
        match Entry::unpack(self.0[index]) {
            Entry::Frame(frame) => Some(frame),
            Entry::None | Entry::Zero | Entry::Swap(_) => None,
        }
    }

    /// The frame that the first entry shows, if the others show those that follow it.
    #[inline]
    pub(crate) fn first_of_row(self) -> Option<FrameId> {
        let first = self.frame(0)?;
        let mut strays = 0;
        for (entry, offset) in self.0.iter().zip(0u32..) {
            strays |= entry ^ self.0[0].wrapping_add(offset);
        }
        (strays == 0).then_some(first)
    }
}

impl PageTable {
    /// The first block of 2 MiB (first page / 512) of `blocks` that has a table of entries.
    pub(crate) fn next_table(&self, blocks: PageRange) -> Option<u64> {
        let tables_of_chunk = CHUNK_PAGES / TABLE_PAGES as u64;
        let mut block = blocks.start;
        while block < blocks.end {
            let high = usize::try_from(block / tables_of_chunk).ok()?;
            let slot = *self.directory.get(high)?;
            let end = ((block / tables_of_chunk + 1) * tables_of_chunk).min(blocks.end);
            if slot != NO_CHUNK {
                let tables = &self.chunks[usize::from(slot) - 1].tables;
                let at = |block: u64| (block % tables_of_chunk) as usize;
                if let Some(found) = (block..end).find(|&block| tables[at(block)].is_some()) {
                    return Some(found);
                }
            }
            block = end;
        }
        None
    }

    /// Shows the young entries of `pages`, which lie in one block that has a table, to `look`: 64 entries, and which of them
    /// are young. The accessed bits that it returns are cleared.
    #[inline]
    pub(crate) fn age_entries(&mut self, pages: PageRange, mut look: impl FnMut(Looked<'_>, u64) -> u64) {
        let slot = self.directory[(pages.start >> CHUNK_SHIFT) as usize];
        let chunk = &mut self.chunks[usize::from(slot) - 1];
        let (start, len) = ((pages.start & CHUNK_MASK) as usize, pages.len() as usize);
        let end = start + len;
        let Some(table) = chunk.tables[start / TABLE_PAGES].as_deref() else { return };
        let (first, last) = (start / LOOK, end.div_ceil(LOOK));
        for (index, group) in chunk.groups[first..last].iter_mut().enumerate() {
            let at = (first + index) * LOOK;
            let mut young = group[PRESENT] & group[ACCESSED];
            if at < start {
                young &= u64::MAX << (start % LOOK);
            }
            if at + LOOK > end {
                young &= !(u64::MAX << (end % LOOK));
            }
            if young == 0 {
                continue; // test before clear: a store would materialise untouched memory
            }
            let from = at % TABLE_PAGES;
            let entries = table[from..from + LOOK].first_chunk().expect("64 entries");
            let cleared = look(Looked(entries), young);
            debug_assert_eq!(cleared & !young, 0, "only young entries are cleared");
            group[ACCESSED] &= !cleared;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{mapped, pace};
    use super::super::{Cursor, Stop};
    use super::*;
    use isotherm_units::access::Run;

    #[test]
    fn young_entries_are_shown_by_words_and_cleared_as_told() {
        let pages: Vec<u64> = (512..900).collect();
        let mut table = mapped(&pages, false);
        let touch = |table: &mut PageTable, page, pages| {
            let stop = table.play(&[Run::read(page, pages)], &mut Cursor::default(), &mut pace(u64::MAX, 1));
            assert_eq!(stop, Stop::Done);
        };
        touch(&mut table, 570, 80);
        let mut seen = Vec::new();
        table.age_entries(PageRange::new(560, 645), |entries, young| {
            seen.push((young.count_ones(), entries.first_of_row().is_some()));
            young & !1
        });
        assert_eq!(seen, [(6, true), (64, true), (5, true)], "570..576, 576..640, 640..645");
        let left: Vec<u64> = pages.iter().copied().filter(|&page| table.is_young(table.dense(page).unwrap())).collect();
        assert_eq!(left, [576, 640, 645, 646, 647, 648, 649], "bit 0 of two words, and what lies behind");
    }

    #[test]
    fn a_row_of_frames_is_told_from_others() {
        let mut table = mapped(&(0..64).collect::<Vec<_>>(), false);
        let mut row = None;
        let mut look = |table: &mut PageTable| {
            table.test_and_clear_young(table.dense(3).unwrap());
            table.mark_touched(table.dense(3).unwrap(), super::super::Need::Read);
            table.age_entries(PageRange::new(0, 64), |entries, _| {
                row = entries.first_of_row();
                0
            });
            row
        };
        assert_eq!(look(&mut table), Some(FrameId::new(0)));
        let dense = table.dense(40).unwrap();
        table.set_present(dense, Entry::Zero, false, false, false);
        assert_eq!(look(&mut table), None);
    }

    #[test]
    fn blocks_without_a_table_are_passed_over() {
        let table = mapped(&[600, 5 << 18], false);
        let next = |start, end| table.next_table(PageRange::new(start, end));
        assert_eq!((next(0, 1), next(0, 2), next(1, 9)), (None, Some(1), Some(1)));
        assert_eq!((next(2, 1 << 20), next(2, 5 << 9), next(1 << 30, 1 << 31)), (Some(5 << 9), None, None));
    }
}
