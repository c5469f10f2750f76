//! The pass that determines the contents of a part of a trace: its rows, events, threads and their clocks.

use std::ops::Range;

use isotherm_units::Duration;

use super::current_mappings::Standing;
use super::selection::{Selection, window_ns};
use super::sieve::Sieve;
use super::steps::{Step, Steps};
use crate::analysis::Clock;
use crate::file::parquet_reader::ThreadRows;
use crate::fold::fold_events;
use crate::{Event, EventKind, Result, ThreadMeta, TraceError, TraceMeta, TraceReader, TraceRow};

/// A part of a trace.
#[derive(Debug)]
pub(crate) struct Plan {
    /// Metadata of the part.
    pub(crate) meta: TraceMeta,
    /// Rows of the trace that lie in the window.
    pub(crate) rows: Range<u64>,
    /// By thread of the trace: the thread's place in the part; `None` if it is not in the part.
    pub(crate) threads: Vec<Option<Place>>,
}

/// A thread in the part.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    /// Number in the part.
    pub(crate) number: u32,
    /// CPU time in the trace that is 0 in the part, nanoseconds.
    pub(crate) base_ns: u64,
}

/// Reads the trace once, or twice if the window is given in shares of its length. Row groups before the window are not decoded if the file
/// says that they are of one thread and end before it.
///
/// # Errors
/// When the selection names something that the trace does not have, nothing is left, or the trace is damaged.
pub(crate) fn plan(reader: &mut TraceReader, selection: &Selection, sieve: &mut Sieve) -> Result<Plan> {
    let needs_length = [selection.from, selection.to].into_iter().flatten().any(super::Moment::needs_length);
    let length_ns = if needs_length { length_ns(reader)? } else { 0 };
    let window = window_ns(selection.from, selection.to, length_ns)?;
    let source = reader.meta().clone();
    let mut planner = Planner::new(&source, window, selection.drops_rows());
    let mut steps = Steps::new(reader);
    let mut end_row = source.rows;
    loop {
        while let Some(ahead) = steps.thread_ahead().filter(|ahead| planner.passes_over(ahead)) {
            steps.skip(&ahead);
        }
        let Some((step, row)) = steps.next()? else { break };
        if planner.step(step, row, sieve).is_break() {
            end_row = row;
            break;
        }
    }
    let path = reader.path().to_owned();
    if planner.nr_rows == 0 {
        let until = Duration::from_ns(planner.now_ns).approx();
        let asked = planner.asked(selection);
        let what = format!(
            "nothing is left of it for {asked}. The trace has {} accesses from 0 to {}{until}; see `isotherm report info`",
            source.accesses,
            if planner.cut_at_end { "over " } else { "" },
        );
        return Err(TraceError::Unsupported { path, what });
    }
    planner.finish(selection, end_row)
}

/// Trace time at the end. Rows are decoded only if the file does not have their times.
fn length_ns(reader: &mut TraceReader) -> Result<u64> {
    let meta = reader.meta().clone();
    let mut clock = Clock::new(&meta);
    let mut now_ns = 0;
    let mut steps = Steps::new(reader);
    loop {
        if let Some(ahead) = steps.thread_ahead().filter(|ahead| clock.offset_ns(ahead.thread as usize).is_some()) {
            now_ns = clock.advance(ahead.thread, ahead.last_ns);
            steps.skip(&ahead);
            continue;
        }
        match steps.next()? {
            None => return Ok(now_ns),
            Some((Step::Row(row), _)) => now_ns = clock.advance(row.thread, row.time_ns),
            Some((Step::Event(index), _)) => {
                let event = &meta.events[index];
                now_ns = clock.advance(event.thread, event.time_ns);
                clock.see(&meta, event);
            }
        }
    }
}

/// State of a thread during the pass.
#[derive(Clone, Copy, Debug, Default)]
struct ThreadState {
    /// Whether the thread has started and not ended.
    lives: bool,
    /// Whether the thread was alive when the window began.
    lived_at_begin: bool,
    /// CPU time of the thread at its last step, nanoseconds.
    cpu_ns: u64,
    /// Whether the thread is in the window: alive at its start, or active or started later.
    is_present: bool,
    /// The thread that started it, if in the window.
    started_by: Option<u32>,
    base: Base,
    /// CPU time of its last row that is not kept, if nothing kept came after it.
    dropped_ns: Option<u64>,
}

