//! Writes a finished file: row groups go to a temporary file next to the target, which is then renamed into place.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use parquet::basic::{Compression, Encoding, Repetition, Type, ZstdLevel};
use parquet::data_type::{BoolType, Int32Type, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::{EnabledStatistics, WriterProperties, WriterVersion};
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::{ColumnPath, Type as SchemaType};

use super::footer::META_KEY;
use super::table::{Column, Kind, Table};
use super::temporary::Temporary;
use crate::{Result, TraceError};

/// Rows in a row group: bounds the memory of writers.
pub(crate) const GROUP_ROWS: usize = 1 << 20;
/// Rows in a page: bounds the memory of readers, and keeps a page in a core's cache.
const PAGE_ROWS: usize = 1 << 16;
const ZSTD_LEVEL: i32 = 3;

/// The values of one column of a row group.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Values<'a> {
    U64(&'a [i64]),
    U32(&'a [i32]),
    Bool(&'a [bool]),
}

/// An unfinished Parquet file. Dropping it unfinished removes its temporary file.
pub(crate) struct ParquetFile {
    target: PathBuf,
    temporary: Temporary,
    writer: Option<SerializedFileWriter<ErrorKeeping>>,
    failure: Arc<Mutex<Option<std::io::Error>>>,
}

impl std::fmt::Debug for ParquetFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "ParquetFile({})", self.temporary.path().display())
    }
}

/// The underlying file; keeps the system's own error, which the Parquet writer may convert to text.
struct ErrorKeeping {
    file: File,
    failure: Arc<Mutex<Option<std::io::Error>>>,
}

impl Write for ErrorKeeping {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.file.write(bytes).inspect_err(|error| {
            let copy = error.raw_os_error().map_or_else(|| error.kind().into(), std::io::Error::from_raw_os_error);
            *self.failure.lock().unwrap_or_else(PoisonError::into_inner) = Some(copy);
        })
    }
    fn flush(&mut self) -> std::io::Result<()> {
        self.file.flush()
    }
}

/// Whether the error means that the disk is full.
pub(crate) fn is_full(error: &std::io::Error) -> bool {
    use std::io::ErrorKind;
    matches!(error.kind(), ErrorKind::StorageFull | ErrorKind::QuotaExceeded | ErrorKind::FileTooLarge)
}

impl ParquetFile {
    pub(crate) fn create(target: &Path, table: &Table) -> Result<Self> {
        let temporary = Temporary::beside(target, "finishing");
        let failed = |what, error| TraceError::io(what, temporary.path(), error);
        let file = temporary.create().map_err(|error| failed("create", error))?;
        let failure = Arc::new(Mutex::new(None));
        let file = ErrorKeeping { file, failure: Arc::clone(&failure) };
        let writer = SerializedFileWriter::new(file, schema(table), Arc::new(properties(table)));
        let mut sink = Self { target: target.to_owned(), temporary, writer: None, failure };
        sink.writer = Some(writer.map_err(|error| sink.failed(&error))?);
        Ok(sink)
    }

    /// Writes one row group; `columns` in the order of the table.
    pub(crate) fn write_group(&mut self, columns: &[Values<'_>]) -> Result<()> {
        let writer = self.writer.as_mut().expect("present until finished");
        write_group(writer, columns).map_err(|error| self.failed(&error))
    }

    /// Writes the metadata and puts the file in place.
    pub(crate) fn finish(mut self, json: String) -> Result<()> {
        let mut writer = self.writer.take().expect("present until finished");
        writer.append_key_value_metadata(KeyValue::new(META_KEY.to_owned(), json));
        let file = writer.into_inner().map_err(|error| self.failed(&error))?;
        file.file.sync_all().map_err(|error| self.io_failed(error))?;
        self.temporary.put_in_place(&self.target)
    }

    #[cold]
    fn failed(&self, error: &ParquetError) -> TraceError {
        let failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner).take();
        self.io_failed(failure.unwrap_or_else(|| std::io::Error::other(error.to_string())))
    }

    #[cold]
    fn io_failed(&self, error: std::io::Error) -> TraceError {
        if is_full(&error) {
            let kept = "the unfinished Parquet file was removed".to_owned();
            return TraceError::DiskFull { path: self.target.clone(), kept };
        }
        TraceError::io("write", self.temporary.path(), error)
    }
}

