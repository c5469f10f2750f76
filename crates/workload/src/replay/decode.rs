//! Turns rows and events in the order of the file into the actions of each thread.

use std::collections::VecDeque;

use isotherm_trace::{EventKind, TraceRow};
use isotherm_units::access::{Backing, Channel, FileKind, LayoutChange, Mapping, Run};
use isotherm_units::{Bytes, PAGE_BYTES, PageRange};

use super::script::{Mark, Outline, ThreadPart, is_initial};
use crate::layout::Layout;

/// Rows of one epoch that are held back to know its length. More (a trace without times) are let go at once.
pub(super) const GROUP_ROWS_MAX: usize = 1 << 20;
/// First and largest size of a mapping made for pages without a known one: 2 MiB to 64 MiB.
const MADE_PAGES_MIN: u64 = 512;
const MADE_PAGES_MAX: u64 = 1 << 14;
/// Removed mappings that are remembered.
const REMOVED_MAX: usize = 4096;

/// The demultiplexer. Feed it all rows in order, then call [`Decoder::finish`].
#[derive(Debug)]
pub(super) struct Decoder {
    row: u64,
    next_event: usize,
    processes: Vec<ProcessState>,
    threads: Vec<ThreadState>,
}

#[derive(Debug)]
struct ProcessState {
    /// Changes of the layout, in the order of the file.
    layout: Layout,
    /// Not yet handed on.
    changes: Vec<LayoutChange>,
    nr_changes: usize,
    /// The ranges unmapped last, by the number of the change. Rows of an epoch come when it ends, so that other threads'
    /// rows may come after the unmapping of their pages.
    removed: VecDeque<(usize, PageRange)>,
    made_mappings: u64,
    made_pages: u64,
}

#[derive(Debug)]
struct ThreadState {
    process: usize,
    queue: ThreadPart,
    /// The part of `queue` whose times are known.
    closed_runs: usize,
    closed_marks: usize,
    /// CPU time at the start of the open epoch.
    epoch_start_ns: u64,
    /// First run of each row of the open epoch, counted from `closed_runs`.
    row_starts: Vec<usize>,
    /// CPU time up to the last closed row.
    done_ns: u64,
    has_begun: bool,
    /// Changes of its process whose mappings it may need.
    known: usize,
    /// Changes of its process before which nothing more comes.
    passed: usize,
    /// The mapping of its last row; valid while `known` is up to date.
    last_mapping: PageRange,
    /// How rows in that mapping reach it.
    last_channel: Channel,
}

impl Decoder {
    pub(super) fn new(outline: &Outline) -> Self {
        let processes = outline.processes.iter().map(|process| ProcessState {
            layout: Layout::of(&process.layout),
            changes: Vec::new(),
            nr_changes: 0,
            removed: VecDeque::new(),
            made_mappings: 0,
            made_pages: 0,
        });
        let threads = outline.threads.iter().map(|thread| ThreadState {
            process: thread.process,
            queue: ThreadPart::default(),
            closed_runs: 0,
            closed_marks: 0,
            epoch_start_ns: 0,
            row_starts: Vec::new(),
            done_ns: 0,
            has_begun: false,
            known: 0,
            passed: 0,
            last_mapping: PageRange::default(),
            last_channel: Channel::PageTable,
        });
        let mut decoder = Self { row: 0, next_event: 0, processes: processes.collect(), threads: threads.collect() };
        // A process that begins with the program although forked begins with its parent's first layout.
        for (index, process) in outline.processes.iter().enumerate() {
            if let Some(parent) = process.forked_from {
                decoder.processes[index].layout = decoder.processes[parent].layout.clone();
            }
        }
        decoder
    }

    /// The next row. Rows of threads that do not exist are left out.
    #[inline]
    pub(super) fn row(&mut self, outline: &Outline, row: TraceRow) {
        self.events_so_far(outline);
        self.row += 1;
        self.one(outline, row);
    }

