//! A small machine for tests of this folder: one node, one group, a plain first-in-first-out policy, and a driver that waits
//! and reclaims as the real one does.

use super::{FaultOutcome, FaultState, complete_io, descriptor, fault, map, new_space};
use crate::cgroup::{CgroupId, Knob, Limit};
use crate::compaction::AllocateStep;
use crate::costs::Costs;
use crate::counters::Counter;
use crate::memory::watermarks::WatermarkConfig;
use crate::memory::{
    Flag, FrameId, KernelRelease, List, ListEnd, Memory, MemoryConfig, MemorySetup, NodeId, NodeSetup, PageOwner,
    TieringSetup,
};
use crate::mmu::{DensePage, Entry, Need, SpaceId};
use crate::reclaim::outcome::{Fate, divert, evict};
use crate::reclaim::{Arrival, Hint, ListSizes, LruvecId, ReclaimPolicy, Reclaimer, Scan};
use crate::swap::device::{DeviceKind, DeviceModel};
use isotherm_units::access::{Backing, FileKind, LayoutChange, Mapping, Run, Sharing};
use isotherm_units::{Instant, PageRange, Pages};

/// First in, first out, one list a lruvec. Notes what it is told.
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
    fn push(&mut self, memory: &mut Memory, frame: FrameId, end: ListEnd) {
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

/// What a machine did for one access.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Trouble {
    pub(crate) waits: u32,
    pub(crate) memstalls: u32,
    pub(crate) shortages: u32,
    pub(crate) bad: bool,
}

/// A machine of one node.
pub(crate) struct Rig {
    pub(crate) memory: Memory,
    pub(crate) policy: TestFifo,
    pub(crate) cgroup: CgroupId,
    pub(crate) state: FaultState,
}

pub(crate) const MACHINE_PAGES: u64 = 4096;

impl Rig {
    /// 16 MiB of memory, files on NVMe, 1000 slots of swap on `swap`.
    pub(crate) fn new(swap: DeviceKind) -> Self {
        Self::with(swap, 1000, |_| {})
    }

