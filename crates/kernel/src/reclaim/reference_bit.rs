//! The reference bit of a page, for policies that ask whether a page was used since they last asked: `clock`, SIEVE and the like.
//!
//! It is the accessed bit of the page table (of any entry that maps the page), and [`Flag::Referenced`] for uses through a file
//! descriptor. There are two traps:
//!
//! - The access that brings a page in sets the accessed bit too, but must not count. So the bit is cleared when that access is over.
//! - Monitors clear accessed bits. They leave [`young`](crate::memory::Frames::take_young) on the frame, which counts as well.
//!
//! A policy calls these methods from its methods of the same name of [`ReclaimPolicy`](super::ReclaimPolicy), and
//! [wants](super::ReclaimPolicy::wanted_touches) [`ReferenceBit::TOUCHES`].

use super::Touches;
use crate::memory::{Flag, FrameId, Memory, PageOwner};
use crate::mmu::SpaceId;
use isotherm_units::access::Run;
use std::collections::VecDeque;

/// More than the pages that are between fault and access at any time.
const FRESH_MAX: usize = 64;

/// State that tells the first access of a page from later ones. The bits themselves are in page tables and frames.
#[derive(Clone, Debug, Default)]
pub(super) struct ReferenceBit {
    /// The last pages that were added, as far as their first access is still to come. Pages that were read ahead and not used drop out, and
    /// are treated like others then.
    fresh: VecDeque<FrameId>,
}

impl ReferenceBit {
    /// The accesses that [`touched`](Self::touched) needs.
    pub(super) const TOUCHES: Touches = Touches::AfterFault;

    /// Takes a page off the fresh ones; returns whether it was one.
    #[inline]
    fn take_fresh(&mut self, frame: FrameId) -> bool {
        if self.fresh.is_empty() {
            return false;
        }
        let at = self.fresh.iter().position(|&other| other == frame);
        at.is_some_and(|at| {
            self.fresh.remove(at);
            true
        })
    }

    /// Reads and clears the bit of a page. A page whose first access is still to come was not used, and that access then counts.
    pub(super) fn take(&mut self, memory: &mut Memory, frame: FrameId) -> bool {
        !self.take_fresh(frame) && take_used(memory, frame)
    }

    /// A page was added. The next access of the page is its first, and does not count.
    pub(super) fn added(&mut self, frame: FrameId) {
        debug_assert!(self.fresh.len() <= FRESH_MAX, "the oldest makes room for the newest");
        if self.fresh.len() == FRESH_MAX {
            self.fresh.pop_front();
        }
        self.fresh.push_back(frame);
    }

    /// A page goes.
    pub(super) fn removed(&mut self, frame: FrameId) {
        self.take_fresh(frame);
    }

    /// A page was used through a file descriptor.
    pub(super) fn mark_accessed(&mut self, memory: &mut Memory, frame: FrameId) {
        if !self.take_fresh(frame) {
            memory.frames.set(frame, Flag::Referenced);
        }
    }

    /// Clears the bit that the access set which brought a page in.
    pub(super) fn touched(&mut self, memory: &mut Memory, space: SpaceId, runs: &[Run]) {
        // The first access is the one that faulted.
        let Some(first) = runs.first().filter(|_| !self.fresh.is_empty()).map(|run| run.page()) else { return };
        let Some(frame) = memory.space(space).table.frame_at(first) else { return };
        if self.take_fresh(frame) {
            take_used(memory, frame);
        }
    }
}

/// Reads and clears accessed bits and flag of a page.
fn take_used(memory: &mut Memory, frame: FrameId) -> bool {
    let flags = memory.frames.flags(frame);
    let mut used = flags.has(Flag::Referenced) | memory.frames.take_young(frame);
    if flags.has(Flag::Referenced) {
        memory.frames.clear(frame, Flag::Referenced);
    }
    if !flags.has_any([Flag::FileOwned, Flag::Shared])
        && let PageOwner::Anonymous { space, page } = memory.frames.owner(frame)
    {
        // A page in flight may outlive its space, and its place in it.
        let owner = memory.space_mut(space);
        return owner.alive && owner.table.test_and_clear_young_of(page, frame) || used;
    }
    for mapper in memory.mappers(frame) {
        used |= memory.space_mut(mapper.space).table.test_and_clear_young(mapper.page);
    }
    used
}
