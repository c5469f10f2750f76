//! A small machine for tests of actions: any policy, any swap device, processes that fault, wait and reclaim as they must.

use super::{HostTarget, MemoryHost, ProbeCounts};
use crate::cgroup::{CgroupId, Knob, Limit};
use crate::costs::Costs;
use crate::fault::{self, FaultOutcome, FaultState, Shortage};
use crate::memory::watermarks::WatermarkConfig;
use crate::memory::{Flag, FrameId, KernelRelease, Memory, MemoryConfig, MemorySetup, NodeSetup, TieringSetup};
use crate::mmu::translation::Caches;
use crate::mmu::{Entry, MmuConfig, Need, PremappedFrames, SpaceId};
use crate::pressure::Pressure;
use crate::reclaim::driver::{Attempt, ReclaimStep};
use crate::reclaim::{ReclaimPolicy, Touches, policy_by_name};
use crate::swap::device::{DeviceKind, DeviceModel};
use crate::tick::TickRate;
use isotherm_core::host::{
    Action, AddressRange, Applied, Applying, Destination, Gauge, GaugeCapabilities, Gauging, HostError, NodeId, Order,
    PageFilters, SchemeCapabilities, TargetId,
};
use isotherm_units::access::{Backing, FileKind, Mapping, Run, Sharing};
use isotherm_units::{Instant, PageRange, Pages};

/// Frames of a machine of one node.
pub(super) const FRAMES: u64 = 4096;
/// Physical memory; processes follow from 1 on.
pub(super) const PHYSICAL: u32 = 0;

pub(super) struct Stage {
    pub(super) memory: Memory,
    pub(super) policy: Box<dyn ReclaimPolicy>,
    pub(super) app: CgroupId,
    pub(super) pressure: Pressure,
    caches: Vec<Caches>,
    targets: Vec<HostTarget>,
    counts: ProbeCounts,
    /// Of migrations.
    pub(super) target_nid: Option<NodeId>,
    pub(super) destinations: Vec<Destination>,
}

impl Stage {
    pub(super) fn new(policy: &str, swap: DeviceKind) -> Self {
        Self::with_nodes(policy, swap, &[FRAMES])
    }

    /// Nodes of so many frames, slow ones but for the first, 1000 slots on `swap`, files on NVMe, a group `/app`.
    pub(super) fn with_nodes(policy: &str, swap: DeviceKind, nodes: &[u64]) -> Self {
        let costs = Costs::default();
        let slots = if swap == DeviceKind::None { 0 } else { 1000 };
        let setup = MemorySetup {
            nodes: (0..)
                .zip(nodes)
                .map(|(node, &frames)| match node {
                    0 => NodeSetup::new(vec![Pages::new(frames)], 100),
                    _ => NodeSetup::slow(vec![Pages::new(frames)], 250),
                })
                .collect(),
            tiering: TieringSetup::default(),
            watermarks: WatermarkConfig::default(),
            config: MemoryConfig {
                swappiness: 60,
                page_cluster: 3,
                readahead_pages: 32,
                hz: 250,
                release: KernelRelease::V7_2,
                lazy_statistics: false,
            },
            costs,
            swap: (DeviceModel::preset(swap, &costs), Pages::new(slots)),
            storage: DeviceModel::preset(DeviceKind::Nvme, &costs),
        };
        let mut memory = Memory::assemble(&setup).unwrap();
        memory.mmu = MmuConfig::default();
        memory.cgroups.charge_batch = 1;
        let mut policy = policy_by_name(policy).unwrap().build();
        let app = memory.cgroups.add(CgroupId::ROOT, "app").unwrap();
        for group in [CgroupId::ROOT, app] {
            for node in memory.nodes.ids() {
                memory.nonresident_age.push(0);
                policy.add_lruvec(memory.lruvec(group, node));
            }
        }
        let pressure = Pressure::new(Instant::START, 1, TickRate::default());
        let targets = vec![HostTarget::Physical];
        let (caches, counts) = (Vec::new(), ProbeCounts::default());
        Self { memory, policy, app, pressure, caches, targets, counts, target_nid: None, destinations: Vec::new() }
    }

    /// A process of `/app` with base pages from 0 on, and its number as a target.
    pub(super) fn process(&mut self, pages: u64) -> (SpaceId, u32) {
        let index = self.memory.spaces.len();
        let space = fault::new_space(&mut self.memory, "process", (0, index), self.app);
        self.map(space, Mapping::anonymous(PageRange::new(0, pages)));
        self.adopt(space)
    }

