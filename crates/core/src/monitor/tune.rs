//! Interval auto-tuning: longer intervals where too few samples are positive, shorter where too many
//! (docs/spec/monitoring.md#s10).

use super::attrs::IntervalsGoal;
use super::target::Target;
use crate::schemes::feedback;
use isotherm_units::Duration;

/// How the share of positive samples compares with the goal, 10,000 = equal. Only the aggregation that just ended counts, as in the kernel,
/// although its documentation speaks of all since the last tuning. 128 bits: bytes times samples times basis points do not fit 64 in a
/// large space.
pub(crate) fn score(targets: &[Target], samples: u64, goal_bp: u64) -> u64 {
    debug_assert!(samples > 0 && goal_bp <= 10_000, "a goal is a share of samples that were taken");
    let regions = targets.iter().flat_map(|target| &target.regions);
    let (mut seen, mut all) = (0u128, 0u128);
    for region in regions {
        seen += u128::from(region.len()) * u128::from(region.nr_accesses);
        all += u128::from(region.len()) * u128::from(samples);
    }
    let wanted = (all * u128::from(goal_bp) / 10_000).max(1);
    u64::try_from(seen * 10_000 / wanted).unwrap_or(u64::MAX)
}

/// Factor of the sampling interval, in basis points: ×0.5 to ×2 a step.
pub(crate) fn factor_bp(score: u64) -> u64 {
    let raw = feedback(100_000_000, score) / 10_000;
    debug_assert!(raw <= 20_000, "a step doubles at most");
    if raw > 10_000 { raw } else { 5_000 + raw / 2 }
}

/// The next sampling interval.
pub(crate) fn next_sample_interval(sample: Duration, factor_bp: u64, goal: &IntervalsGoal) -> Duration {
    debug_assert!((5_000..=20_000).contains(&factor_bp), "a step halves at least and doubles at most");
    let sample_us = u128::from(sample.ns() / 1000) * u128::from(factor_bp) / 10_000;
    Duration::from_us(u64::try_from(sample_us).unwrap_or(u64::MAX))
        .clamp(goal.min_sample_interval, goal.max_sample_interval)
}

#[cfg(test)]
mod tests {
    use super::super::region::tests::region;
    use super::*;

    const MIB: u64 = 1 << 20;
    const GIB: u64 = 1 << 30;

    /// docs/spec/monitoring.md#s17, examples 40 to 43. Regions as (bytes, nr_accesses).
    #[test]
    fn intervals_follow_the_share_of_positive_samples() {
        type Row = (u32, [(u64, u32); 2], u64, u64, u64, u64);
        // (example, regions, goal in basis points, sample in us, score, next sample in us without bounds)
        let table: [Row; 4] = [
            (40, [(9 * GIB, 0), (GIB, 4)], 400, 5_000, 5_000, 7_500),
            (41, [(9 * GIB, 0), (GIB, 4)], 40, 5_000, 50_000, 2_500),
            (42, [(99 * MIB, 0), (MIB, 10)], 400, 40_000, 1_250, 75_000),
            (43, [(4 * MIB, 20), (96 * MIB, 0)], 400, 5_000, 10_000, 5_000),
        ];
        for (example, sizes, goal_bp, sample_us, expected_score, expected_us) in table {
            let [(first, first_nr), (second, second_nr)] = sizes;
            let target =
                Target::for_test(vec![region(0, first, first_nr, 0), region(first, first + second, second_nr, 0)]);
            let score = score(&[target], 20, goal_bp);
            assert_eq!(score, expected_score, "example {example}");
            let goal = IntervalsGoal { min_sample_interval: Duration::from_us(1), ..IntervalsGoal::default() };
            let next = next_sample_interval(Duration::from_us(sample_us), factor_bp(score), &goal);
            assert_eq!(next, Duration::from_us(expected_us), "example {example}");
            let bounded =
                next_sample_interval(Duration::from_us(sample_us), factor_bp(score), &IntervalsGoal::default());
            assert!(bounded >= Duration::from_ms(5), "example {example}: the lower bound holds");
        }
    }

    /// docs/spec/monitoring.md#s17, example 44.
    #[test]
    fn the_factor_halves_at_least_and_doubles_at_most() {
        let table = [
            (0, 20_000),
            (9_000, 11_000),
            (10_000, 10_000),
            (10_001, 9_999),
            (11_000, 9_500),
            (15_000, 7_500),
            (19_999, 5_000),
            (20_000, 5_000),
            (u64::MAX, 5_000),
        ];
        for (score, factor) in table {
            assert_eq!(factor_bp(score), factor, "example 44: score {score}");
        }
    }
}
