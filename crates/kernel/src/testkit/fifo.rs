//! A plain policy that records the calls it gets.

use crate::cgroup::CgroupId;
use crate::memory::{Flag, FrameId, List, ListEnd, Memory, NodeId, PageOwner};
use crate::reclaim::outcome::{Fate, divert, evict};
use crate::reclaim::{Arrival, Hint, ListSizes, LruvecId, ReclaimPolicy, Scan};

/// First in, first out, one list per lruvec. Records the calls it gets.
#[derive(Default)]
pub(crate) struct TestFifo {
    lists: Vec<List>,
    pub(crate) arrivals: Vec<(Arrival, Option<u64>)>,
    pub(crate) marked: Vec<PageOwner>,
    pub(crate) hints: Vec<Hint>,
    pub(crate) nr_rotated: u64,
    pub(crate) exact: bool,
    /// Gives swapped-in pages the working-set flag.
    pub(crate) workingset: bool,
    evictions: u64,
}

impl TestFifo {
    pub(super) fn push(&mut self, memory: &mut Memory, frame: FrameId, end: ListEnd) {
        let lruvec = memory.lruvec_of(frame);
        self.lists[lruvec.index()].push(&mut memory.frames, frame, end);
        memory.frames.set(frame, Flag::OnList);
    }
    fn take(&mut self, memory: &mut Memory, frame: FrameId) {
        let lruvec = memory.lruvec_of(frame);
        self.lists[lruvec.index()].remove(&mut memory.frames, frame);
        memory.frames.clear(frame, Flag::OnList);
    }
}

impl ReclaimPolicy for TestFifo {
    fn add_lruvec(&mut self, lruvec: LruvecId) {
        assert_eq!(lruvec.index(), self.lists.len());
        self.lists.push(List::new());
    }
    fn added(&mut self, memory: &mut Memory, frame: FrameId, arrival: Arrival, shadow: Option<u64>) {
        self.arrivals.push((arrival, shadow));
        if self.workingset && shadow.is_some() {
            memory.frames.set(frame, Flag::Workingset);
        }
        self.push(memory, frame, ListEnd::Head);
    }
    fn removed(&mut self, memory: &mut Memory, frame: FrameId) {
        self.take(memory, frame);
    }
    fn mark_accessed(&mut self, memory: &mut Memory, frame: FrameId) {
        self.marked.push(memory.frames.owner(frame));
    }
    fn hint(&mut self, memory: &mut Memory, frame: FrameId, hint: Hint) -> bool {
        self.hints.push(hint);
        if hint == Hint::LazyFree {
            memory.frames.clear(frame, Flag::SwapBacked);
        }
        true
    }
    fn shrink_lruvec(&mut self, memory: &mut Memory, lruvec: LruvecId, scan: &mut Scan) {
        for _ in 0..self.lists[lruvec.index()].len() {
            if scan.nr_reclaimed >= scan.nr_to_reclaim {
                return;
            }
            let Some(frame) = self.lists[lruvec.index()].tail() else { return };
            self.take(memory, frame);
            let fate = divert(memory, frame, scan).unwrap_or_else(|| evict(memory, self, frame, scan));
            match fate {
                Fate::Freed => scan.nr_reclaimed += 1,
                Fate::Keep | Fate::Activate | Fate::Demote => self.push(memory, frame, ListEnd::Head),
            }
        }
    }
    fn age_node(&mut self, _: &mut Memory, _: NodeId, _: &mut Scan) {}
    fn reclaim_ended(&mut self, _: &mut Memory, _: Option<NodeId>, _: &Scan) {}
    fn writeback_ended(&mut self, memory: &mut Memory, frame: FrameId) {
        self.nr_rotated += 1;
        self.take(memory, frame);
        self.push(memory, frame, ListEnd::Tail);
    }
    fn shadow_of(&mut self, _: &mut Memory, _: FrameId, _: CgroupId) -> Option<u64> {
        self.evictions += 1;
        Some(self.evictions)
    }
    fn sizes(&self, lruvec: LruvecId) -> ListSizes {
        ListSizes { inactive_anon: self.lists[lruvec.index()].len(), ..ListSizes::default() }
    }
    fn check(&self, memory: &Memory) -> Result<(), String> {
        for (index, list) in self.lists.iter().enumerate() {
            for frame in list.from_tail(&memory.frames) {
                if !memory.frames.has(frame, Flag::OnList) || memory.lruvec_of(frame).index() != index {
                    return Err(format!("{frame:?} is on the wrong list"));
                }
            }
        }
        Ok(())
    }
    fn is_exact(&self) -> bool {
        self.exact
    }
}

impl AsRef<dyn ReclaimPolicy> for TestFifo {
    fn as_ref(&self) -> &(dyn ReclaimPolicy + 'static) {
        self
    }
}

impl AsMut<dyn ReclaimPolicy> for TestFifo {
    fn as_mut(&mut self) -> &mut (dyn ReclaimPolicy + 'static) {
        self
    }
}
