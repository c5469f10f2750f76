//! `clock`: first in, first out with a second chance (`docs/yardsticks.md`).
//!
//! One reference bit a page, here and not in the page table: the access that brings a page in must not count, and the
//! hardware's bit cannot tell it from the next one.

use super::order_log::{OrderLog, Ordered, evict_oldest, grow_for};
use super::{Arrival, Hint, ListSizes, LruvecId, ReclaimPolicy, Scan};
use crate::cgroup::CgroupId;
use crate::memory::{FrameId, Memory, NodeId};
use crate::mmu::SpaceId;
use isotherm_units::access::Run;

/// The reference bit of a page.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Bit {
    /// Not used since it was last looked at.
    #[default]
    Clear,
    /// Used.
    Set,
    /// Clear, and the access that brought the page in is still to come.
    Fresh,
}

/// Second chance, page-exact.
#[derive(Debug)]
pub struct Clock {
    log: OrderLog,
    /// By frame.
    bits: Vec<Bit>,
}

impl Default for Clock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock {
    /// Without pages.
    pub fn new() -> Self {
        Self { log: OrderLog::new(), bits: Vec::new() }
    }

    #[inline]
    fn used(&mut self, frame: FrameId) {
        if let Some(bit) = self.bits.get_mut(frame.index()) {
            *bit = if *bit == Bit::Fresh { Bit::Clear } else { Bit::Set };
        }
    }
}

impl Ordered for Clock {
    fn log(&mut self) -> &mut OrderLog {
        &mut self.log
    }
    fn spares(&mut self, frame: FrameId) -> bool {
        std::mem::take(&mut self.bits[frame.index()]) == Bit::Set
    }
}

impl ReclaimPolicy for Clock {
    fn add_lruvec(&mut self, lruvec: LruvecId) {
        self.log.add_lruvec(lruvec);
    }
    fn added(&mut self, memory: &mut Memory, frame: FrameId, _arrival: Arrival, _shadow: Option<u64>) {
        grow_for(&mut self.bits, memory, frame, Bit::Clear);
        self.bits[frame.index()] = Bit::Fresh;
        self.log.insert(memory, frame);
    }
    fn removed(&mut self, memory: &mut Memory, frame: FrameId) {
        self.log.remove(memory, frame);
    }
    fn mark_accessed(&mut self, _memory: &mut Memory, frame: FrameId) {
        self.used(frame);
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
        let table = &memory.space(space).table;
        for run in runs {
            for page in run.page()..run.page() + u64::from(run.pages) {
                if let Some(frame) = table.frame_at(page) {
                    self.used(frame);
                }
            }
        }
    }
    fn is_exact(&self) -> bool {
        true
    }
}
