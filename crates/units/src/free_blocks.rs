//! Free blocks by order, and indices of fragmentation from them (docs/spec/compaction.md#s3).
//!
//! All from the counts of one zone, as a row of `/proc/buddyinfo` has them: the same code reads a live kernel, a file and the
//! simulated machine. Integers throughout, truncated where the kernel truncates.

/// The most orders that are taken: kernels have 11, and some with larger pages up to 18.
pub const MAX_ORDERS: usize = ORDERS as usize;

/// The same, in the type of an order.
pub const ORDERS: u32 = 20;

/// The most free pages that are taken: 16 EiB in pages of 4 KiB. Below this number no formula here overflows.
pub const MAX_FREE_PAGES: u64 = 1 << 52;

/// log2 of the pages of a huge page, and of a page block, on x86-64: 2 MiB.
pub const HUGE_ORDER: u32 = 9;

/// Counts that cannot be free memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BlocksError {
    /// The number of orders is 0 or too large.
    #[error("{0} orders; allowed: 1 to {MAX_ORDERS}")]
    Orders(usize),
    /// The counts add up to more memory than an address space can hold.
    #[error("more than {MAX_FREE_PAGES} free pages (16 EiB in pages of 4 KiB), which no machine has")]
    TooMany,
}

/// How many free blocks of each order a zone has, all migrate types together. A block of order n is 2^n pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FreeBlocks {
    counts: [u64; MAX_ORDERS],
    orders: u8,
}

impl FreeBlocks {
    /// Blocks by order, from order 0 up.
    ///
    /// # Errors
    /// No orders, more than [`MAX_ORDERS`], or more than [`MAX_FREE_PAGES`] in all.
    pub fn new(counts: &[u64]) -> Result<Self, BlocksError> {
        let orders = match u8::try_from(counts.len()) {
            Ok(orders) if orders > 0 && counts.len() <= MAX_ORDERS => orders,
            _ => return Err(BlocksError::Orders(counts.len())),
        };
        let pages: u128 = counts.iter().enumerate().map(|(order, &count)| u128::from(count) << order).sum();
        if pages > u128::from(MAX_FREE_PAGES) {
            return Err(BlocksError::TooMany);
        }
        let mut blocks = Self { counts: [0; MAX_ORDERS], orders };
        blocks.counts[..counts.len()].copy_from_slice(counts);
        Ok(blocks)
    }

    /// Blocks by order, from order 0 up.
    pub fn counts(&self) -> &[u64] {
        &self.counts[..usize::from(self.orders)]
    }

    /// How many orders there are: 11 where the largest is 10.
    pub const fn orders(&self) -> u32 {
        self.orders as u32
    }

    /// Free base pages, of all orders together.
    pub fn pages(&self) -> u64 {
        self.counts().iter().enumerate().map(|(order, count)| count << order).sum()
    }

    /// Number of free blocks, of all orders together.
    pub fn blocks(&self) -> u64 {
        self.counts().iter().sum()
    }

    /// Blocks of `order` that there are, or are had by splitting larger ones. 0 above the largest order.
    pub fn suitable(&self, order: u32) -> u64 {
        let larger = self.counts().iter().enumerate().skip(order as usize);
        larger.map(|(at, count)| count << (at - order as usize)).sum()
    }

    /// External fragmentation for `order`: free pages that lie in smaller blocks, percent of free pages, truncated. 0 where
    /// nothing is free. The original series calls it extfrag, the kernel a zone's fragmentation score. Source: Linux 7.2
    /// `mm/vmstat.c`, `extfrag_for_order`.
    pub fn extfrag(&self, order: u32) -> u32 {
        self.extfrag_with(order, 0)
    }

    /// [`extfrag`](Self::extfrag) as it was if `extra` more pages were free in blocks that are too small: those which a
    /// compaction under way holds.
    pub fn extfrag_with(&self, order: u32, extra: u64) -> u32 {
        let free = self.pages().saturating_add(extra).min(2 * MAX_FREE_PAGES);
        let small = free - self.suitable_pages(order);
        small.saturating_mul(100).checked_div(free).map_or(0, small_number)
    }

    /// Unusable free space index for `order`: the same share in per mille; 1000 where nothing is free.
    /// Source: Linux 7.2 `mm/vmstat.c`, `unusable_free_index`.
    pub fn unusable(&self, order: u32) -> u32 {
        let free = self.pages();
        ((free - self.suitable_pages(order)) * 1000).checked_div(free).map_or(1000, small_number)
    }

