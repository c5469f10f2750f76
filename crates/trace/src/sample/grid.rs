//! The pages of a sample, and their positions in it.
//!
//! Pages are numbered along an axis: addresses of anonymous memory, or pages of one file. The axis is cut into strata of N groups of pages.
//! One group of each stratum is chosen, by a hash of the stratum and the axis. So every range of several strata has its share; a hash of
//! only the group would leave that to chance. Programs with a regular memory layout cannot resonate with the choice.
//!
//! ```text
//! whole    |..##....|......##|##......|    strata of 4 groups, ## chosen
//! sample   |##|##|##|                      group k is the chosen one of stratum k
//! ```

use isotherm_units::hash;

/// Bytes of a group: twice a window of file readahead, and more than a cluster of swap readahead.
const GROUP_BYTES: u64 = 256 << 10;

/// One axis of numbered pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Grid {
    group_pages: u64,
    /// Groups in a stratum, of which one is chosen.
    nr_groups: u64,
    /// Seed of the axis.
    seed: u64,
}

impl Grid {
    /// `axis`: name of the axis; equal names mean the same axis.
    pub(super) fn new(page_bytes: u64, nr_groups: u64, axis: &str) -> Self {
        let group_pages = (GROUP_BYTES / page_bytes.max(1)).max(1);
        Self { group_pages, nr_groups, seed: hash::fnv1a(axis.bytes()) }
    }

    /// First page of the chosen group of a stratum.
    fn chosen(self, stratum: u64) -> u64 {
        let word = hash::mix((self.seed ^ stratum).wrapping_add(hash::GOLDEN));
        (stratum * self.nr_groups + word % self.nr_groups) * self.group_pages
    }

    fn stratum(self, page: u64) -> u64 {
        page / (self.group_pages * self.nr_groups)
    }

    /// Number of chosen pages before `page`: the position in the sample of `page` if it is chosen, else of the next chosen page.
    pub(super) fn place(self, page: u64) -> u64 {
        let stratum = self.stratum(page);
        stratum * self.group_pages + page.saturating_sub(self.chosen(stratum)).min(self.group_pages)
    }

    /// The range, in the sample, of the chosen pages of `start..end`. May be empty.
    pub(super) fn places(self, start: u64, end: u64) -> (u64, u64) {
        (self.place(start), self.place(end))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn one_group_of_each_stratum_is_chosen_and_strata_differ() {
        let grid = Grid::new(4096, 16, "memory");
        let stratum = 16 * 64;
        let chosen: Vec<u64> = (0..100).map(|number| grid.chosen(number) - number * stratum).collect();
        assert!(chosen.iter().all(|at| at % 64 == 0 && at / 64 < 16));
        let kinds: std::collections::BTreeSet<u64> = chosen.iter().copied().collect();
        assert!(kinds.len() > 12, "{kinds:?}");
        for number in 0..100 {
            assert_eq!(grid.places(number * stratum, (number + 1) * stratum), (number * 64, (number + 1) * 64));
        }
        let other = Grid::new(4096, 16, "another");
        assert!((0..100).any(|number| other.chosen(number) != grid.chosen(number)));
    }

    #[test]
    fn groups_of_large_pages_are_of_as_many_bytes() {
        assert_eq!(Grid::new(64 << 10, 4, "").group_pages, 4);
        assert_eq!(Grid::new(2 << 20, 4, "").group_pages, 1);
    }

    proptest! {
        /// Page by page: a chosen page advances the position by one, any other page by none.
        #[test]
        fn places_count_chosen_pages(nr_groups in 2u64..40, from in 0u64..1 << 40, pages in 1u64..5000) {
            let grid = Grid::new(4096, nr_groups, "memory");
            let is_chosen = |page: u64| {
                let first = grid.chosen(grid.stratum(page));
                (first..first + 64).contains(&page)
            };
            let mut at = grid.place(from);
            for page in from..from + pages {
                prop_assert_eq!(grid.place(page), at);
                at += u64::from(is_chosen(page));
            }
            prop_assert_eq!(grid.places(from, from + pages), (grid.place(from), at));
        }
    }
}
