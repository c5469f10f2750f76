//! The worked examples L1 to L10 of docs/spec/large-folios.md#f8, and what must hold for every window.
//!
//! Folios are written as there: `first:order`, `*` = marked.

use super::file::{Advice, FileReadahead, LargeWindow, MappingKind, ReadaheadLimits, Window};
use super::orders::{FolioBounds, Placed, Placement, plan};
use crate::memory::KernelRelease::{self, V6_12, V6_18, V7_2};
use isotherm_units::PageRange;
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

const XFS: FolioBounds = FolioBounds::new(0, 9);
const MAPPING: MappingKind = MappingKind {
    advice: Advice::Normal,
    executable: false,
    huge: false,
    pages: PageRange { start: 0, end: u64::MAX },
};

const fn limits(release: KernelRelease, file_pages: u64) -> ReadaheadLimits {
    ReadaheadLimits { window_max: 32, device_optimum: 32, file_pages, folios: XFS, release }
}

fn text(folios: &[Placed]) -> String {
    let folio = |placed: &Placed| {
        let mark = if placed.marked { "*" } else { "" };
        format!("{}:{}{mark}", placed.first, placed.order)
    };
    folios.iter().map(folio).collect::<Vec<_>>().join(" ")
}

/// Folios of one order one after the other, none marked.
fn row(pages: std::ops::Range<u64>, order: u32) -> String {
    let folios = pages.step_by(1 << order).map(|first| Placed { first, order, marked: false });
    text(&folios.collect::<Vec<_>>())
}

/// One open file and its page cache.
struct Reader {
    limits: ReadaheadLimits,
    state: FileReadahead,
    /// By first page: order, marked.
    cache: BTreeMap<u64, (u32, bool)>,
    /// Page whose read or fault made a window, the window, its folios.
    made: Vec<(u64, Window, Vec<Placed>)>,
}

impl Reader {
    fn new(limits: ReadaheadLimits) -> Self {
        Self { limits, state: FileReadahead::default(), cache: BTreeMap::new(), made: Vec::new() }
    }

    fn folio(&self, page: u64) -> Option<(u64, u32, bool)> {
        let (&first, &(order, marked)) = self.cache.range(..=page).next_back()?;
        (page - first < 1 << order).then_some((first, order, marked))
    }

    fn is_cached(&self) -> impl Fn(u64) -> bool + use<> {
        let pages: BTreeSet<u64> =
            self.cache.iter().flat_map(|(&first, &(order, _))| first..first + (1 << order)).collect();
        move |page| pages.contains(&page)
    }

    fn submit(&mut self, page: u64, window: Window) {
        let folios = plan(&window, &self.limits, self.is_cached());
        self.cache.extend(folios.iter().map(|placed| (placed.first, (placed.order, placed.marked))));
        self.made.push((page, window, folios));
    }

    fn unmark(&mut self, first: u64) {
        self.cache.get_mut(&first).expect("cached").1 = false;
    }

    /// `read()` of pages `page..page + nr`, folio by folio (`mm/filemap.c: filemap_get_pages`).
    fn read(&mut self, page: u64, nr: u64) {
        let (mut next, end) = (page, page + nr);
        while next < end {
            let Some((first, order, marked)) = self.folio(next) else {
                let window = self.state.read_miss(next, end - next, Advice::Normal, &self.limits, self.is_cached());
                self.submit(next, window);
                assert!(self.folio(next).is_some(), "a miss reads its page");
                continue;
            };
            if marked {
                self.unmark(first);
                let window = self.state.marked_page(first, order, end - first, &self.limits, self.is_cached());
                window.into_iter().for_each(|window| self.submit(next, window));
            }
            next = first + (1 << order);
        }
        self.state.read_done(end);
    }

    fn read_all(&mut self, nr: u64) {
        (0..self.limits.file_pages / nr).for_each(|call| self.read(call * nr, nr));
    }

