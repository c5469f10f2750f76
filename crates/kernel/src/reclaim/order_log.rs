//! The order of pages as an append-only log, for `lru`, `fifo` and `clock`: policies whose victim is at the old end.
//!
//! A policy whose victim may lie in the middle cannot use it: places change whenever the log is compacted, so it cannot keep a hand there.
//! Such a policy uses [`List`](crate::memory::List).
//!
//! Moving a page to the young end of a linked list costs five scattered stores. Here it is one push at the end of the log and one
//! store of its place in it; the older entry goes stale and is skipped in the search for the old end. When the log has grown by
//! three entries a page, stale entries are thrown out: each entry is read a constant number of times.
//!
//! An entry names a page by its frame, or by the only page-table entry that can map it. The latter is for accesses to anonymous
//! memory of a process without relatives: such a hit need not find out which frame it hits. A page is as young as the youngest
//! entry that names it in either way.
//!
//! Most accesses go to pages that were accessed a moment ago, and only the last one counts. So accesses are first noted in a short list, a
//! push each, and the accessed bit of the page table marks that the page is in it. When the list is full, or no older page is left, it is
//! read backwards: the first entry met of a page is its last access, and goes on the log; the bit is cleared with that, and the page's
//! other entries are skipped.
//!
//! One log serves all lruvecs, so that the oldest page of any set of groups can be found.
//!
//! Sketch: 4 bytes a frame and 4 bytes a page touched for places, 8 bytes an entry: 40 bytes a resident page at most, and two megabytes for
//! notes.

use super::outcome::{self, Batch, Fate, count_on, free_lazily};
use super::scan_balance::PageType;
use super::{ListSizes, LruvecId, ReclaimPolicy, Scan};
use crate::memory::{Flag, FrameId, Memory, Warm};
use crate::mmu::{AddressSpace, DensePage, Entry, SpaceId};
use isotherm_units::PageRange;
use isotherm_units::access::{Backing, Run};
use std::collections::BTreeSet;

/// Places in the log count from 1.
const ABSENT: u32 = 0;
/// The place of a frame that is noted: after all of the log.
const NOTED: u32 = u32::MAX;
/// Accesses noted before they are processed: a megabyte. The longer the list, the fewer entries of each page are left.
const NOTED_MAX: usize = if cfg!(test) { 16 } else { 1 << 17 };
/// Places are stored in 32 bits.
const LOG_MAX: usize = u32::MAX as usize - 1 - 2 * NOTED_MAX;
/// Entries read together.
const BLOCK: usize = 64;
/// Shorter logs are not worth compacting.
const LOG_MIN: usize = 4096;
/// log2 of the pages whose places lie in one piece: 16 KiB. Programs with memory all over their space use few pages of each part.
const PIECE_SHIFT: u32 = 12;

#[cfg(test)]
thread_local! {
    /// Candidates that searches of this thread have read.
    pub(super) static READS: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
}

/// Pages in an order, oldest first. Only the oldest can be found: for a victim in the middle, use [`List`](crate::memory::List).
#[derive(Clone, Debug, Default)]
pub(super) struct OrderLog {
    log: Vec<Named>,
    /// By frame: place of the latest entry that names the frame.
    by_frame: Vec<u32>,
    /// By space, piece of its dense pages (empty until it is used), and page in that: place of the latest entry that names the page.
    by_page: Vec<Vec<Vec<u32>>>,
    /// Younger than the whole log: accesses in order of arrival, not processed yet.
    noted: Vec<Noted>,
    /// Scratch space of as many entries.
    latest: Vec<Named>,
    /// Entries of the log that were skipped because their pages' accessed bits mark them as noted.
    passed_over: Vec<u32>,
    nr_live: usize,
    /// Tails by lruvec.
    tails: Vec<Tail>,
    compact_at: usize,
    /// Sizes by lruvec.
    sizes: Vec<ListSizes>,
}

/// The old end of the log as one lruvec sees it.
#[derive(Clone, Debug, Default)]
struct Tail {
    /// Indices below `scanned` of entries that were the latest of their page when they were read: the live entries of the lruvec are among
    /// them. Ascending; entries before `head` are done.
    candidates: Vec<u32>,
    head: usize,
    scanned: usize,
}

