//! The page table in the layout that the hit path wants.
//!
//! Sketch: a touch of a resident page costs one load of the chunk directory (in L1), one load and one store in a 16-byte group of two
//! words, and a test of one bit per 2 MiB (in L1 or L2). A group serves 64 pages, a quarter of a byte a page; a store touches a second such
//! group. Other data of a page (frame, swap slot) lie in cold tables of 4 bytes a page, touched only on fault and eviction. A chunk of 1
//! GiB of address space costs 128 KiB of hot words and 4 KiB of table pointers at its first touch, a table of 2 MiB another 2 KiB. (The
//! operating system gives the hot words as zero pages until they are used.) Programs that scatter their heap over the whole address space,
//! as V8 does, stay cheap, and untouched address space is free.

use super::entry::Entry;
use super::levels::{Level, UpperBits};
use crate::memory::FrameId;
use isotherm_units::PageRange;

mod absent;
mod ageing;
mod extension;
mod faulted;
mod hints;
mod migration_entries;
mod play;
mod probe;
mod taken;
mod tiers;
mod walked;

pub(crate) use ageing::{Entries, YoungEntries};
use extension::Extension;
pub(crate) use extension::Stale;
pub use migration_entries::MigrationEntries;
pub use play::{Cursor, Pace, Stop};
pub use probe::Found;
pub(crate) use taken::Taken;
pub use tiers::Hits;
pub(crate) use tiers::PLANES_MAX;

/// Pages of one chunk: 1 GiB of address space.
pub(crate) const CHUNK_PAGES: u64 = 1 << CHUNK_SHIFT;
const CHUNK_SHIFT: u32 = 18;
/// Entries of a page of a hardware page table.
const TABLE_PAGES: usize = 512;
const CHUNK_MASK: u64 = CHUNK_PAGES - 1;
/// A process may touch this many chunks (16 TiB), so that a dense page number fits 32 bits.
const CHUNKS_MAX: usize = 1 << (32 - CHUNK_SHIFT);
/// Address spaces of 5-level page tables: 57 bits.
const DIRECTORY_LEN: usize = 1 << (57 - 12 - CHUNK_SHIFT);
const NO_CHUNK: u16 = 0;

/// A page of one address space in 32 bits: chunk slot and page in the chunk. Reverse maps store this number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DensePage(u32);

impl DensePage {
    /// The page from its stored form.
    pub const fn from_raw(raw: u32) -> Self {
        Self(raw)
    }
    /// Its stored form.
    pub const fn raw(self) -> u32 {
        self.0
    }
    #[inline]
    const fn at(slot: usize, within: usize) -> Self {
        Self((slot as u32) << CHUNK_SHIFT | within as u32)
    }
    #[inline]
    const fn slot(self) -> usize {
        (self.0 >> CHUNK_SHIFT) as usize
    }
    #[inline]
    const fn within(self) -> usize {
        (self.0 & CHUNK_MASK as u32) as usize
    }
    /// The page `pages` later, if it lies in the same chunk.
    pub const fn checked_add(self, pages: u32) -> Option<Self> {
        if self.within() as u64 + pages as u64 >= CHUNK_PAGES { None } else { Some(Self(self.0 + pages)) }
    }
}

/// Two words of 64 pages. Loads need only `PRESENT` and `ACCESSED`, so these lie together and apart from the words that stores need as
/// well: a scattered read stays within a quarter of a byte per page, which decides how much of it the host's TLB covers.
type Group = [u64; 2];
/// Groups of a chunk. The length is known, so that an index into it needs no check.
type Groups = [Group; CHUNK_PAGES as usize / 64];
/// Entries of 512 pages.
type Table = Box<[u32; TABLE_PAGES]>;
const PRESENT: usize = 0;
const ACCESSED: usize = 1;
const WRITABLE: usize = 0;
const DIRTY: usize = 1;

#[derive(Clone, Debug)]
struct Chunk {
    /// Virtual page number of its first page.
    first_page: u64,
    /// Present, accessed.
    groups: Box<Groups>,
    /// Writable, dirty.
    stores: Box<Groups>,
    /// Entries of 512 pages each, made when the first entry is written.
    tables: Vec<Option<Table>>,
    upper: UpperBits,
    /// Latency class of its pages, if there is more than one: see [`tiers`].
    planes: Box<[u64]>,
    /// Pages that were made inaccessible for hint faults, see [`hints`]; made with the first.
    marks: Option<Box<Groups>>,
}

