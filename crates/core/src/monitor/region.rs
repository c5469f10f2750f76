//! A region: neighbouring addresses that are taken to behave alike, with their sampled results.

use super::attrs::Baseline;
use crate::host::Level;
use crate::vocabulary::UnitRange;

/// Most attribute probes that a context may have.
pub const PROBES_MAX: usize = 4;

/// The value of one hit in the moving sum. "bp" is the kernel's name; the sum is not a ratio.
pub(crate) const HIT_BP: u32 = 10_000;

/// Addresses `[start, end)` in the units of the context, and their counters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Region {
    /// Addresses in units of the context; never empty.
    pub range: UnitRange,
    /// Positive samples so far in the current aggregation.
    pub nr_accesses: u32,
    /// `nr_accesses` when the previous aggregation ended.
    pub last_nr_accesses: u32,
    /// Moving sum over the last aggregation interval, 10,000 a positive sample; refreshed every tick. Divided by 10,000 it
    /// is what `nr_accesses` will roughly be; readers in the middle of an aggregation use it.
    pub nr_accesses_bp: u32,
    /// Number of aggregations in a row in which the frequency has stayed similar.
    pub age: u32,
    /// Positive samples of each attribute probe in the current aggregation. The kernel counts in 8 bits, which wrap above
    /// 255 samples an aggregation; these do not.
    pub probe_hits: [u32; PROBES_MAX],
    /// The level of the page table at which the region was last sampled: the span that one access in it means.
    pub level: Level,
}

impl Region {
    /// A region about which nothing is known yet.
    pub(crate) fn new(range: UnitRange) -> Self {
        Self { range, ..Self::default() }
    }

    /// Bytes, in the units of the context.
    pub const fn len(&self) -> u64 {
        self.range.len()
    }

    /// Never true in a monitor; here because `len` is.
    pub const fn is_empty(&self) -> bool {
        self.range.is_empty()
    }

    /// Counts one sample. `samples` is the number of samples in an aggregation.
    #[inline]
    pub(crate) fn count(&mut self, is_accessed: bool, samples: u32) {
        debug_assert!(samples > 0, "an aggregation holds one sample at least");
        // Most regions are idle, and were: nothing moves.
        if !is_accessed && self.last_nr_accesses == 0 {
            return;
        }
        let hit = if is_accessed { HIT_BP } else { 0 };
        let last = self.last_nr_accesses.wrapping_mul(HIT_BP);
        self.nr_accesses_bp = moving_sum(self.nr_accesses_bp, last, samples, hit);
        self.nr_accesses += u32::from(is_accessed);
    }

    /// Ages the region at the end of an aggregation, before it is merged. Counts that differ by more than `threshold` from the counts of
    /// the last aggregation are a new behaviour. From 7.2 on, a step between "never" and "sometimes" is a new behaviour too.
    pub(crate) fn grow_older(&mut self, threshold: u32, baseline: Baseline) {
        let changed = self.nr_accesses.abs_diff(self.last_nr_accesses) > threshold;
        let woke_or_slept = (self.nr_accesses == 0) != (self.last_nr_accesses == 0);
        if changed || (baseline == Baseline::V7_2 && woke_or_slept) {
            self.age = 0;
        } else {
            self.age = self.age.saturating_add(1);
        }
    }

    /// Cuts off the part from `offset` on; both parts keep all counters.
    pub(crate) fn split_off(&mut self, offset: u64) -> Self {
        debug_assert!(0 < offset && offset < self.len(), "both parts must hold something");
        let at = self.range.start + offset;
        let right = Self { range: UnitRange::new(at, self.range.end), ..*self };
        self.range.end = at;
        right
    }

