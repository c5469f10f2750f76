//! Errors of the rig, each with the way out.

use std::path::PathBuf;
use thiserror::Error;

#[derive(Debug, Error)]
pub enum RigError {
    /// A program that the rig needs is not installed.
    #[error("{program} is missing; {fix}")]
    Missing {
        program: &'static str,
        /// How to get it.
        fix: String,
    },
    /// No kernel has this name.
    #[error("no kernel is called `{name}`; there are {known}")]
    NoKernel {
        /// The name asked for.
        name: String,
        known: String,
    },
    /// Packages cannot be fetched.
    #[error("cannot fetch kernel {kernel}: {reason}")]
    Fetch {
        kernel: &'static str,
        /// The cause, and the way out.
        reason: String,
    },
    /// A file cannot be read or written.
    #[error("{}: {source}", path.display())]
    Io { path: PathBuf, source: std::io::Error },
    /// A file of a package is invalid.
    #[error("{}: {reason}", path.display())]
    Damaged { path: PathBuf, reason: String },
    /// A program cannot be played by a guest.
    #[error("the guest cannot play this program: {reason}")]
    Unplayable { reason: String },
    /// The guest did not finish.
    #[error("the guest {what}{tail}")]
    Guest {
        what: String,
        /// The end of its console, each line on one of its own, or nothing.
        tail: String,
    },
}

impl RigError {
    pub(crate) fn io(path: impl Into<PathBuf>) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.into();
        move |source| Self::Io { path, source }
    }

    /// Whether this machine lacks something, a network for kernels included, rather than that something failed: then tests are skipped.
    pub fn is_lack(&self) -> bool {
        matches!(self, Self::Missing { .. } | Self::Fetch { .. })
    }
}
