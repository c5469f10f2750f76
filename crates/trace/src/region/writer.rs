//! Writes a region record.

use std::fs::File;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::columns::{RECORD, Rows};
use super::meta::SnapshotStats;
use super::reader::RegionReader;
use super::snapshot::flaw;
use super::{ContextMeta, RecordMeta, Snapshot, TargetMeta};
use crate::file::ipc_file::IpcFile;
use crate::file::parquet_file::{GROUP_ROWS, ParquetFile, is_full};
use crate::file::temporary::create_private;
use crate::{Result, TraceError};

/// Rows and notes in a batch of the stream.
const STREAM_BATCH_ROWS: usize = 1 << 16;

/// Contents of a non-null `event` cell of the stream.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Note {
    Context(Box<ContextMeta>),
    Target(Box<TargetMeta>),
    Stats(SnapshotStats),
    Remark(String),
    Outcome { complete: bool },
}

impl Note {
    pub(crate) fn apply(self, meta: &mut RecordMeta) {
        match self {
            Self::Context(context) => meta.contexts.push(*context),
            Self::Target(target) => meta.targets.push(*target),
            Self::Stats(stats) => meta.stats.push(stats),
            Self::Remark(remark) => meta.notes.push(remark),
            Self::Outcome { complete } => meta.complete = complete,
        }
    }
}

/// Writes a region record: an Arrow IPC stream while it grows, turned into Parquet by [`RegionWriter::finish`].
#[derive(Debug)]
pub struct RegionWriter {
    path: PathBuf,
    meta: RecordMeta,
    /// Latest time of each target.
    times_ns: Vec<u64>,
    /// Carries the number of the next snapshot.
    scratch: Snapshot,
    rows: Rows,
    sink: Sink,
}

#[derive(Debug)]
enum Sink {
    /// For recordings: written data survive a crash of the recorder.
    Stream { file: Box<IpcFile<File>>, notes: Vec<Option<String>> },
    /// For conversions, which can be repeated: no second pass.
    Finished(Box<ParquetFile>),
}

impl RegionWriter {
    /// Starts a recording at `path` (replacing a file that is there). `meta`: metadata known at the start.
    ///
    /// # Errors
    /// When `meta` contradicts itself, or the file cannot be made.
    pub fn create(path: impl AsRef<Path>, meta: RecordMeta) -> Result<Self> {
        let path = path.as_ref();
        let meta = fresh(path, meta)?;
        let file = create_private(path).map_err(|error| TraceError::io("create", path, error))?;
        let json = serde_json::to_string(&meta).expect("metadata is plain data");
        let file = IpcFile::create(file, &RECORD, json).map_err(|error| stream_error(path, 0, error))?;
        Ok(Self::with(path, meta, Sink::Stream { file: Box::new(file), notes: Vec::new() }))
    }

    /// Starts a record that becomes Parquet at once: for conversions. `path` is touched only by [`RegionWriter::finish`].
    ///
    /// # Errors
    /// When `meta` contradicts itself, or a temporary file next to `path` cannot be made.
    pub fn create_finished(path: impl AsRef<Path>, meta: RecordMeta) -> Result<Self> {
        let path = path.as_ref();
        let meta = fresh(path, meta)?;
        Ok(Self::with(path, meta, Sink::Finished(Box::new(ParquetFile::create(path, &RECORD)?))))
    }

    fn with(path: &Path, meta: RecordMeta, sink: Sink) -> Self {
        let times_ns = vec![0; meta.targets.len()];
        Self { path: path.to_owned(), meta, times_ns, scratch: Snapshot::default(), rows: Rows::default(), sink }
    }

    /// Metadata so far; snapshots and regions count pushed ones.
    pub fn meta(&self) -> &RecordMeta {
        &self.meta
    }

    /// Declares a context; returns its index in [`RecordMeta::contexts`].
    ///
    /// # Errors
    /// The context contradicts itself, or the file cannot be written.
    pub fn add_context(&mut self, context: ContextMeta) -> Result<usize> {
        self.meta.contexts.push(context.clone());
        self.check_meta()?;
        self.note_in_stream(&Note::Context(Box::new(context)))?;
        Ok(self.meta.contexts.len() - 1)
    }

    /// Declares a target; returns its index in [`RecordMeta::targets`].
    ///
    /// # Errors
    /// When its context is not declared, or the file cannot be written.
    pub fn add_target(&mut self, target: TargetMeta) -> Result<u32> {
        let number = u32::try_from(self.meta.targets.len());
        let number = number.map_err(|_| self.bad("there are 2^32 targets already".to_owned()))?;
        self.meta.targets.push(target.clone());
        self.check_meta()?;
        self.times_ns.push(0);
        self.note_in_stream(&Note::Target(Box::new(target)))?;
        Ok(number)
    }

    fn check_meta(&self) -> Result<()> {
        self.meta.flaw().map_or(Ok(()), |flaw| Err(self.bad(flaw)))
    }

    #[cold]
    fn bad(&self, what: String) -> TraceError {
        TraceError::bad_value(&self.path, "snapshot", self.meta.snapshots, what)
    }

