//! Writing a trace.

use std::path::Path;

use crate::{EventKind, ProcessMeta, Result, Row, RowBatch, ThreadMeta, TraceError, TraceMeta};

/// Writes a trace: an Arrow IPC stream while it grows, turned into Parquet by [`TraceWriter::finish`].
#[derive(Debug)]
pub struct TraceWriter {
    meta: TraceMeta,
}

impl TraceWriter {
    /// Starts a trace at `path` (replacing a file that is there). `meta`: what is known now; its events are kept.
    ///
    /// # Errors
    /// When the file cannot be made.
    pub fn create(path: impl AsRef<Path>, meta: TraceMeta) -> Result<Self> {
        let _ = meta;
        Err(TraceError::Unsupported { path: path.as_ref().to_owned(), what: "not yet".into() })
    }

    /// What is known so far.
    pub fn meta(&self) -> &TraceMeta {
        &self.meta
    }

    /// Appends a row.
    ///
    /// # Errors
    /// When the row is not allowed ([`Row`]), or the file cannot be written.
    pub fn push(&mut self, row: Row) -> Result<()> {
        let _ = row;
        Ok(())
    }

    /// Appends rows.
    ///
    /// # Errors
    /// As [`TraceWriter::push`].
    pub fn push_batch(&mut self, batch: &RowBatch) -> Result<()> {
        batch.rows().try_for_each(|row| self.push(row))
    }

    /// Declares a process; its index.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn add_process(&mut self, process: ProcessMeta) -> Result<usize> {
        self.meta.processes.push(process);
        Ok(self.meta.processes.len() - 1)
    }

    /// Declares a thread; its index. Its process must be declared.
    ///
    /// # Errors
    /// When the file cannot be written, or the process is unknown.
    pub fn add_thread(&mut self, thread: ThreadMeta) -> Result<u32> {
        self.meta.threads.push(thread);
        Ok(u32::try_from(self.meta.threads.len() - 1).unwrap_or(u32::MAX))
    }

    /// Records what `thread` did at its CPU time `time_ns`, after the rows pushed so far.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn event(&mut self, thread: u32, time_ns: u64, kind: EventKind) -> Result<()> {
        let _ = (thread, time_ns, kind);
        Ok(())
    }

    /// Says how the program ended: its exit code, and whether the recording saw its end.
    pub fn set_outcome(&mut self, exit_code: Option<i32>, complete: bool) {
        self.meta.exit_code = exit_code;
        self.meta.complete = complete;
    }

    /// Adds to [`TraceMeta::notes`].
    pub fn note(&mut self, note: impl Into<String>) {
        self.meta.notes.push(note.into());
    }

    /// Hands all rows to the system as a whole batch: after this, killing the process loses none of them.
    ///
    /// # Errors
    /// When the file cannot be written. On a full disk the file keeps all batches before.
    pub fn flush(&mut self) -> Result<()> {
        Ok(())
    }

    /// Makes the finished Parquet file and puts it in place of the stream in one step; what it says about itself.
    ///
    /// # Errors
    /// When it cannot be written: the stream stays in place, readable.
    pub fn finish(self) -> Result<TraceMeta> {
        Ok(self.meta)
    }
}
