//! The LRU stack: exact stack distances, with pages that can be forgotten.
//!
//! Pages stand in slots in order of their last access, one bit for each occupied slot. The stack distance of an access is the number of
//! occupied slots from the page's own to the top (Mattson et al., 1970; Bennett and Kruskal, 1975). When the slots run out, they are
//! renumbered densely.
//!
//! Accesses are taken in at once, but counted in batches. Which slot an access empties does not depend on any distance. So a batch is
//! sorted by slot, and a sweep from the top down counts for each access the slots above that were occupied before the batch. What the batch
//! itself changed there is told by the accesses that the sweep has passed: those before this access emptied a slot above it. They are
//! counted in a small set by place in the batch ([`Ranks`]), which stays in a core's cache, while the sweep comes by the slots in order. A
//! tree over all slots would miss the cache several times an access. Each step is a loop of its own over the batch: a short loop lets
//! the processor wait for many cache misses at a time.
//!
//! A page that is forgotten leaves a *hole*, because the caches that held it now have room for one page, and those that
//! did not hold it have none. The next page that comes from below the topmost hole, or from outside, fills that hole: the
//! pages above move down into it, those below stay, and the place the page came from becomes the hole. So each cache
//! size keeps its own number of free places, and one stack still stands for all sizes.

use std::collections::BinaryHeap;

use super::ranks::{RANKS, Ranks};

const NOWHERE: u32 = u32::MAX;
const SLOTS_MIN: usize = 1 << 12;
/// Most slots: the last number stands for none.
const SLOTS_MAX: usize = u32::MAX as usize / LINE_SLOTS * LINE_SLOTS;
/// Slots that are counted together.
const LINE_SLOTS: usize = 256;
const LINE_WORDS: usize = LINE_SLOTS / 64;

/// The stack. Pages are dense numbers from 0.
#[derive(Debug, Default)]
pub(crate) struct LruStack {
    /// Bit s % 64 of word s / 64: slot s held a page or a hole when the batch began.
    bits: Vec<u64>,
    /// Bits of each word.
    counts: Vec<[u8; LINE_WORDS]>,
    /// Bits in the lines above each line, when the batch began: made anew for each batch.
    above_line: Vec<u32>,
    /// Slot of each page.
    slots: Vec<u32>,
    holes: BinaryHeap<u32>,
    /// First slot of the batch: all occupied ones are below.
    base: usize,
    occupied: usize,
    batch: Batch,
    ranks: Ranks,
}

/// Accesses whose distances are not counted yet.
#[derive(Debug, Default)]
struct Batch {
    /// Accesses so far: they take the slots from the base on.
    len: u32,
    /// Accesses after which it is counted.
    limit: u32,
    /// What happens at which slot, in order of time.
    happenings: Vec<Happening>,
    scratch: Vec<Happening>,
    distances: Vec<u32>,
}

/// Something that an access of the batch does to a slot below its own.
#[derive(Clone, Copy, Debug, Default)]
struct Happening {
    slot: u32,
    /// Number of the access in the batch, and what it does in the two lowest bits.
    what: u32,
}

/// The page comes from this slot: its distance is wanted.
const COMES: u32 = 1;
/// The slot is empty from then on.
const EMPTIES: u32 = 2;

