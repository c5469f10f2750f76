//! Filters accesses of a trace, row by row.

use super::selection::{Access, Selection, check_mappings, is_mapping, joined};
use crate::analysis::Layout;
use crate::{Event, Result, TraceMeta, TraceRow};

/// Keeps the selected parts of each row. Rows and events are fed in order; times do not matter here.
#[derive(Debug)]
pub(crate) struct Sieve {
    /// By thread of the trace: whether its rows are kept.
    threads: Vec<bool>,
    /// Pages kept, ascending and disjoint; empty: all.
    ranges: Vec<(u64, u64)>,
    wanted_mappings: Vec<String>,
    /// Only rows with this flag.
    write: Option<bool>,
    layout: Layout,
    /// By group of the layout: whether the group is wanted.
    is_wanted: Vec<bool>,
}

impl Sieve {
    /// # Errors
    /// When the selection names a thread, process or mapping that the trace does not have.
    pub(crate) fn new(meta: &TraceMeta, selection: &Selection) -> Result<Self> {
        check_mappings(meta, &selection.mappings)?;
        let page = |range: &super::AddressRange| (range.start / meta.page_bytes, range.end.div_ceil(meta.page_bytes));
        Ok(Self {
            threads: selection.threads_kept(meta)?,
            ranges: joined(selection.ranges.iter().map(page).collect()),
            wanted_mappings: selection.mappings.clone(),
            write: selection.access.map(|access| access == Access::Writes),
            layout: Layout::default(),
            is_wanted: Vec::new(),
        })
    }

    /// Starts again, for another pass.
    pub(crate) fn reset(&mut self) {
        self.layout = Layout::default();
        self.is_wanted.clear();
    }

    /// Whether events must be fed, because the selection depends on mappings.
    pub(crate) fn needs_events(&self) -> bool {
        !self.wanted_mappings.is_empty()
    }

    /// Applies an event of `process`.
    pub(crate) fn event(&mut self, meta: &TraceMeta, event: &Event, process: usize) {
        if self.needs_events() {
            self.layout.see(meta, event, process);
        }
    }

    /// Whether rows of `thread` are kept.
    pub(crate) fn keeps_thread(&self, thread: u32) -> bool {
        self.threads.get(thread as usize).copied().unwrap_or(false)
    }

    /// Passes the kept part of a row of `process` to `keep`: nothing, the row, or parts of it by page.
    #[inline]
    pub(crate) fn row(&mut self, process: usize, row: TraceRow, mut keep: impl FnMut(TraceRow)) {
        if !self.keeps_thread(row.thread) || self.write.is_some_and(|write| write != row.write) {
            return;
        }
        let end = row.page + u64::from(row.pages);
        if self.ranges.is_empty() {
            return self.by_mapping(process, row, row.page, end, &mut keep);
        }
        let first = self.ranges.partition_point(|range| range.1 <= row.page);
        for index in first..self.ranges.len() {
            let (range_start, range_end) = self.ranges[index];
            if range_start >= end {
                break;
            }
            self.by_mapping(process, row, range_start.max(row.page), range_end.min(end), &mut keep);
        }
    }

    fn by_mapping(&mut self, process: usize, row: TraceRow, start: u64, end: u64, keep: &mut impl FnMut(TraceRow)) {
        if self.wanted_mappings.is_empty() {
            return keep(part(row, start, end));
        }
        // Adjacent mappings that are both wanted stay one row.
        let mut open: Option<(u64, u64)> = None;
        let mut at = start;
        while at < end {
            let (group, until) = self.layout.find(process, at);
            let until = until.min(end);
            if self.wants(group as usize) {
                open = Some((open.map_or(at, |(open_start, _)| open_start), until));
            } else if let Some((open_start, open_end)) = open.take() {
                keep(part(row, open_start, open_end));
            }
            at = until;
        }
        if let Some((open_start, open_end)) = open {
            keep(part(row, open_start, open_end));
        }
    }

    fn wants(&mut self, group: usize) -> bool {
        for group in &self.layout.groups()[self.is_wanted.len().min(group + 1)..=group] {
            let wanted = group.what.is_some_and(|what| is_mapping(what, group.file.as_deref(), &self.wanted_mappings));
            self.is_wanted.push(wanted);
        }
        self.is_wanted[group]
    }
}

