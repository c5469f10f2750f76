//! Writes a trace that grows: an Arrow IPC stream, one whole batch at a time.
//!
//! Rows of accesses and notes (JSON in the column `event`) share one stream, so that their order is the file's order. A
//! batch reaches the system in one piece; when it does not fit, the file is cut back to the last whole one.

use std::collections::HashMap;
use std::fs::File;
use std::io::Write;
use std::sync::Arc;

use arrow_array::{ArrayRef, BooleanArray, RecordBatch, StringArray, UInt32Array, UInt64Array};
use arrow_ipc::CompressionType;
use arrow_ipc::writer::{IpcWriteOptions, StreamWriter};
use arrow_schema::{ArrowError, DataType, Field, Schema};
use serde::{Deserialize, Serialize};

use super::footer::{COLUMNS, META_KEY};
use crate::{Event, ProcessMeta, RowBatch, ThreadMeta, TraceMeta};

/// What a non-null `event` cell holds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Note {
    Event(Event),
    Process(ProcessMeta),
    Thread(ThreadMeta),
    Remark(String),
    Outcome { exit_code: Option<i32>, complete: bool },
}

/// Name of the column of notes.
pub(crate) const EVENT_COLUMN: &str = "event";

/// Where the stream goes: a file, or a stand-in that runs full.
pub(crate) trait Medium: Write + std::fmt::Debug {
    /// Cuts off everything from `bytes` on and continues there.
    fn cut_back(&mut self, bytes: u64) -> std::io::Result<()>;
}

impl Medium for File {
    fn cut_back(&mut self, bytes: u64) -> std::io::Result<()> {
        use std::io::{Seek, SeekFrom};
        self.set_len(bytes)?;
        self.seek(SeekFrom::Start(bytes)).map(|_| ())
    }
}

/// The stream. Holds the batch in the making.
pub(crate) struct IpcSink<M> {
    medium: M,
    /// Bytes of whole batches on the medium.
    whole_bytes: u64,
    encoder: StreamWriter<Vec<u8>>,
    pending: RowBatch,
    /// For each pending row its note, if it is one.
    notes: Vec<Option<String>>,
}

impl<M: std::fmt::Debug> std::fmt::Debug for IpcSink<M> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "IpcSink({:?}, {} bytes)", self.medium, self.whole_bytes)
    }
}

impl<M: Medium> IpcSink<M> {
    /// Starts the stream: the schema with `meta` goes out at once.
    pub(crate) fn create(medium: M, meta: &TraceMeta) -> std::io::Result<Self> {
        let json = serde_json::to_string(meta).expect("metadata is plain data");
        let metadata = HashMap::from([(META_KEY.to_owned(), json)]);
        let schema = Schema::new_with_metadata(fields(), metadata);
        let options = IpcWriteOptions::default().try_with_compression(Some(CompressionType::ZSTD));
        let options = options.and_then(|options| options.try_with_compression_level(Some(1)));
        let encoder = options.and_then(|options| StreamWriter::try_new_with_options(Vec::new(), &schema, options));
        let pending = RowBatch::new();
        let encoder = encoder.map_err(other)?;
        let mut sink = Self { medium, whole_bytes: 0, encoder, pending, notes: Vec::new() };
        sink.put()?;
        Ok(sink)
    }

    /// How many rows and notes wait for the next [`IpcSink::flush`].
    pub(crate) fn pending(&self) -> usize {
        self.pending.len()
    }

    pub(crate) fn push(&mut self, row: crate::Row) {
        self.pending.push(row);
        self.notes.push(None);
    }

    pub(crate) fn note(&mut self, note: &Note) {
        let (thread, time_ns) = if let Note::Event(event) = note { (event.thread, event.time_ns) } else { (0, 0) };
        self.pending.push(crate::Row { time_ns, thread, page: 0, pages: 0, write: false });
        self.notes.push(Some(serde_json::to_string(note).expect("notes are plain data")));
    }

    /// Hands everything pending to the medium as one whole batch.
    ///
    /// After an error the medium holds all batches before, and what was pending is gone.
    pub(crate) fn flush(&mut self) -> std::io::Result<()> {
        if self.pending.is_empty() {
            return Ok(());
        }
        let rows = std::mem::take(&mut self.pending);
        let columns: Vec<ArrayRef> = vec![
            Arc::new(UInt64Array::from(rows.time_ns)),
            Arc::new(UInt32Array::from(rows.thread)),
            Arc::new(UInt64Array::from(rows.page)),
            Arc::new(UInt32Array::from(rows.pages)),
            Arc::new(BooleanArray::from(rows.write)),
            Arc::new(StringArray::from(std::mem::take(&mut self.notes))),
        ];
        let batch = RecordBatch::try_new(Arc::new(Schema::new(fields())), columns).map_err(other)?;
        self.encoder.write(&batch).map_err(other)?;
        self.put()
    }

    /// Flushes and closes the stream.
    pub(crate) fn close(&mut self) -> std::io::Result<()> {
        self.flush()?;
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

fn fields() -> Vec<Field> {
    let kind = |name| match name {
        "time_ns" | "page" => DataType::UInt64,
        "write" => DataType::Boolean,
        _ => DataType::UInt32,
    };
    let mut fields: Vec<Field> = COLUMNS.into_iter().map(|name| Field::new(name, kind(name), false)).collect();
    fields.push(Field::new(EVENT_COLUMN, DataType::Utf8, true));
    fields
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A disk of `room` bytes.
    #[derive(Debug)]
    struct SmallDisk {
        bytes: Vec<u8>,
        room: usize,
    }

    impl Write for SmallDisk {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            let fits = bytes.len().min(self.room - self.bytes.len());
            if fits == 0 && !bytes.is_empty() {
                return Err(std::io::ErrorKind::StorageFull.into());
            }
            self.bytes.extend_from_slice(&bytes[..fits]);
            Ok(fits)
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    impl Medium for SmallDisk {
        fn cut_back(&mut self, bytes: u64) -> std::io::Result<()> {
            self.bytes.truncate(usize::try_from(bytes).expect("small"));
            Ok(())
        }
    }

    #[test]
    fn a_full_disk_keeps_all_whole_batches() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("t");
        let row = |index| crate::Row { time_ns: 0, thread: 0, page: index * 7919, pages: 1, write: false };
        let disk = SmallDisk { bytes: Vec::new(), room: 20_000 };
        let mut sink = IpcSink::create(disk, &TraceMeta::single("t")).unwrap();
        let mut written = 0;
        let error = loop {
            (written * 100..(written + 1) * 100).for_each(|index| sink.push(row(index)));
            match sink.flush() {
                Ok(()) => written += 1,
                Err(error) => break error,
            }
        };
        assert_eq!(error.kind(), std::io::ErrorKind::StorageFull);
        std::fs::write(&path, &sink.medium.bytes).unwrap();
        assert!(written > 2);
        assert_eq!(crate::TraceReader::open(&path).unwrap().meta().rows, written * 100);
    }
}
