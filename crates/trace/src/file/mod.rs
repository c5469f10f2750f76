//! The formats of a trace and of a region record on disk: Parquet when finished, Arrow IPC stream while being
//! written.
//!
//! Both are read by our own small readers rather than by the general ones: they need integer columns only, decode
//! several times faster into plain vectors, and check every length before they trust it. Writing uses the general
//! crates, and tests read each form with both.

pub(crate) mod container;
pub(crate) mod decode;
pub(crate) mod footer;
pub(crate) mod foreign;
pub(crate) mod ipc_file;
pub(crate) mod ipc_reader;
pub(crate) mod ipc_stream;
pub(crate) mod ipc_writer;
pub(crate) mod pages;
pub(crate) mod parquet_file;
pub(crate) mod parquet_reader;
pub(crate) mod parquet_writer;
pub(crate) mod table;
pub(crate) mod temporary;
pub(crate) mod thrift;
pub(crate) mod unpack;

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use crate::{Result, TraceError};

/// A file for reads at given offsets, with its name for messages.
#[derive(Debug)]
pub(crate) struct Source {
    pub(crate) path: PathBuf,
    pub(crate) bytes: u64,
    file: File,
}

impl Source {
    pub(crate) fn open(path: &Path) -> Result<Self> {
        let file = File::open(path).map_err(|error| TraceError::io("open", path, error))?;
        let found = file.metadata().map_err(|error| TraceError::io("read", path, error))?;
        if !found.is_file() {
            let found = "not a regular file; a trace must be one, because it is read at several places".to_owned();
            return Err(TraceError::WrongFormat { path: path.to_owned(), expected: "a trace", found });
        }
        Ok(Self { path: path.to_owned(), bytes: found.len(), file })
    }

    /// The first bytes: [`foreign::HEAD_BYTES`], or all of a shorter file.
    pub(crate) fn head(&self) -> Result<Vec<u8>> {
        let mut head = Vec::new();
        let len = usize::try_from(self.bytes.min(foreign::HEAD_BYTES)).expect("a few hundred");
        self.read_at(0, len, &mut head)?;
        Ok(head)
    }

    /// Reads exactly `len` bytes at `offset` into `buffer`, replacing its contents.
    pub(crate) fn read_at(&self, offset: u64, len: usize, buffer: &mut Vec<u8>) -> Result<()> {
        if offset.checked_add(len as u64).is_none_or(|end| end > self.bytes) {
            return Err(self.damaged(offset, format!("{len} bytes are missing there: the file is cut off")));
        }
        buffer.clear();
        buffer.resize(len, 0);
        self.file.read_exact_at(buffer, offset).map_err(|error| TraceError::io("read", &self.path, error))
    }

    #[cold]
    pub(crate) fn damaged(&self, offset: u64, what: impl Into<String>) -> TraceError {
        TraceError::damaged(&self.path, offset, what)
    }
}
