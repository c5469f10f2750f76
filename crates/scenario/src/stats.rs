//! Means with confidence intervals.

/// n values summed up. Floats, because they are reported and never decided on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Summary {
    /// How many.
    pub n: u64,
    /// Mean.
    pub mean: f64,
    /// Sample standard deviation; 0 for one value.
    pub stddev: f64,
    /// Lower end of the 95 % confidence interval of the mean (Student's t); `None` for one value.
    pub ci95_low: Option<f64>,
    /// Upper end.
    pub ci95_high: Option<f64>,
}

impl Summary {
    /// Sums values up; `None` without any.
    pub fn of(values: &[f64]) -> Option<Self> {
        if values.is_empty() {
            return None;
        }
        let n = values.len() as f64;
        let mean = values.iter().sum::<f64>() / n;
        let squares: f64 = values.iter().map(|value| (value - mean) * (value - mean)).sum();
        let stddev = if values.len() > 1 { (squares / (n - 1.0)).sqrt() } else { 0.0 };
        let half = (values.len() > 1).then(|| t_95(values.len() - 1) * stddev / n.sqrt());
        Some(Self {
            n: values.len() as u64,
            mean,
            stddev,
            ci95_low: half.map(|half| mean - half),
            ci95_high: half.map(|half| mean + half),
        })
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

    #[test]
    fn summary_by_hand() {
        // 2, 4, 6: mean 4, deviations -2 0 2, variance 8/2 = 4, t(2) = 4.303, half = 4.303 * 2 / sqrt 3.
        let summary = Summary::of(&[2.0, 4.0, 6.0]).unwrap();
        assert_eq!((summary.n, summary.mean, summary.stddev), (3, 4.0, 2.0));
        assert!((summary.ci95_high.unwrap() - 4.0 - 4.968_7).abs() < 1e-3);
        assert_eq!(Summary::of(&[5.0]).unwrap().ci95_low, None);
        assert_eq!(Summary::of(&[]), None);
    }

    #[test]
    fn ratios_pair_equal_seeds() {
        let summary = Summary::of_ratios(&[1.0, 4.0, 9.0], &[2.0, 4.0, 0.0]).unwrap();
        assert_eq!((summary.n, summary.mean), (2, 0.75));
    }
}
