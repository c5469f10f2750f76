//! A machine of the [kit](isotherm_kernel::testkit) with a host: requests of monitors and schemes, and their effects.

use super::{HostTarget, MemoryHost, ProbeCounts};
use isotherm_core::host::{
    Action, AddressRange, Applied, Applying, Destination, Gauge, GaugeCapabilities, Gauging, HostError, NodeId, Order,
    PageFilters, SchemeCapabilities, TargetId,
};
use isotherm_kernel::cgroup::CgroupId;
use isotherm_kernel::memory::MemorySetup;
use isotherm_kernel::mmu::translation::Caches;
use isotherm_kernel::mmu::{Entry, MmuConfig, Need, PremappedFrames, SpaceId};
use isotherm_kernel::pressure::Pressure;
use isotherm_kernel::reclaim::driver::Attempt;
use isotherm_kernel::reclaim::policy_by_name;
use isotherm_kernel::swap::device::DeviceKind;
use isotherm_kernel::testkit::{Testbed, setup};
use isotherm_kernel::tick::TickRate;
use isotherm_units::access::Mapping;
use isotherm_units::{Instant, PageRange};
use std::ops::{Deref, DerefMut};

/// Frames of a machine of one node.
pub(super) const FRAMES: u64 = 4096;
/// Physical memory; processes follow from 1 on.
pub(super) const PHYSICAL: u32 = 0;

pub(super) struct Stage {
    pub(super) bed: Testbed,
    pub(super) pressure: Pressure,
    pub(super) caches: Vec<Caches>,
    pub(super) targets: Vec<HostTarget>,
    pub(super) counts: ProbeCounts,
    /// Target node, for migrations.
    pub(super) target_nid: Option<NodeId>,
    pub(super) destinations: Vec<Destination>,
    /// For `lru-prio`: marks pages as accessed.
    pub(super) marks_accessed: bool,
}

impl Deref for Stage {
    type Target = Testbed;
    fn deref(&self) -> &Testbed {
        &self.bed
    }
}

impl DerefMut for Stage {
    fn deref_mut(&mut self) -> &mut Testbed {
        &mut self.bed
    }
}

impl Stage {
    pub(super) fn new(policy: &str, swap: DeviceKind) -> Self {
        Self::with_nodes(policy, swap, &[FRAMES])
    }

    /// Nodes of these numbers of frames, slow ones except the first, 1000 slots on `swap`, and a group `/app`.
    pub(super) fn with_nodes(policy: &str, swap: DeviceKind, nodes: &[u64]) -> Self {
        let mut stage = Self::around(policy, &setup(nodes, swap, 1000), MmuConfig::default());
        stage.bed.memory.cgroups.charge_batch = 1;
        stage.bed.cgroup = stage.bed.group(CgroupId::ROOT, "app");
        stage
    }

    /// Any memory, where all processes are of the root group.
    pub(super) fn around(policy: &str, setup: &MemorySetup, mmu: MmuConfig) -> Self {
        let mut bed = Testbed::assemble(setup, policy_by_name(policy).unwrap().build());
        let caches = mmu.translation.iter().map(|sizes| Caches::new(sizes, mmu.levels)).collect();
        bed.memory.mmu = mmu;
        let pressure = Pressure::new(Instant::START, 1, TickRate::default());
        let (targets, counts) = (vec![HostTarget::Physical], ProbeCounts::default());
        Self {
            bed,
            pressure,
            caches,
            targets,
            counts,
            target_nid: None,
            destinations: Vec::new(),
            marks_accessed: false,
        }
    }

    /// A process with base pages from 0 on, and its number as a target.
    pub(super) fn process(&mut self, pages: u64) -> (SpaceId, u32) {
        let space = self.bed.anonymous(pages);
        self.adopt(space)
    }

    pub(super) fn fork(&mut self, parent: SpaceId) -> (SpaceId, u32) {
        let child = self.bed.fork(parent);
        self.adopt(child)
    }

    fn adopt(&mut self, space: SpaceId) -> (SpaceId, u32) {
        self.targets.push(HostTarget::Space(space));
        (space, u32::try_from(self.targets.len() - 1).unwrap())
    }

    pub(super) fn premap(&mut self, space: SpaceId, pages: PageRange) {
        let first_frame = self.memory.nr_page_frames();
        self.map(space, Mapping::anonymous(pages));
        self.memory.premapped.push(PremappedFrames { space, pages, first_frame });
        self.memory.space_mut(space).table.premap(pages, false);
    }

    pub(super) fn write(&mut self, space: SpaceId, page: u64) {
        assert!(self.touch(space, page, Need::Write), "out of memory");
    }
    pub(super) fn read(&mut self, space: SpaceId, page: u64) {
        assert!(self.touch(space, page, Need::Read), "out of memory");
    }

    /// Touches a page as a thread does. `false`: memory ran out.
    pub(super) fn touch(&mut self, space: SpaceId, page: u64, need: Need) -> bool {
        let trouble = self.access(space, page, need);
        assert!(trouble.is_none_or(|trouble| !trouble.bad), "page {page} is not mapped");
        trouble.is_some()
    }

    /// Frees this number of pages of `/app` as `memory.reclaim` does.
    pub(super) fn reclaim(&mut self, pages: u64) {
        self.bed.run(Attempt::proactive(self.bed.cgroup, pages, 60));
    }

    pub(super) fn host(&mut self) -> MemoryHost<'_> {
        let Testbed { memory, policy, .. } = &mut self.bed;
        MemoryHost::new(memory, policy.as_mut(), &self.pressure, &mut self.caches, &self.targets, &mut self.counts)
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

    /// Makes one call of the host, and checks all invariants afterwards.
    pub(super) fn order(
        &mut self,
        target: u32,
        action: Action,
        pages: PageRange,
        filter: &mut PageFilters,
        last_folio: &mut Option<u64>,
    ) -> Result<Applied, HostError> {
        let range = AddressRange::new(pages.start << 12, pages.end << 12);
        let mut order = Order {
            action,
            range,
            filter,
            target_nid: self.target_nid,
            destinations: &self.destinations,
            marks_accessed: self.marks_accessed,
            last_folio,
        };
        let (before, charged) = (self.memory.ledger.peek(), self.memory.charged);
        let Testbed { memory, policy, .. } = &mut self.bed;
        let (pressure, caches, counts) = (&self.pressure, &mut self.caches, &mut self.counts);
        let mut host = MemoryHost::new(memory, policy.as_mut(), pressure, caches, &self.targets, counts);
        let result = host.apply(TargetId(target), &mut order);
        if let Ok(applied) = result {
            assert_eq!(applied.spent.ns(), self.memory.ledger.peek() - before, "the thread pays");
        }
        assert_eq!(self.memory.charged, charged, "nobody else pays for its charges");
        self.check();
        result
    }

    /// The page frame number of a resident page.
    pub(super) fn number(&self, space: SpaceId, page: u64) -> u64 {
        u64::from(self.frame(space, page).expect("resident").index_u32())
    }
    pub(super) fn is_swapped(&self, space: SpaceId, page: u64) -> bool {
        let table = &self.memory.space(space).table;
        table.dense(page).is_some_and(|dense| matches!(table.entry(dense), Entry::Swap(_)))
    }
}
