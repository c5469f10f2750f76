//! Writes a finished trace: row groups of bounded size to a temporary beside the target, put in place by one rename.

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

use super::footer::{COLUMNS, META_KEY};
use crate::{Result, RowBatch, TraceError, TraceMeta};

/// Rows a row group: bounds the memory of writers (25 bytes a row).
const GROUP_ROWS: usize = 1 << 20;
/// Rows a page: bounds the memory of readers, and keeps a page in a core's cache.
const PAGE_ROWS: usize = 1 << 16;

/// A Parquet file in the making. Dropped unfinished, it removes its temporary.
pub(crate) struct ParquetSink {
    target: PathBuf,
    temporary: PathBuf,
    writer: Option<SerializedFileWriter<Witness>>,
    failure: Arc<Mutex<Option<std::io::Error>>>,
    rows: u64,
    accesses: u64,
    time_ns: Vec<i64>,
    thread: Vec<i32>,
    page: Vec<i64>,
    pages: Vec<i32>,
    write: Vec<bool>,
}

impl std::fmt::Debug for ParquetSink {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "ParquetSink({}, {} rows)", self.temporary.display(), self.rows)
    }
}

/// The file below; keeps the system's own error, which the Parquet writer may turn into text.
struct Witness {
    file: File,
    failure: Arc<Mutex<Option<std::io::Error>>>,
}

impl Write for Witness {
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

/// A name beside `target` that no other writer of this process's time uses.
pub(crate) fn temporary_beside(target: &Path, suffix: &str) -> PathBuf {
    let mut name = std::ffi::OsString::from(".");
    name.push(target.file_name().unwrap_or_default());
    name.push(format!(".{}.{suffix}", std::process::id()));
    target.with_file_name(name)
}

/// Whether the system said that there is no room.
pub(crate) fn is_full(error: &std::io::Error) -> bool {
    use std::io::ErrorKind;
    matches!(error.kind(), ErrorKind::StorageFull | ErrorKind::QuotaExceeded | ErrorKind::FileTooLarge)
}

impl ParquetSink {
    pub(crate) fn create(target: &Path) -> Result<Self> {
        let temporary = temporary_beside(target, "finishing");
        let file = File::create(&temporary).map_err(|error| TraceError::io("create", &temporary, error))?;
        let failure = Arc::new(Mutex::new(None));
        let witness = Witness { file, failure: Arc::clone(&failure) };
        let writer = SerializedFileWriter::new(witness, schema(), Arc::new(properties()));
        let mut sink = Self {
            target: target.to_owned(),
            temporary,
            writer: None,
            failure,
            rows: 0,
            accesses: 0,
            time_ns: Vec::new(),
            thread: Vec::new(),
            page: Vec::new(),
            pages: Vec::new(),
            write: Vec::new(),
        };
        sink.writer = Some(writer.map_err(|error| sink.failed(&error))?);
        Ok(sink)
    }

    pub(crate) fn rows(&self) -> u64 {
        self.rows
    }

    /// Appends rows, which the caller has checked.
    pub(crate) fn push_batch(&mut self, batch: &RowBatch) -> Result<()> {
        self.time_ns.extend(batch.time_ns.iter().map(|value| value.cast_signed()));
        self.thread.extend(batch.thread.iter().map(|value| value.cast_signed()));
        self.page.extend(batch.page.iter().map(|value| value.cast_signed()));
        self.pages.extend(batch.pages.iter().map(|value| value.cast_signed()));
        self.write.extend_from_slice(&batch.write);
        self.rows += batch.len() as u64;
        self.accesses += batch.accesses();
        if self.page.len() >= GROUP_ROWS { self.write_group() } else { Ok(()) }
    }

    fn write_group(&mut self) -> Result<()> {
        if self.page.is_empty() {
            return Ok(());
        }
        self.try_write_group().map_err(|error| self.failed(&error))?;
        self.time_ns.clear();
        self.thread.clear();
        self.page.clear();
        self.pages.clear();
        self.write.clear();
        Ok(())
    }

