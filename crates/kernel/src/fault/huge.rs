//! Huge mappings: 2 MiB of anonymous memory under one entry, one level up.
//!
//! The first store to a mapping marked `huge`, in an aligned 2 MiB block that it covers whole and where nothing is resident or swapped,
//! gets all 512 pages in one fault, charged in one go. Without enough free memory or room under the limit the fault gets a base page. The
//! block is remembered in [`AddressSpace::huge_blocks`](crate::mmu::AddressSpace) as long as one entry maps it; the accessed bit that
//! hardware has for it is the one at [`Level::PMD`]. The policy does not see the 512 frames as one page: they are on its lists one by one,
//! and the entry is split before any of the frames is taken away ([`Memory::split_huge`]).

use super::allocate::{allocate_block, charge_block};
use super::{FaultOutcome, FaultState, Faulting, Step};
use crate::compaction::{AllocateStep, Defrag, HugeAllocation, HugeEffort, Persistence};
use crate::counters::Counter;
use crate::memory::buddy::MigrateType;
use crate::memory::{FrameId, Memory, PageOwner};
use crate::mmu::{DensePage, Entry, Level, Need, SpaceId, Vma};
use crate::reclaim::{Arrival, ReclaimPolicy};
use isotherm_units::PageRange;
use isotherm_units::access::{Backing, Mapping};

/// Pages under one huge entry.
pub(super) const BLOCK_PAGES: u64 = Level::PMD.span_pages();
/// log2 of it.
pub(super) const BLOCK_ORDER: u32 = BLOCK_PAGES.ilog2();

/// A huge page for a fault.
#[derive(Clone, Debug)]
pub(super) enum Making {
    /// Under way.
    Allocating(Box<HugeAllocation>),
    /// Over: the first frame, charged to no group.
    Over(Option<FrameId>),
}

impl FaultState {
    /// Whether a huge page is being made for the access.
    #[inline]
    pub fn is_allocating(&self) -> bool {
        matches!(self.huge, Some(Making::Allocating(_)))
    }

    /// The next step towards a huge page after [`FaultOutcome::Huge`]: [`AllocateStep::Again`] and [`AllocateStep::Wait`] ask for more. The
    /// block is used when the fault is called again.
    pub fn step_huge(&mut self, memory: &mut Memory, policy: &mut dyn ReclaimPolicy) -> AllocateStep {
        let Some(Making::Allocating(allocation)) = &mut self.huge else { return AllocateStep::Failed };
        let step = allocation.step(memory, policy);
        match step {
            AllocateStep::Again | AllocateStep::Wait(_) => {}
            AllocateStep::Got(first) => {
                memory.keep_for_kernel(first, BLOCK_ORDER, MigrateType::Movable);
                self.huge = Some(Making::Over(Some(first)));
            }
            AllocateStep::Failed => self.huge = Some(Making::Over(None)),
        }
        step
    }

    /// The thread will not come back: the block for its fault is given back.
    pub fn abandon(&mut self, memory: &mut Memory) {
        match self.huge.take() {
            Some(Making::Allocating(mut allocation)) => allocation.cancel(memory),
            Some(Making::Over(Some(first))) => {
                memory.give_from_kernel(first);
            }
            Some(Making::Over(None)) | None => {}
        }
    }
}