impl Tail {
    /// No live entry of the lruvec lies before this index.
    fn begin(&self) -> usize {
        self.candidates.get(self.head).map_or(self.scanned, |&index| index as usize)
    }
}

/// Name of an entry's page: 0 and a frame, or space + 1 and a dense page of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Named(u64);

impl Named {
    fn frame(frame: FrameId) -> Self {
        Self(u64::from(frame.index_u32()))
    }
    #[inline]
    fn page(space: SpaceId, raw: u32) -> Self {
        Self((space.index() as u64 + 1) << 32 | u64::from(raw))
    }
    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "the low half is meant")]
    fn low(self) -> u32 {
        self.0 as u32
    }
    /// The page, if it is named by one.
    fn as_page(self) -> Option<(SpaceId, DensePage)> {
        let space = (self.0 >> 32).checked_sub(1)?;
        Some((SpaceId(u16::try_from(space).expect("made from a space")), DensePage::from_raw(self.low())))
    }
}

/// A recorded access or arrival: a frame, or a space and a virtual page of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Noted(u64);

const FRAME_TAG: u64 = 1 << 63;
/// Virtual pages of 57-bit addresses.
const VIRTUAL_BITS: u32 = 57 - 12;

impl Noted {
    fn frame(frame: FrameId) -> Self {
        Self(FRAME_TAG | u64::from(frame.index_u32()))
    }
    #[inline]
    fn page(space: SpaceId, page: u64) -> Self {
        Self((space.index() as u64) << VIRTUAL_BITS | page)
    }
    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "taken apart as it was put together")]
    fn decode(self) -> Result<FrameId, (SpaceId, u64)> {
        if self.0 & FRAME_TAG != 0 {
            Ok(FrameId::new(self.0 as u32))
        } else {
            Err((SpaceId((self.0 >> VIRTUAL_BITS) as u16), self.0 & ((1 << VIRTUAL_BITS) - 1)))
        }
    }
}

/// A policy that evicts in the order of a log: never from the middle.
pub(super) trait Ordered: ReclaimPolicy + Sized {
    fn log(&mut self) -> &mut OrderLog;
    /// Whether the oldest page goes to the young end this time.
    fn spares(&mut self, _memory: &mut Memory, _frame: FrameId) -> bool {
        false
    }
}

impl OrderLog {
    pub(super) fn new() -> Self {
        Self { compact_at: LOG_MIN, ..Self::default() }
    }

    pub(super) fn add_lruvec(&mut self, lruvec: LruvecId) {
        let len = self.sizes.len().max(lruvec.index() + 1);
        self.sizes.resize(len, ListSizes::default());
        self.tails.resize(len, Tail::default());
    }

    pub(super) fn sizes(&self, lruvec: LruvecId) -> ListSizes {
        self.sizes[lruvec.index()]
    }

    /// A page enters at the young end.
    #[inline]
    pub(super) fn insert(&mut self, memory: &mut Memory, frame: FrameId) {
        self.make_room(memory);
        grow_for(&mut self.by_frame, memory, frame, ABSENT);
        self.enlist(memory, frame);
    }

    fn enlist(&mut self, memory: &mut Memory, frame: FrameId) {
        debug_assert!(!memory.frames.has(frame, Flag::OnList), "already on the log");
        memory.frames.set(frame, Flag::OnList);
        *self.size(memory, frame) += 1;
        self.nr_live += 1;
        self.append(frame);
    }

    /// A page leaves, wherever it is.
    pub(super) fn remove(&mut self, memory: &mut Memory, frame: FrameId) {
        if memory.frames.take(frame, Flag::OnList) {
            *self.size(memory, frame) -= 1;
            debug_assert!(self.nr_live > 0, "a page that leaves the log was counted");
            self.nr_live -= 1;
            self.by_frame[frame.index()] = ABSENT;
        }
    }

    /// Moves a page to the young end.
    pub(super) fn touch(&mut self, memory: &mut Memory, frame: FrameId) {
        debug_assert!(memory.frames.has(frame, Flag::OnList), "only a page of the log moves in it");
        self.make_room(memory);
        self.append(frame);
    }

