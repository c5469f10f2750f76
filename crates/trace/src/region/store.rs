//! A region record of any supported format.

use std::fs::File;
use std::io::Read;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use super::companion::Companion;
use super::damo::input::is_zlib;
use super::damo::json_read::JsonRecords;
use super::damo::json_write;
use super::damo::trace_text::TraceText;
use super::edit::with_warnings;
use super::reader::{RegionReader, is_record};
use super::writer::RegionWriter;
use super::{Intervals, RecordMeta, Snapshot, Warning};
use crate::file::foreign::named;
use crate::{Result, TraceError};

/// Settings that a file may lack.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OpenOptions {
    /// Intervals of the monitor, used if the file lacks them (text of the kernel, some records of damo).
    pub intervals: Intervals,
}

/// Storage format of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordForm {
    /// isotherm's own format, finished (Parquet).
    Parquet,
    /// isotherm's own format, still being written or torn (Arrow IPC stream).
    ArrowStream,
    /// damo's format `json`.
    DamoJson,
    /// damo's `json_compressed`: the same in a zlib stream.
    DamoJsonCompressed,
    /// Text of `damon_aggregated` events: damo's `perf_script`, perf script, trace-cmd report, ftrace.
    TraceText,
}

impl RecordForm {
    /// Name in tables and on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Parquet => "parquet",
            Self::ArrowStream => "arrow-stream",
            Self::DamoJson => "json",
            Self::DamoJsonCompressed => "json_compressed",
            Self::TraceText => "perf_script",
        }
    }
}

/// Output format of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordFormat {
    /// isotherm's own, finished.
    Parquet,
    /// damo's format `json`.
    Json,
}

impl RecordFormat {
    /// The format with this name on the command line, which is also the file name ending.
    pub fn named(name: &str) -> Option<Self> {
        match name {
            "parquet" => Some(Self::Parquet),
            "json" => Some(Self::Json),
            _ => None,
        }
    }

    /// The format by the ending of a file's name.
    pub fn of(path: &Path) -> Option<Self> {
        Self::named(path.extension()?.to_str()?)
    }
}

/// A region record on disk, in any format: distinguished by content, and readable repeatedly with constant memory.
#[derive(Debug)]
pub struct RegionStore {
    path: PathBuf,
    form: RecordForm,
    meta: RecordMeta,
    warnings: Vec<Warning>,
    source: Source,
}

#[derive(Debug)]
enum Source {
    Own(Box<RegionReader>),
    Json(JsonRecords),
    Text(TraceText),
}