    fn try_write_group(&mut self) -> Result<(), ParquetError> {
        let writer = self.writer.as_mut().expect("present until finished");
        let mut group = writer.next_row_group()?;
        let mut column = 0;
        while let Some(mut values) = group.next_column()? {
            match COLUMNS[column] {
                "time_ns" => values.typed::<Int64Type>().write_batch(&self.time_ns, None, None)?,
                "thread" => values.typed::<Int32Type>().write_batch(&self.thread, None, None)?,
                "page" => values.typed::<Int64Type>().write_batch(&self.page, None, None)?,
                "pages" => values.typed::<Int32Type>().write_batch(&self.pages, None, None)?,
                _ => values.typed::<BoolType>().write_batch(&self.write, None, None)?,
            };
            values.close()?;
            column += 1;
        }
        group.close()?;
        Ok(())
    }

    /// Writes what is left and the metadata, and puts the file in place. `meta` as written is handed back.
    pub(crate) fn finish(mut self, mut meta: TraceMeta) -> Result<TraceMeta> {
        self.write_group()?;
        meta.rows = self.rows;
        meta.accesses = self.accesses;
        let json = serde_json::to_string(&meta).expect("metadata is plain data");
        let mut writer = self.writer.take().expect("present until finished");
        writer.append_key_value_metadata(KeyValue::new(META_KEY.to_owned(), json));
        let witness = writer.into_inner().map_err(|error| self.failed(&error))?;
        witness.file.sync_all().map_err(|error| self.io_failed(error))?;
        std::fs::rename(&self.temporary, &self.target)
            .map_err(|error| TraceError::io("replace", &self.target, error))?;
        Ok(meta)
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
        TraceError::io("write", &self.temporary, error)
    }
}

impl Drop for ParquetSink {
    fn drop(&mut self) {
        // After `finish` the temporary has been renamed and there is nothing to remove.
        let _ = std::fs::remove_file(&self.temporary);
    }
}

fn schema() -> Arc<SchemaType> {
    let fields = COLUMNS.map(|name| {
        let (physical, unsigned_bits) = match name {
            "time_ns" | "page" => (Type::INT64, Some(64)),
            "write" => (Type::BOOLEAN, None),
            _ => (Type::INT32, Some(32)),
        };
        let logical = unsigned_bits.map(|bit_width| parquet::basic::LogicalType::integer(bit_width, false));
        let field = SchemaType::primitive_type_builder(name, physical)
            .with_repetition(Repetition::REQUIRED)
            .with_logical_type(logical)
            .build();
        Arc::new(field.expect("a plain column"))
    });
    let root = SchemaType::group_type_builder("trace").with_fields(fields.to_vec()).build();
    Arc::new(root.expect("a flat schema"))
}

fn properties() -> WriterProperties {
    let mut builder = WriterProperties::builder()
        .set_writer_version(WriterVersion::PARQUET_2_0)
        .set_created_by(concat!("isotherm ", env!("CARGO_PKG_VERSION")).to_owned())
        .set_compression(Compression::ZSTD(ZstdLevel::try_new(ZSTD_LEVEL).expect("an allowed level")))
        .set_dictionary_enabled(false)
        .set_statistics_enabled(EnabledStatistics::Chunk)
        .set_offset_index_disabled(true)
        .set_data_page_row_count_limit(PAGE_ROWS)
        .set_write_batch_size(PAGE_ROWS / 16)
        // Bits that compress by less than a tenth are stored as they are: they decode several times faster.
        .set_data_page_v2_compression_ratio_threshold(0.9);
    for name in COLUMNS {
        let encoding = if name == "write" { Encoding::RLE } else { Encoding::DELTA_BINARY_PACKED };
        builder = builder.set_column_encoding(ColumnPath::from(name), encoding);
    }
    builder.build()
}

const ZSTD_LEVEL: i32 = 3;