    fn fault(&mut self, page: u64, mapping: &MappingKind) {
        let Some((first, order, marked)) = self.folio(page) else {
            let window = self.state.mmap_miss(page, mapping, &self.limits, self.is_cached());
            return self.submit(page, window);
        };
        let marked = marked.then_some(order);
        if marked.is_some() {
            self.unmark(first);
        }
        let window = self.state.mmap_cached(page, marked, mapping, &self.limits, self.is_cached());
        window.into_iter().for_each(|window| self.submit(page, window));
    }

    /// The folios that each read made.
    fn by_page(&self) -> Vec<(u64, String)> {
        let mut pages: Vec<(u64, String)> = Vec::new();
        for (page, _, folios) in &self.made {
            match pages.last_mut() {
                Some((last, folio_text)) if last == page => *folio_text += &format!(" {}", text(folios)),
                _ => pages.push((*page, text(folios))),
            }
        }
        pages
    }

    /// All folios, in the order in which they were made.
    fn all(&self) -> String {
        self.by_page().into_iter().map(|(_, folios)| folios).collect::<Vec<_>>().join(" ")
    }

    fn sizes(&self) -> Vec<u64> {
        self.made.iter().map(|(_, window, _)| window.large.map_or(window.range.len(), |large| large.size)).collect()
    }
}

fn reader(release: KernelRelease, file_pages: u64) -> Reader {
    Reader::new(limits(release, file_pages))
}

fn rows(expected: &[(u64, &str)]) -> Vec<(u64, String)> {
    expected.iter().map(|&(page, folios)| (page, folios.to_owned())).collect()
}

#[test]
fn l1_sequential_page_by_page() {
    let mut new = reader(V7_2, 256);
    new.read_all(1);
    let expected = [
        (0, "0:0 1:0* 2:0 3:0"),
        (1, "4:2* 8:2"),
        (4, "12:2*"),
        (12, "16:3*"),
        (16, "24:3*"),
        (24, "32:4*"),
        (32, "48:4*"),
        (48, "64:5*"),
        (64, "96:5*"),
        (96, "128:5*"),
        (128, "160:5*"),
        (160, "192:5*"),
        (192, "224:5"),
    ];
    assert_eq!(new.by_page(), rows(&expected));
    assert_eq!(new.sizes(), [4, 8, 4, 8, 8, 16, 16, 32, 32, 32, 32, 32, 32]);
    assert_eq!(new.cache.len(), 17);

    let mut old = reader(V6_12, 256);
    old.read_all(1);
    let expected = [
        (0, "0:2* 4:2* 8:2"),
        (4, "12:2* 16:3 24:2"),
        (12, "28:2* 32:4 48:3 56:2"),
        (28, "60:2* 64:4 80:3 88:2"),
        (60, "92:2* 96:4 112:3 120:2"),
        (92, "124:2* 128:4 144:3 152:2"),
        (124, "156:2* 160:4 176:3 184:2"),
        (156, "188:2* 192:4 208:3 216:2"),
        (188, "220:2* 224:4 240:3 248:2"),
        (220, "252:2*"),
    ];
    assert_eq!(old.by_page(), rows(&expected));
    assert_eq!(old.sizes(), [4, 8, 16, 32, 32, 32, 32, 32, 32, 32, 32]);
    assert_eq!(old.cache.len(), 35);
}

#[test]
fn l2_sequential_by_four_pages() {
    let mut new = reader(V7_2, 256);
    new.read_all(4);
    let expected = [
        (0, "0:0 1:0 2:0 3:0 4:0* 5:0 6:0 7:0"),
        (4, "8:2* 12:2 16:2 20:2"),
        (8, "24:3* 32:4"),
        (24, "48:4*"),
        (48, "64:5*"),
        (64, "96:5*"),
    ];
    assert_eq!(new.by_page()[..6], rows(&expected));
    let mut old = reader(V6_12, 256);
    old.read_all(4);
    let expected = [(0, "0:2 4:2*"), (4, "8:3* 16:3"), (8, "24:3* 32:4 48:3"), (24, "56:3* 64:4 80:3")];
    assert_eq!(old.by_page()[..4], rows(&expected));
    assert_eq!(old.by_page()[4], (56, "88:3* 96:4 112:3".to_owned()));
}

