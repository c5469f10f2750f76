//! Swap readahead (docs/spec/classic-lru.md#s9-3). Readahead is not used for synchronous devices: they read exactly one page.
//!
//! If all swap devices are without moving parts, neighbours are sought by virtual page, per mapping
//! ([`VmaReadahead`]); else by slot, for the whole system ([`ClusterReadahead`]). All numbers are pages or slots.

use isotherm_units::PageRange;

/// Hits that a fresh state pretends to have had: the first window is 8 pages.
const INITIAL_HITS: u32 = 4;
/// More hits are not counted.
const HITS_MAX: u32 = 63;
/// Pages covered by one page table: a window stays within it.
const TABLE_PAGES: u64 = 512;

/// The largest window for a setting of `page_cluster`: 2^that, at most 32; 1 (no readahead) for 0.
pub const fn window_max(page_cluster: u32) -> u64 {
    if page_cluster > 5 { 32 } else { 1 << page_cluster }
}

/// The size of the next window: grows with the hits on pages read ahead, does not shrink faster than by half, is at most
/// `max`. `prev` is where the last fault was, `prev_window` how much was read then.
pub fn window(prev: Option<u64>, current: u64, hits: u32, max: u64, prev_window: u64) -> u64 {
    let wanted = if hits == 0 {
        let adjacent = prev.is_some_and(|prev| prev.abs_diff(current) == 1);
        if adjacent { 2 } else { 1 }
    } else {
        (u64::from(hits) + 2).next_power_of_two().max(4)
    };
    wanted.min(max).max(prev_window / 2)
}

/// Readahead state of one mapping.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VmaReadahead {
    prev: Option<u64>,
    window: u64,
    hits: u32,
}

impl Default for VmaReadahead {
    fn default() -> Self {
        Self { prev: None, window: 0, hits: INITIAL_HITS }
    }
}

impl VmaReadahead {
    /// A fault at virtual page `page` must be read from swap: the pages to examine, `page` among them, all within `vma` and one page table.
    /// Pages among them whose entries are swap entries are to be read.
    pub fn fault(&mut self, page: u64, vma: PageRange, max: u64) -> PageRange {
        let here = PageRange::at(page, 1);
        if max <= 1 {
            return here;
        }
        let prev = self.prev;
        let window = window(prev, page, self.hits, max, self.window);
        *self = Self { prev: Some(page), window, hits: 0 };
        if window == 1 {
            return here;
        }
        let range = if prev.and_then(|prev| prev.checked_add(1)) == Some(page) {
            PageRange::at(page, window)
        } else if prev == Some(page.saturating_add(1)) {
            PageRange::new((page + 1).saturating_sub(window), page + 1)
        } else {
            let before = (window - 1) / 2;
            PageRange::new(page.saturating_sub(before), page + window - before)
        };
        let table_start = page - page % TABLE_PAGES;
        range.intersection(vma).intersection(PageRange::at(table_start, TABLE_PAGES))
    }

    /// A fault at `page` found its page in the swap cache. `was_readahead`: the page carried the readahead mark, which the
    /// caller clears (and counts `swap_ra_hit`).
    pub fn swap_cache_hit(&mut self, page: u64, was_readahead: bool) {
        self.prev = Some(page);
        if was_readahead {
            self.hits = (self.hits + 1).min(HITS_MAX);
        }
    }
}

/// Readahead state of the whole system, for devices that rotate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClusterReadahead {
    prev: Option<u64>,
    window: u64,
    hits: u32,
}

impl Default for ClusterReadahead {
    fn default() -> Self {
        Self { prev: None, window: 0, hits: INITIAL_HITS }
    }
}

impl ClusterReadahead {
    /// Slot `slot` of a device of `slots` must be read: the aligned block of slots to read, `slot` among them, as far as
    /// they are in use.
    pub fn fault(&mut self, slot: u64, slots: u64, max: u64) -> PageRange {
        if max <= 1 {
            return PageRange::at(slot, 1);
        }
        let hits = std::mem::take(&mut self.hits);
        self.window = window(self.prev, slot, hits, max, self.window);
        if hits == 0 {
            self.prev = Some(slot);
        }
        let start = slot - slot % self.window;
        PageRange::new(start, (start + self.window).min(slots.max(slot + 1)))
    }

