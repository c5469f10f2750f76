//! Writes a trace that grows: rows of accesses and notes, collected into batches of an Arrow IPC stream.

use std::sync::Arc;

use arrow_array::{ArrayRef, BooleanArray, UInt32Array, UInt64Array};
use serde::{Deserialize, Serialize};

use super::ipc_file::{IpcFile, Medium};
use super::table::TRACE;
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

/// The stream. Holds the batch in the making.
#[derive(Debug)]
pub(crate) struct IpcSink<M> {
    file: IpcFile<M>,
    pending: RowBatch,
    /// For each pending row its note, if it is one.
    notes: Vec<Option<String>>,
}

impl<M: Medium> IpcSink<M> {
    /// Starts the stream: the schema with `meta` goes out at once.
    pub(crate) fn create(medium: M, meta: &TraceMeta) -> std::io::Result<Self> {
        let json = serde_json::to_string(meta).expect("metadata is plain data");
        let file = IpcFile::create(medium, &TRACE, json)?;
        Ok(Self { file, pending: RowBatch::new(), notes: Vec::new() })
    }

    /// How many rows and notes wait for the next [`IpcSink::flush`].
    pub(crate) fn pending(&self) -> usize {
        self.pending.len()
    }

    pub(crate) fn push(&mut self, row: crate::TraceRow) {
        self.pending.push(row);
        self.notes.push(None);
    }

    pub(crate) fn note(&mut self, note: &Note) {
        let (thread, time_ns) = if let Note::Event(event) = note { (event.thread, event.time_ns) } else { (0, 0) };
        self.pending.push(crate::TraceRow { time_ns, thread, page: 0, pages: 0, write: false, kernel: false });
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
            Arc::new(BooleanArray::from(rows.kernel)),
        ];
        self.file.write(columns, std::mem::take(&mut self.notes))
    }

    /// Flushes and closes the stream.
    pub(crate) fn close(&mut self) -> std::io::Result<()> {
        self.flush()?;
        self.file.close()
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

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
        let row = |index| crate::TraceRow {
            time_ns: 0,
            thread: 0,
            page: index * 7919,
            pages: 1,
            write: false,
            kernel: false,
        };
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
        std::fs::write(&path, &sink.file.medium().bytes).unwrap();
        assert!(written > 2);
        assert_eq!(crate::TraceReader::open(&path).unwrap().meta().rows, written * 100);
    }
}
