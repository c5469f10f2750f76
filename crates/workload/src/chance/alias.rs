//! Draws from a small discrete distribution in constant time (Walker's alias method, Vose's construction).

/// Indices `0..len` with given weights. 16 bytes an index.
#[derive(Clone, Debug)]
pub(crate) struct AliasTable {
    cells: Box<[Cell]>,
}

#[derive(Clone, Copy, Debug)]
struct Cell {
    /// Below it the cell's own index is drawn, else `alias`.
    own_below: u64,
    alias: u32,
}

impl AliasTable {
    /// `weights`: at least one, fewer than 2^32, none negative, sum positive and finite.
    pub(crate) fn new(weights: &[f64]) -> Self {
        let sum: f64 = weights.iter().sum();
        debug_assert!(sum > 0.0 && sum.is_finite(), "weights sum to {sum}");
        let scale = weights.len() as f64 / sum;
        let mut shares: Vec<f64> = weights.iter().map(|weight| weight * scale).collect();
        let mut cells: Vec<Cell> = (0..weights.len())
            .map(|own| Cell { own_below: u64::MAX, alias: u32::try_from(own).expect("fewer than 2^32 weights") })
            .collect();
        let (mut small, mut large): (Vec<usize>, Vec<usize>) = (0..weights.len()).partition(|&i| shares[i] < 1.0);
        while let (Some(&from), Some(&to)) = (large.last(), small.last()) {
            small.pop();
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a share of 2^64 below one")]
            let own_below = (shares[to] * 18_446_744_073_709_551_616.0) as u64;
            cells[to] = Cell { own_below, alias: cells[from].alias };
            shares[from] -= 1.0 - shares[to];
            if shares[from] < 1.0 {
                large.pop();
                small.push(from);
            }
        }
        // What is left misses one by rounding only: it keeps `own_below: MAX`.
        Self { cells: cells.into() }
    }

    /// The index that `random` stands for.
    #[inline]
    pub(crate) fn pick(&self, random: u64) -> usize {
        let (own, fraction) = super::below(random, self.cells.len() as u64);
        #[expect(clippy::cast_possible_truncation, reason = "below the length of a slice")]
        let own = own as usize;
        let cell = self.cells[own];
        if fraction < cell.own_below { own } else { cell.alias as usize }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chance::{Rng, check, dice};

    #[test]
    fn draws_follow_the_weights() {
        let weights = [5.0, 0.0, 1.0, 0.25, 93.75];
        let table = AliasTable::new(&weights);
        let mut dice = dice(1, 0);
        let mut counts = [0u64; 5];
        for _ in 0..200_000 {
            counts[table.pick(dice.next_u64())] += 1;
        }
        assert_eq!(counts[1], 0);
        check::near(&counts, &weights.map(|weight| weight / 100.0));
    }

    #[test]
    fn one_weight_is_always_drawn() {
        let table = AliasTable::new(&[3.0]);
        assert_eq!((table.pick(0), table.pick(u64::MAX)), (0, 0));
    }
}