/// The pages `start..end` of a row.
fn part(row: TraceRow, start: u64, end: u64) -> TraceRow {
    TraceRow { page: start, pages: u32::try_from(end - start).expect("no more than the row has"), ..row }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::edit::AddressRange;
    use crate::{EventKind, MapKind, MapRange};

    fn kept(selection: Selection, events: &[(u64, u64, MapKind)], row: (u64, u32, bool)) -> Vec<(u64, u32)> {
        let event = |&(start, end, what): &(u64, u64, MapKind)| {
            let kind = EventKind::Map(MapRange { start, end, what, ..MapRange::default() });
            Event { row: 0, thread: 0, time_ns: 0, kind }
        };
        let events: Vec<Event> = events.iter().map(event).collect();
        let meta = TraceMeta { events, ..TraceMeta::single("t") };
        let mut sieve = Sieve::new(&meta, &selection).unwrap();
        meta.events.iter().for_each(|event| sieve.event(&meta, event, 0));
        let mut found = Vec::new();
        let row = TraceRow { time_ns: 0, thread: 0, page: row.0, pages: row.1, write: row.2, kernel: false };
        sieve.row(0, row, |row| found.push((row.page, row.pages)));
        found
    }

    #[test]
    fn rows_are_cut_at_the_edges_of_ranges() {
        let range = |start: u64, end: u64| AddressRange { start: start * 4096, end: end * 4096 };
        let ranges = |ranges: Vec<AddressRange>| Selection { ranges, ..Selection::default() };
        assert_eq!(kept(ranges(vec![range(5, 7), range(10, 12)]), &[], (4, 10, false)), [(5, 2), (10, 2)]);
        assert_eq!(kept(ranges(vec![range(10, 12), range(5, 11)]), &[], (4, 10, false)), [(5, 7)], "ranges that join");
        assert_eq!(kept(ranges(vec![range(5, 7)]), &[], (7, 1, false)), []);
        let bytes = AddressRange { start: 5 * 4096 + 1, end: 6 * 4096 + 1 };
        assert_eq!(kept(ranges(vec![bytes]), &[], (0, 20, false)), [(5, 2)], "every page that the range touches");
    }

    #[test]
    fn rows_are_cut_at_the_edges_of_mappings() {
        let mapping = |text: &str| Selection { mappings: vec![text.to_owned()], ..Selection::default() };
        let maps = [(0, 4, MapKind::Heap), (4, 6, MapKind::Stack), (6, 8, MapKind::Heap), (8, 9, MapKind::Heap)];
        assert_eq!(kept(mapping("heap"), &maps, (2, 20, true)), [(2, 2), (6, 3)]);
        assert_eq!(kept(mapping("stack"), &maps, (6, 20, true)), []);
        let both = Selection { mappings: vec!["heap".into(), "stack".into()], ..Selection::default() };
        assert_eq!(kept(both, &maps, (2, 20, true)), [(2, 7)]);
    }

    #[test]
    fn reads_or_writes_only() {
        let access = |access| Selection { access: Some(access), ..Selection::default() };
        assert_eq!(kept(access(Access::Reads), &[], (1, 1, true)), []);
        assert_eq!(kept(access(Access::Writes), &[], (1, 1, true)), [(1, 1)]);
    }

    #[test]
    fn mappings_that_the_trace_has_not_are_refused() {
        let selection = Selection { mappings: vec!["stac".into()], ..Selection::default() };
        let event = EventKind::Map(MapRange { start: 1, end: 2, what: MapKind::Stack, ..MapRange::default() });
        let events = vec![Event { row: 0, thread: 0, time_ns: 0, kind: event }];
        let meta = TraceMeta { events, ..TraceMeta::single("t") };
        let error = Sieve::new(&meta, &selection).unwrap_err().to_string();
        assert!(error.contains("`stac`") && error.contains("has stack"), "{error}");
        let error = Sieve::new(&TraceMeta::single("t"), &selection).unwrap_err().to_string();
        assert!(error.contains("does not say what was mapped"), "{error}");
    }
}