/// A thread's CPU time when the window begins.
#[derive(Clone, Copy, Debug, Default)]
enum Base {
    /// Not seen in the window yet.
    #[default]
    Unknown,
    /// Running at the start of the window, whose CPU time lies between this one and the time of the thread's next step.
    Running {
        since_ns: u64,
    },
    Known(u64),
}

struct Planner<'a> {
    source: &'a TraceMeta,
    from_ns: u64,
    to_ns: u64,
    clock: Clock,
    now_ns: u64,
    threads: Vec<ThreadState>,
    standing: Standing,
    begin_row: Option<u64>,
    /// Whether the window ends before the trace.
    cut_at_end: bool,
    /// State at the start of the window, as events at CPU time 0 of the part.
    opening: Vec<Event>,
    /// Events with threads and CPU times of the trace, but rows of the part.
    events: Vec<Event>,
    nr_rows: u64,
    nr_accesses: u64,
    nr_dropped_accesses: u64,
    /// Number of threads with a `dropped_ns`.
    nr_dropped: usize,
    /// Whether rows may be dropped for other reasons than time.
    may_drop: bool,
}

impl<'a> Planner<'a> {
    fn new(source: &'a TraceMeta, (from_ns, to_ns): (u64, u64), may_drop: bool) -> Self {
        let thread = |thread: &ThreadMeta| ThreadState { lives: thread.started_by.is_none(), ..ThreadState::default() };
        Self {
            source,
            from_ns,
            to_ns,
            clock: Clock::new(source),
            now_ns: 0,
            threads: source.threads.iter().map(thread).collect(),
            standing: Standing::default(),
            begin_row: None,
            cut_at_end: false,
            opening: Vec::new(),
            events: Vec::new(),
            nr_rows: 0,
            nr_accesses: 0,
            nr_dropped_accesses: 0,
            nr_dropped: 0,
            may_drop,
        }
    }

    /// Skips rows that are all before the window. `false`: they are not, or their times are unknown without decoding.
    fn passes_over(&mut self, ahead: &ThreadRows) -> bool {
        let Some(offset_ns) = self.clock.offset_ns(ahead.thread as usize) else { return false };
        let last_ns = offset_ns.saturating_add(ahead.last_ns);
        if self.begin_row.is_some() || last_ns.max(self.now_ns) >= self.from_ns.min(self.to_ns) {
            return false;
        }
        self.now_ns = self.clock.advance(ahead.thread, ahead.last_ns);
        let state = &mut self.threads[ahead.thread as usize];
        state.cpu_ns = state.cpu_ns.max(ahead.last_ns);
        state.lives = true;
        true
    }

    /// Handles a step with `row` rows before it. Breaks at the end of the window.
    fn step(&mut self, step: Step, row: u64, sieve: &mut Sieve) -> std::ops::ControlFlow<()> {
        let (thread, cpu_ns) = match step {
            Step::Row(row) => (row.thread, row.time_ns),
            Step::Event(index) => (self.source.events[index].thread, self.source.events[index].time_ns),
        };
        let now_ns = self.clock.advance(thread, cpu_ns);
        if now_ns >= self.to_ns {
            self.end(thread, cpu_ns);
            return std::ops::ControlFlow::Break(());
        }
        self.now_ns = now_ns;
        if now_ns >= self.from_ns && self.begin_row.is_none() {
            self.begin_row = Some(row);
            self.begin();
        }
        if self.begin_row.is_some() {
            self.appear(thread, cpu_ns);
        }
        let state = &mut self.threads[thread as usize];
        state.cpu_ns = state.cpu_ns.max(cpu_ns);
        match step {
            Step::Row(row) => {
                state.lives = true;
                if self.begin_row.is_some() {
                    self.row(row, sieve);
                }
            }
            Step::Event(index) => self.event(index, sieve),
        }
        std::ops::ControlFlow::Continue(())
    }

