//! The state that faults, system calls and reclaim work on.

use super::release::KernelRelease;
use super::{CachePage, Files, Flag, FrameId, Frames, GroundTruth, Io, KernelPages, Nodes, PageOwner, Tiers};
use crate::cgroup::{CgroupId, Cgroups};
use crate::compaction::{BlockTaken, CompactionConfig};
use crate::costs::Costs;
use crate::counters::{Counter, Counters};
use crate::fault::Flusher;
use crate::migrate::Flights;
use crate::mmu::{AddressSpace, DensePage, MmuConfig, PremappedFrames, SpaceId};
use crate::readahead::swap::ClusterReadahead;
use crate::reclaim::LruvecId;
use crate::reclaim::driver::ReclaimState;
use crate::swap::{SlotId, Slots};
use isotherm_units::access::Run;
use isotherm_units::{Instant, PageRange};
use smallvec::SmallVec;

/// Tunables under `/proc/sys/vm` and the like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryConfig {
    /// Default 60; 0..=200.
    pub swappiness: u32,
    /// Swap readahead reads 2^this pages at most; 0 turns it off. Default 3.
    pub page_cluster: u32,
    /// Largest file readahead window in pages; 0 turns readahead off. Default 32 (128 KiB).
    pub readahead_pages: u64,
    /// Ticks per second of the simulated kernel.
    pub hz: u64,
    /// Linux release of the simulated kernel.
    pub release: KernelRelease,
    /// Whether counters of groups are added up now and then only, as in the kernel, rather than at once.
    pub lazy_statistics: bool,
    /// Whether new pages wait in a batch before they are put on the lists of `classic`, as in the kernel.
    pub lru_batches: bool,
    /// The file system under files, if they may have folios of several pages. `None`: single pages.
    pub file_system: Option<super::FileSystem>,
    /// Pages that each page counts for (`sample` of a machine).
    pub sample_pages: u64,
}

/// CPU time spent by kernel code on behalf of the current thread. The caller takes it and advances that clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ledger {
    cpu_ns: u64,
}

impl Ledger {
    /// Adds `ns` of CPU time.
    #[inline]
    pub fn spend(&mut self, ns: u64) {
        self.cpu_ns += ns;
    }
    /// CPU time since the last call.
    #[inline]
    pub fn take(&mut self) -> u64 {
        std::mem::take(&mut self.cpu_ns)
    }
    /// CPU time so far.
    #[inline]
    pub const fn peek(&self) -> u64 {
        self.cpu_ns
    }
}

/// Runs of pages that are noted, and pages of a run: more cost more than a test of all probes.
const TOUCHES_MAX: usize = 16;
const TOUCHED_PAGES_MAX: u32 = 4;

