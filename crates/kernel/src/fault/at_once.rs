//! The two common faults where nothing is in the way: one after the other, and booked together.
//!
//! An anonymous page that is new, or in compressed swap and nowhere else, whose group has room and for which a frame is free, costs its
//! thread some time and no other thread anything. The thread plays on after it at once. Counters, charges and what the device has done are
//! sums that are not read until the thread stops or reclaims: they are kept here until then. All that a decision depends on is changed at
//! once.

use super::FaultState;
use super::missing::{Contents, Missing, fill};
use crate::cgroup::CgroupId;
use crate::counters::Counter;
use crate::memory::{FrameId, Mark, Memory, NodeId};
use crate::mmu::{Cursor, Entry, Need, Pace, SpaceId, Stop};
use crate::reclaim::ReclaimPolicy;
use crate::swap::device::Transfer;
use isotherm_units::Instant;
use isotherm_units::access::{Backing, Run};

/// Faults of one thread in a row, while no other thread runs and nothing is reclaimed.
#[derive(Debug)]
pub struct AtOnce {
    space: SpaceId,
    group: CgroupId,
    node: NodeId,
    /// CPU time of reading a page from swap, in ns; `None`: its device takes its time.
    read_ns: Option<u64>,
    /// Sums are read after each fault.
    books_each: bool,
    /// Pages that the group can still be charged one by one: known once there is no room for more of them at a time.
    room_one_by_one: u64,
    unbooked: Unbooked,
}

/// A thread that plays.
#[derive(Debug)]
pub struct Playing<'a> {
    pub runs: &'a [Run],
    /// Its next access: the one that faults.
    pub cursor: &'a mut Cursor,
    pub pace: &'a mut Pace,
    /// The run up to which data was [read ahead](Memory::look_ahead).
    pub looked_ahead: &'a mut usize,
    /// It stops after one fault, before the access is tried again.
    pub is_alone: bool,
}

/// Sums of faults; pages.
#[derive(Debug, Default)]
struct Unbooked {
    charged: u64,
    new: u64,
    swapped_in: u64,
    /// Of these, read from the device.
    read: u64,
}

impl AtOnce {
    /// Faults of a thread of `space`; `None`: one of its faults is on its way. [`Memory::migration`] must be empty, and nothing may record
    /// the uses of pages.
    #[inline]
    pub fn new(memory: &Memory, space: SpaceId, state: &FaultState) -> Option<Self> {
        debug_assert!(memory.migration.is_empty(), "a page that moves is waited for");
        debug_assert!(memory.ground_truth.is_none(), "a record of uses hears of each charge");
        if state.current.is_some() || state.huge.is_some() {
            return None;
        }
        let swap = &memory.io.swap;
        Some(Self {
            space,
            group: memory.space(space).cgroup,
            node: state.node,
            read_ns: memory.io.swap_is_synchronous().then(|| swap.model().cpu_time(1, Transfer::Read).ns()),
            books_each: memory.cgroups.has_soft_limits() || memory.cgroups.has_swap_limits(),
            room_one_by_one: 0,
            unbooked: Unbooked::default(),
        })
    }

    /// Handles the fault at `stop`, plays on, and so on up to a stop of another kind. Returns the CPU time of the faults in ns; `None`: there
    /// was none that could be handled, and nothing was done. See [`ReclaimPolicy::play_over_faults`].
    #[inline]
    pub(crate) fn play<P: ReclaimPolicy + ?Sized>(
        &mut self,
        memory: &mut Memory,
        policy: &mut P,
        playing: Playing<'_>,
        stop: &mut Stop,
    ) -> Option<u64> {
        let Playing { runs, cursor, pace, looked_ahead, is_alone } = playing;
        let mut cpu_ns = None;
        while let Stop::Fault { page, need } = *stop {
            memory.now = Instant::from_ns(pace.now_ns);
            memory.look_ahead(self.space, runs, cursor.run, looked_ahead);
            if !self.fault(memory, policy, page, need) {
                break;
            }
            let ns = memory.ledger.take();
            cpu_ns = Some(cpu_ns.unwrap_or(0) + ns);
            pace.now_ns += ns;
            if is_alone || memory.kswapd_wanted.iter().any(|&is_wanted| is_wanted) {
                break;
            }
            *stop = memory.spaces[self.space.index()].table.play_on(runs, cursor, pace);
        }
        cpu_ns
    }

