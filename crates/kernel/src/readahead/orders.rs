//! Orders of the folios of a file: which orders it may have, and where the folios of a readahead window lie
//! (docs/spec/large-folios.md#f1 and #f2-6).
//!
//! A window is placed folio by folio with [`Placement`], or in one go with [`plan`] if no folio can be refused.

use super::file::{ReadaheadLimits, Window};
use crate::memory::KernelRelease;
use isotherm_units::PageRange;

/// The largest order in the page cache: 2 MiB with pages of 4 KiB (`include/linux/pagemap.h: MAX_PAGECACHE_ORDER`).
pub const ORDER_MAX: u32 = 9;
/// The folios of each next window of a stream may be this many orders larger.
pub(super) const ORDER_STEP: u32 = 2;
/// Windows of 6.12 with fewer pages than this have no large folios (`mm/readahead.c: page_cache_ra_order`, 6.12).
const WINDOW_MIN_6_12: u64 = 4;

/// Smallest and largest order of the folios of one file. The default, 0 and 0, is a file of single pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct FolioBounds {
    min: u32,
    max: u32,
}

impl FolioBounds {
    /// A file of single pages.
    pub const SINGLE: Self = Self { min: 0, max: 0 };

    /// Orders `min` to `max`, both included, cut to [`ORDER_MAX`]; `max` is at least `min`
    /// (`include/linux/pagemap.h: mapping_set_folio_order_range`).
    pub const fn new(min: u32, max: u32) -> Self {
        let min = if min < ORDER_MAX { min } else { ORDER_MAX };
        let max = if max < ORDER_MAX { max } else { ORDER_MAX };
        Self { min, max: if max > min { max } else { min } }
    }

    /// The smallest order of a folio of the file.
    pub const fn min(self) -> u32 {
        self.min
    }

    /// The largest order of a folio of the file.
    pub const fn max(self) -> u32 {
        self.max
    }

    /// Whether the file may have folios of more than one page.
    pub const fn allows_large(self) -> bool {
        self.max > 0
    }

    /// The order of the folios in a window of `size` pages when the stream has got to order `reached`. `None`: the smallest
    /// throughout. 6.12 adds the step of 2 here, so that a first window has order 2; 6.18 and 7.2 add it when a marked folio is read.
    pub fn in_window(self, reached: u32, size: u64, release: KernelRelease) -> Option<u32> {
        if !self.allows_large() {
            return None;
        }
        let wanted = match release {
            KernelRelease::V6_12 if size < WINDOW_MIN_6_12.max(1 << self.min) => return None,
            KernelRelease::V6_12 if reached < self.max => reached + ORDER_STEP,
            KernelRelease::V6_12 | KernelRelease::V6_18 | KernelRelease::V7_2 => reached,
        };
        Some(wanted.min(self.max).min(size.checked_ilog2().unwrap_or(0)).max(self.min))
    }
}

/// The pages of the folio of order `order` that holds page `page`.
pub const fn folio_at(page: u64, order: u32) -> PageRange {
    PageRange::at(page >> order << order, 1 << order)
}

/// A folio of a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Placed {
    /// Its first page, a multiple of 2^order.
    pub first: u64,
    /// log2 of its pages.
    pub order: u32,
    /// It gets the readahead mark.
    pub marked: bool,
}

impl Placed {
    /// Its pages. Only a folio of the file's smallest order may reach beyond the window or the file.
    pub const fn pages(self) -> PageRange {
        folio_at(self.first, self.order)
    }
}

/// The folios of a window while they are placed, first to last (Linux 6.12 and 7.2, `mm/readahead.c: page_cache_ra_order`;
/// from the first failure on, and for windows without an order, `page_cache_ra_unbounded`).
#[derive(Clone, Debug)]
pub struct Placement {
    window: Window,
    limits: ReadaheadLimits,
    /// Order wanted; `None`: the smallest from here on, and cached pages are skipped.
    order: Option<u32>,
    next: u64,
    /// Page after the last to read.
    end: u64,
    /// The page that is marked with its folio; with the smallest order a first page of a folio.
    mark: Option<u64>,
}

impl Placement {
    /// Begins with the first page of `window`, which was made with `limits`.
    pub fn new(window: &Window, limits: &ReadaheadLimits) -> Self {
        let min = limits.folios.min();
        let order = window.large.map(|large| large.order);
        Self {
            window: *window,
            limits: *limits,
            order,
            next: folio_at(window.range.start, min).start,
            end: window.range.end,
            mark: if order.is_some() { window.mark } else { window.mark.map(|mark| mark.next_multiple_of(1 << min)) },
        }
    }

    /// The next folio to allocate, charge and insert; `None` after the last. `is_cached`: whether the file has this page.
    pub fn next(&mut self, is_cached: impl Fn(u64) -> bool) -> Option<Placed> {
        while self.next < self.end {
            let first = self.next;
            let order = self.order.map_or(self.limits.folios.min(), |wanted| self.order_at(first, wanted));
            let pages = folio_at(first, order);
            if (pages.start..pages.end).any(&is_cached) {
                if self.order.is_some() {
                    self.fall_back(first);
                } else {
                    self.next = pages.end;
                }
                continue;
            }
            self.next = pages.end;
            let marked = self.mark.is_some_and(|mark| match self.order {
                Some(_) => pages.contains(mark),
                None => mark == first,
            });
            return Some(Placed { first, order, marked });
        }
        None
    }

    /// `refused`, which [`next`](Self::next) gave last, found no memory or no room under a limit. A larger folio is not tried
    /// again: the pages from there on get the smallest order. A window that has it already ends.
    pub fn refuse(&mut self, refused: Placed) {
        if self.order.is_some() {
            self.fall_back(refused.first);
        } else {
            self.next = self.end;
        }
    }

    /// A page of `placed`, which [`next`](Self::next) gave last, is cached by now.
    pub fn met(&mut self, placed: Placed) {
        if self.order.is_some() {
            self.fall_back(placed.first);
        }
    }

    /// Aligned, and not beyond the window or the file unless it is the smallest.
    fn order_at(&self, first: u64, wanted: u32) -> u32 {
        let aligned = wanted.min(first.trailing_zeros());
        let min = self.limits.folios.min();
        (min..=aligned).rev().find(|&order| folio_at(first, order).end <= self.end).unwrap_or(min)
    }

    /// From `first` on the smallest order. 6.12 does not subtract what it has placed: it reads as much again as the whole window.
    fn fall_back(&mut self, first: u64) {
        self.order = None;
        self.next = first;
        let Some(large) = self.window.large else { return };
        match self.limits.release {
            KernelRelease::V6_12 => {
                self.end = (first + large.size).min(self.limits.file_pages);
                self.mark = self.end.checked_sub(large.async_size);
            }
            // The rest is computed without a sign: a window that begins within its first folio has none.
            KernelRelease::V6_18 | KernelRelease::V7_2 if first < self.window.range.start => self.next = self.end,
            // As far as the file goes, and marked by its end.
            KernelRelease::V6_18 => self.mark = self.end.checked_sub(large.async_size),
            KernelRelease::V7_2 => {}
        }
        let min_pages = 1 << self.limits.folios.min();
        self.mark = self.mark.filter(|&mark| mark >= first).map(|mark| mark.next_multiple_of(min_pages));
    }
}

/// All folios of `window`, which was made with `limits`, if none is refused.
pub fn plan(window: &Window, limits: &ReadaheadLimits, is_cached: impl Fn(u64) -> bool) -> Vec<Placed> {
    let mut placement = Placement::new(window, limits);
    std::iter::from_fn(|| placement.next(&is_cached)).collect()
}
