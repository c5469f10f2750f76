//! Latency class of each page, for the hit path: a word of bits per 64 pages and slower class of latency.
//!
//! The words of a chunk lie side by side, so that a hit on a machine with two kinds of memory reads 8 bytes per 64 pages more than one on a
//! machine with one kind. They are written when a frame is mapped and are only meaningful while the page is present. The hit path is
//! compiled once without slower classes and once for each number of them.

use super::{Chunk, DensePage, Entry, PageTable};
use crate::memory::{CLASSES_MAX, LatencyClasses};
use std::sync::Arc;

/// Slower classes at most.
pub(crate) const PLANES_MAX: usize = CLASSES_MAX - 1;

/// Number of accesses to each class, the fastest first.
pub type Hits = [u64; CLASSES_MAX];

impl PageTable {
    /// This empty table, for a machine with these kinds of memory.
    pub(crate) fn with_classes(mut self, classes: Option<Arc<LatencyClasses>>) -> Self {
        debug_assert!(self.chunks.is_empty(), "pages are sorted when they are mapped");
        // One class alone has a word that stays zero: its accesses are counted.
        self.extension.nr_planes = classes.as_ref().map_or(0, |classes| (classes.len() - 1).max(1));
        self.extension.classes = classes;
        self
    }

    /// Words of the planes of a new chunk of `len` pages.
    pub(super) fn fresh_planes(&self, len: usize) -> Box<[u64]> {
        vec![0; self.extension.nr_planes * len / 64].into_boxed_slice()
    }

    /// Whether some memory is slower than other.
    #[inline]
    pub(super) fn has_classes(&self) -> bool {
        self.extension.nr_planes > 0
    }

    /// Notes in which class `entry`, just mapped at `dense`, lies. The zero page is the kernel's, and in the fastest.
    #[inline]
    pub(super) fn note_class(&mut self, dense: DensePage, entry: Entry) {
        let nr_planes = self.extension.nr_planes;
        if nr_planes == 0 {
            return;
        }
        let class = match (entry, &self.extension.classes) {
            (Entry::Frame(frame), Some(classes)) => usize::from(classes.of(frame)),
            _ => 0,
        };
        debug_assert!(class <= nr_planes, "each slower class has its plane");
        let (within, bit) = (dense.within(), 1 << (dense.within() % 64));
        let words = &mut self.chunks[dense.slot()].planes[within / 64 * nr_planes..][..nr_planes];
        for (plane, word) in words.iter_mut().enumerate() {
            super::assign(word, bit, plane + 1 == class);
        }
    }

    /// The class of the memory that the entry of `dense` shows.
    pub(crate) fn class_of(&self, dense: DensePage) -> usize {
        self.class_at(self.page_of(dense))
    }

    /// The class of the memory at `page`; 0 where nothing was mapped yet.
    pub(super) fn class_at(&self, page: u64) -> usize {
        let Some(dense) = self.dense(page) else { return 0 };
        let chunk = &self.chunks[dense.slot()];
        let words = chunk.planes.chunks_exact(self.extension.nr_planes.max(1)).nth(dense.within() / 64).unwrap_or(&[]);
        words.iter().position(|word| word >> (dense.within() % 64) & 1 != 0).map_or(0, |plane| plane + 1)
    }
}

impl Chunk {
    /// The words of the 64 pages around `within`, one a slower class.
    #[inline(always)]
    pub(super) fn planes_at<const PLANES: usize>(&self, within: usize) -> [u64; PLANES] {
        planes_around(&self.planes, within)
    }
}

/// The words of the 64 pages around `within` in `planes`, one a slower class.
#[inline(always)]
pub(super) fn planes_around<const PLANES: usize>(planes: &[u64], within: usize) -> [u64; PLANES] {
    let mut words = [0; PLANES];
    if PLANES > 0 {
        words.copy_from_slice(&planes[within / 64 * PLANES..][..PLANES]);
    }
    words
}

#[cfg(test)]
mod tests {
    use super::super::{Cursor, FrameId, Need, Pace, Stop};
    use super::*;
    use isotherm_units::PageRange;
    use isotherm_units::access::Run;
    use proptest::prelude::*;

    /// Frames 0 to 99 cost 10 ns, 100 to 199 cost 17 ns, 200 and on 29 ns.
    fn classes(nr: usize) -> Arc<LatencyClasses> {
        let nodes = [(0, 10), (100, 17), (200, 29), (300, 41)];
        Arc::new(LatencyClasses::new(&nodes[..nr], |_| false).unwrap())
    }

