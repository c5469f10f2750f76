//! Hashes that never change: of bytes, and of one number. The hashes distinguish things and spread them evenly; they resist no attacker.

/// Number that spreads neighbouring numbers before [`mix`]: 2^64 divided by the golden ratio.
pub const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// FNV-1a, 64 bits.
pub fn fnv1a(bytes: impl IntoIterator<Item = u8>) -> u64 {
    fnv1a_words(bytes.into_iter().map(u64::from))
}

/// FNV-1a with a whole word in place of each byte.
pub fn fnv1a_words(words: impl IntoIterator<Item = u64>) -> u64 {
    words.into_iter().fold(0xcbf2_9ce4_8422_2325, |hash, word| (hash ^ word).wrapping_mul(0x0100_0000_01b3))
}

/// The finaliser of SplitMix64 (Steele, Lea and Flood, 2014): each bit of `word` reaches each bit of the result, and no two words give
/// the same.
#[inline]
pub const fn mix(word: u64) -> u64 {
    let word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ (word >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Published values: of FNV's test vectors, and the first of SplitMix64 from seed 0.
    #[test]
    fn known_values() {
        assert_eq!((fnv1a([]), fnv1a(*b"foobar")), (0xcbf2_9ce4_8422_2325, 0x8594_4171_f739_67e8));
        assert_eq!(mix(GOLDEN), 0xe220_a839_7b1d_cdaf);
    }
}