    /// Events that come before the next row.
    #[inline]
    pub(super) fn events_so_far(&mut self, outline: &Outline) {
        if self.has_event_within(outline, 0) {
            self.events(outline);
        }
    }

    /// Whether an event comes before the row that follows `rows` more.
    #[inline]
    pub(super) fn has_event_within(&self, outline: &Outline, rows: u64) -> bool {
        outline.meta.events.get(self.next_event).is_some_and(|event| event.row <= self.row + rows)
    }

    /// This number of rows of the file are over.
    pub(super) fn count(&mut self, rows: u64) {
        self.row += rows;
    }

    /// Whether `page`, a number of the trace, belongs to a file that is mapped.
    pub(super) fn is_mapped_file(&self, outline: &Outline, thread: u32, page: u64) -> bool {
        let process = self.threads.get(thread as usize).map(|thread| &self.processes[thread.process]);
        let mapping = process.and_then(|process| process.layout.find(page.saturating_mul(outline.page_scale)));
        outline.channel(page) == Channel::PageTable
            && mapping.is_some_and(|found| match found.backing {
                Backing::File { file, .. } => outline.files[file].kind == FileKind::Regular,
                Backing::Anonymous => false,
            })
    }

    /// A row, without counting it.
    #[inline]
    pub(super) fn one(&mut self, outline: &Outline, row: TraceRow) {
        let Some(thread) = self.threads.get_mut(row.thread as usize) else { return };
        let process = &mut self.processes[thread.process];
        if !thread.row_starts.is_empty()
            && (row.time_ns > thread.epoch_start_ns || thread.row_starts.len() == GROUP_ROWS_MAX)
        {
            thread.close_epoch(row.time_ns.max(thread.epoch_start_ns));
        }
        if thread.row_starts.is_empty() {
            if !thread.has_begun && outline.epoch_ns == 0 {
                // Requests have times of arrival: the first is the beginning.
                thread.done_ns = row.time_ns;
            }
            thread.has_begun = true;
            thread.epoch_start_ns = row.time_ns.max(thread.done_ns);
        }
        let scale = outline.page_scale;
        let pages = PageRange::at(row.page.saturating_mul(scale), u64::from(row.pages).saturating_mul(scale));
        let is_cached = thread.known == process.nr_changes
            && thread.last_mapping.start <= pages.start
            && pages.end <= thread.last_mapping.end;
        thread.row_starts.push(thread.queue.runs.len() - thread.closed_runs);
        if is_cached && scale == 1 {
            thread.queue.runs.push(run(row.page, row.pages, row.write).through(thread.last_channel));
        } else {
            thread.push_split(process, pages, row.write, outline.channel(row.page));
        }
    }

    /// All events that come before row `self.row`.
    #[cold]
    fn events(&mut self, outline: &Outline) {
        while let Some(event) = outline.meta.events.get(self.next_event).filter(|event| event.row <= self.row) {
            let index = self.next_event;
            self.next_event += 1;
            let thread = &mut self.threads[event.thread as usize];
            let process = &mut self.processes[thread.process];
            match event.kind {
                EventKind::Idle { ns } => {
                    // It sleeps through all changes so far: others need not keep anything for it.
                    thread.pass(process.nr_changes);
                    thread.mark(Mark::Sleep(ns));
                }
                EventKind::EndThread => thread.end(event.time_ns),
                EventKind::StartThread { thread: started } if outline.starts[index] => {
                    thread.know(process);
                    thread.mark(Mark::Start(started as usize));
                    let (parent, passed) = (thread.process, thread.passed);
                    let child = &mut self.threads[started as usize];
                    if child.process == parent {
                        (child.known, child.passed) = (process.nr_changes, passed);
                    } else if outline.processes[child.process].forked_from == Some(parent) {
                        self.processes[child.process].layout = self.processes[parent].layout.clone();
                    }
                }
                _ => {
                    if let Some(change) = outline.changes[index].filter(|_| !is_initial(&outline.meta, event))
                        && process.change(change)
                    {
                        // Its own rows came before.
                        thread.know(process);
                        thread.pass(process.nr_changes);
                    }
                }
            }
        }
    }