    /// The window begins: the part starts with the current threads and mappings.
    fn begin(&mut self) {
        for (number, state) in (0u32..).zip(&mut self.threads) {
            let offset_ns = self.clock.offset_ns(number as usize);
            let Some(offset_ns) = offset_ns.filter(|_| state.lives) else { continue };
            (state.is_present, state.lived_at_begin) = (true, true);
            let position_ns = offset_ns.saturating_add(state.cpu_ns);
            if position_ns > self.from_ns {
                // Asleep: the rest of its sleep is in the window.
                state.base = Base::Known(state.cpu_ns);
                let kind = EventKind::Idle { ns: position_ns.min(self.to_ns) - self.from_ns };
                self.opening.push(Event { row: 0, thread: number, time_ns: 0, kind });
            } else {
                state.base = Base::Running { since_ns: state.cpu_ns.max(self.from_ns.saturating_sub(offset_ns)) };
            }
        }
    }

    /// The mappings at the start of the window, of each process that did not start in it. They are made by the first of its threads that
    /// was alive then; without one, by its first thread.
    fn standing_maps(&self) -> Vec<Event> {
        let mut makers: Vec<Option<u32>> = vec![None; self.source.processes.len()];
        for lived_at_begin in [true, false] {
            for (number, state) in (0u32..).zip(&self.threads) {
                let begins = state.started_by.is_some();
                if state.is_present && !begins && state.lived_at_begin == lived_at_begin {
                    makers[self.source.process_of(number)].get_or_insert(number);
                }
            }
        }
        let mut maps = Vec::new();
        for (process, thread) in makers.into_iter().enumerate() {
            let Some(thread) = thread else { continue };
            let event = |map| Event { row: 0, thread, time_ns: 0, kind: EventKind::Map(map) };
            maps.extend(self.standing.mappings(process).map(event));
        }
        maps
    }

    /// `thread` is active in the window.
    fn appear(&mut self, thread: u32, cpu_ns: u64) {
        let from_start = self.from_ns == 0;
        if self.may_drop && !self.threads[thread as usize].is_present {
            // Its start is known from its first step, which may be dropped.
            self.mark_dropped();
            self.events.push(Event { row: self.nr_rows, thread, time_ns: cpu_ns, kind: EventKind::Idle { ns: 0 } });
        }
        let state = &mut self.threads[thread as usize];
        state.is_present = true;
        state.base = match state.base {
            // Its start was not recorded: it starts here, unless it started with the trace.
            Base::Unknown => Base::Known(if from_start { 0 } else { cpu_ns }),
            // A thread that is behind the others starts at its own time.
            Base::Running { since_ns } => Base::Known(since_ns.min(cpu_ns)),
            known @ Base::Known(_) => known,
        };
    }

    fn row(&mut self, row: TraceRow, sieve: &mut Sieve) {
        let mut kept_pages = 0;
        let nr_rows = &mut self.nr_rows;
        sieve.row(self.source.process_of(row.thread), row, |kept| {
            *nr_rows += 1;
            kept_pages += u64::from(kept.pages);
        });
        self.nr_accesses += kept_pages;
        self.nr_dropped_accesses += u64::from(row.pages) - kept_pages;
        let dropped_ns = (kept_pages == 0).then_some(row.time_ns);
        self.set_dropped(row.thread, dropped_ns);
    }

    fn set_dropped(&mut self, thread: u32, dropped_ns: Option<u64>) {
        let before = std::mem::replace(&mut self.threads[thread as usize].dropped_ns, dropped_ns);
        self.nr_dropped += usize::from(dropped_ns.is_some());
        self.nr_dropped -= usize::from(before.is_some());
    }

    /// Sleeps of length 0 keep the times of dropped rows, so the trace time stays the same.
    fn mark_dropped(&mut self) {
        if self.nr_dropped == 0 {
            return;
        }
        for (thread, state) in (0u32..).zip(&mut self.threads) {
            if let Some(time_ns) = state.dropped_ns.take() {
                self.events.push(Event { row: self.nr_rows, thread, time_ns, kind: EventKind::Idle { ns: 0 } });
            }
        }
        self.nr_dropped = 0;
    }

