//! Order of the regions when the quota does not allow all (docs/spec/schemes.md#s7).

use super::quota::Weights;
use crate::monitor::{Attributes, HIT_BP, Region};
use crate::vocabulary::Scorer;

/// The best score.
pub(crate) const SCORE_MAX: u32 = 99;

impl Scorer {
    /// 0 to 99.
    pub(crate) fn score(self, region: &Region, attributes: &Attributes, weights: &Weights) -> u32 {
        match self {
            Self::Hot => hot_score(region, attributes, weights),
            Self::Cold => SCORE_MAX - hot_score(region, attributes, weights),
            Self::Equal => SCORE_MAX,
        }
    }
}

/// Frequency and age on scales of 0 to 100, weighted. Age counts in doubled seconds, and for "hot" only if the region is used at all;
/// otherwise, the older, the colder. All divisions truncate, in this order. Size is ignored.
///
/// A region whose few hits round to a frequency of 0 % counts as unused, and as colder with age: kept as in the kernel.
fn hot_score(region: &Region, attributes: &Attributes, weights: &Weights) -> u32 {
    let max = u64::from(attributes.nr_accesses_max());
    let frequency = u64::from(region.nr_accesses_bp / HIT_BP) * 100 / max;
    let age_us = u128::from(region.age) * u128::from(attributes.aggr_interval.ns() / 1000);
    let seconds = u64::try_from(age_us / 1_000_000).unwrap_or(u64::MAX);
    let doublings = seconds.checked_ilog2().map_or(0, |log| (log + 1).min(32));
    let age = u64::from(if frequency == 0 { 32 - doublings } else { 32 + doublings }) * 100 / 32 / 2;
    let (weight_nr, weight_age) = (u64::from(weights.nr_accesses), u64::from(weights.age));
    let sum = weight_nr * frequency + weight_age * age;
    let hotness = sum.checked_div(weight_nr + weight_age).unwrap_or(sum);
    u32::try_from(hotness * u64::from(SCORE_MAX) / 100).map_or(SCORE_MAX, |score| score.min(SCORE_MAX))
}

/// Bytes that a scheme could treat, by score.
#[derive(Clone, Debug)]
pub(crate) struct Histogram([u64; SCORE_MAX as usize + 1]);

impl Histogram {
    pub(crate) const EMPTY: Self = Self([0; SCORE_MAX as usize + 1]);

    pub(crate) fn add(&mut self, score: u32, bytes: u64) {
        debug_assert!(score <= SCORE_MAX, "each score has its bucket");
        let bucket = &mut self.0[score as usize];
        *bucket = bucket.saturating_add(bytes);
    }