#[test]
fn l3_one_read_of_1_mib() {
    let mut new = reader(V7_2, 256);
    new.read(0, 256);
    let singles = row(0..32, 0).replace("16:0", "16:0*");
    let twos = row(32..64, 2).replace("32:2", "32:2*");
    assert_eq!(new.all(), format!("{singles} {twos} 64:4* 80:4 96:5* 128:5* 160:5* 192:5* 224:5"));
    assert_eq!(new.made[0].1.mark, Some(16));

    let wide = |release| {
        let mut reader = Reader::new(ReadaheadLimits { device_optimum: 320, ..limits(release, 256) });
        reader.read(0, 256);
        reader
    };
    assert_eq!(wide(V7_2).all(), row(0..256, 0));
    assert_eq!(wide(V6_12).made[0].2, {
        let folio = |first| Placed { first, order: 2, marked: first == 128 };
        (0..64).map(|number| folio(number * 4)).collect::<Vec<_>>()
    });
}

#[test]
fn l4_a_file_of_10_pages() {
    let mut new = reader(V7_2, 10);
    new.read_all(1);
    assert_eq!(new.by_page(), rows(&[(0, "0:0 1:0* 2:0 3:0"), (1, "4:2 8:1")]));
    let mut old = reader(V6_12, 10);
    old.read_all(1);
    assert_eq!(old.by_page(), rows(&[(0, "0:2* 4:2* 8:1")]));
}

/// 6.18 places folios as 7.2 does, and marks windows that reach the end of the file, too.
#[test]
fn columns_of_6_18() {
    let mut l1 = reader(V6_18, 256);
    l1.read_all(1);
    assert_eq!(l1.by_page().last(), Some(&(192, "224:5*".to_owned())));
    assert_eq!((l1.sizes(), l1.cache.len()), (vec![4, 8, 4, 8, 8, 16, 16, 32, 32, 32, 32, 32, 32], 17));
    let mut l3 = Reader::new(ReadaheadLimits { device_optimum: 320, ..limits(V6_18, 256) });
    l3.read(0, 256);
    assert_eq!(l3.all(), row(0..256, 0).replace("128:0", "128:0*"));
    let mut l4 = reader(V6_18, 10);
    l4.read_all(1);
    assert_eq!(l4.by_page(), rows(&[(0, "0:0 1:0* 2:0 3:0"), (1, "4:2* 8:1")]));
    let mut l7 = reader(V6_18, 1000);
    l7.fault(190, &MappingKind { executable: true, pages: PageRange::new(0, 200), ..MAPPING });
    assert_eq!(l7.all(), row(190..200, 0));
}

#[test]
fn l5_random_reads() {
    for (release, next) in
        [(V6_12, "101:0 102:1* 104:0"), (V6_18, "101:0 102:0* 103:0 104:0"), (V7_2, "101:0 102:0* 103:0 104:0")]
    {
        let mut one = reader(release, 1000);
        let before = one.state;
        one.state.read_miss(100, 1, Advice::Normal, &one.limits, |_| false);
        assert_eq!(one.state, before);
        one.read(100, 1);
        assert_eq!(one.all(), "100:0");
        one.read(101, 1);
        assert_eq!(one.by_page()[1], (101, next.to_owned()), "{release:?}");
        assert_eq!(one.made[1].1.large.map(|large| (large.size, large.async_size)), Some((4, 3)));
        let mut many = reader(release, 1000);
        many.read(100, 16);
        assert_eq!(many.all(), row(100..116, 0));
    }
}

