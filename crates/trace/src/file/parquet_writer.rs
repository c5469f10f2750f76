//! Writes the rows of a finished trace, a row group at a time.

use std::path::Path;

use super::parquet_file::{GROUP_ROWS, ParquetFile, Values};
use super::table::TRACE;
use crate::{Result, RowBatch, TraceMeta};

/// The rows of an unfinished row group: 26 bytes a row.
#[derive(Debug)]
pub(crate) struct ParquetSink {
    file: ParquetFile,
    rows: u64,
    accesses: u64,
    time_ns: Vec<i64>,
    thread: Vec<i32>,
    page: Vec<i64>,
    pages: Vec<i32>,
    write: Vec<bool>,
    kernel: Vec<bool>,
}

impl ParquetSink {
    pub(crate) fn create(target: &Path) -> Result<Self> {
        Ok(Self {
            file: ParquetFile::create(target, &TRACE)?,
            rows: 0,
            accesses: 0,
            time_ns: Vec::new(),
            thread: Vec::new(),
            page: Vec::new(),
            pages: Vec::new(),
            write: Vec::new(),
            kernel: Vec::new(),
        })
    }

    pub(crate) fn rows(&self) -> u64 {
        self.rows
    }

    /// Appends rows, which the caller has checked.
    pub(crate) fn push_batch(&mut self, batch: &RowBatch) -> Result<()> {
        if self.page.is_empty() {
            // Allocates the whole group at once: doubling would take twice as much for the last batch. Unused memory is never resident.
            let room = GROUP_ROWS + batch.len();
            self.time_ns.reserve_exact(room);
            self.thread.reserve_exact(room);
            self.page.reserve_exact(room);
            self.pages.reserve_exact(room);
            self.write.reserve_exact(room);
            self.kernel.reserve_exact(room);
        }
        self.time_ns.extend(batch.time_ns.iter().map(|value| value.cast_signed()));
        self.thread.extend(batch.thread.iter().map(|value| value.cast_signed()));
        self.page.extend(batch.page.iter().map(|value| value.cast_signed()));
        self.pages.extend(batch.pages.iter().map(|value| value.cast_signed()));
        self.write.extend_from_slice(&batch.write);
        self.kernel.extend_from_slice(&batch.kernel);
        self.rows += batch.len() as u64;
        self.accesses += batch.accesses();
        if self.page.len() >= GROUP_ROWS { self.write_group() } else { Ok(()) }
    }

    fn write_group(&mut self) -> Result<()> {
        if self.page.is_empty() {
            return Ok(());
        }
        self.file.write_group(&[
            Values::U64(&self.time_ns),
            Values::U32(&self.thread),
            Values::U64(&self.page),
            Values::U32(&self.pages),
            Values::Bool(&self.write),
            Values::Bool(&self.kernel),
        ])?;
        self.time_ns.clear();
        self.thread.clear();
        self.page.clear();
        self.pages.clear();
        self.write.clear();
        self.kernel.clear();
        Ok(())
    }

    /// Writes the rest and the metadata, and puts the file in place. Returns `meta` as written.
    pub(crate) fn finish(mut self, mut meta: TraceMeta) -> Result<TraceMeta> {
        self.write_group()?;
        meta.rows = self.rows;
        meta.accesses = self.accesses;
        let json = serde_json::to_string(&meta).expect("metadata is plain data");
        self.file.finish(json)?;
        Ok(meta)
    }
}
