//! The page table as seen by probes of accessed bits: entries by level and address, tables of 512 entries.

use super::super::premapped::Children;
use super::hints::marked;
use super::{ACCESSED, CHUNK_PAGES, CHUNK_SHIFT, Chunk, DensePage, Level, PRESENT, PageTable, TABLE_PAGES};
use std::collections::BTreeSet;

/// The result of a walk towards a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// No entry: the walk ended at an empty entry of this level.
    Nothing(Level),
    /// An entry that points to a table, at the wanted level.
    Table(Level),
    /// The entry that maps the page, at the wanted level or above. Premapped memory has no dense page.
    Leaf(Level, Option<DensePage>),
}

/// The chunks below an entry, in address order. `used` are the entries of the directory that have one.
fn chunks_below<'a>(
    directory: &'a [u16],
    used: &'a [u32],
    level: Level,
    page: u64,
) -> impl Iterator<Item = usize> + 'a {
    let first = (page >> level.span_shift() << level.span_shift()) >> CHUNK_SHIFT;
    let end = first + (level.span_pages() >> CHUNK_SHIFT).max(1);
    let below = |high: u64| used.partition_point(|&entry| u64::from(entry) < high);
    let used = &used[below(first)..below(end)];
    used.iter().map(|&entry| usize::from(directory[entry as usize]) - 1)
}

impl PageTable {
    /// Walks towards `page` down to `wanted`, or to the leaf above it. `huge` holds the blocks under one entry.
    pub fn find(&self, page: u64, wanted: Level, huge: &BTreeSet<u64>) -> Found {
        if let Some(leaf) = self.premapped().and_then(|premapped| premapped.leaf_level(page)) {
            return if wanted <= leaf { Found::Leaf(leaf, None) } else { Found::Table(wanted) };
        }
        if wanted <= Level::PMD && !huge.is_empty() && huge.contains(&(page >> Level::PMD.span_shift())) {
            return Found::Leaf(Level::PMD, self.dense(page));
        }
        if wanted == Level::LEAF {
            if let Some(dense) = self.dense(page).filter(|&dense| self.is_present(dense)) {
                return Found::Leaf(Level::LEAF, Some(dense));
            }
        } else if self.has_table(wanted, page) {
            return Found::Table(wanted);
        }
        let missing = Level::UPPER.into_iter().rev().filter(|&level| level >= wanted);
        Found::Nothing(missing.into_iter().find(|&level| !self.has_table(level, page)).unwrap_or(wanted))
    }

    /// Whether there is a table with the entry of this page.
    #[inline]
    pub fn has_leaf_table(&self, dense: DensePage) -> bool {
        self.chunks[dense.slot()].tables[dense.within() / TABLE_PAGES].is_some()
    }

    /// Whether the entry at `level` on the way to `page` points to a table or is a leaf.
    fn has_table(&self, level: Level, page: u64) -> bool {
        debug_assert!(level > Level::LEAF, "no table hangs below a page");
        if self.premapped().is_some_and(|premapped| premapped.has_entry(level, page)) {
            return true;
        }
        let mut chunks = chunks_below(&self.directory, &self.used, level, page);
        match level {
            Level::PMD => {
                chunks.next().is_some_and(|slot| self.chunks[slot].tables[within(page) / TABLE_PAGES].is_some())
            }
            _ => chunks.next().is_some(),
        }
    }

    /// The accessed bit of the entry at `level` on the way to `page`.
    pub fn is_entry_young(&self, level: Level, page: u64) -> bool {
        if self.premapped().is_some_and(|premapped| premapped.test(level, page)) {
            return true;
        }
        match level {
            Level::LEAF => self.dense(page).is_some_and(|dense| self.is_young(dense)),
            _ => {
                let in_chunk = chunk_page(level, page);
                chunks_below(&self.directory, &self.used, level, page)
                    .any(|slot| self.chunks[slot].upper.test(level, in_chunk))
            }
        }
    }