impl Chunk {
    #[inline]
    fn write(&mut self, page: usize, entry: Entry) {
        Self::table_mut(&mut self.tables, &mut self.upper, page)[page % TABLE_PAGES] = entry.pack();
    }

    /// The entries around `page`; made if they are not there.
    #[inline]
    fn table_mut<'a>(tables: &'a mut [Option<Table>], upper: &mut UpperBits, page: usize) -> &'a mut Table {
        tables[page / TABLE_PAGES].get_or_insert_with(|| Self::new_table(upper, page))
    }

    #[cold]
    fn new_table(upper: &mut UpperBits, page: usize) -> Table {
        upper.preset(Level::PMD, page);
        Box::new([0; TABLE_PAGES])
    }

    #[inline]
    fn read(&self, page: usize) -> Entry {
        self.tables[page / TABLE_PAGES].as_ref().map_or(Entry::None, |table| Entry::unpack(table[page % TABLE_PAGES]))
    }
}

/// Entry that a touch needs: a present one, or a writable one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// A load.
    Read,
    /// A store.
    Write,
}

/// The page table of one address space.
#[derive(Clone, Debug)]
pub struct PageTable {
    /// Chunk slot + 1 by `page >> CHUNK_SHIFT`; grows to the highest chunk in use.
    directory: Vec<u16>,
    /// Entries of the directory with a chunk, in order. Processes map near both ends of their space, so that most are empty;
    /// reads of upper levels go by these.
    used: Vec<u32>,
    chunks: Vec<Chunk>,
    nr_present: u64,
    extension: Extension,
}

impl Default for PageTable {
    fn default() -> Self {
        Self::new()
    }
}

impl PageTable {
    /// An empty table.
    pub fn new() -> Self {
        Self {
            directory: Vec::new(),
            used: Vec::new(),
            chunks: Vec::new(),
            nr_present: 0,
            extension: Extension::default(),
        }
    }

    /// Makes room for `pages`, so that they have dense numbers.
    ///
    /// # Errors
    /// The first page that does not fit: a process may touch 16 384 blocks of 1 GiB below 2^57 bytes.
    pub fn reserve(&mut self, pages: PageRange) -> Result<(), u64> {
        if pages.is_empty() {
            return Ok(());
        }
        for high in pages.start >> CHUNK_SHIFT..=(pages.end - 1) >> CHUNK_SHIFT {
            let index = usize::try_from(high).map_err(|_| high << CHUNK_SHIFT)?;
            if index >= DIRECTORY_LEN {
                return Err(high << CHUNK_SHIFT);
            }
            if self.directory.len() <= index {
                // Fresh zero pages, not a resize that would write them all.
                let mut directory = vec![NO_CHUNK; index + 1];
                directory[..self.directory.len()].copy_from_slice(&self.directory);
                self.directory = directory;
            }
            if self.directory[index] == NO_CHUNK {
                if self.chunks.len() == CHUNKS_MAX {
                    return Err(high << CHUNK_SHIFT);
                }
                let len = CHUNK_PAGES as usize;
                let planes = self.fresh_planes(len);
                // Fresh zero pages, through a vector: an array would be written on the stack first.
                let fresh = || Box::<Groups>::try_from(vec![[0; 2]; len / 64]).expect("as long as that");
                self.chunks.push(Chunk {
                    first_page: high << CHUNK_SHIFT,
                    groups: fresh(),
                    stores: fresh(),
                    tables: vec![None; len / TABLE_PAGES],
                    upper: UpperBits::new(CHUNK_PAGES, self.extension.kind),
                    planes,
                    marks: None,
                });
                self.directory[index] = u16::try_from(self.chunks.len()).expect("at most CHUNKS_MAX");
                let entry = u32::try_from(index).expect("below DIRECTORY_LEN");
                self.used.insert(self.used.partition_point(|&other| other < entry), entry);
                debug_assert_eq!(self.used.len(), self.chunks.len(), "each chunk has one place in the directory");
                self.preset_upper();
            }
        }
        Ok(())
    }

