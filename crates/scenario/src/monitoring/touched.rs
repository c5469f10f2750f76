//! The pages that a process really uses, period by period: the ground truth for monitors.
//!
//! A wrapper around each stream notes every page when it is returned, with the time at which the thread will reach it. Pages are kept as
//! bits, in pieces of 4 KiB for 128 MiB of address space, made when a page in them is used: 10 GiB in a row take 320 KiB, 5 TiB of
//! scattered pages 160 MiB.

use isotherm_units::access::{After, Batch, Run, Stream, StreamError};
use isotherm_units::{Instant, PageRange};
use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

const CHUNK_SHIFT: u32 = 15;
const CHUNK_WORDS: usize = 1 << (CHUNK_SHIFT - 6);
const DIRECTORY_SHIFT: u32 = 12;
const DIRECTORY_LEN: usize = 1 << DIRECTORY_SHIFT;

/// A set of page numbers.
#[derive(Clone, Debug, Default)]
pub(super) struct PageSet {
    /// One plus the index of a chunk; 0 if there is none.
    directories: Vec<Option<Box<[u32; DIRECTORY_LEN]>>>,
    chunks: Vec<Box<[u64; CHUNK_WORDS]>>,
}

impl PageSet {
    pub(super) fn clear(&mut self) {
        self.directories.clear();
        self.chunks.clear();
    }

    pub(super) fn insert(&mut self, page: u64) {
        let chunk = self.chunk_mut(page >> CHUNK_SHIFT);
        chunk[word_of(page)] |= 1 << (page % 64);
    }

    pub(super) fn insert_range(&mut self, pages: PageRange) {
        let mut page = pages.start;
        while page < pages.end {
            let end = pages.end.min((page | ((1 << CHUNK_SHIFT) - 1)) + 1);
            let chunk = self.chunk_mut(page >> CHUNK_SHIFT);
            for_each_word(page, end, |word, mask| chunk[word] |= mask);
            page = end;
        }
    }

    #[inline]
    fn chunk_mut(&mut self, number: u64) -> &mut [u64; CHUNK_WORDS] {
        let (directory, entry) = place_of(number);
        let known = self.directories.get(directory).and_then(Option::as_ref).map_or(0, |slots| slots[entry]);
        let index = if known == 0 { self.make_chunk(directory, entry) } else { known };
        &mut self.chunks[index as usize - 1]
    }

    #[cold]
    fn make_chunk(&mut self, directory: usize, entry: usize) -> u32 {
        if self.directories.len() <= directory {
            self.directories.resize_with(directory + 1, || None);
        }
        self.chunks.push(Box::new([0; CHUNK_WORDS]));
        let index = u32::try_from(self.chunks.len()).expect("2^32 chunks are 2^47 pages");
        self.directories[directory].get_or_insert_with(|| Box::new([0; DIRECTORY_LEN]))[entry] = index;
        index
    }

    /// Pages in the set.
    pub(super) fn len(&self) -> u64 {
        self.chunks.iter().flat_map(|chunk| chunk.iter()).map(|word| u64::from(word.count_ones())).sum()
    }

    /// Pages of `pages` that are in the set.
    pub(super) fn count_in(&self, pages: PageRange) -> u64 {
        let mut count = 0;
        let mut page = pages.start;
        while page < pages.end {
            let (directory, entry) = place_of(page >> CHUNK_SHIFT);
            let Some(slots) = self.directories.get(directory).and_then(Option::as_ref) else {
                page = (page | ((1 << (CHUNK_SHIFT + DIRECTORY_SHIFT)) - 1)) + 1;
                continue;
            };
            let end = pages.end.min((page | ((1 << CHUNK_SHIFT) - 1)) + 1);
            if let Some(index) = (slots[entry] as usize).checked_sub(1) {
                let chunk = &self.chunks[index];
                for_each_word(page, end, |word, mask| count += u64::from((chunk[word] & mask).count_ones()));
            }
            page = end;
        }
        count
    }
}

fn place_of(chunk: u64) -> (usize, usize) {
    let directory = usize::try_from(chunk >> DIRECTORY_SHIFT).expect("page numbers have 52 bits");
    (directory, usize::try_from(chunk % DIRECTORY_LEN as u64).expect("below the length"))
}

fn word_of(page: u64) -> usize {
    usize::try_from(page / 64).expect("page numbers have 52 bits") % CHUNK_WORDS
}

