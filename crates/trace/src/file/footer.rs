//! The footer of a Parquet file: its columns, the offsets of their pages, and our metadata.
//!
//! Source: Apache Parquet format 2.10, `parquet.thrift` (`FileMetaData`, `RowGroup`, `ColumnMetaData`).

use super::Source;
use super::table::{Kind, Table};
use super::thrift::{Struct, read_struct};
use crate::{Result, TraceError};

/// Key of our JSON in the file's key-value metadata.
pub(crate) const META_KEY: &str = "isotherm";

const MAGIC: &[u8; 4] = b"PAR1";

/// Encoding of a value in a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Physical {
    Boolean,
    Int32,
    Int64,
}

/// How pages are compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Codec {
    Uncompressed,
    Zstd,
}

/// The pages of one column in one row group.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Chunk {
    pub(crate) physical: Physical,
    /// Whether values may be absent; each page then starts with levels.
    pub(crate) optional: bool,
    pub(crate) codec: Codec,
    /// Range in the file, in bytes.
    pub(crate) start: u64,
    pub(crate) end: u64,
    /// Least and greatest value, if the file has exact ones; only of integers.
    pub(crate) values: Option<(u64, u64)>,
}

/// Rows whose columns are stored together.
#[derive(Clone, Debug)]
pub(crate) struct RowGroup {
    pub(crate) rows: u64,
    /// Chunks in the order of [`Table::columns`]; missing optional ones are left out.
    pub(crate) chunks: Vec<Chunk>,
}

/// Contents of the footer.
#[derive(Debug)]
pub(crate) struct Footer {
    pub(crate) rows: u64,
    pub(crate) row_groups: Vec<RowGroup>,
    /// Our metadata, if the file has it.
    pub(crate) meta_json: Option<String>,
}

/// Whether the file begins like Parquet.
pub(crate) fn is_parquet(head: &[u8]) -> bool {
    head.starts_with(MAGIC)
}

impl Footer {
    pub(crate) fn read(source: &Source, table: &Table) -> Result<Self> {
        let mut tail = Vec::new();
        if source.bytes < 12 {
            return Err(source.damaged(0, "it begins as Parquet but ends before its footer"));
        }
        source.read_at(source.bytes - 8, 8, &mut tail)?;
        if &tail[4..] != MAGIC {
            let what = "it begins as Parquet but does not end as such: it is cut off, and its index was at the end";
            return Err(source.damaged(source.bytes - 4, what));
        }
        let len = u32::from_le_bytes([tail[0], tail[1], tail[2], tail[3]]);
        let Some(start) = (source.bytes - 8).checked_sub(u64::from(len)).filter(|&start| start >= 4) else {
            return Err(source.damaged(source.bytes - 8, format!("a footer of {len} bytes does not fit in the file")));
        };
        let mut bytes = Vec::new();
        source.read_at(start, len as usize, &mut bytes)?;
        let (root, _) =
            read_struct(&bytes).map_err(|error| source.damaged(start, format!("footer unreadable ({error:?})")))?;
        Self::from_thrift(source, table, start, &root)
    }

    fn from_thrift(source: &Source, table: &Table, footer_start: u64, root: &Struct<'_>) -> Result<Self> {
        let damaged = |what: String| source.damaged(footer_start, what);
        let columns = find_columns(source, table, root)?;
        let mut row_groups = Vec::new();
        let mut rows_seen = 0u64;
        for group in root.structs(4) {
            let rows = group.int(3).and_then(|rows| u64::try_from(rows).ok());
            let rows = rows.ok_or_else(|| damaged("a row group without a row count".into()))?;
            rows_seen = rows_seen.checked_add(rows).ok_or_else(|| damaged("row counts overflow".into()))?;
            let chunks: Vec<&Struct<'_>> = group.structs(1).collect();
            let mut found = Vec::with_capacity(columns.len());
            for column in &columns {
                let chunk = chunks.get(column.index).and_then(|chunk| chunk.inner(3));
                let chunk =
                    chunk.ok_or_else(|| damaged(format!("column `{}` has no data in a row group", column.name)))?;
                found.push(read_chunk(source, table, footer_start, *column, rows, chunk)?);
            }
            row_groups.push(RowGroup { rows, chunks: found });
        }
        let rows = root.int(3).and_then(|rows| u64::try_from(rows).ok());
        if rows != Some(rows_seen) {
            return Err(damaged(format!("its row groups have {rows_seen} rows, the file claims {rows:?}")));
        }
        let entry = root.structs(5).find(|entry| entry.bytes(1) == Some(META_KEY.as_bytes()));
        let meta_json = match entry.and_then(|entry| entry.bytes(2)) {
            None => None,
            Some(json) => {
                Some(String::from_utf8(json.to_vec()).map_err(|_| damaged("its metadata is not UTF-8 text".into()))?)
            }
        };
        Ok(Self { rows: rows_seen, row_groups, meta_json })
    }
}

