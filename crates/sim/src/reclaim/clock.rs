//! `clock`: first in, first out with a second chance (`docs/yardsticks.md`).
//!
//! The reference bit is the accessed bit of the page table (of any entry that shows the page), and `referenced` for uses
//! through a file descriptor. The access that brings a page in sets the accessed bit too but must not count, so the bit is
//! cleared when that access is over, unless the page was used again at once.

use super::order_log::{OrderLog, Ordered, evict_oldest};
use super::{Arrival, Hint, ListSizes, LruvecId, ReclaimPolicy, Scan};
use crate::cgroup::CgroupId;
use crate::memory::{Flag, FrameId, Memory, NodeId};
use crate::mmu::SpaceId;
use isotherm_units::access::Run;

/// Second chance, page-exact.
#[derive(Debug)]
pub struct Clock {
    log: OrderLog,
    /// Pages whose first access is still to come. Hardly ever more than there are threads.
    fresh: Vec<FrameId>,
}

impl Default for Clock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock {
    /// Without pages.
    pub fn new() -> Self {
        Self { log: OrderLog::new(), fresh: Vec::new() }
    }

    /// Takes a page off the fresh ones; whether it was one.
    fn take_fresh(&mut self, frame: FrameId) -> bool {
        let at = self.fresh.iter().position(|&other| other == frame);
        at.is_some_and(|at| {
            self.fresh.swap_remove(at);
            true
        })
    }
}

/// Reads and clears the reference bit of a page.
fn take_used(memory: &mut Memory, frame: FrameId) -> bool {
    let mut used = memory.frames.take(frame, Flag::Referenced);
    if let Some((space, page)) = memory.sole_mapper(frame) {
        return memory.space_mut(space).table.test_and_clear_young(page) || used;
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
        self.fresh.push(frame);
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
    fn wants_touches(&self) -> bool {
        true
    }
    fn touched(&mut self, memory: &mut Memory, space: SpaceId, runs: &[Run]) {
        if self.fresh.is_empty() {
            return;
        }
        let mut fresh = std::mem::take(&mut self.fresh);
        fresh.retain(|&frame| {
            let table = &memory.space(space).table;
            let shows = |page: &u64| table.frame_at(*page) == Some(frame);
            let mut pages = runs.iter().flat_map(|run| run.page()..run.page() + u64::from(run.pages));
            let Some(first) = pages.find(shows) else { return true };
            if !pages.any(|page| page == first) {
                take_used(memory, frame);
            }
            false
        });
        self.fresh = fresh;
    }
    fn is_exact(&self) -> bool {
        true
    }
}
