//! Bringing a swapped page back: swap cache, readahead, and when its slot is given up (docs/spec/classic-lru.md#s9-2, #s9-3).

use super::missing::Contents;
use super::window::{Planned, Window, add_swap_page};
use super::{Faulting, Step};
use crate::counters::Counter;
use crate::memory::{Flag, FrameId, PageOwner};
use crate::mmu::{Entry, Need};
use crate::readahead::swap::window_max;
use crate::reclaim::outcome::swap_is_full;
use crate::swap::SlotId;

impl Faulting<'_> {
    /// The entry refers to `slot`.
    pub(super) fn swap_in(&mut self, slot: SlotId) -> Step {
        if self.memory.io.swap_is_synchronous()
            && let Some((cgroup, shadow)) = self.memory.slots.sole_use(slot)
        {
            // The usual page in compressed memory: nothing is read ahead, and no other entry will want the slot.
            self.count_major();
            self.current().tried = true;
            self.pay_once(self.memory.costs.swap_in_fault_ns);
            return self.supply(cgroup, Contents::Swapped { slot, shadow });
        }
        let owner = PageOwner::Anonymous { space: self.space, page: self.dense };
        let frame = self.slot_up_to_date(slot, owner)?;
        self.map_swapped(slot, frame)
    }

    /// The up-to-date page of `slot`, read if it is not in the swap cache. `owner` owns the page.
    pub(super) fn slot_up_to_date(&mut self, slot: SlotId, owner: PageOwner) -> Step<FrameId> {
        if let Some(frame) = self.memory.slots.cached(slot) {
            self.note_swap_cache_hit(frame);
            self.pay_once(self.memory.costs.minor_fault_swap_cache_ns);
            return self.when_read(frame);
        }
        self.count_major();
        self.current().tried = true;
        self.pay_once(self.memory.costs.swap_in_fault_ns);
        let asked_for = Planned { slot, owner, neighbour: false };
        if self.memory.io.swap_is_synchronous() || self.reads_alone() {
            self.state.optional = false;
            let frame = add_swap_page(self.memory, self.policy, self.state, asked_for)?;
            self.memory.submit_swap_read(&[frame]);
            return self.when_read(frame);
        }
        self.current().planned = true;
        let mut planned = self.plan_neighbours(asked_for);
        planned.reverse();
        self.state.window = Some(Window::Swap(planned));
        self.continue_window()?;
        // A page that is already gone again is read alone at the next try.
        match self.memory.slots.cached(slot) {
            Some(frame) => self.when_read(frame),
            None => self.slot_up_to_date(slot, owner),
        }
    }

    /// No readahead: this fault planned a window before.
    pub(super) fn reads_alone(&mut self) -> bool {
        self.current().planned
    }

    /// `frame`, or the wait for its contents.
    pub(super) fn when_read(&mut self, frame: FrameId) -> Step<FrameId> {
        let head = self.memory.frames.head(frame);
        if self.memory.frames.has(head, Flag::Reading) { Err(self.wait_for(head)) } else { Ok(frame) }
    }

    /// The fault found its page in the swap cache: readahead learns from it, once.
    fn note_swap_cache_hit(&mut self, frame: FrameId) {
        if std::mem::replace(&mut self.current().tried, true) {
            return;
        }
        let was_readahead = self.memory.frames.take(frame, Flag::Readahead);
        if was_readahead {
            let cgroup = self.cgroup();
            self.memory.count(Counter::SwapRaHit, cgroup, 1);
        }
        if self.reads_by_slot() {
            if was_readahead {
                self.memory.cluster_readahead.hit();
            }
        } else {
            let (page, start) = (self.page, self.vma.pages().start);
            let windows = &mut self.memory.space_mut(self.space).swap_readahead;
            windows.entry(start).or_default().swap_cache_hit(page, was_readahead);
        }
    }

    /// Whether neighbours are sought by slot: on rotating devices, and for shared memory.
    fn reads_by_slot(&self) -> bool {
        self.memory.io.swap_is_rotational() || self.memory.is_shared_memory(&self.vma)
    }

    /// The page asked for and its neighbours, in the order of reading.
    fn plan_neighbours(&mut self, asked_for: Planned) -> Vec<Planned> {
        let max = window_max(self.memory.config.page_cluster);
        let mut planned = Vec::new();
        if self.reads_by_slot() {
            let slot = u64::from(asked_for.slot.index_u32());
            let range = self.memory.cluster_readahead.fault(slot, self.memory.slots.total(), max);
            for index in range.start..range.end {
                let neighbour = SlotId::new(u32::try_from(index).expect("a slot of the device"));
                if neighbour == asked_for.slot {
                    planned.push(asked_for);
                } else if self.memory.slots.is_used(neighbour) {
                    // Whose page it is becomes known at its next touch; here it is certainly not.
                    let owner = PageOwner::Anonymous { space: self.space, page: self.dense };
                    planned.push(Planned { slot: neighbour, owner, neighbour: true });
                }
            }
        } else {
            let vma = self.vma.pages();
            let space = self.memory.space_mut(self.space);
            let range = space.swap_readahead.entry(vma.start).or_default().fault(self.page, vma, max);
            for page in range.start..range.end {
                let Some(dense) = space.table.dense(page) else { continue };
                if page == self.page {
                    planned.push(asked_for);
                } else if let Entry::Swap(slot) = space.table.entry(dense) {
                    let owner = PageOwner::Anonymous { space: self.space, page: dense };
                    planned.push(Planned { slot, owner, neighbour: true });
                }
            }
        }
        let neighbours = planned.iter().filter(|planned| planned.neighbour);
        let nr_new = neighbours.filter(|planned| self.memory.slots.cached(planned.slot).is_none()).count() as u64;
        let cgroup = self.cgroup();
        self.memory.count(Counter::SwapRa, cgroup, nr_new);
        planned
    }

    /// Maps the page of `slot`; gives the slot back if the rules ask for that.
    fn map_swapped(&mut self, slot: SlotId, frame: FrameId) -> Step {
        if self.need == Need::Write {
            self.policy.insert_waiting(self.memory);
        }
        self.memory.space_mut(self.space).nr_swapped -= 1;
        self.memory.drop_swap_entry(slot);
        let owner = PageOwner::Anonymous { space: self.space, page: self.dense };
        self.memory.frames.adopt(frame, owner);
        let others_swapped = self.memory.slots.users(slot) > 0;
        let has = |flag| self.memory.frames.has(frame, flag);
        debug_assert!(!others_swapped || has(Flag::Shared), "only fork makes a second user");
        let alone = !others_swapped && (!has(Flag::Shared) || self.memory.mappers(frame).is_empty());
        let release = !others_swapped
            && !has(Flag::Writeback)
            && (self.memory.io.swap_is_synchronous()
                || has(Flag::Unevictable)
                || swap_is_full(self.memory, self.memory.frames.cgroup(frame))
                || self.need == Need::Write && has(Flag::Shared) && alone);
        if release {
            self.memory.release_slot(frame);
            if alone {
                self.memory.frames.clear(frame, Flag::Shared);
            }
        }
        let exclusive = !self.memory.frames.has(frame, Flag::Shared);
        self.map_here(frame, exclusive);
        if self.need == Need::Write && !exclusive { self.write_protected(Entry::Frame(frame)) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{FaultOutcome, FaultState, fault};
    use super::*;
    use crate::counters::Counter::{PgFault, PgMajFault, PswpIn, PswpOut, SwapRa, SwapRaHit};
    use crate::reclaim::Arrival;
    use crate::swap::device::DeviceKind;
    use crate::testkit::{Rig, Trouble};
    use isotherm_units::PageRange;

    const ONE_WAIT: Trouble = Trouble { waits: 1, memstalls: 0, shortages: 0, bad: false };

    /// Pages 0..40 written, then evicted in order: page n lies in slot n.
    fn swapped_out(device: DeviceKind) -> (Rig, crate::mmu::SpaceId) {
        let mut rig = Rig::new(device);
        let space = rig.anonymous(64);
        (0..40).for_each(|page| assert_eq!(rig.write(space, page), Trouble::default()));
        (0..40).for_each(|page| rig.evict(space, page));
        assert_eq!(rig.memory.space(space).nr_swapped, 40);
        (rig, space)
    }

    #[test]
    fn c13_swap_window() {
        let (mut rig, space) = swapped_out(DeviceKind::Nvme);
        let before = rig.counts([PgFault, PgMajFault, PswpIn, SwapRa]);
        assert_eq!(rig.read(space, 10), ONE_WAIT);
        // 8 pages, 3 before and 4 after: one fault, a major one.
        let after = rig.counts([PgFault, PgMajFault, PswpIn, SwapRa]);
        assert_eq!([1, 1, 8, 7], std::array::from_fn(|i| after[i] - before[i]));
        assert_eq!(rig.memory.space(space).nr_resident, 1, "neighbours are not mapped");
        assert_eq!(rig.usage(), 8, "but they are charged");
        // No hit, far away: 1, but not less than half of 8.
        rig.read(space, 30);
        assert_eq!(rig.count(PswpIn) - before[2], 8 + 4);
    }

    #[test]
    fn c13_hits_grow_the_window() {
        let (mut rig, space) = swapped_out(DeviceKind::Nvme);
        rig.read(space, 10); // 7..15
        for page in [11, 12, 13] {
            assert_eq!(rig.read(space, page), Trouble::default(), "in the swap cache");
        }
        assert_eq!(rig.counts([PgMajFault, PswpIn, SwapRaHit]), [1, 8, 3]);
        rig.read(space, 11); // a hit in the page table: no fault
        assert_eq!(rig.count(SwapRaHit), 3, "the first touch only");
        rig.read(space, 30); // three hits: 5, so 8 pages
        assert_eq!(rig.count(PswpIn), 16);
    }

    #[test]
    fn p14_a_page_in_flight_by_readahead_is_a_minor_fault() {
        let (mut rig, space) = swapped_out(DeviceKind::Nvme);
        let first = |rig: &mut Rig, state: &mut FaultState, page| {
            fault(&mut rig.memory, &mut rig.policy, space, page, Need::Read, state)
        };
        let (mut one, mut other) = (FaultState::default(), FaultState::default());
        let FaultOutcome::Wait { until, memstall: false } = first(&mut rig, &mut one, 10) else { panic!("reads") };
        let before = rig.counts([PgFault, PgMajFault, PswpIn, SwapRaHit]);
        let FaultOutcome::Wait { until: same, .. } = first(&mut rig, &mut other, 11) else { panic!("in flight") };
        assert!(same <= until, "slots 7..15 follow each other: one request");
        rig.pass_time(until);
        assert_eq!(first(&mut rig, &mut other, 11), FaultOutcome::Done);
        assert_eq!(first(&mut rig, &mut one, 10), FaultOutcome::Done);
        let after = rig.counts([PgFault, PgMajFault, PswpIn, SwapRaHit]);
        assert_eq!([1, 0, 0, 1], std::array::from_fn(|i| after[i] - before[i]));
    }

    #[test]
    fn c15_read_in_never_written_costs_no_write() {
        let (mut rig, space) = swapped_out(DeviceKind::Nvme);
        rig.read(space, 10);
        assert!(rig.is_writable(space, 10), "an exclusive page is mapped writable at a read fault");
        assert!(rig.has(space, 10, Flag::SwapCache), "and keeps its slot");
        let writes = rig.count(PswpOut);
        rig.evict(space, 10);
        assert_eq!((rig.count(PswpOut) - writes, rig.entry(space, 10)), (0, Entry::Swap(SlotId::new(10))));
    }

    #[test]
    fn c15_written_later_or_at_once_costs_one_write_to_the_same_slot() {
        for write_at_once in [false, true] {
            let (mut rig, space) = swapped_out(DeviceKind::Nvme);
            if !write_at_once {
                rig.read(space, 10);
            }
            let faults = rig.count(PgFault);
            rig.write(space, 10);
            assert_eq!(rig.count(PgFault) - faults, u64::from(write_at_once), "no second fault");
            let writes = rig.count(PswpOut);
            rig.evict(space, 10);
            assert_eq!((rig.count(PswpOut) - writes, rig.entry(space, 10)), (1, Entry::Swap(SlotId::new(10))));
        }
    }

    #[test]
    fn c15_written_by_the_only_user_left_after_fork_gets_a_new_slot() {
        let (mut rig, space) = swapped_out(DeviceKind::Nvme);
        let child = rig.fork(space);
        rig.exit(child);
        rig.write(space, 10);
        assert!(!rig.has(space, 10, Flag::SwapCache) && rig.is_writable(space, 10));
        assert!(rig.has(space, 10, Flag::Dirty));
        let writes = rig.count(PswpOut);
        rig.evict(space, 10);
        assert_eq!((rig.count(PswpOut) - writes, rig.entry(space, 10)), (1, Entry::Swap(SlotId::new(40))));
    }

    #[test]
    fn a_read_after_fork_keeps_the_slot_and_maps_read_only() {
        let (mut rig, space) = swapped_out(DeviceKind::Nvme);
        let child = rig.fork(space);
        rig.read(child, 10);
        assert!(rig.has(child, 10, Flag::SwapCache) && !rig.is_writable(child, 10));
        // The parent finds it in the swap cache; a write copies it.
        let majors = rig.count(PgMajFault);
        assert_eq!(rig.write(space, 10), Trouble::default());
        assert_eq!(rig.count(PgMajFault), majors);
        assert_ne!(rig.frame(space, 10), rig.frame(child, 10));
        // The child is alone now: its write reuses the page and gives the slot up.
        let frame = rig.frame(child, 10);
        rig.write(child, 10);
        assert_eq!(rig.frame(child, 10), frame);
        assert!(!rig.has(child, 10, Flag::SwapCache));
        rig.exit(space);
        rig.exit(child);
        rig.assert_empty();
    }

    #[test]
    fn a_write_copies_while_another_process_refers_to_the_slot() {
        let (mut rig, space) = swapped_out(DeviceKind::Nvme);
        let child = rig.fork(space);
        rig.read(child, 10);
        let original = rig.frame(child, 10);
        rig.write(child, 10); // mapped here alone, but the parent's entry is the slot
        assert_ne!(rig.frame(child, 10), original);
        rig.read(space, 10);
        assert_eq!((rig.frame(space, 10), rig.count(PgMajFault)), (original, 1));
    }

    #[test]
    fn a_page_under_write_back_keeps_its_slot_even_if_swap_is_full() {
        let mut rig = Rig::with(DeviceKind::Nvme, 10, |_| {});
        let space = rig.anonymous(64);
        rig.write_all(space, PageRange::new(0, 8));
        (0..7).for_each(|page| rig.evict(space, page));
        let frame = rig.frame(space, 7).unwrap();
        rig.evict_frame(frame);
        rig.write(space, 7);
        assert!(rig.has(space, 7, Flag::Writeback) && rig.has(space, 7, Flag::SwapCache));
        rig.settle();
        rig.write(space, 0);
        assert!(!rig.has(space, 0, Flag::SwapCache), "full, and not being written");
    }

    #[test]
    fn c15_a_full_device_always_releases_the_slot() {
        let mut rig = Rig::with(DeviceKind::Nvme, 60, |_| {});
        let space = rig.anonymous(64);
        rig.write_all(space, PageRange::new(0, 40));
        (0..40).for_each(|page| rig.evict(space, page));
        rig.read(space, 10); // 20 of 60 free
        assert!(!rig.has(space, 10, Flag::SwapCache) && rig.has(space, 10, Flag::Dirty));
        assert_eq!(rig.memory.slots.used(), 39);
    }

    #[test]
    fn a_group_that_used_half_of_its_swap_limit_releases_slots() {
        use crate::cgroup::{Knob, Limit};
        for (max, released) in [(80, true), (81, false)] {
            let (mut rig, space) = swapped_out(DeviceKind::Nvme);
            let limit = Limit::At(isotherm_units::Pages::new(max));
            rig.memory.cgroups.set(rig.cgroup, Knob::SwapMax, limit); // 40 used
            rig.read(space, 10);
            assert_eq!(!rig.has(space, 10, Flag::SwapCache), released, "swap.max {max}");
        }
    }

    #[test]
    fn c15_zram_reads_one_page_at_once_and_always_needs_a_new_write() {
        let (mut rig, space) = swapped_out(DeviceKind::Zram);
        let cpu = rig.memory.ledger.peek();
        let before = rig.counts([PgMajFault, PswpIn, SwapRa]);
        assert_eq!(rig.read(space, 10), Trouble::default(), "no wait");
        let after = rig.counts([PgMajFault, PswpIn, SwapRa]);
        assert_eq!([1, 1, 0], std::array::from_fn(|i| after[i] - before[i]));
        let costs = rig.memory.costs;
        assert_eq!(rig.memory.ledger.peek() - cpu, costs.swap_in_fault_ns + costs.lzo_rle_decompress_ns);
        assert!(!rig.has(space, 10, Flag::SwapCache));
        let writes = rig.count(PswpOut);
        rig.evict(space, 10);
        assert_eq!(rig.count(PswpOut) - writes, 1);
    }

    #[test]
    fn zram_takes_memory_for_what_it_holds() {
        let (mut rig, space) = swapped_out(DeviceKind::Zram);
        let free = |rig: &Rig| rig.memory.nodes.get(crate::memory::NodeId::default()).free();
        // 40 pages of 1578 bytes: 15.4 pages, rounded up.
        assert_eq!(free(&rig), crate::testkit::MACHINE_PAGES - 16);
        rig.read(space, 10); // one page back, one slot less: 15.02 pages
        assert_eq!(free(&rig), crate::testkit::MACHINE_PAGES - 1 - 16);
        rig.read(space, 11); // 14.6
        assert_eq!(free(&rig), crate::testkit::MACHINE_PAGES - 2 - 15);
        rig.exit(space);
        assert_eq!(free(&rig), crate::testkit::MACHINE_PAGES);
    }

    #[test]
    fn a_zero_filled_slot_is_a_major_fault_without_a_read() {
        let mut rig = Rig::new(DeviceKind::Nvme);
        let space = rig.anonymous(8);
        rig.write(space, 3);
        let frame = rig.frame(space, 3).unwrap();
        rig.memory.frames.set(frame, Flag::ZeroFilled);
        rig.evict(space, 3);
        assert_eq!(rig.read(space, 3), Trouble::default());
        assert_eq!(rig.counts([PgMajFault, PswpIn, PswpOut]), [1, 0, 0]);
    }

    #[test]
    fn a_page_still_being_written_is_found_in_the_swap_cache() {
        let mut rig = Rig::new(DeviceKind::Nvme);
        let space = rig.anonymous(8);
        rig.write(space, 3);
        let frame = rig.frame(space, 3).unwrap();
        rig.evict_frame(frame);
        assert_eq!((rig.entry(space, 3), rig.memory.space(space).nr_swapped), (Entry::Swap(SlotId::new(0)), 1));
        assert_eq!(rig.read(space, 3), Trouble::default(), "minor, no wait");
        assert_eq!((rig.frame(space, 3), rig.count(PgMajFault)), (Some(frame), 0));
        rig.settle();
        assert_eq!(rig.policy.nr_rotated, 1);
    }

    #[test]
    fn a_wait_for_a_working_set_page_is_a_memory_stall() {
        let (mut rig, space) = swapped_out(DeviceKind::Nvme);
        rig.policy.workingset = true;
        assert_eq!(rig.read(space, 10), Trouble { memstalls: 1, ..ONE_WAIT });
        assert!(matches!(rig.policy.arrivals.last(), Some((Arrival::SwapIn, Some(_)))), "with its shadow");
    }

    #[test]
    fn rotating_disks_read_aligned_blocks_of_slots_whoever_owns_them() {
        let (mut rig, space) = swapped_out(DeviceKind::Disk);
        rig.read(space, 10); // slots 8..16
        assert_eq!(rig.counts([PgMajFault, PswpIn, SwapRa]), [1, 8, 7]);
        assert_eq!(rig.read(space, 15), Trouble::default());
        assert_eq!(rig.counts([PgMajFault, SwapRaHit]), [1, 1]);
        rig.reclaim(8);
        rig.exit(space);
        rig.assert_empty();
    }

    #[test]
    fn a_window_goes_on_after_a_shortage() {
        let (mut rig, space) = swapped_out(DeviceKind::Nvme);
        rig.limit(10);
        (50..60).for_each(|page| assert_eq!(rig.write(space, page).shortages, 0));
        let trouble = rig.read(space, 10);
        assert!(trouble.shortages > 0 && rig.count(PswpIn) == 8 && rig.count(PgMajFault) == 1, "{trouble:?}");
        rig.exit(space);
        rig.assert_empty();
    }

    #[test]
    fn exact_policies_read_ahead_as_the_machine_says() {
        let read_in = |exact, page_cluster| {
            let (mut rig, space) = swapped_out(DeviceKind::Nvme);
            rig.policy.exact = exact;
            rig.memory.config.page_cluster = page_cluster;
            assert_eq!(rig.read(space, 10), ONE_WAIT);
            rig.count(PswpIn)
        };
        assert_eq!(read_in(true, 3), read_in(false, 3));
        assert!(read_in(true, 3) > 1);
        assert_eq!(read_in(true, 0), 1);
    }
}
