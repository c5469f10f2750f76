//! Draws ranks `0..len` whose probability falls with the rank (zipfian, exponential, half a normal curve), exactly and from
//! a table that fits the first-level cache.
//!
//! Neighbouring ranks of nearly equal weight (at most 1/64 apart) share a bucket. A bucket is drawn by its size times its
//! first, largest weight; then a rank in it, evenly; the rank is kept with probability weight / first weight. Nearly
//! always the smallest weight of the bucket already keeps it, so that the weight itself is computed in under 1 % of all
//! draws. The distribution is exact: buckets bound, they do not approximate.

use super::{AliasTable, Dice, Rng, below, math};

/// Falling weights by rank, in (0, 1].
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Weight {
    /// `(rank + 1)^-theta`.
    Zipf {
        /// At least 0; 0 is uniform.
        theta: f64,
    },
    /// `exp(-rank / scale)`.
    Exponential {
        /// In ranks, positive.
        scale: f64,
    },
    /// `exp(-((rank + 1/2) / deviation)^2 / 2)`: one side of a bell.
    HalfNormal {
        /// In ranks, positive.
        deviation: f64,
    },
}

impl Weight {
    #[expect(clippy::cast_precision_loss, reason = "ranks stay below 2^52")]
    pub(crate) fn of(self, rank: u64) -> f64 {
        match self {
            Self::Zipf { theta } => math::exp(-theta * math::ln((rank + 1) as f64)),
            Self::Exponential { scale } => math::exp(-(rank as f64) / scale),
            Self::HalfNormal { deviation } => {
                let z = (rank as f64 + 0.5) / deviation;
                math::exp(-0.5 * z * z)
            }
        }
    }
}

/// Ranks below this weight relative to the first are never drawn: they could not be in 10^30 draws.
const WEIGHT_MIN: f64 = 1e-30;
/// How far weights in one bucket fall.
const BUCKET_FALL: f64 = 1.0 - 1.0 / 64.0;
const TWO_TO_64: f64 = 18_446_744_073_709_551_616.0;

/// The sampler. Build once, share between threads.
#[derive(Clone, Debug)]
pub(crate) struct Ranked {
    weight: Weight,
    table: AliasTable,
    buckets: Box<[Bucket]>,
}

#[derive(Clone, Copy, Debug)]
struct Bucket {
    start: u64,
    len: u64,
    /// A fraction of 2^64 below which every rank of the bucket is kept.
    keep_all_below: u64,
}

impl Ranked {
    /// `len`: at least 1, at most 2^52.
    pub(crate) fn new(weight: Weight, len: u64) -> Self {
        let floor = weight.of(0) * WEIGHT_MIN;
        let mut buckets = Vec::new();
        let mut bounds = Vec::new();
        let mut start = 0;
        while start < len {
            let first = weight.of(start);
            if first <= floor {
                break;
            }
            let end = bucket_end(weight, start, len, first * BUCKET_FALL);
            // The margin covers rounding of the weights; whoever falls into it is looked at exactly.
            let kept = weight.of(end - 1) / first * (1.0 - 1e-12) * TWO_TO_64;
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "between 0 and 2^64")]
            let keep_all_below = if end == start + 1 { u64::MAX } else { kept as u64 };
            buckets.push(Bucket { start, len: end - start, keep_all_below });
            #[expect(clippy::cast_precision_loss, reason = "ranks stay below 2^52")]
            bounds.push(first * (end - start) as f64);
            start = end;
        }
        Self { weight, table: AliasTable::new(&bounds), buckets: buckets.into() }
    }

    /// One rank.
    #[inline]
    pub(crate) fn draw(&self, dice: &mut Dice) -> u64 {
        loop {
            let bucket = self.buckets[self.table.pick(dice.next_u64())];
            let (offset, fraction) = below(dice.next_u64(), bucket.len);
            let rank = bucket.start + offset;
            if fraction < bucket.keep_all_below || self.keeps(rank, bucket.start, fraction) {
                return rank;
            }
        }
    }

    #[cold]
    #[expect(clippy::cast_precision_loss, reason = "53 bits of the fraction are plenty")]
    fn keeps(&self, rank: u64, first: u64, fraction: u64) -> bool {
        fraction as f64 / TWO_TO_64 < self.weight.of(rank) / self.weight.of(first)
    }
}

/// The first rank after `start` whose weight is below `limit`, or `len`.
fn bucket_end(weight: Weight, start: u64, len: u64, limit: f64) -> u64 {
    let (mut inside, mut step) = (start, 1);
    while inside + step < len && weight.of(inside + step) >= limit {
        inside += step;
        step *= 2;
    }
    let mut outside = len.min(inside + step);
    while outside - inside > 1 {
        let middle = inside + (outside - inside) / 2;
        if weight.of(middle) >= limit { inside = middle } else { outside = middle }
    }
    outside
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chance::{check, dice};

    /// Draws and compares with the exact probability of each rank (computed with the C library).
    fn compare(weight: Weight, len: u64, exact: impl Fn(f64) -> f64) {
        let ranked = Ranked::new(weight, len);
        let mut dice = dice(42, 0);
        let mut counts = vec![0u64; usize::try_from(len).unwrap()];
        for _ in 0..400_000 {
            counts[usize::try_from(ranked.draw(&mut dice)).unwrap()] += 1;
        }
        let weights: Vec<f64> = (0..len).map(|rank| exact(rank as f64)).collect();
        let sum: f64 = weights.iter().sum();
        check::near(&counts, &weights.iter().map(|weight| weight / sum).collect::<Vec<_>>());
    }

    #[test]
    fn zipfian_draws_have_their_exact_probabilities() {
        for theta in [0.0, 0.5, 0.99, 1.0, 1.4] {
            compare(Weight::Zipf { theta }, 1000, |rank| (rank + 1.0).powf(-theta));
        }
        compare(Weight::Zipf { theta: 0.99 }, 1, |_| 1.0);
    }

    #[test]
    fn exponential_draws_have_their_exact_probabilities() {
        compare(Weight::Exponential { scale: 100.0 }, 1000, |rank| (-rank / 100.0).exp());
        compare(Weight::Exponential { scale: 0.1 }, 50, |rank| (-rank / 0.1).exp());
    }

    #[test]
    fn half_normal_draws_have_their_exact_probabilities() {
        compare(Weight::HalfNormal { deviation: 120.0 }, 1000, |rank| (-0.5 * ((rank + 0.5) / 120.0).powi(2)).exp());
    }

    #[test]
    fn the_table_stays_small() {
        let ranked = Ranked::new(Weight::Zipf { theta: 0.99 }, 16 << 20);
        assert!(ranked.buckets.len() < 1000, "{}", ranked.buckets.len());
        let covered: u64 = ranked.buckets.iter().map(|bucket| bucket.len).sum();
        assert_eq!(covered, 16 << 20);
        let ranked = Ranked::new(Weight::HalfNormal { deviation: 1e6 }, 1 << 40);
        assert!(ranked.buckets.len() < 5000, "{}", ranked.buckets.len());
    }
}