    pub(super) fn fork(&mut self, parent: SpaceId) -> (SpaceId, u32) {
        let index = self.memory.spaces.len();
        let child = fault::new_space(&mut self.memory, "child", (0, index), self.app);
        fault::fork(&mut self.memory, parent, child).unwrap();
        self.policy.forked(&mut self.memory, parent, child);
        self.adopt(child)
    }

    fn adopt(&mut self, space: SpaceId) -> (SpaceId, u32) {
        self.targets.push(HostTarget::Space(space));
        (space, u32::try_from(self.targets.len() - 1).unwrap())
    }

    pub(super) fn exit(&mut self, space: SpaceId) {
        fault::exit(&mut self.memory, self.policy.as_mut(), space);
    }

    pub(super) fn map(&mut self, space: SpaceId, mapping: Mapping) {
        fault::map(&mut self.memory, self.policy.as_mut(), space, mapping).unwrap();
    }

    pub(super) fn unmap(&mut self, space: SpaceId, range: PageRange) {
        fault::unmap(&mut self.memory, self.policy.as_mut(), space, range);
    }

    /// Maps a shared file (or shared memory) of that name.
    pub(super) fn map_file(&mut self, space: SpaceId, name: &str, kind: FileKind, pages: PageRange) {
        let file = self.memory.files.open(name, kind, pages.len()).unwrap().index();
        let backing = Backing::File { file, first_page: 0, sharing: Sharing::Shared };
        self.map(space, Mapping { backing, ..Mapping::anonymous(pages) });
    }

    pub(super) fn premap(&mut self, space: SpaceId, pages: PageRange) {
        let first_frame = self.memory.nr_page_frames();
        self.map(space, Mapping::anonymous(pages));
        self.memory.premapped.push(PremappedFrames { space, pages, first_frame });
        self.memory.space_mut(space).table.premap(pages, false);
    }

    pub(super) fn limit(&mut self, pages: u64) {
        self.memory.cgroups.set(self.app, Knob::Max, Limit::At(Pages::new(pages)));
    }

    pub(super) fn write(&mut self, space: SpaceId, page: u64) {
        assert!(self.touch(space, page, Need::Write), "out of memory");
    }
    pub(super) fn write_all(&mut self, space: SpaceId, pages: PageRange) {
        (pages.start..pages.end).for_each(|page| self.write(space, page));
    }
    pub(super) fn read(&mut self, space: SpaceId, page: u64) {
        assert!(self.touch(space, page, Need::Read), "out of memory");
    }

    /// Touches a page as a thread does. `false`: memory ran out.
    pub(super) fn touch(&mut self, space: SpaceId, page: u64, need: Need) -> bool {
        let mut state = FaultState::default();
        for _ in 0..500 {
            let owner = self.memory.space_mut(space);
            let permits =
                |&dense: &_| owner.table.is_present(dense) && (need == Need::Read || owner.table.is_writable(dense));
            if let Some(dense) = owner.table.dense(page).filter(permits) {
                owner.table.mark_touched(dense, need);
                if self.policy.wanted_touches() != Touches::None {
                    self.policy.touched(&mut self.memory, space, &[Run::read(page, 1)]);
                }
                return true;
            }
            match fault::fault(&mut self.memory, self.policy.as_mut(), space, page, need, &mut state) {
                FaultOutcome::Done => {}
                FaultOutcome::Wait { until, .. } | FaultOutcome::Migrating { until } => self.pass_time(until),
                FaultOutcome::Huge => {
                    state.step_huge(&mut self.memory, self.policy.as_mut());
                }
                FaultOutcome::Short(shortage) => {
                    let attempt = match shortage {
                        Shortage::Limit(cgroup) => Attempt::limit(cgroup, 1),
                        Shortage::Node(node) => Attempt::direct(node),
                        Shortage::Bound(node) => Attempt::direct_on(node),
                    };
                    if self.run(attempt) == ReclaimStep::Failed && !state.shortage_is_optional() {
                        return false;
                    }
                }
                FaultOutcome::Bad { page } => panic!("page {page} is not mapped"),
            }
        }
        false
    }

    pub(super) fn run(&mut self, mut attempt: Attempt) -> ReclaimStep {
        for _ in 0..10_000 {
            match attempt.step(&mut self.memory, self.policy.as_mut()) {
                ReclaimStep::Again => {}
                ReclaimStep::Wait(span) => {
                    // A node's daemon that was woken does its work meanwhile: nobody else here is it.
                    let nodes = self.memory.nodes.ids();
                    let woken: Vec<_> =
                        nodes.filter(|node| std::mem::take(&mut self.memory.kswapd_wanted[node.index()])).collect();
                    for node in woken {
                        self.run(Attempt::kswapd(node));
                    }
                    let until = self.memory.now + span;
                    self.pass_time(self.memory.io.next_completion().map_or(until, |at| at.min(until)));
                }
                over => return over,
            }
        }
        panic!("the attempt does not end: {attempt:?}");
    }