/// All memory of the machine.
#[derive(Clone)]
pub struct Memory {
    /// Tunables.
    pub config: MemoryConfig,
    /// The costs.
    pub costs: Costs,
    /// The clock, set by the machine before each call.
    pub now: Instant,
    /// CPU time of the code that runs now.
    pub ledger: Ledger,
    /// The space of the thread whose processor runs the code that runs now; `None`: a thread of the kernel.
    pub running: Option<crate::mmu::SpaceId>,
    pub frames: Frames,
    /// Free memory.
    pub nodes: Nodes,
    /// Tiers of the nodes.
    pub tiers: Tiers,
    /// Address spaces, dead ones included.
    pub spaces: Vec<AddressSpace>,
    pub files: Files,
    /// Swap slots.
    pub slots: Slots,
    /// Groups.
    pub cgroups: Cgroups,
    /// System-wide counters.
    pub counters: Counters,
    /// By node: promotions to it and demotions from it, as in `nodeN/vmstat`. Other counters are not kept by node.
    pub node_counters: Vec<Counters>,
    /// By node: pages that came from other nodes, and pages that went to others.
    pub node_moves: Vec<[u64; 2]>,
    /// `nonresident_age` of each lruvec (docs/spec/classic-lru.md#s5), grown by evictions and activations.
    pub nonresident_age: Vec<u64>,
    /// The state of reclaim from attempt to attempt.
    pub reclaim: ReclaimState,
    /// Devices and transfers in flight.
    pub io: Io,
    /// By node: an allocation found free memory at the low watermark since the machine last checked.
    pub kswapd_wanted: Vec<bool>,
    /// Number of events that may have used or changed pages, see [`stir`](Memory::stir).
    pub(crate) nr_stirs: u64,
    /// The touches of programs since the last time, see [`note_touches`](Memory::note_touches).
    pub(crate) touches: Vec<(SpaceId, PageRange)>,
    /// They are wanted.
    pub(crate) notes_touches: bool,
    /// Pages charged since the machine last checked, for the `memory.high` penalty.
    pub charged: u64,
    /// Groups whose `memory.high` was written since the machine last checked: memory above it is to be reclaimed.
    pub high_written: Vec<CgroupId>,
    /// Dirty file pages that wait to be written.
    pub flusher: Flusher,
    /// Swap readahead by slot: one state for the whole system.
    pub cluster_readahead: ClusterReadahead,
    /// The page-table settings of this machine.
    pub mmu: MmuConfig,
    /// A page fault is being handled, in a mapping whose uses predict the next ones.
    pub recent_fault: bool,
    /// Memory without frames, in the order in which it was mapped.
    pub premapped: Vec<PremappedFrames>,
    /// Records every use of every page, if that is wanted.
    pub ground_truth: Option<GroundTruth>,
    /// Pages on their way to other frames.
    pub migration: Flights,
    /// How this machine compacts.
    pub compaction: CompactionConfig,
    /// By node: log2 of the contiguous pages that an allocation wants and left to the daemons; 0: none.
    pub kcompactd_wanted: Vec<u32>,
    /// Blocks that the kernel took for itself.
    pub kernel: KernelPages,
    /// Allocations of several pages in a row since the machine last checked.
    pub blocks_taken: Vec<BlockTaken>,
}

/// One page-table entry that shows a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mapper {
    /// Address space.
    pub space: SpaceId,
    pub page: DensePage,
    /// Whether code runs from the mapping.
    pub executable: bool,
}

/// All that map a page: few, mostly, so that a list takes no heap.
pub type Mappers = SmallVec<[Mapper; 4]>;

impl Memory {
    /// Anything may happen to pages now, except that accessed bits are cleared or tested: earlier results of probes predict
    /// nothing.
    #[inline]
    pub fn stir(&mut self) {
        self.nr_stirs += 1;
        self.touches.clear();
    }

    /// Number of times that memory was [stirred](Self::stir).
    #[inline]
    pub const fn nr_stirs(&self) -> u64 {
        self.nr_stirs
    }

    /// [Touches](Self::note_touches) since memory was stirred, in their order. Kept only once they were [wanted](Self::want_touches).
    #[inline]
    pub fn touches(&self) -> &[(SpaceId, PageRange)] {
        &self.touches
    }

    /// From now on touches are kept.
    pub const fn want_touches(&mut self) {
        self.notes_touches = true;
    }

    /// A thread has touched pages of `space` without the kernel: these at most. Many at once stir memory.
    #[inline]
    pub fn note_touches(&mut self, space: SpaceId, runs: &[Run]) {
        if self.notes_touches
            && self.touches.len() + runs.len() <= TOUCHES_MAX
            && runs.iter().all(|run| run.pages <= TOUCHED_PAGES_MAX)
        {
            self.touches.extend(runs.iter().map(|run| (space, PageRange::at(run.page(), u64::from(run.pages)))));
        } else {
            self.stir();
        }
    }

    /// Page frame numbers in use so far: frames, then memory without frames.
    pub fn nr_page_frames(&self) -> u64 {
        self.frames.len() as u64 + self.premapped.iter().map(|premapped| premapped.pages.len()).sum::<u64>()
    }

    #[inline]
    pub fn space(&self, space: SpaceId) -> &AddressSpace {
        &self.spaces[space.index()]
    }
    #[inline]
    pub fn space_mut(&mut self, space: SpaceId) -> &mut AddressSpace {
        &mut self.spaces[space.index()]
    }

