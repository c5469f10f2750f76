//! Only for the fuzzing harness: the JSON metadata of the three kinds of files, without the container.

use std::path::Path;

use crate::Result;
use crate::file::parquet_file::ParquetFile;
use crate::file::table::{TRACE, Table};
use crate::group::columns::GROUP;
use crate::region::columns::RECORD;

/// A kind of file.
#[derive(Clone, Copy, Debug)]
pub enum Kind {
    Trace,
    Regions,
    Group,
}

/// Writes a Parquet file with this metadata and no rows.
///
/// # Errors
/// The file cannot be written.
pub fn write_with_metadata(path: &Path, kind: Kind, json: &str) -> Result<()> {
    let table: &Table = match kind {
        Kind::Trace => &TRACE,
        Kind::Regions => &RECORD,
        Kind::Group => &GROUP,
    };
    ParquetFile::create(path, table)?.finish(json.to_owned())
}