    /// Moves the pages that show in `runs` to the young end, in order. Accessed bits of the pages are set.
    pub(super) fn touch_runs(&mut self, memory: &mut Memory, space: SpaceId, runs: &[Run]) {
        // Where no page can have a second mapping. The first run is the access that faulted, mostly.
        let mut private =
            runs.first().map_or(PageRange::new(0, 0), |run| private_around(memory.space(space), run.page()));
        let mut left = runs;
        while let Some((run, rest)) = left.split_first() {
            let simple = |run: &&Run| run.pages == 1 && private.contains(run.page());
            let nr_simple = left.iter().take_while(simple).count();
            if nr_simple > 0 {
                self.noted.extend(left[..nr_simple].iter().map(|run| Noted::page(space, run.page())));
                left = &left[nr_simple..];
                continue;
            }
            left = rest;
            for page in run.page()..run.page() + u64::from(run.pages) {
                if !private.contains(page) {
                    private = private_around(memory.space(space), page);
                }
                if private.contains(page) {
                    self.noted.push(Noted::page(space, page));
                } else if let Some(frame) = memory.space(space).table.frame_at(page) {
                    self.note_frame(frame);
                }
            }
        }
        if self.noted.len() >= NOTED_MAX {
            self.look_at_noted(memory); // not earlier: accessed bits are set of pages that were not noted then
        }
        // After a fault the first access is the one that faulted. Its page's own entry counts alone from here on: the entry of
        // its arrival need not be read again.
        let Some(first) = runs.first().map(|run| run.page()) else { return };
        let owner = memory.space(space);
        if let Some(frame) = owner.table.frame_at(first)
            && self.by_frame[frame.index()] == NOTED
            && (private.contains(first) || private_around(owner, first).contains(first))
        {
            self.by_frame[frame.index()] = ABSENT;
        }
    }

    #[inline]
    fn note_frame(&mut self, frame: FrameId) {
        self.noted.push(Noted::frame(frame));
        self.by_frame[frame.index()] = NOTED;
    }

    /// Puts the noted pages on the log, each where it was accessed last.
    #[cold]
    fn look_at_noted(&mut self, memory: &mut Memory) {
        let mut noted = std::mem::take(&mut self.noted);
        // The last ones first: moved to the front as they are found.
        let mut latest = std::mem::take(&mut self.latest);
        latest.resize(latest.len().max(noted.len()), Named(0));
        let mut len = 0;
        let are_marked = memory.frames.are_marked();
        for &access in noted.iter().rev() {
            let (named, is_last) = match access.decode() {
                Ok(frame) => {
                    let is_last = self.by_frame[frame.index()] == NOTED;
                    if is_last {
                        self.by_frame[frame.index()] = ABSENT;
                        // A page that is named by its frame may have an accessed bit to itself: a changed page of a file.
                        if let Some((space, page)) = memory.sole_mapper(frame) {
                            memory.space_mut(space).table.test_and_clear_young(page);
                            memory.frames.take_young(frame);
                        }
                    }
                    (Named::frame(frame), is_last)
                }
                Err((space, page)) => {
                    let table = &mut memory.space_mut(space).table;
                    let Some(dense) = table.dense(page) else { continue };
                    // No branch on it: whether an access is the last one of its page cannot be predicted.
                    let mut is_last = table.take_young(dense);
                    if are_marked {
                        is_last |= take_young_mark(memory, space, dense);
                    }
                    (Named::page(space, dense.raw()), is_last)
                }
            };
            latest[len] = named;
            len += usize::from(is_last);
        }
        noted.clear();
        self.noted = noted;
        // An accessed bit that is still set belongs to a page just mapped whose thread has not come to its access yet.
        for index in std::mem::take(&mut self.passed_over) {
            let (index, named) = (index as usize, self.log[index as usize]);
            if let Some(frame) = self.live(memory, index, named)
                && is_young(memory, frame)
            {
                self.push(named);
            }
        }
        for &named in latest[..len].iter().rev() {
            self.push(named);
        }
        self.latest = latest;
        if self.log.len() >= self.compact_at {
            self.compact(memory);
        }
    }

