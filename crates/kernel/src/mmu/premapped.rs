//! Premapped memory: memory that a program had touched before the run began, without a frame, a list or an entry for each page.
//!
//! A program that has 5 TiB resident and uses 10 GiB would need 24 GB of frames and entries for pages that are never read. Where nothing
//! reclaims or moves a page, only two facts about it matter: whether it is mapped and whether it was used. The first is a range; the second
//! is one bit a page, in memory that the operating system gives when a bit is set.
//!
//! Sketch, for 5 TiB: bits of pages 0.4 MiB if 10 GiB in a row are used, 10 MiB if these are scattered, 170 MiB if every 2 MiB
//! has many; bits of 2 MiB entries 2 x 320 KiB. Blocks are of 512 GiB, so that a table's 512 entries are eight whole words at
//! every upper level. A touch costs one load of the directory and one of the block (both in L1), one of the slot of its 2 MiB,
//! and one of the *settled* bit of its 2 MiB (as in `levels.rs`). If many pages of the 2 MiB are used, it also loads the page's
//! word. It stores only where a bit changes.

mod leaves;

use super::Level;
use super::config::TableKind;
use super::table::Pace;
use super::translation::Reads;
use isotherm_units::PageRange;
use isotherm_units::access::Run;
use leaves::Leaves;

const BLOCK_SHIFT: u32 = Level::P4D.span_shift();
const BLOCK_PAGES: u64 = 1 << BLOCK_SHIFT;
const NO_BLOCK: u16 = 0;
/// Accesses whose memory is loaded before they are played.
const AHEAD: usize = 32;

/// Entries of a table, as words.
pub(crate) type Children = [u64; 8];

/// Mapped pages of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Extent {
    pages: PageRange,
    /// Each whole aligned 2 MiB of the extent has one entry.
    huge: bool,
}

/// A bit a 2 MiB. The length is known, so that an index into it needs no check.
type PmdWords = [u64; 1 << (BLOCK_SHIFT - 9 - 6)];

#[derive(Clone, Debug)]
struct Block {
    first_page: u64,
    /// The extent touched last: an extent of base pages, or the part of a huge extent under huge entries. The hot path checks only this
    /// extent.
    recent: PageRange,
    is_recent_huge: bool,
    /// Sorted, disjoint; nearly always one.
    extents: Vec<Extent>,
    /// Accessed bits of base pages.
    leaves: Leaves,
    /// Accessed bits of entries of 2 MiB, leaves or not.
    pmd: Box<PmdWords>,
    /// One bit per 2 MiB: all accessed bits above it and its own are set.
    settled: Box<PmdWords>,
    /// Accessed bits of entries of 1 GiB.
    pud: Children,
    p4d: bool,
    /// This block's share of the 256 TiB entry's bit.
    pgd: bool,
}

impl Block {
    fn new(first_page: u64) -> Self {
        // Fresh zero pages, through vectors: an array would be written on the stack first.
        let pmd = || Box::<PmdWords>::try_from(vec![0; size_of::<PmdWords>() / 8]).expect("as long as that");
        Self {
            first_page,
            recent: PageRange::default(),
            is_recent_huge: false,
            extents: Vec::new(),
            leaves: Leaves::new(),
            pmd: pmd(),
            settled: pmd(),
            pud: [0; 8],
            p4d: false,
            pgd: false,
        }
    }

    #[inline]
    fn extent(&self, page: u64) -> Option<&Extent> {
        self.extents.iter().find(|extent| extent.pages.contains(page))
    }

    #[cold]
    fn settle(&mut self, page: u64, highest: Level) {
        debug_assert!(page & !(BLOCK_PAGES - 1) == self.first_page, "the page lies in the block");
        for level in Level::UPPER.into_iter().filter(|&level| level <= highest) {
            self.set(level, page);
        }
        set(&mut self.settled[..], index(page & (BLOCK_PAGES - 1), Level::PMD));
    }

