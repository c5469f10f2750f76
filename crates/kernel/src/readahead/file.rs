//! File readahead (docs/spec/classic-lru.md#s9-4): the state of one open file and the window that each miss or marked page asks for.
//! With it goes the order of the folios (docs/spec/large-folios.md#f2); where they lie is in [`orders`](super::orders).
//!
//! A `read()` of pages `first..end` goes page by page:
//!
//! ```text
//! absent         → read_miss(page, end - page), submit the window, wait for the page
//! cached, marked → clear the mark; marked_page(first page of the folio, its order, end - first page), submit, do not wait
//! at the end     → read_done(page of the byte after the last one read)
//! ```
//!
//! A fault takes [`FileReadahead::mmap_miss`], [`FileReadahead::mmap_cached`] or [`FileReadahead::fault_around`]. Pages of a
//! window that are cached already are skipped ([`Window::missing`]). All numbers are pages.

use super::orders::{FolioBounds, ORDER_MAX, ORDER_STEP, folio_at};
use crate::memory::KernelRelease;
use isotherm_units::PageRange;

/// `mmap_miss` stops growing here.
const MMAP_MISS_MAX: u32 = 1000;
/// More misses than this, and faults read one page each.
const MMAP_LOTS_OF_MISSES: u32 = 100;
/// Windows of the asynchronous step end on multiples of this in files of single pages, except in 6.12.
const ALIGN_PAGES: u64 = 4;

/// Limits of the device and the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadaheadLimits {
    /// The largest window; 32 (128 KiB) by default, 0 switches readahead off.
    pub window_max: u64,
    /// The request size the device likes best: a `read()` larger than the window may use windows of up to this.
    pub device_optimum: u64,
    /// Pages of the file, the partial last one included.
    pub file_pages: u64,
    /// Orders of the file's folios.
    pub folios: FolioBounds,
    /// The release whose rules hold.
    pub release: KernelRelease,
}

impl ReadaheadLimits {
    /// The largest window for a request of `nr_pages`.
    fn window_max_for(&self, nr_pages: u64) -> u64 {
        if nr_pages > self.window_max {
            self.window_max.max(nr_pages.min(self.device_optimum))
        } else {
            self.window_max
        }
    }
}

/// A program's advice about its accesses, by `madvise` or `fadvise`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Advice {
    /// Nothing.
    #[default]
    Normal,
    /// No readahead.
    Random,
    /// In order, each page once.
    Sequential,
}

/// A mapping of the file, as far as faults in it decide about readahead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MappingKind {
    /// The program's advice about it.
    pub advice: Advice,
    /// Code runs from it.
    pub executable: bool,
    /// The program asked for huge pages in it (`MADV_HUGEPAGE`).
    pub huge: bool,
    /// File pages it covers.
    pub pages: PageRange,
}

impl MappingKind {
    /// Whether nothing is read ahead in it: 6.18 and 7.2 read code ahead in spite of the advice.
    pub fn is_random(&self, release: KernelRelease) -> bool {
        self.advice == Advice::Random && (release == KernelRelease::V6_12 || !self.executable)
    }

    /// The order that a fault in it reads at once, on account of `MADV_HUGEPAGE`: releases before 7.2 ask for 2 MiB whatever the file allows.
    fn huge_order(&self, limits: &ReadaheadLimits) -> Option<u32> {
        match limits.release {
            _ if !self.huge => None,
            KernelRelease::V6_12 | KernelRelease::V6_18 => Some(ORDER_MAX),
            KernelRelease::V7_2 => limits.folios.allows_large().then_some(limits.folios.max()),
        }
    }

    /// Whether faults in it count as misses and hits: 7.2 leaves out streams and code.
    pub fn is_counted(&self, release: KernelRelease) -> bool {
        release < KernelRelease::V7_2 || self.advice != Advice::Sequential && !self.executable
    }
}

/// Pages to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// All within the file; those already cached are not read again.
    pub range: PageRange,
    /// The page that gets the readahead mark, if it is read now: the folio that holds it.
    pub mark: Option<u64>,
    /// How large its folios may be; `None`: all have the file's smallest order.
    pub large: Option<LargeWindow>,
}