    #[inline]
    fn push(&mut self, named: Named) {
        self.log.push(named);
        debug_assert!(self.log.len() < NOTED as usize, "places fit 32 bits, and none is that of noted frames");
        let place = self.last_place();
        match named.as_page() {
            None => self.by_frame[named.low() as usize] = place,
            Some((space, page)) => {
                if self.by_page.len() <= space.index() {
                    self.by_page.resize(space.index() + 1, Vec::new());
                }
                *piece_of(&mut self.by_page[space.index()], page) = place;
            }
        }
    }

    /// The pages of `space` are shared from now on: names them by their frames, at the same places.
    pub(super) fn forked(&mut self, memory: &mut Memory, space: SpaceId) {
        self.look_at_noted(memory);
        for index in 0..self.log.len() {
            let named = self.log[index];
            let Some((owner, page)) = named.as_page().filter(|&(owner, _)| owner == space) else { continue };
            if let Some(frame) = self.live(memory, index, named) {
                self.log[index] = Named::frame(frame);
                self.by_frame[frame.index()] = place_of(index);
                *piece_of(&mut self.by_page[owner.index()], page) = ABSENT;
            }
        }
    }

    /// A lazily freed page counts as a file page from now on. Returns whether that is new.
    pub(super) fn free_lazily(&mut self, memory: &mut Memory, frame: FrameId) -> bool {
        free_lazily(memory, frame, |memory, is_on| count_on(self.size(memory, frame), is_on))
    }

    /// Checks that exactly the live and the noted entries are pages with their flag, and that the sizes are right.
    pub(super) fn check(&self, memory: &Memory) -> Result<(), String> {
        let mut pages = BTreeSet::new();
        for (index, &named) in self.log.iter().enumerate() {
            let Some(frame) = self.live(memory, index, named) else { continue };
            pages.insert(frame);
            if !memory.frames.has(frame, Flag::OnList) {
                return Err(format!("{frame:?} is in the log but has no list flag"));
            }
            let lruvec = memory.lruvec_of(frame).index();
            let may_be_noted = !self.noted.is_empty() && is_young(memory, frame);
            if index < self.tails[lruvec].begin() && !may_be_noted {
                return Err(format!("{frame:?} lies before the old end of lruvec {lruvec}"));
            }
        }
        for access in &self.noted {
            let frame = match access.decode() {
                Ok(frame) => Some(frame).filter(|frame| self.by_frame[frame.index()] == NOTED),
                Err((space, page)) => memory.space(space).table.frame_at(page),
            };
            pages.extend(frame.filter(|&frame| memory.frames.has(frame, Flag::OnList)));
        }
        let mut sizes = vec![ListSizes::default(); self.sizes.len()];
        for &frame in &pages {
            *size_of(&mut sizes[memory.lruvec_of(frame).index()], outcome::page_type(memory, frame)) += 1;
        }
        if sizes != self.sizes {
            return Err(format!("sizes are {:?}, counted {sizes:?}", self.sizes));
        }
        if pages.len() != self.nr_live {
            return Err(format!("{} live entries, {} expected", pages.len(), self.nr_live));
        }
        Ok(())
    }

    /// The page whose youngest entry this is, if it is one's.
    #[inline]
    fn live(&self, memory: &Memory, index: usize, named: Named) -> Option<FrameId> {
        let place = place_of(index);
        match named.as_page() {
            None => {
                let frame = FrameId::new(named.low());
                (self.by_frame[frame.index()] == place && !self.is_accessed_after(memory, frame, place))
                    .then_some(frame)
            }
            Some((space, page)) => {
                if self.page_place(space, page) != place {
                    return None;
                }
                let owner = memory.space(space);
                if !owner.alive {
                    return None; // its table is gone
                }
                let Entry::Frame(frame) = owner.table.entry(page) else { return None };
                (self.by_frame[frame.index()] < place).then_some(frame)
            }
        }
    }

    /// Whether the page-table entry of a private page was named after `place`.
    fn is_accessed_after(&self, memory: &Memory, frame: FrameId, place: u32) -> bool {
        let sole = if self.by_page.is_empty() { None } else { memory.sole_mapper(frame) };
        sole.is_some_and(|(space, page)| self.page_place(space, page) > place)
    }

