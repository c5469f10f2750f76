//! Writing a trace.

use std::fs::File;
use std::path::{Path, PathBuf};

use crate::file::ipc_writer::{IpcSink, Note};
use crate::file::parquet_file::is_full;
use crate::file::parquet_writer::ParquetSink;
use crate::file::temporary::create_private;
use crate::fold::fold_events;
use crate::reader::{TraceReader, row_flaw, thread_flaw};
use crate::{
    BATCH_ROWS, Clock, Event, EventKind, Fraction, NativeRun, PAGE_LIMIT, PageRun, ProcessMeta, Result, RowBatch,
    ThreadMeta, TraceError, TraceMeta, TraceRow,
};

/// Rows and notes in a batch of the stream.
const STREAM_BATCH_ROWS: usize = 1 << 16;

/// Writes a trace: an Arrow IPC stream while it grows, turned into Parquet by [`TraceWriter::finish`].
#[derive(Debug)]
pub struct TraceWriter {
    path: PathBuf,
    meta: TraceMeta,
    /// Latest time of each thread.
    times_ns: Vec<u64>,
    sink: Sink,
}

#[derive(Debug)]
enum Sink {
    /// For recordings: written data survive a crash of the recorder.
    Stream(Box<IpcSink<File>>),
    /// For conversions, which can be repeated: no second pass.
    Finished { sink: Box<ParquetSink>, batch: RowBatch },
}

impl TraceWriter {
    /// Starts a recording at `path` (replacing a file that is there). `meta`: metadata known at the start.
    ///
    /// # Errors
    /// When the file cannot be made.
    pub fn create(path: impl AsRef<Path>, meta: TraceMeta) -> Result<Self> {
        let path = path.as_ref();
        let file = create_private(path).map_err(|error| TraceError::io("create", path, error))?;
        let sink = IpcSink::create(file, &meta).map_err(|error| {
            // Not even the header was written, so the file cannot be opened.
            let _ = std::fs::remove_file(path);
            TraceError::io("write", path, error)
        })?;
        Ok(Self::with(path, meta, Sink::Stream(Box::new(sink))))
    }

    /// Starts a trace that becomes Parquet at once: for conversions. `path` is touched only by [`TraceWriter::finish`].
    ///
    /// # Errors
    /// When a temporary file next to `path` cannot be made.
    pub fn create_finished(path: impl AsRef<Path>, meta: TraceMeta) -> Result<Self> {
        let path = path.as_ref();
        let sink = Box::new(ParquetSink::create(path)?);
        Ok(Self::with(path, meta, Sink::Finished { sink, batch: RowBatch::new() }))
    }

    fn with(path: &Path, mut meta: TraceMeta, sink: Sink) -> Self {
        meta.rows = 0;
        meta.accesses = 0;
        let times_ns = vec![0; meta.threads.len()];
        Self { path: path.to_owned(), meta, times_ns, sink }
    }

    /// Metadata so far; rows and accesses count pushed ones.
    pub fn meta(&self) -> &TraceMeta {
        &self.meta
    }

    /// Appends a row.
    ///
    /// # Errors
    /// When the row is not allowed ([`TraceRow`]), or the file cannot be written.
    pub fn push(&mut self, row: TraceRow) -> Result<()> {
        self.check(&row)?;
        self.meta.rows += 1;
        self.meta.accesses += u64::from(row.pages);
        match &mut self.sink {
            Sink::Stream(stream) => {
                stream.push(row);
                if stream.pending() >= STREAM_BATCH_ROWS { self.flush() } else { Ok(()) }
            }
            Sink::Finished { sink, batch } => {
                batch.push(row);
                if batch.len() < BATCH_ROWS {
                    return Ok(());
                }
                sink.push_batch(batch)?;
                batch.clear();
                Ok(())
            }
        }
    }

    /// Appends the touches of `thread` in its epoch at `time_ns`: a row for each of `runs`, as by [`TraceWriter::push`], but cheaper.
    ///
    /// # Errors
    /// Errors of [`TraceWriter::push`]; then the rows before the refused one are in the trace.
    pub fn push_runs(&mut self, time_ns: u64, thread: u32, mut runs: &[PageRun]) -> Result<()> {
        let known = (thread as usize) < self.times_ns.len();
        let in_order = known && (self.times_ns[thread as usize]..=i64::MAX.unsigned_abs()).contains(&time_ns);
        // Without branches; an error is then located row by row. A sum that wraps had a page beyond the limit.
        let flaws = runs.iter().fold(0, |flaws, run| {
            let end = run.page.wrapping_add(run.pages.into());
            flaws | u64::from(run.pages == 0) | (run.page | end.wrapping_sub(1)) & !(PAGE_LIMIT - 1)
        });
        if !in_order || flaws != 0 || !matches!(self.sink, Sink::Stream(_)) {
            return runs.iter().try_for_each(|&PageRun { page, pages, write, kernel }| {
                self.push(TraceRow { time_ns, thread, page, pages, write, kernel })
            });
        }
        self.times_ns[thread as usize] = time_ns;
        self.meta.rows += runs.len() as u64;
        self.meta.accesses += runs.iter().map(|run| u64::from(run.pages)).sum::<u64>();
        while let Sink::Stream(stream) = &mut self.sink {
            let (now, later) = runs.split_at(runs.len().min(STREAM_BATCH_ROWS - stream.pending()));
            stream.extend(time_ns, thread, now);
            runs = later;
            if stream.pending() >= STREAM_BATCH_ROWS {
                self.flush()?;
            }
            if runs.is_empty() {
                break;
            }
        }
        Ok(())
    }

