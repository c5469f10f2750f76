//! Shares of outcomes, with what is known of the chance behind them.

use serde::Serialize;
use statrs::distribution::{Beta, ContinuousCDF};

/// `of` outcomes of a kind in `n`, and the chances under which that is not surprising.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Share {
    /// Outcomes of this kind.
    pub of: u64,
    /// All outcomes.
    pub n: u64,
    /// Lower end of the 95 % confidence interval of the chance (Clopper and Pearson, Biometrika 26, 1934), in millionths.
    pub low_ppm: u64,
    /// Upper end of that interval, in millionths.
    pub high_ppm: u64,
}

impl Share {
    /// `of` outcomes in `n`; of none nothing is known.
    pub fn new(of: u64, n: u64) -> Self {
        let of = of.min(n);
        let low_ppm = 1_000_000 - chance_at_most(n - of, n, 0.975);
        Self { of, n, low_ppm, high_ppm: chance_at_most(of, n, 0.975) }
    }

    /// Upper bound of the chance with a confidence of 95 %, in millionths: a larger one would give so few in one of twenty comparisons.
    pub fn at_most_ppm(&self) -> u64 {
        chance_at_most(self.of, self.n, 0.95)
    }

    /// Outcomes of this kind in all, in millionths; 0 of none.
    pub fn ppm(&self) -> u64 {
        let ppm = (u128::from(self.of) * 1_000_000).checked_div(self.n.into()).unwrap_or(0);
        u64::try_from(ppm).unwrap_or(u64::MAX)
    }
}

/// The largest chance, in millionths, under which `of` outcomes or fewer in `n` have a probability of 1 - `confidence`.
fn chance_at_most(of: u64, n: u64, confidence: f64) -> u64 {
    let chance = match Beta::new(of as f64 + 1.0, n.saturating_sub(of) as f64) {
        Ok(beta) => beta.inverse_cdf(confidence),
        // All of them, or no outcome at all.
        Err(_) => 1.0,
    };
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "between 0 and a million")]
    let ppm = (chance * 1e6).round() as u64;
    ppm
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of n without one, 1 - 0.05^(1/n) at most; the tables of 1934 for the rest.
    #[test]
    fn intervals_by_hand() {
        let none = Share::new(0, 59);
        assert_eq!((none.ppm(), none.low_ppm), (0, 0));
        assert!((49_000..=50_000).contains(&none.at_most_ppm()), "one in twenty, as 0.95^59 is 0.0485: {none:?}");
        let some = Share::new(3, 10);
        assert_eq!(some.ppm(), 300_000);
        assert!((66_000..=67_500).contains(&some.low_ppm) && (652_000..=653_000).contains(&some.high_ppm), "{some:?}");
        let all = Share::new(4, 4);
        assert_eq!((all.ppm(), all.high_ppm), (1_000_000, 1_000_000));
        assert!((397_000..=399_000).contains(&all.low_ppm), "0.025^(1/4): {all:?}");
        assert_eq!(Share::new(0, 0), Share { of: 0, n: 0, low_ppm: 0, high_ppm: 1_000_000 });
    }
}
