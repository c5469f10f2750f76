//! Reading a trace, whatever form it is in.

use std::path::{Path, PathBuf};

use crate::{Result, RowBatch, TraceError, TraceMeta};

/// A trace on disk, read in batches with constant memory.
#[derive(Debug)]
pub struct TraceReader {
    path: PathBuf,
    meta: TraceMeta,
}

impl TraceReader {
    /// Opens a trace: finished (Parquet), being written or torn (Arrow IPC stream); told apart by content.
    ///
    /// Reads what the metadata says; of an unfinished file all batches once, for its events and its length.
    ///
    /// # Errors
    /// When it cannot be read, is no trace, or is damaged. A torn Arrow IPC stream is not an error: it opens up to its
    /// last whole batch, with [`TraceMeta::complete`] = `false`.
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        Err(TraceError::Unsupported { path: path.to_owned(), what: "not yet".into() })
    }

    /// What the trace says about itself, complete: events, row and access counts included.
    pub fn meta(&self) -> &TraceMeta {
        &self.meta
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Length of the file in bytes.
    pub fn file_bytes(&self) -> u64 {
        0
    }

    /// Replaces the contents of `batch` with the next rows, up to [`crate::BATCH_ROWS`]. `false`: no rows are left, `batch` is empty.
    ///
    /// # Errors
    /// When the file is damaged or cannot be read.
    pub fn next_batch(&mut self, batch: &mut RowBatch) -> Result<bool> {
        batch.clear();
        Ok(false)
    }

    /// Goes back to the first row.
    ///
    /// # Errors
    /// When the file cannot be read any more.
    pub fn rewind(&mut self) -> Result<()> {
        Ok(())
    }
}
