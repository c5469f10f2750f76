//! `clock`: first in, first out with a second chance (`docs/mechanism/reclaim.md#baselines`).
//!
//! The reference bit is the accessed bit of the page table (of any entry that shows the page), and `referenced` for uses
//! through a file descriptor. The access that brings a page in sets the accessed bit too but must not count, so the bit is
//! cleared when that access is over.

use super::order_log::{OrderLog, Ordered, evict_oldest};
use super::{Arrival, Hint, ListSizes, LruvecId, PolicyEntry, ReclaimPolicy, Scan, Touches};
use crate::cgroup::CgroupId;
use crate::memory::{Flag, FrameId, Memory, NodeId, PageOwner};
use crate::mmu::SpaceId;
use isotherm_units::access::Run;
use std::collections::VecDeque;

/// More pages than are on their way between fault and access at any time.
const FRESH_MAX: usize = 64;

/// Its line in the table of policies.
pub(super) const ENTRY: PolicyEntry = PolicyEntry {
    name: "clock",
    summary: "first in, first out with a second chance (baseline)",
    runs_on_linux: false,
    make: |_| Box::new(Clock::new()),
};

/// Second chance, page-exact.
#[derive(Clone, Debug)]
pub struct Clock {
    log: OrderLog,
    /// The last pages that came in, as far as their first access is still to come. Pages that were read ahead and not used
    /// drop out, and are treated like others then.
    fresh: VecDeque<FrameId>,
}

impl Default for Clock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock {
    /// Without pages.
    pub fn new() -> Self {
        Self { log: OrderLog::new(), fresh: VecDeque::new() }
    }

    /// Takes a page off the fresh ones; whether it was one.
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
}

/// Reads and clears the reference bit of a page.
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

impl Ordered for Clock {
    fn log(&mut self) -> &mut OrderLog {
        &mut self.log
    }
    fn spares(&mut self, memory: &mut Memory, frame: FrameId) -> bool {
        !self.take_fresh(frame) && take_used(memory, frame)
    }
}

impl ReclaimPolicy for Clock {
    fn add_lruvec(&mut self, lruvec: LruvecId) {
        self.log.add_lruvec(lruvec);
    }
    fn added(&mut self, memory: &mut Memory, frame: FrameId, _arrival: Arrival, _shadow: Option<u64>) {
        debug_assert!(self.fresh.len() <= FRESH_MAX, "the oldest makes room for the newest");
        if self.fresh.len() == FRESH_MAX {
            self.fresh.pop_front();
        }
        self.fresh.push_back(frame);
        self.log.insert(memory, frame);
    }
    fn removed(&mut self, memory: &mut Memory, frame: FrameId) {
        self.take_fresh(frame);
        self.log.remove(memory, frame);
    }
    fn mark_accessed(&mut self, memory: &mut Memory, frame: FrameId) {
        if !self.take_fresh(frame) {
            memory.frames.set(frame, Flag::Referenced);
        }
    }
    fn hint(&mut self, memory: &mut Memory, frame: FrameId, hint: Hint) -> bool {
        hint == Hint::LazyFree && self.log.free_lazily(memory, frame)
    }
    fn shrink_lruvec(&mut self, memory: &mut Memory, lruvec: LruvecId, scan: &mut Scan) {
        evict_oldest(self, memory, &[lruvec], scan);
    }
    fn shrink_exactly(&mut self, memory: &mut Memory, lruvecs: &[LruvecId], scan: &mut Scan) {
        evict_oldest(self, memory, lruvecs, scan);
    }
    fn age_node(&mut self, _memory: &mut Memory, _node: NodeId, _scan: &mut Scan) {}
    fn reclaim_ended(&mut self, _memory: &mut Memory, _node: Option<NodeId>, _scan: &Scan) {}
    fn writeback_ended(&mut self, _memory: &mut Memory, _frame: FrameId) {}
    fn shadow_of(&mut self, _memory: &mut Memory, _frame: FrameId, _root: CgroupId) -> Option<u64> {
        None
    }
    fn sizes(&self, lruvec: LruvecId) -> ListSizes {
        self.log.sizes(lruvec)
    }
    fn check(&self, memory: &Memory) -> Result<(), String> {
        self.log.check(memory)
    }
    fn wanted_touches(&self) -> Touches {
        Touches::AfterFault
    }
    fn touched(&mut self, memory: &mut Memory, space: SpaceId, runs: &[Run]) {
        // The first access is the one that faulted.
        let Some(first) = runs.first().filter(|_| !self.fresh.is_empty()).map(|run| run.page()) else { return };
        let Some(frame) = memory.space(space).table.frame_at(first) else { return };
        if self.take_fresh(frame) {
            take_used(memory, frame);
        }
    }
    fn is_exact(&self) -> bool {
        true
    }

    fn fork(&self) -> Option<Box<dyn ReclaimPolicy>> {
        Some(Box::new(self.clone()))
    }
}
