//! The set of occupied slots, with counts from a slot to the top.

/// Slots in a line, which are counted together.
pub(super) const LINE_SLOTS: usize = 256;
const LINE_WORDS: usize = LINE_SLOTS / 64;

/// A set of slots. Changes show in counts only after [`Occupied::count_lines`].
#[derive(Debug, Default)]
pub(super) struct Occupied {
    /// Bit s % 64 of word s / 64: slot s is occupied.
    bits: Vec<u64>,
    /// Set bits of each word, grouped by lines of words.
    counts: Vec<[u8; LINE_WORDS]>,
    /// Set bits in the lines above each line, as of the last count.
    above_line: Vec<u32>,
}

impl Occupied {
    /// Slots 0 to `occupied` - 1, of `slots`: whole lines.
    pub(super) fn lowest(occupied: usize, slots: usize) -> Self {
        assert_eq!(slots % LINE_SLOTS, 0, "slots come in whole lines");
        let lines = slots / LINE_SLOTS;
        let mut all =
            Self { bits: vec![0; slots / 64], counts: vec![[0; LINE_WORDS]; lines], above_line: vec![0; lines] };
        all.fill(0, occupied);
        all
    }

    /// Updates the counts. No slot from `limit` on is occupied.
    pub(super) fn count_lines(&mut self, limit: usize) {
        let lines = limit.div_ceil(LINE_SLOTS);
        let mut above = 0;
        for (line, counts) in self.above_line[..lines].iter_mut().zip(&self.counts[..lines]).rev() {
            *line = above;
            let pairs = (u32::from_le_bytes(*counts) & 0x00ff_00ff) + (u32::from_le_bytes(*counts) >> 8 & 0x00ff_00ff);
            above += (pairs & 0xffff) + (pairs >> 16);
        }
    }

    /// Number of occupied slots from `slot` on.
    #[inline]
    pub(super) fn from(&self, slot: usize) -> u32 {
        let (word, line) = (slot / 64, slot / LINE_SLOTS);
        let own = (self.bits[word] >> (slot % 64)).count_ones();
        let packed = u32::from_le_bytes(self.counts[line]);
        // The sum of the bytes above that of the word: three of them are at most 192.
        let in_line = (packed >> 8 >> (word % LINE_WORDS * 8)).wrapping_mul(0x0101_0101) >> 24;
        self.above_line[line] + in_line + own
    }

    /// Occupies slots `start` to `end` - 1, which must be free.
    pub(super) fn fill(&mut self, start: usize, end: usize) {
        let mut slot = start;
        while slot < end {
            let until = (slot / 64 * 64 + 64).min(end);
            self.bits[slot / 64] |= u64::MAX >> (64 - (until - slot)) << (slot % 64);
            self.counts[slot / LINE_SLOTS][slot / 64 % LINE_WORDS] += u8::try_from(until - slot).expect("at most 64");
            slot = until;
        }
    }

    /// Frees a slot, which must be occupied.
    #[inline]
    pub(super) fn free(&mut self, slot: usize) {
        self.bits[slot / 64] &= !(1 << (slot % 64));
        self.counts[slot / LINE_SLOTS][slot / 64 % LINE_WORDS] -= 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn equals_a_vector_of_bools(
            occupied in 0usize..1024, filled in 1usize..300, freed in proptest::collection::btree_set(0usize..1024, 0..200),
        ) {
            let end = (occupied + filled).min(1024);
            let mut slots = Occupied::lowest(occupied, 1024);
            let mut model = vec![false; 1024];
            slots.fill(occupied, end);
            model[..end].fill(true);
            for slot in freed.into_iter().filter(|slot| *slot < end) {
                slots.free(slot);
                model[slot] = false;
            }
            let above = |slot: usize| model[slot..].iter().filter(|occupied| **occupied).count();
            slots.count_lines(end);
            for slot in 0..end {
                prop_assert_eq!(slots.from(slot) as usize, above(slot));
            }
        }
    }
}