    /// The dense number of a page in reserved space.
    #[inline]
    pub fn dense(&self, page: u64) -> Option<DensePage> {
        let slot = *self.directory.get(usize::try_from(page >> CHUNK_SHIFT).ok()?)?;
        (slot != NO_CHUNK).then(|| DensePage((u32::from(slot) - 1) << CHUNK_SHIFT | (page & CHUNK_MASK) as u32))
    }

    /// The entry of a page as it is stored; 0 without one.
    #[inline]
    pub(crate) fn packed_entry(&self, dense: DensePage) -> u32 {
        let Some(chunk) = self.chunks.get(dense.slot()) else { return 0 };
        let within = dense.within();
        chunk.tables[within / TABLE_PAGES].as_ref().map_or(0, |table| table[within % TABLE_PAGES])
    }

    /// Reads all words of a page; see [`Memory::warm_up`](crate::memory::Memory::warm_up).
    #[inline]
    pub(crate) fn read_all(&self, dense: DensePage) -> u64 {
        let Some(chunk) = self.chunks.get(dense.slot()) else { return 0 };
        let within = dense.within();
        chunk.groups[within / 64][PRESENT] ^ chunk.stores[within / 64][DIRTY] ^ u64::from(self.packed_entry(dense))
    }

    /// The virtual page number of a dense page.
    pub fn page_of(&self, dense: DensePage) -> u64 {
        self.chunks[dense.slot()].first_page + dense.within() as u64
    }

    /// Pages with a present entry.
    pub fn nr_present(&self) -> u64 {
        self.nr_present
    }

    /// The entry of a page; none in a table that was dropped with its process.
    #[inline]
    pub fn entry(&self, dense: DensePage) -> Entry {
        self.chunks.get(dense.slot()).map_or(Entry::None, |chunk| chunk.read(dense.within()))
    }

    /// Whether the entry of a page shows `frame`.
    #[inline]
    pub(crate) fn shows(&self, dense: DensePage, frame: FrameId) -> bool {
        self.packed_entry(dense) == Entry::Frame(frame).pack()
    }

    /// Whether a page was accessed whose entry shows `frame`; `None`: it does not.
    #[inline]
    pub(crate) fn young_if_shows(&self, dense: DensePage, frame: FrameId) -> Option<bool> {
        let chunk = self.chunks.get(dense.slot())?;
        let within = dense.within();
        let entry = chunk.tables[within / TABLE_PAGES].as_ref()?[within % TABLE_PAGES];
        (entry == Entry::Frame(frame).pack()).then(|| chunk.groups[within / 64][ACCESSED] >> (within % 64) & 1 != 0)
    }

    /// Clears the accessed bit, which is set.
    #[inline]
    pub(crate) fn clear_young(&mut self, dense: DensePage) {
        let (group, bit) = self.group_mut(dense);
        group[ACCESSED] &= !bit;
    }

    /// The frame that `page` shows, if one is mapped there.
    #[inline]
    pub fn frame_at(&self, page: u64) -> Option<FrameId> {
        let slot = *self.directory.get((page >> CHUNK_SHIFT) as usize)?;
        let chunk = self.chunks.get((slot as usize).wrapping_sub(1))?;
        match chunk.read((page & CHUNK_MASK) as usize) {
            Entry::Frame(frame) => Some(frame),
            Entry::None | Entry::Zero | Entry::Swap(_) => None,
        }
    }

    /// The frame that `dense` shows.
    #[inline]
    pub fn frame_of(&self, dense: DensePage) -> Option<FrameId> {
        match self.entry(dense) {
            Entry::Frame(frame) => Some(frame),
            Entry::None | Entry::Zero | Entry::Swap(_) => None,
        }
    }

    /// Replaces the entry and drops all hardware bits: swap entries and holes.
    #[inline]
    pub fn set_absent(&mut self, dense: DensePage, entry: Entry) {
        debug_assert!(matches!(entry, Entry::None | Entry::Swap(_)), "{entry:?} is present");
        let was_marked = self.unmark(dense);
        let (group, bit) = self.group_mut(dense);
        let was_present = group[PRESENT] & bit != 0 || was_marked;
        if was_present {
            group.iter_mut().for_each(|word| *word &= !bit);
            self.stores_mut(dense).0.iter_mut().for_each(|word| *word &= !bit);
            debug_assert!(self.nr_present > 0, "a present page was counted");
            self.nr_present -= 1;
            self.note_unmapped(dense);
        }
        self.chunks[dense.slot()].write(dense.within(), entry);
    }