fn write_group(writer: &mut SerializedFileWriter<ErrorKeeping>, columns: &[Values<'_>]) -> Result<(), ParquetError> {
    let mut group = writer.next_row_group()?;
    let mut columns = columns.iter();
    while let Some(mut values) = group.next_column()? {
        match columns.next().expect("a slice of values for each column") {
            Values::U64(column) => values.typed::<Int64Type>().write_batch(column, None, None)?,
            Values::U32(column) => values.typed::<Int32Type>().write_batch(column, None, None)?,
            Values::Bool(column) => values.typed::<BoolType>().write_batch(column, None, None)?,
        };
        values.close()?;
    }
    group.close()?;
    Ok(())
}

fn schema(table: &Table) -> Arc<SchemaType> {
    let field = |column: &Column| {
        let (physical, unsigned_bits) = match column.kind {
            Kind::U64 => (Type::INT64, Some(64)),
            Kind::U32 => (Type::INT32, Some(32)),
            Kind::Bool => (Type::BOOLEAN, None),
        };
        let logical = unsigned_bits.map(|bit_width| parquet::basic::LogicalType::integer(bit_width, false));
        let field = SchemaType::primitive_type_builder(column.name, physical)
            .with_repetition(Repetition::REQUIRED)
            .with_logical_type(logical)
            .build();
        Arc::new(field.expect("a plain column"))
    };
    let root = SchemaType::group_type_builder(table.root).with_fields(table.columns.iter().map(field).collect());
    Arc::new(root.build().expect("a flat schema"))
}

fn properties(table: &Table) -> WriterProperties {
    let mut builder = WriterProperties::builder()
        .set_writer_version(WriterVersion::PARQUET_2_0)
        .set_created_by(concat!("isotherm ", env!("CARGO_PKG_VERSION")).to_owned())
        .set_compression(Compression::ZSTD(ZstdLevel::try_new(ZSTD_LEVEL).expect("an allowed level")))
        .set_dictionary_enabled(false)
        .set_statistics_enabled(EnabledStatistics::Chunk)
        .set_offset_index_disabled(true)
        .set_data_page_row_count_limit(PAGE_ROWS)
        .set_write_batch_size(PAGE_ROWS / 16)
        // Bits that compress by less than a tenth are stored uncompressed: they decode several times faster.
        .set_data_page_v2_compression_ratio_threshold(0.9);
    for column in table.columns {
        let encoding = if column.kind == Kind::Bool { Encoding::RLE } else { Encoding::DELTA_BINARY_PACKED };
        builder = builder.set_column_encoding(ColumnPath::from(column.name), encoding);
    }
    builder.build()
}

#[cfg(test)]
mod tests {
    use crate::group::{GroupMeta, GroupWriter};
    use crate::region::{RecordMeta, RegionWriter};
    use crate::{TraceMeta, TraceWriter};
    use std::fs::{Permissions, metadata, set_permissions};
    use std::os::unix::fs::PermissionsExt as _;

    #[test]
    fn recordings_are_their_owners_alone_from_the_first_byte_to_the_last() {
        let folder = tempfile::tempdir().unwrap();
        let paths = ["t", "r", "g"].map(|name| folder.path().join(name));
        let are_private = || paths.iter().all(|path| metadata(path).unwrap().permissions().mode() & 0o777 == 0o600);
        std::fs::write(&paths[1], "old").unwrap();
        set_permissions(&paths[1], Permissions::from_mode(0o664)).unwrap();
        let trace = TraceWriter::create(&paths[0], TraceMeta::single("x")).unwrap();
        let record = RegionWriter::create(&paths[1], RecordMeta::single("vaddr", "x")).unwrap();
        let group = GroupWriter::create(&paths[2], GroupMeta::default()).unwrap();
        assert!(are_private(), "while they are written");
        trace.finish().unwrap();
        record.finish().unwrap();
        group.finish().unwrap();
        assert!(are_private(), "finished");
        // So is what a conversion makes of one, also where others could read the file that it replaces.
        set_permissions(&paths[0], Permissions::from_mode(0o644)).unwrap();
        TraceWriter::create_finished(&paths[0], TraceMeta::single("x")).unwrap().finish().unwrap();
        assert!(are_private(), "replaced");
    }
}