    fn pace(until_ns: u64) -> Pace {
        Pace { until_ns, page_ns: 10, slower_ns: [7, 19, 31], ..Pace::default() }
    }

    fn table(nr_classes: usize, pages: &[(u64, u32)]) -> PageTable {
        let mut table = PageTable::new().with_classes(Some(classes(nr_classes)));
        table.reserve(PageRange::new(0, 1024)).unwrap();
        for &(page, frame) in pages {
            let dense = table.dense(page).unwrap();
            table.set_present(dense, Entry::Frame(FrameId::new(frame)), true, false, false);
        }
        table
    }

    #[test]
    fn a_page_costs_what_its_node_costs_and_another_after_it_moved() {
        let mut table = table(2, &[(5, 0), (6, 100), (7, 1)]);
        let play = |table: &mut PageTable, runs: &[Run]| {
            let mut clock = pace(u64::MAX);
            assert_eq!(table.play(runs, &mut Cursor::default(), &mut clock), Stop::Done);
            (clock.now_ns, clock.hits)
        };
        let runs = [Run::read(5, 1), Run::write(6, 1), Run::read(5, 3)];
        assert_eq!(play(&mut table, &runs), (10 + 17 + 37, [3, 2, 0, 0]));
        let dense = table.dense(6).unwrap();
        table.take(dense);
        table.set_present(dense, Entry::Frame(FrameId::new(9)), false, false, false);
        assert_eq!(play(&mut table, &[Run::read(5, 3)]), (30, [3, 0, 0, 0]));
        table.set_present(dense, Entry::Frame(FrameId::new(150)), false, false, false);
        table.set_present(dense, Entry::Zero, false, false, false);
        assert_eq!(play(&mut table, &[Run::read(6, 1)]), (10, [1, 0, 0, 0]), "the zero page");
    }

    /// Plain: a page at a time, each begun before the time is up.
    fn naive(pages: &[Option<u32>], runs: &[Run], until_ns: u64) -> (u64, Hits, Stop, Cursor) {
        let (mut now, mut hits) = (0, Hits::default());
        for (index, run) in runs.iter().enumerate() {
            for done in 0..run.pages {
                let cursor = Cursor { run: index, page: done, thought: done > 0 };
                if now >= until_ns {
                    return (now, hits, Stop::TimeUp, cursor);
                }
                if done == 0 {
                    now += u64::from(run.think_ns);
                    if now >= until_ns {
                        return (now, hits, Stop::TimeUp, Cursor { thought: true, ..cursor });
                    }
                }
                let page = run.page() + u64::from(done);
                let need = if run.is_write() { Need::Write } else { Need::Read };
                let Some(frame) = pages[page as usize] else {
                    return (now, hits, Stop::Fault { page, need }, Cursor { thought: true, ..cursor });
                };
                let class = (frame / 100) as usize;
                now += [10, 17, 29, 41][class];
                hits[class] += 1;
            }
        }
        (now, hits, Stop::Done, Cursor { run: runs.len(), ..Cursor::default() })
    }

    proptest! {
        /// Runs by mask and single pages cost, count and stop as one page after the other, with two classes and with four.
        #[test]
        fn runs_cost_what_their_pages_cost(
            nr_classes in 2usize..=4,
            pages in prop::collection::vec(prop::option::weighted(0.95, 0u32..400), 320),
            runs in prop::collection::vec((0u64..200, prop_oneof![Just(1u32), 2u32..120], 0u32..30, any::<bool>()), 1..20),
            until_ns in prop_oneof![Just(u64::MAX), 1u64..4000],
        ) {
            let pages: Vec<Option<u32>> =
                pages.into_iter().map(|frame| frame.map(|frame| frame % (nr_classes as u32 * 100))).collect();
            let mapped: Vec<(u64, u32)> =
                (0..).zip(&pages).filter_map(|(page, &frame)| Some((page, frame?))).collect();
            let mut table = table(nr_classes, &mapped);
            let runs: Vec<Run> = runs
                .into_iter()
                .map(|(page, len, think, write)| {
                    (if write { Run::write(page, len) } else { Run::read(page, len) }).after_ns(think)
                })
                .collect();
            let (mut cursor, mut clock) = (Cursor::default(), pace(until_ns));
            let stop = table.play(&runs, &mut cursor, &mut clock);
            let expected = naive(&pages, &runs, until_ns);
            prop_assert_eq!((clock.now_ns, clock.hits, stop), (expected.0, expected.1, expected.2));
            prop_assert_eq!((cursor.run, cursor.page), (expected.3.run, expected.3.page));
        }
    }
}
