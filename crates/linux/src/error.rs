//! Errors of a live machine, with messages that name the remedy.

use crate::workers::NotBack;
use std::io;
use std::path::{Path, PathBuf};

/// Why a fact could not be read or an action not be done.
#[derive(Debug, thiserror::Error)]
pub enum LiveError {
    /// The kernel refused to read or write a file.
    #[error("cannot {what} {}: {source}", path.display())]
    Io {
        /// Operation: `read`, `write`, `open`.
        what: &'static str,
        path: PathBuf,
        source: io::Error,
    },
    /// A file has contents that no known kernel writes.
    #[error("{} holds {found}, which is not understood; it comes from a kernel that isotherm does not know", path.display())]
    Strange {
        path: PathBuf,
        /// The contents, shortened.
        found: String,
    },
    /// This machine lacks a feature.
    #[error("{what}: {needs}")]
    NotHere {
        /// The requested feature.
        what: &'static str,
        /// Feature that is needed for it, as text.
        needs: String,
    },
    /// Another user holds it.
    #[error("{what} is in use by {by}; {way_out}")]
    Busy {
        /// The requested feature.
        what: &'static str,
        /// The present user.
        by: String,
        /// How to free it.
        way_out: String,
    },
    /// A system call did not return in time, or an earlier one on the same object has not returned yet.
    #[error("{what} {on}: {why}")]
    NotBack {
        /// Operation: `write`, `advise`.
        what: &'static str,
        /// Object of the call.
        on: String,
        why: String,
        /// Whether this call was made. It may still take effect.
        was_made: bool,
    },
    /// The target has ended, or runs another program now.
    #[error("{0}")]
    Gone(String),
    /// The target can never be monitored: a kernel thread, for example.
    #[error("{0}")]
    Refused(String),
}

impl LiveError {
    pub(crate) fn io(what: &'static str, path: &Path, source: io::Error) -> Self {
        Self::Io { what, path: path.to_owned(), source }
    }

    pub(crate) fn not_back(what: &'static str, on: &str, not: NotBack) -> Self {
        let why = match not {
            NotBack::Slow => "the kernel has not come back from it yet; nothing else is asked until it has".to_owned(),
            NotBack::Earlier(since) => {
                format!("the kernel has not come back from an earlier call for {} s", since.as_secs())
            }
            NotBack::TooMany => {
                "the kernel has not come back from many other calls; see what blocks its devices".to_owned()
            }
            NotBack::NoThread => "there is no thread for it; see the limits on threads and memory".to_owned(),
        };
        Self::NotBack { what, on: on.to_owned(), why, was_made: not == NotBack::Slow }
    }

    pub(crate) fn strange(path: impl Into<PathBuf>, found: String) -> Self {
        Self::Strange { path: path.into(), found }
    }

    /// Whether a file does not exist.
    pub fn is_missing(&self) -> bool {
        matches!(self, Self::Io { source, .. } if source.kind() == io::ErrorKind::NotFound)
    }

    /// Whether the call was made and is still under way in the kernel.
    pub fn is_slow(&self) -> bool {
        matches!(self, Self::NotBack { was_made: true, .. })
    }

    /// Whether permission was denied.
    pub fn is_denied(&self) -> bool {
        matches!(self, Self::Io { source, .. } if source.kind() == io::ErrorKind::PermissionDenied)
    }
}
