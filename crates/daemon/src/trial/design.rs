//! Schedule of the configurations: pairs of blocks, with random order within each pair.

use isotherm_core::monitor::context_seed;
use isotherm_units::Duration;
use serde::Serialize;

/// One of the two configurations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub enum Arm {
    A,
    B,
}

impl std::fmt::Display for Arm {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::A => "A",
            Self::B => "B",
        })
    }
}

/// A stretch of time under one configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Block {
    /// Index of its pair, from 0.
    pub pair: u32,
    pub arm: Arm,
    /// Length, including the warm-up.
    pub length: Duration,
    /// Length of the warm-up at the start, whose samples do not count.
    pub warm_up: Duration,
}

/// When the trial ends, unless it is decided earlier.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Extent {
    /// The trial ends after this number of pairs.
    Pairs(u32),
    /// After the number of pairs that the noise of the first [`PILOT`](super::PILOT) pairs requires; at most this number.
    ByNoise(u32),
}

/// How a trial runs.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Design {
    /// Seed of the order within each pair.
    pub seed: u64,
    pub block: Duration,
    pub warm_up: Duration,
    pub extent: Extent,
    /// The difference that matters, as a share of the mean under A; above 0.
    pub difference: f64,
    /// Standard deviation of the differences of pairs as a share of the mean under A, if known beforehand; no pilot is needed then.
    pub expected_noise: Option<f64>,
}

/// Why a design is invalid.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum DesignError {
    #[error(
        "the warm-up, {warm_up}, takes all of a block of {block}: nothing is left to measure; shorter: below {block}"
    )]
    WarmUp { warm_up: Duration, block: Duration },
    #[error("{0} pairs are too few for an interval; allowed: {min} and more", min = super::PAIRS_MIN)]
    Pairs(u32),
    #[error("a difference of {0} of the mean cannot be looked for; allowed: above 0 up to 100%")]
    Difference(f64),
    #[error("an expected noise of {0} of the mean makes no sense; allowed: above 0")]
    Noise(f64),
}

impl Design {
    /// Checks that the values are consistent.
    ///
    /// # Errors
    /// [`DesignError`].
    pub fn check(&self) -> Result<(), DesignError> {
        if self.warm_up >= self.block {
            return Err(DesignError::WarmUp { warm_up: self.warm_up, block: self.block });
        }
        let (Extent::Pairs(pairs) | Extent::ByNoise(pairs)) = self.extent;
        if pairs < super::PAIRS_MIN {
            return Err(DesignError::Pairs(pairs));
        }
        if !(self.difference > 0.0 && self.difference <= 1.0) {
            return Err(DesignError::Difference(self.difference));
        }
        match self.expected_noise {
            Some(noise) if !(noise > 0.0 && noise.is_finite()) => Err(DesignError::Noise(noise)),
            _ => Ok(()),
        }
    }

    /// The two blocks of a pair, in the order in which they run.
    pub fn pair(&self, pair: u32) -> [Block; 2] {
        let block = |arm| Block { pair, arm, length: self.block, warm_up: self.warm_up };
        let (first, second) =
            if context_seed(self.seed, pair) >> 63 == 0 { (Arm::A, Arm::B) } else { (Arm::B, Arm::A) };
        [block(first), block(second)]
    }

    /// Time that this number of pairs takes.
    pub fn length(&self, pairs: u32) -> Duration {
        self.block.saturating_mul(2 * u64::from(pairs))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_pair_has_both_and_either_may_come_first() {
        let design = Design {
            seed: 1,
            block: Duration::from_secs(120),
            warm_up: Duration::from_secs(30),
            extent: Extent::Pairs(1000),
            difference: 0.05,
            expected_noise: None,
        };
        let firsts: Vec<Arm> = (0..1000).map(|pair| design.pair(pair)[0].arm).collect();
        assert!((0..1000).all(|pair| design.pair(pair)[0].arm != design.pair(pair)[1].arm));
        // Six standard deviations of 1000 tosses are 95.
        let a_first = firsts.iter().filter(|&&arm| arm == Arm::A).count();
        assert!((405..=595).contains(&a_first), "{a_first}");
        assert_ne!(firsts, (0..1000).map(|pair| Design { seed: 2, ..design }.pair(pair)[0].arm).collect::<Vec<_>>());
        assert_eq!(design.length(3), Duration::from_secs(720));
        assert!(Design { warm_up: design.block, ..design }.check().is_err());
        assert!(Design { extent: Extent::Pairs(3), ..design }.check().is_err());
        assert!(Design { difference: 0.0, ..design }.check().is_err() && design.check().is_ok());
    }
}
