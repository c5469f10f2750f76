//! Pages: numbers, counts and ranges.

use crate::Bytes;

/// log2 of the bytes of a base page.
pub const PAGE_SHIFT: u32 = 12;
/// Bytes of a base page. All of isotherm counts in base pages of 4 KiB, as x86-64 does.
pub const PAGE_BYTES: u64 = 1 << PAGE_SHIFT;

/// A number of base pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Pages(u64);

impl Pages {
    /// A count of `count` base pages.
    pub const fn new(count: u64) -> Self {
        Self(count)
    }
    pub const fn get(self) -> u64 {
        self.0
    }
    /// Size of the pages in bytes; saturates.
    pub const fn bytes(self) -> Bytes {
        Bytes::new(self.0.saturating_mul(PAGE_BYTES))
    }
}

/// The number of a virtual page: its address divided by [`PAGE_BYTES`]. At most 52 bits are used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct VirtPage(u64);

impl VirtPage {
    /// The page with number `number`.
    pub const fn new(number: u64) -> Self {
        Self(number)
    }
    pub const fn number(self) -> u64 {
        self.0
    }
    /// The byte address at which the page begins.
    pub const fn address(self) -> u64 {
        self.0 << PAGE_SHIFT
    }
}

/// Pages `start..end` of one address space or file, by number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
pub struct PageRange {
    /// Number of the first page.
    pub start: u64,
    /// Number of the page after the last; not part of the range.
    pub end: u64,
}

impl PageRange {
    /// `start..end`; empty if `end <= start`.
    pub const fn new(start: u64, end: u64) -> Self {
        Self { start, end }
    }
    /// `pages` pages from `start`; saturates.
    pub const fn at(start: u64, pages: u64) -> Self {
        Self { start, end: start.saturating_add(pages) }
    }
    /// Number of pages in the range; 0 if it is empty.
    pub const fn len(self) -> u64 {
        self.end.saturating_sub(self.start)
    }
    /// Whether there is no page in it.
    pub const fn is_empty(self) -> bool {
        self.end <= self.start
    }
    /// Whether page number `page` lies in the range.
    pub const fn contains(self, page: u64) -> bool {
        self.start <= page && page < self.end
    }
    /// The common part; empty if there is none.
    pub fn intersection(self, other: Self) -> Self {
        Self { start: self.start.max(other.start), end: self.end.min(other.end) }
    }
    /// Whether both ranges have a page in common.
    pub fn overlaps(self, other: Self) -> bool {
        !self.intersection(other).is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_and_pages_convert() {
        assert_eq!(VirtPage::new(3).address(), 0x3000);
        assert_eq!(Bytes::new(8193).pages_floor(), Pages::new(2));
        assert_eq!(Bytes::new(8193).pages_ceil(), Pages::new(3));
        assert_eq!(Pages::new(2).bytes(), Bytes::from_kib(8));
    }

    #[test]
    fn ranges_intersect() {
        let (a, b) = (PageRange::new(2, 6), PageRange::at(4, 8));
        assert_eq!(a.intersection(b), PageRange::new(4, 6));
        assert!(a.overlaps(b) && !a.overlaps(PageRange::new(6, 9)));
        let reversed = PageRange::new(6, 2);
        assert_eq!((reversed.is_empty(), reversed.len()), (true, 0));
    }
}
