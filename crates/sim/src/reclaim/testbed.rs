//! A small machine for tests of reclaim: memory, one policy, and a thread that touches pages and reclaims when it must.

use super::driver::{Attempt, ReclaimStep};
use super::{Arrival, ReclaimPolicy, Touches};
use crate::cgroup::{CgroupId, Knob, Limit};
use crate::costs::Costs;
use crate::counters::Counter;
use crate::fault::{self, FaultOutcome, FaultState, Shortage};
use crate::memory::watermarks::WatermarkConfig;
use crate::memory::{
    CachePage, FileId, Flag, FrameId, KernelRelease, Mark, Memory, MemoryConfig, MemorySetup, NodeId, NodeSetup,
    PageOwner, TieringSetup,
};
use crate::mmu::{Need, SpaceId};
use crate::swap::device::{DeviceKind, DeviceModel};
use isotherm_units::access::{Backing, FileKind, Mapping, Run, Sharing};
use isotherm_units::{PageRange, Pages};

/// How a touch went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Touch {
    Hit,
    Minor,
    Major,
    OutOfMemory,
}

pub(super) struct Testbed {
    pub(super) memory: Memory,
    pub(super) policy: Box<dyn ReclaimPolicy>,
}

const NODE: NodeId = NodeId(0);

impl Testbed {
    /// One node of `frames` without watermarks, a swap device of `slots`, NVMe under files, no readahead.
    pub(super) fn new(policy: Box<dyn ReclaimPolicy>, frames: u64, swap: DeviceKind, slots: u64) -> Self {
        let watermarks = WatermarkConfig { scale_factor: 0, min_free_kib: Some(0), ..WatermarkConfig::default() };
        Self::with_watermarks(policy, frames, swap, slots, watermarks)
    }

    pub(super) fn with_watermarks(
        policy: Box<dyn ReclaimPolicy>,
        frames: u64,
        swap: DeviceKind,
        slots: u64,
        watermarks: WatermarkConfig,
    ) -> Self {
        let costs = Costs::default();
        let memory = Memory::assemble(&MemorySetup {
            nodes: vec![NodeSetup::new(vec![Pages::new(frames)], 80)],
            tiering: TieringSetup::default(),
            watermarks,
            config: MemoryConfig {
                swappiness: 60,
                page_cluster: 0,
                readahead_pages: 0,
                hz: 250,
                release: KernelRelease::V7_2,
                lazy_statistics: false,
            },
            costs,
            swap: (DeviceModel::preset(swap, &costs), Pages::new(slots)),
            storage: DeviceModel::preset(DeviceKind::Nvme, &costs),
        });
        let mut bed = Self { memory: memory.expect("a preset device"), policy };
        if bed.policy.is_exact() {
            bed.memory.cgroups.charge_batch = 1;
        }
        bed.announce(CgroupId::ROOT);
        bed
    }

    fn announce(&mut self, cgroup: CgroupId) {
        let lruvec = self.memory.lruvec(cgroup, NODE);
        self.memory.nonresident_age.push(0);
        self.policy.add_lruvec(lruvec);
    }

    pub(super) fn group(&mut self, parent: CgroupId, name: &str) -> CgroupId {
        let cgroup = self.memory.cgroups.add(parent, name).expect("few groups");
        self.announce(cgroup);
        cgroup
    }

    pub(super) fn set(&mut self, cgroup: CgroupId, knob: Knob, pages: u64) {
        self.memory.cgroups.set(cgroup, knob, Limit::At(Pages::new(pages)));
    }

    /// A process of `cgroup` with `pages` pages of anonymous memory from 0.
    pub(super) fn space(&mut self, cgroup: CgroupId, pages: u64) -> SpaceId {
        let process = (0, self.memory.spaces.len());
        let space = fault::new_space(&mut self.memory, "test", process, cgroup);
        self.map(space, Mapping::anonymous(PageRange::new(0, pages)));
        space
    }

    pub(super) fn map(&mut self, space: SpaceId, mapping: Mapping) {
        fault::map(&mut self.memory, self.policy.as_mut(), space, mapping).expect("fits");
    }

    pub(super) fn unmap(&mut self, space: SpaceId, pages: PageRange) {
        fault::unmap(&mut self.memory, self.policy.as_mut(), space, pages);
    }

    pub(super) fn fork(&mut self, parent: SpaceId, cgroup: CgroupId) -> SpaceId {
        let process = (0, self.memory.spaces.len());
        let child = fault::new_space(&mut self.memory, "child", process, cgroup);
        fault::fork(&mut self.memory, parent, child).expect("fits");
        self.policy.forked(&mut self.memory, parent, child);
        child
    }

    pub(super) fn exit(&mut self, space: SpaceId) {
        fault::exit(&mut self.memory, self.policy.as_mut(), space);
    }

    pub(super) fn file(&mut self, name: &str, pages: u64) -> FileId {
        self.memory.files.open(name, FileKind::Regular, pages).expect("few files")
    }

    pub(super) fn map_file(&mut self, space: SpaceId, at: u64, file: FileId, pages: u64, executable: bool) {
        let backing = Backing::File { file: file.index(), first_page: 0, sharing: Sharing::Shared };
        let mapping = Mapping { backing, executable, ..Mapping::anonymous(PageRange::at(at, pages)) };
        self.map(space, mapping);
    }

