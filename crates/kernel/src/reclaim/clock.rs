//! `clock`: first in, first out with a second chance (`docs/mechanism/reclaim.md#baselines`).

use super::order_log::{OrderLog, Ordered, evict_oldest};
use super::reference_bit::ReferenceBit;
use super::{Arrival, Hint, ListSizes, LruvecId, PolicyEntry, ReclaimPolicy, Scan, Touches};
use crate::cgroup::CgroupId;
use crate::lean::Kind;
use crate::memory::{FrameId, Memory, NodeId};
use crate::mmu::SpaceId;
use isotherm_units::access::Run;

/// Entry in the table of policies.
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
    bit: ReferenceBit,
}

impl Default for Clock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock {
    /// Without pages.
    pub fn new() -> Self {
        Self { log: OrderLog::new(), bit: ReferenceBit::default() }
    }
}

impl Ordered for Clock {
    fn log(&mut self) -> &mut OrderLog {
        &mut self.log
    }
    fn spares(&mut self, memory: &mut Memory, frame: FrameId) -> bool {
        self.bit.take(memory, frame)
    }
}

impl ReclaimPolicy for Clock {
    fn add_lruvec(&mut self, lruvec: LruvecId) {
        self.log.add_lruvec(lruvec);
    }
    fn added(&mut self, memory: &mut Memory, frame: FrameId, _arrival: Arrival, _shadow: Option<u64>) {
        self.bit.added(frame);
        self.log.insert(memory, frame);
    }
    fn removed(&mut self, memory: &mut Memory, frame: FrameId) {
        self.bit.removed(frame);
        self.log.remove(memory, frame);
    }
    fn mark_accessed(&mut self, memory: &mut Memory, frame: FrameId) {
        self.bit.mark_accessed(memory, frame);
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
        ReferenceBit::TOUCHES
    }
    fn touched(&mut self, memory: &mut Memory, space: SpaceId, runs: &[Run]) {
        self.bit.touched(memory, space, runs);
    }
    fn is_exact(&self) -> bool {
        true
    }

    fn fork(&self) -> Option<Box<dyn ReclaimPolicy>> {
        Some(Box::new(self.clone()))
    }

    fn lean(&self) -> Option<Kind> {
        Some(Kind::Clock)
    }
}