    fn set(&mut self, level: Level, page: u64) {
        debug_assert!(page & !(BLOCK_PAGES - 1) == self.first_page, "the page lies in the block");
        let bit = index(page & (BLOCK_PAGES - 1), level);
        match level {
            Level::LEAF => self.leaves.set(bit / 512, in_table(page)),
            Level::PMD => set(&mut self.pmd[..], bit),
            Level::PUD => set(&mut self.pud, bit),
            Level::P4D => self.p4d = true,
            _ => self.pgd = true,
        }
    }

    fn test(&self, level: Level, page: u64) -> bool {
        let bit = index(page & (BLOCK_PAGES - 1), level);
        match level {
            Level::LEAF => self.leaves.test(bit / 512, in_table(page)),
            Level::PMD => is_set(&self.pmd[..], bit),
            Level::PUD => is_set(&self.pud, bit),
            Level::P4D => self.p4d,
            _ => self.pgd,
        }
    }

    /// Clears a set bit and unsettles what lies below it.
    fn clear(&mut self, level: Level, page: u64) {
        debug_assert!(page & !(BLOCK_PAGES - 1) == self.first_page, "the page lies in the block");
        let within = page & (BLOCK_PAGES - 1);
        let bit = index(within, level);
        match level {
            Level::LEAF => self.leaves.clear(bit / 512, in_table(page)),
            Level::PMD => clear(&mut self.pmd[..], bit),
            Level::PUD => clear(&mut self.pud, bit),
            Level::P4D => self.p4d = false,
            _ => self.pgd = false,
        }
        match level {
            Level::LEAF => {}
            Level::PMD => clear(&mut self.settled[..], bit),
            Level::PUD => self.settled[bit * 8..bit * 8 + 8].iter_mut().for_each(unset),
            _ => self.settled.iter_mut().for_each(unset),
        }
    }
}

/// Test first: untouched memory stays untouched.
fn unset(word: &mut u64) {
    if *word != 0 {
        *word = 0;
    }
}

/// All premapped memory of one address space.
#[derive(Clone, Debug)]
pub(crate) struct Premapped {
    /// Block + 1 by `page >> BLOCK_SHIFT`.
    directory: Vec<u16>,
    blocks: Vec<Block>,
    kind: TableKind,
}

impl Premapped {
    pub(super) fn new(kind: TableKind) -> Self {
        Self { directory: Vec::new(), blocks: Vec::new(), kind }
    }

    /// Maps `range`, where nothing is mapped yet.
    pub(super) fn lay(&mut self, range: PageRange, huge: bool) {
        debug_assert!(range.start < range.end && !self.overlaps(range), "each page is mapped once");
        let mut start = range.start;
        while start < range.end {
            let number = start >> BLOCK_SHIFT;
            let end = range.end.min((number + 1) << BLOCK_SHIFT);
            let slot = usize::try_from(number).expect("below 2^57 bytes");
            if self.directory.len() <= slot {
                self.directory.resize(slot + 1, NO_BLOCK);
            }
            if self.directory[slot] == NO_BLOCK {
                self.blocks.push(Block::new(number << BLOCK_SHIFT));
                self.directory[slot] = u16::try_from(self.blocks.len()).expect("few blocks fit an address space");
            }
            let preset = self.kind.preset;
            let block = self.block_mut(start).expect("just made");
            let extent = Extent { pages: PageRange::new(start, end), huge };
            let at = block.extents.partition_point(|other| other.pages.start < start);
            block.extents.insert(at, extent);
            if preset {
                preset_tables(block, extent.pages);
            }
            start = end;
        }
    }

    /// Unmaps the mapped part of `range`.
    pub(super) fn cut(&mut self, range: PageRange) {
        for block in &mut self.blocks {
            block.recent = PageRange::default();
            let mut kept = Vec::new();
            for extent in &block.extents {
                let before = PageRange::new(extent.pages.start, extent.pages.end.min(range.start));
                let after = PageRange::new(extent.pages.start.max(range.end), extent.pages.end);
                let rests = [before, after].into_iter().filter(|rest| rest.start < rest.end);
                kept.extend(rests.map(|pages| Extent { pages, ..*extent }));
            }
            block.extents = kept;
        }
        debug_assert!(!self.overlaps(range), "nothing of the range stays mapped");
    }

