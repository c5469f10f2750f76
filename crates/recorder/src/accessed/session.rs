//! A recording of running processes: epochs, starts and ends of processes, the budget, the trace.

use std::collections::BTreeMap;
use std::path::PathBuf;

use isotherm_trace::{
    Clock as TraceClock, ClockKind, EventKind, MapRange, PageRun, ProcessMeta, ThreadMeta, TraceMeta, TraceWriter,
};
use isotherm_units::{Budget, Bytes, Clock, Duration, Meter, Ratio, Woken};

use super::rows::append_runs;
use super::{BitScanner, Bits, Change, LookError, Who, changes};
use crate::error::RecordError;
use crate::touched::Touched;

/// Pages of one scan: 4 GiB of base pages, whose three bitmaps are 384 KiB.
const PIECE_PAGES: u64 = 1 << 20;

/// Options of a recording.
#[derive(Clone, Debug)]
pub struct AccessedOptions {
    /// The recorded command, for the trace.
    pub command: Vec<String>,
    /// Path of the trace.
    pub output: PathBuf,
    /// Time between two scans.
    pub epoch: Duration,
    /// Length of the recording; `None`: until it is stopped, or the last process has ended.
    pub length: Option<Duration>,
    /// Share of one processor that scans may take. Epochs are lengthened if it is too small.
    pub max_cpu: Ratio,
    /// Stop at this file size.
    pub max_bytes: Option<u64>,
    /// Bytes that the kernel maps around a fault in a file during the recording, if known; for the trace.
    pub fault_around_bytes: Option<u64>,
    /// Description of the machine.
    pub host: String,
}

/// Reports for the caller during the recording.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AccessedReport {
    /// After each epoch.
    Progress {
        /// Time since the start.
        elapsed: Duration,
        /// Number of processes recorded now.
        processes: usize,
        /// Memory used in the last epoch, of all processes.
        used: Bytes,
        /// Rows written.
        rows: u64,
    },
    /// A message for the user.
    Said(String),
}

/// A finished recording.
#[derive(Clone, Debug)]
pub struct AccessedRecording {
    /// Number of scanned epochs.
    pub epochs: u64,
    /// Longest time between two scans.
    pub longest_epoch: Duration,
    /// Largest factor by which epochs were stretched.
    pub stretched: u32,
    pub rows: u64,
    /// Distinct pages that were accessed or present.
    pub pages: u64,
    pub processes: usize,
    /// Length of the recording.
    pub elapsed: Duration,
    /// CPU time of the scans.
    pub spent: Duration,
    /// Why the session ended, as text.
    pub end: String,
}

/// A process of the recording.
struct Living {
    process: usize,
    thread: u32,
    layout: Vec<MapRange>,
    /// CPU time of the process at the last scan.
    cpu: Duration,
    /// Clock of the process in the trace.
    time_ns: u64,
    /// It was scanned at least once.
    was_seen: bool,
    /// Bits set at its first scan mean nothing: fork set them.
    is_copy: bool,
}

/// Records running processes until the time is over, the last one has ended, or the clock asks to stop.
///
/// # Errors
/// When the trace cannot be written, or a scan fails; [`RecordError::is_partial`] says whether the file holds a part.
pub fn record_accessed(
    options: &AccessedOptions,
    eyes: &mut dyn BitScanner,
    clock: &mut dyn Clock,
    meter: &mut dyn Meter,
    report: &mut dyn FnMut(AccessedReport),
) -> Result<AccessedRecording, RecordError> {
    let meta = TraceMeta {
        command: options.command.clone(),
        recorder: TraceMeta::ACCESSED_BITS.to_owned(),
        host: options.host.clone(),
        page_bytes: eyes.page_bytes(),
        epoch_ns: options.epoch.ns(),
        ns_per_instruction: None,
        fault_around_bytes: options.fault_around_bytes,
        clock: TraceClock { kind: ClockKind::Native, error_percent: None },
        complete: false,
        ..TraceMeta::default()
    };
    let writer = TraceWriter::create(&options.output, meta).map_err(RecordError::NotBegun)?;
    let mut session = Session {
        options,
        eyes,
        writer,
        living: BTreeMap::new(),
        touched: Touched::new(),
        bits: Bits::default(),
        runs: Vec::new(),
        used_pages: 0,
        processes: 0,
    };
    let recorded = session.run(clock, meter, report);
    let Session { mut writer, .. } = session;
    match recorded {
        Ok(recording) => {
            NOTES.iter().try_for_each(|note| writer.note(*note))?;
            if recording.stretched > 1 {
                writer.note(format!(
                    "looking was kept below {} of a processor: epochs became up to {} long",
                    options.max_cpu, recording.longest_epoch
                ))?;
            }
            writer.set_outcome(None, true)?;
            writer.finish()?;
            Ok(recording)
        }
        Err(error) => {
            // The written part is valid, and stays.
            let _ = writer.flush();
            Err(error)
        }
    }
}

