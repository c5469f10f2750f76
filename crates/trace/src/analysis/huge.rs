//! The part of a trace's memory that huge pages could hold, and its cost in memory.
//!
//! The measure: an aligned 2 MiB range within one anonymous mapping (heap, stack, private memory without a file; adjacent mappings of the
//! same kind count as one) could be one huge page. Its benefit grows with the touched part; its cost is the rest, which becomes resident
//! too. So ranges are classified by the largest share of their pages that were touched and still mapped at one time.

use std::collections::HashMap;

use serde::Serialize;

use super::layout::Layout;
use super::limit::Entries;
use super::{Entry, Limit, TraceStep, share_ppm, walk};
use crate::{EventKind, MapKind, Result, TraceRows};

/// Bytes of a huge page.
const HUGE_BYTES: u64 = 2 << 20;
/// Most pages in a range: with pages of 4 KiB.
const PAGES_MAX: u64 = 64 * WORDS as u64;
const WORDS: usize = 8;
/// Memory for a range, with its place in the map.
const RANGE_BYTES: u64 = 320;
/// Reported shares, in percent; 0 means one page.
const SHARES_PERCENT: [u64; 6] = [0, 25, 50, 75, 90, 100];

/// Memory that could be huge pages, by how densely it is touched.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct HugeRanges {
    /// Distinct pages touched, of any memory, in bytes.
    pub touched_bytes: u64,
    /// Touched bytes of anonymous memory: the peaks of all ranges, summed.
    pub anonymous_bytes: u64,
    /// One step for each least touched share of a range, ascending.
    pub steps: Vec<HugeStep>,
}

/// Ranges with at least a given share touched.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct HugeStep {
    /// The share in parts per million; 0 means one page.
    pub least_share_ppm: u64,
    /// Number of ranges of 2 MiB.
    pub ranges: u64,
    /// Touched bytes in these ranges: the peaks of all of them, summed.
    pub held_bytes: u64,
    /// These as a share of all touched bytes, parts per million.
    pub held_share_ppm: u64,
    /// Share of all accesses (pages touched by rows) to these ranges, parts per million.
    pub accesses_share_ppm: u64,
    /// Bytes that would become resident in addition if all these ranges were huge pages.
    pub overhead_bytes: u64,
}

/// Why a trace has no result for huge pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum NotReported {
    /// The trace has no mappings, so it is not known which memory is anonymous.
    NoMappings,
    /// The page size of the trace does not divide 2 MiB into 2 to 512 pages.
    PageSize,
}

impl NotReported {
    /// The reason as a sentence without a full stop.
    pub const fn message(self) -> &'static str {
        match self {
            Self::NoMappings => "the recording says nothing of mappings, so which memory is anonymous is not known",
            Self::PageSize => "the pages of the recording are not of a size from 4 KiB to 1 MiB",
        }
    }
}

/// One pass over the trace; memory grows with the ranges touched (some 170 bytes each).
///
/// # Errors
/// When the trace is damaged or touches too many pages.
pub fn huge_ranges(reader: &mut dyn TraceRows) -> Result<std::result::Result<HugeRanges, NotReported>> {
    let meta = reader.meta().clone();
    let pages = HUGE_BYTES.checked_div(meta.page_bytes).unwrap_or(0);
    if !(2..=PAGES_MAX).contains(&pages) {
        return Ok(Err(NotReported::PageSize));
    }
    if !meta.events.iter().any(|event| matches!(event.kind, EventKind::Map(_))) {
        return Ok(Err(NotReported::NoMappings));
    }
    let mut layout = Layout::default();
    let limit = Limit::new(reader, Entry { pages, bytes: RANGE_BYTES, per_row: 2, numbers: u64::MAX });
    let mut ranges = Ranges::new(pages);
    walk(reader, |step| {
        match step {
            TraceStep::Event { event, process } => {
                match &event.kind {
                    EventKind::Map(map) => ranges.forget(process, map.start, map.end),
                    EventKind::Unmap { start, end } => ranges.forget(process, *start, *end),
                    _ => {}
                }
                layout.see(&meta, event, process);
            }
            TraceStep::Exit { process } => ranges.forget(process, 0, crate::PAGE_LIMIT),
            TraceStep::Rows(rows) => {
                for (start, end) in rows.ranges() {
                    limit.admit(&ranges, &rows, start, end)?;
                    (start..end).for_each(|page| ranges.touch(&mut layout, rows.process, page));
                }
            }
        }
        Ok(())
    })?;
    Ok(Ok(ranges.finish(meta.page_bytes)))
}

fn is_anonymous(what: Option<MapKind>) -> bool {
    matches!(what, Some(MapKind::Heap | MapKind::Stack | MapKind::Anonymous))
}