    #[inline]
    fn page_place(&self, space: SpaceId, page: DensePage) -> u32 {
        let pieces = self.by_page.get(space.index());
        let piece = pieces.and_then(|pieces| pieces.get((page.raw() >> PIECE_SHIFT) as usize));
        piece.and_then(|piece| piece.get(within_piece(page))).copied().unwrap_or(ABSENT)
    }

    #[inline]
    fn append(&mut self, frame: FrameId) {
        if self.noted.is_empty() {
            self.push(Named::frame(frame));
        } else {
            self.note_frame(frame);
        }
    }

    #[inline]
    fn last_place(&self) -> u32 {
        place_of(self.log.len() - 1)
    }

    #[inline]
    fn make_room(&mut self, memory: &mut Memory) {
        if self.log.len() >= self.compact_at || self.noted.len() >= NOTED_MAX {
            self.look_at_noted(memory);
        }
    }

    #[cold]
    fn compact(&mut self, memory: &Memory) {
        let (mut kept, mut begin) = (0, 0);
        while begin < self.log.len() {
            let end = (begin + BLOCK).min(self.log.len());
            for offset in Bits(self.latest_in(begin, end)) {
                let (index, named) = (begin + offset, self.log[begin + offset]);
                // A page that is mapped may still have a later entry by frame; then this one is kept for nothing.
                let is_of_use = match named.as_page() {
                    None => self.live(memory, index, named).is_some(),
                    Some((space, page)) => memory.space(space).alive && memory.space(space).table.is_present(page),
                };
                // Places only get smaller and keep their order, so entries not reached yet are judged as before. No place
                // may outlive its entry: it would pass for a later one some day.
                let place = if is_of_use { place_of(kept) } else { ABSENT };
                match named.as_page() {
                    None => self.by_frame[named.low() as usize] = place,
                    Some((space, page)) => *piece_of(&mut self.by_page[space.index()], page) = place,
                }
                if is_of_use {
                    self.log[kept] = named;
                    kept += 1;
                }
            }
            begin = end;
        }
        debug_assert!(self.nr_live <= kept && kept <= self.log.len(), "each page keeps an entry");
        self.log.truncate(kept);
        self.tails.fill(Tail::default());
        self.compact_at = (kept + 3 * self.nr_live).clamp(LOG_MIN, LOG_MAX);
        self.log.reserve_exact(self.compact_at - kept);
    }

    /// The oldest page of `lruvecs` at index `from` or after.
    #[inline]
    fn oldest(&mut self, memory: &Memory, lruvecs: &[LruvecId], from: usize) -> Option<(usize, FrameId)> {
        match lruvecs {
            [lruvec] => self.oldest_of(memory, *lruvec, from),
            _ => lruvecs.iter().filter_map(|&lruvec| self.oldest_of(memory, lruvec, from)).min(),
        }
    }

    #[inline]
    fn oldest_of(&mut self, memory: &Memory, lruvec: LruvecId, from: usize) -> Option<(usize, FrameId)> {
        let Tail { candidates, head, .. } = &self.tails[lruvec.index()];
        let mut at = head + candidates[*head..].partition_point(|&index| (index as usize) < from);
        loop {
            let tail = &self.tails[lruvec.index()];
            let Some(&index) = tail.candidates.get(at) else {
                if tail.scanned == self.log.len() {
                    return None;
                }
                at = self.scan_on(memory, lruvec, at);
                continue;
            };
            let index = index as usize;
            #[cfg(test)]
            READS.set(READS.get() + 1);
            if index >= from {
                let its = self.live(memory, index, self.log[index]).filter(|&frame| memory.lruvec_of(frame) == lruvec);
                match its {
                    Some(frame) if self.noted.is_empty() || !is_young(memory, frame) => return Some((index, frame)),
                    Some(_) => self.passed_over.push(place_of(index) - 1),
                    None => {}
                }
                let tail = &mut self.tails[lruvec.index()];
                tail.head += usize::from(tail.head == at);
            }
            at += 1;
        }
    }