    /// Whether any page of `range` is mapped here.
    pub(crate) fn overlaps(&self, range: PageRange) -> bool {
        self.blocks.iter().flat_map(|block| &block.extents).any(|extent| extent.pages.overlaps(range))
    }

    #[inline]
    fn slot(&self, page: u64) -> Option<usize> {
        let slot = *self.directory.get(usize::try_from(page >> BLOCK_SHIFT).ok()?)?;
        usize::from(slot).checked_sub(1)
    }
    #[inline]
    fn block(&self, page: u64) -> Option<&Block> {
        Some(&self.blocks[self.slot(page)?])
    }
    #[inline]
    fn block_mut(&mut self, page: u64) -> Option<&mut Block> {
        let slot = self.slot(page)?;
        Some(&mut self.blocks[slot])
    }

    /// The level of the entry that maps `page`, if one does.
    #[inline]
    pub(crate) fn leaf_level(&self, page: u64) -> Option<Level> {
        let extent = self.block(page)?.extent(page)?;
        Some(if extent.huge && is_whole(extent.pages, page) { Level::PMD } else { Level::LEAF })
    }

    /// The hot loop: touches single pages from the start of `runs` while there is time. Returns the number of pages; the caller finds out
    /// why it stopped. Short, so that the cache misses of many accesses overlap.
    #[inline(always)]
    pub(super) fn touch_singles(&mut self, runs: &[Run], pace: &mut Pace) -> usize {
        let mut now = pace.now_ns;
        let mut nr_done = 0;
        for run in runs {
            if nr_done % AHEAD == 0 {
                if !self.block(run.page()).is_some_and(|block| block.recent.contains(run.page())) {
                    break;
                }
                self.load_ahead(&runs[nr_done..(nr_done + AHEAD).min(runs.len())]);
            }
            let begin = now + u64::from(run.think_ns);
            if !run.is_single_page() || begin >= pace.until_ns {
                break;
            }
            let page = run.page();
            let Some(&slot) = self.directory.get((page >> BLOCK_SHIFT) as usize) else { break };
            let Some(block) = self.blocks.get_mut(usize::from(slot).wrapping_sub(1)) else { break };
            if !block.recent.contains(page) {
                break;
            }
            let within = page & (BLOCK_PAGES - 1);
            let number = index(within, Level::PMD);
            if !block.is_recent_huge {
                block.leaves.set(number, in_table(page));
            }
            if block.settled[number / 64] >> (number % 64) & 1 == 0 {
                block.settle(page, self.kind.highest_set);
            }
            now = begin + pace.page_ns;
            nr_done += 1;
        }
        pace.now_ns = now;
        nr_done
    }

    /// Loads the slots of `runs` and does nothing with them: short, so that their cache misses overlap.
    #[inline(always)]
    fn load_ahead(&self, runs: &[Run]) {
        let mut loaded = 0;
        for run in runs {
            let slot = self.directory.get((run.page() >> BLOCK_SHIFT) as usize).copied().unwrap_or(NO_BLOCK);
            if let Some(block) = self.blocks.get(usize::from(slot).wrapping_sub(1)) {
                loaded ^= block.leaves.slot(index(run.page() & (BLOCK_PAGES - 1), Level::PMD));
            }
        }
        std::hint::black_box(loaded);
    }

