//! Anonymous memory: the zero page, first writes, copy on write (docs/spec/classic-lru.md#s9-1).

use super::missing::Contents;
use super::{Faulting, Step};
use crate::memory::{Flag, FrameId, Memory, PageOwner};
use crate::mmu::{Entry, Need};
use crate::reclaim::Arrival;
use isotherm_units::access::{FileKind, Sharing};

impl Faulting<'_> {
    /// First touch of an anonymous page.
    pub(super) fn anonymous(&mut self) -> Step {
        if self.huge()? {
            return Ok(());
        }
        match self.need {
            Need::Read => {
                self.pay_once(self.memory.costs.minor_fault_zero_page_ns);
                let table = &mut self.memory.space_mut(self.space).table;
                table.set_present(self.dense, Entry::Zero, false, true, false);
            }
            Need::Write => {
                let cgroup = self.cgroup();
                return self.supply(cgroup, Contents::Zeroes);
            }
        }
        Ok(())
    }

    /// A store to a page that is mapped read-only: the zero page, a page shared by fork, a page of a file.
    pub(super) fn write_protected(&mut self, entry: Entry) -> Step {
        debug_assert_eq!(self.need, Need::Write, "a load needs no permission");
        let Entry::Frame(frame) = entry else {
            if self.huge()? {
                return Ok(());
            }
            let frame = self.new_page()?;
            self.pay_once(self.memory.costs.minor_fault_anon_ns + self.memory.costs.page_zero_ns);
            self.map_here(frame, true);
            return Ok(());
        };
        match self.memory.frames.owner(frame) {
            PageOwner::Anonymous { .. } if self.may_reuse(frame) => {
                self.pay_once(self.memory.costs.minor_fault_anon_ns);
                self.make_exclusive(frame);
                let table = &mut self.memory.space_mut(self.space).table;
                table.allow_write(self.dense);
                table.mark_touched(self.dense, Need::Write);
                Ok(())
            }
            PageOwner::File { file, .. } if self.sharing() == Sharing::Shared => {
                self.pay_once(self.memory.costs.minor_fault_file_ns);
                if self.memory.files.get(file).kind == FileKind::Regular {
                    self.memory.dirty_file_page(frame);
                }
                let table = &mut self.memory.space_mut(self.space).table;
                table.allow_write(self.dense);
                table.mark_touched(self.dense, Need::Write);
                Ok(())
            }
            PageOwner::Anonymous { .. } | PageOwner::File { .. } => self.copy_mapped(frame),
        }
    }

    /// Replaces the read-only mapping of `old` by a private copy.
    fn copy_mapped(&mut self, old: FrameId) -> Step {
        let frame = self.new_page()?;
        let costs = &self.memory.costs;
        self.pay_once(costs.minor_fault_anon_ns + costs.page_copy_ns);
        self.map_here(frame, true);
        self.unmapped_anonymous(old);
        Ok(())
    }

    /// A private copy of `original`, which is not mapped here.
    pub(super) fn map_copy_of(&mut self, original: FrameId) -> Step {
        debug_assert!(!self.memory.frames.has(original, Flag::Reading), "up to date");
        let frame = self.new_page()?;
        self.memory.ledger.spend(self.memory.costs.page_copy_ns);
        self.map_here(frame, true);
        Ok(())
    }

    /// After an entry stopped showing `frame`: frees it if it was the last.
    fn unmapped_anonymous(&mut self, frame: FrameId) {
        if !self.memory.frames.has(frame, Flag::FileOwned) {
            super::release::anonymous_unmapped(self.memory, self.policy, frame, self.space, self.dense);
        }
    }

    /// A charged page of its own for the faulting process, on the policy's lists, not mapped yet.
    pub(super) fn new_page(&mut self) -> Step<FrameId> {
        let frame = self.allocate()?;
        let owner = PageOwner::Anonymous { space: self.space, page: self.dense };
        let cgroup = self.cgroup();
        self.memory.frames.assign(frame, owner, cgroup);
        self.policy.added(self.memory, frame, Arrival::Anonymous, None);
        Ok(frame)
    }

    /// Whether a page that was shared by fork now belongs to this process only.
    fn may_reuse(&self, frame: FrameId) -> bool {
        if !self.memory.frames.has(frame, Flag::Shared) {
            return true;
        }
        let others_swapped = self.memory.frames.slot(frame).is_some_and(|slot| self.memory.slots.users(slot) > 0);
        let cache_stays =
            self.memory.frames.has(frame, Flag::SwapCache) && self.memory.frames.has(frame, Flag::Writeback);
        !others_swapped && !cache_stays && self.memory.mappers(frame).len() == 1
    }

    /// From now on the page belongs to this process only; a slot that it kept is given back.
    pub(super) fn make_exclusive(&mut self, frame: FrameId) {
        if self.memory.frames.take(frame, Flag::Shared) {
            self.memory.frames.reassign_anonymous(frame, self.space, self.dense);
            if self.memory.frames.has(frame, Flag::SwapCache) {
                self.memory.release_slot(frame);
            }
        }
    }
}

