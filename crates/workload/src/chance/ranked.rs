//! Draws ranks `0..len` whose probability falls with the rank (zipfian, exponential, half a normal curve), exactly and from
//! a table that fits the first-level cache.
//!
//! Neighbouring ranks of nearly equal weight (at most 1/64 apart) share a bucket. A bucket is drawn by its size times its first, largest
//! weight; then a rank in it, evenly; the rank is kept with probability weight / first weight. Nearly always the smallest weight of the
//! bucket already keeps it, so that the weight itself is computed in under 1 % of all draws. Buckets bound the distribution, they do not
//! approximate it. One random word chooses the bucket, the rank and whether to keep it; with numbers of 64 bits each rank's probability is
//! right to one part in 10^5.

use super::alias::{AliasCell, alias_cells};
use super::{Random, Rng, below, fill_words, math};

/// Falling weights by rank, in (0, 1].
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Weight {
    /// `(rank + 1)^-theta`.
    Zipf {
        /// Exponent, at least 0; 0 is uniform.
        theta: f64,
    },
    /// `exp(-rank / scale)`.
    Exponential {
        /// Scale in ranks, positive.
        scale: f64,
    },
    /// `exp(-((rank + 1/2) / deviation)^2 / 2)`: one side of a bell.
    HalfNormal {
        /// Deviation in ranks, positive.
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
    cells: Box<[Cell]>,
}

/// A cell of the alias method with all that is needed of its two buckets: one access to memory a draw.
#[derive(Clone, Copy, Debug)]
struct Cell {
    /// Fractions below it choose the first bucket.
    first_below: u64,
    buckets: [Bucket; 2],
}

#[derive(Clone, Copy, Debug, Default)]
struct Bucket {
    /// Ranks of the bucket by its part of the cell, with [`KEEP_BITS`] binary places.
    scale: u64,
    /// First rank, and in the lower [`KEEP_BITS`] the part below which every rank is kept.
    start_and_keep: u64,
}

const _: () = assert!(size_of::<Cell>() == 40, "a thousand cells in 40 KiB");

/// Ranks before bucketing.
struct Span {
    start: u64,
    len: u64,
    /// Weight of the bucket's last rank divided by that of its first.
    weight_ratio: f64,
}

impl Ranked {
    /// `len`: at least 1, at most 2^48.
    pub(crate) fn new(weight: Weight, len: u64) -> Self {
        let (spans, bounds) = spans(weight, len);
        let cells = alias_cells(&bounds);
        let cell = |(own, cell): (usize, AliasCell)| {
            // A part so thin that its scale would not fit is left out.
            let thin = THIN.max(spans[own].len << 17).max(spans[cell.alias].len << 17);
            let first_below = match cell.own_below {
                below if below < thin => 0,
                below if u64::MAX - below < thin => u64::MAX,
                below => below,
            };
            let second_part = if first_below == u64::MAX { u64::MAX } else { u64::MAX - first_below };
            let buckets =
                [Bucket::new(&spans[own], first_below.max(thin)), Bucket::new(&spans[cell.alias], second_part)];
            Cell { first_below, buckets }
        };
        Self { weight, cells: cells.into_iter().enumerate().map(cell).collect() }
    }

    /// Fills `out` with ranks.
    pub(crate) fn fill(&self, random: &mut Random, out: &mut [u64]) {
        fill_words(random, out);
        for word in out {
            *word = match self.rank_of(*word) {
                Some(rank) => rank,
                None => self.draw(random),
            };
        }
    }

    /// One rank.
    #[cold]
    #[inline(never)]
    pub(crate) fn draw(&self, random: &mut Random) -> u64 {
        loop {
            if let Some(rank) = self.rank_of(random.next_u64()) {
                return rank;
            }
        }
    }

    /// The rank of `word`, unless it is not kept.
    #[inline]
    fn rank_of(&self, word: u64) -> Option<u64> {
        let (cell, fraction) = below(word, self.cells.len() as u64);
        #[expect(clippy::cast_possible_truncation, reason = "below the length of a slice")]
        let cell = &self.cells[cell as usize];
        // Branches here would be guessed wrongly about as often as not.
        let is_second = fraction >= cell.first_below;
        let bucket = cell.buckets[usize::from(is_second)];
        let from = std::hint::select_unpredictable(is_second, cell.first_below, 0);
        let (place, rest) = below(fraction - from, bucket.scale);
        let (start, offset) = (bucket.start_and_keep >> KEEP_BITS, place >> KEEP_BITS);
        (place & KEEP_MASK < bucket.start_and_keep & KEEP_MASK || self.keeps(start, place, rest))
            .then_some(start + offset)
    }

    #[cold]
    #[inline(never)]
    #[expect(clippy::cast_precision_loss, reason = "53 bits of the fraction are plenty")]
    fn keeps(&self, start: u64, place: u64, rest: u64) -> bool {
        let offset = place >> KEEP_BITS;
        let fraction = ((place & KEEP_MASK) as f64 + rest as f64 / TWO_TO_64) / f64::from(1u32 << KEEP_BITS);
        offset == 0 || fraction < self.weight.of(start + offset) / self.weight.of(start)
    }
}

/// Binary places of the decision to keep a rank.
const KEEP_BITS: u32 = 16;
/// A part of a cell, 2^-32 of the cell.
const THIN: u64 = 1 << 32;
const KEEP_MASK: u64 = (1 << KEEP_BITS) - 1;

impl Bucket {
    /// `part`: how much of 2^64 belongs to it in its cell.
    fn new(span: &Span, part: u64) -> Self {
        let scale = (u128::from(span.len) << (64 + KEEP_BITS)) / (u128::from(part) + 1);
        // The margin covers rounding of the weights; draws that fall into it are decided exactly.
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "between 0 and 2^16")]
        let keep = (span.weight_ratio * (1.0 - 1e-12) * f64::from(1u32 << KEEP_BITS)) as u64;
        Self {
            scale: u64::try_from(scale).expect("thin parts are left out"),
            start_and_keep: span.start << KEEP_BITS | keep.min(KEEP_MASK),
        }
    }
}

