//! The miss-ratio curve of LRU: misses at every memory size, in one pass.

use std::sync::mpsc;

use serde::Serialize;

use super::sample::{Sample, Sampling};
use super::stack::{Batch, Distances, LruStack, Places};
use super::walk::Rows;
use super::words::{WORD_PAGES, WordTable};
use super::{Entry, Limit, TraceStep, walk};
use crate::{EventKind, PageCacheRange, Result, TraceRows};

/// Misses of an LRU memory of every size. Sizes are in pages.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct MissRatioCurve {
    /// Pages touched by all rows: the denominator of miss ratios.
    pub accesses: u64,
    /// Misses at any size: first touches, and first touches after an unmapping.
    pub cold_misses: u64,
    /// Sizes at which the number of misses falls, ascending, with the number from there on. Below the first, every access misses.
    pub points: Vec<MrcPoint>,
    /// Distance between sizes, if it is not one page: large curves are thinned out to at most 2^20 points. Each point stays exact.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub step_pages: Option<u64>,
    /// The part of the pages that the curve is based on; `None`: all pages, exact.
    #[serde(flatten)]
    pub sample: Option<SampledPart>,
}

/// The sample that a curve is based on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct SampledPart {
    /// The part of the pages.
    #[serde(rename = "sample")]
    pub rate: Sample,
    /// Accesses to these pages.
    #[serde(rename = "sample_accesses")]
    pub accesses: u64,
    /// Standard error of the miss ratio, parts a million: the largest of 64 sizes. It is estimated from the differences between eight parts
    /// of the sample. It does not cover accesses that all parts lack.
    #[serde(rename = "sample_error_ppm")]
    pub error_ppm: u64,
}

/// A point of the curve: the misses from a size on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct MrcPoint {
    /// Memory size in pages.
    pub pages: u64,
    /// Number of misses at this size, up to the next point.
    pub misses: u64,
}

impl MissRatioCurve {
    /// Misses of a memory of `pages` pages.
    pub fn misses_at(&self, pages: u64) -> u64 {
        let after = self.points.partition_point(|point| point.pages <= pages);
        self.points[..after].last().map_or(self.accesses, |point| point.misses)
    }

    /// Misses at `count` sizes, evenly spaced from 0 to the size beyond which nothing improves; for drawing.
    pub fn sampled(&self, count: u64) -> Vec<MrcPoint> {
        let largest = self.points.last().map_or(0, |point| point.pages);
        let steps = count.saturating_sub(1).clamp(1, largest.max(1));
        let size = |step: u64| u128::from(largest) * u128::from(step) / u128::from(steps);
        let point = |pages: u64| MrcPoint { pages, misses: self.misses_at(pages) };
        (0..=steps).map(|step| point(u64::try_from(size(step)).unwrap_or(u64::MAX))).collect()
    }
}

/// One pass over the trace in file order; every page of a run is an access. Memory grows with the footprint (some 6 bytes a page). Most of
/// the time is spent on misses of the processor's caches: 20 to 50 ns an access. Two threads share the work.
///
/// A page that is unmapped, mapped over, or whose process ends is forgotten: its slot is free, and its next touch is cold.
///
/// # Errors
/// When the trace is damaged or touches too many pages.
pub fn mrc(reader: &mut dyn TraceRows) -> Result<MissRatioCurve> {
    mrc_sampled(reader, Sampling::Off)
}

/// As [`mrc`], but on a sample of the pages if `sampling` asks for one: 1/16 of the pages takes a sixteenth of the time and memory. The
/// pages are chosen by a hash of their number, so equal traces give equal curves.
///
/// Distances and misses in the sample are multiplied by the inverse of its rate. All other accesses count as hits at every size, even if
/// the sample has too many or too few of them (SHARDS-adj: Waldspurger et al., 2015, section 3.4).
///
/// # Errors
/// When the trace is damaged or touches too many pages.
pub fn mrc_sampled(reader: &mut dyn TraceRows, sampling: Sampling) -> Result<MissRatioCurve> {
    match sampling.of(reader.meta().accesses) {
        None => of_all(reader),
        Some(sample) => of_sample(reader, sample),
    }
}

/// A group of pages that all have numbers. A page costs 4 bytes in the table of slots, and up to 2 for bits and counts of slots.
const NUMBERED_GROUP: Entry = Entry { pages: WORD_PAGES, bytes: 640, per_row: 2, numbers: (1 << 26) - 8 };

