//! One pass over rows and events together, in the order in which they happened, with the trace's clock.

use crate::{Event, EventKind, Result, TraceError, TraceMeta, TraceRow, TraceRows};

/// What happens next.
#[derive(Debug)]
pub(crate) enum TraceStep<'a> {
    /// A thread touches pages.
    Row {
        row: TraceRow,
        process: usize,
        /// Trace time in nanoseconds; never goes back.
        time_ns: u64,
    },
    /// An address space changes, a thread starts, ends or sleeps.
    Event { event: &'a Event, process: usize },
    /// The last thread of a process has ended: its memory is gone.
    Exit { process: usize },
}

/// Calls `each` for every step from the first row on; the trace time at the end.
pub(crate) fn walk<E: From<TraceError>>(
    reader: &mut impl TraceRows,
    mut each: impl FnMut(TraceStep<'_>) -> Result<(), E>,
) -> Result<u64, E> {
    let meta = reader.meta().clone();
    let mut clock = Clock::new(&meta);
    let mut events = meta.events.iter().peekable();
    reader.for_each_batch(|batch| {
        for (index, row) in batch.rows().enumerate() {
            while let Some(event) = events.next_if(|event| event.row <= batch.first_row + index as u64) {
                let process = meta.process_of(event.thread);
                each(TraceStep::Event { event, process })?;
                if clock.see(&meta, event) {
                    each(TraceStep::Exit { process })?;
                }
            }
            let time_ns = clock.time_of(&row);
            each(TraceStep::Row { row, process: meta.process_of(row.thread), time_ns })?;
        }
        Ok::<(), E>(())
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

    /// `thread` has used `cpu_ns` of CPU time: the trace time of what it does then.
    pub(crate) fn advance(&mut self, thread: u32, cpu_ns: u64) -> u64 {
        // A thread whose start was not recorded is taken to start now.
        let now_ns = self.now_ns;
        let offset_ns = *self.offsets_ns[thread as usize].get_or_insert(now_ns.saturating_sub(cpu_ns));
        self.now_ns = now_ns.max(offset_ns.saturating_add(cpu_ns));
        self.now_ns
    }

    /// Trace time minus CPU time of a thread; `None` before it is known to have started.
    pub(crate) fn offset_ns(&self, thread: usize) -> Option<u64> {
        self.offsets_ns[thread]
    }

    fn time_of(&mut self, row: &TraceRow) -> u64 {
        self.advance(row.thread, row.time_ns)
    }

    /// Takes in an event. Whether it ended a process.
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
