//! The LRU stack: exact stack distances in O(log n), with pages that can be forgotten.
//!
//! Pages stand in slots in order of their last access. A bit for each occupied slot and a Fenwick tree over words of 64
//! slots answer how many slots above a page are occupied: its stack distance (Mattson et al., 1970; Bennett and Kruskal,
//! 1975). When the slots run out, they are renumbered densely.
//!
//! A page that is forgotten leaves a *hole*, because the caches that held it now have room for one page, and those that
//! did not hold it have none. The next page that comes from below the topmost hole, or from outside, fills that hole: the
//! pages above move down into it, those below stay, and the place the page came from becomes the hole. So each cache
//! size keeps its own number of free places, and one stack still stands for all sizes.

use std::collections::BinaryHeap;

const NOWHERE: u32 = u32::MAX;
const HOLE: u32 = u32::MAX;
const SLOTS_MIN: usize = 1 << 10;

/// The stack. Pages are dense numbers from 0.
#[derive(Debug, Default)]
pub(crate) struct LruStack {
    /// Bit s % 64 of word s / 64: slot s holds a page or a hole.
    bits: Vec<u64>,
    /// Fenwick tree of the number of bits in each word.
    tree: Vec<u32>,
    /// What each slot below `top` holds, where its bit is set.
    content: Vec<u32>,
    /// Slot of each page.
    slots: Vec<u32>,
    top: usize,
    occupied: u64,
    holes: BinaryHeap<u32>,
}

impl LruStack {
    /// Page `page` is accessed: its distance from the top (1: it was accessed last), or `None` when it is not there. An
    /// LRU cache of n places hits when the distance is at most n.
    pub(crate) fn access(&mut self, page: u32) -> Option<u64> {
        let index = page as usize;
        if index >= self.slots.len() {
            self.slots.resize(index + 1, NOWHERE);
        }
        if self.top == self.content.len() {
            self.renumber();
        }
        let slot = self.slots[index];
        let distance = (slot != NOWHERE).then(|| self.occupied - self.below(slot as usize));
        let hole = self.holes.peek().copied().filter(|&hole| slot == NOWHERE || hole > slot);
        match hole {
            Some(hole) => {
                self.holes.pop();
                self.clear(hole as usize);
                if slot != NOWHERE {
                    self.content[slot as usize] = HOLE;
                    self.holes.push(slot);
                }
            }
            None if slot != NOWHERE => self.clear(slot as usize),
            None => {}
        }
        self.set(self.top);
        self.content[self.top] = page;
        self.slots[index] = u32::try_from(self.top).expect("slots are twice the pages");
        self.top += 1;
        distance
    }

    /// Page `page` is gone: every cache that held it has a free place.
    pub(crate) fn forget(&mut self, page: u32) {
        let Some(slot) = self.slots.get_mut(page as usize) else { return };
        let slot = std::mem::replace(slot, NOWHERE);
        if slot != NOWHERE {
            self.content[slot as usize] = HOLE;
            self.holes.push(slot);
        }
    }

    /// Occupied slots below `slot`.
    fn below(&self, slot: usize) -> u64 {
        let mut count = (self.bits[slot / 64] & ((1u64 << (slot % 64)) - 1)).count_ones();
        let mut at = slot / 64;
        while at > 0 {
            count += self.tree[at - 1];
            at &= at - 1;
        }
        u64::from(count)
    }

    fn set(&mut self, slot: usize) {
        self.bits[slot / 64] |= 1 << (slot % 64);
        self.occupied += 1;
        let mut at = slot / 64 + 1;
        while at <= self.tree.len() {
            self.tree[at - 1] += 1;
            at += at & at.wrapping_neg();
        }
    }

    fn clear(&mut self, slot: usize) {
        self.bits[slot / 64] &= !(1 << (slot % 64));
        self.occupied -= 1;
        let mut at = slot / 64 + 1;
        while at <= self.tree.len() {
            self.tree[at - 1] -= 1;
            at += at & at.wrapping_neg();
        }
    }

