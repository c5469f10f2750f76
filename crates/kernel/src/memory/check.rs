//! The invariants between any two calls into the kernel paths, which tests and strict runs check.

use super::{CachePage, Flag, Flags, FrameId, Memory, PageOwner, SimFile};
use crate::cgroup::CgroupId;
use crate::mmu::{DensePage, Entry, SpaceId};
use crate::swap::SlotId;
use isotherm_units::PageRange;
use isotherm_units::access::{Backing, FileKind};
use std::collections::{BTreeMap, BTreeSet};

/// The result of a walk over page tables, page cache and swap cache.
#[derive(Default)]
struct Census {
    /// Entries that map each frame.
    mapped: BTreeMap<FrameId, u64>,
    /// One entry that shows each frame, by frame.
    shown: BTreeMap<FrameId, (SpaceId, DensePage)>,
    /// Frames in the page cache.
    page_cache: BTreeSet<FrameId>,
    /// Frames in the swap cache.
    swap_cache: BTreeSet<FrameId>,
    /// References to each slot from entries and, for shared memory, from files.
    slot_users: BTreeMap<SlotId, u64>,
}

type Check = Result<(), String>;

impl Memory {
    /// Checks that every frame has one owner and every count is right. Costs a walk over everything.
    ///
    /// # Errors
    /// The first violation, as text.
    pub fn check(&self) -> Result<(), String> {
        let mut census = Census::default();
        for index in 0..self.spaces.len() {
            let space = SpaceId(u16::try_from(index).expect("at most 65 535 spaces"));
            self.check_space(space, &mut census)?;
        }
        self.check_files(&mut census)?;
        self.check_slots(&mut census)?;
        self.check_frames(&census)?;
        self.check_nodes(&census)?;
        self.check_charges(&census)
    }

    fn check_space(&self, id: SpaceId, census: &mut Census) -> Check {
        let space = self.space(id);
        let (mut nr_resident, mut nr_swapped, mut nr_present) = (0, 0, 0);
        for vma in space.vmas.iter() {
            for dense in space.table.populated_in(vma.pages()) {
                nr_present += u64::from(space.table.is_present(dense));
                match space.table.entry(dense) {
                    Entry::None => {}
                    Entry::Zero => {
                        ensure(!space.table.is_writable(dense), || format!("{id:?}: the zero page is writable"))?;
                    }
                    Entry::Frame(frame) => {
                        nr_resident += 1;
                        *census.mapped.entry(frame).or_default() += 1;
                        census.shown.insert(frame, (id, dense));
                        self.check_mapping(id, dense, frame, vma.mapping.backing)?;
                    }
                    Entry::Swap(slot) => {
                        nr_swapped += 1;
                        *census.slot_users.entry(slot).or_default() += 1;
                    }
                }
            }
        }
        ensure(space.nr_resident == nr_resident, || {
            format!("{id:?}: nr_resident is {}, entries map {nr_resident}", space.nr_resident)
        })?;
        ensure(space.nr_swapped == nr_swapped, || {
            format!("{id:?}: nr_swapped is {}, entries refer to {nr_swapped} slots", space.nr_swapped)
        })?;
        ensure(space.table.nr_present() == nr_present, || {
            format!("{id:?}: {} entries present, {nr_present} inside mappings", space.table.nr_present())
        })?;
        for &block in &space.huge_blocks {
            let range = PageRange::at(block * 512, 512);
            let nr_present = space.table.present_in(range).count();
            ensure(nr_present == 512, || format!("{id:?}: huge block {block} has {nr_present} pages"))?;
        }
        Ok(())
    }

    /// One present entry.
    fn check_mapping(&self, id: SpaceId, dense: DensePage, frame: FrameId, backing: Backing) -> Check {
        let what = || format!("{id:?} page {:#x} maps {frame:?}", self.space(id).table.page_of(dense));
        let head = self.frames.head(frame);
        ensure(!self.frames.has(head, Flag::Reading), || format!("{}, which is not up to date", what()))?;
        let known = self.mappers(frame).iter().any(|mapper| (mapper.space, mapper.page) == (id, dense));
        ensure(known, || format!("{}, whose reverse map does not know it: {:?}", what(), self.frames.owner(frame)))?;
        let is_file = self.frames.has(frame, Flag::FileOwned);
        ensure(!is_file || backing != Backing::Anonymous, || format!("{}, a file's page", what()))?;
        let shared = self.frames.has(frame, Flag::Shared);
        let writable = self.space(id).table.is_writable(dense);
        ensure(is_file || !shared || !writable, || format!("{} writable, but it is shared by fork", what()))
    }

