//! What analyses read: a whole trace, or a part of one.

use std::path::Path;

use crate::{Result, RowBatch, TraceMeta, TraceReader};

/// Rows with what is said about them: a trace, or [a part of one](crate::edit::TracePart).
///
/// Analyses take any of them by a call a batch, so that their loops over rows are compiled here and not in the crate that asks.
pub trait TraceRows {
    /// What is said about the rows: events (sorted by row), row and access counts included.
    fn meta(&self) -> &TraceMeta;
    /// The file that the rows come from.
    fn path(&self) -> &Path;
    /// Length of that file in bytes.
    fn file_bytes(&self) -> u64;
    /// Accesses of the whole file, where the rows are a part of it; `None`: the rows are all that the file has.
    fn file_accesses(&self) -> Option<u64>;
    /// Reads all rows from the first on, batch by batch, and starts anew with each call.
    ///
    /// # Errors
    /// When the file is damaged or cannot be read; and what `each` returns.
    fn for_each_batch(&mut self, each: &mut dyn FnMut(&RowBatch) -> Result<()>) -> Result<()>;
}

impl TraceRows for TraceReader {
    fn meta(&self) -> &TraceMeta {
        Self::meta(self)
    }
    fn path(&self) -> &Path {
        Self::path(self)
    }
    fn file_bytes(&self) -> u64 {
        Self::file_bytes(self)
    }
    fn file_accesses(&self) -> Option<u64> {
        None
    }
    fn for_each_batch(&mut self, each: &mut dyn FnMut(&RowBatch) -> Result<()>) -> Result<()> {
        Self::for_each_batch(self, each)
    }
}