    /// Installs a present entry with accessed bit `young`; the dirty bit is set if `dirty`.
    #[inline]
    pub fn set_present(&mut self, dense: DensePage, entry: Entry, writable: bool, young: bool, dirty: bool) {
        debug_assert!(!writable || entry != Entry::Zero, "nobody writes to the zero page");
        debug_assert!(matches!(entry, Entry::Frame(_) | Entry::Zero), "{entry:?} is absent");
        let was_marked = self.unmark(dense);
        let (group, bit) = self.group_mut(dense);
        let was_present = group[PRESENT] & bit != 0 || was_marked;
        group[PRESENT] |= bit;
        assign(&mut group[ACCESSED], bit, young);
        let (stores, _) = self.stores_mut(dense);
        if writable || dirty || *stores != [0; 2] {
            assign(&mut stores[WRITABLE], bit, writable);
            assign(&mut stores[DIRTY], bit, dirty);
        }
        self.nr_present += u64::from(!was_present);
        self.note_class(dense, entry);
        let chunk = &mut self.chunks[dense.slot()];
        chunk.write(dense.within(), entry);
        if young {
            chunk.upper.settle(dense.within());
        }
    }

    /// Whether the page is mapped (a frame or the zero page).
    #[inline]
    pub fn is_present(&self, dense: DensePage) -> bool {
        let within = dense.within();
        self.chunks[dense.slot()].present(within / 64) >> (within % 64) & 1 != 0
    }
    /// Whether stores need no fault.
    #[inline]
    pub fn is_writable(&self, dense: DensePage) -> bool {
        let within = dense.within();
        self.chunks[dense.slot()].writable(within / 64) >> (within % 64) & 1 != 0
    }
    /// The leaf's accessed bit.
    pub fn is_young(&self, dense: DensePage) -> bool {
        self.is_set(dense, ACCESSED)
    }
    /// The leaf's dirty bit.
    #[inline]
    pub fn is_dirty(&self, dense: DensePage) -> bool {
        self.is_set_for_stores(dense, DIRTY)
    }
    /// Reads and clears the leaf's accessed bit.
    #[inline]
    pub fn test_and_clear_young(&mut self, dense: DensePage) -> bool {
        let (group, bit) = self.group_mut(dense);
        let was = group[ACCESSED] & bit != 0;
        if was {
            group[ACCESSED] &= !bit; // test first: an unconditional store would materialise untouched memory
        }
        was
    }
    /// The same for a page that was touched a moment ago, whose words are in memory: no branch on unpredictable data.
    #[inline]
    pub fn take_young(&mut self, dense: DensePage) -> bool {
        let (group, bit) = self.group_mut(dense);
        let was = group[ACCESSED] & bit != 0;
        group[ACCESSED] &= !bit;
        was
    }
    /// The same, if the entry shows `frame`.
    #[inline]
    pub fn test_and_clear_young_of(&mut self, dense: DensePage, frame: FrameId) -> bool {
        let within = dense.within();
        let Some(chunk) = self.chunks.get_mut(dense.slot()) else { return false };
        let (group, bit) = (&mut chunk.groups[within / 64], 1 << (within % 64));
        if group[ACCESSED] & bit == 0 || chunk.read(within) != Entry::Frame(frame) {
            return false;
        }
        chunk.groups[within / 64][ACCESSED] &= !bit;
        true
    }
    /// Sets the accessed (and for stores the dirty) bit as the hardware does at a touch that needed a fault.
    pub fn mark_touched(&mut self, dense: DensePage, need: Need) {
        debug_assert!(self.is_present(dense), "a touch needs a mapped page");
        debug_assert!(need == Need::Read || self.is_writable(dense), "a store needs permission");
        let (group, bit) = self.group_mut(dense);
        group[ACCESSED] |= bit;
        if need == Need::Write {
            self.stores_mut(dense).0[DIRTY] |= bit;
        }
        self.chunks[dense.slot()].upper.settle(dense.within());
    }
    /// Clears the dirty bit and takes write permission away, so that the next store faults (write-back of shared files).
    pub fn clean_and_protect(&mut self, dense: DensePage) -> bool {
        let (stores, bit) = self.stores_mut(dense);
        let was = stores[DIRTY] & bit != 0;
        stores[DIRTY] &= !bit;
        stores[WRITABLE] &= !bit;
        self.protect_marked(dense);
        was
    }
    /// Takes write permission away and keeps the dirty bit (fork).
    pub fn protect(&mut self, dense: DensePage) {
        let (stores, bit) = self.stores_mut(dense);
        stores[WRITABLE] &= !bit;
        self.protect_marked(dense);
    }
    /// Gives write permission.
    pub fn allow_write(&mut self, dense: DensePage) {
        debug_assert!(self.is_present(dense) && !self.is_marked(dense), "only accessible pages are writable");
        let (stores, bit) = self.stores_mut(dense);
        stores[WRITABLE] |= bit;
    }