/// The exact curve. Pages are looked up here, and their distances are counted on another thread, because both take about the same time.
fn of_all(reader: &mut dyn TraceRows) -> Result<MissRatioCurve> {
    let mut taken = Taken::new(reader);
    std::thread::scope(|scope| {
        let (hand_on, full) = mpsc::sync_channel(BATCHES_AHEAD);
        let (give_back, empty) = mpsc::channel();
        let counting = scope.spawn(move || {
            let (mut distances, mut hits) = (Distances::default(), Hits::default());
            for mut batch in full {
                hits.add(distances.count(&mut batch));
                // The other side may have ended.
                let _ = give_back.send(batch);
            }
            hits
        });
        let mut send = |batch: &mut Batch| {
            let next = empty.try_recv().unwrap_or_default();
            // The receiver is gone only if counting has panicked, which is reported below.
            let _ = hand_on.send(std::mem::replace(batch, next));
        };
        let walked = walk(reader, |step| taken.take(&step, &mut send));
        taken.settle(&mut send);
        drop(hand_on);
        let hits = counting.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        walked.map(|_| hits.curve(taken.accesses, taken.cold_misses, taken.accesses, 1))
    })
}

/// Slots of all pages, and counts of their accesses that need no distances.
struct Taken {
    limit: Limit,
    pages: Pages,
    places: Places,
    /// Numbers of the pages to be accessed next.
    noted: Vec<u32>,
    accesses: u64,
    cold_misses: u64,
}

/// Called with each full batch; must leave an empty one.
type Full<'a> = &'a mut dyn FnMut(&mut Batch);

/// Pages that are numbered before their lookup, 16 KiB of numbers: two short loops overlap more cache misses than one long loop.
const NOTED: usize = 1 << 12;
/// Most batches that wait for the counting thread: 512 KiB each.
const BATCHES_AHEAD: usize = 4;

/// Not generic, so that the loops over pages are compiled in this crate, with its optimisation and not the caller's.
impl Taken {
    fn new(reader: &dyn TraceRows) -> Self {
        let limit = Limit::new(reader, NUMBERED_GROUP);
        let (pages, places) = (Pages::new(reader.meta().page_cache), Places::default());
        Self { limit, pages, places, noted: Vec::with_capacity(NOTED), accesses: 0, cold_misses: 0 }
    }

    fn take(&mut self, step: &TraceStep<'_>, full: Full<'_>) -> Result<()> {
        if let TraceStep::Rows(rows) = step {
            for (start, end) in rows.ranges() {
                self.limit.admit(&self.pages.words, rows, start, end)?;
                let mut at = start;
                while at < end {
                    let until = end.min(at + PIECE_PAGES);
                    self.pages.for_each(rows.process, at, until, |page| self.noted.push(page));
                    if self.noted.len() >= NOTED {
                        self.look_up(full);
                    }
                    at = until;
                }
            }
        } else if let Some((process, start, end)) = forgotten(step) {
            self.look_up(full);
            self.pages.for_each_in(process, start, end, |page| self.places.forget(page));
        }
        Ok(())
    }

    fn look_up(&mut self, full: Full<'_>) {
        self.accesses += self.noted.len() as u64;
        self.cold_misses += self.places.access(&self.noted, full);
        self.noted.clear();
    }

    /// Passes on everything so far.
    fn settle(&mut self, full: Full<'_>) {
        self.look_up(full);
        self.places.settle(full);
    }
}

fn of_sample(reader: &mut dyn TraceRows, sample: Sample) -> Result<MissRatioCurve> {
    let limits = SampleLimits::new(reader, sample);
    let mut pages = Pages::new(reader.meta().page_cache);
    let mut all = Counter::default();
    let mut parts: [Counter; PARTS] = Default::default();
    let mut accesses = 0;
    walk(reader, |step| {
        match step {
            TraceStep::Rows(rows) => {
                accesses += rows.accesses();
                for (start, end) in rows.ranges() {
                    let mut at = start;
                    while at < end {
                        limits.admit(&pages, &rows, (start, end))?;
                        let until = end.min(at + PIECE_PAGES);
                        pages.for_each_sampled(sample, rows.process, at, until, |page, part| {
                            all.noted.push(page);
                            parts[part % PARTS].noted.push(page);
                        });
                        if all.noted.len() >= NOTED {
                            parts.iter_mut().chain([&mut all]).for_each(Counter::count);
                        }
                        at = until;
                    }
                }
                parts.iter_mut().chain([&mut all]).for_each(Counter::count);
            }
            other => {
                if let Some((process, start, end)) = forgotten(&other) {
                    let all = parts.iter_mut().chain([&mut all]);
                    all.for_each(|counter| pages.for_each_in(process, start, end, |page| counter.stack.forget(page)));
                }
            }
        }
        Ok(())
    })?;
    drop(pages);
    let sample_accesses = all.accesses;
    let mut curve = all.curve(accesses, sample.one_in());
    let one_in = sample.one_in() * PARTS as u64;
    let parts: Vec<MissRatioCurve> = parts.into_iter().map(|part| part.curve(accesses, one_in)).collect();
    let error_ppm = standard_error_ppm(&curve, &parts);
    curve.sample = Some(SampledPart { rate: sample, accesses: sample_accesses, error_ppm });
    Ok(curve)
}

