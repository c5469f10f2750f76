//! Anonymous pages that are not there: the two common faults, and where they go on after a shortage.
//!
//! Mostly nothing is in the way: [`fault_at_once`] then does all of it in one go, and keeps no record of where it stopped. A fault that is
//! short of memory is called again when its thread has reclaimed. If only free memory and charges can have changed in between, the facts
//! about the page still hold, and are kept in its [`FaultState`].

use super::{FaultOutcome, FaultState, Step, allocate};
use crate::cgroup::CgroupId;
use crate::counters::Counter;
use crate::memory::{Flag, FrameId, Mark, Memory, PageOwner};
use crate::mmu::{DensePage, Entry, Need, SpaceId};
use crate::reclaim::{Arrival, ReclaimPolicy};
use crate::swap::SlotId;
use isotherm_units::access::Backing;

/// A page to be made resident and mapped writable.
#[derive(Clone, Copy, Debug)]
pub(super) struct Missing {
    pub(super) space: SpaceId,
    pub(super) page: DensePage,
    pub(super) need: Need,
    /// See [`Memory::recent_fault`].
    pub(super) has_recency: bool,
    pub(super) cgroup: CgroupId,
    pub(super) contents: Contents,
}

/// Contents of the page.
#[derive(Clone, Copy, Debug)]
pub(super) enum Contents {
    Zeroes,
    /// Only its own entry refers to the slot, on a synchronous device. The slot is given up.
    Swapped {
        slot: SlotId,
        shadow: Option<u64>,
    },
}

/// Handles a fault at `page` of `space` if it is one of the two and there is memory: the same as [`fault`](super::fault), which is called
/// if it returns `false`; nothing has been done then. [`Memory::migration`] must be empty.
#[inline]
pub fn fault_at_once(
    memory: &mut Memory,
    policy: &mut dyn ReclaimPolicy,
    space: SpaceId,
    page: u64,
    need: Need,
    state: &FaultState,
) -> bool {
    debug_assert!(memory.migration.is_empty(), "a page that moves is waited for");
    if state.current.is_some() || state.huge.is_some() {
        return false;
    }
    let owner = &mut memory.spaces[space.index()];
    let Some(&vma) = owner.vmas.find_next(page) else { return false };
    let Some(dense) = owner.table.dense(page) else { return false };
    if vma.mapping.backing != Backing::Anonymous || vma.mapping.huge {
        return false;
    }
    let (payer, contents) = match owner.table.entry(dense) {
        Entry::None if need == Need::Write => (owner.cgroup, Contents::Zeroes),
        Entry::Swap(slot) if memory.io.swap_is_synchronous() => match memory.slots.sole_use(slot) {
            Some((payer, shadow)) => (payer, Contents::Swapped { slot, shadow }),
            None => return false,
        },
        Entry::None | Entry::Swap(_) | Entry::Zero | Entry::Frame(_) => return false,
    };
    let group = owner.cgroup;
    let room = memory.cgroups.room(payer);
    if room == 0 {
        return false;
    }
    let Some(frame) = memory.nodes.take(&mut memory.frames, state.node, Mark::Low) else { return false };
    super::allocate::charge(memory, payer, room, frame).expect("there is room");
    let costs = &memory.costs;
    match contents {
        Contents::Zeroes => {
            memory.ledger.spend(costs.minor_fault_anon_ns + costs.page_zero_ns);
            memory.count(Counter::PgFault, group, 1);
        }
        Contents::Swapped { .. } => {
            memory.ledger.spend(costs.swap_in_fault_ns);
            memory.count_all(group, [(Counter::PgFault, 1), (Counter::PgMajFault, 1)]);
        }
    }
    memory.recent_fault = vma.has_recency();
    let has_recency = memory.recent_fault;
    fill(memory, policy, Missing { space, page: dense, need, has_recency, cgroup: payer, contents }, frame);
    memory.recent_fault = false;
    true
}

/// Goes on with a fault that was short of memory, after its thread has reclaimed and before another one has run: the same as
/// [`fault`](super::fault), which is called where less is known.
pub fn fault_again(
    memory: &mut Memory,
    policy: &mut dyn ReclaimPolicy,
    space: SpaceId,
    page: u64,
    need: Need,
    state: &mut FaultState,
) -> FaultOutcome {
    let Some(missing) = state.missing.take() else { return super::fault(memory, policy, space, page, need, state) };
    debug_assert!(
        missing.space == space && missing.need == need && memory.space(space).table.page_of(missing.page) == page,
        "it is the same fault"
    );
    memory.recent_fault = missing.has_recency;
    let resolved = supply(memory, policy, state, missing);
    memory.recent_fault = false;
    match resolved {
        Ok(()) => {
            state.current = None;
            FaultOutcome::Done
        }
        Err(outcome) => outcome,
    }
}

