//! The rows of a trace that is being written, or torn.

use super::Source;
use super::decode::{little_endian, unpack_bits};
use super::ipc_stream::{IpcTable, Message};
use super::ipc_writer::Note;
use super::table::TRACE;
use crate::{BATCH_ROWS, Result, RowBatch, TraceMeta};

/// Streams the rows of an Arrow IPC stream. Holds one batch of it.
#[derive(Debug)]
pub(crate) struct IpcRows {
    table: IpcTable,
    /// Of the table's current batch.
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

/// Appends rows `from..to` of `message` to `batch`; notes are passed over.
fn take_rows(message: &Message, from: usize, to: usize, batch: &mut RowBatch) {
    if !message.has_notes() && from.is_multiple_of(8) {
        let narrow = |column: usize| {
            let (values, width) = &message.columns[column];
            let values = values[from * width..to * width].chunks_exact(*width);
            // Values of a wider column that do not fit are refused by the reader's check of the rows.
            values.map(|bytes| u32::try_from(little_endian(bytes)).unwrap_or(u32::MAX))
        };
        let wide = |column: usize| {
            let (values, width) = &message.columns[column];
            values[from * width..to * width].chunks_exact(*width).map(little_endian)
        };
        batch.time_ns.extend(wide(0));
        batch.thread.extend(narrow(1));
        batch.page.extend(wide(2));
        batch.pages.extend(narrow(3));
        let bits = |column: usize, out: &mut Vec<bool>| {
            let first = out.len();
            out.resize(first + (to - from).next_multiple_of(8), false);
            if message.has_column(column) {
                unpack_bits(&message.columns[column].0[from / 8..to.div_ceil(8)], &mut out[first..]);
            }
            out.truncate(first + to - from);
        };
        bits(4, &mut batch.write);
        bits(5, &mut batch.kernel);
        return;
    }
    for row in (from..to).filter(|&row| !message.notes_at(row)) {
        batch.push(crate::TraceRow {
            time_ns: message.value(0, row),
            thread: u32::try_from(message.value(1, row)).unwrap_or(u32::MAX),
            page: message.value(2, row),
            pages: u32::try_from(message.value(3, row)).unwrap_or(u32::MAX),
            write: message.bit(4, row),
            kernel: message.has_column(5) && message.bit(5, row),
        });
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
