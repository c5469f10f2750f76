//! Reads a group record, finished or not.

use std::path::Path;

use super::columns::{GROUP, Rows};
use super::look::LOOK_GENERATIONS_MAX;
use super::writer::Note;
use super::{GROUP_VERSION, GroupMeta, Look};
use crate::file::container::Container;
use crate::file::ipc_stream::IpcTable;
use crate::{Result, TraceError};

/// A group record on disk, read sample by sample.
#[derive(Debug)]
pub struct GroupReader {
    meta: GroupMeta,
    form: Container,
    rows: Rows,
    next_row: usize,
    /// Number after the number of the last returned sample.
    next_number: u64,
    latest_ns: u64,
}

/// Whether the file has the columns of a group record. Other formats and damage are not reported here.
pub fn is_group_record(path: impl AsRef<Path>) -> bool {
    !matches!(GroupReader::open(path), Err(TraceError::WrongFormat { .. } | TraceError::Io { .. }))
}

impl GroupReader {
    /// Opens a record: finished (Parquet), being written or torn (Arrow IPC stream); distinguished by content.
    ///
    /// # Errors
    /// The file cannot be read, is not a group record, or is damaged. A torn stream is not an error: it opens up to its last whole batch,
    /// with [`GroupMeta::complete`] = `false` and a note.
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        let (mut form, json) = Container::open(path.as_ref(), &GROUP, "")?;
        let mut meta = parse_meta(&form.source().path, &json)?;
        if let Container::Ipc(table) = &mut form {
            scan(table, &mut meta)?;
        }
        Ok(Self { meta, form, rows: Rows::default(), next_row: 0, next_number: 0, latest_ns: 0 })
    }

    /// Complete metadata of the record.
    pub fn meta(&self) -> &GroupMeta {
        &self.meta
    }

    /// Whether the file is finished (Parquet); otherwise it is an Arrow IPC stream.
    pub fn is_finished(&self) -> bool {
        self.form.is_finished()
    }

    /// Path of the file.
    pub fn path(&self) -> &Path {
        &self.form.source().path
    }

    /// All remaining samples. A sample takes some hundred bytes.
    ///
    /// # Errors
    /// When the file is damaged or cannot be read.
    pub fn read_all(&mut self) -> Result<Vec<Look>> {
        let (mut all, mut look) = (Vec::new(), Look::default());
        while self.next_look(&mut look)? {
            all.push(look.clone());
        }
        Ok(all)
    }

    /// Replaces `look` with the next sample. `false` if none is left.
    ///
    /// # Errors
    /// When the file is damaged or cannot be read.
    pub fn next_look(&mut self, look: &mut Look) -> Result<bool> {
        look.generations.clear();
        if !self.has_row()? {
            return Ok(false);
        }
        let number = self.rows.number_at(self.next_row);
        self.rows.start_look(self.next_row, look);
        if number < self.next_number {
            return Err(self.bad(number, "its number is not above that of the look before"));
        }
        if look.time_ns < self.latest_ns {
            return Err(self.bad(number, "its time is before that of the look before"));
        }
        while self.has_row()? && self.rows.number_at(self.next_row) == number {
            if let Some(flaw) = self.rows.take_generation(self.next_row, look) {
                return Err(self.bad(number, flaw));
            }
            if look.generations.len() > LOOK_GENERATIONS_MAX {
                break;
            }
            self.next_row += 1;
        }
        if let Some(flaw) = look.flaw() {
            return Err(self.bad(number, flaw));
        }
        (self.next_number, self.latest_ns) = (number.saturating_add(1), look.time_ns);
        Ok(true)
    }

    #[cold]
    fn bad(&self, number: u64, what: impl Into<String>) -> TraceError {
        TraceError::bad_value(self.path(), "look", number, what)
    }

    /// Whether there is a row at `next_row`; reads on if needed.
    fn has_row(&mut self) -> Result<bool> {
        while self.next_row >= self.rows.len() {
            self.next_row = 0;
            let more = match &mut self.form {
                Container::Parquet(table) => self.rows.read_parquet(table)?,
                Container::Ipc(table) => match table.next_message()? {
                    Some(message) => {
                        self.rows.read_message(message);
                        true
                    }
                    None => false,
                },
            };
            if !more {
                self.rows.clear();
                return Ok(false);
            }
        }
        Ok(true)
    }
}

fn parse_meta(path: &Path, json: &str) -> Result<GroupMeta> {
    let meta: GroupMeta = serde_json::from_str(json)
        .map_err(|error| TraceError::damaged(path, 0, format!("its metadata are not understood: {error}")))?;
    if meta.group_version > GROUP_VERSION {
        let (found, known) = (meta.group_version, GROUP_VERSION);
        return Err(TraceError::TooNew { path: path.to_owned(), found, known });
    }
    Ok(meta)
}

/// Reads all batches once, for notes and counts.
fn scan(table: &mut IpcTable, meta: &mut GroupMeta) -> Result<()> {
    (meta.looks, meta.complete) = (0, false);
    let mut latest = None;
    let cut_bytes = table.scan(|source, place, message, notes| {
        for note in notes {
            let note: Note = serde_json::from_str(&note)
                .map_err(|error| source.damaged(place, format!("an event is not understood: {error}")))?;
            note.apply(meta);
        }
        for row in (0..message.rows).filter(|&row| !message.notes_at(row)) {
            let number = Some(message.value(0, row));
            meta.looks += u64::from(latest != number);
            latest = number;
        }
        Ok(())
    })?;
    if let Some(cut) = cut_bytes {
        meta.complete = false;
        meta.notes.push(format!("not finished: read up to the last whole batch; {cut} bytes after it left out"));
    }
    Ok(())
}