/// Limits of a sample. The pages of a sample are known only once each page of a row is hashed, so they are limited by the number so far.
struct SampleLimits {
    sample: Sample,
    sampled: Limit,
    all: Limit,
}

impl SampleLimits {
    fn new(reader: &dyn TraceRows, sample: Sample) -> Self {
        // A slot in the stack of all its pages, and in that of each part. A short row adds the pages of two groups at most.
        let per_row = (2 * WORD_PAGES / sample.one_in()).max(1);
        let page = Entry { pages: sample.one_in(), bytes: 64, per_row, numbers: (1 << 32) - (1 << 20) };
        Self { sample, sampled: Limit::new(reader, page), all: Limit::new(reader, Entry::GROUP) }
    }

    /// Asks for the next piece of a row of the pages `start` to `end` - 1.
    fn admit(&self, pages: &Pages, rows: &Rows<'_>, (start, end): (u64, u64)) -> Result<()> {
        let sampled = u64::from(pages.nr_sampled);
        self.sampled.admit_entries(sampled, rows, start, end)?;
        // The pages that the sample stands for, or those of this row.
        let all = (sampled * self.sample.one_in()).max(end - start);
        self.all.admit_entries(all / WORD_PAGES, rows, start, end)
    }
}

/// Pages of a long row that are taken at a time, because their numbers are noted before they are counted.
const PIECE_PAGES: u64 = 1 << 16;

/// The process and pages that a step empties: unmapped, mapped over, or of a process that ends.
fn forgotten(step: &TraceStep<'_>) -> Option<(usize, u64, u64)> {
    match step {
        TraceStep::Rows(_) => None,
        TraceStep::Event { event, process } => match &event.kind {
            EventKind::Map(map) => Some((*process, map.start, map.end)),
            EventKind::Unmap { start, end } => Some((*process, *start, *end)),
            _ => None,
        },
        TraceStep::Exit { process } => Some((*process, 0, crate::PAGE_LIMIT)),
    }
}

/// Dense numbers of the counted pages.
struct Pages {
    words: WordTable,
    shared: Option<PageCacheRange>,
    /// For a sample: its pages in each group, and the number of the first of them. Without a sample, all 64 pages have numbers.
    sampled: Vec<(u64, u32)>,
    nr_sampled: u32,
}

impl Pages {
    fn new(shared: Option<PageCacheRange>) -> Self {
        Self { words: WordTable::sharing(shared), shared, sampled: Vec::new(), nr_sampled: 0 }
    }

    #[inline]
    fn for_each(&mut self, process: usize, start: u64, end: u64, mut each: impl FnMut(u32)) {
        self.words.for_each_word(process, start, end, |number, bits| for_each_page(number, bits, &mut each));
    }

    /// Calls `each` for the pages of the sample: its number, and its part of the sample.
    #[inline]
    fn for_each_sampled(
        &mut self,
        sample: Sample,
        process: usize,
        start: u64,
        end: u64,
        mut each: impl FnMut(u32, usize),
    ) {
        for page in start..end {
            let owner = owner(self.shared, process, page);
            let Some(part) = sample.part(owner, page) else { continue };
            let number = self.words.insert(process, page) as usize;
            if number == self.sampled.len() {
                self.add_group(sample, owner, page);
            }
            let (pages, first) = self.sampled[number];
            each(first + (pages & ((1 << (page % WORD_PAGES)) - 1)).count_ones(), part);
        }
    }