/// A window with large folios. [`Placement`](super::orders::Placement) says where they lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LargeWindow {
    /// Order of the folios, where place and file allow it.
    pub order: u32,
    /// Pages from the start of the window on, before the end of the file cut them.
    pub size: u64,
    /// As many pages before the end of these lies the mark.
    pub async_size: u64,
}

impl Window {
    fn unmarked(range: PageRange, limits: &ReadaheadLimits) -> Self {
        Self { range: range.intersection(PageRange::new(0, limits.file_pages)), mark: None, large: None }
    }

    /// The runs of pages to submit, each one request, in a file of single pages.
    pub fn missing(&self, is_cached: impl Fn(u64) -> bool) -> Vec<PageRange> {
        let mut runs: Vec<PageRange> = Vec::new();
        for page in (self.range.start..self.range.end).filter(|&page| !is_cached(page)) {
            match runs.last_mut() {
                Some(run) if run.end == page => run.end += 1,
                _ => runs.push(PageRange::at(page, 1)),
            }
        }
        runs
    }
}

/// Findings of fault-around.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FaultAround {
    /// The page that the fault was for: it is mapped now.
    pub found: bool,
    /// That page is of the working set.
    pub workingset: bool,
    /// The fault is retried, after a read.
    pub tried: bool,
    /// Pages of the block that are ready and not of the working set.
    pub ready: u32,
}

/// Readahead state of one open file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FileReadahead {
    start: u64,
    size: u64,
    async_size: u64,
    /// Order of the last window; 6.12 has no such state and takes the order of the marked folio instead.
    order: u32,
    mmap_miss: u32,
    /// Page of the byte after the last one read; `None` before the first read.
    prev: Option<u64>,
}

impl FileReadahead {
    /// A `read()` wants `nr_pages` (at least 1) from `page` on, and `page` is not cached.
    pub fn read_miss(
        &mut self,
        page: u64,
        nr_pages: u64,
        advice: Advice,
        limits: &ReadaheadLimits,
        is_cached: impl Fn(u64) -> bool,
    ) -> Window {
        if limits.window_max == 0 {
            return Window::unmarked(PageRange::at(page, 1), limits);
        }
        let exactly = Window::unmarked(PageRange::at(page, nr_pages), limits);
        if advice == Advice::Random {
            return exactly;
        }
        let max = limits.window_max_for(nr_pages);
        let goes_on = self.prev.is_some_and(|prev| matches!(page.checked_sub(prev), Some(0 | 1)));
        if page == 0 || nr_pages > max || goes_on {
            let size = initial_size(nr_pages, max);
            let async_size = if size > nr_pages { size - nr_pages } else { size / 2 };
            return self.set((page, size, async_size), 0, limits);
        }
        let history = (1..=page.min(max)).take_while(|back| is_cached(page - back)).count() as u64;
        if history <= nr_pages {
            return exactly;
        }
        // Cached from the beginning: a long stream.
        let history = if history == page { history * 2 } else { history };
        self.set((page, (history + nr_pages).min(max), 1), 0, limits)
    }

    /// A `read()` wants `nr_pages` from `page` on, or a fault wants `page` (then `nr_pages` is the largest window), and
    /// `page` is in a folio of order `folio_order` with the readahead mark, which the caller clears. `None`: nothing to read.
    ///
    /// For a `read()` `page` is the first page of the folio, and `nr_pages` counts from there; for a fault the page that it is
    /// for. So a fault within a large folio does not find the expected mark (`mm/filemap.c: filemap_readahead,
    /// do_async_mmap_readahead`, 6.12 and 7.2).
    pub fn marked_page(
        &mut self,
        page: u64,
        folio_order: u32,
        nr_pages: u64,
        limits: &ReadaheadLimits,
        is_cached: impl Fn(u64) -> bool,
    ) -> Option<Window> {
        if limits.window_max == 0 {
            return None;
        }
        let max = limits.window_max_for(nr_pages);
        let mark = (self.start + self.size).wrapping_sub(self.async_size);
        let (start, size) = if page == folio_at(mark, folio_order).start {
            (self.start + self.size, self.size.max(next_size(self.size, max)))
        } else {
            // A mark of another window: go on behind what is cached.
            let distance = (1..=max).find(|ahead| !is_cached(page + ahead))?;
            (page + distance, next_size(distance + nr_pages, max))
        };
        let end = start + size;
        let (order, align) = match limits.release {
            KernelRelease::V6_12 => (folio_order, 1),
            KernelRelease::V6_18 | KernelRelease::V7_2 if limits.folios.allows_large() => {
                let order = self.order + ORDER_STEP;
                (order, 1 << order.min(max.trailing_zeros()))
            }
            KernelRelease::V6_18 | KernelRelease::V7_2 => (0, ALIGN_PAGES),
        };
        let aligned = end - end % align;
        let size = if aligned > start { aligned - start } else { size };
        let window = self.set((start, size, size), order, limits);
        (!window.range.is_empty()).then_some(window)
    }

