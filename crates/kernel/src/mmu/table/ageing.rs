//! The page table as a walk that ages pages sees it: tables of 512 entries, and their young entries 64 at a time.

use super::hints::marked;
use super::{ACCESSED, CHUNK_MASK, CHUNK_PAGES, CHUNK_SHIFT, DensePage, NO_CHUNK, PRESENT, PageTable, TABLE_PAGES};
use crate::memory::FrameId;
use crate::mmu::entry::Entry;
use isotherm_units::PageRange;

/// Entries that are read at once: the entries of a word.
pub(crate) const GROUP: usize = 64;

/// Number of young entries of a word from which waiting for others gains nothing: they share cache lines.
const MANY: u32 = 16;

/// 64 entries whose accessed bits are read together.
#[derive(Clone, Copy)]
pub(crate) struct Entries<'a>(&'a [u32; GROUP]);

impl Entries<'_> {
    /// The frame that entry `index` shows; the zero page and absent pages have none.
    #[inline]
    pub(crate) fn frame(self, index: usize) -> Option<FrameId> {
        match Entry::unpack(self.0[index]) {
            Entry::Frame(frame) => Some(frame),
            Entry::None | Entry::Zero | Entry::Swap(_) => None,
        }
    }

    /// The frame that the first entry shows, if the other entries show the following frames.
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

/// Young entries of several tables, taken together.
///
/// The effect of a walk on a page depends on a byte of its frame, which the entry names: two fetches from memory, one after the other.
/// Taken one entry at a time, each is waited for; all entries, then all bytes, they overlap.
#[derive(Clone, Debug, Default)]
pub(crate) struct YoungEntries {
    entries: Vec<u32>,
    pages: Vec<DensePage>,
    len: usize,
}

impl YoungEntries {
    /// Entries that are read together. Room is kept for one more table.
    const ENOUGH: usize = 1024;

    /// Without entries.
    pub(crate) fn new() -> Self {
        let room = Self::ENOUGH + TABLE_PAGES;
        Self { entries: vec![0; room], pages: vec![DensePage(0); room], len: 0 }
    }
    pub(crate) const fn len(&self) -> usize {
        self.len
    }
    /// Whether they should be read before the next table.
    pub(crate) const fn is_enough(&self) -> bool {
        self.len >= Self::ENOUGH
    }
    /// The frames shown by entries number `which`, with their places; the zero page has none.
    #[inline]
    pub(crate) fn frames(
        &self,
        which: std::ops::Range<usize>,
    ) -> impl Iterator<Item = (DensePage, Option<FrameId>)> + '_ {
        debug_assert!(which.end <= self.len, "only entries that were taken are shown");
        let shown = |entry: &u32| match Entry::unpack(*entry) {
            Entry::Frame(frame) => Some(frame),
            Entry::None | Entry::Zero | Entry::Swap(_) => None,
        };
        self.pages[which.clone()].iter().copied().zip(self.entries[which].iter().map(shown))
    }
    /// Forgets all.
    pub(crate) const fn clear(&mut self) {
        self.len = 0;
    }
}