    /// Reads and clears the accessed bit of the entry at `level` on the way to `page`.
    pub fn take_entry_young(&mut self, level: Level, page: u64) -> bool {
        let mut was = self.extension.premapped.as_mut().is_some_and(|premapped| premapped.test_and_clear(level, page));
        if level == Level::LEAF {
            return was | self.dense(page).is_some_and(|dense| self.test_and_clear_young(dense));
        }
        let in_chunk = chunk_page(level, page);
        for slot in chunks_below(&self.directory, &self.used, level, page) {
            was |= self.chunks[slot].upper.test_and_clear(level, in_chunk, CHUNK_PAGES);
        }
        was
    }

    /// Reads and clears the accessed bits of the 512 entries in the table that the entry at `parent` on the way to `page`
    /// points to, in address order.
    pub fn take_children(&mut self, parent: Level, page: u64) -> Children {
        debug_assert!(parent > Level::LEAF, "no table hangs below a page");
        let mut out = [0; 8];
        if let Some(premapped) = &mut self.extension.premapped {
            premapped.take_children(parent, page, &mut out);
        }
        let first = page >> parent.span_shift() << parent.span_shift();
        for slot in chunks_below(&self.directory, &self.used, parent, page) {
            let chunk = &mut self.chunks[slot];
            match parent {
                Level::PMD => chunk.take_leaves(within(first), &mut out),
                Level::PUD => chunk.upper.take_pmds(&mut out),
                _ => {
                    let child = if parent == Level::P4D { Level::PUD } else { Level::P4D };
                    if chunk.upper.test_and_clear(child, 0, CHUNK_PAGES) {
                        let index = usize::try_from((chunk.first_page - first) >> child.span_shift()).expect("of 512");
                        out[index / 64] |= 1 << (index % 64);
                    }
                }
            }
        }
        out
    }
}

impl Chunk {
    /// Takes the accessed bits of the present pages among the 512 from chunk page `first`.
    fn take_leaves(&mut self, first: usize, out: &mut Children) {
        debug_assert!(first.is_multiple_of(TABLE_PAGES), "a table begins with its first page");
        let marks = self.marks.as_deref();
        let words = first / 64..;
        for ((out, group), word) in out.iter_mut().zip(&mut self.groups[first / 64..first / 64 + 8]).zip(words) {
            let young = group[ACCESSED] & (group[PRESENT] | marked(marks, word));
            if young != 0 {
                *out |= young;
                group[ACCESSED] &= !young;
            }
        }
    }
}

fn within(page: u64) -> usize {
    (page & (CHUNK_PAGES - 1)) as usize
}

