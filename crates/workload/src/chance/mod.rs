//! Reproducible random numbers: equal seeds give equal numbers on every machine.

mod alias;
pub(crate) mod math;
mod permutation;
mod ranked;

pub(crate) use permutation::Permutation;
pub(crate) use ranked::{Ranked, Weight};

use isotherm_units::Ratio;
pub(crate) use rand_core::Rng;
use rand_core::SeedableRng;
use rand_xoshiro::Xoshiro256PlusPlus;

/// The one random number generator of this crate.
pub(crate) type Random = Xoshiro256PlusPlus;

/// The generator of lane `lane` (a thread, say) under `seed`; lanes never overlap (2^128 draws each).
pub(crate) fn random(seed: u64, lane: usize) -> Random {
    let mut random = Random::seed_from_u64(seed);
    for _ in 0..lane {
        random.jump();
    }
    random
}

/// Fills `out` with random words. Generators work in blocks, one step over the whole block at a time: each loop is small
/// enough to keep all it needs in registers, which makes them about twice as fast as one loop of all steps.
#[inline]
pub(crate) fn fill_words(random: &mut Random, out: &mut [u64]) {
    let mut local = random.clone();
    out.iter_mut().for_each(|word| *word = local.next_u64());
    *random = local;
}

/// Maps a random word to a number below `n` and hands back the unused randomness as a fraction of 2^64.
///
/// The bias is below `n / 2^64`. The fraction has `64 - log2 n` random bits.
#[inline]
pub(crate) fn below(random: u64, n: u64) -> (u64, u64) {
    let product = u128::from(random) * u128::from(n);
    #[expect(clippy::cast_possible_truncation, reason = "the high half fits, the low half is meant")]
    let parts = ((product >> 64) as u64, product as u64);
    parts
}

/// The threshold below which a random word lies with probability `ratio` (at most one, up to 2^-64).
pub(crate) fn threshold(ratio: Ratio) -> u64 {
    let scaled = (u128::from(ratio.ppm()) << 64) / 1_000_000;
    u64::try_from(scaled).unwrap_or(u64::MAX)
}

#[cfg(test)]
pub(crate) mod check {
    /// Panics unless each of `counts` lies within six standard deviations of its expectation `share * draws` (one more for
    /// tiny ones). Six: a right sampler fails once in 10^9 bins, and seeds are fixed anyway.
    pub(crate) fn near(counts: &[u64], shares: &[f64]) {
        let draws: u64 = counts.iter().sum();
        for (bin, (&count, &share)) in counts.iter().zip(shares).enumerate() {
            let expected = share * draws as f64;
            let bound = 6.0 * (expected * (1.0 - share)).sqrt() + 2.0;
            assert!((count as f64 - expected).abs() <= bound, "bin {bin}: {count}, expected {expected} ± {bound}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn below_splits_a_word() {
        assert_eq!(below(u64::MAX, 10), (9, u64::MAX - 9));
        assert_eq!(below(0, 10), (0, 0));
        assert_eq!(below(1 << 63, 2), (1, 0));
    }

    #[test]
    fn thresholds() {
        assert_eq!(threshold(Ratio::ZERO), 0);
        assert_eq!(threshold(Ratio::ONE), u64::MAX);
        assert_eq!(threshold(Ratio::from_percent(50)), 1 << 63);
    }

    #[test]
    fn lanes_differ_and_repeat() {
        let first = |lane| random(7, lane).next_u64();
        assert_eq!(first(1), first(1));
        assert_ne!(first(0), first(1));
    }
}