    /// Everything is fed: the remaining events, and the ends of all epochs.
    pub(super) fn finish(&mut self, outline: &Outline) {
        self.row = u64::MAX;
        self.events(outline);
        for thread in &mut self.threads {
            if !thread.row_starts.is_empty() {
                thread.end(thread.epoch_start_ns.saturating_add(outline.epoch_ns));
            }
            thread.close();
        }
    }

    /// Warnings for the user about the rows fed.
    pub(super) fn warnings(&self, outline: &Outline) -> Vec<String> {
        let made = self.processes.iter().zip(&outline.processes).filter(|(state, _)| state.made_mappings > 0);
        let warning = |(state, process): (&ProcessState, &isotherm_units::access::Process)| {
            format!(
                "{}: process `{}` touched pages outside of all recorded mappings; made {} anonymous mappings ({}) for them",
                outline.path.display(),
                process.name,
                state.made_mappings,
                Bytes::new(state.made_pages.saturating_mul(PAGE_BYTES)).approx(),
            )
        };
        made.map(warning).collect()
    }

    /// Moves all that is known of `thread` into `part` (which is replaced). Whether there was anything.
    pub(super) fn take(&mut self, thread: usize, part: &mut ThreadPart) -> bool {
        part.runs.clear();
        part.marks.clear();
        let state = &mut self.threads[thread];
        if state.closed_runs == 0 && state.closed_marks == 0 {
            return false;
        }
        part.runs.extend(state.queue.runs.drain(..state.closed_runs));
        part.marks.extend(state.queue.marks.drain(..state.closed_marks));
        state.queue.marks.iter_mut().for_each(|(at, _)| *at -= state.closed_runs);
        (state.closed_runs, state.closed_marks) = (0, 0);
        true
    }

    /// Changes found since the last call, by process.
    pub(super) fn take_changes(&mut self) -> impl Iterator<Item = (usize, LayoutChange)> + '_ {
        let processes = self.processes.iter_mut().enumerate();
        processes.flat_map(|(index, process)| process.changes.drain(..).map(move |change| (index, change)))
    }
}

impl ProcessState {
    /// Applies `change`; `false` if it changes nothing.
    fn change(&mut self, change: LayoutChange) -> bool {
        match change {
            LayoutChange::Map(mapping) => self.layout.map(mapping),
            LayoutChange::Unmap(range) if self.layout.first_overlap(range).is_some() => {
                self.removed.extend(self.layout.mapped_parts(range).map(|part| (self.nr_changes, part)));
                let surplus = self.removed.len().saturating_sub(REMOVED_MAX);
                self.removed.drain(..surplus);
                self.layout.unmap(range);
            }
            LayoutChange::Unmap(_) | LayoutChange::Advise(..) | LayoutChange::Pin(_) => return false,
        }
        self.changes.push(change);
        self.nr_changes += 1;
        true
    }

    /// The mapping of `page` for a thread that has passed `passed` changes: the present one, or one that was there since then. Made if
    /// there is none; each next one made is twice as large as the last, so that a program without any known mapping needs few.
    fn mapping_of(&mut self, page: u64, passed: usize) -> PageRange {
        if let Some(mapping) = self.layout.find(page) {
            return mapping.pages;
        }
        let since = self.removed.iter().rev().take_while(|(index, _)| *index >= passed);
        if let Some((_, range)) = since.clone().find(|(_, range)| range.contains(page)) {
            return range.intersection(self.layout.hole_around(page));
        }
        let pages = (MADE_PAGES_MIN << self.made_mappings.min(20)).min(MADE_PAGES_MAX);
        let start = page & !(pages - 1);
        let made = PageRange::at(start, pages).intersection(self.layout.hole_around(page));
        self.change(LayoutChange::Map(Mapping::anonymous(made)));
        self.made_mappings += 1;
        self.made_pages += made.len();
        made
    }
}

