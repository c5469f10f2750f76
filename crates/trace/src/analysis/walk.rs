//! One pass over rows and events together, in order, with the trace's clock.

use std::ops::Range;

use crate::{Event, EventKind, Result, RowBatch, TraceMeta, TraceRow, TraceRows};

/// A step of the pass.
#[derive(Debug)]
pub(crate) enum TraceStep<'a> {
    /// A thread touches pages.
    Rows(Rows<'a>),
    /// An address space changes, a thread starts, ends or sleeps.
    Event { event: &'a Event, process: usize },
    /// The last thread of a process has ended: its memory is gone.
    Exit { process: usize },
}

/// Consecutive rows of one thread at one time, without an event between them: at least one.
#[derive(Clone, Debug)]
pub(crate) struct Rows<'a> {
    batch: &'a RowBatch,
    range: Range<usize>,
    pub(crate) thread: u32,
    pub(crate) process: usize,
    /// CPU time of the thread, nanoseconds.
    pub(crate) cpu_ns: u64,
    /// Trace time in nanoseconds; never goes back.
    pub(crate) time_ns: u64,
}

impl<'a> Rows<'a> {
    pub(crate) fn len(&self) -> usize {
        self.range.len()
    }
    /// First pages of the rows.
    pub(crate) fn page(&self) -> &'a [u64] {
        &self.batch.page[self.range.clone()]
    }
    /// Numbers of pages of the rows.
    pub(crate) fn pages(&self) -> &'a [u32] {
        &self.batch.pages[self.range.clone()]
    }
    /// Whether the rows write.
    pub(crate) fn write(&self) -> &'a [bool] {
        &self.batch.write[self.range.clone()]
    }
    /// Page ranges of the rows: first page, and the page after the last.
    pub(crate) fn ranges(&self) -> impl Iterator<Item = (u64, u64)> + 'a {
        self.page().iter().zip(self.pages()).map(|(&page, &pages)| (page, page + u64::from(pages)))
    }
    /// Index in the file of the first row with the pages `start..end`; of the first row if there is none.
    pub(crate) fn row_of(&self, start: u64, end: u64) -> u64 {
        let index = self.ranges().position(|range| range == (start, end)).unwrap_or(0);
        self.batch.first_row + (self.range.start + index) as u64
    }
    /// Number of rows read so far, up to the last of these.
    pub(crate) fn read_so_far(&self) -> u64 {
        self.batch.first_row.saturating_add(self.range.end as u64)
    }
    /// Pages touched by all rows together.
    pub(crate) fn accesses(&self) -> u64 {
        self.pages().iter().map(|&pages| u64::from(pages)).sum()
    }
    /// The rows one by one.
    pub(crate) fn iter(&self) -> impl Iterator<Item = TraceRow> + 'a {
        let batch = self.batch;
        self.range.clone().map(|index| batch.row(index))
    }
}

