//! Mapped ranges of an address space.

use isotherm_units::PageRange;
use isotherm_units::access::{Advice, Backing, Mapping};

/// One mapped range: a mapping, or the rest of a mapping after partial unmaps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Vma {
    pub mapping: Mapping,
    /// Access order announced by `madvise`: `Normal`, `Random` or `Sequential`.
    pub order: Advice,
}

impl Vma {
    pub fn pages(&self) -> PageRange {
        self.mapping.pages
    }

    /// Whether a use predicts the next one: no order of accesses was announced.
    pub fn has_recency(&self) -> bool {
        !matches!(self.order, Advice::Random | Advice::Sequential)
    }

    /// The part inside `range`, with the file offset moved along.
    fn cut(&self, range: PageRange) -> Self {
        let mut cut = *self;
        cut.mapping.pages = self.mapping.pages.intersection(range);
        if let Backing::File { file, first_page, sharing } = self.mapping.backing {
            let first_page = first_page + (cut.mapping.pages.start - self.mapping.pages.start);
            cut.mapping.backing = Backing::File { file, first_page, sharing };
        }
        debug_assert!(!cut.mapping.pages.is_empty(), "a part of a mapping holds pages");
        cut
    }
}

/// The mapped ranges of one address space: sorted, disjoint.
#[derive(Clone, Debug, Default)]
pub struct VmaList {
    ranges: Vec<Vma>,
    /// Place of the range that was found last.
    latest: usize,
    /// An order of accesses was announced for some range at some time.
    has_orders: bool,
    /// Pages of the ranges that hold code.
    code: Vec<PageRange>,
}

impl VmaList {
    /// The range that holds `page`.
    pub fn find(&self, page: u64) -> Option<&Vma> {
        self.ranges.get(self.last_from(page)?).filter(|vma| vma.pages().contains(page))
    }

    /// Whether a use of `page` predicts the next one.
    #[inline]
    pub fn has_recency(&self, page: impl FnOnce() -> u64) -> bool {
        !self.has_orders || self.find(page()).is_none_or(Vma::has_recency)
    }

    /// The same for queries of page after page: consecutive queries often fall into the same range.
    #[inline]
    pub fn find_next(&mut self, page: u64) -> Option<&Vma> {
        if !self.ranges.get(self.latest).is_some_and(|vma| vma.pages().contains(page)) {
            self.latest = self.last_from(page)?;
        }
        self.ranges.get(self.latest).filter(|vma| vma.pages().contains(page))
    }

    /// Place of the last range that begins at `page` or before.
    fn last_from(&self, page: u64) -> Option<usize> {
        self.ranges.partition_point(|vma| vma.pages().start <= page).checked_sub(1)
    }

    /// All ranges, ascending.
    pub fn iter(&self) -> std::slice::Iter<'_, Vma> {
        self.ranges.iter()
    }

    /// Pages of the ranges that hold code, ascending.
    pub fn code(&self) -> &[PageRange] {
        &self.code
    }

    /// Adds a range; overlapping ranges must have been removed.
    pub fn insert(&mut self, vma: Vma) {
        let at = self.ranges.partition_point(|other| other.pages().start < vma.pages().start);
        debug_assert!(
            self.ranges.get(at).is_none_or(|next| !next.pages().overlaps(vma.pages())),
            "what it overlaps was removed"
        );
        debug_assert!(
            at == 0 || self.ranges[at - 1].pages().end <= vma.pages().start,
            "ranges are sorted and disjoint"
        );
        self.has_orders |= !vma.has_recency();
        self.ranges.insert(at, vma);
        if vma.mapping.executable {
            self.find_code();
        }
    }

    fn find_code(&mut self) {
        let code = self.ranges.iter().filter(|vma| vma.mapping.executable);
        self.code = code.map(Vma::pages).collect();
    }

    /// Takes `range` out, cutting ranges at its ends; returns the parts taken out.
    pub fn remove(&mut self, range: PageRange) -> Vec<Vma> {
        let mut removed = Vec::new();
        let mut kept = Vec::with_capacity(self.ranges.len() + 1);
        for vma in self.ranges.drain(..) {
            if !vma.pages().overlaps(range) {
                kept.push(vma);
                continue;
            }
            let before = PageRange::new(vma.pages().start, range.start);
            let after = PageRange::new(range.end, vma.pages().end);
            kept.extend([before, after].into_iter().filter(|rest| !rest.is_empty()).map(|rest| vma.cut(rest)));
            removed.push(vma.cut(range));
        }
        self.ranges = kept;
        if removed.iter().any(|vma| vma.mapping.executable) {
            self.find_code();
        }
        removed
    }

    /// Sets the announced access order in `range`.
    pub fn set_order(&mut self, range: PageRange, order: Advice) {
        for mut vma in self.remove(range) {
            vma.order = order;
            self.insert(vma);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use isotherm_units::access::Sharing;

    fn file(start: u64, end: u64, first_page: u64) -> Vma {
        let backing = Backing::File { file: 0, first_page, sharing: Sharing::Shared };
        let mapping = Mapping { backing, ..Mapping::anonymous(PageRange::new(start, end)) };
        Vma { mapping, order: Advice::Normal }
    }

    #[test]
    fn unmapping_the_middle_leaves_two_parts_with_their_offsets() {
        let mut list = VmaList::default();
        list.insert(file(10, 20, 100));
        assert_eq!(list.remove(PageRange::new(13, 15)), [file(13, 15, 103)]);
        assert_eq!(list.iter().copied().collect::<Vec<_>>(), [file(10, 13, 100), file(15, 20, 105)]);
        assert!(list.find(12).is_some() && list.find(13).is_none() && list.find(20).is_none());
        for page in [12, 9, 19, 13, 12, 20, 15, 10] {
            let found = list.find(page).copied();
            assert_eq!(list.find_next(page).copied(), found, "{page}");
        }
        list.remove(PageRange::new(0, 13));
        assert!(list.find_next(12).is_none() && list.find_next(10).is_none(), "not what is there no more");
    }

    #[test]
    fn code_is_known_by_its_ranges() {
        let code = |start, end| {
            let vma = file(start, end, 0);
            Vma { mapping: Mapping { executable: true, ..vma.mapping }, ..vma }
        };
        let mut list = VmaList::default();
        list.insert(code(30, 40));
        list.insert(file(10, 20, 0));
        list.insert(code(0, 9));
        assert_eq!(list.code(), [PageRange::new(0, 9), PageRange::new(30, 40)]);
        list.remove(PageRange::new(12, 32));
        list.remove(PageRange::new(35, 36));
        assert_eq!(list.code(), [PageRange::new(0, 9), PageRange::new(32, 35), PageRange::new(36, 40)]);
    }

    #[test]
    fn advice_splits_a_range() {
        let mut list = VmaList::default();
        list.insert(file(0, 9, 0));
        list.set_order(PageRange::new(3, 6), Advice::Random);
        let orders: Vec<_> = list.iter().map(|vma| (vma.pages().start, vma.order)).collect();
        assert_eq!(orders, [(0, Advice::Normal), (3, Advice::Random), (6, Advice::Normal)]);
    }
}