    fn check(&mut self, row: &TraceRow) -> Result<()> {
        let flaw = row_flaw(row.page, row.pages).or_else(|| thread_flaw(row.thread, self.times_ns.len()));
        let flaw = flaw.or_else(|| {
            let latest_ns = &mut self.times_ns[row.thread as usize];
            let earlier = row.time_ns < *latest_ns || row.time_ns > i64::MAX.unsigned_abs();
            let flaw = earlier.then(|| {
                format!("time {} ns of thread {} is before {latest_ns} ns or too large", row.time_ns, row.thread)
            });
            *latest_ns = row.time_ns.max(*latest_ns);
            flaw
        });
        flaw.map_or(Ok(()), |flaw| Err(TraceError::bad_value(&self.path, "row", self.meta.rows, flaw)))
    }

    /// Appends rows.
    ///
    /// # Errors
    /// As [`TraceWriter::push`].
    pub fn push_batch(&mut self, batch: &RowBatch) -> Result<()> {
        batch.rows().try_for_each(|row| self.push(row))
    }

    /// Declares a process; returns its index in [`TraceMeta::processes`].
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn add_process(&mut self, process: ProcessMeta) -> Result<usize> {
        self.meta.processes.push(process.clone());
        self.note_in_stream(&Note::Process(process))?;
        Ok(self.meta.processes.len() - 1)
    }

    /// Declares a thread; returns its index in [`TraceMeta::threads`].
    ///
    /// # Errors
    /// When its process is not declared, or the file cannot be written.
    pub fn add_thread(&mut self, thread: ThreadMeta) -> Result<u32> {
        let index = self.meta.threads.len();
        let bad = |what| Err(TraceError::bad_value(&self.path, "thread", index as u64, what));
        if thread.process >= self.meta.processes.len() {
            return bad(format!("its process {} is not declared", thread.process));
        }
        if thread.started_by.is_some_and(|by| by >= index) {
            return bad("the thread that started it is not declared".to_owned());
        }
        let Ok(number) = u32::try_from(index) else { return bad("there are 2^32 threads already".to_owned()) };
        self.meta.threads.push(thread.clone());
        self.times_ns.push(0);
        self.note_in_stream(&Note::Thread(thread))?;
        Ok(number)
    }

    /// Records what `thread` did at its CPU time `time_ns`, after the rows pushed so far.
    ///
    /// # Errors
    /// When the thread is not declared, or the file cannot be written.
    pub fn event(&mut self, thread: u32, time_ns: u64, kind: EventKind) -> Result<()> {
        if let Some(flaw) = thread_flaw(thread, self.times_ns.len()) {
            return Err(TraceError::bad_value(&self.path, "row", self.meta.rows, flaw));
        }
        let event = Event { row: self.meta.rows, thread, time_ns, kind };
        self.meta.events.push(event.clone());
        self.note_in_stream(&Note::Event(event))
    }

