//! A machine of one node under a real policy, whose page cache is filled by hand.

use super::setup::no_watermarks;
use super::{Kit, setup};
use crate::cgroup::CgroupId;
use crate::counters::Counter;
use crate::fault::{put_file_page, put_folio};
use crate::memory::watermarks::WatermarkConfig;
use crate::memory::{FileId, FileSystem, Flag, FrameId, KernelRelease, Mark, NodeId};
use crate::mmu::{Need, SpaceId};
use crate::reclaim::{Arrival, ReclaimPolicy};
use crate::swap::device::DeviceKind;
use isotherm_units::PageRange;
use isotherm_units::access::Mapping;

/// The result of a touch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Touch {
    Hit,
    Minor,
    Major,
    OutOfMemory,
}

pub type Testbed = Kit<Box<dyn ReclaimPolicy>>;

const NODE: NodeId = NodeId(0);

impl Testbed {
    /// One node of `frames` without watermarks, no swap, xfs under files, and readahead as usual.
    pub fn with_folios(policy: Box<dyn ReclaimPolicy>, release: KernelRelease, frames: u64) -> Self {
        let mut setup = setup(&[frames], DeviceKind::None, 0);
        setup.watermarks = no_watermarks();
        (setup.config.file_system, setup.config.release) = (Some(FileSystem::Xfs), release);
        Self::assemble(&setup, policy)
    }

    /// One node of `frames` without watermarks, a swap device of `slots`, NVMe under files, no readahead.
    pub fn new(policy: Box<dyn ReclaimPolicy>, frames: u64, swap: DeviceKind, slots: u64) -> Self {
        Self::with_watermarks(policy, frames, swap, slots, no_watermarks())
    }

    pub fn with_watermarks(
        policy: Box<dyn ReclaimPolicy>,
        frames: u64,
        swap: DeviceKind,
        slots: u64,
        watermarks: WatermarkConfig,
    ) -> Self {
        let mut setup = setup(&[frames], swap, slots);
        setup.watermarks = watermarks;
        (setup.config.page_cluster, setup.config.readahead_pages) = (0, 0);
        Self::assemble(&setup, policy)
    }

    /// A process of `cgroup` with `pages` pages of anonymous memory from 0.
    pub fn space(&mut self, cgroup: CgroupId, pages: u64) -> SpaceId {
        let space = self.process_of(cgroup);
        self.map(space, Mapping::anonymous(PageRange::new(0, pages)));
        space
    }

    pub fn write(&mut self, space: SpaceId, page: u64) -> Touch {
        self.touch(space, page, Need::Write)
    }

    pub fn read(&mut self, space: SpaceId, page: u64) -> Touch {
        self.touch(space, page, Need::Read)
    }

    pub fn touch(&mut self, space: SpaceId, page: u64, need: Need) -> Touch {
        let before = self.memory.counters;
        let Some(trouble) = self.access(space, page, need) else { return Touch::OutOfMemory };
        assert!(!trouble.bad, "page {page} is not mapped");
        let grown = self.memory.counters.since(&before);
        match (grown.get(Counter::PgFault), grown.get(Counter::PgMajFault)) {
            (0, _) => Touch::Hit,
            (_, 0) => Touch::Minor,
            _ => Touch::Major,
        }
    }

    /// A page of `file` in the page cache, mapped nowhere and paid by `cgroup`, as if read ahead.
    pub fn cached(&mut self, cgroup: CgroupId, file: FileId, page: u32) -> FrameId {
        let frame = self.memory.nodes.take(&mut self.memory.frames, NODE, Mark::Nothing).expect("memory left");
        self.memory.cgroups.charge_exactly(cgroup, 1);
        let place = (file, u64::from(page));
        put_file_page(&mut self.memory, self.policy.as_mut(), frame, place, cgroup, Arrival::FileRead);
        frame
    }

    /// A folio of 2^`order` pages of `file` from `page` on, in the page cache, mapped nowhere and paid by `cgroup`, as if read ahead. Its
    /// head.
    pub fn cached_folio(&mut self, cgroup: CgroupId, file: FileId, page: u64, order: u32) -> FrameId {
        let head = self.memory.nodes.take_block(&mut self.memory.frames, NODE, order, Mark::Nothing).expect("a block");
        self.memory.cgroups.charge_exactly(cgroup, 1 << order);
        let (policy, folio) = (self.policy.as_mut(), (head, order));
        put_folio(&mut self.memory, policy, folio, (file, page), cgroup, Arrival::FileRead);
        head
    }

    /// Locks a page in memory.
    pub fn lock(&mut self, frame: FrameId) {
        self.policy.removed(&mut self.memory, frame);
        self.memory.frames.set(frame, Flag::Unevictable);
        self.policy.added(&mut self.memory, frame, Arrival::Anonymous, None);
    }

    pub fn count(&self, counter: Counter) -> u64 {
        self.memory.counters.get(counter)
    }

    /// All invariants, where all memory in use is pages of processes and files.
    pub fn check_lists(&self) {
        self.check();
        let groups = self.memory.cgroups.ids();
        let sizes = groups.map(|id| self.policy.sizes(self.memory.lruvec(id, NODE)));
        let listed: u64 = sizes.map(|sizes| sizes.anon() + sizes.file() + sizes.unevictable).sum();
        assert_eq!(listed, self.memory.nodes.nr_used(), "every frame in use is on one list");
    }
}