    /// Touches up to `wanted` pages from `page` that lie in one word and are mapped; returns their number. Every walk is a whole one.
    #[inline]
    pub(super) fn touch(&mut self, page: u64, wanted: u64) -> u64 {
        debug_assert!(wanted > 0, "a page is touched, or none is asked for");
        let highest = self.kind.highest_set;
        let Some(block) = self.block_mut(page) else { return 0 };
        let Some(extent) = block.extent(page).copied() else { return 0 };
        let touched = wanted.min(64 - page % 64).min(extent.pages.end - page);
        let is_huge = extent.huge && is_whole(extent.pages, page);
        block.is_recent_huge = is_huge;
        block.recent = match (extent.huge, is_huge) {
            (false, _) => extent.pages,
            (true, true) => whole_blocks(extent.pages),
            // The ragged ends of a huge extent: too few pages to keep.
            (true, false) => PageRange::default(),
        };
        if !is_huge {
            let mask = (u64::MAX >> (64 - touched)) << (page % 64);
            let word = in_table(page) as usize / 64;
            block.leaves.set_word(index(page & (BLOCK_PAGES - 1), Level::PMD), word, mask);
        }
        if !is_set(&block.settled[..], index(page & (BLOCK_PAGES - 1), Level::PMD)) {
            block.settle(page, highest);
        }
        touched
    }

    /// A walk to the mapped `page` read these words.
    #[inline]
    pub(super) fn mark(&mut self, page: u64, reads: Reads) {
        debug_assert!(self.leaf_level(page).is_some(), "only mapped pages are walked to");
        let highest = self.kind.highest_set;
        if let Some(block) = self.block_mut(page).filter(|_| reads != Reads::NONE) {
            if reads.has(Level::LEAF) {
                block.set(Level::LEAF, page);
            }
            for level in Level::UPPER.into_iter().filter(|&level| level <= highest && reads.has(level)) {
                block.set(level, page);
            }
        }
    }

    /// Whether there is an entry at `level` on the way to `page`.
    pub(super) fn has_entry(&self, level: Level, page: u64) -> bool {
        let span = span_of(level, page);
        self.blocks_under(span).any(|block| block.extents.iter().any(|extent| extent.pages.overlaps(span)))
    }

    fn blocks_under(&self, span: PageRange) -> impl Iterator<Item = &Block> {
        self.blocks.iter().filter(move |block| PageRange::at(block.first_page, BLOCK_PAGES).overlaps(span))
    }

    /// The accessed bit of the entry at `level` on the way to `page`.
    pub(super) fn test(&self, level: Level, page: u64) -> bool {
        match level {
            Level::PGD => self.blocks_under(span_of(level, page)).any(|block| block.pgd),
            _ => self.block(page).is_some_and(|block| block.test(level, page)),
        }
    }

    /// Reads and clears it.
    pub(super) fn test_and_clear(&mut self, level: Level, page: u64) -> bool {
        let was = self.test(level, page);
        if was && level == Level::PGD {
            let span = span_of(level, page);
            let below = self.blocks.iter_mut().filter(|block| span.contains(block.first_page));
            below.for_each(|block| block.clear(level, block.first_page));
        } else if was && let Some(block) = self.block_mut(page) {
            block.clear(level, page);
        }
        was
    }

    /// Reads and clears the bits of the 512 entries in the table that the entry at `parent` points to.
    pub(super) fn take_children(&mut self, parent: Level, page: u64, out: &mut Children) {
        debug_assert!(parent > Level::LEAF, "no table hangs below a page");
        let first = span_of(parent, page).start;
        match parent {
            Level::PMD => {
                let Some(block) = self.block_mut(page) else { return };
                block.leaves.take(index(page & (BLOCK_PAGES - 1), Level::PMD), out);
            }
            Level::PUD => {
                let Some(block) = self.block_mut(page) else { return };
                let word = index(first & (BLOCK_PAGES - 1), Level::PMD) / 64;
                for (out, word) in out.iter_mut().zip(&mut block.pmd[word..word + 8]) {
                    *out |= *word;
                    unset(word);
                }
                block.settled[word..word + 8].iter_mut().for_each(unset);
            }
            Level::P4D => {
                let Some(block) = self.block_mut(page) else { return };
                for (out, word) in out.iter_mut().zip(&mut block.pud) {
                    *out |= std::mem::take(word);
                }
                block.settled.iter_mut().for_each(unset);
            }
            _ => {
                let span = span_of(parent, page);
                for block in self.blocks.iter_mut().filter(|block| span.contains(block.first_page)) {
                    if block.p4d {
                        set(out, usize::try_from((block.first_page - first) >> BLOCK_SHIFT).expect("of 512"));
                        block.clear(Level::P4D, block.first_page);
                    }
                }
            }
        }
    }
}