    fn check_files(&self, census: &mut Census) -> Check {
        for (id, file) in self.files.iter() {
            let (mut nr_cached, mut nr_shadows) = (0, 0);
            for (page, known) in file.known_pages() {
                match known {
                    CachePage::Absent => {}
                    CachePage::Shadow(_) => nr_shadows += 1,
                    CachePage::Swap(slot) => {
                        ensure(file.kind == FileKind::SharedMemory, || format!("{}: page {page} in swap", file.name))?;
                        *census.slot_users.entry(slot).or_default() += 1;
                    }
                    CachePage::Frame(frame) => {
                        nr_cached += 1;
                        let owner = self.frames.owner(frame);
                        let right =
                            matches!(owner, PageOwner::File { file, page: at } if file == id && u64::from(at) == page);
                        ensure(right, || format!("{}: page {page} is {frame:?} of {owner:?}", file.name))?;
                        ensure(census.page_cache.insert(frame), || format!("{frame:?} is cached twice"))?;
                        self.check_place(file, frame, page)?;
                    }
                }
            }
            ensure(file.nr_cached == nr_cached && file.nr_shadows == nr_shadows, || {
                let (cached, shadows) = (file.nr_cached, file.nr_shadows);
                format!("{}: counts {cached} cached, {shadows} shadows; has {nr_cached}, {nr_shadows}", file.name)
            })?;
        }
        Ok(())
    }

    /// A cached page lies in its folio as the folio lies in the file; a tail has no flags of its own, and its group is the head's.
    fn check_place(&self, file: &SimFile, frame: FrameId, page: u64) -> Check {
        let (order, head) = (self.frames.order(frame), self.frames.head(frame));
        if order == 0 {
            return Ok(());
        }
        let what = || format!("{}: page {page} in {frame:?}, of order {order} with head {head:?}", file.name);
        let first = page >> order << order;
        let at = u32::try_from(page - first).expect("in the folio");
        let is_in_place = head.index_u32() + at == frame.index_u32()
            && self.frames.order(head) == order
            && file.page(first) == CachePage::Frame(head);
        ensure(is_in_place, what)?;
        ensure(file.kind == FileKind::Regular, || format!("{}, shared memory", what()))?;
        ensure(self.frames.cgroup(frame) == self.frames.cgroup(head), || format!("{}, of two groups", what()))?;
        let is_bare = frame == head || self.frames.flags(frame) == Flags::of_tail();
        ensure(is_bare, || format!("{}: a tail has {:?}", what(), self.frames.flags(frame)))
    }

    fn check_slots(&self, census: &mut Census) -> Check {
        let mut charged: BTreeMap<CgroupId, u64> = BTreeMap::new();
        let mut nr_used = 0;
        for slot in self.slots.used_slots() {
            nr_used += 1;
            let users = census.slot_users.remove(&slot).unwrap_or(0);
            ensure(u64::from(self.slots.users(slot)) == users, || {
                format!("{slot:?} has {} users, {users} refer to it", self.slots.users(slot))
            })?;
            if let Some(frame) = self.slots.cached(slot) {
                ensure(self.frames.slot(frame) == Some(slot), || {
                    format!("{slot:?} caches {frame:?}, which denies it")
                })?;
                census.swap_cache.insert(frame);
            }
            for group in self.cgroups.lineage(self.slots.cgroup(slot)) {
                *charged.entry(group).or_default() += 1;
            }
        }
        if let Some((slot, _)) = census.slot_users.first_key_value() {
            return Err(format!("{slot:?} is free, but referred to"));
        }
        ensure(self.slots.used() == nr_used, || format!("{} slots counted, {nr_used} in use", self.slots.used()))?;
        for group in self.cgroups.ids() {
            let (is, expected) = (self.cgroups.get(group).swap_usage, charged.get(&group).copied().unwrap_or(0));
            ensure(is == expected, || format!("{group:?}: swap usage {is}, slots {expected}"))?;
        }
        Ok(())
    }