impl Faulting<'_> {
    /// Handles the fault with a huge page if that is possible; returns whether it did.
    #[inline]
    pub(super) fn huge(&mut self) -> Step<bool> {
        if !self.vma.mapping.huge && self.state.huge.is_none() {
            return Ok(false);
        }
        self.huge_or_base()
    }

    fn huge_or_base(&mut self) -> Step<bool> {
        if self.state.is_allocating() {
            return Err(FaultOutcome::Huge);
        }
        let made = self.state.huge.take();
        let Some(block) = self.huge_block() else {
            // Another thread was faster.
            self.state.huge = made;
            self.state.abandon(self.memory);
            return Ok(false);
        };
        let cgroup = self.cgroup();
        let frames = match made {
            Some(Making::Over(None)) => None,
            Some(Making::Over(Some(first))) => {
                self.memory.take_from_kernel(first);
                self.charge_block(first)
            }
            _ if self.memory.compaction.defrag == Defrag::Never => {
                allocate_block(self.memory, cgroup, self.state.node, BLOCK_ORDER)
            }
            _ => {
                if self.memory.cgroups.over_limit(cgroup, BLOCK_PAGES).is_some() {
                    self.memory.count(Counter::ThpFaultFallbackCharge, cgroup, 1);
                    None
                } else {
                    let first = self.begin_huge()?;
                    first.and_then(|first| self.charge_block(first))
                }
            }
        };
        let Some(frames) = frames else {
            self.memory.count(Counter::ThpFaultFallback, cgroup, 1);
            return Ok(false);
        };
        self.memory.count(Counter::ThpFaultAlloc, cgroup, 1);
        self.pay_once(self.memory.costs.minor_fault_anon_ns + BLOCK_PAGES * self.memory.costs.page_zero_ns);
        map_block(self.memory, self.policy, self.space, block.start / BLOCK_PAGES, frames);
        Ok(true)
    }

    /// The block around the page, if a huge page fits there.
    fn huge_block(&self) -> Option<PageRange> {
        if !self.vma.mapping.huge || self.need == Need::Read || self.policy.is_exact() {
            return None;
        }
        let block = block_of(self.page);
        let space = self.memory.space(self.space);
        let fits = self.vma.pages().intersection(block) == block;
        let untouched = |dense| space.table.entry(dense) == Entry::Zero;
        (fits && space.table.populated_in(block).all(untouched)).then_some(block)
    }

    /// The first step of an allocation, which is the only one if a block is free or no more effort is allowed.
    fn begin_huge(&mut self) -> Step<Option<FrameId>> {
        let effort = match self.memory.compaction.defrag {
            Defrag::Madvise | Defrag::Always => HugeEffort::Direct(Persistence::Normal),
            Defrag::Never | Defrag::Defer => HugeEffort::Light,
        };
        let nodes = [self.state.node];
        let mut allocation = HugeAllocation::new(self.memory, BLOCK_ORDER, MigrateType::Movable, effort, &nodes);
        if self.memory.compaction.defrag == Defrag::Defer {
            allocation = allocation.waking_daemons();
        }
        match allocation.step(self.memory, self.policy) {
            AllocateStep::Got(first) => Ok(Some(first)),
            AllocateStep::Failed => Ok(None),
            AllocateStep::Again | AllocateStep::Wait(_) => {
                self.state.huge = Some(Making::Allocating(Box::new(allocation)));
                Err(FaultOutcome::Huge)
            }
        }
    }

    /// Charges a block to the process's group; without room it is given back.
    fn charge_block(&mut self, first: FrameId) -> Option<Vec<FrameId>> {
        let cgroup = self.cgroup();
        let frames = charge_block(self.memory, cgroup, first, BLOCK_ORDER);
        if frames.is_none() {
            self.memory.count(Counter::ThpFaultFallbackCharge, cgroup, 1);
        }
        frames
    }
}

/// Maps all of an empty block with `frames` by one huge entry.
pub(super) fn map_block(
    memory: &mut Memory,
    policy: &mut dyn ReclaimPolicy,
    space: SpaceId,
    block: u64,
    frames: Vec<FrameId>,
) {
    let cgroup = memory.space(space).cgroup;
    for (page, frame) in (block * BLOCK_PAGES..).zip(frames) {
        let dense = memory.space(space).table.dense(page).expect("in the mapping");
        memory.frames.assign(frame, PageOwner::Anonymous { space, page: dense }, cgroup);
        policy.added(memory, frame, Arrival::Anonymous, None);
        let space = memory.space_mut(space);
        space.table.set_present(dense, Entry::Frame(frame), true, true, true);
        space.nr_resident += 1;
    }
    let space = memory.space_mut(space);
    space.huge_blocks.insert(block);
    space.table.note_reshaped(block);
}

/// `MADV_HUGEPAGE` (`wanted`) and `MADV_NOHUGEPAGE`: kind of page that the first stores to blocks of `range` get from now on. Mapped pages
/// stay as they are.
pub fn set_huge(memory: &mut Memory, space: SpaceId, range: PageRange, wanted: bool) {
    let vmas = memory.space(space).vmas.iter();
    let is_other = |vma: &&Vma| {
        let Mapping { pages, backing, huge, .. } = vma.mapping;
        pages.overlaps(range) && backing == Backing::Anonymous && huge != wanted
    };
    let changing: Vec<PageRange> = vmas.filter(is_other).map(|vma| vma.pages().intersection(range)).collect();
    for part in changing {
        for mut vma in memory.space_mut(space).vmas.remove(part) {
            vma.mapping.huge = wanted;
            memory.space_mut(space).vmas.insert(vma);
        }
        join_at(memory, space, part.start);
        join_at(memory, space, part.end);
    }
}

/// Makes one range of two that meet at `page` and do not differ. Without it, advice for changing regions would leave ever
/// smaller ranges behind.
fn join_at(memory: &mut Memory, space: SpaceId, page: u64) {
    let space = memory.space_mut(space);
    let (Some(&left), Some(&right)) =
        (page.checked_sub(1).and_then(|page| space.vmas.find(page)), space.vmas.find(page))
    else {
        return;
    };
    let pages = PageRange::new(left.pages().start, right.pages().end);
    let joined = Vma { mapping: Mapping { pages, ..left.mapping }, ..left };
    let of_right = Mapping { pages: right.pages(), ..left.mapping };
    if left.pages().end == page
        && left.mapping.backing == Backing::Anonymous
        && (Vma { mapping: of_right, ..left }) == right
    {
        space.vmas.remove(pages);
        space.vmas.insert(joined);
        space.swap_readahead.remove(&page);
    }
}

