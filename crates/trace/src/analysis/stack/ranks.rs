//! A set of small numbers that counts its members below a number.

/// Numbers are below this.
pub(super) const RANKS: usize = GROUPS * GROUP_BITS;
const GROUPS: usize = 32;
const GROUP_WORDS: usize = 32;
const GROUP_BITS: usize = GROUP_WORDS * 64;

/// The set: one bit a number, and running counts that are kept up to date with each insertion. An insertion adds to the counts after it,
/// twice 32 of them in eight vector operations; a lookup adds three numbers. The set takes 12 KiB.
#[derive(Debug)]
pub(super) struct Ranks {
    words: Box<[[u64; GROUP_WORDS]; GROUPS]>,
    /// Members in the same group before each word.
    before_word: Box<[[u16; GROUP_WORDS]; GROUPS]>,
    /// Members before each group.
    before_group: [u16; GROUPS],
}

/// What a member at one of 32 positions adds to the counts of all positions: 1 after it.
const BEHIND: [[u16; 32]; 32] = {
    let mut table = [[0; 32]; 32];
    let mut place = 0;
    while place < 32 {
        let mut behind = place + 1;
        while behind < 32 {
            table[place][behind] = 1;
            behind += 1;
        }
        place += 1;
    }
    table
};
const _: () = assert!(GROUPS == 32 && GROUP_WORDS == 32 && (GROUPS - 1) * GROUP_BITS <= u16::MAX as usize);

impl Default for Ranks {
    fn default() -> Self {
        Self {
            words: Box::new([[0; GROUP_WORDS]; GROUPS]),
            before_word: Box::new([[0; GROUP_WORDS]; GROUPS]),
            before_group: [0; GROUPS],
        }
    }
}

impl Ranks {
    /// Empties the set; all members are below `limit`.
    pub(super) fn clear(&mut self, limit: usize) {
        let groups = limit.div_ceil(GROUP_BITS);
        self.words[..groups].fill([0; GROUP_WORDS]);
        self.before_word[..groups].fill([0; GROUP_WORDS]);
        self.before_group.fill(0);
    }

    /// Adds a number, which is not in the set.
    #[inline]
    pub(super) fn insert(&mut self, number: usize) {
        let (group, word) = (number / GROUP_BITS % GROUPS, number / 64 % GROUP_WORDS);
        self.words[group][word] |= 1 << (number % 64);
        self.before_word[group].iter_mut().zip(&BEHIND[word]).for_each(|(count, one)| *count += one);
        self.before_group.iter_mut().zip(&BEHIND[group]).for_each(|(count, one)| *count += one);
    }

    /// Number of members below `number`.
    #[inline]
    pub(super) fn below(&self, number: usize) -> u32 {
        let (group, word) = (number / GROUP_BITS % GROUPS, number / 64 % GROUP_WORDS);
        let bits = self.words[group][word] & ((1 << (number % 64)) - 1);
        u32::from(self.before_group[group]) + u32::from(self.before_word[group][word]) + bits.count_ones()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        #[test]
        fn equals_a_sorted_set(
            numbers in proptest::collection::btree_set(0..RANKS, 0..400),
            asked in proptest::collection::vec(0..RANKS, 1..50),
        ) {
            let mut ranks = Ranks::default();
            ranks.insert(7);
            ranks.clear(RANKS);
            let mut model = BTreeSet::new();
            // Not sorted.
            let (even, odd): (Vec<usize>, Vec<usize>) = numbers.iter().partition(|number| **number % 2 == 0);
            for number in even.into_iter().chain(odd) {
                ranks.insert(number);
                model.insert(number);
            }
            for number in asked {
                prop_assert_eq!(ranks.below(number) as usize, model.range(..number).count());
            }
        }
    }
}