    fn check_frames(&self, census: &Census) -> Check {
        let owned = census.owned();
        let (used, kernel) = (self.nodes.nr_used(), self.kernel.pages());
        ensure(used == owned.len() as u64 + kernel, || {
            format!("{used} frames in use, {} owned, {kernel} of the kernel: a leak or a double use", owned.len())
        })?;
        for (first, order, kind) in self.kernel.blocks() {
            let frames = (0..1 << order).map(|at| FrameId::new(first.index_u32() + at));
            for frame in frames {
                let what = || format!("{frame:?} is the kernel's ({kind:?}), and somebody else's");
                ensure(!owned.contains(&frame), what)?;
            }
        }
        if let Some(frame) = self.nodes.given_back(&self.frames).find(|frame| owned.contains(frame)) {
            return Err(format!("{frame:?} is free and owned by {:?}", self.frames.owner(frame)));
        }
        for (node, zone) in self.nodes.iter().flat_map(|(id, node)| node.zones.iter().map(move |zone| (id, zone))) {
            zone.check(&self.frames).map_err(|what| format!("{node:?}: {what}"))?;
        }
        let in_flight: BTreeSet<FrameId> = self.io.in_flight().map(|(_, frame)| frame).collect();
        ensure(in_flight.len() == self.io.nr_in_flight(), || "a page has two transfers".to_owned())?;
        for &frame in &owned {
            if self.frames.head(frame) != frame {
                continue; // its head answers for it
            }
            let has = |flag| self.frames.has(frame, flag);
            let in_page_cache = census.page_cache.contains(&frame);
            let in_swap_cache = census.swap_cache.contains(&frame);
            let nr_mapped = census.mapped.get(&frame).copied().unwrap_or(0);
            ensure(has(Flag::SwapCache) == in_swap_cache, || format!("{frame:?}: swap-cache flag is wrong"))?;
            ensure(!in_page_cache || has(Flag::FileOwned), || format!("{frame:?}: anonymous, in the page cache"))?;
            ensure(in_page_cache || in_swap_cache || nr_mapped > 0, || format!("{frame:?} belongs to nobody"))?;
            ensure(has(Flag::FileOwned) || has(Flag::Shared) || nr_mapped <= 1, || {
                format!("{frame:?} is mapped {nr_mapped} times, but not shared")
            })?;
            let is_flagged = has(Flag::Reading) || has(Flag::Writeback);
            ensure(is_flagged == in_flight.contains(&frame), || format!("{frame:?}: in flight or not?"))?;
            if let PageOwner::File { file, page } = self.frames.owner(frame)
                && self.files.get(file).kind == FileKind::Regular
            {
                let pages = page..page + (1 << self.frames.order(frame));
                let is_listed = pages.into_iter().any(|page| self.flusher.has(file, page));
                ensure(has(Flag::Dirty) == is_listed, || {
                    format!("{frame:?}: dirty is {}, the flusher says otherwise", has(Flag::Dirty))
                })?;
            }
        }
        Ok(())
    }

    /// Each frame in use is counted only by its node, entries have the right latency class, and the counts of nodes add up.
    fn check_nodes(&self, census: &Census) -> Check {
        let mut used = vec![0u64; self.nodes.len()];
        census.owned().into_iter().for_each(|frame| used[self.nodes.of(frame).index()] += 1);
        self.kernel.blocks().for_each(|(first, order, _)| used[self.nodes.of(first).index()] += 1 << order);
        for (id, node) in self.nodes.iter() {
            let is = node.zones.iter().map(super::Zone::used).sum::<u64>();
            ensure(is == used[id.index()], || format!("{id:?}: {is} frames in use, {} owned", used[id.index()]))?;
        }
        for (frame, (space, page)) in &census.shown {
            let (known, is) = (self.space(*space).table.class_of(*page), self.nodes.class_of(*frame));
            ensure(known == is, || format!("{space:?} {page:?}: {frame:?} is of class {is}, its entry says {known}"))?;
        }
        let [came, went] = [0, 1].map(|way: usize| self.node_moves.iter().map(|moves| moves[way]).sum::<u64>());
        ensure(came == went, || format!("{came} pages came from other nodes, {went} went to others"))?;
        use crate::counters::Counter::{
            PgDemoteDirect, PgDemoteKhugepaged, PgDemoteKswapd, PgDemoteProactive, PgPromoteSuccess,
        };
        for counter in [PgPromoteSuccess, PgDemoteKswapd, PgDemoteDirect, PgDemoteKhugepaged, PgDemoteProactive] {
            let sum: u64 = self.node_counters.iter().map(|node| node.get(counter)).sum();
            let is = self.counters.get(counter);
            ensure(sum == is, || format!("{counter} is {is}, that of the nodes together {sum}"))?;
        }
        Ok(())
    }

    fn check_charges(&self, census: &Census) -> Check {
        let mut charged: BTreeMap<CgroupId, u64> = BTreeMap::new();
        let mut charge = |group: CgroupId, pages: u64| {
            for id in self.cgroups.lineage(group) {
                *charged.entry(id).or_default() += pages;
            }
        };
        census.owned().into_iter().for_each(|frame| charge(self.frames.cgroup(frame), 1));
        self.cgroups.ids().for_each(|id| charge(id, self.cgroups.get(id).stock));
        for id in self.cgroups.ids() {
            let (usage, expected) = (self.cgroups.get(id).usage, charged.get(&id).copied().unwrap_or(0));
            ensure(usage == expected, || {
                format!("{}: usage {usage}, pages and stock {expected}", self.cgroups.get(id).path)
            })?;
        }
        Ok(())
    }
}

impl Census {
    fn owned(&self) -> BTreeSet<FrameId> {
        let mapped = self.mapped.keys().copied();
        mapped.chain(self.page_cache.iter().copied()).chain(self.swap_cache.iter().copied()).collect()
    }
}

fn ensure(holds: bool, what: impl FnOnce() -> String) -> Check {
    if holds { Ok(()) } else { Err(what()) }
}