impl Memory {
    /// Takes a resident page out of the swap cache for good: it is dirty, its next eviction needs a slot and a write.
    pub(crate) fn release_slot(&mut self, frame: FrameId) {
        self.leave_swap_cache(frame, None);
        self.frames.set(frame, Flag::Dirty);
        self.update_hidden();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::counters::Counter::{PgFault, PgMajFault};
    use crate::swap::device::DeviceKind;
    use crate::testkit::{Rig, Trouble};
    use isotherm_units::PageRange;

    const NONE: Trouble = Trouble { waits: 0, memstalls: 0, shortages: 0, bad: false };

    /// Section 9.1, rows 1 to 3.
    #[test]
    fn first_and_later_touches_of_anonymous_memory() {
        let mut rig = Rig::new(DeviceKind::None);
        let space = rig.anonymous(8);
        let costs = rig.memory.costs;
        assert_eq!(rig.read(space, 0), NONE);
        assert_eq!((rig.entry(space, 0), rig.usage(), rig.memory.space(space).nr_resident), (Entry::Zero, 0, 0));
        assert_eq!(rig.memory.ledger.take(), costs.minor_fault_zero_page_ns);
        rig.write(space, 1);
        assert_eq!(rig.memory.ledger.take(), costs.minor_fault_anon_ns + costs.page_zero_ns);
        let (dense, table) = (rig.dense(space, 1), &rig.memory.space(space).table);
        assert!(table.is_young(dense) && table.is_dirty(dense) && table.is_writable(dense));
        rig.write(space, 0); // the zero page becomes a page
        assert_eq!((rig.usage(), rig.memory.space(space).nr_resident), (2, 2));
        rig.read(space, 0);
        rig.write(space, 1);
        assert_eq!((rig.count(PgFault), rig.count(PgMajFault)), (3, 0), "later touches are hits");
        rig.exit(space);
        rig.assert_empty();
    }

    /// Section 9.1, row 4.
    #[test]
    fn a_write_after_fork_copies_and_the_last_owner_keeps_the_original() {
        let mut rig = Rig::new(DeviceKind::None);
        let parent = rig.anonymous(8);
        rig.write(parent, 0);
        rig.write(parent, 1);
        let child = rig.fork(parent);
        assert_eq!((rig.usage(), rig.memory.space(child).nr_resident), (2, 2), "shared, charged once");
        let faults = rig.count(PgFault);
        rig.read(child, 0);
        assert_eq!(rig.count(PgFault), faults, "reading is a hit");
        let original = rig.frame(parent, 0);
        rig.memory.ledger.take();
        rig.write(child, 0);
        assert_eq!(rig.memory.ledger.take(), rig.memory.costs.minor_fault_anon_ns + rig.memory.costs.page_copy_ns);
        assert!(rig.frame(child, 0) != original && rig.usage() == 3);
        rig.write(parent, 0); // alone: no copy
        assert_eq!((rig.frame(parent, 0), rig.usage()), (original, 3));
        assert!(!rig.has(parent, 0, Flag::Shared));
        rig.exit(parent);
        assert_eq!(rig.usage(), 2, "page 1 is the child's now");
        rig.write(child, 1);
        assert_eq!(rig.usage(), 2);
        rig.exit(child);
        rig.assert_empty();
    }

    #[test]
    fn outside_of_mappings_is_a_bad_access() {
        let mut rig = Rig::new(DeviceKind::None);
        let space = rig.anonymous(8);
        assert_eq!(rig.read(space, 8), Trouble { bad: true, ..NONE });
        assert_eq!(rig.read(space, 1 << 40), Trouble { bad: true, ..NONE });
        assert_eq!(rig.read(space, 7), NONE, "and the thread can go on elsewhere");
    }

    #[test]
    fn a_fault_that_had_to_reclaim_is_one_fault() {
        let mut rig = Rig::new(DeviceKind::Zram);
        let space = rig.anonymous(100);
        rig.limit(32);
        rig.write_all(space, PageRange::new(0, 33));
        assert_eq!(rig.count(PgFault), 33);
        assert_eq!(rig.memory.space(space).nr_swapped, 32, "a batch went");
    }

    #[test]
    fn low_memory_asks_for_the_daemon_and_stops_at_the_min_mark() {
        let mut rig = Rig::new(DeviceKind::None);
        let space = rig.anonymous(1 << 13);
        let node = crate::memory::NodeId::default();
        let marks = rig.memory.nodes.get(node).zones[0].marks;
        let mut page = 0;
        let mut write = |rig: &mut Rig| {
            page += 1;
            let (memory, policy) = (&mut rig.memory, &mut rig.policy);
            super::super::fault(memory, policy, space, page, Need::Write, &mut rig.state)
        };
        while !rig.memory.kswapd_wanted[0] {
            assert_eq!(write(&mut rig), FaultOutcome::Done);
        }
        assert_eq!(rig.memory.nodes.get(node).free() + 1, marks.low);
        let short = loop {
            match write(&mut rig) {
                FaultOutcome::Done => {}
                other => break other,
            }
        };
        assert_eq!(short, FaultOutcome::Short(super::super::Shortage::Node(node)));
        assert_eq!(rig.memory.nodes.get(node).free(), marks.min);
        rig.check();
    }

    use super::super::FaultOutcome;
}