    /// Reads the next block of the log for `lruvec`. `at` is the end of its candidates; returns where that is now.
    fn scan_on(&mut self, memory: &Memory, lruvec: LruvecId, at: usize) -> usize {
        let mut tail = std::mem::take(&mut self.tails[lruvec.index()]);
        debug_assert_eq!(at, tail.candidates.len(), "more is looked at when all candidates were");
        debug_assert!(tail.scanned < self.log.len(), "there is more to look at");
        let end = (tail.scanned + BLOCK).min(self.log.len());
        let latest = self.latest_in(tail.scanned, end);
        memory.warm_up_named(Bits(latest).map(|offset| {
            let named = self.log[tail.scanned + offset];
            match named.as_page() {
                Some((space, page)) => Warm::Page(space, page),
                None => Warm::Frame(FrameId::new(named.low())),
            }
        }));
        // And the data that shows whether a page has come again since.
        std::hint::black_box(Bits(latest).fold(0, |sum, offset| {
            let named = self.log[tail.scanned + offset];
            let frame = named.as_page().and_then(|(space, page)| memory.space(space).table.frame_of(page));
            sum ^ frame.map_or(0, |frame| self.by_frame[frame.index()])
        }));
        let at = at - tail.candidates.drain(..tail.head).len();
        tail.head = 0;
        tail.candidates.extend(Bits(latest).map(|offset| place_of(tail.scanned + offset) - 1));
        tail.scanned = end;
        self.tails[lruvec.index()] = tail;
        at
    }

    /// Bits of the entries among `begin..end`, 64 at most, that are the latest to name their page in their way.
    ///
    /// Most entries near the old end are stale. Each load misses the caches. Loads of many entries at once overlap; one by one,
    /// each would wait for the one before it.
    fn latest_in(&self, begin: usize, end: usize) -> u64 {
        debug_assert!(begin <= end && end - begin <= BLOCK, "each entry has its bit");
        let mut latest = 0;
        for (offset, &named) in self.log[begin..end].iter().enumerate() {
            let place = match named.as_page() {
                None => self.by_frame[named.low() as usize],
                Some((space, page)) => self.page_place(space, page),
            };
            latest |= u64::from(place == place_of(begin + offset)) << offset;
        }
        latest
    }

    fn size(&mut self, memory: &Memory, frame: FrameId) -> &mut u64 {
        let lruvec = memory.lruvec_of(frame);
        size_of(&mut self.sizes[lruvec.index()], outcome::page_type(memory, frame))
    }
}

/// The anonymous mapping around `page`, if no page in it can have a second mapping; else an empty range.
fn private_around(space: &AddressSpace, page: u64) -> PageRange {
    let vma = space.vmas.find(page).filter(|_| space.family.is_empty());
    let private = vma.filter(|vma| vma.mapping.backing == Backing::Anonymous);
    private.map_or(PageRange::new(0, 0), |vma| vma.pages())
}

/// The accessed bit of a page that has one place to be mapped, or the mark that a monitor left for it.
#[inline]
fn is_young(memory: &Memory, frame: FrameId) -> bool {
    let mapper = memory.sole_mapper(frame);
    mapper.is_some_and(|(space, page)| memory.space(space).table.is_young(page) || memory.frames.is_left_young(frame))
}

/// A monitor may have cleared the accessed bit since.
#[cold]
fn take_young_mark(memory: &mut Memory, space: SpaceId, page: DensePage) -> bool {
    let frame = memory.space(space).table.frame_of(page);
    frame.is_some_and(|frame| memory.frames.take_young(frame))
}

/// The numbers of the set bits, ascending.
#[derive(Clone)]
struct Bits(u64);

impl Iterator for Bits {
    type Item = usize;
    fn next(&mut self) -> Option<usize> {
        let bit = self.0.trailing_zeros() as usize;
        self.0 &= self.0.checked_sub(1)?;
        Some(bit)
    }
}

#[expect(clippy::cast_possible_truncation, reason = "the log is shorter than 2^32 entries")]
fn place_of(index: usize) -> u32 {
    index as u32 + 1
}

