//! Bringing a swapped page back: swap cache, readahead, and when its slot is given up (spec classic-lru 9.2, 9.3).

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
        let owner = PageOwner::Anonymous { space: self.space, page: self.dense };
        let frame = self.slot_up_to_date(slot, owner)?;
        self.map_swapped(slot, frame)
    }

    /// The up-to-date page of `slot`, read if it is not in the swap cache. `owner` is whose page it is.
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

    /// No readahead: the policy is judged page by page, or this fault planned a window before.
    pub(super) fn reads_alone(&mut self) -> bool {
        self.policy.is_exact() || self.current().planned
    }

    /// `frame`, or the wait for its contents.
    pub(super) fn when_read(&mut self, frame: FrameId) -> Step<FrameId> {
        if self.memory.frames.has(frame, Flag::Reading) { Err(self.wait_for(frame)) } else { Ok(frame) }
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
                    // Whose page it is comes out when somebody touches it; here it is certainly not.
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

    /// Maps the page of `slot`; gives the slot back where the rules say so.
    fn map_swapped(&mut self, slot: SlotId, frame: FrameId) -> Step {
        self.memory.space_mut(self.space).nr_swapped -= 1;
        self.memory.drop_swap_entry(slot);
        let owner = PageOwner::Anonymous { space: self.space, page: self.dense };
        self.memory.frames.adopt(frame, owner);
        let others_swapped = self.memory.slots.users(slot) > 0;
        if others_swapped {
            self.memory.frames.set(frame, Flag::Shared);
        }
        let has = |flag| self.memory.frames.has(frame, flag);
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