    /// The score from which on up all regions together use the whole quota up; 0 where they do not.
    pub(crate) fn cut_off(&self, quota: u64) -> u32 {
        let mut bytes = 0u64;
        let Some(best) = self.0.iter().rposition(|bytes| *bytes > 0) else { return 0 };
        for (score, in_bucket) in self.0[..=best].iter().enumerate().rev() {
            bytes = bytes.saturating_add(*in_bucket);
            if bytes >= quota {
                return u32::try_from(score).expect("below 100");
            }
        }
        0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use isotherm_units::Duration;

    const MIB: u64 = 1 << 20;

    fn attributes(sample_us: u64, aggr_us: u64) -> Attributes {
        Attributes {
            sample_interval: Duration::from_us(sample_us),
            aggr_interval: Duration::from_us(aggr_us),
            ..Attributes::default()
        }
    }

    fn weights(nr_accesses: u32, age: u32) -> Weights {
        Weights { sz: 0, nr_accesses, age }
    }

    /// docs/spec/schemes.md#s15, examples 20 to 27.
    #[test]
    fn scores_are_as_the_kernel_computes_them() {
        let default = (5_000, 100_000);
        // (example, intervals in us, weights, count, age, hot score)
        let table = [
            (20, default, (1, 1), 20, 0, 74),
            (20, default, (1, 1), 10, 0, 49),
            (20, default, (1, 1), 10, 100, 52),
            (20, default, (1, 1), 20, 1200, 79),
            (21, default, (1, 1), 0, 0, 24),
            (21, default, (1, 1), 0, 10, 23),
            (21, default, (1, 1), 0, 50, 21),
            (21, default, (1, 1), 0, 1200, 18),
            (21, default, (1, 1), 0, 36_000, 14),
            (23, default, (0, 1), 0, 9, 49),
            (23, default, (0, 1), 0, 1200, 38),
            (24, default, (0, 0), 0, 1200, 0),
            (25, (1000, 1_000_000), (1, 1), 1, 10, 20),
            (26, default, (1, 1), 4, 100, 37),
            (27, default, (1, 1), 25, 100, 89),
        ];
        for (example, (sample, aggr), (weight_nr, weight_age), nr, age, hot) in table {
            let region = Region { nr_accesses_bp: nr * HIT_BP, age, ..Region::default() };
            let attributes = attributes(sample, aggr);
            let weights = weights(weight_nr, weight_age);
            let what = format!("example {example}: count {nr}, age {age}");
            assert_eq!(Scorer::Hot.score(&region, &attributes, &weights), hot, "{what}");
            assert_eq!(Scorer::Cold.score(&region, &attributes, &weights), 99 - hot, "{what}");
            assert_eq!(Scorer::Equal.score(&region, &attributes, &weights), 99, "{what}");
        }
    }

    /// docs/spec/schemes.md#s15, example 22.
    #[test]
    fn idle_memory_is_the_colder_the_older() {
        let score =
            |age| Scorer::Cold.score(&Region { age, ..Region::default() }, &Attributes::default(), &weights(1, 1));
        assert_eq!([0, 10, 50, 1200, 36_000].map(score), [75, 76, 78, 81, 85], "example 22");
    }

    /// docs/spec/schemes.md#s15, examples 28 and 29.
    #[test]
    fn the_cut_off_is_where_the_quota_is_used_up() {
        let histogram = |buckets: &[(u32, u64)]| {
            let mut histogram = Histogram::EMPTY;
            buckets.iter().for_each(|(score, mib)| histogram.add(*score, mib * MIB));
            histogram
        };
        let three = histogram(&[(90, 10), (80, 20), (50, 100)]);
        for (quota, cut_off) in [(25 * MIB, 80), (10 * MIB, 90), (0, 90)] {
            assert_eq!(three.cut_off(quota), cut_off, "example 28");
        }
        assert_eq!(histogram(&[(90, 10)]).cut_off(1 << 30), 0, "example 29");
        assert_eq!(Histogram::EMPTY.cut_off(0), 0, "nothing matches");
    }

    proptest::proptest! {
        #[test]
        fn no_score_waits_while_the_quota_has_room(
            buckets in proptest::collection::vec((0..=SCORE_MAX, 1..1000u64), 0..40), quota in 0..5000u64,
        ) {
            let mut histogram = Histogram::EMPTY;
            buckets.iter().for_each(|(score, bytes)| histogram.add(*score, *bytes));
            let cut_off = histogram.cut_off(quota);
            let sum = |is_counted: &dyn Fn(u32) -> bool| -> u64 {
                buckets.iter().filter(|(score, _)| is_counted(*score)).map(|(_, bytes)| bytes).sum()
            };
            let above = sum(&|score| score > cut_off);
            proptest::prop_assert!(above == 0 || above < quota, "better ones alone leave room");
            proptest::prop_assert!(cut_off == 0 || sum(&|score| score >= cut_off) >= quota, "and the rest is needed no more");
        }
    }

    #[test]
    fn large_weights_do_not_wrap() {
        let region = Region { nr_accesses_bp: 20 * HIT_BP, ..Region::default() };
        let weights = weights(u32::MAX, u32::MAX);
        assert_eq!(Scorer::Hot.score(&region, &Attributes::default(), &weights), 74, "as with 1 and 1");
    }
}
