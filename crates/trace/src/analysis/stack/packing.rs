//! New slots for old ones: dense from 0, in the same order.

/// New slot of each occupied slot. Bits and the sum before them are adjacent, so that a lookup misses the cache once.
pub(super) struct Packing {
    words: Vec<Word>,
    occupied: u32,
}

/// 64 slots.
#[derive(Clone, Copy, Default)]
struct Word {
    /// Bit s % 64: slot s is occupied.
    bits: u64,
    /// Occupied slots of all words before this one.
    before: u32,
}

impl Packing {
    /// Packs these slots, each below `slots` and listed once.
    pub(super) fn of(occupied: impl Iterator<Item = u32>, slots: usize) -> Self {
        let mut words = vec![Word::default(); slots.div_ceil(64)];
        for slot in occupied {
            words[slot as usize / 64].bits |= 1 << (slot % 64);
        }
        let mut before = 0;
        for word in &mut words {
            word.before = before;
            before += word.bits.count_ones();
        }
        Self { words, occupied: before }
    }

    /// Number of occupied slots.
    pub(super) fn occupied(&self) -> usize {
        self.occupied as usize
    }

    /// New number of `slot`: the number of occupied slots below it.
    #[inline]
    pub(super) fn new_slot(&self, slot: u32) -> u32 {
        let word = self.words[slot as usize / 64];
        word.before + (word.bits & ((1 << (slot % 64)) - 1)).count_ones()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_packed_in_order() {
        let slots = [3, 199, 64, 0, 63, 128];
        let packing = Packing::of(slots.into_iter(), 200);
        assert_eq!(packing.occupied(), 6);
        assert_eq!(slots.map(|slot| packing.new_slot(slot)), [1, 5, 3, 0, 2, 4]);
    }
}
