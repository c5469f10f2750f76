//! A bit per block.

/// Bits from 0 up. Memory is untouched until bits are set.
#[derive(Debug)]
pub(super) struct Bits(Vec<u64>);

impl Bits {
    pub(super) fn new(len: u32) -> Self {
        Self(vec![0; len.div_ceil(64) as usize])
    }

    /// False beyond the end.
    #[inline]
    pub(super) fn get(&self, at: u32) -> bool {
        self.0.get((at / 64) as usize).is_some_and(|word| word >> (at % 64) & 1 != 0)
    }

    #[inline]
    pub(super) fn set(&mut self, at: u32) {
        self.0[(at / 64) as usize] |= 1 << (at % 64);
    }

    #[inline]
    pub(super) fn clear(&mut self, at: u32) {
        self.0[(at / 64) as usize] &= !(1 << (at % 64));
    }

    pub(super) fn count(&self) -> u64 {
        self.0.iter().map(|word| u64::from(word.count_ones())).sum()
    }
}