    #[cold]
    fn add_group(&mut self, sample: Sample, owner: usize, page: u64) {
        let first_page = page / WORD_PAGES * WORD_PAGES;
        let is_in = |place: u64| u64::from(sample.part(owner, first_page + place).is_some()) << place;
        let pages = (0..WORD_PAGES).map(is_in).sum::<u64>();
        self.sampled.push((pages, self.nr_sampled));
        self.nr_sampled = self.nr_sampled.checked_add(pages.count_ones()).expect("fewer than 2^32 pages in the sample");
    }

    /// Calls `each` for the pages that `process` alone has in `start..end`.
    fn for_each_in(&self, process: usize, start: u64, end: u64, mut each: impl FnMut(u32)) {
        self.words.for_each_in(process, start, end, |number, bits| match self.sampled.get(number as usize) {
            None => for_each_page(number, bits, &mut each),
            Some(&(pages, first)) => {
                let mut left = pages & bits;
                while left != 0 {
                    let bit = left & left.wrapping_neg();
                    each(first + (pages & (bit - 1)).count_ones());
                    left &= left - 1;
                }
            }
        });
    }
}

/// Replaces the process for pages that all processes share.
const EVERYBODY: usize = u32::MAX as usize;

fn owner(shared: Option<PageCacheRange>, process: usize, page: u64) -> usize {
    if shared.is_some_and(|shared| shared.contains(page)) { EVERYBODY } else { process }
}

/// Number of parts of a sample; each gives a curve.
const PARTS: usize = 8;
/// Number of sizes at which the curves of the parts are compared.
const SIZES: u64 = 64;

/// The largest standard error of the mean of the parts.
fn standard_error_ppm(curve: &MissRatioCurve, parts: &[MissRatioCurve]) -> u64 {
    let error = |pages: u64| {
        let ratios = parts.iter().map(|part| part.misses_at(pages) as f64 / curve.accesses.max(1) as f64);
        let mean = ratios.clone().sum::<f64>() / parts.len() as f64;
        let squares: f64 = ratios.map(|ratio| (ratio - mean).powi(2)).sum();
        (squares / (parts.len() * (parts.len() - 1)) as f64).sqrt()
    };
    let largest = curve.sampled(SIZES + 1).iter().skip(1).map(|point| error(point.pages)).fold(0.0, f64::max);
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a share of one in millionths")]
    let ppm = (largest * 1e6).round() as u64;
    ppm
}

/// Stack distances of some pages.
#[derive(Default)]
struct Counter {
    stack: LruStack,
    hits: Hits,
    /// Numbers of accessed pages; they must be counted before any page is forgotten.
    noted: Vec<u32>,
    accesses: u64,
    cold_misses: u64,
}

impl Counter {
    /// Counts the noted accesses.
    fn count(&mut self) {
        let Self { stack, hits, noted, accesses, cold_misses } = self;
        *accesses += noted.len() as u64;
        *cold_misses += stack.access(noted, |distances| hits.add(distances));
        noted.clear();
    }

    /// The curve of `accesses` accesses to `one_in` times as many pages.
    fn curve(mut self, accesses: u64, one_in: u64) -> MissRatioCurve {
        self.stack.settle(|distances| self.hits.add(distances));
        drop(self.stack);
        self.hits.curve(self.accesses, self.cold_misses, accesses, one_in)
    }
}

/// Calls `each` with the dense numbers of the pages `bits` of a group.
///
/// # Panics
/// At 2^32 pages, a number that [`Limit`] never allows.
#[inline]
fn for_each_page(number: u32, mut bits: u64, mut each: impl FnMut(u32)) {
    assert!(number < 1 << 26, "more than 2^32 pages touched");
    // A row usually has one page.
    while bits != 0 {
        each(number << 6 | bits.trailing_zeros());
        bits &= bits - 1;
    }
}

/// Accesses by stack distance.
#[derive(Default)]
struct Hits {
    /// Counts by (distance - 1) >> shift.
    counts: Vec<u64>,
    shift: u32,
    furthest: u32,
}

/// Most counts. Beyond that, adjacent ones are joined: a curve with more points than pixels is of no use.
const COUNTS_MAX: usize = 1 << 20;

impl Hits {
    fn add(&mut self, distances: &[u32]) {
        self.furthest = distances.iter().fold(self.furthest, |furthest, &distance| furthest.max(distance));
        self.make_room();
        let shift = self.shift;
        let counts = &mut self.counts[..];
        distances.iter().for_each(|distance| counts[(distance - 1) as usize >> shift] += 1);
    }