impl Memory {
    /// Splits the huge entry that maps a page into base entries, if one does. Call before an entry of the page is changed.
    ///
    /// In hardware the huge entry has one accessed and one dirty bit, so all base entries inherit a bit that any page had set.
    pub fn split_huge(&mut self, space: SpaceId, page: DensePage) {
        if !self.space(space).huge_blocks.is_empty() {
            let page = self.space(space).table.page_of(page);
            split_block(self, space, page / BLOCK_PAGES);
        }
    }
}

/// Splits all huge entries that overlap `range`.
pub(super) fn split_range(memory: &mut Memory, space: SpaceId, range: PageRange) {
    if range.is_empty() || memory.space(space).huge_blocks.is_empty() {
        return;
    }
    let touched = range.start / BLOCK_PAGES..=(range.end - 1) / BLOCK_PAGES;
    let blocks: Vec<u64> = memory.space(space).huge_blocks.range(touched).copied().collect();
    blocks.into_iter().for_each(|block| split_block(memory, space, block));
}

fn split_block(memory: &mut Memory, space: SpaceId, block: u64) {
    let space = memory.space_mut(space);
    if !space.huge_blocks.remove(&block) {
        return;
    }
    space.table.note_reshaped(block);
    let range = PageRange::at(block * BLOCK_PAGES, BLOCK_PAGES);
    let pages: Vec<DensePage> = space.table.present_in(range).collect();
    let young = pages.iter().any(|&page| space.table.is_young(page));
    let dirty = pages.iter().any(|&page| space.table.is_dirty(page));
    for page in pages {
        if young {
            let need = if dirty { Need::Write } else { Need::Read };
            space.table.mark_touched(page, need);
        }
    }
}

fn block_of(page: u64) -> PageRange {
    PageRange::at(page - page % BLOCK_PAGES, BLOCK_PAGES)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::counters::Counter::PgFault;
    use crate::swap::device::DeviceKind;
    use crate::testkit::{MACHINE_PAGES, Rig};
    use isotherm_units::access::{Advice, LayoutChange};

    fn rig(pages: u64) -> (Rig, SpaceId) {
        let mut rig = Rig::new(DeviceKind::Zram);
        let space = rig.space();
        rig.map_huge(space, PageRange::at(100, pages));
        (rig, space)
    }

    #[test]
    fn the_first_store_to_a_whole_block_maps_512_pages_with_one_fault() {
        let (mut rig, space) = rig(2000); // 100..2100: whole blocks at 512, 1024, 1536 (not all of it)
        rig.write(space, 700);
        assert_eq!((rig.count(PgFault), rig.usage(), rig.memory.space(space).nr_resident), (1, 512, 512));
        rig.write(space, 1023);
        rig.read(space, 512);
        assert_eq!(rig.count(PgFault), 1);
        let dense = rig.dense(space, 512);
        assert!(rig.memory.space(space).table.is_upper_young(Level::PMD, dense));
        rig.write(space, 511);
        assert_eq!(rig.usage(), 513, "not a whole block");
        rig.read(space, 1030);
        rig.write(space, 1024);
        assert_eq!(rig.usage(), 1025, "the zero page does not hinder");
        rig.exit(space);
        rig.assert_empty();
    }

    #[test]
    fn without_memory_or_room_it_falls_back_to_a_base_page() {
        let (mut rig, space) = rig(3000);
        rig.limit(600);
        rig.write(space, 600);
        rig.write(space, 1100);
        assert_eq!((rig.usage(), rig.memory.space(space).huge_blocks.len()), (513, 1));
        let mut short = Rig::new(DeviceKind::None);
        let space = short.space();
        short.map_huge(space, PageRange::new(0, MACHINE_PAGES));
        for block in 0..7 {
            short.write(space, block * 512);
        }
        let free = short.memory.nodes.get(crate::memory::NodeId::default()).free();
        assert_eq!(free, MACHINE_PAGES - 7 * 512);
        short.write(space, 7 * 512); // 512 left, but the low watermark must hold
        assert_eq!(short.usage(), 7 * 512 + 1);
    }

    #[test]
    fn taking_one_page_away_splits_the_block() {
        let (mut rig, space) = rig(2000);
        for (step, page) in [600, 1100].into_iter().enumerate() {
            rig.write(space, page);
            match step {
                0 => rig.change(space, LayoutChange::Advise(PageRange::at(page, 1), Advice::DontNeed)),
                _ => rig.evict(space, page),
            }
            assert!(rig.memory.space(space).huge_blocks.is_empty());
        }
        assert_eq!(rig.memory.space(space).nr_resident, 1022);
        rig.write(space, 600);
        assert_eq!(rig.usage(), 1023, "a base page fills the hole");
        let child = rig.fork(space);
        rig.exit(space);
        rig.exit(child);
        rig.assert_empty();
    }
}
