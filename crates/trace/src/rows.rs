//! Input of analyses: a whole trace, or a part of one.

use std::path::Path;

use crate::{Result, RowBatch, TraceMeta, TraceReader};

/// Rows with their metadata: a trace, or [a part of one](crate::edit::TracePart).
///
/// Analyses make one call for each batch, so that their loops over rows are compiled in this crate and not in the caller's.
pub trait TraceRows {
    /// Metadata of the rows, including events (sorted by row), row and access counts.
    fn meta(&self) -> &TraceMeta;
    /// The file that the rows come from.
    fn path(&self) -> &Path;
    /// Length of that file in bytes.
    fn file_bytes(&self) -> u64;
    /// Accesses of the whole file, if the rows are a part of it; `None`: the rows are the whole file.
    fn file_accesses(&self) -> Option<u64>;
    /// Reads all rows from the first on, batch by batch, and starts again with each call.
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