/// Words of one chunk and the bits in them that `start..end` covers.
fn for_each_word(start: u64, end: u64, mut each: impl FnMut(usize, u64)) {
    let mut page = start;
    while page < end {
        let until = end.min((page | 63) + 1);
        let mask = (u64::MAX >> (64 - (until - page))) << (page % 64);
        each(word_of(page), mask);
        page = until;
    }
}

/// How often one page was used in a period.
#[derive(Clone, Copy, Debug, Default)]
struct Uses {
    /// One plus the sampling interval of the last use.
    last: u64,
    /// Sampling intervals with a use.
    intervals: u32,
}

/// Multiplicative hash: page numbers need no protection against chosen collisions.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct PageHasher(u64);

impl Hasher for PageHasher {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|&byte| self.write_u64(u64::from(byte)));
    }
    fn write_u64(&mut self, value: u64) {
        self.0 = spread(self.0 ^ value);
    }
}

fn spread(value: u64) -> u64 {
    let product = value.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    product ^ (product >> 32)
}

/// Pages used in one period.
#[derive(Debug, Default)]
pub(super) struct Period {
    number: u64,
    pub(super) pages: PageSet,
    uses: HashMap<u64, Uses, BuildHasherDefault<PageHasher>>,
}

impl Period {
    /// Pages whose uses are counted: page, and number of sampling intervals with a use. The order is arbitrary.
    pub(super) fn uses(&self) -> impl Iterator<Item = (u64, u32)> + '_ {
        self.uses.iter().map(|(&page, uses)| (page, uses.intervals))
    }
}

/// Parameters for noting a process's uses.
#[derive(Clone, Copy, Debug)]
pub(super) struct Noting {
    /// Length of a period; they follow each other from the start of the run.
    pub(super) period_ns: u64,
    /// Length of a sampling interval.
    pub(super) sample_ns: u64,
    /// Time of touching a page, in addition to the run's own time.
    pub(super) page_ns: u64,
    /// Pages that are mapped at the start: the more, the smaller the share of pages whose uses are counted.
    pub(super) mapped_pages: u64,
}

/// Most pages whose uses are counted, if the mappings are known.
const COUNTED_MAX: u64 = 1 << 16;

/// The uses of one process.
#[derive(Debug)]
pub(super) struct Touched {
    noting: Noting,
    /// Pages whose spread number is below it are counted.
    counted_below: u64,
    /// Periods not yet judged, ascending.
    periods: VecDeque<Period>,
    /// Everything before this was judged.
    judged: u64,
    spare: Option<Period>,
}

impl Touched {
    pub(super) fn new(noting: Noting) -> Self {
        let counted_below = (u128::from(u64::MAX) * u128::from(COUNTED_MAX) / u128::from(noting.mapped_pages.max(1)))
            .min(u128::from(u64::MAX));
        let counted_below = u64::try_from(counted_below).expect("limited");
        Self { noting, counted_below, periods: VecDeque::new(), judged: 0, spare: None }
    }

    /// Notes the runs of a batch whose first begins at `now`.
    fn note(&mut self, now: Instant, runs: &[Run]) {
        let Noting { period_ns, sample_ns, page_ns, .. } = self.noting;
        let mut at_ns = now.ns();
        let mut rest = runs;
        while !rest.is_empty() {
            let number = at_ns.saturating_add(u64::from(rest[0].think_ns)) / period_ns;
            let end_ns = (number + 1).saturating_mul(period_ns);
            let counted_below = self.counted_below;
            let period = self.period_mut(number);
            let mut done = 0;
            for run in rest {
                let began_ns = at_ns + u64::from(run.think_ns);
                if began_ns >= end_ns && done > 0 {
                    break;
                }
                done += 1;
                at_ns = began_ns + u64::from(run.pages) * page_ns;
                if run.pages == 1 {
                    period.pages.insert(run.page());
                } else {
                    period.pages.insert_range(run.range());
                }
                for page in run.range().start..run.range().end {
                    if spread(page) < counted_below {
                        let interval = began_ns / sample_ns + 1;
                        let uses = period.uses.entry(page).or_default();
                        uses.intervals += u32::from(uses.last != interval);
                        uses.last = interval;
                    }
                }
            }
            rest = &rest[done..];
        }
    }