    fn event(&mut self, index: usize, sieve: &mut Sieve) {
        let event = &self.source.events[index];
        let process = self.source.process_of(event.thread);
        sieve.event(self.source, event, process);
        if self.begin_row.is_none() {
            self.standing.see(self.source, event, process);
        } else {
            let is_later = self.threads[event.thread as usize].dropped_ns.is_some_and(|ns| ns <= event.time_ns);
            if is_later {
                self.set_dropped(event.thread, None);
            }
            let mut kind = event.kind.clone();
            match &mut kind {
                EventKind::StartThread { thread } => {
                    self.mark_dropped();
                    let started = &mut self.threads[*thread as usize];
                    if !started.lives && !started.is_present {
                        started.is_present = true;
                        started.started_by = Some(event.thread);
                        started.base = Base::Known(0);
                    }
                }
                EventKind::Idle { ns } => {
                    // The part of a sleep after the end of the window is dropped.
                    let offset_ns = self.clock.offset_ns(event.thread as usize).unwrap_or(0);
                    *ns = (*ns).min(self.to_ns - offset_ns.saturating_add(event.time_ns).min(self.to_ns));
                }
                _ => {}
            }
            self.events.push(Event { row: self.nr_rows, thread: event.thread, time_ns: event.time_ns, kind });
        }
        self.clock.see(self.source, event);
        match &event.kind {
            EventKind::StartThread { thread } => self.threads[*thread as usize].lives = true,
            EventKind::EndThread => self.threads[event.thread as usize].lives = false,
            _ => self.threads[event.thread as usize].lives = true,
        }
    }

    /// The window ends at a step of `thread` at `cpu_ns`: until then that thread was alive.
    fn end(&mut self, thread: u32, cpu_ns: u64) {
        self.cut_at_end = true;
        let index = thread as usize;
        if self.begin_row.is_none() || !self.threads[index].is_present {
            return;
        }
        let offset_ns = self.clock.offset_ns(index).unwrap_or(0);
        let time_ns = self.to_ns.saturating_sub(offset_ns).clamp(self.threads[index].cpu_ns.min(cpu_ns), cpu_ns);
        self.appear(thread, time_ns);
        self.set_dropped(thread, Some(time_ns));
    }

    /// Text of the selection.
    fn asked(&self, selection: &Selection) -> String {
        let mut asked = selection.words();
        if self.from_ns > 0 || self.to_ns < u64::MAX {
            asked += if asked.is_empty() { "" } else { ", " };
            asked += &self.window_words();
        }
        asked
    }

    fn window_words(&self) -> String {
        let from = Duration::from_ns(self.from_ns);
        match self.to_ns {
            u64::MAX => format!("trace time from {from} on"),
            to_ns => format!("trace time {from} to {}", Duration::from_ns(to_ns)),
        }
    }

    fn finish(mut self, selection: &Selection, end_row: u64) -> Result<Plan> {
        self.mark_dropped();
        self.opening.splice(0..0, self.standing_maps());
        let kept = self.kept_threads(selection)?;
        let (threads, processes) = self.numbers(&kept);
        let mut meta = TraceMeta {
            created_by: TraceMeta::default().created_by,
            native: None,
            rows: self.nr_rows,
            accesses: self.nr_accesses,
            events: self.renumbered(&threads),
            processes: Vec::new(),
            threads: Vec::new(),
            notes: self.source.notes.clone(),
            ..self.source.clone()
        };
        self.put_threads(&mut meta, &threads, &processes);
        if self.cut_at_end {
            meta.complete = false;
            meta.exit_code = None;
        }
        meta.notes.extend(self.notes(selection));
        // Folds split mappings until nothing changes, so that a copy of the part is equal to it.
        loop {
            let folded = fold_events(&meta);
            if folded.len() == meta.events.len() {
                break;
            }
            meta.events = folded;
        }
        let rows = self.begin_row.unwrap_or(0)..end_row;
        Ok(Plan { meta, rows, threads })
    }

    /// By thread, whether it is in the part; by default all present threads are. If threads or processes are selected, only threads of
    /// processes with a selected thread, and threads that started one of these in the window.
    fn kept_threads(&self, selection: &Selection) -> Result<Vec<bool>> {
        let selected = selection.threads_kept(self.source)?;
        let mut processes = vec![false; self.source.processes.len()];
        let mut waiting: Vec<usize> = Vec::new();
        let process_of = |thread: usize| self.source.threads[thread].process;
        let mut keep = |process: usize, waiting: &mut Vec<usize>| {
            if !std::mem::replace(&mut processes[process], true) {
                waiting.push(process);
            }
        };
        for (thread, state) in self.threads.iter().enumerate() {
            if state.is_present && selected[thread] {
                keep(process_of(thread), &mut waiting);
            }
        }
        while let Some(process) = waiting.pop() {
            for (thread, state) in self.threads.iter().enumerate() {
                if let Some(by) = state.started_by.filter(|_| process_of(thread) == process) {
                    keep(process_of(by as usize), &mut waiting);
                }
            }
        }
        let is_kept = |(thread, state): (usize, &ThreadState)| state.is_present && processes[process_of(thread)];
        Ok(self.threads.iter().enumerate().map(is_kept).collect())
    }