#[test]
fn l6_read_around() {
    let mut new = reader(V7_2, 10_000);
    [1000, 1008, 1016].into_iter().for_each(|page| new.fault(page, &MAPPING));
    let around = row(984..1016, 0).replace("1008:0", "1008:0*");
    let next = row(1016..1048, 2).replace("1016:2", "1016:2*");
    assert_eq!(new.by_page(), [(1000, around), (1008, next), (1016, "1048:3* 1056:4".to_owned())]);
    assert_eq!(new.sizes(), [32, 32, 24]);
    let mut old = reader(V6_12, 10_000);
    [1000, 1008, 1016].into_iter().for_each(|page| old.fault(page, &MAPPING));
    let around = row(984..1016, 2).replace("1008:2", "1008:2*");
    let next = "1016:3* 1024:4 1040:3".to_owned();
    assert_eq!(old.by_page(), [(1000, around), (1008, next), (1016, "1048:3* 1056:4 1072:3".to_owned())]);
}

/// 2.4: faults compare their own page with the mark, reads the first page of the folio.
#[test]
fn a_fault_within_the_marked_folio_sees_a_foreign_mark() {
    let mut new = reader(V7_2, 10_000);
    [1000, 1008].into_iter().for_each(|page| new.fault(page, &MAPPING));
    // 1016:2* .. 1044:2 are cached. First uncached after 1018: 1048; size next(30 + 32) = 32, order 4, cut at 1072.
    let marked = new.state.marked_page(1018, 2, 32, &new.limits, new.is_cached()).unwrap();
    assert_eq!((marked.range, marked.large.unwrap().order), (PageRange::new(1048, 1072), 4));
    let foreign = new.state.marked_page(1050, 4, 32, &new.limits, |page| page < 1072).unwrap();
    assert_eq!((foreign.range, foreign.large.unwrap().order), (PageRange::new(1072, 1088), 4), "not beyond 1072 + 16");
}

#[test]
fn l7_code() {
    let code = MappingKind { executable: true, pages: PageRange::new(0, 200), ..MAPPING };
    let mut new = reader(V7_2, 1000);
    new.fault(190, &code);
    assert_eq!(new.all(), row(190..200, 0));
    let mut old = reader(V6_12, 1000);
    old.fault(190, &code);
    assert_eq!((old.made[0].1.range, old.sizes()), (PageRange::at(174, 32), vec![32]));
}

#[test]
fn l8_a_hole_in_the_way() {
    let window = |start, size, order| Window {
        range: PageRange::at(start, size),
        mark: Some(start),
        large: Some(LargeWindow { order, size, async_size: size }),
    };
    let rest = |end| format!("{} {}", row(32..40, 0), row(41..end, 0));
    let cached = |page| page == 40;
    assert_eq!(text(&plan(&window(0, 64, 5), &limits(V7_2, 1000), cached)), format!("0:5* {}", rest(64)));
    let old = rest(96).replacen("32:0", "32:0*", 1);
    assert_eq!(text(&plan(&window(0, 64, 5), &limits(V6_12, 1000), cached)), format!("0:5* {old}"));
    for release in KernelRelease::ALL {
        let singles = format!("{} {}", row(16..20, 0).replace("16:0", "16:0*"), row(21..32, 0));
        assert_eq!(text(&plan(&window(16, 16, 4), &limits(release, 1000), |page| page == 20)), singles);
    }
}

/// 2.6: no memory for a folio has the consequences of a cached page; the second time it ends the window.
#[test]
fn a_refused_folio_makes_the_rest_single() {
    let window = Window {
        range: PageRange::new(0, 64),
        mark: Some(40),
        large: Some(LargeWindow { order: 4, size: 64, async_size: 24 }),
    };
    for (release, end, mark) in [(V7_2, 64, 40), (V6_18, 64, 40), (V6_12, 96, 72)] {
        let limits = limits(release, 1000);
        let mut placement = Placement::new(&window, &limits);
        let large: Vec<_> = (0..3).filter_map(|_| placement.next(|_| false)).collect();
        assert_eq!(text(&large), "0:4 16:4 32:4*");
        placement.refuse(large[2]);
        let singles: Vec<_> =
            std::iter::from_fn(|| placement.clone().next(|_| false).map(|_| placement.next(|_| false)))
                .flatten()
                .collect();
        let marked = |from: &str| row(32..end, 0).replace(from, &format!("{from}*"));
        assert_eq!(text(&singles), marked(&format!("{mark}:0")), "{release:?}");
        let mut placement = Placement::new(&Window { large: None, ..window }, &limits);
        let first = placement.next(|_| false).unwrap();
        placement.refuse(first);
        assert_eq!(placement.next(|_| false), None);
    }
}

