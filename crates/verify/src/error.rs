//! Errors of a run.

use isotherm_linux::LiveError;
use std::io;

/// Why a run could not be made, or says nothing.
#[derive(Debug, thiserror::Error)]
pub enum VerifyError {
    #[error(transparent)]
    Live(#[from] LiveError),
    #[error("cannot {what}: {source}")]
    Io {
        /// Operation with its object.
        what: String,
        source: io::Error,
    },
    /// The command's output has a line that is no length of a burst.
    #[error(
        "the command printed `{line}` where the length of a burst belongs; with --bursts it prints one number of nanoseconds a line, and \
         nothing else"
    )]
    NoBurst { line: String },
    /// The advice is not what `isotherm advise --format json` prints.
    #[error("{0}")]
    Advice(String),
    /// The caller asked to stop.
    #[error("stopped")]
    Stopped,
}

impl VerifyError {
    pub(crate) fn io(what: impl Into<String>, source: io::Error) -> Self {
        Self::Io { what: what.into(), source }
    }
}
