//! Anonymous memory: the zero page, first writes, copy on write (spec classic-lru 9.1).

use super::{Faulting, Step};
use crate::memory::{Flag, FrameId, Memory, PageOwner};
use crate::mmu::{Entry, Need};
use crate::reclaim::Arrival;
use isotherm_units::access::{FileKind, Sharing};

impl Faulting<'_> {
    /// First touch of an anonymous page.
    pub(super) fn anonymous(&mut self) -> Step {
        if self.huge() {
            return Ok(());
        }
        match self.need {
            Need::Read => {
                self.pay_once(self.memory.costs.minor_fault_zero_page_ns);
                let table = &mut self.memory.space_mut(self.space).table;
                table.set_present(self.dense, Entry::Zero, false, true, false);
            }
            Need::Write => {
                let frame = self.new_page()?;
                self.pay_once(self.memory.costs.minor_fault_anon_ns + self.memory.costs.page_zero_ns);
                self.map_here(frame, true);
            }
        }
        Ok(())
    }

    /// A store to a page that is mapped read-only: the zero page, a page shared by fork, a page of a file.
    pub(super) fn write_protected(&mut self, entry: Entry) -> Step {
        debug_assert_eq!(self.need, Need::Write, "a load needs no permission");
        let Entry::Frame(frame) = entry else {
            if self.huge() {
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

    /// Whether a page that was shared by fork is this process's alone by now.
    fn may_reuse(&self, frame: FrameId) -> bool {
        if !self.memory.frames.has(frame, Flag::Shared) {
            return true;
        }
        let others_swapped = self.memory.frames.slot(frame).is_some_and(|slot| self.memory.slots.users(slot) > 0);
        let cache_stays =
            self.memory.frames.has(frame, Flag::SwapCache) && self.memory.frames.has(frame, Flag::Writeback);
        !others_swapped && !cache_stays && self.memory.mappers(frame).len() == 1
    }

    /// The page belongs to this process alone from now on; a slot that it kept is given back.
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
    }
}
