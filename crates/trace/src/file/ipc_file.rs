//! Writes a file that grows: an Arrow IPC stream, one whole batch at a time.
//!
//! Rows and notes (JSON in the column `event`) share one stream, so that their order is the file's order. A batch is
//! written in one piece; if it does not fit, the file is truncated to the last whole one.

use std::collections::HashMap;
use std::fs::File;
use std::io::Write;
use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch, StringArray};
use arrow_ipc::CompressionType;
use arrow_ipc::writer::{IpcWriteOptions, StreamWriter};
use arrow_schema::{ArrowError, DataType, Field, Schema};

use super::footer::META_KEY;
use super::table::{Kind, Table};

/// Half the CPU time of level 1, with page traces of the same size: 3.4 bytes a row of scattered pages.
const ZSTD_LEVEL: i32 = -1;

/// Name of the column of notes.
pub(crate) const EVENT_COLUMN: &str = "event";

/// Output of the stream: a file, or a test double that runs full.
pub(crate) trait Medium: Write + std::fmt::Debug {
    /// Truncates to `bytes`, and continues there.
    fn cut_back(&mut self, bytes: u64) -> std::io::Result<()>;
}

impl Medium for File {
    fn cut_back(&mut self, bytes: u64) -> std::io::Result<()> {
        use std::io::{Seek, SeekFrom};
        self.set_len(bytes)?;
        self.seek(SeekFrom::Start(bytes)).map(|_| ())
    }
}

/// The stream.
pub(crate) struct IpcFile<M> {
    medium: M,
    /// Bytes of whole batches on the medium.
    whole_bytes: u64,
    encoder: StreamWriter<Vec<u8>>,
    table: &'static Table,
}

impl<M: std::fmt::Debug> std::fmt::Debug for IpcFile<M> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "IpcFile({:?}, {} bytes)", self.medium, self.whole_bytes)
    }
}

impl<M: Medium> IpcFile<M> {
    /// Starts the stream: the schema with the metadata `json` is written at once.
    pub(crate) fn create(medium: M, table: &'static Table, json: String) -> std::io::Result<Self> {
        let metadata = HashMap::from([(META_KEY.to_owned(), json)]);
        let schema = Schema::new_with_metadata(fields(table), metadata);
        let options = IpcWriteOptions::default().try_with_compression(Some(CompressionType::ZSTD));
        let options = options.and_then(|options| options.try_with_compression_level(Some(ZSTD_LEVEL)));
        let encoder = options.and_then(|options| StreamWriter::try_new_with_options(Vec::new(), &schema, options));
        let encoder = encoder.map_err(other)?;
        let mut file = Self { medium, whole_bytes: 0, encoder, table };
        file.put()?;
        Ok(file)
    }

    /// Writes the columns, and for each row its note if it is one, to the medium as one whole batch.
    ///
    /// After an error the medium holds all earlier batches.
    pub(crate) fn write(&mut self, mut columns: Vec<ArrayRef>, notes: StringArray) -> std::io::Result<()> {
        columns.push(Arc::new(notes));
        let batch = RecordBatch::try_new(Arc::new(Schema::new(fields(self.table))), columns).map_err(other)?;
        self.encoder.write(&batch).map_err(other)?;
        self.put()
    }

    /// Closes the stream.
    pub(crate) fn close(&mut self) -> std::io::Result<()> {
        self.encoder.finish().map_err(other)?;
        self.put()
    }

    fn put(&mut self) -> std::io::Result<()> {
        let bytes = std::mem::take(self.encoder.get_mut());
        let written = self.medium.write_all(&bytes).and_then(|()| self.medium.flush());
        if let Err(error) = written {
            self.medium.cut_back(self.whole_bytes)?;
            return Err(error);
        }
        self.whole_bytes += bytes.len() as u64;
        *self.encoder.get_mut() = bytes;
        self.encoder.get_mut().clear();
        Ok(())
    }
}

fn other(error: ArrowError) -> std::io::Error {
    match error {
        ArrowError::IoError(_, error) => error,
        error => std::io::Error::other(error.to_string()),
    }
}

fn fields(table: &Table) -> Vec<Field> {
    let kind = |kind| match kind {
        Kind::U64 => DataType::UInt64,
        Kind::U32 => DataType::UInt32,
        Kind::Bool => DataType::Boolean,
    };
    let mut fields: Vec<Field> =
        table.columns.iter().map(|column| Field::new(column.name, kind(column.kind), false)).collect();
    fields.push(Field::new(EVENT_COLUMN, DataType::Utf8, true));
    fields
}

#[cfg(test)]
impl<M> IpcFile<M> {
    pub(crate) fn medium(&self) -> &M {
        &self.medium
    }

    pub(crate) fn into_medium(self) -> M {
        self.medium
    }
}
