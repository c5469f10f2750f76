//! Number of pairs needed to find a difference.

use super::boundary::{ALPHA, student};
use super::{LOOKS, PAIRS_MIN};
use serde::Serialize;
use statrs::distribution::{ChiSquared, ContinuousCDF as _};

/// Chance to find the difference, if it exists.
pub const POWER: f64 = 0.8;
/// Factor by which interim analyses lengthen the longest trial: 1.024 for four analyses of O'Brien and Fleming at 5 % and a power of 80 %
/// (Jennison and Turnbull, Group Sequential Methods, 2000, table 2.4), rounded up.
const INFLATION: f64 = 1.03;
/// The noise of a pilot is itself uncertain. Planning with the upper end of its one-sided 80 % interval gives the announced power in four
/// trials of five (Browne, Statistics in Medicine 14, 1995).
const CONFIDENCE: f64 = 0.8;

/// Announcement of a trial once the noise is known.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Forecast {
    /// Standard deviation of the differences of pairs as a share of the mean under A, as used for planning.
    pub noise: f64,
    /// Pairs that find the difference asked for in four trials of five.
    pub pairs_needed: u32,
    /// Pairs after which the trial ends, unless it is decided earlier.
    pub pairs: u32,
    /// Difference that `pairs` pairs find in four trials of five, as a share of the mean under A.
    pub visible: f64,
}

/// Upper confidence limit of a standard deviation estimated from `pairs` pairs.
pub(super) fn planned_noise(deviation: f64, pairs: u32) -> f64 {
    let degrees = f64::from(pairs.max(2) - 1);
    let chi = ChiSquared::new(degrees).expect("at least one degree").inverse_cdf(1.0 - CONFIDENCE);
    deviation * (degrees / chi).sqrt()
}

/// Difference that `pairs` pairs find with [`POWER`].
pub(super) fn visible(noise: f64, pairs: u32) -> f64 {
    let degrees = f64::from(pairs.max(2) - 1);
    let reach = student(1.0 - ALPHA / 2.0, degrees) + student(POWER, degrees);
    reach * noise * (INFLATION / f64::from(pairs.max(2))).sqrt()
}

/// The fewest pairs that find a difference with [`POWER`], up to `max`; `max + 1`: more.
pub(super) fn needed(noise: f64, difference: f64, max: u32) -> u32 {
    (PAIRS_MIN..=max).find(|&pairs| visible(noise, pairs) <= difference).unwrap_or(max.saturating_add(1))
}

/// Numbers of pairs before each interim analysis: at even shares, none before `first`.
pub(super) fn looks(first: u32, pairs: u32) -> Vec<u32> {
    let mut looks: Vec<u32> = (1..=LOOKS).map(|look| (pairs * look).div_ceil(LOOKS)).collect();
    looks.retain(|&look| look >= first.min(pairs));
    looks.dedup();
    looks
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_noise_needs_more_pairs() {
        // Normal values: ((2.17 + 0.84) * 10 / 5)^2 = 36.2; Student's t and the interim analyses add some.
        let pairs = needed(0.10, 0.05, 1000);
        assert!((37..=41).contains(&pairs), "{pairs}");
        assert!(needed(0.20, 0.05, 1000) > 3 * pairs && needed(0.001, 0.05, 1000) == PAIRS_MIN);
        assert_eq!(needed(1.0, 0.01, 100), 101);
        assert!((visible(0.10, pairs) - 0.05).abs() < 0.002);
    }

    /// The 20 % quantile of chi-squared with 5 degrees of freedom is 2.343 (any table).
    #[test]
    fn a_short_pilot_is_planned_for_with_care() {
        assert!((planned_noise(1.0, 6) - (5.0_f64 / 2.343).sqrt()).abs() < 1e-3);
        assert!(planned_noise(1.0, 60) < 1.1);
    }

    #[test]
    fn looks_are_even_and_not_too_early() {
        assert_eq!(looks(6, 40), [10, 20, 30, 40]);
        assert_eq!(looks(6, 10), [8, 10]);
        assert_eq!(looks(6, 4), [4]);
    }
}