    /// The accessed bit of the upper-level entry that holds `dense`.
    pub fn is_upper_young(&self, level: Level, dense: DensePage) -> bool {
        match self.chunks_under(level, dense) {
            None => self.chunks[dense.slot()].upper.test(level, dense.within()),
            Some(slots) => slots.into_iter().any(|slot| self.chunks[slot].upper.test(level, 0)),
        }
    }
    /// Reads and clears the accessed bit of the upper-level entry that holds `dense`.
    pub fn test_and_clear_upper_young(&mut self, level: Level, dense: DensePage) -> bool {
        match self.chunks_under(level, dense) {
            None => self.chunks[dense.slot()].upper.test_and_clear(level, dense.within(), CHUNK_PAGES),
            Some(slots) => {
                let mut was = false;
                for slot in slots {
                    was |= self.chunks[slot].upper.test_and_clear(level, 0, CHUNK_PAGES);
                }
                was
            }
        }
    }
    /// The chunks below an entry that spans more than one: each keeps its share of the entry's bit.
    fn chunks_under(&self, level: Level, dense: DensePage) -> Option<Vec<usize>> {
        if level.span_pages() <= CHUNK_PAGES {
            return None;
        }
        let entry = self.page_of(dense) >> level.span_shift();
        let slots = (0..self.chunks.len()).filter(|&slot| self.chunks[slot].first_page >> level.span_shift() == entry);
        Some(slots.collect())
    }