    /// Takes in the right neighbour. Counts and ages become means weighted by size, cut down to whole numbers: 20 accesses
    /// on 1 page and 0 on 999 give 0. The bias to cold is kept, because results are compared with the kernel's.
    pub(crate) fn fold(&mut self, right: &Self) {
        debug_assert!(!self.is_empty() && !right.is_empty(), "a mean is weighted by sizes");
        debug_assert_eq!(self.range.end, right.range.start, "only neighbours merge");
        let (left_len, right_len) = (u128::from(self.len()), u128::from(right.len()));
        let mean = |left: u32, right: u32| {
            let sum = u128::from(left) * left_len + u128::from(right) * right_len;
            u32::try_from(sum / (left_len + right_len)).expect("a mean lies between the two")
        };
        self.nr_accesses = mean(self.nr_accesses, right.nr_accesses);
        self.nr_accesses_bp = self.nr_accesses.wrapping_mul(HIT_BP);
        self.age = mean(self.age, right.age);
        for (hits, other) in self.probe_hits.iter_mut().zip(right.probe_hits) {
            *hits = mean(*hits, other);
        }
        self.range.end = right.range.end;
    }

    /// Starts the next aggregation. The moving sum is set to the exact count: steps of a window whose length does not
    /// divide the last count leave a residue. The kernel repairs it here too, with a warning.
    pub(crate) fn reset(&mut self) {
        self.last_nr_accesses = self.nr_accesses;
        self.nr_accesses_bp = self.nr_accesses.wrapping_mul(HIT_BP);
        self.nr_accesses = 0;
        self.probe_hits = [0; PROBES_MAX];
    }
}

/// The sum over the last `window_len` samples after one more, `new`. No history is kept: the samples that fall out are
/// taken to be the mean of `last_sum`, the sum when the window last ended.
///
/// 32 bits that wrap, as in the kernel: with a window longer than the configured aggregation, the sum passes below zero
/// (docs/spec/monitoring.md#s4). [`Attributes::validate`](super::Attributes::validate) keeps such settings out.
fn moving_sum(sum: u32, last_sum: u32, window_len: u32, new: u32) -> u32 {
    // Most regions are idle: no division for them.
    let mean = if last_sum == 0 { 0 } else { last_sum / window_len.max(1) };
    sum.wrapping_sub(mean).wrapping_add(new)
}

/// Converts a count to other intervals: first to a share of the old maximum in basis points, then to a count under the new maximum. Both
/// steps truncate, so that a maximum that does not divide 10,000 may lose one even when it stays the same.
pub(crate) fn convert_count(count: u32, max_old: u32, max_new: u32) -> u32 {
    let share_bp = share_bp(count, max_old);
    u32::try_from(share_bp * u64::from(max_new) / 10_000).unwrap_or(u32::MAX)
}

