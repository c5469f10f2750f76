//! A bit per block.

use std::ops::Range;

/// Bits from 0 up. Memory is untouched until bits are set.
#[derive(Clone, Debug)]
pub(in crate::memory) struct Bits(Vec<u64>);

impl Bits {
    pub(in crate::memory) fn new(len: u32) -> Self {
        Self(vec![0; len.div_ceil(64) as usize])
    }

    /// False after the end.
    #[inline]
    pub(super) fn get(&self, at: u32) -> bool {
        self.0.get((at / 64) as usize).is_some_and(|word| word >> (at % 64) & 1 != 0)
    }

    #[inline]
    pub(in crate::memory) fn set(&mut self, at: u32) {
        debug_assert!(!self.get(at), "each bit has one owner, who sets it once");
        self.0[(at / 64) as usize] |= 1 << (at % 64);
    }

    #[inline]
    pub(super) fn clear(&mut self, at: u32) {
        debug_assert!(self.get(at), "who clears a bit has set it");
        self.0[(at / 64) as usize] &= !(1 << (at % 64));
    }

    pub(super) fn count(&self) -> u64 {
        self.0.iter().map(|word| u64::from(word.count_ones())).sum()
    }

    /// Runs of set bits, from the lowest.
    pub(in crate::memory) fn runs(&self) -> impl Iterator<Item = Range<u32>> + '_ {
        let mut at = 0;
        std::iter::from_fn(move || {
            let start = self.next(at, 0)?;
            at = self.next(start, u64::MAX).unwrap_or_else(|| self.len());
            Some(start..at)
        })
    }

    /// The first bit from `at` on that differs from `other`, whose bits are all alike.
    #[inline]
    fn next(&self, at: u32, other: u64) -> Option<u32> {
        let mut index = (at / 64) as usize;
        let mut word = (self.0.get(index)? ^ other) & (u64::MAX << (at % 64));
        while word == 0 {
            index += 1;
            word = self.0.get(index)? ^ other;
        }
        Some(u32::try_from(index * 64).expect("as many bits as frames") + word.trailing_zeros())
    }

    fn len(&self) -> u32 {
        u32::try_from(self.0.len() * 64).expect("as many bits as frames")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_join_words_and_end_with_the_last_bit() {
        let table: [(&[Range<u32>], u32); 4] =
            [(&[], 64), (&[0..1, 2..3], 64), (&[5..200, 210..256], 256), (&[63..64, 65..128, 190..192], 192)];
        for (runs, len) in table {
            let mut bits = Bits::new(len);
            runs.iter().cloned().flatten().for_each(|at| bits.set(at));
            assert_eq!(bits.runs().collect::<Vec<_>>(), runs, "{len} bits");
        }
    }
}