/// An aligned range.
#[derive(Clone, Debug, Default)]
struct Range {
    /// Pages touched so far.
    ever: [u64; WORDS],
    /// Anonymous pages touched and still mapped.
    resident: [u64; WORDS],
    nr_resident: u64,
    most: u64,
    /// Whether it lay in one anonymous mapping at its first touch.
    fits: bool,
    /// Accesses to anonymous pages.
    accesses: u64,
}

struct Ranges {
    pages: u64,
    index_of: HashMap<(usize, u64), usize>,
    /// Process and number of each of `ranges`.
    keys: Vec<(usize, u64)>,
    ranges: Vec<Range>,
    last: Option<((usize, u64), usize)>,
    accesses: u64,
}

impl Ranges {
    fn new(pages: u64) -> Self {
        Self { pages, index_of: HashMap::new(), keys: Vec::new(), ranges: Vec::new(), last: None, accesses: 0 }
    }

    fn index(&mut self, key: (usize, u64)) -> usize {
        if let Some((_, index)) = self.last.filter(|(last, _)| *last == key) {
            return index;
        }
        let Self { index_of, keys, ranges, .. } = self;
        let index = *index_of.entry(key).or_insert_with(|| {
            keys.push(key);
            ranges.push(Range::default());
            ranges.len() - 1
        });
        self.last = Some((key, index));
        index
    }

    fn touch(&mut self, layout: &mut Layout, process: usize, page: u64) {
        self.accesses += 1;
        let number = page / self.pages;
        let index = self.index((process, number));
        let range = &mut self.ranges[index];
        let (word, bit) = place(page % self.pages);
        if range.resident[word] & bit != 0 {
            range.accesses += 1;
            return;
        }
        range.ever[word] |= bit;
        let (group, _) = layout.find(process, page);
        if !is_anonymous(layout.groups()[group as usize].what) {
            return;
        }
        range.accesses += 1;
        range.resident[word] |= bit;
        range.nr_resident += 1;
        range.most = range.most.max(range.nr_resident);
        if !range.fits {
            range.fits = layout.is_one_mapping(process, number * self.pages, (number + 1) * self.pages);
        }
    }

    /// The pages `start..end` are no longer mapped.
    fn forget(&mut self, process: usize, start: u64, end: u64) {
        if start >= end {
            return;
        }
        let numbers = start / self.pages..=(end - 1) / self.pages;
        let pages = self.pages;
        let cut = |range: &mut Range, number: u64| {
            let first = number * pages;
            for page in start.max(first)..end.min(first + pages) {
                let (word, bit) = place(page - first);
                range.nr_resident -= u64::from(range.resident[word] & bit != 0);
                range.resident[word] &= !bit;
            }
        };
        if numbers.end() - numbers.start() < self.index_of.len() as u64 {
            for number in numbers {
                if let Some(&index) = self.index_of.get(&(process, number)) {
                    cut(&mut self.ranges[index], number);
                }
            }
        } else {
            for (&(owner, number), range) in self.keys.iter().zip(&mut self.ranges) {
                if owner == process && numbers.contains(&number) {
                    cut(range, number);
                }
            }
        }
    }

    fn finish(self, page_bytes: u64) -> HugeRanges {
        let touched: u64 =
            self.ranges.iter().flat_map(|range| range.ever).map(|word| u64::from(word.count_ones())).sum();
        let step = |percent: u64| {
            let least = (self.pages * percent).div_ceil(100).max(1);
            let dense = || self.ranges.iter().filter(move |range| range.fits && range.most >= least);
            let (ranges, held) = (dense().count() as u64, dense().map(|range| range.most).sum::<u64>());
            HugeStep {
                least_share_ppm: percent * 10_000,
                ranges,
                held_bytes: held * page_bytes,
                held_share_ppm: share_ppm(held, touched),
                accesses_share_ppm: share_ppm(dense().map(|range| range.accesses).sum(), self.accesses),
                overhead_bytes: (ranges * self.pages - held) * page_bytes,
            }
        };
        HugeRanges {
            touched_bytes: touched * page_bytes,
            anonymous_bytes: self.ranges.iter().map(|range| range.most).sum::<u64>() * page_bytes,
            steps: SHARES_PERCENT.map(step).to_vec(),
        }
    }
}

impl Entries for Ranges {
    fn held(&self) -> u64 {
        self.ranges.len() as u64
    }

    fn missing(&self, process: usize, start: u64, end: u64) -> u64 {
        let numbers = start / self.pages..=(end - 1) / self.pages;
        let length = numbers.end() - numbers.start() + 1;
        let present = if length <= self.held() {
            numbers.filter(|&number| self.index_of.contains_key(&(process, number))).count()
        } else {
            self.keys.iter().filter(|(owner, number)| *owner == process && numbers.contains(number)).count()
        };
        length - present as u64
    }
}

/// Word and bit of a page of a range.
fn place(page: u64) -> (usize, u64) {
    (usize::try_from(page / 64).expect("below 8"), 1 << (page % 64))
}
