//! Exports traces to formats of other programs. Each format is one file, and one line in [`EXPORTERS`].

mod csv;
mod native;
mod oracle_general;

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use crate::analysis::{TraceStep, walk};
use crate::file::parquet_file::is_full;
use crate::file::temporary::Temporary;
use crate::{Result, TraceError, TraceReader};

/// Options of the exporters.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExportOptions {
    /// csv only: one line an access with the columns `time,obj_id,obj_size,op`, as libCacheSim reads with
    /// `time-col=1,obj-id-col=2,obj-size-col=3,has-header=1`, instead of one line a row with our columns.
    pub per_access: bool,
}

/// A foreign format that traces can be exported to.
#[derive(Clone, Copy, Debug)]
pub struct Exporter {
    /// Name on the command line.
    pub name: &'static str,
    /// One line of help.
    pub about: &'static str,
    /// File name endings of this format; the longest match decides.
    pub endings: &'static [&'static str],
    /// Writes the whole trace to `output`.
    pub convert: fn(&mut TraceReader, output: &Path, &ExportOptions) -> Result<()>,
}

/// All exporters, in the order of help texts.
pub const EXPORTERS: &[Exporter] = &[oracle_general::EXPORTER, csv::EXPORTER, native::EXPORTER];

/// Finds an exporter by its name.
///
/// # Errors
/// When there is none of that name; lists all names.
pub fn exporter(name: &str) -> Result<&'static Exporter> {
    EXPORTERS.iter().find(|exporter| exporter.name == name).ok_or_else(|| {
        let names: Vec<_> = EXPORTERS.iter().map(|exporter| exporter.name).collect();
        TraceError::option("to", format!("there is no format `{name}`; allowed: {}", names.join(", ")))
    })
}

/// Writes the trace at `input` to `output`. `to`: name of the exporter; `None`: chosen by the ending of `output`'s name. A
/// name that ends in `.zst` is compressed with zstd. `output` is put in place in one step when all is written.
///
/// # Errors
/// When the input is no trace, the format is unknown, or the output cannot be written.
pub fn export(to: Option<&str>, input: &Path, output: &Path, options: &ExportOptions) -> Result<()> {
    let exporter = match to {
        Some(name) => exporter(name)?,
        None => by_ending(output)?,
    };
    let mut reader = TraceReader::open(input)?;
    (exporter.convert)(&mut reader, output, options)
}

fn by_ending(output: &Path) -> Result<&'static Exporter> {
    let name = output.file_name().unwrap_or_default().to_string_lossy().to_lowercase();
    let plain = name.strip_suffix(".zst").unwrap_or(&name);
    let fits = |exporter: &&Exporter| exporter.endings.iter().any(|ending| plain.ends_with(ending));
    EXPORTERS.iter().find(fits).ok_or_else(|| {
        let names: Vec<_> = EXPORTERS.iter().map(|exporter| exporter.name).collect();
        let what = format!("the ending of {} says no format; say it: {}", output.display(), names.join(", "));
        TraceError::option("to", what)
    })
}

/// The number by which other programs know a page: the page number itself in the first process, the process's index in the
/// bits above 2^52 in others. Processes beyond 4096 cannot be distinguished.
pub(crate) fn object_id(process: usize, page: u64) -> u64 {
    (process as u64) << 52 | page
}

pub(crate) fn check_processes(reader: &TraceReader) -> Result<()> {
    if reader.meta().processes.len() > 4096 {
        let what = "more than 4096 processes do not fit into object ids".to_owned();
        return Err(TraceError::Unsupported { path: reader.path().to_owned(), what });
    }
    Ok(())
}

/// An unfinished file, next to its target; renamed when done, removed if dropped before.
pub(crate) struct Output {
    target: PathBuf,
    temporary: Temporary,
    sink: Option<Sink>,
}

enum Sink {
    Plain(BufWriter<File>),
    Zstd(Box<zstd::stream::write::Encoder<'static, BufWriter<File>>>),
}

impl Output {
    pub(crate) fn create(target: &Path) -> Result<Self> {
        let temporary = Temporary::beside(target, "exporting");
        let failed = |error| TraceError::io("create", temporary.path(), error);
        let file = BufWriter::with_capacity(1 << 18, temporary.create().map_err(failed)?);
        let sink = if target.extension().is_some_and(|extension| extension == "zst") {
            Sink::Zstd(Box::new(zstd::stream::write::Encoder::new(file, 3).map_err(failed)?))
        } else {
            Sink::Plain(file)
        };
        Ok(Self { target: target.to_owned(), temporary, sink: Some(sink) })
    }

    pub(crate) fn write(&mut self, bytes: &[u8]) -> Result<()> {
        let written = match self.sink.as_mut().expect("present until finished") {
            Sink::Plain(file) => file.write_all(bytes),
            Sink::Zstd(encoder) => encoder.write_all(bytes),
        };
        written.map_err(|error| write_error(&self.target, error))
    }

    pub(crate) fn finish(mut self) -> Result<()> {
        let flushed = match self.sink.take().expect("present until finished") {
            Sink::Plain(mut file) => file.flush(),
            Sink::Zstd(encoder) => encoder.finish().and_then(|mut file| file.flush()),
        };
        flushed.map_err(|error| write_error(&self.target, error))?;
        self.temporary.put_in_place(&self.target)
    }
}

#[cold]
pub(crate) fn write_error(target: &Path, error: std::io::Error) -> TraceError {
    if is_full(&error) {
        let kept = "what was written of the export was removed, the trace is untouched".to_owned();
        return TraceError::DiskFull { path: target.to_owned(), kept };
    }
    TraceError::io("write", target, error)
}

/// Calls `each` for every access (page) of the trace in file order: process, page, written, trace time in nanoseconds.
pub(crate) fn for_each_access(
    reader: &mut TraceReader,
    mut each: impl FnMut(usize, u64, bool, u64) -> Result<()>,
) -> Result<()> {
    walk(reader, |step| {
        let TraceStep::Rows(rows) = step else { return Ok(()) };
        rows.ranges().zip(rows.write()).try_for_each(|((start, end), &write)| {
            (start..end).try_for_each(|page| each(rows.process, page, write, rows.time_ns))
        })
    })
    .map(|_| ())
}