    /// Present pages of `range` in ascending order, with their dense numbers. Reads words, not pages: holes are skipped
    /// 64 at a time.
    pub fn present_in(&self, range: PageRange) -> impl Iterator<Item = DensePage> + '_ {
        self.pieces_of(range).flat_map(move |(slot, start, end)| {
            let chunk = &self.chunks[slot];
            (start / 64..end.div_ceil(64)).flat_map(move |index| {
                let mut word = chunk.present(index);
                if index == start / 64 {
                    word &= u64::MAX << (start % 64);
                }
                if index == end / 64 {
                    word &= !(u64::MAX << (end % 64));
                }
                Bits(word).map(move |bit| DensePage::at(slot, index * 64 + bit))
            })
        })
    }

    /// Pages of `range` with a non-empty entry (present or swapped), ascending. Reads each entry of the page-table pages that
    /// were ever used.
    pub fn populated_in(&self, range: PageRange) -> impl Iterator<Item = DensePage> + '_ {
        self.populated_tables(range).flat_map(|(first, from, entries)| {
            let is_used =
                move |(i, &entry): (usize, &u32)| (entry != 0).then(|| DensePage(first.0 + (from + i) as u32));
            entries.iter().enumerate().filter_map(is_used)
        })
    }

    /// The same pages, collected at once.
    pub fn collect_populated(&self, range: PageRange) -> Vec<DensePage> {
        let mut pages = Vec::new();
        for (first, from, entries) in self.populated_tables(range) {
            for (i, &entry) in entries.iter().enumerate() {
                if entry != 0 {
                    pages.push(DensePage(first.0 + (from + i) as u32));
                }
            }
        }
        pages
    }

    /// Pages of the page table that hold entries of `range`: the dense number of the first entry, where in it the range
    /// begins, and the entries of the range.
    fn populated_tables(&self, range: PageRange) -> impl Iterator<Item = (DensePage, usize, &[u32])> + '_ {
        self.pieces_of(range).flat_map(move |(slot, start, end)| {
            (start / TABLE_PAGES..end.div_ceil(TABLE_PAGES)).filter_map(move |index| {
                let first = index * TABLE_PAGES;
                let table = self.chunks[slot].tables[index].as_deref()?;
                let from = start.max(first) - first;
                let entries = &table[from..end.min(first + TABLE_PAGES) - first];
                Some((DensePage((slot as u32) << CHUNK_SHIFT | first as u32), from, entries))
            })
        })
    }

    /// `range` cut into `(chunk slot, start, end)` of reserved chunks.
    fn pieces_of(&self, range: PageRange) -> impl Iterator<Item = (usize, usize, usize)> + '_ {
        let highs =
            if range.is_empty() { 0..0 } else { range.start >> CHUNK_SHIFT..((range.end - 1) >> CHUNK_SHIFT) + 1 };
        let highs = highs.start.min(self.directory.len() as u64)..highs.end.min(self.directory.len() as u64);
        highs.filter_map(move |high| {
            let slot = self.directory[high as usize];
            let piece = range.intersection(PageRange::at(high << CHUNK_SHIFT, CHUNK_PAGES));
            let base = high << CHUNK_SHIFT;
            (slot != NO_CHUNK).then(|| (slot as usize - 1, (piece.start - base) as usize, (piece.end - base) as usize))
        })
    }

    /// Takes the mark of a page off. Returns whether it had one.
    #[inline]
    fn unmark(&mut self, dense: DensePage) -> bool {
        let within = dense.within();
        self.chunks[dense.slot()].unmark(within / 64, 1 << (within % 64)) != 0
    }

    #[inline]
    fn protect_marked(&mut self, dense: DensePage) {
        let within = dense.within();
        self.chunks[dense.slot()].protect_marked(within / 64, 1 << (within % 64));
    }

    #[inline]
    fn is_set(&self, dense: DensePage, which: usize) -> bool {
        let within = dense.within();
        self.chunks[dense.slot()].groups[within / 64][which] >> (within % 64) & 1 != 0
    }

    #[inline]
    fn is_set_for_stores(&self, dense: DensePage, which: usize) -> bool {
        let within = dense.within();
        self.chunks[dense.slot()].stores[within / 64][which] >> (within % 64) & 1 != 0
    }

    #[inline]
    fn stores_mut(&mut self, dense: DensePage) -> (&mut Group, u64) {
        let within = dense.within();
        (&mut self.chunks[dense.slot()].stores[within / 64], 1 << (within % 64))
    }

    #[inline]
    fn group_mut(&mut self, dense: DensePage) -> (&mut Group, u64) {
        let within = dense.within();
        (&mut self.chunks[dense.slot()].groups[within / 64], 1 << (within % 64))
    }
}

fn assign(word: &mut u64, bit: u64, value: bool) {
    if value { *word |= bit } else { *word &= !bit }
}

/// The numbers of the set bits, ascending.
struct Bits(u64);