    /// A `read()` is over; `next_page` holds the byte after the last one read.
    pub fn read_done(&mut self, next_page: u64) {
        self.prev = Some(next_page);
    }

    /// A fault at `page`, which is not cached.
    pub fn mmap_miss(
        &mut self,
        page: u64,
        mapping: &MappingKind,
        limits: &ReadaheadLimits,
        is_cached: impl Fn(u64) -> bool,
    ) -> Window {
        let one = Window::unmarked(PageRange::at(page, 1), limits);
        let (max, release) = (limits.window_max, limits.release);
        let huge = mapping.huge_order(limits);
        if let Some(order) = huge.filter(|_| release < KernelRelease::V7_2) {
            return self.huge(page, order, mapping, limits);
        }
        if huge.is_none() {
            if max == 0 || mapping.is_random(release) {
                return one;
            }
            if mapping.advice == Advice::Sequential {
                return self.read_miss(page, max, Advice::Normal, limits, is_cached);
            }
        }
        if mapping.is_counted(release) {
            self.mmap_miss = (self.mmap_miss + 1).min(MMAP_MISS_MAX);
            if self.mmap_miss > MMAP_LOTS_OF_MISSES {
                return one;
            }
        }
        if let Some(order) = huge {
            return self.huge(page, order, mapping, limits);
        }
        if mapping.executable && release > KernelRelease::V6_12 {
            let size = PageRange::at(page, max).intersection(mapping.pages).len().max(1);
            return self.set((page, size, 0), 0, limits);
        }
        self.set((page.saturating_sub(max / 2), max, max / 4), 0, limits)
    }

    /// A fault that reads the folio of order `order` around `page` and, unless accesses are random, the next one. The state
    /// keeps its start (`mm/filemap.c: do_sync_mmap_readahead`, 6.12 and 7.2), so the mark looks like that of another window.
    fn huge(&mut self, page: u64, order: u32, mapping: &MappingKind, limits: &ReadaheadLimits) -> Window {
        let folio = folio_at(page, order);
        self.async_size = folio.len();
        self.size = if mapping.advice == Advice::Random { folio.len() } else { folio.len() * 2 };
        self.window(folio.start, order, limits)
    }

    /// A fault at `page`, which is cached but was not mapped by fault-around. `marked`: the order of its folio, if that carries
    /// the readahead mark, which the caller clears.
    pub fn mmap_cached(
        &mut self,
        page: u64,
        marked: Option<u32>,
        mapping: &MappingKind,
        limits: &ReadaheadLimits,
        is_cached: impl Fn(u64) -> bool,
    ) -> Option<Window> {
        if mapping.is_random(limits.release) {
            return None;
        }
        if mapping.is_counted(limits.release) {
            self.mmap_miss = self.mmap_miss.saturating_sub(1);
        }
        marked.and_then(|order| self.marked_page(page, order, limits.window_max, limits, is_cached))
    }

    /// Fault-around found the page of a fault of mapping `mapping`, or `around` of its neighbours (Linux 7.2, 6.18
    /// and 6.12, `filemap_map_pages`). Pages of the working set were evicted not long ago: they count as no hit.
    ///
    /// 7.2 counts one hit, for the page that the fault was for, if the fault is not retried; releases before it all pages of the
    /// block that are ready, mapped already or not, each time.
    pub fn fault_around(&mut self, around: &FaultAround, mapping: &MappingKind, release: KernelRelease) {
        let hits = match release {
            KernelRelease::V7_2 => {
                u32::from(around.found && !around.tried && !around.workingset && mapping.is_counted(release))
            }
            KernelRelease::V6_12 | KernelRelease::V6_18 => around.ready,
        };
        self.mmap_miss = self.mmap_miss.saturating_sub(hits);
    }

