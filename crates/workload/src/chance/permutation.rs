//! A pseudo-random permutation of `0..len`: scatters the hot ranks of a distribution over all items.
//!
//! Unlike a hash it maps no two ranks to one item, so every item keeps its exact probability; unlike a table it needs no
//! memory. The domain is `columns × 2^row_bits`, at most 1/32 larger than `len`; numbers outside are walked on.

use super::{Rng, below, dice};

const ROUNDS: usize = 3;
const COLUMNS_MAX: usize = 64;

#[derive(Clone, Debug)]
pub(crate) struct Permutation {
    len: u64,
    columns: u64,
    row_bits: u32,
    rounds: [Round; ROUNDS],
}

#[derive(Clone, Debug)]
struct Round {
    /// Odd.
    factor: u64,
    /// Added to the row, by column.
    row_add: [u64; COLUMNS_MAX],
    /// Added to the column, by the top bits of the row; below `columns`.
    column_add: [u64; COLUMNS_MAX],
}

impl Permutation {
    /// `len`: at least 1, at most 2^52.
    pub(crate) fn new(len: u64, seed: u64) -> Self {
        debug_assert!(len > 0 && len <= 1 << 52);
        let row_bits = (64 - (len - 1).leading_zeros()).saturating_sub(6);
        let columns = len.div_ceil(1 << row_bits);
        let mut dice = dice(seed, 0);
        let rounds = std::array::from_fn(|_| Round {
            factor: dice.next_u64() | 1,
            row_add: std::array::from_fn(|_| dice.next_u64()),
            column_add: std::array::from_fn(|_| below(dice.next_u64(), columns).0),
        });
        Self { len, columns, row_bits, rounds }
    }

    /// Where `rank` (below `len`) goes.
    #[inline]
    pub(crate) fn at(&self, rank: u64) -> u64 {
        let mut number = self.step(rank);
        while number >= self.len {
            number = self.step(number);
        }
        number
    }

    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "columns and the top six bits of a row are below 64")]
    fn step(&self, number: u64) -> u64 {
        let mask = (1u64 << self.row_bits) - 1;
        let top = self.row_bits.saturating_sub(6);
        let half = self.row_bits / 2 + 1;
        let (mut column, mut row) = (number >> self.row_bits, number & mask);
        for round in &self.rounds {
            row = row.wrapping_add(round.row_add[column as usize % COLUMNS_MAX]).wrapping_mul(round.factor) & mask;
            row ^= row >> half;
            column += round.column_add[(row >> top) as usize % COLUMNS_MAX];
            column -= if column >= self.columns { self.columns } else { 0 };
        }
        column << self.row_bits | row
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chance::check;

    #[test]
    fn it_is_one_to_one() {
        for len in (1..200).chain([255, 256, 257, 1000, 4096, 65_537, 100_000]) {
            let permutation = Permutation::new(len, len ^ 5);
            let mut seen = vec![false; usize::try_from(len).unwrap()];
            for rank in 0..len {
                let item = usize::try_from(permutation.at(rank)).unwrap();
                assert!(!std::mem::replace(&mut seen[item], true), "len {len}: {item} twice");
            }
        }
    }

    #[test]
    fn the_first_ranks_spread_evenly() {
        let len = 1_000_000;
        let permutation = Permutation::new(len, 3);
        let mut counts = [0u64; 50];
        (0..20_000).for_each(|rank| counts[usize::try_from(permutation.at(rank) * 50 / len).unwrap()] += 1);
        check::near(&counts, &[1.0 / 50.0; 50]);
    }
}