impl Iterator for Bits {
    type Item = usize;
    fn next(&mut self) -> Option<usize> {
        let bit = self.0.trailing_zeros() as usize;
        self.0 &= self.0.checked_sub(1)?;
        Some(bit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use isotherm_units::access::Run;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    pub(super) fn mapped(pages: &[u64], writable: bool) -> PageTable {
        let mut table = PageTable::new();
        for (index, &page) in pages.iter().enumerate() {
            table.reserve(PageRange::at(page, 1)).unwrap();
            let dense = table.dense(page).unwrap();
            let frame = FrameId::new(u32::try_from(index).unwrap());
            table.set_present(dense, Entry::Frame(frame), writable, false, false);
        }
        table
    }

    pub(super) fn pace(until_ns: u64, page_ns: u64) -> Pace {
        Pace { until_ns, page_ns, ..Pace::default() }
    }

    #[test]
    fn hits_set_bits_and_faults_stop() {
        let mut table = mapped(&[100, 101, 102, 5 << 24], true);
        let runs = [Run::read(101, 1).after_ns(7), Run::write(100, 3), Run::read(5 << 24, 1), Run::read(103, 1)];
        let (mut cursor, mut clock) = (Cursor::default(), pace(1_000, 10));
        let stop = table.play(&runs, &mut cursor, &mut clock);
        assert_eq!(stop, Stop::Fault { page: 103, need: Need::Read });
        assert_eq!((cursor.run, clock.now_ns), (3, 7 + 10 + 30 + 10));
        let dense = table.dense(100).unwrap();
        assert!(table.is_young(dense) && table.is_dirty(dense));
        assert!(!table.is_dirty(table.dense(5 << 24).unwrap()));
    }

    #[test]
    fn a_run_stops_at_its_first_missing_page_and_when_time_is_up() {
        let mut table = mapped(&[62, 63, 64, 66], false);
        let (mut cursor, mut clock) = (Cursor::default(), pace(u64::MAX, 1));
        let stop = table.play(&[Run::read(62, 5)], &mut cursor, &mut clock);
        assert_eq!((stop, cursor.page, clock.now_ns), (Stop::Fault { page: 65, need: Need::Read }, 3, 3));
        let (mut cursor, mut clock) = (Cursor::default(), pace(2, 1));
        assert_eq!(table.play(&[Run::read(62, 3)], &mut cursor, &mut clock), Stop::TimeUp);
        assert_eq!((cursor.page, clock.now_ns), (2, 2));
        let stop = table.play(&[Run::write(62, 1)], &mut Cursor::default(), &mut pace(9, 1));
        assert_eq!(stop, Stop::Fault { page: 62, need: Need::Write }, "write-protected");
    }

    #[test]
    fn clearing_an_upper_bit_makes_the_next_touch_set_the_column_again() {
        let mut table = mapped(&[0, 600], false);
        assert!(table.test_and_clear_upper_young(Level::PMD, table.dense(600).unwrap()), "preset");
        let touch = |table: &mut PageTable, page| {
            assert_eq!(table.play(&[Run::read(page, 1)], &mut Cursor::default(), &mut pace(9, 1)), Stop::Done);
        };
        touch(&mut table, 0);
        let (low, high) = (table.dense(0).unwrap(), table.dense(600).unwrap());
        assert!(table.is_upper_young(Level::PMD, low) && !table.is_upper_young(Level::PMD, high));
        assert!(table.test_and_clear_upper_young(Level::PUD, high), "both lie in one 1 GiB entry");
        assert!(!table.is_upper_young(Level::PUD, low) && table.is_upper_young(Level::PMD, low));
        touch(&mut table, 0);
        assert!(table.is_upper_young(Level::PUD, high) && table.is_upper_young(Level::P4D, low));
    }

    proptest! {
        #[test]
        fn words_agree_with_a_naive_set(
            pages in prop::collection::btree_set(0u64..300, 0..80),
            start in 0u64..300,
            len in 1u32..200,
        ) {
            let list: Vec<u64> = pages.iter().copied().collect();
            let mut table = mapped(&list, false);
            table.reserve(PageRange::new(0, 512)).unwrap();
            let (mut cursor, mut clock) = (Cursor::default(), pace(u64::MAX, 1));
            let stop = table.play(&[Run::read(start, len)], &mut cursor, &mut clock);
            let first_missing = (start..start + u64::from(len)).find(|page| !pages.contains(page));
            let end = first_missing.unwrap_or(start + u64::from(len));
            let expected = first_missing.map_or(Stop::Done, |page| Stop::Fault { page, need: Need::Read });
            prop_assert_eq!(stop, expected);
            let young: BTreeSet<u64> =
                (0..512).filter(|&page| table.is_young(table.dense(page).unwrap())).collect();
            prop_assert_eq!(young, (start..end).collect::<BTreeSet<u64>>());
            let range = PageRange::at(start, u64::from(len));
            let present: Vec<u64> = table.present_in(range).map(|dense| table.page_of(dense)).collect();
            prop_assert_eq!(present, pages.range(range.start..range.end).copied().collect::<Vec<_>>());
        }
    }
}
