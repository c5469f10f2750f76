//! Accessed bits above the leaf: one bitmap per level, and the trick that keeps them off the hit path.
//!
//! Hardware sets the accessed bit of every entry on the way down. Setting one bit per level and access would cost a load and a store each.
//! Instead one *settled* mark per 2 MiB tells that all upper bits above it are set; an access tests only that mark. Clearing an upper bit
//! unsettles the 2 MiB blocks below it, so the next access to any such block takes the slow path once and sets the whole column again.
//! Reading is exact at any time.

use super::config::TableKind;
use super::table::CHUNK_PAGES;
use super::translation::Reads;
use isotherm_units::PageRange;

/// A level of the page table, by the span of one of its entries: 0 = leaf (4 KiB), 1 = 2 MiB, 2 = 1 GiB, 3 = 512 GiB,
/// 4 = 256 TiB. A table of four levels ends at 512 GiB.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Level(u8);

impl Level {
    /// Page-table entries.
    pub const LEAF: Self = Self(0);
    /// Entries that span 2 MiB.
    pub const PMD: Self = Self(1);
    /// Entries that span 1 GiB.
    pub const PUD: Self = Self(2);
    /// Entries that span 512 GiB.
    pub const P4D: Self = Self(3);
    /// Entries that span 256 TiB: the top of a 5-level table.
    pub const PGD: Self = Self(4);
    /// The levels above the leaf.
    pub const UPPER: [Self; 4] = [Self::PMD, Self::PUD, Self::P4D, Self::PGD];

    /// The level with this number, if it exists.
    pub const fn new(number: u8) -> Option<Self> {
        if number <= Self::PGD.0 { Some(Self(number)) } else { None }
    }
    /// Number of the level: 0 is the leaf.
    pub const fn number(self) -> u8 {
        self.0
    }

    /// log2 of the base pages that one entry spans: 9 per level.
    pub const fn span_shift(self) -> u32 {
        9 * self.0 as u32
    }
    /// Base pages that one entry spans.
    pub const fn span_pages(self) -> u64 {
        1 << self.span_shift()
    }
    const fn upper_index(self) -> usize {
        debug_assert!(self.0 > 0, "leaves have bits of their own");
        self.0 as usize - 1
    }
}

/// Blocks of 2 MiB of a chunk.
#[expect(clippy::cast_possible_truncation, reason = "512")]
const BLOCKS: usize = (CHUNK_PAGES >> Level::PMD.span_shift()) as usize;

/// Upper-level accessed bits of one chunk of [`CHUNK_PAGES`] pages; of entries that span more,
/// the chunk's share.
#[derive(Clone, Debug)]
pub(super) struct UpperBits {
    /// By 2 MiB: all accessed bits above are set. Inside the chunk, so that the hit path chases no pointer for it; not packed into bits,
    /// so that it needs no shift.
    settled: [bool; BLOCKS],
    /// One bitmap per upper level, indexed by `chunk page >> span`.
    accessed: [Vec<u64>; 4],
    kind: TableKind,
}

impl UpperBits {
    pub(super) fn new(chunk_pages: u64, kind: TableKind) -> Self {
        let words = |level: Level| {
            let bits = (chunk_pages >> level.span_shift()).max(1);
            vec![0; usize::try_from(bits.div_ceil(64)).expect("a chunk is small")]
        };
        Self { settled: [false; BLOCKS], accessed: Level::UPPER.map(words), kind }
    }

    /// Sets the whole column above chunk page `page`, as far as the processor sets bits there: a walk from the top. If accesses go through
    /// translation caches, each walk sets the bits of the entries that it reads ([`read`](Self::read)), and nothing happens here.
    #[inline]
    pub(super) fn settle(&mut self, page: usize) {
        if !self.settled[page >> Level::PMD.span_shift()] && !self.kind.translated {
            self.settle_column(page);
        }
    }

    #[cold]
    fn settle_column(&mut self, page: usize) {
        for level in Level::UPPER.into_iter().filter(|&level| level <= self.kind.highest_set) {
            set(&mut self.accessed[level.upper_index()], page >> level.span_shift());
        }
        self.settled[page >> Level::PMD.span_shift()] = true;
    }

    /// A walk to `page` read these words.
    pub(super) fn read(&mut self, page: usize, reads: Reads) {
        let is_set = |level: &Level| *level <= self.kind.highest_set && reads.has(*level);
        for level in Level::UPPER.into_iter().filter(is_set) {
            set(&mut self.accessed[level.upper_index()], page >> level.span_shift());
        }
    }

    /// The kernel enters a new table: the entry that points to it has its accessed bit set from the start.
    pub(super) fn preset(&mut self, level: Level, page: usize) {
        if self.kind.preset {
            set(&mut self.accessed[level.upper_index()], page >> level.span_shift());
        }
    }

    /// Reads and clears the bits of all 2 MiB entries of the chunk: the table below a 1 GiB entry.
    pub(super) fn take_pmds(&mut self, out: &mut [u64]) {
        debug_assert_eq!(
            out.len(),
            self.accessed[Level::PMD.upper_index()].len(),
            "a table has as many entries as a chunk has blocks"
        );
        for (out, word) in out.iter_mut().zip(&mut self.accessed[Level::PMD.upper_index()]) {
            *out |= std::mem::take(word);
        }
        self.settled.fill(false);
    }

    pub(super) fn test(&self, level: Level, page: usize) -> bool {
        let bit = page >> level.span_shift();
        self.accessed[level.upper_index()][bit / 64] >> (bit % 64) & 1 != 0
    }

    /// Reads and clears the bit of the entry at `level` that holds chunk page `page`.
    pub(super) fn test_and_clear(&mut self, level: Level, page: usize, chunk_pages: u64) -> bool {
        let was_set = self.test(level, page);
        if was_set {
            let bit = page >> level.span_shift();
            self.accessed[level.upper_index()][bit / 64] &= !(1 << (bit % 64));
            let first = (bit as u64) << level.span_shift();
            let span = PageRange::new(first, (first + level.span_pages()).min(chunk_pages));
            debug_assert!(span.start < span.end, "the chunk holds a part of the entry");
            let block_of = |page: u64| usize::try_from(page >> Level::PMD.span_shift()).expect("a chunk is small");
            self.settled[block_of(span.start)..=block_of(span.end - 1)].fill(false);
        }
        was_set
    }
}

fn set(bits: &mut [u64], bit: usize) {
    bits[bit / 64] |= 1 << (bit % 64);
}
