//! Anonymous pages that are not there: the two common faults, and where they go on after a shortage.
//!
//! Mostly nothing is in the way, and [`AtOnce`](super::AtOnce) does all of it. A fault that is short of memory is called again when its
//! thread has reclaimed. If only free memory and charges can have changed in between, the facts about the page still hold, and are kept in
//! its [`FaultState`].

use super::{FaultOutcome, FaultState, Step, allocate};
use crate::cgroup::CgroupId;
use crate::memory::{Flag, FrameId, Memory, PageOwner};
use crate::mmu::{DensePage, Need, SpaceId};
use crate::reclaim::{Arrival, ReclaimPolicy};
use crate::swap::SlotId;

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
    if let Contents::Swapped { slot, .. } = missing.contents {
        memory.read_slot_at_once(slot, missing.cgroup);
    }
    fill(memory, policy, missing, frame);
    if let Contents::Swapped { .. } = missing.contents {
        memory.cgroups.charge_swap(missing.cgroup, -1);
        memory.update_hidden();
    }
    Ok(())
}

/// Makes `frame` the page, which was read if it was swapped out, and maps it. The slot is given up, and not uncharged yet.
#[inline(always)]
pub(super) fn fill<P: ReclaimPolicy + ?Sized>(memory: &mut Memory, policy: &mut P, missing: Missing, frame: FrameId) {
    let Missing { space, page, need, cgroup, contents, .. } = missing;
    memory.frames.assign(frame, PageOwner::Anonymous { space, page }, cgroup);
    match contents {
        Contents::Zeroes => policy.added(memory, frame, Arrival::Anonymous, None),
        Contents::Swapped { slot, shadow } => {
            // The policy sees it in the swap cache.
            memory.frames.set_slot(frame, Some(slot));
            policy.added(memory, frame, Arrival::SwapIn, shadow);
            if need == Need::Write {
                policy.insert_waiting(memory);
            }
            memory.frames.update(frame, [Flag::SwapCache], [Flag::Dirty]);
            memory.slots.free_sole(slot);
        }
    }
    let owner = memory.space_mut(space);
    owner.nr_swapped -= u64::from(matches!(contents, Contents::Swapped { .. }));
    owner.nr_resident += 1;
    owner.table.set_present_anew(page, frame, need == Need::Write);
}