    /// Fragmentation index for `order`, per mille: −1000 where an allocation would succeed, else towards 0 where it would fail
    /// for lack of memory, towards 1000 for fragmentation. With little memory in few blocks it is a small negative number,
    /// which means hopeless lack of memory, but passes the kernel's test of `0..=threshold` as if it were fragmentation.
    /// 0 where nothing is free. Source: Linux 7.2 `mm/vmstat.c`, `__fragmentation_index`.
    pub fn fragmentation_index(&self, order: u32) -> i32 {
        let blocks = self.blocks();
        if blocks == 0 {
            return 0;
        }
        if self.suitable(order) > 0 {
            return -1000;
        }
        let requested = (self.pages() * 1000).checked_shr(order).unwrap_or(0);
        let lacking = (1000 + requested) / blocks;
        // No block reaches the order, so that pages < blocks << order, and the missing part stays below 2000.
        1000 - i32::try_from(lacking).unwrap_or(i32::MAX)
    }

    fn suitable_pages(&self, order: u32) -> u64 {
        self.suitable(order).checked_shl(order).unwrap_or(0)
    }
}

/// A quotient that is at most 1000.
fn small_number(quotient: u64) -> u32 {
    u32::try_from(quotient).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn blocks(row: &[u64]) -> FreeBlocks {
        let mut counts = [0; 11];
        counts[..row.len()].copy_from_slice(row);
        FreeBlocks::new(&counts).expect("orders and pages in range")
    }

    /// The original fragmenter on `sections` of 2 MiB: the first 384 pages of each freed.
    fn contig(sections: u64) -> FreeBlocks {
        blocks(&[0, 0, 0, 0, 0, 0, 0, sections, sections])
    }

    /// The same, every fourth page kept.
    fn stride(sections: u64) -> FreeBlocks {
        blocks(&[128 * sections, 128 * sections])
    }

    fn over_orders<T>(index: impl Fn(u32) -> T) -> Vec<T> {
        (0..11).map(index).collect()
    }

    const NORMAL: [u64; 11] = [695, 2, 211, 87, 20, 8, 2, 1, 14, 15, 18];
    const NORMAL_LATER: [u64; 11] = [1119, 1465, 1156, 1013, 537, 60, 43, 24, 19, 78, 1950];

    /// docs/spec/compaction.md#s11, E1, and the same row by hand in section 7.3.
    #[test]
    fn e1_a_real_row() {
        let row = blocks(&NORMAL);
        assert_eq!((row.pages(), row.blocks(), row.suitable(9), row.suitable(10)), (32767, 1073, 51, 18));
        assert_eq!(over_orders(|k| row.extfrag(k)), [0, 2, 2, 4, 6, 7, 8, 8, 9, 20, 43]);
        assert_eq!(over_orders(|k| row.unusable(k)), [0, 21, 21, 47, 68, 78, 85, 89, 93, 203, 437]);
        assert_eq!(over_orders(|k| row.fragmentation_index(k)), [-1000; 11]);
    }

    #[test]
    fn e2_more_real_rows() {
        let dma = blocks(&[0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 3]);
        assert_eq!((dma.pages(), dma.blocks(), dma.suitable(9)), (3840, 5, 7));
        assert_eq!(over_orders(|k| dma.extfrag(k)), [0, 0, 0, 0, 0, 0, 0, 0, 0, 6, 20]);
        assert_eq!(over_orders(|k| dma.unusable(k)), [0, 0, 0, 0, 0, 0, 0, 0, 0, 66, 200]);
        let dma32 = blocks(&[2, 2, 4, 2, 5, 4, 4, 4, 5, 3, 751]);
        assert_eq!((dma32.pages(), dma32.blocks(), dma32.suitable(9)), (772_854, 786, 1505));
        assert_eq!(over_orders(|k| dma32.extfrag(k)), [0; 11]);
        assert_eq!(over_orders(|k| dma32.unusable(k)), [0, 0, 0, 0, 0, 0, 0, 0, 1, 2, 4]);
        let later = blocks(&NORMAL_LATER);
        assert_eq!((later.pages(), later.blocks(), later.suitable(9)), (2_074_713, 7464, 3978));
        assert_eq!(over_orders(|k| later.extfrag(k)), [0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 3]);
        assert_eq!(over_orders(|k| later.unusable(k)), [0, 0, 1, 4, 8, 12, 13, 14, 15, 18, 37]);
    }

    #[test]
    fn e4_to_e7_corner_rows() {
        let e4 = blocks(&[512]);
        assert_eq!((e4.pages(), e4.blocks(), e4.suitable(9)), (512, 512, 0));
        assert_eq!((e4.extfrag(9), e4.unusable(9)), (100, 1000), "E4");
        assert_eq!((e4.fragmentation_index(9), e4.fragmentation_index(4)), (997, 936), "E4");
        let e5 = blocks(&[]);
        assert_eq!((e5.extfrag(9), e5.unusable(9), e5.fragmentation_index(9)), (0, 1000, 0), "E5: opposites");
        let half = blocks(&[512, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
        assert_eq!((half.extfrag(9), half.unusable(9), half.fragmentation_index(9)), (50, 500, -1000), "E6");
        let whole = blocks(&[0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
        assert_eq!((whole.extfrag(9), whole.unusable(9), whole.fragmentation_index(9)), (0, 0, -1000), "E6");
        let one = blocks(&[1]);
        assert_eq!((one.fragmentation_index(9), one.fragmentation_index(4)), (-1, -62), "E7: below zero");
        let few = blocks(&[100, 50, 25]);
        assert_eq!((few.pages(), few.blocks()), (300, 175));
        assert_eq!((few.fragmentation_index(9), few.fragmentation_index(4)), (991, 888), "E7");
    }

    /// E9, and section 9.2.
    #[test]
    fn e9_the_seeds_fragmenter() {
        let of_contig =
            [(1, 125), (2, 375), (3, 459), (4, 500), (5, 525), (6, 542), (7, 554), (8, 563), (10, 575), (100, 620)];
        for (sections, index) in of_contig.into_iter().chain([(1000, 625), (16384, 625)]) {
            assert_eq!(contig(sections).fragmentation_index(9), index, "contig, {sections} sections");
            assert_eq!(contig(sections).extfrag(9), 100);
        }
        for (sections, index) in [(1, 994), (2, 996), (4, 997), (100, 998), (16384, 998)] {
            assert_eq!(stride(sections).fragmentation_index(9), index, "stride, {sections} sections");
            assert_eq!(stride(sections).extfrag(9), 100);
        }
        assert_eq!((contig(16384).pages(), contig(16384).blocks()), (6_291_456, 2 * 16384));
        assert_eq!((stride(16384).pages(), stride(16384).blocks()), (6_291_456, 256 * 16384));
    }

    #[test]
    fn counts_out_of_range_are_refused() {
        assert_eq!(FreeBlocks::new(&[]), Err(BlocksError::Orders(0)));
        assert_eq!(FreeBlocks::new(&[0; MAX_ORDERS + 1]), Err(BlocksError::Orders(21)));
        assert_eq!(FreeBlocks::new(&[u64::MAX]), Err(BlocksError::TooMany));
        assert_eq!(FreeBlocks::new(&[u64::MAX; MAX_ORDERS]), Err(BlocksError::TooMany));
        assert_eq!(FreeBlocks::new(&[MAX_FREE_PAGES]).unwrap().fragmentation_index(0), -1000);
    }

    #[test]
    fn orders_that_are_not_there_have_no_blocks() {
        let four_orders = FreeBlocks::new(&[1, 1, 1, 1]).unwrap();
        for order in [4, 9, 63, 64, 1000, u32::MAX] {
            assert_eq!((four_orders.suitable(order), four_orders.extfrag(order)), (0, 100), "order {order}");
        }
        assert_eq!(four_orders.fragmentation_index(64), 1000 - 1000 / 4);
    }

    proptest! {
        /// Section 6.1: extfrag does not fall with the order. And each index stays in its range, whatever the counts.
        #[test]
        fn indices_stay_in_range(counts in prop::collection::vec(0u64..1 << 40, 1..=11), order in 0u32..25) {
            let blocks = FreeBlocks::new(&counts).unwrap();
            prop_assert!(blocks.extfrag(order) <= blocks.extfrag(order + 1) && blocks.extfrag(order) <= 100);
            prop_assert!(blocks.unusable(order) <= 1000);
            prop_assert!((-1000..=1000).contains(&blocks.fragmentation_index(order)));
            let naive: u128 = counts.iter().enumerate().map(|(o, &n)| if o < order as usize { u128::from(n) << o } else { 0 }).sum();
            let free = u128::from(blocks.pages());
            prop_assert_eq!(u128::from(blocks.extfrag(order)), (naive * 100).checked_div(free).unwrap_or(0));
        }
    }
}