    pub(crate) fn with(swap: DeviceKind, slots: u64, change: impl FnOnce(&mut MemorySetup)) -> Self {
        let costs = Costs::default();
        let mut setup = MemorySetup {
            nodes: vec![NodeSetup::new(vec![Pages::new(MACHINE_PAGES)], 100)],
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
        change(&mut setup);
        let mut memory = Memory::assemble(&setup).unwrap();
        let mut policy = TestFifo::default();
        let cgroup = memory.cgroups.add(CgroupId::ROOT, "test").unwrap();
        for group in [CgroupId::ROOT, cgroup] {
            for node in memory.nodes.ids() {
                memory.nonresident_age.push(0);
                policy.add_lruvec(memory.lruvec(group, node));
            }
        }
        Self { memory, policy, cgroup, state: FaultState::default() }
    }

    pub(crate) fn limit(&mut self, pages: u64) {
        self.memory.cgroups.set(self.cgroup, Knob::Max, Limit::At(Pages::new(pages)));
        self.memory.cgroups.charge_batch = 1;
        self.memory.cgroups.drain_stock(CgroupId::ROOT);
    }

    pub(crate) fn space(&mut self) -> SpaceId {
        let index = self.memory.spaces.len();
        new_space(&mut self.memory, "process", (0, index), self.cgroup)
    }

    /// A process with `pages` of anonymous memory from page 0.
    pub(crate) fn anonymous(&mut self, pages: u64) -> SpaceId {
        let space = self.space();
        self.map(space, Mapping::anonymous(PageRange::new(0, pages)));
        space
    }

    pub(crate) fn map(&mut self, space: SpaceId, mapping: Mapping) {
        map(&mut self.memory, &mut self.policy, space, mapping).unwrap();
    }

    /// Maps `pages` of a file called `name`, which is that long, from virtual page `at` on.
    pub(crate) fn map_file(
        &mut self,
        space: SpaceId,
        name: &str,
        at: u64,
        pages: u64,
        sharing: Sharing,
        kind: FileKind,
    ) {
        let file = self.memory.files.open(name, kind, pages).unwrap().index();
        let backing = Backing::File { file, first_page: 0, sharing };
        self.map(space, Mapping { backing, ..Mapping::anonymous(PageRange::at(at, pages)) });
    }

    pub(crate) fn change(&mut self, space: SpaceId, change: LayoutChange) {
        super::change_layout(&mut self.memory, &mut self.policy, space, change, &[]).unwrap();
        self.check();
    }

    pub(crate) fn exit(&mut self, space: SpaceId) {
        super::exit(&mut self.memory, &mut self.policy, space);
        self.check();
    }

    pub(crate) fn fork(&mut self, parent: SpaceId) -> SpaceId {
        let child = self.space();
        super::fork(&mut self.memory, parent, child).unwrap();
        self.check();
        child
    }

    pub(crate) fn read(&mut self, space: SpaceId, page: u64) -> Trouble {
        self.touch(space, page, Need::Read)
    }
    pub(crate) fn write(&mut self, space: SpaceId, page: u64) -> Trouble {
        self.touch(space, page, Need::Write)
    }

    /// One access: a hit, or a fault with all it takes.
    pub(crate) fn touch(&mut self, space: SpaceId, page: u64, need: Need) -> Trouble {
        let mut trouble = Trouble::default();
        loop {
            let table = &mut self.memory.space_mut(space).table;
            if let Some(dense) = table.dense(page)
                && table.is_present(dense)
                && (need == Need::Read || table.is_writable(dense))
            {
                table.mark_touched(dense, need);
                self.check();
                return trouble;
            }
            let outcome = fault(&mut self.memory, &mut self.policy, space, page, need, &mut self.state);
            self.check();
            if !self.help(outcome, &mut trouble) && trouble.bad {
                return trouble;
            }
        }
    }

    /// One call of `read()` or `write()`.
    pub(crate) fn call(&mut self, space: SpaceId, run: Run) -> Trouble {
        let (mut trouble, mut done) = (Trouble::default(), 0);
        loop {
            let rest = run.rest_after(done);
            let outcome = descriptor(&mut self.memory, &mut self.policy, space, rest, &mut done, &mut self.state);
            self.check();
            if !self.help(outcome, &mut trouble) {
                assert_eq!(done == run.pages, !trouble.bad);
                return trouble;
            }
        }
    }

    /// Does what the outcome asks for; whether the caller tries again.
    fn help(&mut self, outcome: FaultOutcome, trouble: &mut Trouble) -> bool {
        match outcome {
            FaultOutcome::Done => return false,
            FaultOutcome::Migrating { until } => self.pass_time(until),
            FaultOutcome::Huge => {
                if let AllocateStep::Wait(until) = self.state.step_huge(&mut self.memory, &mut self.policy) {
                    self.pass_time(until);
                }
                while self.state.is_allocating() {
                    self.state.step_huge(&mut self.memory, &mut self.policy);
                }
            }
            FaultOutcome::Wait { until, memstall } => {
                trouble.waits += 1;
                trouble.memstalls += u32::from(memstall);
                self.pass_time(until);
            }
            FaultOutcome::Short(_) => {
                trouble.shortages += 1;
                let optional = self.state.shortage_is_optional();
                let freed = self.reclaim(32);
                assert!(freed > 0 || optional || trouble.shortages < 20, "out of memory");
                if freed == 0
                    && let Some(at) = self.memory.io.next_completion()
                {
                    self.pass_time(at);
                }
            }
            FaultOutcome::Bad { .. } => {
                trouble.bad = true;
                return false;
            }
        }
        true
    }

    pub(crate) fn pass_time(&mut self, until: Instant) {
        let now = self.memory.now.max(until);
        self.memory.now = now;
        complete_io(&mut self.memory, &mut self.policy, now);
        self.check();
    }

    /// Waits until no transfer is in flight.
    pub(crate) fn settle(&mut self) {
        while let Some(at) = self.memory.io.next_completion() {
            self.pass_time(at);
        }
    }

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

    pub(crate) fn dense(&self, space: SpaceId, page: u64) -> DensePage {
        self.memory.space(space).table.dense(page).unwrap()
    }
    pub(crate) fn entry(&self, space: SpaceId, page: u64) -> Entry {
        self.memory.space(space).table.entry(self.dense(space, page))
    }
    pub(crate) fn frame(&self, space: SpaceId, page: u64) -> Option<FrameId> {
        match self.entry(space, page) {
            Entry::Frame(frame) => Some(frame),
            _ => None,
        }
    }
    pub(crate) fn is_writable(&self, space: SpaceId, page: u64) -> bool {
        self.memory.space(space).table.is_writable(self.dense(space, page))
    }
    pub(crate) fn has(&self, space: SpaceId, page: u64, flag: Flag) -> bool {
        self.memory.frames.has(self.frame(space, page).unwrap(), flag)
    }
    pub(crate) fn count(&self, counter: Counter) -> u64 {
        let own = self.memory.cgroups.get(self.cgroup).counters.get(counter);
        assert_eq!(own, self.memory.counters.get(counter), "all happens in one group");
        own
    }
    /// Counts of `counters` since the last call with the same `before`.
    pub(crate) fn counts<const N: usize>(&self, counters: [Counter; N]) -> [u64; N] {
        counters.map(|counter| self.count(counter))
    }
    pub(crate) fn usage(&self) -> u64 {
        let group = self.memory.cgroups.get(self.cgroup);
        group.usage - group.stock
    }

    pub(crate) fn check(&self) {
        self.memory.check().and_then(|()| self.policy.check(&self.memory)).unwrap();
    }

    /// Nothing is used: no frame, no slot, no charge but the stock.
    pub(crate) fn assert_empty(&mut self) {
        self.settle();
        self.check();
        let usage = self.usage();
        let used = (self.memory.nodes.nr_used(), self.memory.slots.used(), usage);
        assert_eq!(used, (0, 0, 0), "frames, slots, charge");
        assert_eq!(self.memory.cgroups.get(self.cgroup).swap_usage, 0);
    }
}
