//! Rows and events of a trace one by one, in order.

use crate::file::parquet_reader::ThreadRows;
use crate::{Result, RowBatch, TraceReader, TraceRow};

/// A step of the trace.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Step {
    /// A thread touches pages.
    Row(TraceRow),
    /// The event of this index in the trace's list.
    Event(usize),
}

/// A pass over a trace, step by step. Holds one batch of rows.
#[derive(Debug)]
pub(crate) struct Steps<'a> {
    reader: &'a mut TraceReader,
    batch: RowBatch,
    /// Index in `batch` of the next row.
    next: usize,
    next_event: usize,
}

impl<'a> Steps<'a> {
    pub(crate) fn new(reader: &'a mut TraceReader) -> Self {
        reader.rewind();
        Self { reader, batch: RowBatch::new(), next: 0, next_event: 0 }
    }

    /// Metadata of the next rows, if they can be skipped: they are of one thread, without an event among them.
    pub(crate) fn thread_ahead(&self) -> Option<ThreadRows> {
        let ahead = self.reader.thread_ahead().filter(|_| self.next >= self.batch.len())?;
        let event = self.reader.meta().events.get(self.next_event);
        event.is_none_or(|event| event.row >= ahead.rows.end).then_some(ahead)
    }

    /// Skips these rows.
    pub(crate) fn skip(&mut self, ahead: &ThreadRows) {
        self.reader.skip_ahead();
        self.batch.clear();
        self.batch.first_row = ahead.rows.end;
        self.next = 0;
    }

    /// The next step, and the number of rows before it; `None` at the end.
    pub(crate) fn next(&mut self) -> Result<Option<(Step, u64)>> {
        if self.next >= self.batch.len() {
            let after = self.batch.first_row + self.batch.len() as u64;
            self.next = 0;
            if !self.reader.next_batch(&mut self.batch)? {
                self.batch.clear();
                self.batch.first_row = after;
            }
        }
        let row = self.batch.first_row + self.next as u64;
        let is_end = self.batch.is_empty();
        if let Some(event) = self.reader.meta().events.get(self.next_event)
            && (is_end || event.row <= row)
        {
            self.next_event += 1;
            return Ok(Some((Step::Event(self.next_event - 1), row)));
        }
        if is_end {
            return Ok(None);
        }
        self.next += 1;
        Ok(Some((Step::Row(self.batch.row(self.next - 1)), row)))
    }
}
