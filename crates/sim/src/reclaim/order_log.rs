//! The order of pages as an append-only log: what `lru`, `fifo` and `clock` share.
//!
//! Moving a page to the young end of a linked list costs five scattered stores. Here it is one push at the end of the log
//! and one store of its place in it; the older entry goes stale and is passed over when the old end is looked for. When the
//! log has grown by three entries a page, stale entries are thrown out: each entry is looked at a constant number of times.
//!
//! An entry names a page by its frame, or by the only page-table entry that can show it. The latter is for accesses to
//! anonymous memory of a process without relatives: such a hit need not find out which frame it hits, and costs a store
//! and no load that misses the caches. A page is as young as the youngest entry that names it in either way.
//!
//! One log serves all lruvecs, so that the oldest page of any set of groups can be told.
//!
//! Sketch: 4 bytes a frame and 4 bytes a page touched for places, 8 bytes an entry: 40 bytes a resident page at most.

use super::outcome::{self, Batch, Fate};
use super::scan_balance::PageType;
use super::{ListSizes, LruvecId, ReclaimPolicy, Scan};
use crate::counters::Counter;
use crate::memory::{Flag, FrameId, Memory};
use crate::mmu::{AddressSpace, DensePage, Entry, SpaceId};
use isotherm_units::PageRange;
use isotherm_units::access::{Backing, Run};
use std::collections::VecDeque;

/// Places in the log count from 1.
const ABSENT: u32 = 0;
/// Places are stored in 32 bits.
const LOG_MAX: usize = u32::MAX as usize - 1;
/// Entries looked at together.
const BLOCK: usize = 64;
/// Shorter logs are not worth compacting.
const LOG_MIN: usize = 4096;
/// Pages whose places lie in one piece: those of a chunk of the page table.
const PIECE_SHIFT: u32 = 24;

/// Pages in an order, oldest first.
#[derive(Debug, Default)]
pub(super) struct OrderLog {
    log: Vec<Named>,
    /// By frame: place of the latest entry that names the frame.
    by_frame: Vec<u32>,
    /// By space, piece of its dense pages, and page in that: place of the latest entry that names the page.
    by_page: Vec<Vec<Vec<u32>>>,
    nr_live: usize,
    /// By lruvec.
    tails: Vec<Tail>,
    compact_at: usize,
    /// By lruvec.
    sizes: Vec<ListSizes>,
}

/// The old end of the log as one lruvec sees it.
#[derive(Clone, Debug, Default)]
struct Tail {
    /// Indices below `scanned` of entries that were the latest of their page when they were looked at: the live entries of
    /// the lruvec are among them. Ascending.
    candidates: VecDeque<usize>,
    scanned: usize,
}

impl Tail {
    /// No live entry of the lruvec lies before this index.
    fn begin(&self) -> usize {
        self.candidates.front().copied().unwrap_or(self.scanned)
    }
}

/// How an entry names its page: 0 and a frame, or space + 1 and a dense page of it.
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