    /// Handles a fault at `page` if it is one of the two and there is memory: the same as [`fault`](super::fault), which is called if it
    /// returns `false`, after [`book`](Self::book); nothing has been done then.
    #[inline]
    fn fault<P: ReclaimPolicy + ?Sized>(&mut self, memory: &mut Memory, policy: &mut P, page: u64, need: Need) -> bool {
        let (space, group) = (self.space, self.group);
        let owner = &mut memory.spaces[space.index()];
        let Some(vma) = owner.vmas.find_next(page) else { return false };
        let has_recency = vma.has_recency();
        let Some(dense) = owner.table.dense(page) else { return false };
        if vma.mapping.backing != Backing::Anonymous || vma.mapping.huge {
            return false;
        }
        let contents = match (owner.table.entry(dense), self.read_ns) {
            (Entry::None, _) if need == Need::Write => Contents::Zeroes,
            (Entry::Swap(slot), Some(_)) => match memory.slots.sole_use(slot) {
                Some((payer, shadow)) if payer == group => Contents::Swapped { slot, shadow },
                _ => return false,
            },
            _ => return false,
        };
        let Some(frame) = self.take_frame(memory) else { return false };
        match contents {
            Contents::Zeroes => {
                self.unbooked.new += 1;
                memory.ledger.spend(memory.costs.minor_fault_anon_ns + memory.costs.page_zero_ns);
            }
            Contents::Swapped { slot, .. } => {
                self.unbooked.swapped_in += 1;
                memory.ledger.spend(memory.costs.swap_in_fault_ns);
                if !memory.slots.is_zero_filled(slot) {
                    self.unbooked.read += 1;
                    memory.ledger.spend(self.read_ns.expect("it was asked for"));
                }
            }
        }
        memory.recent_fault = has_recency;
        fill(memory, policy, Missing { space, page: dense, need, has_recency, cgroup: group, contents }, frame);
        memory.recent_fault = false;
        if self.books_each {
            self.book(memory);
        }
        true
    }

    /// Books the faults so far.
    #[inline(never)]
    pub fn book(&mut self, memory: &mut Memory) {
        let Unbooked { charged, new, swapped_in, read } = std::mem::take(&mut self.unbooked);
        if new + swapped_in == 0 {
            return;
        }
        memory.charged += charged;
        memory.cgroups.charge_pages_for_slots(self.group, charged, swapped_in);
        let counts = [(Counter::PgFault, new + swapped_in), (Counter::PgMajFault, swapped_in), (Counter::PswpIn, read)];
        memory.count_all(self.group, counts);
        if swapped_in > 0 {
            memory.io.moved_at_once(memory.now, Transfer::Read, read);
            memory.update_hidden();
        }
    }

    /// Takes a free frame, charged to the group; `None`: there is no room, or no frame.
    #[inline(always)]
    fn take_frame(&mut self, memory: &mut Memory) -> Option<FrameId> {
        if self.room_one_by_one == 0 {
            return self.take_charged_ahead(memory);
        }
        let frame = self.take_uncharged(memory)?;
        self.unbooked.charged += 1;
        self.room_one_by_one -= 1;
        Some(frame)
    }