    /// A page that was read ahead was touched for the first time.
    pub fn hit(&mut self) {
        self.hits = self.hits.saturating_add(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const VMA: PageRange = PageRange { start: 0, end: 1 << 20 };

    #[test]
    fn c13_swap_window() {
        let mut state = VmaReadahead::default();
        // First fault: 4 hits are assumed: 8 pages, 3 before and 4 after.
        assert_eq!(state.fault(100, VMA, 8), PageRange::new(97, 105));
        // No hit since, far away: 1, but not less than half of 8; then 2, then 1.
        assert_eq!(state.fault(300, VMA, 8), PageRange::new(299, 303));
        assert_eq!(state.fault(600, VMA, 8).len(), 2);
        assert_eq!(state.fault(900, VMA, 8), PageRange::at(900, 1));
        // The page after that: 2, forward.
        assert_eq!(state.fault(901, VMA, 8), PageRange::new(901, 903));
        // Three hits: 5, rounded up to 8.
        for page in [902, 950, 951] {
            state.swap_cache_hit(page, true);
        }
        assert_eq!(state.fault(2000, VMA, 8).len(), 8);
        assert_eq!(window(Some(5), 900, 3, 8, 1), 8);
    }

    #[test]
    fn windows_follow_the_direction() {
        let mut state = VmaReadahead::default();
        state.fault(200, VMA, 8);
        assert_eq!(state.fault(199, VMA, 8), PageRange::new(196, 200), "downwards: ends at the fault");
        // A hit that carried no mark only moves `prev`.
        state.swap_cache_hit(299, false);
        assert_eq!(state.fault(300, VMA, 8), PageRange::new(300, 302), "no hits, but adjacent");
    }

    #[test]
    fn windows_stay_in_the_mapping_and_the_table() {
        let fault = |page, vma| VmaReadahead::default().fault(page, vma, 8);
        assert_eq!(fault(1, VMA), PageRange::new(0, 6), "3 before page 1 is below zero");
        assert_eq!(fault(512, VMA), PageRange::new(512, 517), "not into the table before");
        assert_eq!(fault(510, VMA), PageRange::new(507, 512), "nor into the one after");
        assert_eq!(fault(100, PageRange::new(99, 101)), PageRange::new(99, 101));
    }

    #[test]
    fn page_cluster_bounds_the_window() {
        assert_eq!([0, 2, 3, 9].map(window_max), [1, 4, 8, 32]);
        let mut state = VmaReadahead::default();
        assert_eq!(state.fault(100, VMA, 1), PageRange::at(100, 1));
        assert_eq!(state, VmaReadahead::default(), "switched off: no state");
        assert_eq!(state.fault(100, VMA, 4), PageRange::new(99, 103), "6 wanted, 4 allowed");
    }

    #[test]
    fn clusters_are_aligned_blocks_of_slots() {
        let mut state = ClusterReadahead::default();
        assert_eq!(state.fault(13, 1000, 8), PageRange::new(8, 16), "4 hits assumed");
        assert_eq!(state.fault(998, 1000, 8), PageRange::new(996, 1000), "half of 8");
        assert_eq!(state.fault(500, 1000, 8).len(), 2);
        assert_eq!(state.fault(700, 1000, 8).len(), 1);
        assert_eq!(state.fault(701, 1000, 8), PageRange::new(700, 702), "next to the last");
        (0..3).for_each(|_| state.hit());
        assert_eq!(state.fault(702, 1000, 8), PageRange::new(696, 704));
        assert_eq!(state.fault(800, 1000, 1), PageRange::at(800, 1));
    }

    #[test]
    fn a_cluster_remembers_the_slot_only_without_hits() {
        let mut state = ClusterReadahead::default();
        state.fault(10, 1000, 8); // 4 hits: prev stays unset
        state.fault(100, 1000, 8); // no hits: prev = 100
        state.hit();
        state.fault(200, 1000, 8); // a hit: prev stays 100
        state.fault(400, 1000, 8);
        state.fault(600, 1000, 8);
        assert_eq!(state.fault(601, 1000, 8).len(), 2);
    }

    #[test]
    fn the_last_block_ends_with_the_device() {
        let mut state = ClusterReadahead::default();
        assert_eq!(state.fault(9, 10, 8), PageRange::new(8, 10));
    }

    proptest! {
        #[test]
        fn the_faulting_page_is_always_read(
            faults in prop::collection::vec((0u64..4096, any::<bool>()), 1..40), max in 1u64..=5,
        ) {
            let (mut vma, mut cluster) = (VmaReadahead::default(), ClusterReadahead::default());
            let max = 1 << max;
            for (page, hit) in faults {
                let range = vma.fault(page, PageRange::new(0, 4096), max);
                prop_assert!(range.contains(page) && range.len() <= max && range.end <= 4096);
                let block = cluster.fault(page, 4096, max);
                prop_assert!(block.contains(page) && block.len() <= max && block.end <= 4096);
                if hit {
                    vma.swap_cache_hit(page, true);
                    cluster.hit();
                }
            }
        }
    }
}