/// A policy that evicts in the order of a log.
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
            self.nr_live -= 1;
            self.by_frame[frame.index()] = ABSENT;
        }
    }

    /// Moves a page to the young end.
    pub(super) fn touch(&mut self, memory: &Memory, frame: FrameId) {
        self.make_room(memory);
        self.append(frame);
    }

    /// Moves the pages that show in `runs` to the young end, in order.
    pub(super) fn touch_runs(&mut self, memory: &Memory, space: SpaceId, runs: &[Run]) {
        if self.by_page.len() <= space.index() {
            self.by_page.resize(space.index() + 1, Vec::new());
        }
        let owner = memory.space(space);
        // Where no page can have a second mapping.
        let mut private = PageRange::new(0, 0);
        for run in runs {
            for page in run.page()..run.page() + u64::from(run.pages) {
                self.make_room(memory);
                if !private.contains(page) {
                    private = private_around(owner, page);
                }
                if private.contains(page) {
                    let Some(dense) = owner.table.dense(page) else { continue };
                    self.log.push(Named::page(space, dense.raw()));
                    let place = self.last_place();
                    *piece_of(&mut self.by_page[space.index()], dense) = place;
                } else if let Some(frame) = owner.table.frame_at(page) {
                    self.append(frame);
                }
            }
        }
        // After a fault the first access is the one that faulted. Its page's own entry counts alone from here on: the entry
        // of its arrival need not be looked at again.
        let first = runs.first().map(|run| run.page()).filter(|&page| private_around(owner, page).contains(page));
        if let Some(frame) = first.and_then(|page| owner.table.frame_at(page)) {
            self.by_frame[frame.index()] = ABSENT;
        }
    }

    /// The pages of `space` are shared from now on: names them by their frames, at the same places.
    pub(super) fn forked(&mut self, memory: &Memory, space: SpaceId) {
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
        if !memory.frames.has(frame, Flag::SwapBacked) || memory.frames.has(frame, Flag::FileOwned) {
            return false;
        }
        let is_listed = memory.frames.has(frame, Flag::OnList);
        if is_listed {
            *self.size(memory, frame) -= 1;
        }
        memory.frames.clear(frame, Flag::SwapBacked);
        if is_listed {
            *self.size(memory, frame) += 1;
        }
        let cgroup = memory.frames.cgroup(frame);
        memory.count(Counter::PgLazyFree, cgroup, 1);
        true
    }

    /// Checks that exactly the live entries are pages with their flag, and that the sizes are right.
    pub(super) fn check(&self, memory: &Memory) -> Result<(), String> {
        let mut sizes = vec![ListSizes::default(); self.sizes.len()];
        let mut nr_live = 0;
        for (index, &named) in self.log.iter().enumerate() {
            let Some(frame) = self.live(memory, index, named) else { continue };
            nr_live += 1;
            let lruvec = memory.lruvec_of(frame).index();
            if !memory.frames.has(frame, Flag::OnList) {
                return Err(format!("{frame:?} is in the log but has no list flag"));
            }
            if index < self.tails[lruvec].begin() {
                return Err(format!("{frame:?} lies before the old end of lruvec {lruvec}"));
            }
            *size_of(&mut sizes[lruvec], outcome::page_type(memory, frame)) += 1;
        }
        if sizes != self.sizes {
            return Err(format!("sizes are {:?}, counted {sizes:?}", self.sizes));
        }
        if nr_live != self.nr_live {
            return Err(format!("{nr_live} live entries, {} expected", self.nr_live));
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
        self.log.push(Named::frame(frame));
        self.by_frame[frame.index()] = self.last_place();
    }

    #[inline]
    fn last_place(&self) -> u32 {
        place_of(self.log.len() - 1)
    }

    #[inline]
    fn make_room(&mut self, memory: &Memory) {
        if self.log.len() >= self.compact_at {
            self.compact(memory);
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
        self.log.truncate(kept);
        self.tails.fill(Tail::default());
        self.compact_at = (kept + 3 * self.nr_live).clamp(LOG_MIN, LOG_MAX);
        self.log.reserve_exact(self.compact_at - kept);
    }

    /// The oldest page of `lruvecs` at index `from` or after.
    fn oldest(&mut self, memory: &Memory, lruvecs: &[LruvecId], from: usize) -> Option<(usize, FrameId)> {
        lruvecs.iter().filter_map(|&lruvec| self.oldest_of(memory, lruvec, from)).min()
    }

    fn oldest_of(&mut self, memory: &Memory, lruvec: LruvecId, from: usize) -> Option<(usize, FrameId)> {
        let mut tail = std::mem::take(&mut self.tails[lruvec.index()]);
        let is_its = |index: usize| {
            let frame = self.live(memory, index, self.log[index])?;
            (memory.lruvec_of(frame) == lruvec).then_some((index, frame))
        };
        let mut at = tail.candidates.partition_point(|&index| index < from);
        let found = loop {
            match tail.candidates.get(at) {
                Some(&index) => match is_its(index) {
                    Some(found) => break Some(found),
                    None => drop(tail.candidates.remove(at)),
                },
                None if tail.scanned == self.log.len() => break None,
                None => {
                    let end = (tail.scanned + BLOCK).min(self.log.len());
                    let latest = Bits(self.latest_in(tail.scanned, end));
                    tail.candidates.extend(latest.map(|offset| tail.scanned + offset));
                    tail.scanned = end;
                    at = tail.candidates.partition_point(|&index| index < from);
                }
            }
        };
        self.tails[lruvec.index()] = tail;
        found
    }

    /// Which of the entries `begin..end`, 64 at most, are the latest that name their page in their way: one bit each.
    ///
    /// Most entries near the old end are stale. Asking for many at once lets the loads overlap, each of which misses the
    /// caches; asked one by one, each would wait for the answer of the one before it.
    fn latest_in(&self, begin: usize, end: usize) -> u64 {
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

#[expect(clippy::cast_possible_truncation, reason = "the log is shorter than 2^32 entries")]
fn place_of(index: usize) -> u32 {
    index as u32 + 1
}

fn within_piece(page: DensePage) -> usize {
    (page.raw() & ((1 << PIECE_SHIFT) - 1)) as usize
}

/// Where the place of a page is stored. Pieces are zero pages of the operating system until used.
#[inline]
fn piece_of(pieces: &mut Vec<Vec<u32>>, page: DensePage) -> &mut u32 {
    let piece = (page.raw() >> PIECE_SHIFT) as usize;
    while pieces.len() <= piece {
        pieces.push(vec![ABSENT; 1 << PIECE_SHIFT]);
    }
    &mut pieces[piece][within_piece(page)]
}

/// Makes a column by frame long enough for `frame`. Frames are handed out from the lowest, so the column follows what is
/// used, not what the machine has.
pub(super) fn grow_for<T: Clone>(column: &mut Vec<T>, memory: &Memory, frame: FrameId, empty: T) {
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
/// Pages under I/O or locked in memory keep their place. A page that cannot go for want of swap moves to the young end, so
/// that it is not looked at each time.
pub(super) fn evict_oldest<P: Ordered>(policy: &mut P, memory: &mut Memory, lruvecs: &[LruvecId], scan: &mut Scan) {
    policy.log().make_room(memory);
    // Every page once to lose its second chance, once more to go.
    let mut looks = 2 * policy.log().nr_live + 1;
    let mut from = 0;
    while let Some((index, frame)) = policy.log().oldest(memory, lruvecs, from) {
        looks -= 1;
        if looks == 0 {
            return;
        }
        if is_pinned(memory, frame) {
            from = index + 1;
        } else if policy.spares(memory, frame) {
            policy.log().append(frame);
        } else {
            policy.log().remove(memory, frame);
            if evict_exactly(memory, policy, frame, scan) {
                return;
            }
            policy.log().enlist(memory, frame);
        }
    }
}

/// Whether a page cannot be evicted now, whatever the policy wants.
pub(super) fn is_pinned(memory: &Memory, frame: FrameId) -> bool {
    [Flag::Reading, Flag::Writeback, Flag::Unevictable].into_iter().any(|flag| memory.frames.has(frame, flag))
}

/// Evicts a page that is on no list and not pinned; `false`: it cannot go. Books it.
pub(super) fn evict_exactly(
    memory: &mut Memory,
    policy: &mut dyn ReclaimPolicy,
    frame: FrameId,
    scan: &mut Scan,
) -> bool {
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