    /// The lruvec of `cgroup` on `node`.
    #[inline]
    pub fn lruvec(&self, cgroup: CgroupId, node: super::NodeId) -> LruvecId {
        if self.nodes.len() == 1 {
            return LruvecId(u32::from(cgroup.0));
        }
        let nr_nodes = u32::try_from(self.nodes.len()).expect("few nodes");
        LruvecId(u32::from(cgroup.0) * nr_nodes + u32::from(node.0))
    }
    /// The lruvec of a page.
    #[inline]
    pub fn lruvec_of(&self, frame: FrameId) -> LruvecId {
        // By far the most machines.
        if self.nodes.len() == 1 {
            return LruvecId(u32::from(self.frames.cgroup(frame).0));
        }
        self.lruvec(self.frames.cgroup(frame), self.nodes.of(frame))
    }
    /// The group an lruvec belongs to.
    #[inline]
    pub fn cgroup_of(&self, lruvec: LruvecId) -> CgroupId {
        if self.nodes.len() == 1 {
            return CgroupId(u16::try_from(lruvec.0).expect("made from a group"));
        }
        CgroupId(u16::try_from(lruvec.index() / self.nodes.len()).expect("made from a group"))
    }
    /// The node an lruvec belongs to.
    #[inline]
    pub fn node_of(&self, lruvec: LruvecId) -> super::NodeId {
        if self.nodes.len() == 1 {
            return super::NodeId(0);
        }
        super::NodeId(u8::try_from(lruvec.index() % self.nodes.len()).expect("made from a node"))
    }

    /// Counts an event in the group and in the system; ancestors add it up when they are read
    /// ([`Cgroups::memory_stat`]).
    #[inline]
    pub fn count(&mut self, counter: Counter, cgroup: CgroupId, n: u64) {
        self.counters.add(counter, n);
        self.cgroups.get_mut(cgroup).counters.add(counter, n);
    }

    /// Counts several events.
    #[inline]
    pub fn count_all<const N: usize>(&mut self, cgroup: CgroupId, events: [(Counter, u64); N]) {
        let of_group = &mut self.cgroups.get_mut(cgroup).counters;
        for (counter, n) in events {
            self.counters.add(counter, n);
            of_group.add(counter, n);
        }
    }

    /// The same for an event of promotion or demotion, which nodes count as well.
    pub fn count_on(&mut self, counter: Counter, node: super::NodeId, cgroup: CgroupId, n: u64) {
        self.count(counter, cgroup, n);
        self.node_counters[node.index()].add(counter, n);
    }

    /// Ages the nonresident clock of `lruvec`'s group and all its ancestors on the same node.
    #[inline(always)]
    pub fn age_nonresident(&mut self, lruvec: LruvecId, pages: u64) {
        let (node, cgroup) = (self.node_of(lruvec), self.cgroup_of(lruvec));
        let nr_nodes = self.nodes.len();
        for id in self.cgroups.lineage(cgroup) {
            self.nonresident_age[id.index() * nr_nodes + node.index()] += pages;
        }
    }

    /// Free swap slots that pages of `cgroup` may use.
    pub fn swap_available(&self, cgroup: CgroupId) -> u64 {
        self.slots.free().min(self.cgroups.swap_room(cgroup))
    }

    /// All entries that map `frame`, in a fixed order: the reverse map.
    pub fn mappers(&self, frame: FrameId) -> Mappers {
        let mut mappers = Mappers::new();
        match self.frames.owner(frame) {
            PageOwner::Anonymous { space, page } if !self.frames.has(frame, Flag::Shared) => {
                if self.shows(space, page, frame) {
                    mappers.push(Mapper { space, page, executable: false });
                }
            }
            PageOwner::Anonymous { space, .. } if !self.space(space).alive => {}
            PageOwner::Anonymous { space, page } => {
                let virtual_page = self.space(space).table.page_of(page);
                for &space in &self.space(space).family {
                    if let Some(page) = self.space(space).table.dense(virtual_page)
                        && self.shows(space, page, frame)
                    {
                        mappers.push(Mapper { space, page, executable: false });
                    }
                }
            }
            PageOwner::File { file, page } => {
                for mapping in &self.files.get(file).mappings {
                    let Some(virtual_page) = mapping.virtual_page(u64::from(page)) else { continue };
                    if let Some(page) = self.space(mapping.space).table.dense(virtual_page)
                        && self.shows(mapping.space, page, frame)
                    {
                        mappers.push(Mapper { space: mapping.space, page, executable: mapping.executable });
                    }
                }
            }
        }
        mappers
    }