/// The bits that the kernel sets when it makes the tables for `pages` of `block`: all entries that point to a table.
fn preset_tables(block: &mut Block, pages: PageRange) {
    let within = PageRange::new(pages.start & (BLOCK_PAGES - 1), ((pages.end - 1) & (BLOCK_PAGES - 1)) + 1);
    debug_assert!(within.start < within.end, "pages of one block follow each other");
    for level in [Level::PMD, Level::PUD] {
        let (first, last) = (index(within.start, level), index(within.end - 1, level));
        let words = if level == Level::PMD { &mut block.pmd[..] } else { &mut block.pud[..] };
        (first..=last).for_each(|bit| set(words, bit));
    }
    (block.p4d, block.pgd) = (true, true);
}

/// The aligned 2 MiB of `pages`.
fn whole_blocks(pages: PageRange) -> PageRange {
    let span = Level::PMD.span_pages();
    PageRange::new(pages.start.next_multiple_of(span), pages.end / span * span)
}

/// Whether the 2 MiB around `page` lie in `pages`.
fn is_whole(pages: PageRange, page: u64) -> bool {
    let first = page & !(Level::PMD.span_pages() - 1);
    pages.start <= first && first + Level::PMD.span_pages() <= pages.end
}

fn span_of(level: Level, page: u64) -> PageRange {
    PageRange::at(page >> level.span_shift() << level.span_shift(), level.span_pages())
}

/// The number of a page among the 512 of its 2 MiB.
#[inline]
#[expect(clippy::cast_possible_truncation, reason = "below 512")]
fn in_table(page: u64) -> u32 {
    (page % Level::PMD.span_pages()) as u32
}

#[inline]
#[expect(clippy::cast_possible_truncation, reason = "hosts are 64-bit, and a block has 2^27 pages")]
fn index(within: u64, level: Level) -> usize {
    (within >> level.span_shift()) as usize
}

#[inline]
fn is_set(bits: &[u64], bit: usize) -> bool {
    bits[bit / 64] >> (bit % 64) & 1 != 0
}
fn set(bits: &mut [u64], bit: usize) {
    bits[bit / 64] |= 1 << (bit % 64);
}
fn clear(bits: &mut [u64], bit: usize) {
    bits[bit / 64] &= !(1 << (bit % 64));
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The hot loop and the careful path set the same bits, in huge and in base extents and at their ragged ends.
    #[test]
    fn the_hot_loop_touches_as_the_careful_path() {
        let lay = || {
            let mut premapped = Premapped::new(TableKind { preset: false, ..TableKind::default() });
            premapped.lay(PageRange::new(100, 5000), true);
            premapped.lay(PageRange::new(6000, 9000), false);
            premapped
        };
        let (mut fast, mut careful) = (lay(), lay());
        let pages: Vec<u64> = (0..3000u64).map(|step| step * 7919 % 9000).collect();
        let mut nr_fast = 0;
        for (index, &page) in pages.iter().enumerate() {
            assert_eq!(careful.leaf_level(page).is_some(), careful.touch(page, 1) == 1);
            let mut pace = Pace { until_ns: u64::MAX, page_ns: 1, ..Pace::default() };
            let played = fast.touch_singles(&[Run::write(page, 1)], &mut pace);
            assert_eq!(pace.now_ns, played as u64);
            nr_fast += played;
            if played == 0 {
                fast.touch(page, 1);
            }
            if index % 200 == 0 {
                let level = [Level::PMD, Level::PUD, Level::P4D][index / 200 % 3];
                assert_eq!(fast.test_and_clear(level, page), careful.test_and_clear(level, page), "{page} {level:?}");
            }
        }
        assert!(nr_fast > 1000, "{nr_fast}");
        for page in 0..9216 {
            for level in [Level::LEAF, Level::PMD, Level::PUD, Level::P4D] {
                assert_eq!(fast.test(level, page), careful.test(level, page), "{page} {level:?}");
            }
        }
    }
}