    /// By thread and by process, the place in the part.
    fn numbers(&self, kept: &[bool]) -> (Vec<Option<Place>>, Vec<Option<usize>>) {
        let mut number = 0;
        let mut processes: Vec<Option<usize>> = vec![None; self.source.processes.len()];
        let threads = (self.threads.iter().zip(kept).zip(&self.source.threads))
            .map(|((state, &kept), thread)| {
                let base_ns = match state.base {
                    Base::Known(ns) | Base::Running { since_ns: ns } => ns,
                    Base::Unknown => 0,
                };
                kept.then(|| {
                    processes[thread.process] = Some(0);
                    number += 1;
                    Place { number: number - 1, base_ns }
                })
            })
            .collect();
        for (number, process) in processes.iter_mut().flatten().enumerate() {
            *process = number;
        }
        (threads, processes)
    }

    /// The events of the part.
    fn renumbered(&self, threads: &[Option<Place>]) -> Vec<Event> {
        let place = |thread: u32| threads[thread as usize];
        let opening = self
            .opening
            .iter()
            .filter_map(|event| place(event.thread).map(|place| Event { thread: place.number, ..event.clone() }));
        let later = self.events.iter().filter_map(|event| {
            let Place { number, base_ns } = place(event.thread)?;
            let kind = match &event.kind {
                EventKind::StartThread { thread } => EventKind::StartThread { thread: place(*thread)?.number },
                kind => kind.clone(),
            };
            Some(Event { row: event.row, thread: number, time_ns: event.time_ns.saturating_sub(base_ns), kind })
        });
        opening.chain(later).collect()
    }

    fn put_threads(&self, meta: &mut TraceMeta, threads: &[Option<Place>], processes: &[Option<usize>]) {
        let started_in_window = |process: usize| {
            let of_process = self.threads.iter().zip(&self.source.threads).filter(|(_, meta)| meta.process == process);
            of_process.filter(|(state, _)| state.is_present).all(|(state, _)| state.started_by.is_some())
        };
        for (index, process) in self.source.processes.iter().enumerate() {
            if processes[index].is_some() {
                let parent = process.forked_from.filter(|_| self.from_ns == 0 || started_in_window(index));
                let forked_from = parent.and_then(|parent| processes[parent]);
                meta.processes.push(crate::ProcessMeta { forked_from, ..process.clone() });
            }
        }
        for (index, thread) in self.source.threads.iter().enumerate() {
            let Some(place) = threads[index] else { continue };
            let lived = self.from_ns > 0 && self.threads[index].lived_at_begin;
            let named = thread.started_by.and_then(|by| threads[by]);
            let by_event = self.threads[index].started_by.and_then(|by| threads[by as usize]);
            let started_by = named.or(by_event).filter(|by| !lived && by.number != place.number);
            let process = processes[thread.process].expect("its process is kept");
            let started_by = started_by.map(|by| by.number as usize);
            meta.threads.push(ThreadMeta { process, started_by, ..thread.clone() });
        }
    }

    fn notes(&self, selection: &Selection) -> Vec<String> {
        let mut notes = Vec::new();
        if self.from_ns > 0 || self.to_ns < u64::MAX {
            notes.push(format!("cut to {}; times count from the begin of the cut", self.window_words()));
        }
        if self.from_ns > 0 {
            notes.push("which pages were in memory when the cut begins is not known: none are taken to be".to_owned());
        }
        if selection.drops_rows() {
            let (kept, dropped) = (self.nr_accesses, self.nr_dropped_accesses);
            notes.push(format!("filtered to {}: {kept} accesses kept, {dropped} dropped", selection.words()));
        }
        if self.source.native.is_some() {
            notes
                .push("figures of the run without the recorder are left out: they are of the whole program".to_owned());
        }
        notes
    }
}