#[derive(Clone, Copy)]
struct Found {
    name: &'static str,
    /// Index among the file's leaf columns.
    index: usize,
    physical: Physical,
    optional: bool,
}

fn find_columns(source: &Source, table: &Table, root: &Struct<'_>) -> Result<Vec<Found>> {
    let leaves: Vec<&Struct<'_>> = root.structs(2).filter(|element| element.int(1).is_some()).collect();
    let wrong = |found: String| TraceError::WrongFormat {
        path: source.path.clone(),
        expected: table.what,
        found: format!("{found}. Its columns must be {}; other Parquet files are not read", table.names().join(", ")),
    };
    let find = |column: &super::table::Column| {
        let name = column.name;
        let index = leaves.iter().position(|leaf| leaf.bytes(4) == Some(name.as_bytes()));
        if index.is_none() && column.optional {
            return Ok(None);
        }
        let index = index.ok_or_else(|| wrong(format!("Parquet without a column `{name}`")))?;
        let physical = match leaves[index].int(1) {
            Some(0) if column.kind == Kind::Bool => Physical::Boolean,
            Some(1) if column.kind != Kind::Bool => Physical::Int32,
            Some(2) if column.kind != Kind::Bool => Physical::Int64,
            other => return Err(wrong(format!("column `{name}` has Parquet type {other:?}"))),
        };
        let optional = match leaves[index].int(3) {
            Some(0) | None => false,
            Some(1) => true,
            _ => return Err(wrong(format!("column `{name}` holds lists"))),
        };
        Ok(Some(Found { name, index, physical, optional }))
    };
    table.columns.iter().filter_map(|column| find(column).transpose()).collect()
}

fn read_chunk(
    source: &Source,
    table: &Table,
    footer_start: u64,
    column: Found,
    rows: u64,
    chunk: &Struct<'_>,
) -> Result<Chunk> {
    let name = column.name;
    let damaged = |what: &str| source.damaged(footer_start, format!("column `{name}`: {what}"));
    let codec = match chunk.int(4) {
        Some(0) => Codec::Uncompressed,
        Some(6) => Codec::Zstd,
        other => {
            let name_of = [(1, "snappy"), (2, "gzip"), (4, "brotli"), (5, "lz4"), (7, "lz4_raw")];
            let found = name_of.iter().find(|(code, _)| Some(*code) == other).map_or("unknown", |(_, name)| name);
            return Err(TraceError::WrongFormat {
                path: source.path.clone(),
                expected: table.what,
                found: format!(
                    "its column `{name}` is compressed with {found}; zstd or none is read. Write it again with compression zstd"
                ),
            });
        }
    };
    let offset = |id| chunk.int(id).and_then(|value| u64::try_from(value).ok());
    if offset(5) != Some(rows) {
        return Err(damaged("its value count differs from the row count"));
    }
    let data = offset(9).ok_or_else(|| damaged("no offset of its data"))?;
    let start = offset(11).filter(|&dictionary| dictionary > 0).map_or(data, |dictionary| dictionary.min(data));
    let len = offset(7).ok_or_else(|| damaged("no length of its data"))?;
    let end = start.checked_add(len).filter(|&end| start >= 4 && end <= footer_start);
    let end = end.ok_or_else(|| damaged("its data lie outside the file"))?;
    let values = chunk.inner(12).and_then(|statistics| value_range(column.physical, statistics));
    Ok(Chunk { physical: column.physical, optional: column.optional, codec, start, end, values })
}

/// Least and greatest value of a column of unsigned integers. Older fields, whose order of large values was not defined, are not read.
fn value_range(physical: Physical, statistics: &Struct<'_>) -> Option<(u64, u64)> {
    let value = |id| match (physical, statistics.bytes(id)?) {
        (Physical::Int64, bytes) => Some(u64::from_le_bytes(bytes.try_into().ok()?)),
        (Physical::Int32, bytes) => Some(u64::from(u32::from_le_bytes(bytes.try_into().ok()?))),
        (Physical::Boolean, _) => None,
    };
    let (greatest, least) = (value(5)?, value(6)?);
    (least <= greatest).then_some((least, greatest))
}
