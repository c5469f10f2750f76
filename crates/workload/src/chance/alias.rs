//! Splits a discrete distribution into equal cells of two outcomes each, so that a draw takes constant time (Walker's
//! alias method, Vose's construction).

/// A cell of probability `1 / cells`: its own outcome (its index) for fractions below `own_below`, `alias` for the others.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AliasCell {
    /// A fraction of 2^64; `u64::MAX` means always.
    pub(crate) own_below: u64,
    /// The other outcome; the cell's own if there is no other.
    pub(crate) alias: usize,
}

/// One cell for each of `weights`: at least one, none negative, sum positive and finite.
pub(crate) fn alias_cells(weights: &[f64]) -> Vec<AliasCell> {
    let sum: f64 = weights.iter().sum();
    debug_assert!(sum > 0.0 && sum.is_finite(), "weights sum to {sum}");
    let scale = weights.len() as f64 / sum;
    let mut shares: Vec<f64> = weights.iter().map(|weight| weight * scale).collect();
    let mut cells: Vec<AliasCell> =
        (0..weights.len()).map(|own| AliasCell { own_below: u64::MAX, alias: own }).collect();
    let (mut small, mut large): (Vec<usize>, Vec<usize>) = (0..weights.len()).partition(|&i| shares[i] < 1.0);
    while let (Some(&from), Some(&to)) = (large.last(), small.last()) {
        small.pop();
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a share of 2^64 below one")]
        let own_below = (shares[to] * 18_446_744_073_709_551_616.0) as u64;
        cells[to] = AliasCell { own_below, alias: from };
        shares[from] -= 1.0 - shares[to];
        if shares[from] < 1.0 {
            large.pop();
            small.push(from);
        }
    }
    // The rest differs from one by rounding only: it keeps `own_below: MAX`.
    cells
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_add_up_to_the_weights() {
        for weights in [&[5.0, 0.0, 1.0, 0.25, 93.75][..], &[3.0], &[1.0, 1.0, 1.0], &[1e-9, 2.0]] {
            let mut shares = vec![0.0; weights.len()];
            let cells = alias_cells(weights);
            for (own, cell) in cells.iter().enumerate() {
                let below = cell.own_below as f64 / 2f64.powi(64) / cells.len() as f64;
                shares[own] += below;
                shares[cell.alias] += 1.0 / cells.len() as f64 - below;
            }
            let sum: f64 = weights.iter().sum();
            for (share, weight) in shares.iter().zip(weights) {
                assert!((share - weight / sum).abs() < 1e-15, "{share} for {weight} of {sum}");
            }
        }
    }
}
