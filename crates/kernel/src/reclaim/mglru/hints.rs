//! Effects of schemes and `madvise` on a page, and where it goes when its write-back ends (docs/spec/mglru.md#s2-2, #s3, trap
//! 10).

use super::Mglru;
use super::generations::list_of;
use super::page::PageState;
use crate::counters::Counter;
use crate::memory::{Flag, FrameId, Memory};
use crate::reclaim::outcome::page_type;
use crate::reclaim::scan_balance::PageType;
use crate::reclaim::{Hint, ReclaimPolicy};

impl Mglru {
    pub(super) fn take_hint(&mut self, memory: &mut Memory, frame: FrameId, hint: Hint) -> bool {
        if hint == Hint::UnmappedYoung {
            self.mark_accessed(memory, frame);
            return true;
        }
        if self.generations.state(frame).is_waiting() {
            self.insert_pending(memory);
        }
        if self.generations.state(frame).generation().is_none() {
            return false;
        }
        match hint {
            Hint::Prioritise => self.prioritise(memory, frame),
            Hint::Deprioritise | Hint::Cold => self.deprioritise(memory, frame),
            Hint::LazyFree => return self.free_lazily(memory, frame),
            Hint::DeactivateFile => return self.deactivate_file(memory, frame),
            Hint::UnmappedYoung => {}
        }
        true
    }

    /// Takes a page off its list, changes its byte and flags, and puts it where it belongs then.
    fn reinsert(
        &mut self,
        memory: &mut Memory,
        frame: FrameId,
        rotated: bool,
        change: impl FnOnce(&mut Memory, PageState) -> PageState,
    ) {
        debug_assert!(
            self.generations.state(frame).generation().is_some(),
            "only a page of a generation changes its place"
        );
        self.generations.take_off(memory, frame);
        let state = change(memory, self.generations.state(frame));
        self.generations.set_state(&memory.frames, frame, state);
        self.generations.insert(memory, frame, rotated);
        memory.ledger.spend(memory.costs.lru_move_ns);
    }

    /// Puts the page among the young ones; a page of the youngest generation that is not of the working set gets older by it.
    fn prioritise(&mut self, memory: &mut Memory, frame: FrameId) {
        self.reinsert(memory, frame, false, |memory, state| {
            memory.frames.set(frame, Flag::Active);
            state
        });
        let (cgroup, pages) = (memory.frames.cgroup(frame), memory.frames.nr_pages(frame));
        memory.count(Counter::PgActivate, cgroup, pages);
    }

    /// Forgets its uses and, unless it is among the oldest, puts it where a new page goes: an anonymous page that is not in the
    /// swap cache among the young ones.
    fn deprioritise(&mut self, memory: &mut Memory, frame: FrameId) {
        let state = self.generations.state(frame).cold();
        self.generations.set_state(&memory.frames, frame, state);
        let own = self.generations.get(memory.lruvec_of(frame));
        if state.generation() == Some(list_of(own.min_seq[state.page_type() as usize])) {
            return;
        }
        self.reinsert(memory, frame, false, |_, state| state);
        let (cgroup, pages) = (memory.frames.cgroup(frame), memory.frames.nr_pages(frame));
        memory.count(Counter::PgDeactivate, cgroup, pages);
    }

    /// `MADV_FREE`: to the oldest file pages, where it is dropped without being written.
    fn free_lazily(&mut self, memory: &mut Memory, frame: FrameId) -> bool {
        let flags = memory.frames.flags(frame);
        if flags.has_any([Flag::FileOwned, Flag::SwapCache]) || !flags.has(Flag::SwapBacked) {
            return false;
        }
        self.reinsert(memory, frame, false, |memory, state| {
            memory.frames.clear(frame, Flag::SwapBacked);
            state.cold()
        });
        let cgroup = memory.frames.cgroup(frame);
        memory.count(Counter::PgLazyFree, cgroup, 1);
        true
    }

    /// `POSIX_FADV_DONTNEED` and the like on a file page that is not simply dropped.
    fn deactivate_file(&mut self, memory: &mut Memory, frame: FrameId) -> bool {
        if page_type(memory, frame) == PageType::Anon || memory.is_mapped(frame) {
            return false;
        }
        let in_use = memory.frames.flags(frame).has_any([Flag::Dirty, Flag::Writeback]);
        self.reinsert(memory, frame, !in_use, |memory, state| {
            if in_use {
                memory.frames.set(frame, Flag::Reclaim);
            }
            state.without_refs()
        });
        let (cgroup, pages) = (memory.frames.cgroup(frame), memory.frames.nr_pages(frame));
        memory.count(Counter::PgRotated, cgroup, if in_use { 0 } else { pages });
        memory.count(Counter::PgDeactivate, cgroup, pages);
        true
    }

    /// Write-back ended of a page that reclaim waits for.
    pub(super) fn rotate_written(&mut self, memory: &mut Memory, frame: FrameId) {
        debug_assert!(!memory.frames.has(frame, Flag::Writeback), "the page is told of when its write is over");
        let stays = memory.frames.flags(frame).has_any([Flag::Dirty, Flag::Unevictable]);
        if stays || self.generations.state(frame).generation().is_none() {
            return;
        }
        self.reinsert(memory, frame, true, |_, state| state);
        let (cgroup, pages) = (memory.frames.cgroup(frame), memory.frames.nr_pages(frame));
        memory.count(Counter::PgRotated, cgroup, pages);
    }
}