#[test]
fn l9_madv_hugepage() {
    let huge = MappingKind { huge: true, ..MAPPING };
    let random = MappingKind { advice: Advice::Random, ..huge };
    let fault = |limits: ReadaheadLimits, mapping: &MappingKind| {
        let mut reader = Reader::new(limits);
        reader.fault(700, mapping);
        reader.all()
    };
    for release in KernelRelease::ALL {
        assert_eq!(fault(limits(release, 2048), &huge), "512:9 1024:9*");
        assert_eq!(fault(limits(release, 1000), &huge), "512:8 768:7 896:6 960:5 992:3");
        assert_eq!(fault(limits(release, 2048), &random), "512:9*");
    }
    let single = |release| ReadaheadLimits { folios: FolioBounds::SINGLE, ..limits(release, 1300) };
    assert_eq!(fault(single(V6_12), &huge), row(512..1300, 0).replace("788:0", "788:0*"), "ext4 in 6.12");
    assert_eq!(fault(single(V7_2), &huge), row(684..716, 0).replace("708:0", "708:0*"), "not allowed: not huge");
    let small = ReadaheadLimits { folios: FolioBounds::new(0, 6), ..limits(V7_2, 2048) };
    assert_eq!(fault(small, &huge), "640:6 704:6*", "btrfs");
}

/// 2.7: huge faults count as misses in 7.2 and can be stopped, not in 6.12. Without readahead they read all the same.
#[test]
fn huge_faults_count_as_misses_in_7_2() {
    let huge = MappingKind { huge: true, ..MAPPING };
    for (release, last) in [(V6_12, 1024), (V7_2, 1)] {
        let limits = ReadaheadLimits { window_max: 0, ..limits(release, 2048) };
        let mut state = FileReadahead::default();
        (0..100).for_each(|_| assert_eq!(state.mmap_miss(700, &huge, &limits, |_| false).range.len(), 1024));
        assert_eq!(state.mmap_miss(700, &huge, &limits, |_| false).range.len(), last, "{release:?}");
    }
}

#[test]
fn l10_wide_readahead() {
    let wide = |release| {
        let limits = ReadaheadLimits { window_max: 512, device_optimum: 512, ..limits(release, 100_000) };
        let mut reader = Reader::new(limits);
        (0..80).for_each(|call| reader.read(call * 32, 32));
        reader
    };
    let new = wide(V7_2);
    let windows: Vec<_> = new.made.iter().map(|(_, window, _)| (window.range.start, window.range.len())).collect();
    let expected = [(0, 64), (64, 128), (192, 256), (448, 512), (960, 320), (1280, 256), (1536, 512), (2048, 512)];
    assert_eq!(windows[..8], expected);
    let orders: Vec<_> = new.made.iter().map(|(_, window, _)| window.large.unwrap().order).collect();
    assert_eq!(orders[..8], [0, 2, 4, 6, 8, 8, 9, 9]);
    assert!(new.made[0].2[32].marked && new.made[1..].iter().all(|(_, _, folios)| folios[0].marked));
    let folios: Vec<_> = new.made[4..9].iter().map(|(_, _, folios)| text(folios)).collect();
    assert_eq!(folios, ["960:6* 1024:8", "1280:8*", "1536:9*", "2048:9*", "2560:9*"]);

    let old = wide(V6_12);
    let from_448: Vec<_> = old.made.iter().filter(|(_, window, _)| window.range.start >= 448).collect();
    assert!(from_448.len() >= 3);
    for (index, (_, _, folios)) in from_448.into_iter().enumerate() {
        let start = 448 + 512 * index as u64;
        let expected = format!("{start}:6* {}:8 {}:7 {}:6", start + 64, start + 320, start + 448);
        assert_eq!(text(folios), expected);
    }
}

