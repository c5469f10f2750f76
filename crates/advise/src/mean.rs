//! Means with intervals, for figures that fall into one group.

use isotherm_scenario::Summary;

/// A mean with its 95 % confidence interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Figure {
    pub(super) n: u64,
    pub(super) mean: f64,
    low: Option<f64>,
    high: Option<f64>,
}

impl Figure {
    pub(super) fn of(values: &[f64]) -> Option<Self> {
        let Summary { n, mean, ci95_low, ci95_high, .. } = Summary::of(values)?;
        Some(Self { n, mean, low: ci95_low, high: ci95_high })
    }

    pub(super) fn mean_int(&self) -> u64 {
        whole(self.mean)
    }

    pub(super) fn low_int(&self) -> Option<u64> {
        self.low.map(whole)
    }

    pub(super) fn high_int(&self) -> Option<u64> {
        self.high.map(whole)
    }
}

/// The nearest whole number, at least 0.
#[expect(clippy::cast_possible_truncation, reason = "it was counted in 64 bits; a cast saturates")]
fn whole(value: f64) -> u64 {
    value.round().max(0.0) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_means_with_intervals() {
        // 2, 4, 6: half-width 4.303 * 2 / sqrt 3 = 4.969.
        let figure = Figure::of(&[2.0, 4.0, 6.0]).expect("values");
        assert_eq!((figure.n, figure.mean_int(), figure.low_int(), figure.high_int()), (3, 4, Some(0), Some(9)));
        let one = Figure::of(&[5.0]).expect("a value");
        assert_eq!((one.mean_int(), one.low_int(), one.high_int()), (5, None, None));
    }
}