    /// A page of `file` in the page cache, mapped nowhere and paid by `cgroup`, as if read ahead.
    pub(super) fn cached(&mut self, cgroup: CgroupId, file: FileId, page: u32) -> FrameId {
        let frame = self.memory.nodes.take(&mut self.memory.frames, NODE, Mark::Nothing).expect("memory left");
        self.memory.cgroups.charge_exactly(cgroup, 1);
        self.memory.frames.assign(frame, PageOwner::File { file, page }, cgroup);
        let shadow = match self.memory.files.get(file).page(u64::from(page)) {
            CachePage::Shadow(shadow) => Some(shadow),
            _ => None,
        };
        let lruvec = self.memory.lruvec_of(frame);
        self.memory.files.set_page(file, u64::from(page), CachePage::Frame(frame), lruvec);
        self.policy.added(&mut self.memory, frame, Arrival::FileRead, shadow);
        frame
    }

    pub(super) fn write(&mut self, space: SpaceId, page: u64) -> Touch {
        self.touch(space, page, Need::Write)
    }

    pub(super) fn read(&mut self, space: SpaceId, page: u64) -> Touch {
        self.touch(space, page, Need::Read)
    }

    /// Touches a page as a thread does: faults, waits and reclaims until the access succeeds.
    pub(super) fn touch(&mut self, space: SpaceId, page: u64, need: Need) -> Touch {
        let before = self.memory.counters;
        self.memory.space_mut(space).used = u64::MAX;
        let mut state = FaultState::on(NODE);
        let mut shortages = 0;
        loop {
            let table = &mut self.memory.space_mut(space).table;
            let permits = |&dense: &_| table.is_present(dense) && (need == Need::Read || table.is_writable(dense));
            if let Some(dense) = table.dense(page).filter(permits) {
                table.mark_touched(dense, need);
                if self.policy.wanted_touches() != Touches::None {
                    self.policy.touched(&mut self.memory, space, &[Run::read(page, 1)]);
                }
                let grown = self.memory.counters.since(&before);
                return match (grown.get(Counter::PgFault), grown.get(Counter::PgMajFault)) {
                    (0, _) => Touch::Hit,
                    (_, 0) => Touch::Minor,
                    _ => Touch::Major,
                };
            }
            match fault::fault(&mut self.memory, self.policy.as_mut(), space, page, need, &mut state) {
                FaultOutcome::Done => {}
                FaultOutcome::Wait { until, .. } | FaultOutcome::Migrating { until } => self.pass_time(until),
                FaultOutcome::Huge => {
                    state.step_huge(&mut self.memory, self.policy.as_mut());
                }
                FaultOutcome::Short(shortage) => {
                    shortages += 1;
                    if shortages == 500 {
                        // Two pages are needed at once (copy on write) where only one can be had.
                        return Touch::OutOfMemory;
                    }
                    let attempt = match shortage {
                        Shortage::Limit(cgroup) => Attempt::limit(cgroup, 1),
                        Shortage::Node(node) | Shortage::Bound(node) => Attempt::direct(node),
                    };
                    if self.run(attempt) == ReclaimStep::Failed && !state.shortage_is_optional() {
                        return Touch::OutOfMemory;
                    }
                }
                FaultOutcome::Bad { page } => panic!("page {page} is not mapped"),
            }
        }
    }

    /// Steps an attempt to its end.
    pub(super) fn run(&mut self, mut attempt: Attempt) -> ReclaimStep {
        for _ in 0..10_000 {
            match attempt.step(&mut self.memory, self.policy.as_mut()) {
                ReclaimStep::Again => {}
                ReclaimStep::Wait(span) => {
                    let until = self.memory.now + span;
                    let until = self.memory.io.next_completion().map_or(until, |at| at.min(until));
                    self.pass_time(until.max(self.memory.now));
                }
                over => return over,
            }
        }
        panic!("the attempt does not end: {attempt:?}");
    }

    pub(super) fn pass_time(&mut self, until: isotherm_units::Instant) {
        self.memory.now = until;
        fault::complete_io(&mut self.memory, self.policy.as_mut(), until);
    }

    /// Lets all transfers end.
    pub(super) fn finish_io(&mut self) {
        while let Some(at) = self.memory.io.next_completion() {
            self.pass_time(at.max(self.memory.now));
        }
    }

    /// Locks a page in memory.
    pub(super) fn lock(&mut self, frame: FrameId) {
        self.policy.removed(&mut self.memory, frame);
        self.memory.frames.set(frame, Flag::Unevictable);
        self.policy.added(&mut self.memory, frame, Arrival::Anonymous, None);
    }

    pub(super) fn frame(&self, space: SpaceId, page: u64) -> Option<FrameId> {
        self.memory.space(space).table.frame_at(page)
    }

    pub(super) fn count(&self, counter: Counter) -> u64 {
        self.memory.counters.get(counter)
    }

    /// All invariants, of memory and of the policy.
    pub(super) fn check(&self) {
        self.memory.check().unwrap_or_else(|what| panic!("memory: {what}"));
        self.policy.check(&self.memory).unwrap_or_else(|what| panic!("policy: {what}"));
        let listed: u64 = self
            .memory
            .cgroups
            .ids()
            .map(|id| self.policy.sizes(self.memory.lruvec(id, NODE)))
            .map(|sizes| sizes.anon() + sizes.file() + sizes.unevictable)
            .sum();
        assert_eq!(listed, self.memory.nodes.nr_used(), "every frame in use is on one list");
    }
}
