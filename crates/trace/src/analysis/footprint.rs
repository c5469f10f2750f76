//! Memory that a trace touches, in total and at its peak.

use std::ops::Range;
use std::path::Path;

use serde::Serialize;

use super::walk::Rows;
use super::{Entry, Limit, PageTable, TraceStep, walk};
use crate::{EventKind, PageCacheRange, Result, TraceReader, TraceRows};

/// Pages of a trace, in units of its page size.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Footprint {
    /// Number of distinct pages touched in the whole trace.
    pub touched_pages: u64,
    /// Number of distinct pages written in the whole trace.
    pub written_pages: u64,
    /// Largest number of pages at one time that had been touched and were still mapped: the memory that a run needs to avoid all reclaim.
    /// Pages that are unmapped or mapped over, or whose process has ended, no longer count; pages of the page cache count to the end.
    pub peak_resident_pages: u64,
    /// Touched pages of the page cache: read or written through file descriptors. A page that is also mapped counts in both.
    pub page_cache_pages: u64,
    /// Trace time at which the peak was first reached, nanoseconds.
    pub peak_time_ns: u64,
    /// Trace time at the end, nanoseconds from the start.
    pub duration_ns: u64,
}

/// One pass over the trace; memory grows with the footprint (5 to 110 bytes a page).
///
/// # Errors
/// When the trace is damaged or touches too many pages.
pub fn footprint(reader: &mut dyn TraceRows) -> Result<Footprint> {
    let mut counts = Counts::new(reader);
    let duration_ns = walk(reader, |step| counts.see(&step))?;
    Ok(counts.finish(duration_ns))
}

/// Pages that rows may name for each byte of the file before their footprint is counted, and in any case. Rows of real traces name far
/// fewer for their length.
const NAMED_PER_FILE_BYTE: u64 = 64;
const NAMED_MIN: u64 = 1 << 25;

/// Refuses a trace whose replay would hold data on more pages than its length speaks for. For almost every trace, one pass over the rows
/// shows that it is fine.
///
/// # Errors
/// When the trace is damaged or touches too many pages.
pub fn check_for_replay(path: &Path) -> Result<()> {
    let mut reader = TraceReader::open(path)?;
    let named_max = reader.file_bytes().saturating_mul(NAMED_PER_FILE_BYTE).max(NAMED_MIN);
    let mut named = 0_u64;
    walk(&mut reader, |step| {
        if let TraceStep::Rows(rows) = step {
            named = rows.ranges().map(|(start, end)| end - start).fold(named, u64::saturating_add);
        }
        Ok(())
    })?;
    if named <= named_max { Ok(()) } else { footprint(&mut TraceReader::open(path)?).map(drop) }
}

/// Number of distinct pages of the page cache that a trace reads and writes through file descriptors; `None`: such accesses were not
/// recorded.
///
/// # Errors
/// When the trace is damaged or touches too many pages.
pub fn page_cache_pages(reader: &mut dyn TraceRows) -> Result<Option<u64>> {
    let meta = reader.meta().clone();
    let Some(range) = meta.page_cache else { return Ok(None) };
    let limit = Limit::new(reader, Entry::PAGE);
    let mut pages = PageTable::of(&meta);
    walk(reader, |step| {
        let TraceStep::Rows(rows) = step else { return Ok(()) };
        for (start, end) in rows.ranges().filter(|(start, _)| range.contains(*start)) {
            limit.admit(&pages, &rows, start, end)?;
            (start..end).for_each(|page| {
                pages.insert(0, page);
            });
        }
        Ok(())
    })?;
    Ok(Some(pages.len()))
}

const RESIDENT: u8 = 1;
const WRITTEN: u8 = 2;

/// The footprint, computed as part of another pass.
#[derive(Debug)]
pub(crate) struct Counts {
    limit: Limit,
    pages: PageTable,
    flags: Vec<u8>,
    resident: u64,
    page_cache: Option<PageCacheRange>,
    found: Footprint,
}

impl Counts {
    pub(crate) fn new(reader: &dyn TraceRows) -> Self {
        let meta = reader.meta();
        Self {
            limit: Limit::new(reader, Entry::PAGE),
            pages: PageTable::of(meta),
            flags: Vec::new(),
            resident: 0,
            page_cache: meta.page_cache,
            found: Footprint::default(),
        }
    }

    pub(crate) fn see(&mut self, step: &TraceStep<'_>) -> Result<()> {
        match step {
            TraceStep::Rows(rows) => {
                for ((start, end), &write) in rows.ranges().zip(rows.write()) {
                    self.touch(rows, start..end, write)?;
                }
                self.rise(rows.time_ns);
            }
            TraceStep::Event { event, process } => match &event.kind {
                EventKind::Map(map) => self.forget(*process, map.start, map.end),
                EventKind::Unmap { start, end } => self.forget(*process, *start, *end),
                _ => {}
            },
            TraceStep::Exit { process } => self.forget(*process, 0, crate::PAGE_LIMIT),
        }
        Ok(())
    }

    /// Adds one of `rows`. [`Counts::rise`] must follow before any page is forgotten.
    pub(crate) fn touch(&mut self, rows: &Rows<'_>, pages: Range<u64>, write: bool) -> Result<()> {
        self.limit.admit(&self.pages, rows, pages.start, pages.end)?;
        for page in pages {
            let number = self.pages.insert(rows.process, page) as usize;
            if number == self.flags.len() {
                self.flags.push(0);
                let is_cached = self.page_cache.is_some_and(|range| range.contains(page));
                self.found.page_cache_pages += u64::from(is_cached);
            }
            let flags = &mut self.flags[number];
            self.resident += u64::from(*flags & RESIDENT == 0);
            self.found.written_pages += u64::from(write && *flags & WRITTEN == 0);
            *flags |= RESIDENT | if write { WRITTEN } else { 0 };
        }
        Ok(())
    }

    /// Records the resident pages after rows at `time_ns`. Rows only add pages, so the peak is after the last row.
    pub(crate) fn rise(&mut self, time_ns: u64) {
        if self.resident > self.found.peak_resident_pages {
            self.found.peak_resident_pages = self.resident;
            self.found.peak_time_ns = time_ns;
        }
    }

    fn forget(&mut self, process: usize, start: u64, end: u64) {
        let Self { pages, flags, resident, .. } = self;
        pages.for_each_in(process, start, end, |number| {
            let flags = &mut flags[number as usize];
            *resident -= u64::from(*flags & RESIDENT != 0);
            *flags &= !RESIDENT;
        });
    }

    pub(crate) fn finish(self, duration_ns: u64) -> Footprint {
        Footprint { touched_pages: self.pages.len(), duration_ns, ..self.found }
    }

    /// Pages of the trace so far, and whether each (by its number) was written.
    pub(crate) fn pages(&self) -> (&PageTable, impl Fn(u32) -> bool + '_) {
        (&self.pages, |number| self.flags[number as usize] & WRITTEN != 0)
    }
}