impl RegionStore {
    /// Opens a record. Foreign formats are read once completely, so that errors show here. Missing settings are taken from the
    /// `FILE.kdamonds` that damo writes next to its records, if it exists.
    ///
    /// # Errors
    /// The file cannot be read, has no known format or is damaged: with the place, and the allowed values.
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        Self::open_with(path, OpenOptions::default())
    }

    /// The same, with settings that the file may lack.
    ///
    /// # Errors
    /// As [`RegionStore::open`].
    pub fn open_with(path: impl AsRef<Path>, options: OpenOptions) -> Result<Self> {
        let path = path.as_ref();
        let head = read_head(path)?;
        let form = sniff(path, &head)?;
        let companion = if matches!(form, Form::Own) { Companion::default() } else { Companion::beside(path) };
        let intervals =
            if options.intervals == Intervals::default() { companion.intervals() } else { options.intervals };
        let (form, source, mut meta, mut warnings) = match form {
            Form::Own => {
                let reader = RegionReader::open(path)?;
                let meta = reader.meta().clone();
                let warnings = reader.cut_bytes().map(|cut_bytes| Warning::NotFinished { cut_bytes });
                let form = if reader.is_finished() { RecordForm::Parquet } else { RecordForm::ArrowStream };
                (form, Source::Own(Box::new(reader)), meta, warnings.into_iter().collect())
            }
            Form::Json { zlib } => {
                let (records, meta, warnings) = JsonRecords::open(path, zlib, intervals)?;
                let form = if zlib { RecordForm::DamoJsonCompressed } else { RecordForm::DamoJson };
                (form, Source::Json(records), meta, warnings)
            }
            Form::Text => {
                let (text, meta, warnings) = TraceText::open(path, intervals)?;
                (RecordForm::TraceText, Source::Text(text), meta, warnings)
            }
        };
        companion.complete(&mut meta);
        warnings.extend(companion.into_warning());
        Ok(Self { path: path.to_owned(), form, meta, warnings, source })
    }

    /// Complete metadata of the record: contexts, targets, counts.
    pub fn meta(&self) -> &RecordMeta {
        &self.meta
    }

    /// Warnings for the user in addition to the result.
    pub fn warnings(&self) -> &[Warning] {
        &self.warnings
    }

    /// Storage format of the record.
    pub fn form(&self) -> RecordForm {
        self.form
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Passes every snapshot to `each`, in the order of the file: snapshots of one target by time; targets one after the other or mixed,
    /// depending on the format. Starts again with each call.
    ///
    /// # Errors
    /// When the file is damaged or cannot be read; and what `each` returns.
    pub fn for_each<E: From<TraceError>>(&mut self, mut each: impl FnMut(&Snapshot) -> Result<(), E>) -> Result<(), E> {
        let mut failure = None;
        let mut guarded = |snapshot: &Snapshot| match each(snapshot) {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => {
                failure = Some(error);
                ControlFlow::Break(())
            }
        };
        match &mut self.source {
            Source::Json(records) => records.for_each(&mut guarded)?,
            Source::Text(text) => text.for_each(&mut guarded)?,
            Source::Own(reader) => {
                reader.rewind();
                let mut snapshot = Snapshot::default();
                while reader.next_snapshot(&mut snapshot)? {
                    if guarded(&snapshot).is_break() {
                        break;
                    }
                }
            }
        }
        failure.map_or(Ok(()), Err)
    }

    /// All snapshots at once: for small records and tests.
    ///
    /// # Errors
    /// As [`RegionStore::for_each`].
    pub fn read_all(&mut self) -> Result<Vec<Snapshot>> {
        let mut all = Vec::new();
        self.for_each(|snapshot| {
            all.push(snapshot.clone());
            Ok::<(), TraceError>(())
        })?;
        Ok(all)
    }

    /// Writes the record in another format. Returns warnings about lost data.
    ///
    /// # Errors
    /// When the record is damaged or holds data that the format cannot carry, or the output cannot be written. `output` is
    /// then untouched.
    pub fn write(&mut self, output: impl AsRef<Path>, format: RecordFormat) -> Result<Vec<Warning>> {
        if format == RecordFormat::Json {
            return json_write::write(self, output.as_ref());
        }
        let mut writer = RegionWriter::create_finished(output, with_warnings(self))?;
        self.for_each(|snapshot| writer.push(snapshot))?;
        writer.finish()?;
        Ok(Vec::new())
    }
}

enum Form {
    Own,
    Json { zlib: bool },
    Text,
}

fn read_head(path: &Path) -> Result<Vec<u8>> {
    let file = File::open(path).map_err(|error| TraceError::io("open", path, error))?;
    let found = file.metadata().map_err(|error| TraceError::io("read", path, error))?;
    if !found.is_file() {
        let found = "not a regular file; a record must be one, because it is read more than once".to_owned();
        return Err(TraceError::WrongFormat { path: path.to_owned(), expected: "a region record", found });
    }
    let mut head = Vec::new();
    file.take(4096).read_to_end(&mut head).map_err(|error| TraceError::io("read", path, error))?;
    Ok(head)
}

fn sniff(path: &Path, head: &[u8]) -> Result<Form> {
    let wrong = |found: &str| {
        let expected = "a region record (our own, damo's json, json_compressed or perf_script, damon_aggregated text)";
        Err(TraceError::WrongFormat { path: path.to_owned(), expected, found: found.to_owned() })
    };
    if is_record(head) {
        return Ok(Form::Own);
    }
    if is_zlib(head) {
        return Ok(Form::Json { zlib: true });
    }
    if let Some(found) = named(head) {
        return wrong(found);
    }
    match head {
        [] => return wrong("it is empty. Make one with `isotherm monitor`"),
        [0x28, 0xb5, 0x2f, 0xfd, ..] => return wrong("compressed with zstd as a whole. Unpack it first: zstd -d"),
        _ if head.starts_with(b"ARROW1") => return wrong("an Arrow IPC file (Feather), not a stream"),
        _ => {}
    }
    match head.iter().find(|byte| !byte.is_ascii_whitespace()) {
        Some(b'[' | b'{') => Ok(Form::Json { zlib: false }),
        _ if head.iter().any(|&byte| byte < 9) => wrong("binary data of no known kind"),
        _ => Ok(Form::Text),
    }
}
