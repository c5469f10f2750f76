//! `fifo`: the page that came in first goes first (`docs/mechanism/reclaim.md#baselines`).

use super::order_log::{OrderLog, Ordered, evict_oldest};
use super::{Arrival, Hint, ListSizes, LruvecId, PolicyEntry, ReclaimPolicy, Scan};
use crate::cgroup::CgroupId;
use crate::memory::{FrameId, Memory, NodeId};

/// Entry in the table of policies.
pub(super) const ENTRY: PolicyEntry = PolicyEntry {
    name: "fifo",
    summary: "first in, first out (baseline)",
    runs_on_linux: false,
    make: |_| Box::new(Fifo::new()),
};

/// First in, first out, page-exact.
#[derive(Clone, Debug)]
pub struct Fifo {
    log: OrderLog,
}

impl Default for Fifo {
    fn default() -> Self {
        Self::new()
    }
}

impl Fifo {
    /// Without pages.
    pub fn new() -> Self {
        Self { log: OrderLog::new() }
    }
}

impl Ordered for Fifo {
    fn log(&mut self) -> &mut OrderLog {
        &mut self.log
    }
}

impl ReclaimPolicy for Fifo {
    fn add_lruvec(&mut self, lruvec: LruvecId) {
        self.log.add_lruvec(lruvec);
    }
    fn added(&mut self, memory: &mut Memory, frame: FrameId, _arrival: Arrival, _shadow: Option<u64>) {
        self.log.insert(memory, frame);
    }
    fn removed(&mut self, memory: &mut Memory, frame: FrameId) {
        self.log.remove(memory, frame);
    }
    fn mark_accessed(&mut self, _memory: &mut Memory, _frame: FrameId) {}
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
    fn is_exact(&self) -> bool {
        true
    }

    fn fork(&self) -> Option<Box<dyn ReclaimPolicy>> {
        Some(Box::new(self.clone()))
    }
}