impl ThreadState {
    fn mark(&mut self, mark: Mark) {
        self.queue.marks.push((self.queue.runs.len(), mark));
    }

    /// Orders the following accesses after the mappings made so far.
    fn know(&mut self, process: &ProcessState) {
        if self.known < process.nr_changes {
            self.known = process.nr_changes;
            self.mark(Mark::Need(self.known));
        }
        self.last_mapping = PageRange::default();
    }

    /// Nothing that follows comes before the first `upto` changes.
    fn pass(&mut self, upto: usize) {
        if self.passed < upto {
            self.passed = upto;
            // It may have been one that is there no more.
            self.last_mapping = PageRange::default();
            self.mark(Mark::Pass(upto));
        }
    }

    /// Appends `pages` as runs that each lie in one mapping.
    fn push_split(&mut self, process: &mut ProcessState, pages: PageRange, is_write: bool, through: Channel) {
        self.know(process);
        let mut rest = PageRange::new(pages.start, pages.end.min(isotherm_trace::PAGE_LIMIT));
        while !rest.is_empty() {
            let mapping = process.mapping_of(rest.start, self.passed);
            // A damaged trace may name no file here: then there is none to read.
            let is_file = process.layout.find(rest.start).is_some_and(|found| found.backing != Backing::Anonymous);
            self.last_channel = if is_file { through } else { Channel::PageTable };
            self.know(process);
            let end = rest.end.min(mapping.end).min(rest.start + u64::from(u32::MAX));
            let len = u32::try_from(end - rest.start).expect("cut above");
            self.queue.runs.push(run(rest.start, len, is_write).through(self.last_channel));
            rest.start = end;
            self.last_mapping = mapping;
        }
    }

    /// The open epoch ends at CPU time `end_ns`: spreads its time over its rows. Row i of n is touched after i/n of the epoch.
    fn close_epoch(&mut self, end_ns: u64) {
        let rows = self.row_starts.len() as u64;
        let span = end_ns.saturating_sub(self.epoch_start_ns);
        let (step, extra) = (span / rows.max(1), span % rows.max(1));
        let mut at_ns = self.epoch_start_ns;
        let mut carry = 0;
        let row_starts = std::mem::take(&mut self.row_starts);
        for &start in &row_starts {
            // A row that lies beyond all pages has no run; its time goes to the next one.
            if let Some(run) = self.queue.runs.get_mut(self.closed_runs + start) {
                let think = at_ns - self.done_ns;
                self.done_ns = at_ns;
                match u32::try_from(think) {
                    Ok(think_ns) => run.think_ns = think_ns,
                    Err(_) => self.insert_compute(self.closed_runs + start, think),
                }
            }
            at_ns += step;
            carry += extra;
            if carry >= rows {
                carry -= rows;
                at_ns += 1;
            }
        }
        self.row_starts = row_starts;
        self.row_starts.clear();
        self.mark(Mark::EpochEnd);
        // The next rows are of a later epoch.
        self.pass(self.known);
        self.close();
    }

    #[cold]
    fn insert_compute(&mut self, run: usize, ns: u64) {
        let at = self.queue.marks.partition_point(|&(index, _)| index <= run);
        self.queue.marks.insert(at, (run, Mark::Compute(ns)));
    }

    /// The thread ends at CPU time `end_ns`.
    fn end(&mut self, end_ns: u64) {
        self.close_epoch(end_ns.max(self.epoch_start_ns));
        if end_ns > self.done_ns {
            self.mark(Mark::Compute(end_ns - self.done_ns));
            self.done_ns = end_ns;
        }
        self.close();
    }

    /// Nothing that is queued will change any more.
    fn close(&mut self) {
        self.closed_runs = self.queue.runs.len();
        self.closed_marks = self.queue.marks.len();
    }
}

#[inline]
fn run(page: u64, pages: u32, is_write: bool) -> Run {
    if is_write { Run::write(page, pages) } else { Run::read(page, pages) }
}
