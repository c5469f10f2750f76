//! Our own finished form: an unfinished or torn trace becomes Parquet, and a finished one is written
//! again.

use std::path::Path;

use super::{ExportOptions, Exporter};
use crate::{Result, TraceReader, TraceWriter};

pub(super) const EXPORTER: Exporter =
    Exporter { name: "parquet", about: "a finished trace of isotherm (Parquet)", endings: &[".parquet"], convert };

fn convert(reader: &mut TraceReader, output: &Path, _: &ExportOptions) -> Result<()> {
    let mut writer = TraceWriter::create_finished(output, reader.meta().clone())?;
    reader.for_each_batch(|batch| writer.push_batch(batch))?;
    writer.finish().map(|_| ())
}