    /// Packs what is there to the bottom and makes as many free slots again above it.
    #[cold]
    fn renumber(&mut self) {
        let bits = std::mem::take(&mut self.bits);
        let is_set = |slot: usize| bits[slot / 64] >> (slot % 64) & 1 != 0;
        let mut packed: Vec<u32> = (0..self.top).filter(|&slot| is_set(slot)).map(|slot| self.content[slot]).collect();
        // Holes below the last page are free places that no cache needs to know of.
        let bottom = packed.iter().position(|&content| content != HOLE).unwrap_or(packed.len());
        packed.drain(..bottom);
        let slots = (packed.len() * 2).max(SLOTS_MIN).next_multiple_of(64);
        self.bits = vec![0; slots / 64];
        self.tree = vec![0; slots / 64];
        self.occupied = packed.len() as u64;
        self.top = packed.len();
        self.holes.clear();
        for (slot, &content) in packed.iter().enumerate() {
            self.bits[slot / 64] |= 1 << (slot % 64);
            let number = u32::try_from(slot).expect("slots are twice the pages");
            if content == HOLE {
                self.holes.push(number);
            } else {
                self.slots[content as usize] = number;
            }
        }
        for word in 0..self.tree.len() {
            self.tree[word] += self.bits[word].count_ones();
            let parent = (word + 1) + ((word + 1) & (word + 1).wrapping_neg());
            if parent <= self.tree.len() {
                self.tree[parent - 1] += self.tree[word];
            }
        }
        self.content = packed;
        self.content.resize(slots, HOLE);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// An LRU cache of `places` pages, most recent first.
    fn naive_misses(places: usize, steps: &[(bool, u32)]) -> u64 {
        let mut cache: Vec<u32> = Vec::new();
        let mut misses = 0;
        for &(access, page) in steps {
            let at = cache.iter().position(|&held| held == page);
            if let Some(at) = at {
                cache.remove(at);
            }
            if access {
                misses += u64::from(at.is_none());
                cache.insert(0, page);
                cache.truncate(places);
            }
        }
        misses
    }

    fn distances(steps: &[(bool, u32)]) -> Vec<Option<u64>> {
        let mut stack = LruStack::default();
        let mut found = Vec::new();
        for &(access, page) in steps {
            if access {
                found.push(stack.access(page));
            } else {
                stack.forget(page);
            }
        }
        found
    }

    #[test]
    fn distances_by_hand() {
        // a b c b a: b lies under c (2), a under b and c (3). Then c under a and b (3), c again (1).
        let steps = [0, 1, 2, 1, 0, 2, 2].map(|page| (true, page));
        assert_eq!(distances(&steps), [None, None, None, Some(2), Some(3), Some(3), Some(1)]);
    }

    #[test]
    fn a_forgotten_page_frees_a_place_only_where_it_was_held() {
        // a b c, forget b, d, a. A cache of 3 held b: d takes its place and a is still there. A cache of 2 held b and c: d
        // takes b's place; a had been evicted by c.
        let steps = [(true, 0), (true, 1), (true, 2), (false, 1), (true, 3), (true, 0)];
        assert_eq!(distances(&steps).last(), Some(&Some(3)));
        assert_eq!((naive_misses(2, &steps), naive_misses(3, &steps)), (5, 4));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        /// Every size at once equals one simulated cache of each size, across renumberings.
        #[test]
        fn equals_caches_of_every_size(
            steps in proptest::collection::vec((prop::bool::weighted(0.85), 0u32..24), 0..3000)
        ) {
            let found = distances(&steps);
            for places in 1..=26 {
                let misses = found.iter().filter(|distance| distance.is_none_or(|distance| distance > places)).count();
                prop_assert_eq!(misses as u64, naive_misses(usize::try_from(places).unwrap(), &steps), "{} places", places);
            }
        }
    }
}
