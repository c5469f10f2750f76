//! A table in either form: finished (Parquet), being written or torn (Arrow IPC stream); distinguished by content.

use std::path::Path;

use super::Source;
use super::footer::{Footer, META_KEY, is_parquet};
use super::ipc_stream::{IpcTable, is_ipc};
use super::parquet_reader::ParquetTable;
use super::table::Table;
use crate::reader::describe;
use crate::{Result, TraceError};

/// An opened file.
#[derive(Debug)]
pub(crate) enum Container {
    Parquet(Box<ParquetTable>),
    Ipc(Box<IpcTable>),
}

impl Container {
    /// Opens the file at `path`, which must have the columns of `table`, and returns its metadata too. `when_empty` ends the
    /// sentence about an empty file.
    pub(crate) fn open(path: &Path, table: &'static Table, when_empty: &str) -> Result<(Self, String)> {
        let source = Source::open(path)?;
        let head = source.head()?;
        let wrong = |found: String| TraceError::WrongFormat { path: source.path.clone(), expected: table.what, found };
        if head.is_empty() {
            return Err(wrong(format!("it is empty{when_empty}")));
        }
        if is_parquet(&head) {
            let mut footer = Footer::read(&source, table)?;
            let Some(json) = footer.meta_json.take() else {
                return Err(wrong(format!(
                    "Parquet without the metadata key `{META_KEY}` (lost when it was rewritten?)"
                )));
            };
            Ok((Self::Parquet(Box::new(ParquetTable::new(source, footer, table))), json))
        } else if is_ipc(&head) {
            let (stream, json) = IpcTable::open(source, table)?;
            Ok((Self::Ipc(Box::new(stream)), json))
        } else {
            Err(wrong(describe(&head)))
        }
    }

    pub(crate) fn source(&self) -> &Source {
        match self {
            Self::Parquet(table) => table.source(),
            Self::Ipc(table) => table.source(),
        }
    }

    /// Whether the file is finished.
    pub(crate) fn is_finished(&self) -> bool {
        matches!(self, Self::Parquet(_))
    }
}
