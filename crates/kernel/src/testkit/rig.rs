//! A machine with one group under [`TestFifo`], checked after each step.

use super::fifo::TestFifo;
use super::{Kit, Trouble, setup};
use crate::cgroup::CgroupId;
use crate::counters::Counter;
use crate::memory::{Flag, FrameId, ListEnd, MemorySetup, NodeId};
use crate::mmu::{Need, SpaceId};
use crate::reclaim::outcome::{Fate, evict};
use crate::reclaim::{ReclaimPolicy, Reclaimer, Scan};
use crate::swap::device::DeviceKind;

pub(crate) type Rig = Kit<TestFifo>;

pub(crate) const MACHINE_PAGES: u64 = 4096;

impl Rig {
    /// 16 MiB of memory, files on NVMe, 1000 slots of swap on `swap`.
    pub(crate) fn new(swap: DeviceKind) -> Self {
        Self::with(swap, 1000, |_| {})
    }

    pub(crate) fn with(swap: DeviceKind, slots: u64, change: impl FnOnce(&mut MemorySetup)) -> Self {
        let mut setup = setup(&[MACHINE_PAGES], swap, slots);
        change(&mut setup);
        let mut rig = Self::assemble(&setup, TestFifo::default());
        rig.cgroup = rig.group(CgroupId::ROOT, "test");
        rig.is_strict = true;
        rig
    }

    pub(crate) fn space(&mut self) -> SpaceId {
        self.process_of(self.cgroup)
    }

    pub(crate) fn read(&mut self, space: SpaceId, page: u64) -> Trouble {
        self.access(space, page, Need::Read).expect("memory left")
    }
    pub(crate) fn write(&mut self, space: SpaceId, page: u64) -> Trouble {
        self.access(space, page, Need::Write).expect("memory left")
    }

    /// Runs one pass over the list of the group; returns the number of freed pages.
    pub(crate) fn reclaim(&mut self, pages: u64) -> u64 {
        let mut scan = Scan::new(Reclaimer::Limit, self.cgroup, pages, 60);
        let lruvec = self.memory.lruvec(self.cgroup, NodeId::default());
        self.policy.shrink_lruvec(&mut self.memory, lruvec, &mut scan);
        self.check();
        scan.nr_reclaimed
    }

    /// Evicts one page that is mapped at `page`, write and all.
    pub(crate) fn evict(&mut self, space: SpaceId, page: u64) {
        let frame = self.frame(space, page).expect("resident");
        self.evict_frame(frame);
        self.settle();
        if self.memory.frames.has(frame, Flag::OnList) {
            self.evict_frame(frame); // its write is over
        }
    }

    pub(crate) fn evict_frame(&mut self, frame: FrameId) {
        let mut scan = Scan::new(Reclaimer::Limit, self.cgroup, 1, 60);
        self.policy.removed(&mut self.memory, frame);
        if evict(&mut self.memory, &mut self.policy, frame, &mut scan) != Fate::Freed {
            self.policy.push(&mut self.memory, frame, ListEnd::Head);
        }
        self.check();
    }

    pub(crate) fn count(&self, counter: Counter) -> u64 {
        let own = self.memory.cgroups.get(self.cgroup).counters.get(counter);
        assert_eq!(own, self.memory.counters.get(counter), "all happens in one group");
        own
    }
    pub(crate) fn counts<const N: usize>(&self, counters: [Counter; N]) -> [u64; N] {
        counters.map(|counter| self.count(counter))
    }
    pub(crate) fn usage(&self) -> u64 {
        let group = self.memory.cgroups.get(self.cgroup);
        group.usage - group.stock
    }

    /// Nothing is used: no frame, no slot, no charge except the stock.
    pub(crate) fn assert_empty(&mut self) {
        self.settle();
        self.check();
        let usage = self.usage();
        let used = (self.memory.nodes.nr_used(), self.memory.slots.used(), usage);
        assert_eq!(used, (0, 0, 0), "frames, slots, charge");
        assert_eq!(self.memory.cgroups.get(self.cgroup).swap_usage, 0);
    }
}
