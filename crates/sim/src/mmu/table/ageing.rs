//! The page table as a walk that ages pages sees it: tables of 512 entries, and which of them are young.

use super::{ACCESSED, CHUNK_MASK, CHUNK_PAGES, CHUNK_SHIFT, NO_CHUNK, PRESENT, PageTable, TABLE_PAGES};
use crate::memory::FrameId;
use crate::mmu::entry::Entry;
use isotherm_units::PageRange;

/// Entries of a word.
const WORD: usize = 64;
/// Words of a table.
const WORDS: usize = TABLE_PAGES / WORD;

/// A bit for each entry of a table.
pub(crate) type TableBits = [u64; WORDS];

/// The entries of a table whose accessed bits are looked at together.
#[derive(Clone, Copy)]
pub(crate) struct Looked<'a>(&'a [u32; TABLE_PAGES]);

impl Looked<'_> {
    /// The frame that entry `index` shows; the zero page and absent pages have none.
    #[inline]
    pub(crate) fn frame(self, index: usize) -> Option<FrameId> {
        match Entry::unpack(self.0[index % TABLE_PAGES]) {
            Entry::Frame(frame) => Some(frame),
            Entry::None | Entry::Zero | Entry::Swap(_) => None,
        }
    }

    /// The frame that the first entry of a word shows, if the word's others show those that follow it.
    #[inline]
    pub(crate) fn first_of_row(self, word: usize) -> Option<FrameId> {
        let first = self.frame(word * WORD)?;
        let row: &[u32; WORD] = self.0[word * WORD..].first_chunk()?;
        let mut strays = 0;
        for (entry, offset) in row.iter().zip(0u32..) {
            strays |= entry ^ row[0].wrapping_add(offset);
        }
        (strays == 0).then_some(first)
    }
}

/// The numbers of the set bits, ascending. Few bits are set in most words, and no two words are alike: so the way from word to
/// word takes no branch that would have to be guessed.
#[inline]
pub(crate) fn positions<'a>(bits: &TableBits, out: &'a mut [u16; TABLE_PAGES]) -> &'a [u16] {
    let (mut words, mut nr_words) = ([(0u64, 0u16); WORDS + 1], 0);
    let (mut count, mut base) = (0, 0);
    for &word in bits {
        words[nr_words] = (word, base);
        nr_words += usize::from(word != 0);
        count += word.count_ones() as usize;
        base += WORD as u16;
    }
    words[nr_words] = (0, 0);
    let (mut at, (mut word, mut base)) = (0, words[0]);
    for out in &mut out[..count] {
        *out = base + word.trailing_zeros() as u16;
        word &= word.wrapping_sub(1);
        at += usize::from(word == 0);
        let next = words[at % (WORDS + 1)];
        (word, base) = if word == 0 { next } else { (word, base) };
    }
    &out[..count]
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

    /// Shows the entries of `pages`, which lie in one block that has a table, to `look`, and which of them are young, unless none
    /// is. The accessed bits that it returns are cleared.
    #[inline]
    pub(crate) fn age_entries(&mut self, pages: PageRange, look: impl FnOnce(Looked<'_>, &TableBits) -> TableBits) {
        let slot = self.directory[(pages.start >> CHUNK_SHIFT) as usize];
        let chunk = &mut self.chunks[usize::from(slot) - 1];
        let within = (pages.start & CHUNK_MASK) as usize;
        let (table, from) = (within / TABLE_PAGES, within % TABLE_PAGES);
        let Some(entries) = chunk.tables[table].as_deref() else { return };
        let groups = &mut chunk.groups[table * WORDS..(table + 1) * WORDS];
        let mut young = [0; WORDS];
        for (young, group) in young.iter_mut().zip(&*groups) {
            *young = group[PRESENT] & group[ACCESSED];
        }
        if pages.len() < TABLE_PAGES as u64 {
            let to = from + pages.len() as usize;
            for (index, young) in young.iter_mut().enumerate() {
                *young &= bits_below(to, index) & !bits_below(from, index);
            }
        }
        if young == [0; WORDS] {
            return; // test before clear: a store would materialise untouched memory
        }
        let cleared = look(Looked(entries), &young);
        for ((cleared, young), group) in cleared.iter().zip(young).zip(groups) {
            debug_assert_eq!(cleared & !young, 0, "only young entries are cleared");
            group[ACCESSED] &= !cleared;
        }
    }
}

