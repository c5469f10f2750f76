//! Why a recording could not be made.

use std::io;
use std::path::PathBuf;

/// A recording failed, wholly or after a part of it was kept.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RecordError {
    /// No command was given.
    #[error("no program to record: give one after `--`, as in `isotherm record -o t.parquet -- python3 job.py`")]
    NoCommand,
    /// The command names nothing that can be found.
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
        /// Why, and the way out.
        why: String,
    },
    /// The emulator or Valgrind is missing.
    #[error("{tool} is not installed: `apt-get install {package}`, or record with `--with {other}`")]
    ToolMissing {
        /// Name of the executable.
        tool: &'static str,
        /// Debian's package.
        package: &'static str,
        /// What else can record.
        other: &'static str,
    },
    /// The tracer plugin is missing.
    #[error(
        "libisotherm_tracer.so not found; looked at {}. Build it with `cargo build --release -p isotherm-tracer`, or say \
         where it is with ISOTHERM_TRACER=/path/libisotherm_tracer.so",
        looked_at.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(", ")
    )]
    TracerMissing {
        /// Where it was looked for.
        looked_at: Vec<PathBuf>,
    },
    /// The epoch or the instruction's length is out of bounds.
    #[error("an epoch of {epoch_ns} ns is {instructions} instructions; allowed: 1000 to 2^40")]
    Epoch {
        /// The epoch asked for.
        epoch_ns: u64,
        /// Its length in instructions.
        instructions: u64,
    },
    /// A system call of the recorder failed.
    #[error("cannot {action}")]
    Io {
        /// What was tried, with the path.
        action: String,
        source: io::Error,
    },
    /// The emulator ended before the program began.
    #[error(
        "{tool} ended ({how}) before the program began; its own message is above. The tracer needs QEMU 4.2 to 8.2 \
         (Debian 12 has 7.2); otherwise record with `--with lackey`"
    )]
    NothingRecorded {
        /// The emulator's path.
        tool: PathBuf,
        /// Its exit.
        how: String,
    },
    /// The tracer sends what this recorder does not understand.
    #[error(
        "the tracer's records are not understood: {why}. Build the tracer and isotherm from the same version; {} holds \
         what came before",
        path.display()
    )]
    Stream { path: PathBuf, why: String },
    /// The trace cannot be written.
    #[error(transparent)]
    Trace(#[from] isotherm_trace::TraceError),
}

fn searched(in_path: bool) -> &'static str {
    if in_path { " in $PATH; a program in this directory is given as `./NAME`" } else { "" }
}

impl RecordError {
    pub(crate) fn io(action: impl Into<String>, source: impl Into<io::Error>) -> Self {
        Self::Io { action: action.into(), source: source.into() }
    }

    /// Whether this host lacks something that can be installed or built.
    pub fn is_host_cannot(&self) -> bool {
        matches!(self, Self::ToolMissing { .. } | Self::TracerMissing { .. })
    }

    /// Whether the request itself is wrong: another command line is needed.
    pub fn is_usage(&self) -> bool {
        matches!(self, Self::NoCommand | Self::ProgramNotFound { .. } | Self::NotExecutable { .. } | Self::Epoch { .. })
    }

    /// Whether a part of the recording is kept in the file.
    pub fn is_partial(&self) -> bool {
        match self {
            Self::Stream { .. } => true,
            Self::Trace(error) => error.is_disk_full(),
            _ => false,
        }
    }
}