    /// Takes a window of `(start, size, async size)` when the stream has got to order `order`.
    fn set(&mut self, window: (u64, u64, u64), order: u32, limits: &ReadaheadLimits) -> Window {
        (self.start, self.size, self.async_size) = window;
        self.window(self.start, order, limits)
    }

    /// The window from `start` on that the state asks for, cut at the end of the file.
    fn window(&mut self, start: u64, order: u32, limits: &ReadaheadLimits) -> Window {
        let &mut Self { size, async_size, .. } = self;
        let order = limits.folios.in_window(order, size, limits.release);
        self.order = order.unwrap_or(0);
        let end = start + size;
        let mark = match limits.release {
            // At the end of the file there is nothing more to read.
            KernelRelease::V7_2 => (end < limits.file_pages).then(|| end - async_size),
            KernelRelease::V6_12 | KernelRelease::V6_18 if order.is_some() => Some(end - async_size),
            KernelRelease::V6_12 | KernelRelease::V6_18 => {
                end.min(limits.file_pages).checked_sub(async_size).filter(|&mark| mark >= start)
            }
        };
        // A folio of the smallest order may reach beyond the window and be marked for what follows.
        let mark = mark.filter(|_| async_size > 0 || order.is_some());
        let large = order.map(|order| LargeWindow { order, size, async_size });
        Window { mark, large, ..Window::unmarked(PageRange::new(start, end), limits) }
    }
}

/// The first window for a request of `nr_pages`: four times as much for small ones, twice for middling ones.
fn initial_size(nr_pages: u64, max: u64) -> u64 {
    let size = nr_pages.checked_next_power_of_two().unwrap_or(u64::MAX);
    if size <= max / 32 {
        size * 4
    } else if size <= max / 4 {
        size * 2
    } else {
        max
    }
}