/// Cuts the ranks into spans of nearly equal weight, each with an upper bound of its whole weight.
fn spans(weight: Weight, len: u64) -> (Vec<Span>, Vec<f64>) {
    let floor = weight.of(0) * WEIGHT_MIN;
    let (mut spans, mut bounds) = (Vec::new(), Vec::new());
    let mut start = 0;
    while start < len {
        let first = weight.of(start);
        if first <= floor {
            break;
        }
        let end = bucket_end(weight, start, len, first * BUCKET_FALL);
        let weight_ratio = if end == start + 1 { 1.0 } else { weight.of(end - 1) / first };
        spans.push(Span { start, len: end - start, weight_ratio });
        #[expect(clippy::cast_precision_loss, reason = "ranks stay below 2^52")]
        bounds.push(first * (end - start) as f64);
        start = end;
    }
    (spans, bounds)
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
    use crate::chance::{check, random};

    /// Draws and compares with the exact probability of each rank (computed with the C library).
    fn compare(weight: Weight, len: u64, exact: impl Fn(f64) -> f64) {
        let ranked = Ranked::new(weight, len);
        let mut random = random(42, 0);
        let mut counts = vec![0u64; usize::try_from(len).unwrap()];
        let mut ranks = vec![0; 400_000];
        ranked.fill(&mut random, &mut ranks);
        ranks.iter().for_each(|&rank| counts[usize::try_from(rank).unwrap()] += 1);
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
    fn spans_cover_all_ranks_and_stay_few() {
        let (covered, _) = spans(Weight::Zipf { theta: 0.99 }, 16 << 20);
        assert!(covered.len() < 1000, "{}", covered.len());
        assert_eq!(covered.iter().map(|span| span.len).sum::<u64>(), 16 << 20);
        assert!(covered.windows(2).all(|pair| pair[0].start + pair[0].len == pair[1].start));
        assert!(covered.iter().all(|span| span.weight_ratio >= BUCKET_FALL && span.weight_ratio <= 1.0));
        let (covered, _) = spans(Weight::HalfNormal { deviation: 1e6 }, 1 << 40);
        assert!(covered.len() < 5000, "{}", covered.len());
    }

    #[test]
    fn the_tail_of_a_long_distribution_is_right() {
        // 2^40 ranks, theta 0.5: half of the weight lies beyond a quarter of the ranks.
        let len = 1u64 << 40;
        let ranked = Ranked::new(Weight::Zipf { theta: 0.5 }, len);
        let mut random = random(9, 0);
        let mut counts = [0u64; 16];
        for _ in 0..100_000 {
            counts[usize::try_from(ranked.draw(&mut random) >> 36).unwrap()] += 1;
        }
        let root = |part: u32| (f64::from(part) / 16.0).sqrt();
        check::near(&counts, &(0..16).map(|part| root(part + 1) - root(part)).collect::<Vec<_>>());
    }
}