/// The bits of word `index` that stand for entries before `end`.
const fn bits_below(end: usize, index: usize) -> u64 {
    let first = index * WORD;
    if end <= first {
        0
    } else if end >= first + WORD {
        u64::MAX
    } else {
        !(u64::MAX << (end - first))
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{mapped, pace};
    use super::super::{Cursor, Stop};
    use super::*;
    use isotherm_units::access::Run;

    #[test]
    fn young_entries_are_shown_and_cleared_as_told() {
        let pages: Vec<u64> = (512..900).collect();
        let mut table = mapped(&pages, false);
        let touch = |table: &mut PageTable, page, pages| {
            let stop = table.play(&[Run::read(page, pages)], &mut Cursor::default(), &mut pace(u64::MAX, 1));
            assert_eq!(stop, Stop::Done);
        };
        touch(&mut table, 570, 80);
        let mut seen = Vec::new();
        table.age_entries(PageRange::new(560, 645), |entries, young| {
            seen.extend(young.iter().map(|word| word.count_ones()));
            assert_eq!((entries.frame(58), entries.frame(511)), (Some(FrameId::new(58)), None));
            young.map(|word| word & !1)
        });
        assert_eq!(seen, [6, 64, 5, 0, 0, 0, 0, 0], "570..576, 576..640, 640..645");
        let left: Vec<u64> = pages.iter().copied().filter(|&page| table.is_young(table.dense(page).unwrap())).collect();
        assert_eq!(left, [576, 640, 645, 646, 647, 648, 649], "bit 0 of two words, and what lies behind");
        table.age_entries(PageRange::new(700, 800), |_, _| panic!("none is young"));
    }

    #[test]
    fn positions_are_those_of_the_bits() {
        let mut out = [0; TABLE_PAGES];
        for bits in [[0; WORDS], [u64::MAX; WORDS], [0, 5, 0, 0, 1 << 63, 0, 0, 0], [1, 0, 0, 0, 0, 0, 0, 3 << 62]] {
            let naive: Vec<u16> = (0..512u16).filter(|&at| bits[usize::from(at / 64)] >> (at % 64) & 1 != 0).collect();
            assert_eq!(positions(&bits, &mut out), naive);
        }
    }

    #[test]
    fn a_row_of_frames_is_told_from_others() {
        let mut table = mapped(&(0..128).collect::<Vec<_>>(), false);
        let look = |table: &mut PageTable| {
            let mut rows = [None; 3];
            table.mark_touched(table.dense(3).unwrap(), super::super::Need::Read);
            table.age_entries(PageRange::new(0, 128), |entries, _| {
                rows = [0, 1, 2].map(|word| entries.first_of_row(word));
                [0; WORDS]
            });
            rows
        };
        assert_eq!(look(&mut table), [Some(FrameId::new(0)), Some(FrameId::new(64)), None]);
        let dense = table.dense(40).unwrap();
        table.set_present(dense, Entry::Zero, false, false, false);
        assert_eq!(look(&mut table), [None, Some(FrameId::new(64)), None]);
    }

    #[test]
    fn blocks_without_a_table_are_passed_over() {
        let table = mapped(&[600, 5 << 18], false);
        let next = |start, end| table.next_table(PageRange::new(start, end));
        assert_eq!((next(0, 1), next(0, 2), next(1, 9)), (None, Some(1), Some(1)));
        assert_eq!((next(2, 1 << 20), next(2, 5 << 9), next(1 << 30, 1 << 31)), (Some(5 << 9), None, None));
    }
}