/// The window after one of `size`.
fn next_size(size: u64, max: u64) -> u64 {
    if size < max / 16 {
        size * 4
    } else if size <= max / 2 {
        size * 2
    } else {
        max
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::{BTreeMap, BTreeSet};

    const LIMITS: ReadaheadLimits = ReadaheadLimits {
        window_max: 32,
        device_optimum: 0,
        file_pages: 1000,
        folios: FolioBounds::SINGLE,
        release: KernelRelease::V7_2,
    };
    const MAPPING: MappingKind = MappingKind {
        advice: Advice::Normal,
        executable: false,
        huge: false,
        pages: PageRange { start: 0, end: 1000 },
    };

    fn window(start: u64, size: u64, mark: Option<u64>) -> Window {
        Window { range: PageRange::at(start, size), mark, large: None }
    }
    fn nothing(_: u64) -> bool {
        false
    }

    /// A page cache that plays whole reads: page -> marked.
    #[derive(Default)]
    struct Cache {
        pages: BTreeMap<u64, bool>,
        windows: Vec<Window>,
        misses: u64,
    }
    impl Cache {
        fn submit(&mut self, window: Window) {
            for run in window.missing(|page| self.pages.contains_key(&page)) {
                self.pages.extend((run.start..run.end).map(|page| (page, window.mark == Some(page))));
            }
            self.windows.push(window);
        }
        fn read(&mut self, state: &mut FileReadahead, first: u64, nr: u64, limits: &ReadaheadLimits) {
            for page in first..first + nr {
                let left = first + nr - page;
                if !self.pages.contains_key(&page) {
                    self.misses += 1;
                    let window = state.read_miss(page, left, Advice::Normal, limits, |p| self.pages.contains_key(&p));
                    self.submit(window);
                }
                if std::mem::take(self.pages.get_mut(&page).expect("was read")) {
                    let window = state.marked_page(page, 0, left, limits, |p| self.pages.contains_key(&p));
                    window.into_iter().for_each(|window| self.submit(window));
                }
            }
            state.read_done(first + nr);
        }
    }

    #[test]
    fn c14_file_windows() {
        let (mut state, mut cache) = (FileReadahead::default(), Cache::default());
        (0..60).for_each(|page| cache.read(&mut state, page, 1, &LIMITS));
        let expected = [
            window(0, 4, Some(1)),
            window(4, 8, Some(4)),
            window(12, 16, Some(12)),
            window(28, 32, Some(28)),
            window(60, 32, Some(60)),
        ];
        assert_eq!(cache.windows, expected);
        assert_eq!(cache.misses, 1, "only the first read waits");
        // A random read of one page, nothing cached before it.
        let mut state = FileReadahead::default();
        assert_eq!(state.read_miss(500, 1, Advice::Normal, &LIMITS, nothing), window(500, 1, None));
        assert_eq!(state, FileReadahead::default(), "leaves no trace");
        // Faults read around.
        assert_eq!(state.mmap_miss(100, &MAPPING, &LIMITS, nothing), window(84, 32, Some(108)));
        assert_eq!(state.mmap_miss(5, &MAPPING, &LIMITS, nothing), window(0, 32, Some(24)));
    }

    #[test]
    fn first_windows_depend_on_the_request() {
        // (pages asked for, size, mark): 1 <= 32/32: 4x; up to 8: 2x; above: all. Nothing more to come: half is async.
        let table = [(1, 4, 1), (2, 4, 2), (3, 8, 3), (8, 16, 8), (9, 32, 9), (32, 32, 16)];
        for (nr, size, mark) in table {
            let first = FileReadahead::default().read_miss(0, nr, Advice::Normal, &LIMITS, nothing);
            assert_eq!(first, window(0, size, Some(mark)), "{nr} pages");
        }
        // Larger than the window: windows up to what the device likes.
        let fast = ReadaheadLimits { device_optimum: 64, ..LIMITS };
        let first = FileReadahead::default().read_miss(200, 100, Advice::Normal, &fast, nothing);
        assert_eq!(first, window(200, 64, Some(232)));
        let first = FileReadahead::default().read_miss(200, 100, Advice::Normal, &LIMITS, nothing);
        assert_eq!(first, window(200, 32, Some(216)));
    }

    #[test]
    fn a_read_that_goes_on_is_sequential_though_nothing_is_cached() {
        for (page, sequential) in [(499, false), (500, true), (501, true), (502, false)] {
            let mut state = FileReadahead::default();
            state.read_done(500);
            let got = state.read_miss(page, 1, Advice::Normal, &LIMITS, nothing);
            assert_eq!(got.mark.is_some(), sequential, "page {page}");
        }
    }

    #[test]
    fn cached_history_betrays_a_stream() {
        let miss = |page, nr, cached: std::ops::Range<u64>| {
            FileReadahead::default().read_miss(page, nr, Advice::Normal, &LIMITS, |p| cached.contains(&p))
        };
        assert_eq!(miss(500, 2, 498..500), window(500, 2, None), "no more history than request");
        assert_eq!(miss(500, 2, 495..500), window(500, 7, Some(506)), "5 + 2");
        assert_eq!(miss(500, 2, 400..500), window(500, 32, Some(531)), "looks back 32 at most");
        assert_eq!(miss(5, 2, 0..5), window(5, 12, Some(16)), "cached from the beginning: 2 * 5 + 2");
        assert_eq!(
            FileReadahead::default().read_miss(500, 7, Advice::Random, &LIMITS, |p| p < 500),
            window(500, 7, None)
        );
    }

    #[test]
    fn a_foreign_mark_goes_on_behind_what_is_cached() {
        let mut state = FileReadahead::default();
        // Pages 300..=310 are cached: distance 11, plus 1 = 12, doubled 24: 311..335, cut to 332.
        let cached = |page: u64| (300..=310).contains(&page);
        assert_eq!(state.marked_page(300, 0, 1, &LIMITS, cached), Some(window(311, 21, Some(311))));
        // All of the next 32 pages are cached: give up.
        assert_eq!(FileReadahead::default().marked_page(300, 0, 1, &LIMITS, |_| true), None);
    }

    #[test]
    fn windows_end_with_the_file() {
        let small = ReadaheadLimits { file_pages: 6, ..LIMITS };
        let (mut state, mut cache) = (FileReadahead::default(), Cache::default());
        (0..6).for_each(|page| cache.read(&mut state, page, 1, &small));
        assert_eq!(cache.windows, [window(0, 4, Some(1)), window(4, 2, None)]);
        assert_eq!(cache.misses, 1);
        assert_eq!(state.marked_page(4, 0, 1, &small, nothing), None, "beyond the end");
    }

    #[test]
    fn faults_that_miss_too_often_read_one_page() {
        let mut state = FileReadahead::default();
        for _ in 0..100 {
            assert_eq!(state.mmap_miss(500, &MAPPING, &LIMITS, nothing).range.len(), 32);
        }
        assert_eq!(state.mmap_miss(500, &MAPPING, &LIMITS, nothing), window(500, 1, None));
        // 101 misses; one hit makes the next miss the 101st again, two make it the 100th.
        assert_eq!(state.mmap_cached(500, None, &MAPPING, &LIMITS, nothing), None);
        assert_eq!(state.mmap_miss(500, &MAPPING, &LIMITS, nothing).range.len(), 1);
        let around = |around: FaultAround, state: &mut FileReadahead| {
            state.fault_around(&around, &MAPPING, KernelRelease::V7_2);
        };
        let hit = FaultAround { found: true, ready: 16, ..FaultAround::default() };
        around(hit, &mut state);
        around(FaultAround { workingset: true, ..hit }, &mut state);
        around(FaultAround { tried: true, ..hit }, &mut state);
        around(FaultAround { found: false, ..hit }, &mut state);
        around(hit, &mut state);
        assert_eq!(state.mmap_miss(500, &MAPPING, &LIMITS, nothing).range.len(), 32);
        (0..5000).for_each(|_| _ = state.mmap_miss(500, &MAPPING, &LIMITS, nothing));
        assert_eq!(state.mmap_miss, 1000);
    }

    /// Linux 6.12 subtracts all ready pages of the block from the misses, whatever the fault found and however often it is
    /// retried. After each miss its neighbours make up for it, and readahead never ends (9b0fcac3cfe7 and 0b9c0aeba938 came
    /// later).
    #[test]
    fn in_6_12_neighbours_make_up_for_misses() {
        let old = ReadaheadLimits { release: KernelRelease::V6_12, ..LIMITS };
        let mut state = FileReadahead::default();
        let retried = FaultAround { found: true, tried: true, ready: 16, ..FaultAround::default() };
        for _ in 0..5000 {
            assert_eq!(state.mmap_miss(500, &MAPPING, &old, nothing).range.len(), 32);
            state.fault_around(&retried, &MAPPING, KernelRelease::V6_12);
        }
        // Without neighbours it ends as in 7.2; pages of the working set are no hits.
        (0..100).for_each(|_| _ = state.mmap_miss(500, &MAPPING, &old, nothing));
        state.fault_around(&FaultAround { workingset: true, ready: 0, ..retried }, &MAPPING, KernelRelease::V6_12);
        assert_eq!(state.mmap_miss(500, &MAPPING, &old, nothing).range.len(), 1);
    }

    /// Code and streams in 7.2: faults in them count neither as misses nor as hits. In 6.12 all faults do, code is read around, and
    /// `MADV_RANDOM` holds for code too.
    #[test]
    fn code_is_like_other_mappings_in_6_12() {
        let kind = |advice, executable| MappingKind { advice, executable, ..MAPPING };
        let around = FaultAround { found: true, ready: 3, ..FaultAround::default() };
        let old = ReadaheadLimits { release: KernelRelease::V6_12, ..LIMITS };
        for (mapping, left, left_in_6_12) in [
            (kind(Advice::Normal, false), 9, 7),
            (kind(Advice::Normal, true), 10, 7),
            (kind(Advice::Sequential, false), 10, 7),
        ] {
            for (release, left) in [(KernelRelease::V7_2, left), (KernelRelease::V6_12, left_in_6_12)] {
                let mut state = FileReadahead { mmap_miss: 10, ..FileReadahead::default() };
                state.fault_around(&around, &mapping, release);
                assert_eq!(state.mmap_miss, left, "{mapping:?} {release:?}");
            }
        }
        let miss =
            |advice, executable| FileReadahead::default().mmap_miss(500, &kind(advice, executable), &old, nothing);
        assert_eq!(miss(Advice::Normal, true), window(484, 32, Some(508)));
        assert_eq!(miss(Advice::Random, true), window(500, 1, None));
    }

    /// Windows of 6.12: not aligned, and the mark is counted from the end of the file where a window ends there.
    #[test]
    fn windows_of_6_12() {
        let old = ReadaheadLimits { release: KernelRelease::V6_12, file_pages: 110, ..LIMITS };
        let mut state = FileReadahead::default();
        assert_eq!(state.mmap_miss(100, &MAPPING, &old, nothing), window(84, 26, Some(102)));
        assert_eq!(FileReadahead::default().mmap_miss(100, &MAPPING, &LIMITS, nothing).mark, Some(108));
        let near_end = ReadaheadLimits { file_pages: 110, ..LIMITS };
        assert_eq!(FileReadahead::default().mmap_miss(100, &MAPPING, &near_end, nothing).mark, None);
        let large = ReadaheadLimits { file_pages: 1000, ..old };
        let read_on = |limits: &ReadaheadLimits| {
            let mut state = FileReadahead { start: 1, size: 4, async_size: 4, ..FileReadahead::default() };
            state.marked_page(1, 0, 1, limits, nothing)
        };
        assert_eq!(read_on(&large), Some(window(5, 8, Some(5))));
        assert_eq!(read_on(&LIMITS), Some(window(5, 7, Some(5))), "ends at 12");
    }

    #[test]
    fn mappings_are_told_apart() {
        let pages = PageRange::new(0, 510);
        let miss = |advice, executable| {
            let kind = MappingKind { advice, executable, pages, ..MAPPING };
            FileReadahead::default().mmap_miss(500, &kind, &LIMITS, nothing)
        };
        assert_eq!(miss(Advice::Random, false), window(500, 1, None));
        assert_eq!(miss(Advice::Random, true), window(500, 10, None), "code: up to the end of the mapping");
        assert_eq!(miss(Advice::Normal, true), window(500, 10, None));
        assert_eq!(miss(Advice::Sequential, false), window(500, 32, None), "as a lonely read of 32 pages");
        let off = ReadaheadLimits { window_max: 0, ..LIMITS };
        assert_eq!(FileReadahead::default().mmap_miss(500, &MAPPING, &off, nothing), window(500, 1, None));
        assert_eq!(FileReadahead::default().read_miss(0, 9, Advice::Normal, &off, nothing), window(0, 1, None));
    }

    #[test]
    fn a_fault_on_the_mark_reads_on() {
        let mut state = FileReadahead::default();
        state.mmap_miss(100, &MAPPING, &LIMITS, nothing); // 84..116, mark at 108
        let next = state.mmap_cached(108, Some(0), &MAPPING, &LIMITS, nothing);
        assert_eq!(next, Some(window(116, 32, Some(116))));
        assert_eq!(state.mmap_miss, 0);
    }

    #[test]
    fn missing_pages_are_submitted_in_runs() {
        let runs = window(10, 10, None).missing(|page| page == 12 || page > 17);
        assert_eq!(runs, [PageRange::new(10, 12), PageRange::new(13, 18)]);
    }

    proptest! {
        #[test]
        fn every_read_gets_its_pages_and_none_beyond_the_file(
            reads in prop::collection::vec((0u64..200, 1u64..50), 1..30), window_max in 0u64..40, device_optimum in 0u64..80,
        ) {
            let limits = ReadaheadLimits { window_max, device_optimum, file_pages: 250, ..LIMITS };
            let (mut state, mut cache) = (FileReadahead::default(), Cache::default());
            let mut wanted = BTreeSet::new();
            for (first, nr) in reads {
                cache.read(&mut state, first, nr, &limits);
                wanted.extend(first..first + nr);
            }
            prop_assert!(wanted.iter().all(|page| cache.pages.contains_key(page)));
            prop_assert!(cache.pages.keys().all(|&page| page < 250));
            for window in cache.windows {
                prop_assert!(window.range.len() <= window_max.max(device_optimum).max(50));
                prop_assert!(window.mark.is_none_or(|mark| window.range.contains(mark)));
            }
        }
    }
}
