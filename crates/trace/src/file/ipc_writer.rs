//! Writes a trace that grows: rows of accesses and notes, collected into batches of an Arrow IPC stream.

use std::sync::Arc;

use arrow_array::{ArrayRef, BooleanArray, StringArray, UInt32Array, UInt64Array};
use arrow_buffer::{BooleanBuffer, Buffer, NullBuffer, OffsetBuffer};
use serde::{Deserialize, Serialize};

use super::ipc_file::{IpcFile, Medium};
use super::table::TRACE;
use crate::{Event, ProcessMeta, RowBatch, ThreadMeta, TraceMeta};

/// Contents of a non-null `event` cell.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Note {
    Event(Event),
    Process(ProcessMeta),
    Thread(ThreadMeta),
    Remark(String),
    Outcome { exit_code: Option<i32>, complete: bool },
}

/// The stream. Holds the unfinished batch.
#[derive(Debug)]
pub(crate) struct IpcSink<M> {
    file: IpcFile<M>,
    pending: RowBatch,
    /// Notes among the pending rows, with their positions.
    notes: Vec<(usize, String)>,
}

impl<M: Medium> IpcSink<M> {
    /// Starts the stream: the schema with `meta` is written at once.
    pub(crate) fn create(medium: M, meta: &TraceMeta) -> std::io::Result<Self> {
        let json = serde_json::to_string(meta).expect("metadata is plain data");
        let file = IpcFile::create(medium, &TRACE, json)?;
        Ok(Self { file, pending: RowBatch::new(), notes: Vec::new() })
    }

    /// Number of rows and notes that wait for the next [`IpcSink::flush`].
    pub(crate) fn pending(&self) -> usize {
        self.pending.len()
    }

    pub(crate) fn push(&mut self, row: crate::TraceRow) {
        self.pending.push(row);
    }

    /// Appends the touches of `thread` in one epoch.
    pub(crate) fn extend(&mut self, time_ns: u64, thread: u32, runs: &[crate::PageRun]) {
        self.pending.extend(time_ns, thread, runs);
    }

    pub(crate) fn note(&mut self, note: &Note) {
        let (thread, time_ns) = if let Note::Event(event) = note { (event.thread, event.time_ns) } else { (0, 0) };
        self.notes.push((self.pending.len(), serde_json::to_string(note).expect("notes are plain data")));
        self.pending.push(crate::TraceRow { time_ns, thread, page: 0, pages: 0, write: false, kernel: false });
    }

    /// Writes everything pending to the medium as one whole batch.
    ///
    /// After an error the medium holds all earlier batches, and pending rows are lost.
    pub(crate) fn flush(&mut self) -> std::io::Result<()> {
        if self.pending.is_empty() {
            return Ok(());
        }
        let rows = std::mem::take(&mut self.pending);
        let notes = notes_column(rows.len(), &std::mem::take(&mut self.notes));
        let columns: Vec<ArrayRef> = vec![
            Arc::new(UInt64Array::from(rows.time_ns)),
            Arc::new(UInt32Array::from(rows.thread)),
            Arc::new(UInt64Array::from(rows.page)),
            Arc::new(UInt32Array::from(rows.pages)),
            Arc::new(BooleanArray::new(bits(&rows.write), None)),
            Arc::new(BooleanArray::new(bits(&rows.kernel), None)),
        ];
        self.file.write(columns, notes)
    }

    /// Flushes and closes the stream.
    pub(crate) fn close(&mut self) -> std::io::Result<()> {
        self.flush()?;
        self.file.close()
    }
}

/// The column of notes of a batch of `rows` rows. Nearly all rows have no notes, so each such row only costs a copy.
fn notes_column(rows: usize, notes: &[(usize, String)]) -> StringArray {
    if notes.is_empty() {
        return StringArray::new_null(rows);
    }
    let (mut offsets, mut text, mut is_note) =
        (Vec::with_capacity(rows + 1), String::new(), vec![0u8; rows.div_ceil(8)]);
    for (place, note) in notes {
        // A row's text starts at the end of the previous row's text.
        offsets.resize(place + 1, i32::try_from(text.len()).expect("a batch of notes is short"));
        text.push_str(note);
        is_note[place / 8] |= 1 << (place % 8);
    }
    offsets.resize(rows + 1, i32::try_from(text.len()).expect("a batch of notes is short"));
    let is_note = NullBuffer::new(BooleanBuffer::new(Buffer::from_vec(is_note), 0, rows));
    StringArray::new(OffsetBuffer::new(offsets.into()), Buffer::from_vec(text.into_bytes()), Some(is_note))
}

/// A bit for each value, the first one lowest.
fn bits(values: &[bool]) -> BooleanBuffer {
    let (whole, rest) = values.as_chunks::<8>();
    let pack = |values: &[bool]| values.iter().rev().fold(0u8, |byte, &value| byte << 1 | u8::from(value));
    let mut bytes: Vec<u8> = whole.iter().map(|eight| pack(eight)).collect();
    bytes.extend((!rest.is_empty()).then(|| pack(rest)));
    BooleanBuffer::new(Buffer::from_vec(bytes), 0, values.len())
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

    #[test]
    fn a_disk_that_is_full_at_any_byte_keeps_all_whole_batches() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("t");
        // A note among a few rows. Returns the number of whole rows, and the disk.
        let write = |room: usize| -> Option<(u64, SmallDisk)> {
            let disk = SmallDisk { bytes: Vec::new(), room };
            let mut sink = IpcSink::create(disk, &TraceMeta::single("t")).ok()?;
            let mut whole = 0;
            for batch in 0..3u64 {
                let run = |index: u64| crate::PageRun {
                    page: batch * 100 + index * 7919,
                    pages: 1,
                    write: index == 2,
                    kernel: index == 3,
                };
                sink.extend(batch, 0, &(0..9).map(run).collect::<Vec<_>>());
                sink.note(&Note::Remark(format!("batch {batch}")));
                match sink.flush() {
                    Ok(()) => whole += 9,
                    Err(_) => return Some((whole, sink.file.into_medium())),
                }
            }
            let _ = sink.close();
            Some((whole, sink.file.into_medium()))
        };
        let (_, disk) = write(1 << 20).expect("there is room");
        let bytes = disk.bytes.len();
        let mut seen = std::collections::BTreeSet::new();
        for room in 0..=bytes {
            let Some((whole, disk)) = write(room) else {
                seen.insert(None);
                continue;
            };
            std::fs::write(&path, &disk.bytes).unwrap();
            let reader = crate::TraceReader::open(&path).unwrap_or_else(|error| panic!("{room} of {bytes}: {error}"));
            let notes = reader.meta().notes.iter().filter(|note| note.starts_with("batch")).count() as u64;
            assert_eq!((reader.meta().rows, notes), (whole, whole / 9), "{room} of {bytes}");
            seen.insert(Some(whole));
        }
        assert_eq!(seen, [None, Some(0), Some(9), Some(18), Some(27)].into());
    }
}