/// Calls `each` for every step from the first row on. Returns the trace time at the end.
pub(crate) fn walk(reader: &mut dyn TraceRows, mut each: impl FnMut(TraceStep<'_>) -> Result<()>) -> Result<u64> {
    let meta = reader.meta().clone();
    let mut clock = Clock::new(&meta);
    let mut events = meta.events.iter().peekable();
    reader.for_each_batch(&mut |batch| {
        let mut start = 0;
        while start < batch.len() {
            let first_row = batch.first_row + start as u64;
            while let Some(event) = events.next_if(|event| event.row <= first_row) {
                let process = meta.process_of(event.thread);
                each(TraceStep::Event { event, process })?;
                if clock.see(&meta, event) {
                    each(TraceStep::Exit { process })?;
                }
            }
            let rows_to_event = events.peek().map_or(u64::MAX, |event| event.row - first_row);
            let limit = batch.len().min(start.saturating_add(usize::try_from(rows_to_event).unwrap_or(usize::MAX)));
            let (thread, cpu_ns) = (batch.thread[start], batch.time_ns[start]);
            let end = start + alike(&batch.thread[start..limit], &batch.time_ns[start..limit]);
            let time_ns = clock.advance(thread, cpu_ns);
            let process = meta.process_of(thread);
            each(TraceStep::Rows(Rows { batch, range: start..end, thread, process, cpu_ns, time_ns }))?;
            start = end;
        }
        Ok(())
    })?;
    for event in events {
        let process = meta.process_of(event.thread);
        each(TraceStep::Event { event, process })?;
        if clock.see(&meta, event) {
            each(TraceStep::Exit { process })?;
        }
    }
    Ok(clock.now_ns)
}

/// Number of rows from the first on with its thread and time.
fn alike(thread: &[u32], time_ns: &[u64]) -> usize {
    const BLOCK: usize = 64;
    let first = (thread[0], time_ns[0]);
    // Whole blocks, without a branch for each row: epochs of large programs have thousands of rows.
    let blocks = thread.chunks_exact(BLOCK).zip(time_ns.chunks_exact(BLOCK));
    let same = blocks.take_while(|(thread, time_ns)| {
        let differ = thread
            .iter()
            .zip(*time_ns)
            .fold(0, |bits, (thread, time_ns)| bits | u64::from(thread ^ first.0) | time_ns ^ first.1);
        differ == 0
    });
    let at = same.count() * BLOCK;
    at + thread[at..].iter().zip(&time_ns[at..]).take_while(|&(&thread, &time_ns)| (thread, time_ns) == first).count()
}

/// Trace time of all threads together.
#[derive(Debug)]
pub(crate) struct Clock {
    now_ns: u64,
    /// Trace time minus CPU time of each thread; `None` before it is known to have started.
    offsets_ns: Vec<Option<u64>>,
    /// Threads of each process that have started and not ended.
    alive: Vec<u64>,
}

impl Clock {
    pub(crate) fn new(meta: &TraceMeta) -> Self {
        let mut clock = Self { now_ns: 0, offsets_ns: Vec::new(), alive: vec![0; meta.processes.len()] };
        for thread in &meta.threads {
            let from_start = thread.started_by.is_none();
            clock.offsets_ns.push(from_start.then_some(0));
            clock.alive[thread.process] += u64::from(from_start);
        }
        clock
    }

    fn start(&mut self, meta: &TraceMeta, thread: u32) -> u64 {
        self.alive[meta.process_of(thread)] += 1;
        self.offsets_ns[thread as usize] = Some(self.now_ns);
        self.now_ns
    }

    /// Advances `thread` to `cpu_ns` of CPU time. Returns the trace time at that point.
    pub(crate) fn advance(&mut self, thread: u32, cpu_ns: u64) -> u64 {
        // A thread without a recorded start is assumed to start now.
        let now_ns = self.now_ns;
        let offset_ns = *self.offsets_ns[thread as usize].get_or_insert(now_ns.saturating_sub(cpu_ns));
        self.now_ns = now_ns.max(offset_ns.saturating_add(cpu_ns));
        self.now_ns
    }

    /// Trace time minus CPU time of a thread; `None` before it is known to have started.
    pub(crate) fn offset_ns(&self, thread: usize) -> Option<u64> {
        self.offsets_ns[thread]
    }

    /// Applies an event. Returns whether it ended a process.
    pub(crate) fn see(&mut self, meta: &TraceMeta, event: &Event) -> bool {
        self.advance(event.thread, event.time_ns);
        match &event.kind {
            EventKind::StartThread { thread } => {
                if self.offsets_ns[*thread as usize].is_none() {
                    self.start(meta, *thread);
                }
                false
            }
            EventKind::Idle { ns } => {
                let offset_ns = self.offsets_ns[event.thread as usize].get_or_insert(0);
                *offset_ns = offset_ns.saturating_add(*ns);
                false
            }
            EventKind::EndThread => {
                let alive = &mut self.alive[meta.process_of(event.thread)];
                let was = *alive;
                *alive = alive.saturating_sub(1);
                was == 1
            }
            _ => false,
        }
    }
}
