//! `lru`: the page that was used least recently goes (`docs/mechanism/reclaim.md#baselines`). Sees every access.

use super::order_log::{OrderLog, Ordered, evict_oldest};
use super::outcome::page_type;
use super::refault::refault_counters;
use super::{Arrival, Hint, ListSizes, LruvecId, PolicyEntry, ReclaimPolicy, Scan, Touches};
use crate::cgroup::CgroupId;
use crate::lean::Kind;
use crate::memory::{Flag, FrameId, Memory, NodeId};
use crate::mmu::SpaceId;
use isotherm_units::access::Run;

/// Entry in the table of policies.
pub(super) const ENTRY: PolicyEntry = PolicyEntry {
    name: "lru",
    summary: "exact least recently used (baseline)",
    runs_on_linux: false,
    make: |_| Box::new(Lru::new()),
};

/// Exact least recently used.
#[derive(Clone, Debug)]
pub struct Lru {
    log: OrderLog,
}

impl Default for Lru {
    fn default() -> Self {
        Self::new()
    }
}

impl Lru {
    /// Without pages.
    pub fn new() -> Self {
        Self { log: OrderLog::new() }
    }
}

impl Ordered for Lru {
    fn log(&mut self) -> &mut OrderLog {
        &mut self.log
    }
}

impl ReclaimPolicy for Lru {
    fn add_lruvec(&mut self, lruvec: LruvecId) {
        self.log.add_lruvec(lruvec);
    }
    fn added(&mut self, memory: &mut Memory, frame: FrameId, _arrival: Arrival, shadow: Option<u64>) {
        if shadow.is_some() {
            let cgroup = memory.frames.cgroup(frame);
            let [refault, ..] = refault_counters(page_type(memory, frame));
            memory.count(refault, cgroup, 1);
        }
        self.log.insert(memory, frame);
    }
    fn removed(&mut self, memory: &mut Memory, frame: FrameId) {
        self.log.remove(memory, frame);
    }
    fn mark_accessed(&mut self, memory: &mut Memory, frame: FrameId) {
        if memory.frames.has(frame, Flag::OnList) {
            self.log.touch(memory, frame);
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
    /// Records only that the page was here: its return is counted.
    fn shadow_of(&mut self, _memory: &mut Memory, _frame: FrameId, _root: CgroupId) -> Option<u64> {
        Some(0)
    }
    fn sizes(&self, lruvec: LruvecId) -> ListSizes {
        self.log.sizes(lruvec)
    }
    fn check(&self, memory: &Memory) -> Result<(), String> {
        self.log.check(memory)
    }
    fn wanted_touches(&self) -> Touches {
        Touches::All
    }
    fn touched(&mut self, memory: &mut Memory, space: SpaceId, runs: &[Run]) {
        self.log.touch_runs(memory, space, runs);
    }
    fn forked(&mut self, memory: &mut Memory, parent: SpaceId, _child: SpaceId) {
        self.log.forked(memory, parent);
    }
    fn is_exact(&self) -> bool {
        true
    }

    fn fork(&self) -> Option<Box<dyn ReclaimPolicy>> {
        Some(Box::new(self.clone()))
    }

    fn lean(&self) -> Option<Kind> {
        Some(Kind::Lru)
    }
}