fn any_limits() -> impl Strategy<Value = ReadaheadLimits> {
    let folios = (0u32..4, 0u32..10).prop_map(|(min, max)| FolioBounds::new(min, max));
    let release = prop::sample::select(KernelRelease::ALL.to_vec());
    (0u64..130, 0u64..260, 1u64..700, folios, release).prop_map(
        |(window_max, device_optimum, file_pages, folios, release)| ReadaheadLimits {
            window_max,
            device_optimum,
            file_pages,
            folios,
            release,
        },
    )
}

proptest! {
    /// Any window over any cache: folios are aligned, disjoint and of allowed orders, only those of the smallest order reach
    /// beyond window and file, and every page of the window that was missing is read.
    #[test]
    fn windows_are_covered_by_folios(
        limits in any_limits(), start in 0u64..700, size in 1u64..600, async_size in 0u64..600, reached in 0u32..12,
        cached in prop::collection::btree_set(0u64..90, 0..20),
    ) {
        let end = start + size;
        let order = limits.folios.in_window(reached, size, limits.release);
        let async_size = async_size.min(size);
        let window = Window {
            range: PageRange::new(start, end).intersection(PageRange::new(0, limits.file_pages)),
            mark: Some(end - async_size),
            large: order.map(|order| LargeWindow { order, size, async_size }),
        };
        // A cache of folios of the smallest order.
        let min = limits.folios.min();
        let is_cached = |page: u64| cached.contains(&(page >> min));
        let folios = plan(&window, &limits, is_cached);
        let past_the_window = limits.release == V6_12 && order.is_some();
        let last = if past_the_window { limits.file_pages.min(end + size) } else { window.range.end };
        let mut read = BTreeSet::new();
        for placed in &folios {
            let pages = placed.pages();
            prop_assert_eq!(pages.start, placed.first);
            prop_assert!((min..=limits.folios.max()).contains(&placed.order));
            prop_assert!(pages.start < last && (pages.end <= last || placed.order == min));
            prop_assert!(pages.end > window.range.start);
            for page in pages.start..pages.end {
                prop_assert!(!is_cached(page) && read.insert(page));
            }
        }
        prop_assert!(folios.is_sorted_by_key(|placed| placed.first));
        prop_assert!(folios.iter().filter(|placed| placed.marked).count() <= 1 + usize::from(past_the_window));
        // 6.18 and 7.2 give a window up that begins within a folio of the smallest order, if its first folio is not free.
        let given_up = limits.release != V6_12 && order.is_some() && start % (1 << min) > 0 && folios.is_empty();
        // 6.12 counts the window from that folio's first page then.
        let short = if past_the_window { start % (1 << min) } else { 0 };
        let mut wanted = window.range.start..window.range.end.min(end - short);
        prop_assert!(given_up || wanted.all(|page| is_cached(page) || read.contains(&page)));
    }

    /// Reads of any kind get their pages, in folios that never overlap.
    #[test]
    fn reads_get_their_pages(limits in any_limits(), reads in prop::collection::vec((0u64..700, 1u64..70), 1..12)) {
        let mut reader = Reader::new(limits);
        for (first, nr) in reads {
            let first = first % limits.file_pages;
            let nr = nr.min(limits.file_pages - first);
            reader.read(first, nr);
            prop_assert!((first..first + nr).all(|page| reader.folio(page).is_some()));
        }
        let folios: Vec<_> = reader.cache.iter().map(|(&first, &(order, _))| (first, first + (1 << order))).collect();
        prop_assert!(folios.windows(2).all(|pair| pair[0].1 <= pair[1].0));
    }
}
