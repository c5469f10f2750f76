//! Errors of recordings.

use std::io;
use std::path::PathBuf;

/// A recording failed, wholly or after a part of it was kept.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RecordError {
    /// No command was given.
    #[error("no program to record: give one after `--`, as in `isotherm record -o t.parquet -- python3 job.py`")]
    NoCommand,
    /// The command names no program that can be found.
    #[error("program `{name}` not found{}", searched(*in_path))]
    ProgramNotFound {
        name: String,
        /// Whether `$PATH` was searched.
        in_path: bool,
    },
    /// The file is there but cannot be executed.
    #[error("{} cannot be executed: {why}", path.display())]
    NotExecutable {
        path: PathBuf,
        /// The cause, and how to fix it.
        why: String,
    },
    /// A file that comes with isotherm is missing.
    #[error(
        "{part} not found; looked at {}. `make build` builds it; {variable}=/path/{part} says where it is",
        looked_at.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(", ")
    )]
    PartMissing {
        part: &'static str,
        /// The environment variable that names it.
        variable: &'static str,
        /// Paths that were searched.
        looked_at: Vec<PathBuf>,
    },
    /// The engine does not work on this host.
    #[error("programs cannot be recorded here: {0}. {INSTALL}")]
    NoEngine(Box<RecordError>),
    /// There is no engine for this processor.
    #[error(
        "programs can be started under the recorder on x86-64 alone, and this processor is {0}: there is no engine for it"
    )]
    OtherProcessor(&'static str),
    /// The epoch or the instruction's length is out of bounds.
    #[error("an epoch of {epoch_ns} ns is {instructions} instructions; allowed: 1000 to 2^40")]
    Epoch {
        /// The epoch asked for.
        epoch_ns: u64,
        /// Length in instructions.
        instructions: u64,
    },
    /// A system call of the recorder failed.
    #[error("cannot {action}")]
    Io {
        /// The operation, with the path.
        action: String,
        source: io::Error,
    },
    /// The engine ended before the program began.
    #[error("{tool} ended ({how}) before the program began")]
    NothingRecorded {
        /// The engine's path.
        tool: PathBuf,
        /// How the program ended.
        how: String,
    },
    /// The engine was tried with a program that does nothing, and did not end.
    #[error("{tool} did not end within {seconds} s with a program that does nothing, and was killed")]
    EngineHangs {
        /// The engine's path.
        tool: PathBuf,
        /// Length of the wait.
        seconds: u64,
    },
    /// A signal arrived while the engine was tried.
    #[error("interrupted before the program was started")]
    Interrupted,
    /// The engine sends records that this recorder does not know.
    #[error(
        "the engine's records are not understood: {why}. Build the engine and isotherm from the same version; {} holds \
         what came before",
        path.display()
    )]
    Stream { path: PathBuf, why: String },
    /// Running processes can no longer be scanned.
    #[error("{0}; the trace holds what came before")]
    LookingFailed(String),
    /// The trace cannot be created; the program was not started.
    #[error(transparent)]
    NotBegun(isotherm_trace::TraceError),
    /// The trace cannot be written to its end. Data written before stay.
    #[error(transparent)]
    Trace(#[from] isotherm_trace::TraceError),
}

/// How to get a working engine.
const INSTALL: &str =
    "With Valgrind's package (`apt-get install valgrind`), `make build` makes the engine, which needs no more";

fn searched(in_path: bool) -> &'static str {
    if in_path { " in $PATH; a program in this directory is given as `./NAME`" } else { "" }
}

impl RecordError {
    pub(crate) fn io(action: impl Into<String>, source: impl Into<io::Error>) -> Self {
        Self::Io { action: action.into(), source: source.into() }
    }

    /// Whether this host lacks a part that can be installed or built.
    pub fn is_host_cannot(&self) -> bool {
        matches!(self, Self::PartMissing { .. } | Self::NoEngine(_) | Self::OtherProcessor(_))
    }

    /// Whether the request itself is wrong: another command line is needed.
    pub fn is_usage(&self) -> bool {
        matches!(self, Self::NoCommand | Self::ProgramNotFound { .. } | Self::NotExecutable { .. } | Self::Epoch { .. })
    }

    /// Whether a part of the recording is kept in the file.
    pub fn is_partial(&self) -> bool {
        matches!(self, Self::Stream { .. } | Self::LookingFailed(_) | Self::Trace(_))
    }
}