    /// The curve of `accesses` accesses to `one_in` times as many pages, if `counted` of them were counted.
    fn curve(self, counted: u64, cold_misses: u64, accesses: u64, one_in: u64) -> MissRatioCurve {
        let Self { counts, shift, furthest } = self;
        let scaled = |misses: u64| misses.saturating_mul(one_in).min(accesses);
        let mut points = Vec::new();
        let mut misses = counted;
        for (index, &count) in counts.iter().enumerate().filter(|(_, count)| **count > 0) {
            misses -= count;
            let pages = ((index as u64 + 1) << shift).min(u64::from(furthest)) * one_in;
            points.push(MrcPoint { pages, misses: scaled(misses) });
        }
        let step_pages = (shift > 0 || one_in > 1).then_some(one_in << shift);
        MissRatioCurve { accesses, cold_misses: scaled(cold_misses), points, step_pages, sample: None }
    }

    fn make_room(&mut self) {
        let Some(last) = self.furthest.checked_sub(1).map(|last| last as usize) else { return };
        while last >> self.shift >= COUNTS_MAX {
            self.counts = self.counts.chunks(2).map(|pair| pair.iter().sum()).collect();
            self.shift += 1;
        }
        if last >> self.shift >= self.counts.len() {
            self.counts.resize((last >> self.shift) + 1, 0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_curve_is_read_between_its_points() {
        let points = vec![MrcPoint { pages: 2, misses: 7 }, MrcPoint { pages: 5, misses: 3 }];
        let curve = MissRatioCurve { accesses: 10, cold_misses: 3, points, step_pages: None, sample: None };
        let sizes = [0, 1, 2, 4, 5, 99].map(|pages| curve.misses_at(pages));
        assert_eq!(sizes, [10, 10, 7, 7, 3, 3]);
        let drawn: Vec<_> = curve.sampled(6).iter().map(|point| (point.pages, point.misses)).collect();
        assert_eq!(drawn, [(0, 10), (1, 10), (2, 7), (3, 7), (4, 7), (5, 3)]);
    }

    #[test]
    fn numbers_of_sampled_pages_are_dense_and_found_again() {
        let Ok(Sampling::Rate(sample)) = "1/4".parse() else { panic!("a rate") };
        let shared = Some(PageCacheRange { start: 70, end: 90 });
        let mut pages = Pages::new(shared);
        let mut found = std::collections::BTreeMap::new();
        for (process, start, end) in [(0, 0, 200), (1, 0, 100), (0, 50, 60), (1, 5000, 5100)] {
            pages.for_each_sampled(sample, process, start, end, |page, _| *found.entry(page).or_insert(0) += 1);
        }
        let in_sample = |process, range: std::ops::Range<u64>| {
            range.filter(|&page| sample.part(owner(shared, process, page), page).is_some()).count()
        };
        let own_again = in_sample(1, 70..90) + in_sample(0, 50..60);
        assert_eq!(found.values().sum::<usize>(), found.len() + own_again, "each page has one number");
        let mut own = Vec::new();
        pages.for_each_in(1, 10, 5050, |page| own.push(page));
        // Includes untouched pages of its groups, which the stack knows to be absent.
        let touched = own.iter().filter(|page| found.contains_key(page)).count();
        assert_eq!(touched, in_sample(1, 10..70) + in_sample(1, 90..100) + in_sample(1, 5000..5050));
    }

    #[test]
    fn far_distances_share_counts_and_ends_stay_exact() {
        let mut hits = Hits::default();
        let counts = u32::try_from(COUNTS_MAX).unwrap();
        for distance in [1, 2, 3, counts, counts + 1, 3 * counts] {
            hits.add(&[distance]);
        }
        // Three times as many distances as counts: four distances to a count.
        assert_eq!((hits.shift, hits.counts.len()), (2, 3 * COUNTS_MAX / 4));
        assert_eq!((hits.counts[0], hits.counts[COUNTS_MAX / 4 - 1], hits.counts[COUNTS_MAX / 4]), (3, 1, 1));
        assert_eq!(hits.counts.iter().sum::<u64>(), 6);
        let counter = Counter { hits, accesses: 10, cold_misses: 4, ..Counter::default() };
        let curve = counter.curve(10, 1);
        let at = |pages: usize| curve.misses_at(pages as u64);
        assert_eq!([at(4), at(COUNTS_MAX), at(COUNTS_MAX + 4), at(3 * COUNTS_MAX)], [7, 6, 5, 4]);
        assert_eq!((curve.step_pages, curve.points.last().unwrap().pages), (Some(4), 3 * COUNTS_MAX as u64));
    }
}