    /// Sets how the program ended: its exit code, and whether the recording saw its end.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn set_outcome(&mut self, exit_code: Option<i32>, complete: bool) -> Result<()> {
        self.meta.exit_code = exit_code;
        self.meta.complete = complete;
        self.note_in_stream(&Note::Outcome { exit_code, complete })
    }

    /// Adds to [`TraceMeta::notes`].
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn note(&mut self, remark: impl Into<String>) -> Result<()> {
        let remark = remark.into();
        self.meta.notes.push(remark.clone());
        self.note_in_stream(&Note::Remark(remark))
    }

    /// Replaces all metadata except the counts; for importers, before the first row.
    pub(crate) fn replace_meta(&mut self, meta: TraceMeta) {
        self.times_ns = vec![0; meta.threads.len()];
        self.meta = TraceMeta { rows: self.meta.rows, accesses: self.meta.accesses, ..meta };
    }

    /// Sets the length of an epoch: for importers that learn it from the input.
    pub(crate) fn set_epoch_ns(&mut self, epoch_ns: u64) {
        self.meta.epoch_ns = epoch_ns;
    }

    /// Fills in command and process id if they are not known: for importers, before [`TraceWriter::finish`].
    pub(crate) fn learn_command(&mut self, pid: u32, command: Vec<String>) {
        if !self.meta.command.is_empty() {
            return;
        }
        if let Some(process) = self.meta.processes.first_mut() {
            process.pid = pid;
            process.name = command.first().cloned().unwrap_or_default();
        }
        self.meta.command = command;
    }

    fn note_in_stream(&mut self, note: &Note) -> Result<()> {
        let Sink::Stream(stream) = &mut self.sink else { return Ok(()) };
        stream.note(note);
        if stream.pending() >= STREAM_BATCH_ROWS { self.flush() } else { Ok(()) }
    }

    /// Writes all rows to the system as a whole batch: after this, killing the process loses none of them. Call it about once a second;
    /// each call makes a separate batch.
    ///
    /// # Errors
    /// When the file cannot be written. On a full disk the file keeps all earlier batches.
    pub fn flush(&mut self) -> Result<()> {
        let (path, rows) = (&self.path, self.meta.rows);
        match &mut self.sink {
            Sink::Stream(stream) => stream.flush().map_err(|error| stream_error(path, rows, error)),
            Sink::Finished { .. } => Ok(()),
        }
    }

    /// Makes the finished Parquet file and replaces the stream by it in one step. Returns its metadata.
    ///
    /// # Errors
    /// The file cannot be written: a stream stays in place, readable.
    pub fn finish(self) -> Result<TraceMeta> {
        self.finish_with(None, None)
    }

    /// As [`TraceWriter::finish`], with the results of a run without the recorder: its figures, and the clock that corrects times computed
    /// from instruction counts. `clock` is the ratio of new to old time; sleeps keep their length. Conversions have no such clock, and
    /// ignore it.
    ///
    /// # Errors
    /// As [`TraceWriter::finish`].
    pub fn finish_with(self, native: Option<NativeRun>, clock: Option<Fraction>) -> Result<TraceMeta> {
        let Self { path, mut meta, sink, .. } = self;
        match sink {
            Sink::Stream(mut stream) => {
                stream.close().map_err(|error| stream_error(&path, meta.rows, error))?;
                drop(stream);
                let reader = TraceReader::open_closed(&path, meta)?;
                finish_stream_with(reader, native, clock)
            }
            Sink::Finished { mut sink, batch } => {
                sink.push_batch(&batch)?;
                meta.events = fold_events(&meta);
                sink.finish(meta)
            }
        }
    }
}

/// Turns an Arrow IPC stream into the finished Parquet file at the same path, in one step: also for a torn recording, whose whole batches
/// are all kept. Does nothing to a finished file.
///
/// # Errors
/// The file cannot be read or written; it stays as it was.
pub fn finish_stream(path: impl AsRef<Path>) -> Result<TraceMeta> {
    let reader = TraceReader::open(path)?;
    if reader.is_finished() { Ok(reader.meta().clone()) } else { finish_stream_with(reader, None, None) }
}

fn finish_stream_with(
    mut reader: TraceReader,
    native: Option<NativeRun>,
    clock: Option<Fraction>,
) -> Result<TraceMeta> {
    let clocked = |ns: u64| clock.map_or(ns, |clock| clock.times(ns));
    let done = (|| {
        let mut sink = ParquetSink::create(reader.path())?;
        let mut timed = RowBatch::new();
        reader.for_each_batch(|batch| match clock {
            None => sink.push_batch(batch),
            Some(_) => {
                timed.clone_from(batch);
                timed.time_ns.iter_mut().for_each(|ns| *ns = clocked(*ns));
                sink.push_batch(&timed)
            }
        })?;
        debug_assert_eq!(sink.rows(), reader.meta().rows, "the stream was scanned, or written here");
        let mut meta = TraceMeta { events: fold_events(reader.meta()), native, ..reader.meta().clone() };
        meta.events.iter_mut().for_each(|event| event.time_ns = clocked(event.time_ns));
        meta.epoch_ns = clocked(meta.epoch_ns);
        meta.ns_per_instruction = meta.ns_per_instruction.map(|ratio| ratio.scaled(clock));
        if clock.is_some() {
            meta.clock = Clock::NATIVE;
        }
        sink.finish(meta)
    })();
    done.map_err(|error| match error {
        TraceError::DiskFull { path, .. } => {
            let kept =
                format!("the {} rows stay there as an Arrow IPC stream, readable as they are", reader.meta().rows);
            TraceError::DiskFull { path, kept }
        }
        error => error,
    })
}

#[cold]
fn stream_error(path: &Path, rows: u64, error: std::io::Error) -> TraceError {
    if is_full(&error) {
        let kept = format!("of {rows} rows those of all whole batches are kept there, readable as they are");
        return TraceError::DiskFull { path: path.to_owned(), kept };
    }
    TraceError::io("write", path, error)
}