/// The page in the chunk by which its upper bits are found: of entries that span more than a chunk, each has a share.
fn chunk_page(level: Level, page: u64) -> usize {
    if level.span_pages() > CHUNK_PAGES { 0 } else { within(page) }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{mapped, pace};
    use super::super::{Cursor, Stop};
    use super::*;
    use isotherm_units::PageRange;
    use isotherm_units::access::Run;

    const GIB: u64 = 1 << 18;
    const NO_HUGE: BTreeSet<u64> = BTreeSet::new();

    fn touch(table: &mut PageTable, page: u64) {
        let stop = table.play_in(
            &mut super::super::super::translation::Off,
            &NO_HUGE,
            &[Run::read(page, 1)],
            &mut Cursor::default(),
            &mut pace(9, 1),
        );
        assert_eq!(stop, Stop::Done);
    }

    /// T6: the kernel enters new tables with their accessed bits set.
    #[test]
    fn t6_a_fresh_entry_reads_accessed_until_it_is_cleared() {
        let mut table = mapped(&[5, 5 * GIB], false);
        for level in Level::UPPER {
            assert!(table.is_entry_young(level, 5), "{level:?} is preset");
            assert!(table.take_entry_young(level, 5));
            assert!(!table.is_entry_young(level, 5), "{level:?} after the clear");
        }
        assert!(table.is_entry_young(Level::PUD, 5 * GIB), "another entry of 1 GiB");
        touch(&mut table, 5);
        assert!([Level::PMD, Level::PUD, Level::P4D].into_iter().all(|level| table.is_entry_young(level, 5)));
        assert!(!table.is_entry_young(Level::PGD, 5), "four levels end at 512 GiB");
    }

    #[test]
    fn a_walk_finds_tables_leaves_and_holes() {
        let mut table = mapped(&[5, 600], false);
        table.premap(PageRange::new(GIB + 100, 3 * GIB), true);
        let leaf = |page: u64| Found::Leaf(Level::LEAF, table.dense(page));
        let cases = [
            (5, Level::LEAF, leaf(5)),
            (6, Level::LEAF, Found::Nothing(Level::LEAF)),
            (6, Level::PMD, Found::Table(Level::PMD)),
            (2000, Level::LEAF, Found::Nothing(Level::PMD)),
            (2000, Level::PUD, Found::Table(Level::PUD)),
            (600 * GIB, Level::LEAF, Found::Nothing(Level::P4D)),
            (GIB + 200, Level::LEAF, Found::Leaf(Level::LEAF, None)),
            (GIB + 600, Level::LEAF, Found::Leaf(Level::PMD, None)),
            (GIB + 600, Level::PUD, Found::Table(Level::PUD)),
            (GIB + 50, Level::LEAF, Found::Nothing(Level::LEAF)),
            (3 * GIB, Level::PUD, Found::Nothing(Level::PUD)),
        ];
        for (page, wanted, found) in cases {
            assert_eq!(table.find(page, wanted, &NO_HUGE), found, "{page:#x} at {wanted:?}");
        }
        let huge = BTreeSet::from([1]);
        assert_eq!(table.find(600, Level::LEAF, &huge), Found::Leaf(Level::PMD, table.dense(600)));
    }

    /// Premapped memory and ordinary pages answer the same questions alike, at every level.
    #[test]
    fn ground_and_pages_agree() {
        let pages: Vec<u64> = [0, 3, 511, 512, 70_000, GIB - 1, GIB, 512 * GIB + 9, 700 * GIB].to_vec();
        let mut dense = mapped(&pages, false);
        let mut premapped = PageTable::new();
        pages.iter().for_each(|&page| premapped.premap(PageRange::at(page, 1), false));
        let all = [Level::LEAF, Level::PMD, Level::PUD, Level::P4D, Level::PGD];
        for round in 0..4usize {
            for table in [&mut dense, &mut premapped] {
                pages.iter().skip(round).step_by(2).for_each(|&page| touch(table, page));
            }
            for &page in &pages {
                for level in all {
                    let answers = [&dense, &premapped].map(|table| table.is_entry_young(level, page));
                    assert_eq!(answers[0], answers[1], "{page:#x} {level:?} round {round}");
                }
            }
            for level in Level::UPPER {
                for &page in &pages {
                    assert_eq!(
                        dense.take_children(level, page),
                        premapped.take_children(level, page),
                        "{page:#x} {level:?}"
                    );
                }
            }
            let level = all[round + 1];
            for &page in &pages {
                assert_eq!(dense.take_entry_young(level, page), premapped.take_entry_young(level, page));
            }
        }
    }

    #[test]
    fn children_come_in_address_order_and_are_cleared() {
        let mut table = mapped(&[512, 513, 600, GIB + 3 * 512], false);
        [512, 600, GIB + 3 * 512].into_iter().for_each(|page| touch(&mut table, page));
        let mut expected = [0u64; 8];
        (expected[0], expected[1]) = (1, 1 << (600 - 512 - 64));
        assert_eq!(table.take_children(Level::PMD, 700), expected);
        assert_eq!(table.take_children(Level::PMD, 700), [0; 8]);
        let only = |word: u64| [word, 0, 0, 0, 0, 0, 0, 0];
        assert_eq!(table.take_children(Level::PUD, 0), only(2));
        assert_eq!(table.take_children(Level::PUD, GIB), only(8));
        assert_eq!(table.take_children(Level::P4D, 5), only(3));
        assert_eq!(table.take_children(Level::PGD, 5), only(1));
        assert_eq!(table.take_children(Level::P4D, 5), only(0));
        touch(&mut table, 513);
        assert_eq!(table.take_children(Level::P4D, 5), only(1), "a cleared column is set again");
    }
}