fn share_bp(count: u32, max: u32) -> u64 {
    u64::from(count) * 10_000 / u64::from(max.max(1))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn region(start: u64, end: u64, nr_accesses: u32, age: u32) -> Region {
        Region { nr_accesses, age, nr_accesses_bp: nr_accesses * HIT_BP, ..Region::new(UnitRange::new(start, end)) }
    }

    /// docs/spec/monitoring.md#s17, example 1.
    #[test]
    fn both_parts_of_a_split_keep_the_counters() {
        let whole = Region { nr_accesses_bp: 420_000, last_nr_accesses: 15, ..region(0, 100, 42, 10) };
        let mut left = whole;
        let right = left.split_off(25);
        assert_eq!(left, Region { range: UnitRange::new(0, 25), ..whole });
        assert_eq!(right, Region { range: UnitRange::new(25, 100), ..whole });
    }

    /// docs/spec/monitoring.md#s17, examples 2, 4 and 5.
    #[test]
    fn folding_takes_weighted_means() {
        // (example, left, right, expected)
        let table = [
            (2, region(0, 100, 10, 9), region(100, 300, 20, 21), region(0, 300, 16, 17)),
            (4, region(0, 4096, 0, 100), region(4096, 16_384, 1, 0), region(0, 16_384, 0, 25)),
            (5, region(0, 8192, 3, 7), region(8192, 12_288, 4, 8), region(0, 12_288, 3, 7)),
        ];
        for (example, mut left, right, expected) in table {
            left.fold(&right);
            assert_eq!(left, expected, "example {example}");
        }
    }

    /// docs/spec/monitoring.md#s17, example 6.
    #[test]
    fn the_moving_sum_forgets_evenly() {
        let hits = [10_000, 0, 10_000, 0, 0, 0, 10_000, 0, 0, 0];
        let expected = [55_000, 50_000, 55_000, 50_000, 45_000, 40_000, 45_000, 40_000, 35_000, 30_000];
        let mut sum = 50_000;
        for (hit, expected) in hits.into_iter().zip(expected) {
            sum = moving_sum(sum, 50_000, 10, hit);
            assert_eq!(sum, expected, "example 6");
        }
    }

    /// docs/spec/monitoring.md#s17, example 7.
    #[test]
    fn readers_see_the_moving_sum_climb() {
        let mut busy = Region { last_nr_accesses: 4, nr_accesses_bp: 40_000, ..Region::default() };
        for sample in 1..=20 {
            busy.count(true, 20);
            let expected = match sample {
                1 => 48_000,
                5 => 80_000,
                10 => 120_000,
                20 => 200_000,
                _ => continue,
            };
            assert_eq!(busy.nr_accesses_bp, expected, "example 7, sample {sample}");
        }
        assert_eq!(busy.nr_accesses, 20, "example 7");
    }

    /// docs/spec/monitoring.md#s17, example 8.
    #[test]
    fn the_residue_goes_at_reset() {
        let mut uneven = Region { last_nr_accesses: 1, nr_accesses_bp: 10_000, ..Region::default() };
        for (is_accessed, expected) in [(true, 16_667), (false, 13_334), (true, 20_001)] {
            uneven.count(is_accessed, 3);
            assert_eq!(uneven.nr_accesses_bp, expected, "example 8");
        }
        uneven.reset();
        assert_eq!((uneven.nr_accesses_bp, uneven.last_nr_accesses, uneven.nr_accesses), (20_000, 2, 0), "example 8");
    }

    /// docs/spec/monitoring.md#s17, example 52: the kernel's behaviour with a sampling interval of zero, which we refuse.
    #[test]
    fn a_window_that_is_too_long_wraps() {
        let mut idle = Region { last_nr_accesses: 3, nr_accesses_bp: 30_000, ..Region::default() };
        for expected in [0, 4_294_937_296] {
            idle.count(false, 1);
            assert_eq!(idle.nr_accesses_bp, expected, "example 52");
        }
    }

    /// docs/spec/monitoring.md#s17, example 31, threshold 2.
    #[test]
    fn age_counts_aggregations_of_like_frequency() {
        // (last, now, age before, age in 7.2, age in 6.6)
        let table = [(3, 5, 4, 5, 5), (3, 6, 4, 0, 0), (0, 1, 4, 0, 5), (1, 0, 4, 0, 5), (0, 0, 7, 8, 8)];
        for (last, now, age, age_7_2, age_6_6) in table {
            for (baseline, expected) in [(Baseline::V7_2, age_7_2), (Baseline::V6_6, age_6_6)] {
                let mut aged = Region { last_nr_accesses: last, ..region(0, 1, now, age) };
                aged.grow_older(2, baseline);
                assert_eq!(aged.age, expected, "example 31: {last} to {now}, {baseline:?}");
            }
        }
    }

    /// docs/spec/monitoring.md#s17, examples 22 to 27.
    #[test]
    fn counts_are_converted_in_two_steps() {
        // (example, count, old maximum, new maximum, expected)
        let table = [
            (22, 15, 100, 100, 15),
            (23, 15, 100, 1000, 150),
            (24, 150, 100, 100, 150),
            (25, 7, 30, 30, 6),
            (26, 3, 20, 2, 0),
        ];
        for (example, count, max_old, max_new, expected) in table {
            assert_eq!(convert_count(count, max_old, max_new), expected, "example {example}");
        }
        assert_eq!(share_bp(7, 30), 2333, "example 25");
        assert_eq!(share_bp(3, 20), 1500, "example 26");
        assert_eq!(share_bp(123, u32::MAX), 0, "example 27");
    }
}
