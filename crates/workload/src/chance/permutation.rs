//! A pseudo-random permutation of `0..len`: scatters the hot ranks of a distribution over all items.
//!
//! Unlike a hash it maps no two ranks to one item, so every item keeps its exact probability; unlike a table it needs no
//! memory. Three one-to-one steps, about ten instructions: multiply modulo `len`, flip low bits differently in each of
//! some 32 to 64 columns, multiply again.

use super::{Random, Rng, below, random};

const COLUMNS_MAX: usize = 64;
/// Lengths up to which products of 64 bits are enough.
const SHORT_CUT_MAX: u64 = 1 << 32;

#[derive(Clone, Debug)]
pub(crate) struct Permutation {
    first: Lattice,
    flips: Flips,
    second: Lattice,
}

impl Permutation {
    /// `len`: at least 1, at most 2^52.
    pub(crate) fn new(len: u64, seed: u64) -> Self {
        debug_assert!(len > 0 && len <= 1 << 52);
        let mut random = random(seed, 0);
        let first = Lattice::new(len, &mut random);
        let flips = Flips::new(len, &mut random);
        Self { first, flips, second: Lattice::new(len, &mut random) }
    }

    /// Replaces each rank (below the length) by where it goes.
    pub(crate) fn apply(&self, ranks: &mut [u64]) {
        if self.first.len <= SHORT_CUT_MAX {
            ranks.iter_mut().for_each(|rank| {
                *rank = self.second.at_quickly(self.flips.at(self.first.at_quickly(*rank)));
            });
        } else {
            ranks.iter_mut().for_each(|rank| *rank = self.second.at(self.flips.at(self.first.at(*rank))));
        }
    }
}

/// `(x * factor + shift) mod len` with a factor that has no divisor in common with `len`.
#[derive(Clone, Debug)]
struct Lattice {
    len: u64,
    factor: u64,
    shift: u64,
    /// `factor / len` and `shift / len` as fractions of 2^64, rounded up. Each exceeds the truth by less than 2^-64, so that
    /// the sum for an `x` below `len` is wrong by less than `len / 2^64`: less than one part in `len` up to 2^32.
    factor_fraction: u64,
    shift_fraction: u64,
}

impl Lattice {
    fn new(len: u64, random: &mut Random) -> Self {
        let mut factor = len / 4 + below(random.next_u64(), len / 2 + 1).0;
        while common_divisor(factor, len) != 1 {
            factor += 1;
        }
        let factor = factor % len;
        let shift = below(random.next_u64(), len).0;
        // Both are below `len`, and so the fractions below one.
        let fraction = |x: u64| u64::try_from((u128::from(x) << 64).div_ceil(u128::from(len))).unwrap_or(u64::MAX);
        Self { len, factor, shift, factor_fraction: fraction(factor), shift_fraction: fraction(shift) }
    }

    fn at(&self, x: u64) -> u64 {
        let sum = u128::from(x) * u128::from(self.factor) + u128::from(self.shift);
        u64::try_from(sum % u128::from(self.len)).expect("below a u64")
    }

    /// The same for lengths up to [`SHORT_CUT_MAX`].
    #[inline]
    fn at_quickly(&self, x: u64) -> u64 {
        below(x.wrapping_mul(self.factor_fraction).wrapping_add(self.shift_fraction), self.len).0
    }
}

fn common_divisor(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { common_divisor(b, a % b) }
}

/// Flips low bits by a mask that depends on the high ones. The last column may be incomplete and is left alone.
#[derive(Clone, Debug)]
struct Flips {
    row_bits: u32,
    masks: [u64; COLUMNS_MAX],
}

impl Flips {
    fn new(len: u64, random: &mut Random) -> Self {
        let row_bits = (64 - (len - 1).leading_zeros()).saturating_sub(6);
        let mut masks = [0; COLUMNS_MAX];
        let complete = usize::try_from(len >> row_bits).expect("at most 64");
        masks[..complete].fill_with(|| random.next_u64() & ((1 << row_bits) - 1));
        Self { row_bits, masks }
    }

    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "there are at most 64 columns")]
    fn at(&self, x: u64) -> u64 {
        x ^ self.masks[(x >> self.row_bits) as usize % COLUMNS_MAX]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chance::check;
    use std::collections::BTreeSet;

    /// Where the first `ranks` ranks go.
    fn first(permutation: &Permutation, ranks: u64) -> Vec<u64> {
        let mut items: Vec<u64> = (0..ranks).collect();
        permutation.apply(&mut items);
        items
    }

    #[test]
    fn it_is_one_to_one() {
        for len in (1..200).chain([255, 256, 257, 1000, 4096, 65_537, 100_000]) {
            let permutation = Permutation::new(len, len ^ 5);
            let mut seen = vec![false; usize::try_from(len).unwrap()];
            for item in first(&permutation, len) {
                let item = usize::try_from(item).unwrap();
                assert!(!std::mem::replace(&mut seen[item], true), "len {len}: {item} twice");
            }
        }
    }

    #[test]
    fn the_short_cut_is_exact_up_to_its_limit() {
        for len in [1 << 32, (1 << 32) - 5, 3_000_000_019] {
            let lattice = Lattice::new(len, &mut random(1, 0));
            for x in (0..len).step_by(99_999_989).chain([1, len - 1]) {
                assert_eq!(lattice.at_quickly(x), lattice.at(x), "len {len}, x {x}");
            }
        }
        let large = Permutation::new(1 << 40, 7);
        let items: BTreeSet<u64> = first(&large, 10_000).into_iter().collect();
        assert!(items.len() == 10_000 && items.last() < Some(&(1 << 40)));
    }

    #[test]
    fn the_first_ranks_spread_evenly_without_a_pattern() {
        let len = 1_000_000;
        let permutation = Permutation::new(len, 3);
        let mut counts = [0u64; 50];
        let items = first(&permutation, 20_000);
        items.iter().for_each(|item| counts[usize::try_from(item * 50 / len).unwrap()] += 1);
        check::near(&counts, &[1.0 / 50.0; 50]);
        let steps: BTreeSet<u64> = items[..1000].windows(2).map(|pair| pair[1].wrapping_sub(pair[0])).collect();
        assert!(steps.len() > 500, "{} different steps", steps.len());
    }
}
