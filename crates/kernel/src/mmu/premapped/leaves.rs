//! Accessed bits of base pages, by 2 MiB.
//!
//! A 2 MiB block with at most three accessed pages keeps their numbers in one 32-bit slot. A block with more has a leaf of
//! 512 bits in a pool, and gives it back when it is taken whole. So 10 GiB of single pages, scattered over 5 TiB, take 10 MiB
//! and not 160: their accesses stay in the caches of the host. 10 GiB in a row take one bit a page.

use super::Children;

/// 2 MiB of a block of 512 GiB.
const SLOTS: usize = 1 << 18;

/// The slot is the number of a leaf in the pool.
const FULL: u32 = 1 << 31;
/// A slot without `FULL` has three lanes: number of the page in the 2 MiB, and this bit if the lane is in use.
const USED: u32 = 1 << 9;
const LANE_MASK: u32 = 2 * USED - 1;
const LANE_SHIFTS: [u32; 3] = [0, 10, 20];

#[derive(Clone, Debug)]
pub(super) struct Leaves {
    slots: Box<[u32; SLOTS]>,
    pool: Vec<Children>,
    /// Leaves of the pool that no slot refers to; all zero.
    spare: Vec<u32>,
}

#[inline]
fn holds(slot: u32, page: u32) -> bool {
    let lane = page | USED;
    (slot & LANE_MASK == lane) | ((slot >> 10) & LANE_MASK == lane) | ((slot >> 20) & LANE_MASK == lane)
}

/// The pages in the lanes of a slot.
fn lanes(slot: u32) -> impl Iterator<Item = usize> {
    let lanes = LANE_SHIFTS.into_iter().map(move |shift| (slot >> shift) & LANE_MASK);
    lanes.filter(|lane| lane & USED != 0).map(|lane| (lane & !USED) as usize)
}

impl Leaves {
    pub(super) fn new() -> Self {
        // Fresh zero pages, through a vector: an array would be written on the stack first.
        let slots = Box::<[u32; SLOTS]>::try_from(vec![0; SLOTS]).expect("as long as that");
        Self { slots, pool: Vec::new(), spare: Vec::new() }
    }

    /// The state of 2 MiB number `index`, as stored.
    #[inline]
    pub(super) fn slot(&self, index: usize) -> u32 {
        self.slots[index]
    }

    /// Sets the bit of page `page` of 512 in 2 MiB number `index`.
    #[inline]
    pub(super) fn set(&mut self, index: usize, page: u32) {
        debug_assert!(page < USED, "a table has 512 entries");
        let slot = self.slots[index];
        if slot & FULL == 0 {
            if !holds(slot, page) {
                self.insert(index, page);
            }
            return;
        }
        let word = &mut self.pool[(slot & !FULL) as usize][page as usize / 64];
        let bit = 1 << (page % 64);
        if *word & bit == 0 {
            *word |= bit;
        }
    }

    #[cold]
    fn insert(&mut self, index: usize, page: u32) {
        let slot = self.slots[index];
        debug_assert!(slot & FULL == 0 && !holds(slot, page), "a page takes one lane");
        match LANE_SHIFTS.into_iter().find(|&shift| (slot >> shift) & USED == 0) {
            Some(shift) => self.slots[index] = slot & !(LANE_MASK << shift) | (page | USED) << shift,
            None => {
                let leaf = self.make_full(index);
                leaf[page as usize / 64] |= 1 << (page % 64);
            }
        }
    }

    /// Sets the bits of `mask` in word `word` of 2 MiB number `index`.
    pub(super) fn set_word(&mut self, index: usize, word: usize, mask: u64) {
        debug_assert!(word < 8 && mask != 0, "a table has eight words, and some page is touched");
        if mask.is_power_of_two() {
            let page = word * 64 + mask.trailing_zeros() as usize;
            self.set(index, u32::try_from(page).expect("of 512"));
        } else {
            self.make_full(index)[word] |= mask;
        }
    }

    fn make_full(&mut self, index: usize) -> &mut Children {
        let slot = self.slots[index];
        let number = if slot & FULL != 0 {
            slot & !FULL
        } else {
            let number = self.spare.pop().unwrap_or_else(|| {
                self.pool.push([0; 8]);
                u32::try_from(self.pool.len() - 1).expect("as many as slots")
            });
            debug_assert_eq!(self.pool[number as usize], [0; 8], "leaves that are spare are all zero");
            for page in lanes(slot) {
                self.pool[number as usize][page / 64] |= 1 << (page % 64);
            }
            self.slots[index] = number | FULL;
            number
        };
        &mut self.pool[number as usize]
    }

    pub(super) fn test(&self, index: usize, page: u32) -> bool {
        let slot = self.slots[index];
        if slot & FULL == 0 {
            return holds(slot, page);
        }
        self.pool[(slot & !FULL) as usize][page as usize / 64] >> (page % 64) & 1 != 0
    }

    pub(super) fn clear(&mut self, index: usize, page: u32) {
        debug_assert!(page < USED, "a table has 512 entries");
        let slot = self.slots[index];
        if slot & FULL != 0 {
            self.pool[(slot & !FULL) as usize][page as usize / 64] &= !(1 << (page % 64));
        } else if let Some(shift) = LANE_SHIFTS.into_iter().find(|&shift| (slot >> shift) & LANE_MASK == page | USED) {
            self.slots[index] = slot & !(LANE_MASK << shift);
        }
    }

    /// Adds the 512 bits of 2 MiB number `index` to `out` and clears them.
    pub(super) fn take(&mut self, index: usize, out: &mut Children) {
        let slot = self.slots[index];
        if slot == 0 {
            return;
        }
        if slot & FULL == 0 {
            lanes(slot).for_each(|page| out[page / 64] |= 1 << (page % 64));
        } else {
            let leaf = std::mem::take(&mut self.pool[(slot & !FULL) as usize]);
            out.iter_mut().zip(leaf).for_each(|(out, word)| *out |= word);
            self.spare.push(slot & !FULL);
        }
        self.slots[index] = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        /// Few pages in a slot or many in a leaf: the bits are those of a plain set.
        #[test]
        fn bits_agree_with_a_plain_set(steps in prop::collection::vec((0u32..4, 0u32..12, 1u32..20), 0..60)) {
            let (mut leaves, mut set) = (Leaves::new(), BTreeSet::new());
            for (what, page, len) in steps {
                let (index, page) = (7, page * 17);
                match what {
                    0 => {
                        leaves.set(index, page);
                        set.insert(page);
                    }
                    1 => {
                        leaves.clear(index, page);
                        set.remove(&page);
                    }
                    2 => {
                        let len = len.min(64 - page % 64);
                        let mask = (u64::MAX >> (64 - len)) << (page % 64);
                        leaves.set_word(index, page as usize / 64, mask);
                        set.extend(page..page + len);
                    }
                    _ => {
                        let mut out = [0; 8];
                        leaves.take(index, &mut out);
                        let taken: BTreeSet<u32> =
                            (0..512).filter(|&page| out[page as usize / 64] >> (page % 64) & 1 != 0).collect();
                        prop_assert_eq!(&taken, &set);
                        set.clear();
                    }
                }
                for page in 0..512 {
                    prop_assert_eq!(leaves.test(index, page), set.contains(&page), "page {}", page);
                }
            }
            prop_assert!((0..16).all(|page| !leaves.test(8, page)), "the next 2 MiB");
        }
    }
}
