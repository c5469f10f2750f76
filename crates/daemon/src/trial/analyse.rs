//! Compares a metric over pairs of blocks.

use super::boundary::for_student;
use serde::Serialize;

/// Means of a metric in the two blocks of a pair, after their warm-up.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Pair {
    pub a: f64,
    pub b: f64,
}

/// B compared with A.
///
/// Differences are B minus A, in the metric's unit. The interval has a planned level of 97 % at any number of interim analyses (a repeated
/// confidence interval: Jennison and Turnbull, JRSS B 51, 1989).
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Comparison {
    /// Number of pairs.
    pub pairs: u32,
    pub mean_a: f64,
    pub mean_b: f64,
    pub difference: f64,
    pub low: f64,
    pub high: f64,
    /// Sample standard deviation of the differences of pairs.
    pub deviation: f64,
    /// Correlation of a pair's difference with the difference of the pair before; 0 if all are equal.
    pub autocorrelation: f64,
    /// Number of independent pairs with the same information: smaller where differences correlate with their neighbours more than chance
    /// explains.
    pub effective_pairs: f64,
}

impl Comparison {
    /// Compares; `z` is the boundary of a standard normal value at this interim analysis. `None` below two pairs.
    pub(super) fn of(pairs: &[Pair], z: f64) -> Option<Self> {
        let count = u32::try_from(pairs.len()).ok().filter(|&count| count >= 2)?;
        let n = f64::from(count);
        let mean = |of: fn(&Pair) -> f64| pairs.iter().map(of).sum::<f64>() / n;
        let (mean_a, mean_b) = (mean(|pair| pair.a), mean(|pair| pair.b));
        let differences: Vec<f64> = pairs.iter().map(|pair| pair.b - pair.a).collect();
        let difference = differences.iter().sum::<f64>() / n;
        let apart: Vec<f64> = differences.iter().map(|one| one - difference).collect();
        let squares: f64 = apart.iter().map(|one| one * one).sum();
        let deviation = (squares / (n - 1.0)).sqrt();
        let products: f64 = apart.windows(2).map(|two| two[0] * two[1]).sum();
        let autocorrelation = if squares > 0.0 { products / squares } else { 0.0 };
        let effective_pairs = effective(n, autocorrelation);
        let half = if squares > 0.0 {
            for_student(z, effective_pairs - 1.0) * deviation / effective_pairs.sqrt()
        } else {
            0.0
        };
        Some(Self {
            pairs: count,
            mean_a,
            mean_b,
            difference,
            low: difference - half,
            high: difference + half,
            deviation,
            autocorrelation,
            effective_pairs,
        })
    }

    /// Whether the interval excludes "no difference".
    pub fn differs(&self) -> bool {
        self.low > 0.0 || self.high < 0.0
    }

    /// Largest absolute difference within the interval.
    pub fn largest(&self) -> f64 {
        self.low.abs().max(self.high.abs())
    }

    /// A difference as a share of the mean under A; `None` where that is 0.
    pub fn share(&self, difference: f64) -> Option<f64> {
        (self.mean_a != 0.0).then(|| difference / self.mean_a.abs())
    }
}

/// Number of independent pairs with the information of `n` pairs whose differences follow a first-order autoregression (any text on time
/// series). The order within pairs is drawn at random, which leaves no correlation unless the effect itself wanders. Chance alone gives up
/// to 1.645 / sqrt n in 19 of 20 trials, so only a larger value counts.
fn effective(n: f64, autocorrelation: f64) -> f64 {
    if n >= 6.0 && autocorrelation > 1.645 / n.sqrt() {
        (n * (1.0 - autocorrelation) / (1.0 + autocorrelation)).max(2.0)
    } else {
        n
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(differences: &[f64]) -> Vec<Pair> {
        differences.iter().map(|difference| Pair { a: 100.0, b: 100.0 + difference }).collect()
    }

    #[test]
    fn an_interval_by_hand() {
        // 2, 4, 6: mean 4, deviation 2, t(2) = 4.303, half = 4.303 * 2 / sqrt 3.
        let found = Comparison::of(&pairs(&[2.0, 4.0, 6.0]), 1.959_964).unwrap();
        assert_eq!((found.pairs, found.difference, found.deviation, found.effective_pairs), (3, 4.0, 2.0, 3.0));
        assert!((found.high - 4.0 - 4.968_7).abs() < 2e-3 && !found.differs(), "{found:?}");
        assert!((found.share(found.difference).unwrap() - 0.04).abs() < 1e-12);
        let equal = Comparison::of(&pairs(&[0.0; 5]), 1.96).unwrap();
        assert!(equal.low == 0.0 && equal.high == 0.0 && !equal.differs());
        assert_eq!(Comparison::of(&pairs(&[1.0]), 1.96), None);
    }

    #[test]
    fn an_effect_that_wanders_widens_the_interval() {
        let steady: Vec<f64> = (0..16).map(|index| if index % 2 == 0 { 1.0 } else { -1.0 }).collect();
        let wandering: Vec<f64> = (0..16).map(|index| if index < 8 { 1.0 } else { -1.0 }).collect();
        let of = |differences: &[f64]| Comparison::of(&pairs(differences), 1.96).unwrap();
        assert_eq!(of(&steady).effective_pairs, 16.0);
        // Lag 1: 14 products of +1 and one of -1 over 16 squares.
        let found = of(&wandering);
        assert!((found.autocorrelation - 13.0 / 16.0).abs() < 1e-12 && found.effective_pairs == 2.0, "{found:?}");
        assert!(found.high > 3.0 * of(&steady).high);
    }
}