    /// Frees so many pages of `/app` as `memory.reclaim` does.
    pub(super) fn reclaim(&mut self, pages: u64) {
        self.run(Attempt::proactive(self.app, pages, 60));
    }

    pub(super) fn pass_time(&mut self, until: Instant) {
        let now = self.memory.now.max(until);
        self.memory.now = now;
        fault::complete_io(&mut self.memory, self.policy.as_mut(), now);
    }

    pub(super) fn settle(&mut self) {
        while let Some(at) = self.memory.io.next_completion() {
            self.pass_time(at);
        }
    }

    pub(super) fn host(&mut self) -> MemoryHost<'_> {
        let policy = self.policy.as_mut();
        MemoryHost::new(&mut self.memory, policy, &self.pressure, &mut self.caches, &self.targets, &mut self.counts)
    }

    pub(super) fn offers(&mut self, target: u32) -> SchemeCapabilities {
        self.host().scheme_capabilities(TargetId(target))
    }

    pub(super) fn reads(&mut self, target: u32) -> GaugeCapabilities {
        self.host().gauge_capabilities(TargetId(target))
    }

    pub(super) fn gauge(&mut self, gauge: Gauge) -> Result<Option<u64>, HostError> {
        let mut values = [None];
        self.host().gauges(&[gauge], &mut values).map(|()| values[0])
    }

    pub(super) fn node_bytes(&mut self, target: u32, ranges: &[AddressRange]) -> Result<Vec<(u32, u64)>, HostError> {
        let mut bytes = Vec::new();
        self.host().node_bytes(TargetId(target), ranges, &mut bytes)?;
        Ok(bytes.into_iter().map(|(NodeId(node), bytes)| (node, bytes)).collect())
    }

    /// Has an action done to pages without filters. Bytes treated.
    pub(super) fn apply(&mut self, target: u32, action: Action, pages: PageRange) -> Result<u64, HostError> {
        self.order(target, action, pages, &mut PageFilters::default(), &mut None).map(|applied| applied.bytes)
    }

    /// The same with filters. Bytes treated, and passed.
    pub(super) fn apply_through(&mut self, filter: PageFilters, action: Action, pages: PageRange) -> (u64, u64) {
        let mut filter = filter;
        let applied = self.order(PHYSICAL, action, pages, &mut filter, &mut None).unwrap();
        (applied.bytes, filter.passed_bytes())
    }

    /// One call of the host; all invariants hold afterwards.
    pub(super) fn order(
        &mut self,
        target: u32,
        action: Action,
        pages: PageRange,
        filter: &mut PageFilters,
        last_folio: &mut Option<u64>,
    ) -> Result<Applied, HostError> {
        let range = AddressRange::new(pages.start << 12, pages.end << 12);
        let mut order =
            Order { action, range, filter, target_nid: self.target_nid, destinations: &self.destinations, last_folio };
        let (before, charged) = (self.memory.ledger.peek(), self.memory.charged);
        let policy = self.policy.as_mut();
        let (pressure, caches, counts) = (&self.pressure, &mut self.caches, &mut self.counts);
        let mut host = MemoryHost::new(&mut self.memory, policy, pressure, caches, &self.targets, counts);
        let result = host.apply(TargetId(target), &mut order);
        if let Ok(applied) = result {
            assert_eq!(applied.spent.ns(), self.memory.ledger.peek() - before, "the thread pays");
        }
        assert_eq!(self.memory.charged, charged, "nobody else pays for its charges");
        self.check();
        result
    }

    pub(super) fn frame(&self, space: SpaceId, page: u64) -> Option<FrameId> {
        self.memory.space(space).table.frame_at(page)
    }
    /// The page frame number of a resident page.
    pub(super) fn number(&self, space: SpaceId, page: u64) -> u64 {
        u64::from(self.frame(space, page).expect("resident").index_u32())
    }
    pub(super) fn has(&self, space: SpaceId, page: u64, flag: Flag) -> bool {
        self.memory.frames.has(self.frame(space, page).expect("resident"), flag)
    }
    pub(super) fn is_swapped(&self, space: SpaceId, page: u64) -> bool {
        let table = &self.memory.space(space).table;
        table.dense(page).is_some_and(|dense| matches!(table.entry(dense), Entry::Swap(_)))
    }

    pub(super) fn check(&self) {
        self.memory.check().unwrap_or_else(|what| panic!("memory: {what}"));
        self.policy.check(&self.memory).unwrap_or_else(|what| panic!("policy: {what}"));
    }
}
