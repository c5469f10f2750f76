//! Random numbers for made-up input: benchmarks and generated cases. Decisions draw from a generator of their own.

/// xorshift64* (Vigna, 2016): small and fast. Equal seeds give equal numbers on every machine.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// From a seed; 0 counts as 1, because the generator would stay there.
    pub const fn new(seed: u64) -> Self {
        Self(if seed == 0 { 1 } else { seed })
    }

    /// Any number but 0; the high bits are the better ones.
    #[inline]
    #[expect(clippy::should_implement_trait, reason = "it never ends, so it is no iterator")]
    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// A number of `[0, bound)`, by multiplication and shift; 0 if `bound` is 0.
    #[inline]
    pub fn below(&mut self, bound: u64) -> u64 {
        let product = u128::from(self.next()) * u128::from(bound);
        u64::try_from(product >> 64).expect("a high half")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_seeds_give_equal_numbers_below_the_bound() {
        let draw = |seed| {
            let mut random = Random::new(seed);
            (0..1000).map(|_| random.below(10)).collect::<Vec<_>>()
        };
        assert_eq!(draw(7), draw(7));
        assert_ne!(draw(7), draw(8));
        assert!((0..10).all(|number| draw(0).contains(&number)), "a seed of 0 is none to stay at");
        assert_eq!(Random::new(1).below(0), 0);
        assert_eq!(Random::new(1).next(), 0x47e4_ce4b_896c_dd1d);
    }
}
