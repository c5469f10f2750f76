//! What can go wrong on a live machine, in words that say what to do.

use std::io;
use std::path::{Path, PathBuf};

/// Why something could not be seen or done.
#[derive(Debug, thiserror::Error)]
pub enum LiveError {
    /// The kernel refused to read or write a file.
    #[error("cannot {what} {}: {source}", path.display())]
    Io {
        /// `read`, `write`, `open`.
        what: &'static str,
        path: PathBuf,
        source: io::Error,
    },
    /// A file says something that no known kernel writes.
    #[error("{} holds {found}, which is not understood; it comes from a kernel that isotherm does not know", path.display())]
    Strange {
        path: PathBuf,
        /// What stands there, shortened.
        found: String,
    },
    /// This machine has no such thing.
    #[error("{what}: {needs}")]
    NotHere {
        /// What was wanted.
        what: &'static str,
        /// What it would take, in words.
        needs: String,
    },
    /// Somebody else uses it.
    #[error("{what} is in use by {by}; {way_out}")]
    Busy {
        /// What was wanted.
        what: &'static str,
        /// Who has it.
        by: String,
        /// What would free it.
        way_out: String,
    },
    /// The target has ended, or is another program now.
    #[error("{0}")]
    Gone(String),
    /// The target cannot be watched, ever: a kernel thread, for example.
    #[error("{0}")]
    Refused(String),
}

impl LiveError {
    pub(crate) fn io(what: &'static str, path: &Path, source: io::Error) -> Self {
        Self::Io { what, path: path.to_owned(), source }
    }

    pub(crate) fn strange(path: impl Into<PathBuf>, found: String) -> Self {
        Self::Strange { path: path.into(), found }
    }

    /// Whether a file was not there.
    pub fn is_missing(&self) -> bool {
        matches!(self, Self::Io { source, .. } if source.kind() == io::ErrorKind::NotFound)
    }

    /// Whether rights were lacking.
    pub fn is_denied(&self) -> bool {
        matches!(self, Self::Io { source, .. } if source.kind() == io::ErrorKind::PermissionDenied)
    }
}