    /// Appends a snapshot, and assigns its number.
    ///
    /// # Errors
    /// The snapshot is not allowed ([`Snapshot`]), or the file cannot be written.
    pub fn push(&mut self, snapshot: &Snapshot) -> Result<()> {
        let Some(latest_ns) = self.times_ns.get_mut(snapshot.target as usize) else {
            let count = self.times_ns.len();
            return Err(self.bad(format!("target {} is not among the {count} declared", snapshot.target)));
        };
        if snapshot.time_ns < *latest_ns {
            let latest_ns = *latest_ns;
            return Err(self.bad(format!(
                "it ends at {} ns, before the one of the same target at {latest_ns} ns; time may not go back",
                snapshot.time_ns
            )));
        }
        *latest_ns = snapshot.time_ns;
        if let Some(flaw) = flaw(&snapshot.regions) {
            return Err(self.bad(flaw));
        }
        let number = self.meta.snapshots;
        self.meta.snapshots += 1;
        self.meta.regions += snapshot.regions.len() as u64;
        self.scratch.clone_from(snapshot);
        self.scratch.number = number;
        let rows_before = self.rows.len();
        self.rows.push(&self.scratch);
        let rows_now = self.rows.len();
        if let Sink::Stream { notes, .. } = &mut self.sink {
            notes.resize(rows_now, None);
        }
        debug_assert!(rows_now > rows_before, "a snapshot has at least one row");
        if let Some(stats) = snapshot.stats {
            let stats = SnapshotStats { snapshot: number, stats };
            self.meta.stats.push(stats);
            self.note_in_stream(&Note::Stats(stats))?;
        }
        self.spill()
    }

    /// Sets whether the recording saw its end.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn set_outcome(&mut self, complete: bool) -> Result<()> {
        self.meta.complete = complete;
        self.note_in_stream(&Note::Outcome { complete })
    }

    /// Adds to [`RecordMeta::notes`].
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn note(&mut self, remark: impl Into<String>) -> Result<()> {
        let remark = remark.into();
        self.meta.notes.push(remark.clone());
        self.note_in_stream(&Note::Remark(remark))
    }

    fn note_in_stream(&mut self, note: &Note) -> Result<()> {
        let Sink::Stream { notes, .. } = &mut self.sink else { return Ok(()) };
        self.rows.push_blank();
        notes.push(Some(serde_json::to_string(note).expect("notes are plain data")));
        self.spill()
    }

    /// Writes a batch or a row group once there are enough rows.
    fn spill(&mut self) -> Result<()> {
        match &mut self.sink {
            Sink::Stream { .. } if self.rows.len() >= STREAM_BATCH_ROWS => self.flush(),
            Sink::Finished(file) if self.rows.len() >= GROUP_ROWS => {
                self.rows.with_values(|values| file.write_group(values))?;
                self.rows.clear();
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Writes all snapshots to the system as a whole batch: after this, killing the process loses none of them. Call it
    /// about once a second; each call makes a separate batch.
    ///
    /// # Errors
    /// When the file cannot be written. On a full disk the file keeps all earlier batches.
    pub fn flush(&mut self) -> Result<()> {
        let Sink::Stream { file, notes } = &mut self.sink else { return Ok(()) };
        if self.rows.len() == 0 {
            return Ok(());
        }
        let written = file.write(self.rows.take_arrays(), std::mem::take(notes).into());
        written.map_err(|error| stream_error(&self.path, self.meta.snapshots, error))
    }

    /// Makes the finished Parquet file and replaces the stream by it in one step. Returns its metadata.
    ///
    /// # Errors
    /// The file cannot be written: a stream stays in place, readable.
    pub fn finish(mut self) -> Result<RecordMeta> {
        self.flush()?;
        match self.sink {
            Sink::Stream { mut file, .. } => {
                file.close().map_err(|error| stream_error(&self.path, self.meta.snapshots, error))?;
                drop(file);
                finish_record(&self.path)
            }
            Sink::Finished(mut file) => {
                if self.rows.len() > 0 {
                    self.rows.with_values(|values| file.write_group(values))?;
                }
                file.finish(serde_json::to_string(&self.meta).expect("metadata is plain data"))?;
                Ok(self.meta)
            }
        }
    }
}

fn fresh(path: &Path, mut meta: RecordMeta) -> Result<RecordMeta> {
    (meta.snapshots, meta.regions) = (0, 0);
    meta.stats.clear();
    meta.flaw().map_or(Ok(meta), |flaw| Err(TraceError::bad_value(path, "snapshot", 0, flaw)))
}

/// Turns an Arrow IPC stream into the finished Parquet file at the same path, in one step: also for a torn recording,
/// whose whole batches are all kept. Does nothing to a finished file.
///
/// # Errors
/// The file cannot be read or written; it stays as it was.
pub fn finish_record(path: impl AsRef<Path>) -> Result<RecordMeta> {
    let path = path.as_ref();
    let mut reader = RegionReader::open(path)?;
    if reader.is_finished() {
        return Ok(reader.meta().clone());
    }
    let done = (|| {
        let mut writer = RegionWriter::create_finished(path, reader.meta().clone())?;
        let mut snapshot = Snapshot::default();
        while reader.next_snapshot(&mut snapshot)? {
            writer.push(&snapshot)?;
        }
        writer.finish()
    })();
    done.map_err(|error| match error {
        TraceError::DiskFull { path, .. } => {
            let kept = format!("its {} snapshots stay there as an Arrow IPC stream, readable", reader.meta().snapshots);
            TraceError::DiskFull { path, kept }
        }
        error => error,
    })
}

#[cold]
fn stream_error(path: &Path, snapshots: u64, error: std::io::Error) -> TraceError {
    if is_full(&error) {
        let kept = format!("of {snapshots} snapshots those of all whole batches are kept there, readable as they are");
        return TraceError::DiskFull { path: path.to_owned(), kept };
    }
    TraceError::io("write", path, error)
}
