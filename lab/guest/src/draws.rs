//! Random numbers of a seed: the same ones in each boot.

/// The generator: xorshift64.
#[derive(Debug)]
pub(crate) struct Draws(u64);

impl Draws {
    pub(crate) const fn new(seed: u64) -> Self {
        Self(seed | 1)
    }

    /// The next one, from 0 up to `limit`, which is not included; 0 for a limit of 0.
    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit.max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn draws_stay_below_their_limit_and_are_those_of_the_seed() {
        let of = |seed: u64| {
            let mut draws = Draws::new(seed);
            (0..100).map(|_| draws.below(10)).collect::<Vec<_>>()
        };
        assert!(of(3).iter().all(|&draw| draw < 10) && of(3) == of(3) && of(3) != of(5));
        assert_eq!(Draws::new(7).below(0), 0);
    }
}
