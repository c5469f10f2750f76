//! Stack distances of batches of accesses.

use super::batch::{Batch, Happening};
use super::occupied::Occupied;
use super::ranks::Ranks;

/// Counts distances. Takes all batches of [`super::Places`], in order.
#[derive(Debug, Default)]
pub(crate) struct Distances {
    /// Slots that held a page or a hole when the batch began.
    occupied: Occupied,
    /// First slot of the batch; all occupied slots are below it.
    base: usize,
    ranks: Ranks,
    scratch: Vec<Happening>,
    distances: Vec<u32>,
}

impl Distances {
    /// The distances of a batch, unordered: 1 for the page accessed last. An LRU cache of n places hits when the distance is at most n.
    /// The batch is empty afterwards.
    pub(crate) fn count(&mut self, batch: &mut Batch) -> &[u32] {
        if let Some(renumbered) = batch.renumbered {
            self.occupied = Occupied::lowest(renumbered.occupied, renumbered.slots);
            self.base = renumbered.occupied;
        }
        batch.sort(&mut self.scratch);
        self.occupied.count_lines(self.base);
        let mut distances = std::mem::take(&mut self.distances);
        distances.clear();
        // Distances as if no access of the batch had emptied a slot; 0 if no page comes from the slot.
        distances.extend(batch.happenings.iter().rev().map(|happening| self.distance_before(*happening)));
        self.ranks.clear(batch.len as usize);
        let mut wanted = 0;
        for (at, happening) in batch.happenings.iter().rev().enumerate() {
            let number = happening.number() as usize;
            if happening.comes() {
                // All members of the set emptied a slot above, or this one later.
                distances[wanted] = distances[at] - self.ranks.below(number);
                wanted += 1;
            }
            if happening.empties() {
                self.ranks.insert(number);
            }
        }
        distances.truncate(wanted);
        self.distances = distances;
        let end = self.base + batch.len as usize;
        self.occupied.fill(self.base, end);
        for happening in batch.happenings.iter().filter(|happening| happening.empties()) {
            self.occupied.free(happening.slot as usize);
        }
        self.base = end;
        batch.clear();
        &self.distances
    }

    /// Number of slots, from the effect's slot on, that are occupied at its time or were emptied earlier by the batch.
    #[inline]
    fn distance_before(&self, happening: Happening) -> u32 {
        let (slot, number) = (happening.slot as usize, happening.number());
        if !happening.comes() {
            return 0;
        }
        if slot >= self.base {
            return number - u32::try_from(slot - self.base).expect("a place in the batch");
        }
        self.occupied.from(slot) + number
    }
}
