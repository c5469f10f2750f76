//! A batch of accesses: the effects of each on the slots below its own.

/// Accesses that are counted together. Each takes one slot, in order.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    /// The slots were renumbered before the first access.
    pub(super) renumbered: Option<Renumbered>,
    /// Number of accesses.
    pub(super) len: u32,
    /// Events in time order, until sorted.
    pub(super) happenings: Vec<Happening>,
}

/// After renumbering, slots 0 to `occupied` - 1 are occupied, and the others up to `slots` - 1 are free.
#[derive(Clone, Copy, Debug)]
pub(super) struct Renumbered {
    pub(super) occupied: usize,
    pub(super) slots: usize,
}

/// An effect of an access of the batch on a slot below its own.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Happening {
    pub(super) slot: u32,
    /// Number of the access in the batch, and its effect in the two lowest bits.
    what: u32,
}

/// The page was in this slot, and its distance is to be computed.
pub(super) const COMES: u32 = 1;
/// The slot is empty afterwards.
pub(super) const EMPTIES: u32 = 2;

impl Happening {
    /// `does`: one of [`COMES`] and [`EMPTIES`], or both.
    #[inline]
    pub(super) fn new(slot: u32, number: u32, does: u32) -> Self {
        Self { slot, what: number << 2 | does }
    }

    /// Number of the access in the batch.
    #[inline]
    pub(super) fn number(self) -> u32 {
        self.what >> 2
    }

    #[inline]
    pub(super) fn comes(self) -> bool {
        self.what & COMES != 0
    }

    #[inline]
    pub(super) fn empties(self) -> bool {
        self.what & EMPTIES != 0
    }
}

/// Longest digit in bits. Sorting takes the fewest rounds that this allows, with digits no longer than needed: two rounds of 13 bits for
/// the 2^26 slots of 64 GiB. The buckets of a round then exceed a core's L1 cache, but fit its L2 cache, which costs less than a third
/// round.
const DIGIT_BITS_MAX: u32 = 13;
const DIGITS_MAX: usize = 1 << DIGIT_BITS_MAX;

impl Batch {
    /// Makes it empty and keeps the allocated memory.
    pub(super) fn clear(&mut self) {
        self.renumbered = None;
        self.len = 0;
        self.happenings.clear();
    }

    /// Sorts by slot; within a slot the order stays. `scratch` may have any contents.
    pub(super) fn sort(&mut self, scratch: &mut Vec<Happening>) {
        let happenings = &mut self.happenings;
        if happenings.len() < 256 {
            happenings.sort_by_key(|happening| happening.slot);
            return;
        }
        let highest = happenings.iter().map(|happening| happening.slot).max().unwrap_or(0);
        let bits = 32 - highest.leading_zeros();
        let digit_bits = bits.div_ceil(bits.div_ceil(DIGIT_BITS_MAX).max(1));
        scratch.resize(happenings.len(), Happening::default());
        let mut shift = 0;
        while shift < bits {
            let digit = |happening: &Happening| (happening.slot >> shift) as usize % (1 << digit_bits) % DIGITS_MAX;
            let mut starts = [0u32; DIGITS_MAX];
            happenings.iter().for_each(|happening| starts[digit(happening)] += 1);
            let mut sum = 0;
            for start in &mut starts[..1 << digit_bits] {
                sum += std::mem::replace(start, sum);
            }
            for happening in happenings.iter() {
                let start = &mut starts[digit(happening)];
                scratch[*start as usize] = *happening;
                *start += 1;
            }
            std::mem::swap(happenings, scratch);
            shift += digit_bits;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Sorts up to 32 bits in three rounds, and a few effects without rounds.
        #[test]
        fn sorting_is_by_slot_and_stable(slot_bits in 1u32..=32, slots in proptest::collection::vec(any::<u32>(), 1..900)) {
            let slots = slots.into_iter().map(|slot| slot >> (32 - slot_bits));
            let happenings: Vec<_> = (0..).zip(slots).map(|(number, slot)| Happening::new(slot, number, COMES)).collect();
            let mut expected: Vec<_> = happenings.iter().map(|happening| (happening.slot, happening.number())).collect();
            expected.sort_unstable();
            let mut batch = Batch { happenings, ..Batch::default() };
            batch.sort(&mut Vec::new());
            let found: Vec<_> = batch.happenings.iter().map(|happening| (happening.slot, happening.number())).collect();
            prop_assert_eq!(found, expected);
        }
    }
}