    fn period_mut(&mut self, number: u64) -> &mut Period {
        // A thread may lag behind the judged period: its accesses count for the current period.
        let number = number.max(self.judged);
        let place = self.periods.partition_point(|period| period.number < number);
        if self.periods.get(place).is_none_or(|period| period.number != number) {
            let mut fresh = self.spare.take().unwrap_or_default();
            fresh.number = number;
            self.periods.insert(place, fresh);
        }
        &mut self.periods[place]
    }

    /// Returns the pages used in period `number` and forgets everything before it; to be returned by [`recycle`](Self::recycle).
    pub(super) fn take(&mut self, number: u64) -> Period {
        self.judged = number + 1;
        while self.periods.front().is_some_and(|period| period.number < number) {
            self.periods.pop_front();
        }
        match self.periods.front() {
            Some(period) if period.number == number => self.periods.pop_front().expect("it was looked at"),
            _ => Period { number, ..Period::default() },
        }
    }

    pub(super) fn recycle(&mut self, mut period: Period) {
        period.pages.clear();
        period.uses.clear();
        self.spare = Some(period);
    }
}

/// Shared by the streams of a process and the judge.
#[derive(Clone, Debug)]
pub(super) struct SharedTouched(Arc<Mutex<Touched>>);

impl SharedTouched {
    pub(super) fn new(noting: Noting) -> Self {
        Self(Arc::new(Mutex::new(Touched::new(noting))))
    }
    pub(super) fn lock(&self) -> MutexGuard<'_, Touched> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A stream whose pages are noted.
pub(super) struct NotedStream {
    pub(super) stream: Box<dyn Stream>,
    pub(super) touched: SharedTouched,
}

impl Stream for NotedStream {
    fn next_batch(&mut self, now: Instant, batch: &mut Batch) -> Result<After, StreamError> {
        let after = self.stream.next_batch(now, batch)?;
        self.touched.lock().note(now, &batch.runs);
        Ok(after)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn noting(mapped_pages: u64) -> Noting {
        Noting { period_ns: 1_000, sample_ns: 100, page_ns: 10, mapped_pages }
    }

    #[test]
    fn accesses_count_in_the_period_in_which_they_happen() {
        let mut touched = Touched::new(noting(1));
        let runs = [Run::read(7, 1).after_ns(890), Run::read(8, 1).after_ns(90), Run::read(9, 2).after_ns(20)];
        touched.note(Instant::START, &runs);
        // 7 at 890, 8 at 990, 9 at 1020.
        let first = touched.take(0);
        assert_eq!((first.pages.len(), first.pages.count_in(PageRange::new(7, 9))), (2, 2));
        touched.recycle(first);
        let second = touched.take(1);
        assert_eq!((second.pages.len(), second.pages.count_in(PageRange::new(9, 11))), (2, 2));
        assert_eq!(touched.take(5).pages.len(), 0);
    }

    #[test]
    fn uses_are_counted_by_sampling_interval() {
        let mut touched = Touched::new(noting(1));
        for at in [0, 50, 99, 100, 950] {
            touched.note(Instant::from_ns(at), &[Run::read(3, 1)]);
        }
        assert_eq!(touched.take(0).uses().collect::<Vec<_>>(), [(3, 3)]);
    }

    #[test]
    fn of_large_spaces_a_share_is_counted() {
        let mut touched = Touched::new(noting(COUNTED_MAX * 64));
        touched.note(Instant::START, &[Run::read(0x7_0000_0000, 1 << 16)]);
        let period = touched.take(0);
        assert_eq!(period.pages.len(), 1 << 16);
        let counted = period.uses().count();
        assert!((700..1350).contains(&counted), "about one in 64: {counted}");
    }

    proptest! {
        #[test]
        fn a_page_set_is_a_set(
            runs in prop::collection::vec((0usize..300_000, 1usize..70_000), 0..12),
            asked in (0usize..300_000, 0usize..300_000),
        ) {
            let mut set = PageSet::default();
            let mut naive = vec![false; 600_000];
            let count = |pages: &[bool]| pages.iter().filter(|&&is_in| is_in).count() as u64;
            for (start, pages) in runs {
                naive[start..start + pages].fill(true);
                let (start, pages) = (start as u64, pages as u64);
                if pages == 1 { set.insert(start) } else { set.insert_range(PageRange::at(start, pages)) }
            }
            prop_assert_eq!(set.len(), count(&naive));
            let (start, pages) = asked;
            let counted = set.count_in(PageRange::at(start as u64, pages as u64));
            prop_assert_eq!(counted, count(&naive[start..start + pages]));
        }
    }
}
