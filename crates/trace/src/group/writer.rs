//! Writes a group record.

use std::fs::File;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::columns::{GROUP, Rows};
use super::reader::GroupReader;
use super::{GroupMeta, Look};
use crate::file::ipc_file::IpcFile;
use crate::file::parquet_file::{GROUP_ROWS, ParquetFile, is_full};
use crate::file::temporary::create_private;
use crate::{Result, TraceError};

/// Rows and notes in a batch of the stream.
const STREAM_BATCH_ROWS: usize = 1 << 16;

/// Contents of a non-null `event` cell of the stream.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Note {
    Remark(String),
    Outcome { complete: bool },
}

impl Note {
    pub(super) fn apply(self, meta: &mut GroupMeta) {
        match self {
            Self::Remark(remark) => meta.notes.push(remark),
            Self::Outcome { complete } => meta.complete = complete,
        }
    }
}

/// Writes a group record: an Arrow IPC stream while it grows, turned into Parquet by [`GroupWriter::finish`].
#[derive(Debug)]
pub struct GroupWriter {
    path: PathBuf,
    meta: GroupMeta,
    latest_ns: u64,
    rows: Rows,
    notes: Vec<Option<String>>,
    file: Box<IpcFile<File>>,
}

impl GroupWriter {
    /// Starts a record at `path` (replacing a file that is there). `meta`: metadata known at the start.
    ///
    /// # Errors
    /// When the file cannot be created.
    pub fn create(path: impl AsRef<Path>, meta: GroupMeta) -> Result<Self> {
        let path = path.as_ref().to_owned();
        let meta = GroupMeta { looks: 0, ..meta };
        let file = create_private(&path).map_err(|error| TraceError::io("create", &path, error))?;
        let json = serde_json::to_string(&meta).expect("metadata is plain data");
        let file = Box::new(IpcFile::create(file, &GROUP, json).map_err(|error| stream_error(&path, 0, error))?);
        Ok(Self { path, meta, latest_ns: 0, rows: Rows::default(), notes: Vec::new(), file })
    }

    /// Metadata so far; `looks` counts pushed samples.
    pub fn meta(&self) -> &GroupMeta {
        &self.meta
    }

    /// Appends a sample.
    ///
    /// # Errors
    /// When time goes back, its generations are out of order, or the file cannot be written.
    pub fn push(&mut self, look: &Look) -> Result<()> {
        let back = (look.time_ns < self.latest_ns).then(|| {
            format!("its time is {} ns, after one at {} ns; time may not go back", look.time_ns, self.latest_ns)
        });
        if let Some(flaw) = back.or_else(|| look.flaw()) {
            return Err(TraceError::bad_value(&self.path, "look", self.meta.looks, flaw));
        }
        self.latest_ns = look.time_ns;
        self.rows.push(self.meta.looks, look);
        self.meta.looks += 1;
        self.notes.resize(self.rows.len(), None);
        self.spill()
    }

    /// Adds to [`GroupMeta::notes`].
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn note(&mut self, remark: impl Into<String>) -> Result<()> {
        self.put_note(Note::Remark(remark.into()))
    }

    /// Sets whether the recording saw its end.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn set_outcome(&mut self, complete: bool) -> Result<()> {
        self.put_note(Note::Outcome { complete })
    }

    fn put_note(&mut self, note: Note) -> Result<()> {
        self.rows.push_blank();
        self.notes.push(Some(serde_json::to_string(&note).expect("notes are plain data")));
        note.apply(&mut self.meta);
        self.spill()
    }

    fn spill(&mut self) -> Result<()> {
        if self.rows.len() >= STREAM_BATCH_ROWS { self.flush() } else { Ok(()) }
    }

    /// Writes all samples to the system as a whole batch: after this, killing the process loses none of them.
    ///
    /// # Errors
    /// When the file cannot be written. On a full disk the file keeps all earlier batches.
    pub fn flush(&mut self) -> Result<()> {
        if self.rows.len() == 0 {
            return Ok(());
        }
        let written = self.file.write(self.rows.take_arrays(), std::mem::take(&mut self.notes).into());
        written.map_err(|error| stream_error(&self.path, self.meta.looks, error))
    }

    /// Makes the finished Parquet file and replaces the stream by it in one step. Returns its metadata.
    ///
    /// # Errors
    /// The file cannot be written: a stream stays in place, readable.
    pub fn finish(mut self) -> Result<GroupMeta> {
        self.flush()?;
        self.file.close().map_err(|error| stream_error(&self.path, self.meta.looks, error))?;
        let path = self.path.clone();
        drop(self);
        finish_group_record(path)
    }
}

/// Turns an Arrow IPC stream into the finished Parquet file at the same path, in one step; all whole batches of a torn one
/// are kept. Does nothing to a finished file.
///
/// # Errors
/// The file cannot be read or written; it stays as it was.
pub fn finish_group_record(path: impl AsRef<Path>) -> Result<GroupMeta> {
    let path = path.as_ref();
    let mut reader = GroupReader::open(path)?;
    let meta = reader.meta().clone();
    if reader.is_finished() {
        return Ok(meta);
    }
    let mut file = ParquetFile::create(path, &GROUP)?;
    let (mut rows, mut look) = (Rows::default(), Look::default());
    let mut number = 0;
    while reader.next_look(&mut look)? {
        rows.push(number, &look);
        number += 1;
        if rows.len() >= GROUP_ROWS {
            rows.with_values(|values| file.write_group(values))?;
            rows.clear();
        }
    }
    if rows.len() > 0 {
        rows.with_values(|values| file.write_group(values))?;
    }
    file.finish(serde_json::to_string(&meta).expect("metadata is plain data"))?;
    Ok(meta)
}

#[cold]
fn stream_error(path: &Path, looks: u64, error: std::io::Error) -> TraceError {
    if is_full(&error) {
        let kept = format!("of {looks} looks those of all whole batches are kept there, readable as they are");
        return TraceError::DiskFull { path: path.to_owned(), kept };
    }
    TraceError::io("write", path, error)
}