impl PageTable {
    /// The first block of 2 MiB (first page / 512) of `blocks` that has a table of entries.
    pub fn next_table(&self, blocks: PageRange) -> Option<u64> {
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

    /// Takes the young entries of `pages`, which lie in one block that has a table, and clears their accessed bits. If many of 64 are young
    /// they are shown to `look_at_once` instead, which returns the ones whose accessed bits are to be cleared. `young` was not
    /// [enough](YoungEntries::is_enough) before the first pages of that table. How many were cleared at once.
    #[inline]
    pub(crate) fn take_young_entries(
        &mut self,
        pages: PageRange,
        young: &mut YoungEntries,
        mut look_at_once: impl FnMut(Entries<'_>, u64) -> u64,
    ) -> u64 {
        // More than enough where a table is taken in parts, mapping by mapping; each of its entries is taken once.
        debug_assert!(young.len + pages.len() as usize <= young.pages.len(), "room is kept for a table more");
        debug_assert!(
            pages.start / TABLE_PAGES as u64 == (pages.end - 1) / TABLE_PAGES as u64,
            "the pages lie under one table"
        );
        let slot = u32::from(self.directory[(pages.start >> CHUNK_SHIFT) as usize]) - 1;
        let chunk = &mut self.chunks[slot as usize];
        let (start, len) = ((pages.start & CHUNK_MASK) as usize, pages.len() as usize);
        let end = start + len;
        let (first, last) = (start / GROUP, end.div_ceil(GROUP));
        let marks = chunk.marks.as_deref();
        let Some(table) = chunk.tables[start / TABLE_PAGES].as_deref() else { return 0 };
        let (mut cleared_at_once, mut len) = (0, young.len);
        for (index, group) in chunk.groups[first..last].iter_mut().enumerate() {
            let mut bits = (group[PRESENT] | marked(marks, first + index)) & group[ACCESSED];
            if bits == 0 {
                continue; // test before clear: a store would materialise untouched memory
            }
            let from = (first + index) * GROUP;
            if from < start {
                bits &= u64::MAX << (start % GROUP);
            }
            if from + GROUP > end {
                bits &= !(u64::MAX << (end % GROUP));
            }
            if bits == u64::MAX || bits.count_ones() >= MANY {
                let entries = table[from % TABLE_PAGES..][..GROUP].first_chunk().expect("64 entries");
                let cleared = look_at_once(Entries(entries), bits);
                debug_assert_eq!(cleared & !bits, 0, "only young entries are cleared");
                group[ACCESSED] &= !cleared;
                cleared_at_once += u64::from(cleared.count_ones());
                continue;
            }
            group[ACCESSED] &= !bits;
            let base = slot << CHUNK_SHIFT | from as u32;
            while bits != 0 {
                young.pages[len] = DensePage(base | bits.trailing_zeros());
                bits &= bits - 1;
                len += 1;
            }
        }
        young.len = len;
        cleared_at_once
    }

    /// Reads the entries of the young pages that were taken. The loop only fetches, so that fetches overlap.
    pub(crate) fn fetch_young_entries(&self, young: &mut YoungEntries) {
        let (entries, pages) = (&mut young.entries[..young.len], &young.pages[..young.len]);
        for (entry, page) in entries.iter_mut().zip(pages) {
            let table = self.chunks[page.slot()].tables[page.within() / TABLE_PAGES].as_deref();
            *entry = table.map_or(0, |table| table[page.within() % TABLE_PAGES]);
        }
    }

    /// Sets the accessed bit again of an entry that was taken and does not belong to the walk.
    pub(crate) fn give_back_young(&mut self, dense: DensePage) {
        debug_assert!(self.is_present(dense) && !self.is_young(dense), "the bit of a mapped page was taken");
        let (group, bit) = self.group_mut(dense);
        group[ACCESSED] |= bit;
    }

    /// Passes the young entries of `pages`, which lie in one block that has a table, to `visit`: 64 entries, with a bit for each young one.
    /// The accessed bits that it returns are cleared.
    #[inline]
    pub(crate) fn age_entries(&mut self, pages: PageRange, mut visit: impl FnMut(Entries<'_>, u64) -> u64) {
        debug_assert!(
            pages.start / TABLE_PAGES as u64 == (pages.end - 1) / TABLE_PAGES as u64,
            "the pages lie under one table"
        );
        let slot = self.directory[(pages.start >> CHUNK_SHIFT) as usize];
        let chunk = &mut self.chunks[usize::from(slot) - 1];
        let (start, len) = ((pages.start & CHUNK_MASK) as usize, pages.len() as usize);
        let end = start + len;
        let Some(table) = chunk.tables[start / TABLE_PAGES].as_deref() else { return };
        let marks = chunk.marks.as_deref();
        let (first, last) = (start / GROUP, end.div_ceil(GROUP));
        for (index, group) in chunk.groups[first..last].iter_mut().enumerate() {
            let at = (first + index) * GROUP;
            let mut young = (group[PRESENT] | marked(marks, first + index)) & group[ACCESSED];
            if at < start {
                young &= u64::MAX << (start % GROUP);
            }
            if at + GROUP > end {
                young &= !(u64::MAX << (end % GROUP));
            }
            if young == 0 {
                continue; // test before clear: a store would materialise untouched memory
            }
            let from = at % TABLE_PAGES;
            let entries = table[from..from + GROUP].first_chunk().expect("64 entries");
            let cleared = visit(Entries(entries), young);
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
        let mut visit = |table: &mut PageTable| {
            table.test_and_clear_young(table.dense(3).unwrap());
            table.mark_touched(table.dense(3).unwrap(), super::super::Need::Read);
            table.age_entries(PageRange::new(0, 64), |entries, _| {
                row = entries.first_of_row();
                0
            });
            row
        };
        assert_eq!(visit(&mut table), Some(FrameId::new(0)));
        let dense = table.dense(40).unwrap();
        table.set_present(dense, Entry::Zero, false, false, false);
        assert_eq!(visit(&mut table), None);
    }

    #[test]
    fn blocks_without_a_table_are_passed_over() {
        let table = mapped(&[600, 5 << 18], false);
        let next = |start, end| table.next_table(PageRange::new(start, end));
        assert_eq!((next(0, 1), next(0, 2), next(1, 9)), (None, Some(1), Some(1)));
        assert_eq!((next(2, 1 << 20), next(2, 5 << 9), next(1 << 30, 1 << 31)), (Some(5 << 9), None, None));
    }
}
