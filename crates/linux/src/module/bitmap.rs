//! Bitmaps of entries: bit 0 of word 0 is the first.

/// Most entries of one bitmap: 2^28, a terabyte of 4 KiB pages in 32 MiB of bits.
const ENTRIES_MAX: u64 = 1 << 28;

/// A bit for each entry of a range, in the order of addresses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Bitmap {
    words: Vec<u64>,
    nr_bits: u64,
}

impl Bitmap {
    /// A clear bitmap; `None` if it would exceed the largest size.
    pub(crate) fn sized(nr_bits: u64) -> Option<Self> {
        let nr_words = usize::try_from(nr_bits.div_ceil(64)).ok()?;
        (nr_bits <= ENTRIES_MAX).then(|| Self { words: vec![0; nr_words], nr_bits })
    }

    /// Number of bits.
    pub fn len(&self) -> u64 {
        self.nr_bits
    }

    /// Whether the bitmap has no bits.
    pub fn is_empty(&self) -> bool {
        self.nr_bits == 0
    }

    /// Whether the bit of an entry is set; false after the end.
    pub fn has(&self, index: u64) -> bool {
        let word = usize::try_from(index / 64).ok().and_then(|word| self.words.get(word));
        index < self.nr_bits && word.is_some_and(|word| word >> (index % 64) & 1 == 1)
    }

    /// Number of set bits.
    pub fn count(&self) -> u64 {
        self.ones().count() as u64
    }

    /// Numbers of the entries whose bits are set, ascending.
    pub fn ones(&self) -> impl Iterator<Item = u64> + '_ {
        let bits = |(number, &word): (u64, &u64)| {
            let mut left = word;
            std::iter::from_fn(move || {
                let bit = left.trailing_zeros();
                left &= left.wrapping_sub(1);
                (bit < 64).then_some(number * 64 + u64::from(bit))
            })
        };
        (0..).zip(&self.words).flat_map(bits).take_while(|&index| index < self.nr_bits)
    }

    /// The words, of which the last may have bits behind the end.
    pub fn words(&self) -> &[u64] {
        &self.words
    }

    pub(crate) fn words_from(&mut self, word: usize) -> &mut [u64] {
        self.words.get_mut(word..).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_are_counted_up_to_the_end() {
        let mut bitmap = Bitmap::sized(70).unwrap();
        assert_eq!(bitmap.words().len(), 2);
        bitmap.words_from(0).copy_from_slice(&[1 | 1 << 63, 1 << 5 | 1 << 6]);
        assert_eq!(bitmap.ones().collect::<Vec<_>>(), [0, 63, 69], "bit 70 is behind the end");
        assert_eq!((bitmap.count(), bitmap.len(), bitmap.has(69), bitmap.has(70)), (3, 70, true, false));
        assert!(bitmap.words_from(2).is_empty() && bitmap.words_from(9).is_empty());
        assert!(Bitmap::sized(u64::MAX).is_none() && Bitmap::sized(0).unwrap().is_empty());
    }
}
