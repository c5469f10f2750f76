//! Means with confidence intervals.

/// Mean and confidence interval of `n` values. Floats, because no decision depends on them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Summary {
    pub n: u64,
    pub mean: f64,
    /// Sample standard deviation; 0 for one value.
    pub stddev: f64,
    /// Lower end of the 95 % confidence interval of the mean (Student's t); `None` for one value.
    pub ci95_low: Option<f64>,
    /// Upper end of that interval; `None` for one value.
    pub ci95_high: Option<f64>,
    /// The value in the middle, or the mean of the two in the middle.
    pub median: f64,
    /// The smallest value.
    pub least: f64,
    /// The largest value.
    pub most: f64,
}

impl Summary {
    /// Summary of `values`; `None` if there are none.
    pub fn of(values: &[f64]) -> Option<Self> {
        if values.is_empty() {
            return None;
        }
        let n = values.len() as f64;
        let mean = values.iter().sum::<f64>() / n;
        let squares: f64 = values.iter().map(|value| (value - mean) * (value - mean)).sum();
        let stddev = if values.len() > 1 { (squares / (n - 1.0)).sqrt() } else { 0.0 };
        let half = (values.len() > 1).then(|| t_95(values.len() - 1) * stddev / n.sqrt());
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        let last = sorted.len() - 1;
        Some(Self {
            n: values.len() as u64,
            mean,
            stddev,
            ci95_low: half.map(|half| mean - half),
            ci95_high: half.map(|half| mean + half),
            median: sorted[last / 2].midpoint(sorted[values.len() / 2]),
            least: sorted[0],
            most: sorted[last],
        })
    }

    /// The 95 % interval of the ratio of two independent means, second to first, each of (number of values, mean, sample standard
    /// deviation): by the deviations of the logarithms of the means, with the degrees of freedom of Welch (Biometrika 34, 1947). `None`
    /// with fewer than two values on a side, or a mean that is not above 0.
    pub fn ratio_interval(first: (u64, f64, f64), second: (u64, f64, f64)) -> Option<(f64, f64)> {
        let part = |(n, mean, stddev): (u64, f64, f64)| {
            let of_log = stddev / mean;
            (n > 1 && mean > 0.0).then(|| (of_log * of_log / n as f64, (n - 1) as f64))
        };
        let ((one, one_degrees), (other, other_degrees)) = (part(first)?, part(second)?);
        let ratio = second.1 / first.1;
        let variance = one + other;
        if variance == 0.0 {
            return Some((ratio, ratio));
        }
        let degrees = variance * variance / (one * one / one_degrees + other * other / other_degrees);
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "degrees of freedom, rounded down")]
        let half = t_95((degrees as usize).max(1)) * variance.sqrt();
        Some((ratio * (-half).exp(), ratio * half.exp()))
    }

    /// Ratios of pairs (same seed on both sides); pairs whose base is 0 are left out.
    pub fn of_ratios(values: &[f64], bases: &[f64]) -> Option<Self> {
        let pairs = values.iter().zip(bases).filter(|(_, base)| **base != 0.0);
        Self::of(&pairs.map(|(value, base)| value / base).collect::<Vec<_>>())
    }
}

/// Two-sided 95 % quantile of Student's t. Table values to 30 degrees of freedom (any statistics text); beyond, the last
/// table value at or below, which errs to the wide side.
fn t_95(degrees: usize) -> f64 {
    const TO_30: [f64; 30] = [
        12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131,
        2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042,
    ];
    match degrees {
        0 => f64::INFINITY,
        1..=30 => TO_30[degrees - 1],
        31..=39 => 2.042,
        40..=59 => 2.021,
        60..=119 => 2.000,
        _ => 1.980,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// docs/spec/compaction.md#s11, E21: the original tables. Light and Fallback together give Any, to the last digit, if deviations
    /// are those of samples (n - 1).
    #[test]
    fn e21_light_and_fallback_together_give_any() {
        // Values with this mean and deviation: half of them below, half above, an odd one in between.
        let sample = |n: u32, mean: f64, stddev: f64| {
            let half = n / 2;
            let apart = stddev * (f64::from(n - 1) / f64::from(2 * half)).sqrt();
            let mut values = vec![mean; (n % 2) as usize];
            values.extend((0..half).flat_map(|_| [mean - apart, mean + apart]));
            let found = Summary::of(&values).unwrap();
            assert!((found.mean - mean).abs() < 1e-6 && (found.stddev - stddev).abs() < 1e-6, "{found:?}");
            values
        };
        let table = [
            ([(788, 1.83, 7.58), (9120, 5969.26, 22_476.06)], (9908, 5494.660, 21_624.040)),
            ([(11_167, 4.48, 1.41), (1030, 4286.13, 15_209.63)], (12_197, 366.052, 4575.534)),
        ];
        for (parts, (n, mean, stddev)) in table {
            let all: Vec<f64> = parts.into_iter().flat_map(|(n, mean, stddev)| sample(n, mean, stddev)).collect();
            let any = Summary::of(&all).unwrap();
            assert_eq!(any.n, n);
            assert!((any.mean - mean).abs() < 0.001 && (any.stddev - stddev).abs() < 0.001, "{any:?}");
        }
    }

    #[test]
    fn summary_by_hand() {
        // 2, 4, 6: mean 4, deviations -2 0 2, variance 8/2 = 4, t(2) = 4.303, half = 4.303 * 2 / sqrt 3.
        let summary = Summary::of(&[2.0, 4.0, 6.0]).unwrap();
        assert_eq!((summary.n, summary.mean, summary.stddev), (3, 4.0, 2.0));
        assert!((summary.ci95_high.unwrap() - 4.0 - 4.968_7).abs() < 1e-3);
        assert_eq!(Summary::of(&[5.0]).unwrap().ci95_low, None);
        assert_eq!(Summary::of(&[]), None);
    }

    /// Means 4 and 8 of three values with deviation 2 each: variances of the logarithms 1/12 and 1/48, degrees of freedom
    /// (5/48)² / ((1/12)² / 2 + (1/48)² / 2) = 2.94, so t(2) = 4.303, half = 4.303 * sqrt(5/48) = 1.3888.
    #[test]
    fn ratio_of_independent_means_by_hand() {
        let (low, high) = Summary::ratio_interval((3, 4.0, 2.0), (3, 8.0, 2.0)).unwrap();
        assert!((low - 2.0 * (-1.3888f64).exp()).abs() < 1e-3 && (high - 2.0 * 1.3888f64.exp()).abs() < 1e-2);
        assert_eq!(Summary::ratio_interval((2, 5.0, 0.0), (2, 10.0, 0.0)), Some((2.0, 2.0)));
        for none in [(1, 5.0, 0.0), (3, 0.0, 0.0), (3, -1.0, 2.0)] {
            assert_eq!(Summary::ratio_interval(none, (3, 1.0, 0.1)), None);
        }
    }

    #[test]
    fn ratios_pair_equal_seeds() {
        let summary = Summary::of_ratios(&[1.0, 4.0, 9.0], &[2.0, 4.0, 0.0]).unwrap();
        assert_eq!((summary.n, summary.mean), (2, 0.75));
    }
}