impl LruStack {
    /// Pages are accessed, one after the other. `hit` is called with distances of these accesses and earlier ones, in any order: 1 for a
    /// page that was accessed last. An LRU cache of n places hits when the distance is at most n. Counted in the result are accesses to
    /// pages that are not there, and have no distance.
    pub(crate) fn access(&mut self, mut pages: &[u32], mut hit: impl FnMut(&[u32])) -> u64 {
        let mut absent = 0;
        while !pages.is_empty() {
            if self.batch.len >= self.batch.limit {
                self.next_batch(&mut hit);
            }
            let room = (self.batch.limit - self.batch.len) as usize;
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
                self.batch.happenings.push(Happening { slot, what: number << 2 | COMES | EMPTIES });
            }
        }
        self.batch.len += u32::try_from(pages.len()).expect("no more than there is room for");
        absent
    }

    #[cold]
    fn access_with_holes(&mut self, slot: u32, number: u32) {
        let mut note = |slot, what| self.batch.happenings.push(Happening { slot, what: number << 2 | what });
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

    /// Page `page` is gone: every cache that held it has a free place.
    pub(crate) fn forget(&mut self, page: u32) {
        let Some(slot) = self.slots.get_mut(page as usize) else { return };
        let slot = std::mem::replace(slot, NOWHERE);
        if slot != NOWHERE {
            self.holes.push(slot);
        }
    }

    /// Counts the distances of all accesses so far.
    pub(crate) fn settle(&mut self, mut hit: impl FnMut(&[u32])) {
        self.batch.sort();
        self.count_lines();
        let mut distances = std::mem::take(&mut self.batch.distances);
        distances.clear();
        // If no access of the batch had emptied a slot; 0 where nothing comes from the slot.
        distances.extend(self.batch.happenings.iter().rev().map(|happening| self.distance_before(*happening)));
        self.ranks.clear(self.batch.len as usize);
        let mut wanted = 0;
        for (at, happening) in self.batch.happenings.iter().rev().enumerate() {
            let number = (happening.what >> 2) as usize;
            if happening.what & COMES != 0 {
                // All in the set emptied a slot above, or this one afterwards.
                distances[wanted] = distances[at] - self.ranks.below(number);
                wanted += 1;
            }
            if happening.what & EMPTIES != 0 {
                self.ranks.insert(number);
            }
        }
        hit(&distances[..wanted]);
        self.batch.distances = distances;
        self.change_bits();
        self.batch.happenings.clear();
        self.base += self.batch.len as usize;
        // The next access makes room for a batch.
        (self.batch.len, self.batch.limit) = (0, 0);
    }

    /// Slots from that of the happening on that are occupied when it happens, and those that the batch has emptied before.
    #[inline]
    fn distance_before(&self, happening: Happening) -> u32 {
        let (slot, number) = (happening.slot as usize, happening.what >> 2);
        if happening.what & COMES == 0 {
            return 0;
        }
        if slot >= self.base {
            return number - u32::try_from(slot - self.base).expect("a place in the batch");
        }
        let (word, line) = (slot / 64, slot / LINE_SLOTS);
        let own = (self.bits[word] >> (slot % 64)).count_ones();
        let packed = u32::from_le_bytes(self.counts[line]);
        // The sum of the bytes above that of the word: three of them are at most 192.
        let in_line = (packed >> 8 >> (word % LINE_WORDS * 8)).wrapping_mul(0x0101_0101) >> 24;
        self.above_line[line] + in_line + own + number
    }

    /// Brings [`LruStack::above_line`] up to date.
    fn count_lines(&mut self) {
        let lines = self.base.div_ceil(LINE_SLOTS);
        self.above_line.resize(self.counts.len(), 0);
        let mut above = 0;
        for (line, counts) in self.above_line[..lines].iter_mut().zip(&self.counts[..lines]).rev() {
            *line = above;
            let pairs = (u32::from_le_bytes(*counts) & 0x00ff_00ff) + (u32::from_le_bytes(*counts) >> 8 & 0x00ff_00ff);
            above += (pairs & 0xffff) + (pairs >> 16);
        }
    }

    /// Sets the bits of the slots that the batch took, and clears those that it emptied.
    fn change_bits(&mut self) {
        let end = self.base + self.batch.len as usize;
        let mut slot = self.base;
        while slot < end {
            let until = (slot / 64 * 64 + 64).min(end);
            self.bits[slot / 64] |= u64::MAX >> (64 - (until - slot)) << (slot % 64);
            self.counts[slot / LINE_SLOTS][slot / 64 % LINE_WORDS] += u8::try_from(until - slot).expect("at most 64");
            slot = until;
        }
        let mut emptied = 0;
        for happening in self.batch.happenings.iter().filter(|happening| happening.what & EMPTIES != 0) {
            let slot = happening.slot as usize;
            self.bits[slot / 64] &= !(1 << (slot % 64));
            self.counts[slot / LINE_SLOTS][slot / 64 % LINE_WORDS] -= 1;
            emptied += 1;
        }
        self.occupied = self.occupied + self.batch.len as usize - emptied;
    }

    #[cold]
    fn next_batch(&mut self, hit: impl FnMut(&[u32])) {
        self.settle(hit);
        let room = self.bits.len() * 64 - self.base;
        if room == 0 {
            self.renumber();
        }
        // A sweep comes by all lines. So batches grow with the stack, up to what the ranks hold.
        let room = self.bits.len() * 64 - self.base;
        let len = self.bits.len().clamp(SLOTS_MIN / 4, RANKS).min(room);
        self.batch.limit = u32::try_from(len).expect("as many as ranks at most");
    }

    /// Packs what is there to the bottom and makes three times as many free slots above it.
    fn renumber(&mut self) {
        let occupied = u32::try_from(self.occupied).expect("no more than slots");
        self.count_lines();
        let bits = std::mem::take(&mut self.bits);
        let rank = |slot: u32| {
            let (line, word) = (slot as usize / LINE_SLOTS, slot as usize / 64);
            let packed = u32::from_le_bytes(self.counts[line]);
            let in_line = (packed >> 8 >> (word % LINE_WORDS * 8)).wrapping_mul(0x0101_0101) >> 24;
            let own = (bits[word] >> (slot % 64)).count_ones();
            occupied - (self.above_line[line] + in_line + own)
        };
        for slot in self.slots.iter_mut().filter(|slot| **slot != NOWHERE) {
            *slot = rank(*slot);
        }
        self.holes = self.holes.drain().map(rank).collect();
        let slots = (self.occupied * 4).clamp(SLOTS_MIN, SLOTS_MAX).next_multiple_of(LINE_SLOTS);
        assert!(slots > self.occupied, "more than 2^32 pages and holes in the stack");
        let is_set = |from: usize, to: usize| self.occupied.clamp(from, to) - from;
        self.bits = (0..slots / 64)
            .map(|word| match is_set(word * 64, word * 64 + 64) {
                0 => 0,
                set => u64::MAX >> (64 - set),
            })
            .collect();
        let counts = self.bits.chunks(LINE_WORDS).map(|words| {
            let mut counts = [0; LINE_WORDS];
            counts
                .iter_mut()
                .zip(words)
                .for_each(|(count, word)| *count = u8::try_from(word.count_ones()).expect("at most 64"));
            counts
        });
        self.counts = counts.collect();
        self.base = self.occupied;
    }
}

