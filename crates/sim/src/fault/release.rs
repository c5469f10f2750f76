//! Taking entries away: unmapping, exit, dropped contents.

use crate::memory::{Flag, FrameId, Memory, PageOwner};
use crate::mmu::{DensePage, Entry, SpaceId, Vma};
use crate::reclaim::{Hint, ReclaimPolicy};
use crate::swap::SlotId;
use isotherm_units::access::Advice;

/// A mapped page without any of these goes with its only entry: it is anonymous, this process's alone, in no cache and not on
/// its way to or from a device.
const NEEDED_ELSEWHERE: [Flag; 5] = [Flag::FileOwned, Flag::Shared, Flag::SwapCache, Flag::Reading, Flag::Writeback];

/// Whether use of a mapping says that its pages will be used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Recency {
    Meant,
    /// Not after `MADV_RANDOM` or `MADV_SEQUENTIAL`.
    Ignored,
}

impl Recency {
    pub(super) fn of(vma: &Vma) -> Self {
        match vma.order {
            Advice::Random | Advice::Sequential => Self::Ignored,
            _ => Self::Meant,
        }
    }
}

/// Empties one entry. The page or slot behind it is freed if nothing else needs it; a file page stays in the page cache
/// and learns that it was dirty or, if `recency` says that this means something, young.
pub(super) fn zap(
    memory: &mut Memory,
    policy: &mut dyn ReclaimPolicy,
    space: SpaceId,
    dense: DensePage,
    recency: Recency,
) {
    let (entry, young, dirty) = memory.space_mut(space).table.take(dense);
    match entry {
        Entry::None | Entry::Zero => {}
        Entry::Swap(slot) => {
            memory.space_mut(space).nr_swapped -= 1;
            drop_slot_entry(memory, policy, slot, space, dense);
        }
        Entry::Frame(frame) => {
            memory.space_mut(space).nr_resident -= 1;
            memory.ledger.spend(memory.costs.unmap_page_ns);
            let flags = memory.frames.flags(frame);
            if !flags.has_any(NEEDED_ELSEWHERE) {
                forget(memory, policy, frame);
            } else if flags.has(Flag::FileOwned) {
                if dirty {
                    memory.dirty_file_page(frame);
                }
                if young && recency == Recency::Meant {
                    policy.hint(memory, frame, Hint::UnmappedYoung);
                }
            } else {
                anonymous_unmapped(memory, policy, frame, space, dense);
            }
        }
    }
}

/// An entry that referred to `slot` is gone.
fn drop_slot_entry(
    memory: &mut Memory,
    policy: &mut dyn ReclaimPolicy,
    slot: SlotId,
    space: SpaceId,
    dense: DensePage,
) {
    let cached = memory.slots.cached(slot);
    memory.drop_swap_entry(slot);
    match cached {
        Some(frame) => anonymous_unmapped(memory, policy, frame, space, dense),
        None => memory.update_hidden(),
    }
}

/// `dense` of `space` does not refer to the anonymous page `frame` any more, neither as a page nor as its slot. Frees it if
/// nobody else does, else hands it to one who does.
pub(super) fn anonymous_unmapped(
    memory: &mut Memory,
    policy: &mut dyn ReclaimPolicy,
    frame: FrameId,
    space: SpaceId,
    dense: DensePage,
) {
    if free_if_unused(memory, policy, frame) {
        return;
    }
    if memory.frames.has(frame, Flag::Shared)
        && memory.frames.owner(frame) == (PageOwner::Anonymous { space, page: dense })
        && let Some((heir, page)) = find_heir(memory, frame, space, dense)
    {
        memory.frames.reassign_anonymous(frame, heir, page);
    }
}

/// Another space of the family that shows `frame` or its slot at the same address.
fn find_heir(memory: &Memory, frame: FrameId, space: SpaceId, dense: DensePage) -> Option<(SpaceId, DensePage)> {
    let virtual_page = memory.space(space).table.page_of(dense);
    let slot = memory.frames.slot(frame);
    memory.space(space).family.iter().filter(|&&other| other != space).find_map(|&other| {
        let table = &memory.space(other).table;
        let page = table.dense(virtual_page)?;
        let refers = match table.entry(page) {
            Entry::Frame(mapped) => mapped == frame,
            Entry::Swap(swapped) => slot == Some(swapped),
            Entry::None | Entry::Zero => false,
        };
        refers.then_some((other, page))
    })
}

/// Frees an anonymous page that no entry refers to; one in flight goes when its transfer ends. Returns whether it is free
/// now.
#[inline]
pub(super) fn free_if_unused(memory: &mut Memory, policy: &mut dyn ReclaimPolicy, frame: FrameId) -> bool {
    let flags = memory.frames.flags(frame);
    if flags.has_any([Flag::Reading, Flag::Writeback, Flag::FileOwned]) {
        return false;
    }
    if memory.frames.slot(frame).is_some_and(|slot| memory.slots.users(slot) > 0) {
        return false;
    }
    let is_mapped =
        if flags.has(Flag::Shared) { !memory.mappers(frame).is_empty() } else { memory.sole_mapper(frame).is_some() };
    if is_mapped {
        return false;
    }
    forget(memory, policy, frame);
    true
}

/// Frees a page that nothing maps.
#[inline]
fn forget(memory: &mut Memory, policy: &mut dyn ReclaimPolicy, frame: FrameId) {
    if memory.frames.has(frame, Flag::OnList) {
        policy.removed(memory, frame);
    }
    memory.ledger.spend(memory.costs.free_page_ns);
    memory.free_page(frame, None);
    memory.update_hidden();
}
