//! The slot of the last access of each page.

use std::collections::BinaryHeap;

use super::batch::{Batch, COMES, EMPTIES, Happening, Renumbered};
use super::occupied::LINE_SLOTS;
use super::packing::Packing;
use super::ranks::RANKS;

const NOWHERE: u32 = u32::MAX;
const SLOTS_MIN: usize = 1 << 12;
/// Most slots; the last number means none.
const SLOTS_MAX: usize = u32::MAX as usize / LINE_SLOTS * LINE_SLOTS;

/// Takes accesses and makes batches of them. Pages are dense numbers from 0.
#[derive(Debug, Default)]
pub(crate) struct Places {
    /// Slot of each page.
    slots: Vec<u32>,
    holes: BinaryHeap<u32>,
    nr_slots: usize,
    /// First slot of the batch; all occupied slots are below it.
    base: usize,
    batch: Batch,
    /// Accesses after which the batch is full.
    limit: u32,
}

impl Places {
    /// Pages are accessed, one after the other. `full` is called with each full batch and must leave an empty one. Returns the
    /// number of accesses to absent pages, which have no distance.
    pub(crate) fn access(&mut self, mut pages: &[u32], mut full: impl FnMut(&mut Batch)) -> u64 {
        let mut absent = 0;
        while !pages.is_empty() {
            if self.batch.len >= self.limit {
                self.next_batch(&mut full);
            }
            let room = (self.limit - self.batch.len) as usize;
            let (now, later) = pages.split_at(pages.len().min(room));
            absent += self.take_in(now);
            pages = later;
        }
        absent
    }

    fn take_in(&mut self, pages: &[u32]) -> u64 {
        if let Some(highest) = pages.iter().max().map(|&page| page as usize)
            && highest >= self.slots.len()
        {
            self.slots.resize((highest + 1).next_multiple_of(64), NOWHERE);
        }
        let first = self.batch.len;
        let base = u32::try_from(self.base).expect("slots are numbered in 32 bits");
        let mut absent = 0;
        for (number, &page) in (first..).zip(pages) {
            let slot = std::mem::replace(&mut self.slots[page as usize], base + number);
            absent += u64::from(slot == NOWHERE);
            if !self.holes.is_empty() {
                self.access_with_holes(slot, number);
            } else if slot != NOWHERE {
                self.batch.happenings.push(Happening::new(slot, number, COMES | EMPTIES));
            }
        }
        self.batch.len += u32::try_from(pages.len()).expect("no more than there is room for");
        absent
    }

    #[cold]
    fn access_with_holes(&mut self, slot: u32, number: u32) {
        let mut note = |slot, does| self.batch.happenings.push(Happening::new(slot, number, does));
        match self.holes.peek().copied().filter(|&hole| slot == NOWHERE || hole > slot) {
            Some(hole) => {
                self.holes.pop();
                note(hole, EMPTIES);
                if slot != NOWHERE {
                    note(slot, COMES);
                    self.holes.push(slot);
                }
            }
            None if slot != NOWHERE => note(slot, COMES | EMPTIES),
            None => {}
        }
    }

    /// Removes page `page`: every cache that held it has a free place.
    pub(crate) fn forget(&mut self, page: u32) {
        let Some(slot) = self.slots.get_mut(page as usize) else { return };
        let slot = std::mem::replace(slot, NOWHERE);
        if slot != NOWHERE {
            self.holes.push(slot);
        }
    }

    /// Passes on the batch, even if it is not full; `full` as in [`Places::access`].
    pub(crate) fn settle(&mut self, mut full: impl FnMut(&mut Batch)) {
        self.base += self.batch.len as usize;
        if self.batch.len > 0 {
            full(&mut self.batch);
        }
        // The next access makes room for a batch.
        self.limit = 0;
    }

    #[cold]
    fn next_batch(&mut self, full: impl FnMut(&mut Batch)) {
        self.settle(full);
        if self.base == self.nr_slots {
            self.batch.renumbered = Some(self.renumber());
        }
        // Counting visits all lines, so batches grow with the stack, up to the capacity of the ranks.
        let len = (self.nr_slots / 64).clamp(SLOTS_MIN / 4, RANKS).min(self.nr_slots - self.base);
        self.limit = u32::try_from(len).expect("as many as ranks at most");
    }

    /// Packs occupied slots to the bottom, with three times as many free slots above them.
    fn renumber(&mut self) -> Renumbered {
        let occupied = self.slots.iter().filter(|slot| **slot != NOWHERE).chain(&self.holes);
        let packing = Packing::of(occupied.copied(), self.nr_slots);
        for slot in self.slots.iter_mut().filter(|slot| **slot != NOWHERE) {
            *slot = packing.new_slot(*slot);
        }
        self.holes = self.holes.drain().map(|hole| packing.new_slot(hole)).collect();
        let occupied = packing.occupied();
        let slots = (occupied * 4).clamp(SLOTS_MIN, SLOTS_MAX).next_multiple_of(LINE_SLOTS);
        assert!(slots > occupied, "more than 2^32 pages and holes in the stack");
        (self.nr_slots, self.base) = (slots, occupied);
        Renumbered { occupied, slots }
    }
}