    /// The same where the group has pages charged ahead, or it is not known what room it has.
    #[inline(never)]
    fn take_charged_ahead(&mut self, memory: &mut Memory) -> Option<FrameId> {
        let has_stock = memory.cgroups.get(self.group).stock > 0;
        let room = if has_stock { 0 } else { memory.cgroups.room(self.group).saturating_sub(self.unbooked.charged) };
        if !has_stock && room < memory.cgroups.charge_batch {
            self.room_one_by_one = room;
            return if room > 0 { self.take_frame(memory) } else { None };
        }
        let frame = self.take_uncharged(memory)?;
        let charge = memory.cgroups.charge_into(self.group, room).expect("there is room");
        memory.charged += charge.charged;
        Some(frame)
    }

    #[inline(always)]
    fn take_uncharged(&mut self, memory: &mut Memory) -> Option<FrameId> {
        memory.nodes.take_one_at_hand(self.node, Mark::Low).or_else(|| self.take_any(memory))
    }

    /// As long as slots given up are not booked, fewer frames seem free than are.
    #[inline(never)]
    fn take_any(&mut self, memory: &mut Memory) -> Option<FrameId> {
        self.book(memory);
        memory.nodes.take(&mut memory.frames, self.node, Mark::Low)
    }
}

#[cfg(test)]
mod tests {
    use super::super::{FaultOutcome, fault};
    use super::*;
    use crate::cgroup::CgroupId;
    use crate::memory::NodeId;
    use crate::reclaim::POLICIES;
    use crate::swap::device::DeviceKind;
    use crate::testkit::Testbed;

    /// The visible state of a machine after a fault of each kind, and how many of them ended at once.
    fn after(
        policy: Box<dyn ReclaimPolicy>,
        device: DeviceKind,
        (limit, batch): (u64, u64),
        short: bool,
    ) -> (String, usize) {
        let mut bed = Testbed::new(policy, 256, device, 64);
        let group = bed.group(CgroupId::ROOT, "g");
        let space = bed.space(group, 64);
        bed.cgroup = group;
        (0..16).for_each(|page| _ = bed.write(space, page));
        bed.limit(8);
        bed.read(space, 20); // the zero page
        bed.limit(limit);
        bed.memory.cgroups.charge_batch = batch;
        let (mut outcomes, mut at_once) = (Vec::new(), 0);
        let mut state = FaultState::default();
        let mut faults = None;
        let more = (32..40).chain(3..10).map(|page| (page, Need::Write));
        for (page, need) in [
            (0, Need::Write),
            (1, Need::Read),
            (20, Need::Write),
            (30, Need::Write),
            (31, Need::Read),
            (70, Need::Write),
            (2, Need::Write),
            (2, Need::Read),
        ]
        .into_iter()
        .chain(more)
        {
            let (memory, policy) = (&mut bed.memory, bed.policy.as_mut());
            if faults.is_none() && short {
                faults = AtOnce::new(memory, space, &state);
            }
            if faults.as_mut().is_some_and(|faults| faults.fault(memory, policy, page, need)) {
                at_once += 1;
                outcomes.push(FaultOutcome::Done);
            } else {
                faults.take().into_iter().for_each(|mut faults| faults.book(memory));
                outcomes.push(fault(memory, policy, space, page, need, &mut state));
            }
        }
        faults.into_iter().for_each(|mut faults| faults.book(&mut bed.memory));
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
            // With room for all, page by page, near the limit and ahead; and with room for none.
            for limit in [(64, 1), (64, 64), (200, 64), (8, 1)] {
                for device in [DeviceKind::Zram, DeviceKind::Nvme] {
                    let [(short, at_once), (long, _)] =
                        [true, false].map(|short| after(entry.build(), device, limit, short));
                    assert_eq!(short, long, "{} {device:?} {limit:?}", entry.name);
                    let expected = match (limit, device) {
                        ((8, _), _) => 0..1,
                        (_, DeviceKind::Zram) => 9..19, // new ones, and of those in compressed swap
                        _ => 9..10,
                    };
                    assert!(expected.contains(&at_once), "{} {device:?} {limit:?}: {at_once}", entry.name);
                }
            }
        }
    }
}