fn within_piece(page: DensePage) -> usize {
    (page.raw() & ((1 << PIECE_SHIFT) - 1)) as usize
}

/// Where the place of a page is stored.
#[inline]
fn piece_of(pieces: &mut Vec<Vec<u32>>, page: DensePage) -> &mut u32 {
    let piece = (page.raw() >> PIECE_SHIFT) as usize;
    if pieces.get(piece).is_none_or(Vec::is_empty) {
        make_piece(pieces, piece);
    }
    &mut pieces[piece][within_piece(page)]
}

/// Pieces are made when they are first used.
#[cold]
fn make_piece(pieces: &mut Vec<Vec<u32>>, piece: usize) {
    pieces.resize(pieces.len().max(piece + 1), Vec::new());
    pieces[piece] = vec![ABSENT; 1 << PIECE_SHIFT];
}

/// Makes a column by frame long enough for `frame`. Frames are handed out from the lowest, so the column grows with the frames in
/// use, not with the machine.
pub(super) fn grow_for<T: Clone>(column: &mut Vec<T>, memory: &Memory, frame: FrameId, empty: T) {
    debug_assert!(frame.index() < memory.frames.len(), "the frame is one of the machine");
    if column.len() <= frame.index() {
        column.resize((frame.index() + 1).next_power_of_two().min(memory.frames.len()), empty);
    }
}

fn size_of(sizes: &mut ListSizes, page_type: PageType) -> &mut u64 {
    match page_type {
        PageType::Anon => &mut sizes.inactive_anon,
        PageType::File => &mut sizes.inactive_file,
    }
}

/// Frees the oldest page of `lruvecs` that can be freed.
///
/// Pages under I/O or locked in memory keep their place. A page that cannot go for want of swap moves to the young end, so that
/// it is not read each time.
pub(super) fn evict_oldest<P: Ordered>(policy: &mut P, memory: &mut Memory, lruvecs: &[LruvecId], scan: &mut Scan) {
    policy.log().make_room(memory);
    // Every page once to lose its second chance, once more to go.
    let mut looks = 2 * policy.log().nr_live + 1;
    let mut from = 0;
    loop {
        let Some((index, frame)) = policy.log().oldest(memory, lruvecs, from) else {
            if policy.log().noted.is_empty() {
                return;
            }
            policy.log().look_at_noted(memory);
            from = 0;
            continue;
        };
        looks -= 1;
        if looks == 0 {
            return;
        }
        // A pinned page keeps its place, every other moves to the young end: up to here the search is over.
        from = index + 1;
        if is_pinned(memory, frame) {
            continue;
        }
        if policy.spares(memory, frame) {
            policy.log().append(frame);
        } else {
            debug_assert!(memory.frames.has(frame, Flag::OnList), "live entries are those of listed pages");
            policy.log().remove(memory, frame);
            if evict_exactly(memory, policy, frame, scan) {
                return;
            }
            policy.log().enlist(memory, frame);
        }
    }
}

/// Whether no policy can evict a page now.
pub(super) fn is_pinned(memory: &Memory, frame: FrameId) -> bool {
    memory.frames.flags(frame).has_any([Flag::Reading, Flag::Writeback, Flag::Unevictable])
}

/// Evicts a page that is on no list and not pinned; `false`: it cannot go. Books it.
pub(super) fn evict_exactly(
    memory: &mut Memory,
    policy: &mut dyn ReclaimPolicy,
    frame: FrameId,
    scan: &mut Scan,
) -> bool {
    debug_assert!(!is_pinned(memory, frame), "pinned pages are passed over");
    let (cgroup, page_type) = (memory.frames.cgroup(frame), outcome::page_type(memory, frame));
    let unmapped_before = scan.taken.unmapped;
    scan.taken.pages += 1;
    let is_freed = outcome::evict(memory, policy, frame, scan) == Fate::Freed;
    let unmapped = scan.taken.unmapped - unmapped_before;
    scan.nr_scanned += 1;
    scan.nr_reclaimed += u64::from(is_freed);
    let batch = Batch { scanned: 1, reclaimed: u64::from(is_freed), unmapped };
    outcome::count_batch(memory, scan, cgroup, page_type, batch);
    is_freed
}