impl Batch {
    /// Orders by slot. Of one slot, what happened first stays first.
    fn sort(&mut self) {
        const DIGIT_BITS: u32 = 9;
        let Self { happenings, scratch, .. } = self;
        if happenings.len() < 256 {
            happenings.sort_by_key(|happening| happening.slot);
            return;
        }
        let highest = happenings.iter().map(|happening| happening.slot).max().unwrap_or(0);
        scratch.resize(happenings.len(), Happening::default());
        let mut shift = 0;
        while shift < 32 && highest >> shift != 0 {
            let digit = |happening: &Happening| (happening.slot >> shift) as usize % (1 << DIGIT_BITS);
            let mut starts = [0u32; 1 << DIGIT_BITS];
            happenings.iter().for_each(|happening| starts[digit(happening)] += 1);
            let mut sum = 0;
            for start in &mut starts {
                sum += std::mem::replace(start, sum);
            }
            for happening in happenings.iter() {
                let start = &mut starts[digit(happening)];
                scratch[*start as usize] = *happening;
                *start += 1;
            }
            std::mem::swap(happenings, scratch);
            shift += DIGIT_BITS;
        }
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

    /// Distances by how often each was found, [0] for accesses without one; counted after each `settle_every` steps.
    fn distances(steps: &[(bool, u32)], settle_every: usize) -> Vec<u64> {
        let mut stack = LruStack::default();
        let mut found = vec![0];
        let mut hit = |distances: &[u32]| {
            for &distance in distances {
                found.resize(found.len().max(distance as usize + 1), 0);
                found[distance as usize] += 1;
            }
        };
        let mut absent = 0;
        for (number, &(access, page)) in steps.iter().enumerate() {
            if access {
                absent += stack.access(&[page], &mut hit);
            } else {
                stack.forget(page);
            }
            if number % settle_every == 0 {
                stack.settle(&mut hit);
            }
        }
        stack.settle(&mut hit);
        found[0] = absent;
        found
    }

    #[test]
    fn distances_by_hand() {
        // a b c b a: b lies under c (2), a under b and c (3). Then c under a and b (3), c again (1).
        let steps = [0, 1, 2, 1, 0, 2, 2].map(|page| (true, page));
        for settle_every in 1..8 {
            assert_eq!(distances(&steps, settle_every), [3, 1, 1, 2], "{settle_every}");
        }
    }

    #[test]
    fn a_forgotten_page_frees_a_place_only_where_it_was_held() {
        // a b c, forget b, d, a. A cache of 3 held b: d takes its place and a is still there. A cache of 2 held b and c: d
        // takes b's place; a had been evicted by c.
        let steps = [(true, 0), (true, 1), (true, 2), (false, 1), (true, 3), (true, 0)];
        assert_eq!(distances(&steps, 100), [4, 0, 0, 1]);
        assert_eq!((naive_misses(2, &steps), naive_misses(3, &steps)), (5, 4));
    }

    #[test]
    fn a_long_run_over_many_pages_is_renumbered_and_stays_exact() {
        // Round and round over 3000 pages: each is the one that was not accessed for longest. Over 200,000 accesses the slots run out often.
        let steps: Vec<_> = (0..200_000).map(|number| (true, number % 3000)).collect();
        let found = distances(&steps, usize::MAX);
        assert_eq!((found[0], found[3000], found.len()), (3000, 197_000, 3001));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        /// Every size at once equals one simulated cache of each size, however the accesses are parted into batches.
        #[test]
        fn equals_caches_of_every_size(
            steps in proptest::collection::vec((prop::bool::weighted(0.85), 0u32..24), 0..9000),
            settle_every in prop_oneof![1usize..30, Just(usize::MAX)],
        ) {
            let found = distances(&steps, settle_every);
            for places in 1..=26 {
                let further: u64 = found.iter().skip(places + 1).sum();
                prop_assert_eq!(found[0] + further, naive_misses(places, &steps), "{} places", places);
            }
        }
    }
}