/// Notes for readers of such a trace.
const NOTES: [&str; 3] = [
    "recorded from accessed bits: within an epoch the order of accesses is not known, they stand by address",
    "threads of a process are one thread, whose clock is wall time; time in which none of them ran is a sleep",
    "what was resident when the recording began stands as one access each at its beginning",
];

struct Session<'a> {
    options: &'a AccessedOptions,
    eyes: &'a mut dyn BitScanner,
    writer: TraceWriter,
    living: BTreeMap<Who, Living>,
    touched: Touched,
    bits: Bits,
    runs: Vec<PageRun>,
    used_pages: u64,
    processes: usize,
}

impl Session<'_> {
    fn run(
        &mut self,
        clock: &mut dyn Clock,
        meter: &mut dyn Meter,
        report: &mut dyn FnMut(AccessedReport),
    ) -> Result<AccessedRecording, RecordError> {
        let start = clock.now();
        let end = self.options.length.map(|length| start + length);
        let spent_before = meter.spent();
        let mut budget = Budget::new(self.options.max_cpu, start, spent_before);
        let mut recording = AccessedRecording {
            epochs: 0,
            longest_epoch: Duration::ZERO,
            stretched: 1,
            rows: 0,
            pages: 0,
            processes: 0,
            elapsed: Duration::ZERO,
            spent: Duration::ZERO,
            end: String::new(),
        };
        let mut last = start;
        recording.end = loop {
            let now = clock.now();
            self.epoch(now.since(last))?;
            if recording.epochs > 0 {
                recording.longest_epoch = recording.longest_epoch.max(now.since(last));
            }
            last = now;
            recording.epochs += 1;
            report(AccessedReport::Progress {
                elapsed: now.since(start),
                processes: self.living.len(),
                used: Bytes::new(self.used_pages.saturating_mul(self.writer.meta().page_bytes)),
                rows: self.writer.meta().rows,
            });
            if self.living.is_empty() {
                break "all that was recorded has ended".to_owned();
            }
            if end.is_some_and(|end| now >= end) {
                break "the time is over".to_owned();
            }
            if self.is_full() {
                break "the file has reached its size".to_owned();
            }
            if let Some(stretch) = budget.look(now, meter.spent()) {
                recording.stretched = recording.stretched.max(stretch);
                report(AccessedReport::Said(self.words_of(stretch)));
            }
            let due = now + self.options.epoch.saturating_mul(u64::from(budget.stretch()));
            let due = end.map_or(due, |end| due.min(end));
            if clock.sleep_until(due) == Woken::Stopped {
                // Accesses up to now belong to the recording.
                let now = clock.now();
                self.epoch(now.since(last))?;
                recording.epochs += 1;
                break "stopped".to_owned();
            }
        };
        let ends: Vec<Who> = self.living.keys().copied().collect();
        ends.into_iter().try_for_each(|who| self.went(who))?;
        recording.rows = self.writer.meta().rows;
        recording.pages = self.touched.pages();
        recording.processes = self.processes;
        recording.elapsed = clock.now().since(start);
        recording.spent = meter.spent().saturating_sub(spent_before);
        Ok(recording)
    }

    fn words_of(&self, stretch: u32) -> String {
        let epoch = self.options.epoch.saturating_mul(u64::from(stretch));
        match stretch {
            1 => format!("looks come every {epoch} again, as asked for"),
            _ => {
                format!("looking costs more than {} of a processor: looks come every {epoch} now", self.options.max_cpu)
            }
        }
    }

    fn is_full(&self) -> bool {
        let size = || std::fs::metadata(&self.options.output).map_or(0, |file| file.len());
        self.options.max_bytes.is_some_and(|max| size() >= max)
    }

    /// Scans all processes once. `elapsed`: time since the previous scan.
    fn epoch(&mut self, elapsed: Duration) -> Result<(), RecordError> {
        for change in self.eyes.changes().map_err(lost)? {
            self.change(change)?;
        }
        self.used_pages = 0;
        let everybody: Vec<Who> = self.living.keys().copied().collect();
        for who in everybody {
            match self.look_at(who, elapsed) {
                Ok(()) => {}
                // The next changes report its end.
                Err(Failed::Look(LookError::Gone)) => {}
                Err(Failed::Look(error)) => return Err(lost(error)),
                Err(Failed::Trace(error)) => return Err(error.into()),
            }
        }
        self.writer.flush()?;
        Ok(())
    }

    fn change(&mut self, change: Change) -> Result<(), RecordError> {
        let (who, pid, name, parent, is_copy) = match change {
            Change::Went(who) => return self.went(who),
            Change::Came { who, pid, name, parent, shares_with_parent } => (who, pid, name, parent, shares_with_parent),
        };
        let parent = parent.and_then(|parent| self.living.get(&parent));
        let is_copy = is_copy && parent.is_some();
        let of_parent = parent.map(|parent| (parent.process, parent.thread, parent.time_ns, parent.layout.clone()));
        let forked_from = of_parent.as_ref().filter(|_| is_copy).map(|parent| parent.0);
        let process = self.writer.add_process(ProcessMeta { pid, name: name.clone(), forked_from })?;
        let started_by = of_parent.as_ref().map(|parent| parent.1 as usize);
        let thread = self.writer.add_thread(ThreadMeta { process, tid: pid, name, started_by })?;
        if let Some((_, starter, time_ns, _)) = &of_parent {
            self.writer.event(*starter, *time_ns, EventKind::StartThread { thread })?;
        }
        let layout = of_parent.filter(|_| is_copy).map(|parent| parent.3).unwrap_or_default();
        let living = Living { process, thread, layout, cpu: Duration::ZERO, time_ns: 0, was_seen: false, is_copy };
        self.living.insert(who, living);
        self.processes += 1;
        Ok(())
    }

    fn went(&mut self, who: Who) -> Result<(), RecordError> {
        if let Some(living) = self.living.remove(&who) {
            self.writer.event(living.thread, living.time_ns, EventKind::EndThread)?;
        }
        Ok(())
    }

    fn look_at(&mut self, who: Who, elapsed: Duration) -> Result<(), Failed> {
        let mappings = self.eyes.mappings(who)?;
        let cpu = self.eyes.cpu_time(who)?;
        let Some(living) = self.living.get_mut(&who) else { return Ok(()) };
        let at = living.time_ns;
        let is_first = !living.was_seen;
        for event in changes::between(&living.layout, &mappings) {
            self.writer.event(living.thread, at, event)?;
        }
        // All threads of a process count as one: running in parallel, they took no longer than the epoch.
        let ran = if is_first { Duration::ZERO } else { cpu.saturating_sub(living.cpu).min(elapsed) };
        let (thread, process, is_copy) = (living.thread, living.process, living.is_copy);
        living.layout.clone_from(&mappings);
        (living.cpu, living.was_seen) = (cpu, true);
        self.runs.clear();
        for range in &mappings {
            let mut start = range.start;
            while start < range.end {
                let end = range.end.min(start.saturating_add(PIECE_PAGES));
                self.bits.resize(end - start);
                self.eyes.look(who, start, end, &mut self.bits)?;
                match (is_first, is_copy) {
                    (true, true) => {}
                    (true, false) => append_runs(start, &self.bits.present, &self.bits.written, &mut self.runs),
                    (false, _) => append_runs(start, &self.bits.young, &self.bits.written, &mut self.runs),
                }
                start = end;
            }
        }
        self.eyes.settle(who)?;
        for run in &self.runs {
            self.touched.note(process, run.page, u64::from(run.pages));
            if !is_first {
                self.used_pages += u64::from(run.pages);
            }
        }
        self.writer.push_runs(at, thread, &self.runs)?;
        let Some(living) = self.living.get_mut(&who) else { return Ok(()) };
        living.time_ns = at + ran.ns();
        let slept = if is_first { Duration::ZERO } else { elapsed.saturating_sub(ran) };
        if slept > Duration::ZERO {
            self.writer.event(thread, living.time_ns, EventKind::Idle { ns: slept.ns() })?;
        }
        Ok(())
    }
}

/// Why an epoch of one process failed.
enum Failed {
    Look(LookError),
    Trace(isotherm_trace::TraceError),
}

impl From<LookError> for Failed {
    fn from(error: LookError) -> Self {
        Self::Look(error)
    }
}

impl From<isotherm_trace::TraceError> for Failed {
    fn from(error: isotherm_trace::TraceError) -> Self {
        Self::Trace(error)
    }
}

fn lost(error: LookError) -> RecordError {
    RecordError::LookingFailed(error.to_string())
}