    /// Whether `page` of a live process shows `frame`.
    #[inline(always)]
    pub(super) fn shows(&self, space: SpaceId, page: DensePage, frame: FrameId) -> bool {
        let owner = self.space(space);
        let shows = owner.alive && owner.table.shows(page, frame);
        debug_assert!(!shows || owner.table.is_present(page), "an entry that shows a frame is present");
        shows
    }

    /// The only mapper of a private anonymous page, without building a list: the common case of a scan.
    #[inline]
    pub fn sole_mapper(&self, frame: FrameId) -> Option<(SpaceId, DensePage)> {
        match self.frames.owner(frame) {
            PageOwner::Anonymous { space, page } if !self.frames.has(frame, Flag::Shared) => {
                // A page in flight may outlive its space.
                self.shows(space, page, frame).then_some((space, page))
            }
            _ => None,
        }
    }

    /// Takes a page that nothing maps any more out of its cache (swap cache or page cache, leaving `shadow`), uncharges
    /// it and gives its frame back. It must be on no list and not under I/O.
    #[inline]
    pub fn free_page(&mut self, frame: FrameId, shadow: Option<u64>) {
        if self.frames.order(frame) > 0 {
            return self.free_folio(frame, shadow);
        }
        let flags = self.frames.flags(frame);
        debug_assert!(!flags.has(Flag::OnList), "still on a list");
        debug_assert!(!flags.has_any([Flag::Writeback, Flag::Reading]), "under I/O");
        debug_assert!(self.sole_mapper(frame).is_none(), "nothing maps it any more");
        if let PageOwner::File { file, page } = self.frames.owner(frame) {
            // Shared memory in the swap cache already left the page cache: there the slot takes its place.
            if !flags.has(Flag::SwapCache) {
                let to = shadow.map_or(CachePage::Absent, CachePage::Shadow);
                let lruvec = self.lruvec_of(frame);
                self.files.set_page(file, u64::from(page), to, lruvec);
            }
        }
        self.leave_swap_cache(frame, shadow);
        self.frames.forget_pin(frame);
        let cgroup = self.frames.cgroup(frame);
        self.cgroups.uncharge(cgroup, 1);
        self.nodes.give(&mut self.frames, frame);
    }

    /// Gives the frame of a private anonymous page back that is in no cache, on no list and not under I/O. The caller uncharges
    /// it.
    #[inline]
    pub(crate) fn give_private_page(&mut self, frame: FrameId) {
        debug_assert!(!self.frames.has(frame, Flag::OnList), "still on a list");
        debug_assert!(self.frames.slot(frame).is_none(), "in no cache");
        self.frames.forget_pin(frame);
        self.nodes.give(&mut self.frames, frame);
    }

    /// Takes a page out of the swap cache; the slot keeps `shadow` for its other users, or becomes free.
    #[inline]
    pub fn leave_swap_cache(&mut self, frame: FrameId, shadow: Option<u64>) {
        if let Some(slot) = self.frames.slot(frame) {
            debug_assert_eq!(self.slots.cached(slot), Some(frame), "page and slot know each other");
            if self.frames.has(frame, Flag::Shared) {
                self.slots.set_shared(slot);
            }
            self.slots.set_shadow(slot, shadow);
            self.frames.set_slot(frame, None);
            let cgroup = self.slots.cgroup(slot);
            if self.slots.remove_cached(slot) {
                self.cgroups.charge_swap(cgroup, -1);
            }
        }
    }

    /// Removes one page-table reference to `slot`; a cached page stays in the swap cache.
    pub fn drop_swap_entry(&mut self, slot: SlotId) {
        debug_assert!(self.slots.users(slot) > 0, "the entry was counted");
        let cgroup = self.slots.cgroup(slot);
        if self.slots.remove_user(slot) {
            self.cgroups.charge_swap(cgroup, -1);
        }
    }
}
