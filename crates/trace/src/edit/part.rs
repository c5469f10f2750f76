//! A part of a trace, read as if it were a trace of its own.

use std::path::Path;

use super::Selection;
use super::plan::{Plan, plan};
use super::sieve::Sieve;
use crate::{BATCH_ROWS, Result, RowBatch, TraceError, TraceMeta, TraceReader, TraceRow, TraceRows, TraceWriter};

/// What a [`Selection`] keeps of a trace, read with the memory of one batch and the mappings.
#[derive(Debug)]
pub struct TracePart {
    reader: TraceReader,
    part: Option<(Plan, Sieve)>,
}

impl TracePart {
    /// Finds the part, with one pass over the trace; two where a time is a share of the length, none for a whole trace.
    ///
    /// # Errors
    /// When the selection names a thread, process or mapping that the trace has not, nothing is left, or the trace is
    /// damaged.
    pub fn new(mut reader: TraceReader, selection: &Selection) -> Result<Self> {
        if selection.is_whole() {
            return Ok(Self { reader, part: None });
        }
        let mut sieve = Sieve::new(reader.meta(), selection)?;
        let plan = plan(&mut reader, selection, &mut sieve)?;
        Ok(Self { reader, part: Some((plan, sieve)) })
    }
}

impl TraceRows for TracePart {
    fn meta(&self) -> &TraceMeta {
        self.part.as_ref().map_or(self.reader.meta(), |(plan, _)| &plan.meta)
    }
    fn path(&self) -> &Path {
        self.reader.path()
    }
    fn file_bytes(&self) -> u64 {
        self.reader.file_bytes()
    }
    fn file_accesses(&self) -> Option<u64> {
        self.part.is_some().then_some(self.reader.meta().accesses)
    }

    fn for_each_batch<E: From<TraceError>>(
        &mut self,
        mut each: impl FnMut(&RowBatch) -> Result<(), E>,
    ) -> Result<(), E> {
        let Some((plan, sieve)) = &mut self.part else { return self.reader.for_each_batch(each) };
        sieve.reset();
        self.reader.rewind();
        let source = if sieve.needs_events() { self.reader.meta().clone() } else { TraceMeta::default() };
        let mut events = source.events.iter().peekable();
        let processes: Vec<usize> = self.reader.meta().threads.iter().map(|thread| thread.process).collect();
        let (mut batch, mut out) = (RowBatch::new(), RowBatch::new());
        while self.reader.next_batch(&mut batch)? && batch.first_row < plan.rows.end {
            for (number, row) in (batch.first_row..plan.rows.end).zip(batch.rows()) {
                while let Some(event) = events.next_if(|event| event.row <= number) {
                    sieve.event(&source, event, source.process_of(event.thread));
                }
                if number < plan.rows.start {
                    continue;
                }
                let Some(place) = plan.threads[row.thread as usize] else { continue };
                let mut failed = Ok(());
                sieve.row(processes[row.thread as usize], row, |kept| {
                    let time_ns = kept.time_ns.saturating_sub(place.base_ns);
                    out.push(TraceRow { time_ns, thread: place.number, ..kept });
                    if out.len() == BATCH_ROWS && failed.is_ok() {
                        failed = each(&out);
                        next_batch(&mut out);
                    }
                });
                failed?;
            }
        }
        if out.is_empty() { Ok(()) } else { each(&out) }
    }
}

/// Empties the batch for the rows after it.
fn next_batch(batch: &mut RowBatch) {
    let after = batch.first_row + batch.len() as u64;
    batch.clear();
    batch.first_row = after;
}

/// Writes a part as a finished trace at `output`, which appears in one step. `progress` is told of rows written.
///
/// # Errors
/// When the trace is damaged, or the output cannot be written; it is then untouched.
pub fn write_part(part: &mut TracePart, output: impl AsRef<Path>, mut progress: impl FnMut(u64)) -> Result<TraceMeta> {
    let mut writer = TraceWriter::create_finished(output, part.meta().clone())?;
    part.for_each_batch(|batch| {
        progress(batch.len() as u64);
        writer.push_batch(batch)
    })?;
    writer.finish()
}
