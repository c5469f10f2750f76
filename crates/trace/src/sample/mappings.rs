//! Converts addresses of a trace to addresses of its sample.
//!
//! Anonymous memory is one axis, by address: mappings, cuts and joins there are kept. Pages of a file are numbered by the file, so that all
//! its mappings, in any process and at any address, have the same pages of the sample. Each mapping of a file gets its own range, one after
//! the other above all anonymous memory.

use std::collections::BTreeMap;

use super::{Grid, SampleRate};
use crate::{EventKind, MapKind, MapRange, PageCacheRange, Result, TraceMeta};

/// First page for mappings of files: after the anonymous memory of a sample of half of all user addresses, before the page cache.
const FILES_AT: u64 = 0x4_0000_0000;

/// A mapping of a file.
#[derive(Clone, Debug)]
struct OfFile {
    /// Page after its last one, in the trace.
    end: u64,
    /// Page of the file at its first page, in the trace.
    file_page: u64,
    grid: Grid,
    /// Page of the sample at which page 0 of the sampled file would be; it may be negative, and wraps.
    base: u64,
}

impl OfFile {
    /// Sample range of the chosen pages of `from..to`, if the mapping starts at `start`.
    fn places(&self, start: u64, from: u64, to: u64) -> (u64, u64) {
        let page = |page: u64| self.grid.place(self.file_page + (page - start)).wrapping_add(self.base);
        (page(from), page(to))
    }
}

#[derive(Debug)]
pub(super) struct Mappings {
    rate: SampleRate,
    page_bytes: u64,
    anonymous: Grid,
    /// Mappings of files by process and first page.
    files: BTreeMap<(usize, u64), OfFile>,
    /// By process: first page of its next mapping of a file.
    next: Vec<u64>,
    /// Last result: process, range, and the mapping at its start, if it is one of a file.
    last: Option<(usize, u64, u64, Option<OfFile>)>,
}

impl Mappings {
    pub(super) fn new(meta: &TraceMeta, rate: SampleRate) -> Self {
        let page_bytes = meta.page_bytes;
        Self {
            rate,
            page_bytes,
            anonymous: Grid::new(page_bytes, rate.get().into(), ""),
            files: BTreeMap::new(),
            next: vec![FILES_AT; meta.processes.len().max(1)],
            last: None,
        }
    }

    /// Passes on the sample ranges of `start..end` of a process, as far as they are in the sample.
    pub(super) fn sampled(&mut self, process: usize, start: u64, end: u64, mut each: impl FnMut(u64, u64)) {
        let mut at = start;
        while at < end {
            self.find(process, at);
            let (_, first, until, file) = self.last.as_ref().expect("just found");
            let until = end.min(*until);
            let (from, to) = match file {
                Some(file) => file.places(*first, at, until),
                None => self.anonymous.places(at, until),
            };
            if from < to {
                each(from, to);
            }
            at = until;
        }
    }

    /// Sets `last` to the range around `page`.
    fn find(&mut self, process: usize, page: u64) {
        let is_it =
            |(of, start, end, _): &(usize, u64, u64, Option<OfFile>)| *of == process && (*start..*end).contains(&page);
        if self.last.as_ref().is_some_and(is_it) {
            return;
        }
        let before = self.files.range((process, 0)..=(process, page)).next_back();
        self.last = Some(match before {
            Some((&(_, start), file)) if page < file.end => (process, start, file.end, Some(file.clone())),
            before => {
                let start = before.map_or(0, |(_, file)| file.end);
                let next = self.files.range((process, page)..(process + 1, 0)).next();
                (process, start, next.map_or(u64::MAX, |(&(_, start), _)| start), None)
            }
        });
    }

    /// Applies a mapping, and passes on its part in the sample.
    pub(super) fn map(
        &mut self,
        process: usize,
        map: &MapRange,
        tell: &mut impl FnMut(EventKind) -> Result<()>,
    ) -> Result<()> {
        let Some(name) = map.file.as_deref() else {
            self.cut(process, map.start, map.end, tell)?;
            let (start, end) = self.anonymous.places(map.start, map.end);
            return if start < end { tell(EventKind::Map(MapRange { start, end, ..map.clone() })) } else { Ok(()) };
        };
        // It replaces older mappings.
        self.unmap(process, map.start, map.end, tell)?;
        let grid = Grid::new(self.page_bytes, self.rate.get().into(), name);
        let (file_page, file_end) = grid.places(map.file_page, map.file_page + (map.end - map.start));
        let base = if map.what == MapKind::PageCache {
            // The range is the same for all processes, which may use any part of the file.
            map.start.wrapping_sub(map.file_page)
        } else {
            let next = &mut self.next[process];
            let at = *next;
            *next = at + (file_end - file_page);
            // No program maps that much: it would take 10 TiB of files in the sample.
            if *next > PageCacheRange::RECORDED.start {
                *next = FILES_AT;
            }
            at.wrapping_sub(file_page)
        };
        let (start, end) = (file_page.wrapping_add(base), file_end.wrapping_add(base));
        let known = OfFile { end: map.end, file_page: map.file_page, grid, base };
        self.files.insert((process, map.start), known);
        self.last = None;
        if start < end { tell(EventKind::Map(MapRange { start, end, file_page, ..map.clone() })) } else { Ok(()) }
    }

    /// Applies the unmapping of a range.
    pub(super) fn unmap(
        &mut self,
        process: usize,
        start: u64,
        end: u64,
        tell: &mut impl FnMut(EventKind) -> Result<()>,
    ) -> Result<()> {
        self.cut(process, start, end, tell)?;
        let (start, end) = self.anonymous.places(start, end);
        if start < end { tell(EventKind::Unmap { start, end }) } else { Ok(()) }
    }

    /// A process starts with the mappings of another, if it has none.
    pub(super) fn fork(&mut self, parent: usize, child: usize) {
        if parent == child || self.files.range((child, 0)..(child + 1, 0)).next().is_some() {
            return;
        }
        let inherited: Vec<_> =
            self.files.range((parent, 0)..(parent + 1, 0)).map(|(key, file)| (key.1, file.clone())).collect();
        self.files.extend(inherited.into_iter().map(|(start, file)| ((child, start), file)));
        self.next[child] = self.next[child].max(self.next[parent]);
    }

    /// Removes mappings of files, or parts of them, from a range.
    fn cut(
        &mut self,
        process: usize,
        start: u64,
        end: u64,
        tell: &mut impl FnMut(EventKind) -> Result<()>,
    ) -> Result<()> {
        self.last = None;
        let first = self.files.range((process, 0)..(process, start)).next_back().filter(|(_, file)| file.end > start);
        let inside = self.files.range((process, start)..(process, end));
        let touched: Vec<u64> = first.into_iter().chain(inside).map(|(&(_, start), _)| start).collect();
        for at in touched {
            let file = self.files.remove(&(process, at)).expect("just found");
            let (from, to) = (at.max(start), file.end.min(end));
            let (gone_start, gone_end) = file.places(at, from, to);
            if gone_start < gone_end {
                tell(EventKind::Unmap { start: gone_start, end: gone_end })?;
            }
            if at < from {
                self.files.insert((process, at), OfFile { end: from, ..file.clone() });
            }
            if to < file.end {
                let file_page = file.file_page + (to - at);
                self.files.insert((process, to), OfFile { file_page, ..file });
            }
        }
        Ok(())
    }
}
