//! Errors of a sweep.

use isotherm_document::DocumentError;
use isotherm_scenario::ScenarioError;
use std::path::{Path, PathBuf};

/// Most runs of one sweep: a plan holds the text of each, some gigabytes for this number.
pub const RUNS_MAX: u64 = 1_000_000;

/// Why a sweep cannot be planned or go on.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SweepError {
    #[error("cannot {what} {}: {source}", path.display())]
    Io { what: &'static str, path: PathBuf, source: std::io::Error },
    /// The disk is full. Files written before are whole.
    #[error("no room to write {}: the runs that are in the dataset are whole; make room, and the same command goes on", path.display())]
    DiskFull { path: PathBuf },
    /// The space file.
    #[error(transparent)]
    Document(#[from] DocumentError),
    #[error(transparent)]
    Scenario(Box<ScenarioError>),
    #[error("files = \"{pattern}\": {reason}")]
    Files { pattern: String, reason: String },
    /// A key that no scenario has, or a value that it cannot have anywhere.
    #[error("key `{key}` = {value}: {message}")]
    Key { key: String, value: String, message: String },
    #[error("the space has {runs} runs, more than {limit}; if they are meant, say `--limit {runs}`")]
    TooMany { runs: u128, limit: u64 },
    /// More runs than a plan can hold.
    #[error(
        "the space has {runs} runs, and a sweep has at most {RUNS_MAX}; draw points of it (`[draws]`), or cut it into several spaces, each with a folder of its own"
    )]
    FarTooMany { runs: u128 },
    /// The folder holds other files.
    #[error("{}: {reason}; take another folder", folder.display())]
    OtherDataset { folder: PathBuf, reason: String },
    #[error("{}: another sweep is writing to it; wait for it, or end it", folder.display())]
    Busy { folder: PathBuf },
    /// No process that plays runs can be started.
    #[error("cannot start a process that plays runs ({}): {source}", program.display())]
    Start { program: PathBuf, source: std::io::Error },
    /// A worker's answer cannot be parsed.
    #[error("a worker answered what cannot be read: {0}")]
    Wire(String),
}

impl From<ScenarioError> for SweepError {
    fn from(error: ScenarioError) -> Self {
        Self::Scenario(Box::new(error))
    }
}

impl SweepError {
    pub(crate) fn io(what: &'static str, path: &Path, source: std::io::Error) -> Self {
        use std::io::ErrorKind::{FileTooLarge, QuotaExceeded, StorageFull};
        match source.kind() {
            StorageFull | QuotaExceeded | FileTooLarge => Self::DiskFull { path: path.to_path_buf() },
            _ => Self::Io { what, path: path.to_path_buf(), source },
        }
    }
}
