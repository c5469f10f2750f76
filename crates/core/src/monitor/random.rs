//! Chance of one monitoring context: equal seeds give equal regions on every machine.

use isotherm_units::hash;
use rand_core::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

/// The random numbers of one context.
#[derive(Clone, Debug)]
pub(crate) struct Random(Xoshiro256PlusPlus);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(Xoshiro256PlusPlus::seed_from_u64(seed))
    }

    /// A number of `[low, high)`; `low` where that holds none. One word of randomness either way.
    pub(crate) fn between(&mut self, low: u64, high: u64) -> u64 {
        let span = high.saturating_sub(low);
        low + match u32::try_from(span) {
            Ok(span) => u64::from(scale_32(self.0.next_u32(), span)),
            Err(_) => scale_64(self.0.next_u64(), span),
        }
    }
}

/// The seed of context number `context` of a run: contexts of one run must not draw the same numbers.
///
/// One step of SplitMix64, whose increment and mixing spread neighbouring numbers over all 64 bits.
pub fn context_seed(run_seed: u64, context: u32) -> u64 {
    hash::mix(run_seed.wrapping_add((u64::from(context) + 1).wrapping_mul(hash::GOLDEN)))
}

/// Multiply and shift: no modulo, no rejection, a bias below `span / 2^32`.
fn scale_32(word: u32, span: u32) -> u32 {
    u32::try_from((u64::from(word) * u64::from(span)) >> 32).expect("below span")
}

fn scale_64(word: u64, span: u64) -> u64 {
    u64::try_from((u128::from(word) * u128::from(span)) >> 64).expect("below span")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// docs/spec/monitoring.md#s17, examples 38 and 39.
    #[test]
    fn words_become_numbers_by_multiply_and_shift() {
        // (example, low, high, word, number)
        let table = [
            (38, 1, 10, 0, 1),
            (38, 1, 10, 1 << 31, 5),
            (38, 1, 10, u32::MAX, 9),
            (39, 4096, 12_288, 0xC000_0000, 10_240),
        ];
        for (example, low, high, word, number) in table {
            assert_eq!(low + scale_32(word, high - low), number, "example {example}");
        }
        assert_eq!(scale_64(u64::MAX, 1 << 40), (1 << 40) - 1);
    }

    #[test]
    fn contexts_of_a_run_draw_different_numbers() {
        let draws = |context| {
            let mut random = Random::new(context_seed(7, context));
            [random.between(0, 1 << 40), random.between(5, 6), random.between(9, 9)]
        };
        assert_ne!(draws(0)[0], draws(1)[0]);
        assert_eq!(draws(0)[1..], [5, 9]);
        assert_eq!(draws(3), draws(3));
    }
}
