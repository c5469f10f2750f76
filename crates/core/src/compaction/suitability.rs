//! Whether compaction can help a zone at all (docs/spec/compaction.md#s2-5, #s4-5): watermarks and free pages to move into.

use crate::vocabulary::{FreeBlocks, Marks};

/// Orders above it are costly: they may fail, and need a margin.
pub const COSTLY_ORDER: u32 = 3;

/// `vm.extfrag_threshold` unless it is set: a fragmentation index up to it means lack of memory.
pub const EXTFRAG_THRESHOLD: i32 = 500;

/// A zone as a watermark check sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Level<'a> {
    /// `NR_FREE_PAGES`: free pages, without those on per-CPU lists.
    pub free: u64,
    /// Free blocks of types that the request may take.
    pub blocks: &'a FreeBlocks,
    /// Pages kept back from this request because it could use a higher zone.
    pub reserve: u64,
}

impl Level<'_> {
    /// Whether a request for `order` leaves more than `mark` pages free and there is a block for it. A mark that is met exactly is not
    /// enough. Source: Linux 7.2 `mm/page_alloc.c`, `__zone_watermark_ok`.
    pub fn watermark_ok(&self, order: u32, mark: u64) -> bool {
        let taken = 1_u64.checked_shl(order).map_or(u64::MAX, |pages| pages - 1);
        // The kernel's `free` is signed: a request for more than there is does not meet any mark.
        let is_above = self.free.checked_sub(taken).is_some_and(|left| left > mark.saturating_add(self.reserve));
        is_above && (order == 0 || self.blocks.suitable(order) > 0)
    }
}

/// Number of free pages that compaction wants above the mark, as targets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Gap {
    /// Twice the request, at most 32 pages.
    #[default]
    Capped,
    /// Twice the request, as in 5.3: 1024 pages for a huge page.
    Linux5_3,
}

impl Gap {
    /// The gap in base pages, for a request of `order`.
    pub fn pages(self, order: u32) -> u64 {
        let twice = 2_u64.checked_shl(order).unwrap_or(u64::MAX);
        if self == Self::Capped { twice.min(32) } else { twice }
    }
}

/// Free pages that compaction for `order` needs above a mark: the gap, and for costly orders the distance from min to low.
pub fn margin(order: u32, marks: &Marks, gap: Gap) -> u64 {
    let costly = if order > COSTLY_ORDER { marks.low.saturating_sub(marks.min) } else { 0 };
    gap.pages(order).saturating_add(costly)
}

/// The verdict on compaction for an order before it starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Suitability {
    /// There is a free block, so compaction is not needed.
    Met,
    /// Too few free pages to move others into.
    TooFull,
    /// Memory is short rather than fragmented.
    NotFragmented,
    /// Compaction may help.
    Suitable,
}

/// Whether compacting for `order` above `mark` makes sense; `marks` of the zone. Computed without CMA and for a caller that may wait.
/// Source: Linux 7.2 `mm/compaction.c`, `compaction_suit_allocation_order`.
pub fn suitability(level: &Level<'_>, order: u32, mark: u64, marks: &Marks, gap: Gap) -> Suitability {
    if level.watermark_ok(order, mark) {
        return Suitability::Met;
    }
    if !level.watermark_ok(0, mark.saturating_add(margin(order, marks, gap))) {
        return Suitability::TooFull;
    }
    let index = level.blocks.fragmentation_index(order);
    if order > COSTLY_ORDER && (0..=EXTFRAG_THRESHOLD).contains(&index) {
        return Suitability::NotFragmented;
    }
    Suitability::Suitable
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vocabulary::blocks_tests::{blocks, contig, stride};

    const NORMAL: Marks = Marks { min: 14616, low: 19596, high: 24576 };
    const DMA32: Marks = Marks { min: 2268, low: 3040, high: 3812 };

    /// The fewest free pages with which `is_ok`.
    fn least(is_ok: impl Fn(u64) -> bool) -> u64 {
        (0..1 << 20).find(|&free| is_ok(free)).expect("some number is enough")
    }

    /// docs/spec/compaction.md#s11, E14.
    #[test]
    fn e14_how_many_free_pages_compaction_needs() {
        let pieces = stride(1000);
        let needs = |marks: Marks, mark, reserve, gap| {
            let level = |free| Level { free, blocks: &pieces, reserve };
            least(|free| suitability(&level(free), 9, mark, &marks, gap) == Suitability::Suitable)
        };
        assert_eq!(needs(NORMAL, NORMAL.min, 0, Gap::Capped), 19629);
        assert_eq!(needs(NORMAL, NORMAL.min, 0, Gap::Linux5_3), 20621);
        assert_eq!(needs(NORMAL, NORMAL.high, 0, Gap::Capped), 29589, "where direct reclaim leaves the zone alone");
        assert_eq!(needs(DMA32, DMA32.min, 19456, Gap::Capped), 22529, "for a request that could use Normal");
        let (whole, none) = (blocks(&[0, 0, 0, 0, 0, 0, 0, 0, 0, 1]), blocks(&[512]));
        let level = |free, blocks| Level { free, blocks, reserve: 0 };
        assert_eq!(least(|free| level(free, &whole).watermark_ok(9, NORMAL.low)), 20108);
        assert!(!level(1 << 30, &none).watermark_ok(9, NORMAL.low), "no block of the order");
    }

    /// E8: only blocks of one smaller order; and E7's small negative, which passes.
    #[test]
    fn e8_an_index_up_to_the_threshold_is_lack_of_memory() {
        let order = |order: usize, count: u64| {
            let mut row = [0; 11];
            row[order] = count;
            blocks(&row)
        };
        let mixed = blocks(&[0, 0, 0, 0, 0, 0, 3, 1]);
        assert_eq!((mixed.pages(), mixed.blocks()), (320, 4));
        let cases = [
            (order(8, 2), 0, Suitability::NotFragmented),
            (order(8, 3), 167, Suitability::NotFragmented),
            (order(8, 40), 475, Suitability::NotFragmented),
            (order(7, 40), 725, Suitability::Suitable),
            (mixed, 594, Suitability::Suitable),
            (order(0, 1), -1, Suitability::Suitable),
            (contig(4), 500, Suitability::NotFragmented),
            (contig(5), 525, Suitability::Suitable),
        ];
        for (blocks, index, expected) in cases {
            let level = Level { free: 1 << 20, blocks: &blocks, reserve: 0 };
            assert_eq!(blocks.fragmentation_index(9), index);
            assert_eq!(suitability(&level, 9, 0, &Marks::default(), Gap::Capped), expected, "index {index}");
        }
    }

    #[test]
    fn no_order_overflows() {
        let whole = blocks(&[1]);
        for order in [52, 63, 64, u32::MAX] {
            let level = Level { free: 1, blocks: &whole, reserve: u64::MAX };
            assert!(!level.watermark_ok(order, u64::MAX), "order {order}");
            assert_eq!(suitability(&level, order, 0, &Marks::default(), Gap::Linux5_3), Suitability::TooFull);
        }
    }
}
