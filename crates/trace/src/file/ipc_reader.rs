//! The rows of a trace that is being written, or torn.

use super::Source;
use super::decode::unpack_bits;
use super::ipc_stream::{IpcTable, Message};
use super::ipc_writer::Note;
use super::table::TRACE;
use crate::{BATCH_ROWS, Result, RowBatch, TraceMeta};

/// Streams the rows of an Arrow IPC stream. Holds one batch of the file.
#[derive(Debug)]
pub(crate) struct IpcRows {
    table: IpcTable,
    /// Next row in the table's current batch.
    next_row: usize,
    rows_done: u64,
}

impl IpcRows {
    /// Reads the header and then every batch once: events, declarations, counts.
    pub(crate) fn open(source: Source) -> Result<(Self, TraceMeta)> {
        let (mut table, json) = IpcTable::open(source, &TRACE)?;
        let mut meta = crate::reader::parse_meta(&table.source().path, &json)?;
        scan(&mut table, &mut meta)?;
        Ok((Self { table, next_row: 0, rows_done: 0 }, meta))
    }

    /// Reads the header of a stream that was closed; the caller knows the metadata in notes.
    pub(crate) fn open_closed(source: Source) -> Result<Self> {
        let (mut table, _) = IpcTable::open(source, &TRACE)?;
        table.expect_closed();
        Ok(Self { table, next_row: 0, rows_done: 0 })
    }

    pub(crate) fn source(&self) -> &Source {
        self.table.source()
    }

    pub(crate) fn rewind(&mut self) {
        self.table.rewind();
        self.next_row = 0;
        self.rows_done = 0;
    }

    pub(crate) fn next_batch(&mut self, batch: &mut RowBatch) -> Result<bool> {
        batch.clear();
        batch.first_row = self.rows_done;
        while batch.is_empty() {
            if self.next_row == self.table.current().rows {
                self.next_row = 0;
                if self.table.next_message()?.is_none() {
                    return Ok(false);
                }
            }
            let message = self.table.current();
            let to = message.rows.min(self.next_row + BATCH_ROWS);
            take_rows(message, self.next_row, to, batch);
            self.next_row = to;
        }
        self.rows_done += batch.len() as u64;
        Ok(true)
    }
}

fn scan(table: &mut IpcTable, meta: &mut TraceMeta) -> Result<()> {
    meta.rows = 0;
    meta.accesses = 0;
    meta.complete = false;
    let cut = table.scan(|source, place, message, notes| {
        for note in notes {
            let note = serde_json::from_str(&note);
            let note = note.map_err(|error| source.damaged(place, format!("an event is not understood: {error}")))?;
            apply(meta, note);
        }
        for row in (0..message.rows).filter(|&row| !message.notes_at(row)) {
            meta.rows += 1;
            meta.accesses += message.value(3, row);
        }
        Ok(())
    })?;
    if let Some(cut) = cut {
        meta.complete = false;
        meta.notes.push(format!("not finished: read up to the last whole batch; {cut} bytes after it left out"));
    }
    Ok(())
}

/// Appends rows `from..to` of `message` to `batch`; notes are skipped.
fn take_rows(message: &Message, from: usize, to: usize, batch: &mut RowBatch) {
    if !message.has_notes() {
        return take_span(message, from, to, batch);
    }
    // Usually there are many rows between notes.
    let mut start = from;
    for row in (from..to).filter(|&row| message.notes_at(row)) {
        take_span(message, start, row, batch);
        start = row + 1;
    }
    take_span(message, start, to, batch);
}

/// Appends rows `from..to` of `message`, which contain no note.
fn take_span(message: &Message, from: usize, to: usize, batch: &mut RowBatch) {
    if from == to {
        return;
    }
    extend(message, 0, from, to, &mut batch.time_ns, |value| value);
    extend(message, 2, from, to, &mut batch.page, |value| value);
    // Values of a wider column that do not fit are refused by the reader's check of the rows.
    let narrow = |value| u32::try_from(value).unwrap_or(u32::MAX);
    extend(message, 1, from, to, &mut batch.thread, narrow);
    extend(message, 3, from, to, &mut batch.pages, narrow);
    extend_bits(message, 4, from, to, &mut batch.write);
    extend_bits(message, 5, from, to, &mut batch.kernel);
}

/// Appends the bits `from..to` of a column; `false` if the stream lacks it.
fn extend_bits(message: &Message, column: usize, from: usize, to: usize, out: &mut Vec<bool>) {
    let first = out.len();
    if !message.has_column(column) {
        out.resize(first + to - from, false);
    } else if from.is_multiple_of(8) {
        out.resize(first + (to - from).next_multiple_of(8), false);
        unpack_bits(&message.columns[column].0[from / 8..to.div_ceil(8)], &mut out[first..]);
        out.truncate(first + to - from);
    } else {
        out.extend((from..to).map(|row| message.bit(column, row)));
    }
}

/// Appends the integers `from..to` of a column, which are 4 or 8 bytes wide.
fn extend<T>(message: &Message, column: usize, from: usize, to: usize, out: &mut Vec<T>, as_value: impl Fn(u64) -> T) {
    let (values, width) = &message.columns[column];
    let values = &values[from * width..to * width];
    if *width == 8 {
        out.extend(values.as_chunks::<8>().0.iter().map(|bytes| as_value(u64::from_le_bytes(*bytes))));
    } else {
        out.extend(values.as_chunks::<4>().0.iter().map(|bytes| as_value(u32::from_le_bytes(*bytes).into())));
    }
}

fn apply(meta: &mut TraceMeta, note: Note) {
    match note {
        Note::Event(event) => meta.events.push(event),
        Note::Process(process) => meta.processes.push(process),
        Note::Thread(thread) => meta.threads.push(thread),
        Note::Remark(remark) => meta.notes.push(remark),
        Note::Outcome { exit_code, complete } => {
            meta.exit_code = exit_code;
            meta.complete = complete;
        }
    }
}
