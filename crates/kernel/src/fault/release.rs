//! Taking entries away: unmapping, exit, dropped contents.

use crate::cgroup::CgroupId;
use crate::memory::{Flag, FrameId, Memory, PageOwner};
use crate::mmu::{DensePage, Entry, SpaceId, Taken, Vma};
use crate::reclaim::{Hint, ReclaimPolicy};
use crate::swap::SlotId;
use isotherm_units::access::Advice;

/// A mapped page of no file without any of these goes with its only entry: it is anonymous, this process's alone, in no cache and not on
/// its way to or from a device.
const NEEDED_ELSEWHERE: [Flag; 4] = [Flag::Shared, Flag::SwapCache, Flag::Reading, Flag::Writeback];

/// Whether use of a mapping predicts further use of its pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Recency {
    Meant,
    /// Accesses do not count, after `MADV_RANDOM` or `MADV_SEQUENTIAL`.
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

/// Empties one entry. The page or slot of the entry is freed if it is not needed elsewhere. A file page stays in the page cache: it becomes
/// dirty if the entry was, and young if the entry was and `recency` says that this counts.
pub(super) fn zap(
    memory: &mut Memory,
    policy: &mut dyn ReclaimPolicy,
    space: SpaceId,
    dense: DensePage,
    recency: Recency,
) {
    let taken = memory.space_mut(space).table.take(dense);
    zap_taken(memory, policy, space, &[taken], recency);
}

/// The same for several entries, which were taken from the table. The bookkeeping for consecutive private and file pages (charge,
/// residency, CPU time) is done together.
pub(super) fn zap_taken(
    memory: &mut Memory,
    policy: &mut dyn ReclaimPolicy,
    space: SpaceId,
    taken: &[Taken],
    recency: Recency,
) {
    let mut run = Run { cgroup: CgroupId::ROOT, freed: 0, cached: 0 };
    let mut told = None;
    for taken in taken {
        let Entry::Frame(frame) = taken.entry else {
            run.book(memory, space);
            zap_shared(memory, policy, space, taken);
            continue;
        };
        let flags = memory.frames.flags(frame);
        if flags.has(Flag::FileOwned) {
            run.cached += 1;
            if taken.dirty {
                memory.dirty_file_page(frame);
            }
            // Entries of one folio that follow each other count as one use.
            let head = memory.frames.head(frame);
            if taken.young && recency == Recency::Meant && told != Some(head) {
                policy.hint(memory, head, Hint::UnmappedYoung);
                told = Some(head);
            }
            continue;
        }
        if flags.has_any(NEEDED_ELSEWHERE) {
            run.book(memory, space);
            zap_shared(memory, policy, space, taken);
            continue;
        }
        let cgroup = memory.frames.cgroup(frame);
        if cgroup != run.cgroup {
            run.book(memory, space);
            run.cgroup = cgroup;
        }
        if flags.has(Flag::OnList) {
            policy.removed(memory, frame);
        }
        memory.give_private_page(frame);
        run.freed += 1;
    }
    run.book(memory, space);
}

/// Pages that lost their entries.
struct Run {
    cgroup: CgroupId,
    /// Private pages of the group whose frames were given back.
    freed: u64,
    /// Pages that stay in the page cache.
    cached: u64,
}

impl Run {
    fn book(&mut self, memory: &mut Memory, space: SpaceId) {
        let (freed, cached) = (std::mem::take(&mut self.freed), std::mem::take(&mut self.cached));
        memory.space_mut(space).nr_resident -= freed + cached;
        memory.ledger.spend((freed + cached) * memory.costs.unmap_page_ns + freed * memory.costs.free_page_ns);
        if freed > 0 {
            memory.cgroups.uncharge(self.cgroup, freed);
            memory.update_hidden();
        }
    }
}

/// The entry held no page of a file, and none that is freed together with it.
fn zap_shared(memory: &mut Memory, policy: &mut dyn ReclaimPolicy, space: SpaceId, taken: &Taken) {
    match taken.entry {
        Entry::None | Entry::Zero => {}
        Entry::Swap(slot) => {
            memory.space_mut(space).nr_swapped -= 1;
            drop_slot_entry(memory, policy, slot, space, taken.dense);
        }
        Entry::Frame(frame) => {
            memory.space_mut(space).nr_resident -= 1;
            memory.ledger.spend(memory.costs.unmap_page_ns);
            anonymous_unmapped(memory, policy, frame, space, taken.dense);
        }
    }
}

/// An entry that referred to `slot` was removed.
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

/// `dense` of `space` does not refer to the anonymous page `frame` any more, neither as a page nor as its slot. Frees the page if no other
/// entry refers to it, else hands it to a process whose entry does.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::swap::device::DeviceKind;
    use crate::testkit::Rig;
    use isotherm_units::PageRange;

    /// Private pages of two groups, swapped ones, one on its way to its slot, and the zero page.
    #[test]
    fn a_run_goes_as_page_by_page() {
        for device in [DeviceKind::Zram, DeviceKind::Nvme] {
            let gone = |together: bool| {
                let mut rig = Rig::new(device);
                let (one, other) = (rig.cgroup, rig.group(CgroupId::ROOT, "other"));
                let space = rig.anonymous(64);
                rig.write_all(space, PageRange::new(0, 20));
                rig.memory.space_mut(space).cgroup = other;
                rig.write_all(space, PageRange::new(20, 50));
                [3, 4, 27].into_iter().for_each(|page| rig.evict(space, page));
                let frame = rig.frame(space, 30).unwrap();
                rig.evict_frame(frame);
                rig.read(space, 60);
                rig.memory.ledger.take();
                let pages = rig.memory.space(space).table.collect_populated(PageRange::new(0, 64));
                let (memory, policy) = (&mut rig.memory, &mut rig.policy);
                if together {
                    let taken: Vec<Taken> =
                        pages.iter().map(|&page| memory.space_mut(space).table.take(page)).collect();
                    zap_taken(memory, policy, space, &taken, Recency::Meant);
                } else {
                    pages.iter().for_each(|&page| zap(memory, policy, space, page, Recency::Meant));
                }
                let usage = [one, other].map(|group| rig.memory.cgroups.get(group).usage);
                let owner = rig.memory.space(space);
                let left = (owner.nr_resident, owner.nr_swapped, rig.memory.slots.used(), rig.memory.nodes.nr_used());
                assert_eq!((owner.nr_resident, owner.nr_swapped, pages.len()), (0, 0, 51));
                (usage, left, rig.memory.ledger.take())
            };
            assert_eq!(gone(true), gone(false), "{device}");
        }
    }
}