/// Takes a frame for the page, fills it and maps it. A shortage leaves the page to [`fault_again`].
#[inline]
pub(super) fn supply(
    memory: &mut Memory,
    policy: &mut dyn ReclaimPolicy,
    state: &mut FaultState,
    missing: Missing,
) -> Step {
    state.optional = false;
    let frame = match allocate(memory, missing.cgroup, state.node, state.policy) {
        Ok(frame) => frame,
        Err(shortage) => {
            state.missing = Some(missing);
            return Err(FaultOutcome::Short(shortage));
        }
    };
    if matches!(missing.contents, Contents::Zeroes) {
        let current = state.current.as_mut().expect("set by begin");
        if !std::mem::replace(&mut current.paid, true) {
            memory.ledger.spend(memory.costs.minor_fault_anon_ns + memory.costs.page_zero_ns);
        }
    }
    fill(memory, policy, missing, frame);
    Ok(())
}

/// Makes `frame` the page, and maps it.
#[inline]
fn fill(memory: &mut Memory, policy: &mut dyn ReclaimPolicy, missing: Missing, frame: FrameId) {
    let Missing { space, page, need, cgroup, contents, .. } = missing;
    memory.frames.assign(frame, PageOwner::Anonymous { space, page }, cgroup);
    match contents {
        Contents::Zeroes => policy.added(memory, frame, Arrival::Anonymous, None),
        Contents::Swapped { slot, shadow } => {
            // The policy sees it in the swap cache.
            memory.frames.set_slot(frame, Some(slot));
            policy.added(memory, frame, Arrival::SwapIn, shadow);
            memory.read_slot_at_once(slot, cgroup);
            if need == Need::Write {
                policy.insert_waiting(memory);
            }
            memory.frames.update(frame, [Flag::SwapCache], [Flag::Dirty]);
            memory.slots.free_sole(slot);
            memory.cgroups.charge_swap(cgroup, -1);
            memory.update_hidden();
        }
    }
    let owner = memory.space_mut(space);
    owner.nr_swapped -= u64::from(matches!(contents, Contents::Swapped { .. }));
    owner.nr_resident += 1;
    owner.table.set_present_anew(page, frame, need == Need::Write);
}

#[cfg(test)]
mod tests {
    use super::super::{FaultOutcome, fault};
    use super::*;
    use crate::memory::NodeId;
    use crate::reclaim::POLICIES;
    use crate::swap::device::DeviceKind;
    use crate::testkit::Testbed;

    /// The visible state of a machine after a fault of each kind, and how many of them ended at once.
    fn after(policy: Box<dyn ReclaimPolicy>, device: DeviceKind, limit: u64, short: bool) -> (String, usize) {
        let mut bed = Testbed::new(policy, 256, device, 64);
        let group = bed.group(CgroupId::ROOT, "g");
        let space = bed.space(group, 64);
        bed.cgroup = group;
        (0..16).for_each(|page| _ = bed.write(space, page));
        bed.limit(8);
        bed.read(space, 20); // the zero page
        bed.limit(limit);
        let (mut outcomes, mut at_once) = (Vec::new(), 0);
        let mut state = FaultState::default();
        for (page, need) in [
            (0, Need::Write),
            (1, Need::Read),
            (20, Need::Write),
            (30, Need::Write),
            (31, Need::Read),
            (70, Need::Write),
            (2, Need::Write),
            (2, Need::Read),
        ] {
            let (memory, policy) = (&mut bed.memory, bed.policy.as_mut());
            if short && fault_at_once(memory, policy, space, page, need, &state) {
                at_once += 1;
                outcomes.push(FaultOutcome::Done);
            } else {
                outcomes.push(fault(memory, policy, space, page, need, &mut state));
            }
        }
        bed.policy.insert_waiting(&mut bed.memory);
        bed.check();
        let entries: Vec<_> = (0..64).map(|page| bed.entry(space, page)).collect();
        let (memory, owner) = (&bed.memory, bed.memory.space(space));
        let counts = (owner.nr_resident, owner.nr_swapped, memory.nodes.get(NodeId(0)).free(), memory.charged);
        let groups: Vec<_> = memory.cgroups.ids().map(|id| memory.cgroups.get(id)).collect();
        let seen = format!(
            "{outcomes:?} {entries:?} {counts:?} {groups:?} {:?} {:?} {:?} {:?}",
            memory.counters,
            memory.ledger,
            memory.slots,
            memory.io.swap.stats()
        );
        (seen, at_once)
    }

    #[test]
    fn the_short_way_leads_where_the_long_one_does() {
        for entry in POLICIES.iter().filter(|entry| !entry.build().needs_future()) {
            // With room for all, and with room for none.
            for limit in [64, 8] {
                for device in [DeviceKind::Zram, DeviceKind::Nvme] {
                    let [(short, at_once), (long, _)] =
                        [true, false].map(|short| after(entry.build(), device, limit, short));
                    assert_eq!(short, long, "{} {device:?} {limit}", entry.name);
                    let expected = match (limit, device) {
                        (64, DeviceKind::Zram) => 1..5, // of those in compressed swap, and new ones
                        (64, _) => 1..2,
                        _ => 0..1,
                    };
                    assert!(expected.contains(&at_once), "{} {device:?} {limit}: {at_once}", entry.name);
                }
            }
        }
    }
}
