//! The formats that records are written in. One file a format, one line in [`RECORD_FORMATS`].

use std::path::Path;

use super::damo::{json_write, perf_write};
use super::edit::with_warnings;
use super::writer::RegionWriter;
use super::{RegionStore, Warning};
use crate::{Result, TraceError};

/// A format that region records can be written in.
#[derive(Clone, Copy, Debug)]
pub struct RecordFormat {
    /// Its name on the command line; damo's own for damo's formats.
    pub name: &'static str,
    /// One line for help.
    pub about: &'static str,
    /// Endings of file names that mean this format.
    pub endings: &'static [&'static str],
    /// Writes the whole record, and returns what the format cannot carry.
    pub write: fn(&mut RegionStore, &Path) -> Result<Vec<Warning>>,
}

/// Every format, ours first.
pub const RECORD_FORMATS: &[RecordFormat] = &[
    RecordFormat {
        name: "parquet",
        about: "a finished region record of isotherm (Parquet)",
        endings: &[".parquet"],
        write: write_own,
    },
    json_write::JSON_COMPRESSED,
    json_write::JSON,
    perf_write::PERF_SCRIPT,
];

/// Finds a format by its name.
///
/// # Errors
/// When there is none of that name; lists all names.
pub fn record_format(name: &str) -> Result<&'static RecordFormat> {
    RECORD_FORMATS.iter().find(|format| format.name == name).ok_or_else(|| {
        let names: Vec<_> = RECORD_FORMATS.iter().map(|format| format.name).collect();
        TraceError::option("to", format!("there is no record format `{name}`; allowed: {}", names.join(", ")))
    })
}

/// Finds a format by the ending of a file's name.
pub fn record_format_of(path: &Path) -> Option<&'static RecordFormat> {
    let name = path.file_name()?.to_str()?;
    RECORD_FORMATS.iter().find(|format| format.endings.iter().any(|ending| name.ends_with(ending)))
}

fn write_own(store: &mut RegionStore, output: &Path) -> Result<Vec<Warning>> {
    let mut writer = RegionWriter::create_finished(output, with_warnings(store))?;
    store.for_each(|snapshot| writer.push(snapshot))?;
    writer.finish()?;
    Ok(Vec::new())
}
