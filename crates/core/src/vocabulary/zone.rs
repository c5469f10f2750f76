//! Watermarks of a zone, and the contents of a page block in it.

use super::HUGE_ORDER;

/// Watermarks of a zone in pages, boost included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Marks {
    /// Below this mark only tasks that free memory may allocate.
    pub min: u64,
    /// kswapd wakes when free pages fall below this.
    pub low: u64,
    /// kswapd goes back to sleep when free pages are above this.
    pub high: u64,
}

/// Contents of a page block. Free pages are the rest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BlockUse {
    /// Pages in use that can be moved.
    pub movable: u32,
    /// Pages in use that cannot: the block will never be free.
    pub fixed: u32,
    /// Pages may be moved into it: it is of type Movable.
    pub is_target: bool,
}

/// Pages of a page block.
const BLOCK_PAGES: u64 = 1 << HUGE_ORDER;

impl BlockUse {
    pub(crate) fn free(self) -> u64 {
        BLOCK_PAGES.saturating_sub(u64::from(self.movable) + u64::from(self.fixed))
    }
    pub(crate) const fn is_free(self) -> bool {
        self.movable == 0 && self.fixed == 0
    }
    pub(crate) const fn is_clean(self) -> bool {
        self.fixed == 0 && self.movable > 0
    }
}
