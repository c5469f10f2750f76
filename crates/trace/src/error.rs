//! Errors of traces, whose messages name the file, the place and the way out.

use std::path::{Path, PathBuf};

/// Result of everything in this crate that touches a file.
pub type Result<T, E = TraceError> = std::result::Result<T, E>;

/// A trace cannot be read or written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TraceError {
    /// The operating system refused the operation.
    #[error("cannot {action} {}", path.display())]
    Io {
        /// Operation: `open`, `read`, `write`, ….
        action: &'static str,
        path: PathBuf,
        source: std::io::Error,
    },
    /// The disk is full.
    #[error("disk full while writing {}: {kept}; free some space or write elsewhere with --output", path.display())]
    DiskFull {
        path: PathBuf,
        /// Remaining data, and their place.
        kept: String,
    },
    /// The file has 0 bytes.
    #[error("{} is empty: not a trace. Make one with `isotherm record` or `isotherm convert import`", path.display())]
    Empty { path: PathBuf },
    /// The file has an unexpected format.
    #[error("{} is not {expected}: {found}", path.display())]
    WrongFormat {
        path: PathBuf,
        /// Expected format, with the formats that are read.
        expected: &'static str,
        /// Format found, and the way out.
        found: String,
    },
    /// The contents of the file are damaged.
    #[error("{} is damaged at byte {offset}: {what}. Record or copy it again", path.display())]
    Damaged {
        path: PathBuf,
        /// About where, in bytes from the start.
        offset: u64,
        what: String,
    },
    /// A row or a line holds a value that is not allowed.
    #[error("{}, {place} {number}: {what}", path.display())]
    BadValue {
        path: PathBuf,
        /// Unit of `number`: `row`, `line` or `record`.
        place: &'static str,
        /// Number of the item: rows and records from 0, lines from 1.
        number: u64,
        /// The fault and the allowed values.
        what: String,
    },
    /// The file was written by a later version.
    #[error("{} has trace format version {found}; this program reads up to {known}. Use a newer isotherm", path.display())]
    TooNew {
        path: PathBuf,
        /// Format version of the file.
        found: u32,
        /// Latest format version that this program reads.
        known: u32,
    },
    /// An option of an importer or exporter is wrong.
    #[error("option `{option}`: {what}")]
    Option {
        option: String,
        /// The fault and the allowed values.
        what: String,
    },
    /// The trace touches more pages than an analysis holds in memory.
    #[error(
        "{}, row {row}: with its {row_pages} pages the trace touches some {pages} pages; at most {pages_max} can be analysed of a file of this \
         length. Take a part of it: --from and --to, --range or --mapping; the miss-ratio curve also takes --sample",
        path.display()
    )]
    TooManyPages {
        path: PathBuf,
        /// Index of the row whose pages are too many, among the rows that are read.
        row: u64,
        /// Number of its pages.
        row_pages: u64,
        /// Distinct pages up to this row, in whole groups of pages where the analysis holds groups.
        pages: u64,
        /// Most pages.
        pages_max: u64,
    },
    /// The trace cannot support the request.
    #[error("{}: {what}", path.display())]
    Unsupported {
        path: PathBuf,
        /// The missing part, and the way out.
        what: String,
    },
}

impl TraceError {
    #[cold]
    pub(crate) fn io(action: &'static str, path: &Path, source: std::io::Error) -> Self {
        Self::Io { action, path: path.to_owned(), source }
    }
    #[cold]
    pub(crate) fn damaged(path: &Path, offset: u64, what: impl Into<String>) -> Self {
        Self::Damaged { path: path.to_owned(), offset, what: what.into() }
    }
    #[cold]
    pub(crate) fn bad_value(path: &Path, place: &'static str, number: u64, what: impl Into<String>) -> Self {
        Self::BadValue { path: path.to_owned(), place, number, what: what.into() }
    }
    #[cold]
    pub(crate) fn option(option: impl Into<String>, what: impl Into<String>) -> Self {
        Self::Option { option: option.into(), what: what.into() }
    }
}
