//! The order of pages as an append-only log: what `lru`, `fifo` and `clock` share.
//!
//! Moving a page to the young end of a linked list costs five scattered stores. Here it is one push at the end of the log
//! and one store of the page's place in it; the older entry goes stale and is passed over when the old end is looked for.
//! When the log is four times as long as there are pages, stale entries are thrown out: 20 bytes a page at most, and each
//! entry is looked at a constant number of times.
//!
//! One log serves all lruvecs, so that the oldest page of any set of groups can be told.

use super::outcome::{self, Batch, Fate};
use super::scan_balance::PageType;
use super::{ListSizes, LruvecId, ReclaimPolicy, Scan};
use crate::counters::Counter;
use crate::memory::{Flag, FrameId, Memory};

const ABSENT: u32 = u32::MAX;
/// Places are stored in 32 bits.
const LOG_MAX: usize = u32::MAX as usize - 1;
/// Shorter logs are not worth compacting.
const LOG_MIN: usize = 4096;

/// Pages in an order, oldest first.
#[derive(Debug, Default)]
pub(super) struct OrderLog {
    log: Vec<u32>,
    /// By frame: index of its live entry.
    place: Vec<u32>,
    nr_live: usize,
    /// By lruvec: no live entry of it lies before this index.
    oldest: Vec<usize>,
    compact_at: usize,
    /// By lruvec.
    sizes: Vec<ListSizes>,
}

/// A policy that evicts in the order of a log.
pub(super) trait Ordered: ReclaimPolicy + Sized {
    fn log(&mut self) -> &mut OrderLog;
    /// Whether the oldest page goes to the young end this time.
    fn spares(&mut self, _frame: FrameId) -> bool {
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
        self.oldest.resize(len, 0);
    }

    pub(super) fn sizes(&self, lruvec: LruvecId) -> ListSizes {
        self.sizes[lruvec.index()]
    }

    /// A page enters at the young end.
    pub(super) fn insert(&mut self, memory: &mut Memory, frame: FrameId) {
        if self.log.len() >= self.compact_at {
            self.compact();
        }
        grow_for(&mut self.place, memory, frame, ABSENT);
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
            self.place[frame.index()] = ABSENT;
        }
    }

    /// Moves a page to the young end.
    #[inline]
    pub(super) fn touch(&mut self, frame: FrameId) {
        if self.log.len() >= self.compact_at {
            self.compact();
        }
        self.append(frame);
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
        for (index, &raw) in self.log.iter().enumerate() {
            let frame = FrameId::new(raw);
            if self.place[frame.index()] as usize != index {
                continue;
            }
            nr_live += 1;
            let lruvec = memory.lruvec_of(frame).index();
            if !memory.frames.has(frame, Flag::OnList) {
                return Err(format!("{frame:?} is in the log but has no list flag"));
            }
            if index < self.oldest[lruvec] {
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

    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "compaction keeps the log below 2^32 entries")]
    fn append(&mut self, frame: FrameId) {
        self.place[frame.index()] = self.log.len() as u32;
        self.log.push(frame.index_u32());
    }

    #[cold]
    #[expect(clippy::cast_possible_truncation, reason = "places fit before, and get smaller")]
    fn compact(&mut self) {
        let mut kept = 0;
        for index in 0..self.log.len() {
            let frame = self.log[index];
            let place = &mut self.place[frame as usize];
            if *place as usize == index {
                *place = kept as u32;
                self.log[kept] = frame;
                kept += 1;
            }
        }
        self.log.truncate(kept);
        self.oldest.fill(0);
        self.compact_at = (4 * kept).clamp(LOG_MIN, LOG_MAX);
        self.log.reserve_exact(self.compact_at - kept);
    }

    /// The oldest page of `lruvecs` at index `from` or after.
    fn oldest(&mut self, memory: &Memory, lruvecs: &[LruvecId], from: usize) -> Option<(usize, FrameId)> {
        lruvecs.iter().filter_map(|&lruvec| self.oldest_of(memory, lruvec, from)).min()
    }

    fn oldest_of(&mut self, memory: &Memory, lruvec: LruvecId, from: usize) -> Option<(usize, FrameId)> {
        let start = self.oldest[lruvec.index()];
        let begin = start.max(from);
        let entries = self.log.get(begin..).unwrap_or_default();
        let found = entries.iter().enumerate().find_map(|(offset, &raw)| {
            let (index, frame) = (begin + offset, FrameId::new(raw));
            let is_live = self.place[frame.index()] as usize == index;
            (is_live && memory.lruvec_of(frame) == lruvec).then_some((index, frame))
        });
        if start >= from {
            self.oldest[lruvec.index()] = found.map_or(self.log.len(), |(index, _)| index);
        }
        found
    }

    fn size(&mut self, memory: &Memory, frame: FrameId) -> &mut u64 {
        let lruvec = memory.lruvec_of(frame);
        size_of(&mut self.sizes[lruvec.index()], outcome::page_type(memory, frame))
    }
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
    if policy.log().log.len() >= policy.log().compact_at {
        policy.log().compact();
    }
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
        } else if policy.spares(frame) {
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
