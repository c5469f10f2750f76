//! The common eviction in one go: an anonymous page of one process, without a slot, that goes to compressed swap.
//!
//! [`outcome`](super::outcome) does the same step by step for pages of every kind: it puts the page into the swap cache,
//! takes its entries away, has it written, and takes it out of the swap cache again. Where the write is over when it has been
//! submitted, the states in between are never seen, so each record is written once, as it is afterwards.

use super::outcome::Fate;
use super::{ReclaimPolicy, Scan};
use crate::memory::{Flag, FrameId, Memory, PageOwner};

/// A page with any of these flags takes the slow path.
const SPECIAL: [Flag; 4] = [Flag::FileOwned, Flag::Shared, Flag::SwapCache, Flag::ZeroFilled];

/// Evicts a page that is on no list; `None`, and nothing is done, if it is not of the common kind or finds no slot.
#[inline]
pub(super) fn swap_out(
    memory: &mut Memory,
    policy: &mut dyn ReclaimPolicy,
    frame: FrameId,
    scan: &mut Scan,
) -> Option<Fate> {
    let flags = memory.frames.flags(frame);
    if !flags.has(Flag::SwapBacked) || flags.has_any(SPECIAL) || !scan.may_swap || !memory.io.swap_is_synchronous() {
        return None;
    }
    let PageOwner::Anonymous { space, page } = memory.frames.owner(frame) else { return None };
    let cgroup = memory.frames.cgroup(frame);
    let owner = &mut memory.spaces[space.index()];
    // A page in flight may outlive its space.
    if !owner.alive || !owner.huge_blocks.is_empty() || !owner.table.shows(page, frame) {
        return None;
    }
    if !memory.cgroups.may_swap(cgroup) {
        return None;
    }
    let slot = memory.slots.take_for_entry(cgroup)?;
    memory.cgroups.swapped_out(cgroup);
    owner.nr_resident -= 1;
    owner.nr_swapped += 1;
    owner.table.swap_out(page, slot);
    scan.taken.unmapped += 1;
    scan.taken.written += 1;
    memory.write_slot_at_once(cgroup);
    let shadow = policy.shadow_of(memory, frame, scan.root);
    memory.slots.set_shadow(slot, shadow);
    memory.frames.update(frame, [Flag::Isolated, Flag::Dirty], []);
    memory.frames.forget_pin(frame);
    let costs = &memory.costs;
    memory.ledger.spend(costs.swap_out_page_ns + costs.unmap_page_ns + costs.free_page_ns);
    memory.nodes.give(&mut memory.frames, frame);
    memory.update_hidden();
    Some(Fate::Freed)
}

#[cfg(test)]
mod tests {
    use super::super::outcome::{evict, evict_by_steps};
    use super::super::{POLICIES, Reclaimer};
    use super::*;
    use crate::cgroup::CgroupId;
    use crate::mmu::Entry;
    use crate::swap::device::DeviceKind;
    use crate::testkit::Testbed;

    type Evict = fn(&mut Memory, &mut dyn ReclaimPolicy, FrameId, &mut Scan) -> Fate;

    /// The visible state of a machine after some evictions.
    fn after(policy: Box<dyn ReclaimPolicy>, device: DeviceKind, evict: Evict) -> String {
        let mut bed = Testbed::new(policy, 256, device, 64);
        let group = bed.group(CgroupId::ROOT, "g");
        let space = bed.space(group, 16);
        (0..16).for_each(|page| _ = bed.write(space, page));
        bed.policy.insert_waiting(&mut bed.memory);
        let mut scan = Scan::new(Reclaimer::Limit, group, 32, 60);
        let mut flags = Vec::new();
        for page in [3, 9, 4] {
            let frame = bed.frame(space, page).expect("resident");
            bed.policy.removed(&mut bed.memory, frame);
            assert_eq!(evict(&mut bed.memory, bed.policy.as_mut(), frame, &mut scan), Fate::Freed);
            flags.push(bed.memory.frames.flags(frame));
        }
        bed.check();
        let entries: Vec<Entry> = (0..16).map(|page| bed.entry(space, page)).collect();
        let (memory, owner) = (&bed.memory, bed.memory.space(space));
        let counts = (owner.nr_resident, owner.nr_swapped, memory.nodes.get(crate::memory::NodeId(0)).free());
        let groups: Vec<_> = memory.cgroups.ids().map(|id| memory.cgroups.get(id)).collect();
        format!(
            "{scan:?} {flags:?} {entries:?} {counts:?} {groups:?} {:?} {:?} {:?} {:?}",
            memory.counters,
            memory.ledger,
            memory.slots,
            memory.io.swap.stats()
        )
    }

    #[test]
    fn the_short_way_leads_where_the_long_one_does() {
        for entry in POLICIES.iter().filter(|entry| !entry.build().needs_future()) {
            for device in [DeviceKind::Zram, DeviceKind::Ram] {
                let [short, long] = [evict as Evict, evict_by_steps].map(|evict| after(entry.build(), device, evict));
                assert_eq!(short, long, "{} {device:?}", entry.name);
            }
        }
    }
}
