//! How a verb ends badly: one error type, its exit code, and how its chain of causes is printed.

use std::error::Error;
use std::fmt;
use std::process::ExitCode;

use isotherm_scenario::ScenarioError;
use isotherm_trace::TraceError;

/// A cause from another crate.
pub type Cause = Box<dyn Error + Send + Sync>;

/// Why a verb failed. Each kind has its exit code. A message names the fault, its place, the allowed values and the way out, because the
/// user gets nothing else.
#[derive(Debug)]
pub enum CliError {
    /// An operation failed: a file cannot be read, a run broke. Exit code 1.
    Failed(Cause),
    /// The command line, a configuration or an input is not allowed. Exit code 2.
    Usage(Cause),
    /// The verb needs something that this host does not have: a program, a kernel feature, a permission. Exit code 3.
    HostCannot(Cause),
    /// A part is done and kept. Exit code 4.
    Partial(Cause),
    /// A program that this one ran has reported the error to the user; its exit code, which is this one's too.
    Reported(u8),
    /// The reader of standard output went away (`isotherm … | head`): no one reads the rest. Exit code 0.
    NobodyReads,
}

impl CliError {
    /// Exit code 1. Takes an error or a message.
    pub fn failed(cause: impl Into<Cause>) -> Self {
        Self::Failed(cause.into())
    }
    /// Exit code 2. Takes an error or a message.
    pub fn usage(cause: impl Into<Cause>) -> Self {
        Self::Usage(cause.into())
    }
    /// Exit code 3. Takes an error or a message.
    pub fn host_cannot(cause: impl Into<Cause>) -> Self {
        Self::HostCannot(cause.into())
    }
    /// Exit code 4. Takes an error or a message.
    pub fn partial(cause: impl Into<Cause>) -> Self {
        Self::Partial(cause.into())
    }
    /// An error of writing to standard output.
    pub fn stdout(error: std::io::Error) -> Self {
        match error.kind() {
            std::io::ErrorKind::BrokenPipe => Self::NobodyReads,
            _ => {
                Self::Failed(Box::new(Because { what: "cannot write to standard output".into(), cause: error.into() }))
            }
        }
    }
    /// This error, prefixed with the operation that failed.
    pub fn while_doing(self, what: impl Into<String>) -> Self {
        let what = what.into();
        let wrap = |cause| Box::new(Because { what, cause }) as Cause;
        match self {
            Self::Failed(cause) => Self::Failed(wrap(cause)),
            Self::Usage(cause) => Self::Usage(wrap(cause)),
            Self::HostCannot(cause) => Self::HostCannot(wrap(cause)),
            Self::Partial(cause) => Self::Partial(wrap(cause)),
            Self::Reported(_) | Self::NobodyReads => self,
        }
    }
    /// Whether there is something to print.
    pub fn is_to_be_said(&self) -> bool {
        self.cause().is_some()
    }
    /// Exit code of the process.
    pub fn exit_code(&self) -> ExitCode {
        ExitCode::from(match self {
            Self::NobodyReads => 0,
            Self::Failed(_) => 1,
            Self::Usage(_) => 2,
            Self::HostCannot(_) => 3,
            Self::Partial(_) => 4,
            Self::Reported(code) => *code,
        })
    }
    fn cause(&self) -> Option<&(dyn Error + Send + Sync + 'static)> {
        match self {
            Self::Failed(cause) | Self::Usage(cause) | Self::HostCannot(cause) | Self::Partial(cause) => Some(&**cause),
            Self::Reported(_) | Self::NobodyReads => None,
        }
    }
}

/// Whether there is a message to print.
impl From<TraceError> for CliError {
    fn from(error: TraceError) -> Self {
        match error {
            TraceError::Option { .. } => Self::usage(error),
            _ => Self::failed(error),
        }
    }
}

/// The exit code follows from whose fault the error is.
impl From<ScenarioError> for CliError {
    fn from(error: ScenarioError) -> Self {
        match error {
            ScenarioError::Io { .. } | ScenarioError::Sim { .. } | ScenarioError::NoPeak { .. } => Self::failed(error),
            ScenarioError::Workload { .. } => Self::failed(error),
            _ => Self::usage(error),
        }
    }
}

/// The whole chain: `what: why: because`. A cause whose text its parent already shows is not repeated.
impl fmt::Display for CliError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut next = self.cause().map(|cause| cause as &dyn Error);
        let mut shown = String::new();
        while let Some(error) = next {
            let text = error.to_string();
            if !shown.ends_with(&text) {
                if !shown.is_empty() {
                    shown.push_str(": ");
                }
                shown.push_str(&text);
            }
            next = error.source();
        }
        f.write_str(&shown)
    }
}

/// The operation that failed, and its cause.
#[derive(Debug)]
struct Because {
    what: String,
    cause: Cause,
}

impl fmt::Display for Because {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)
    }
}

impl Error for Because {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(&*self.cause)
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    #[test]
    fn the_chain_is_printed_once_each() {
        let error = CliError::failed(io::Error::other("disk on fire")).while_doing("cannot write `a.parquet`");
        assert_eq!(error.to_string(), "cannot write `a.parquet`: disk on fire");
        let repeating = Because { what: "cannot open: no such file".into(), cause: "no such file".into() };
        assert_eq!(CliError::usage(repeating).to_string(), "cannot open: no such file");
    }

    #[test]
    fn a_closed_pipe_is_not_an_error() {
        let closed = CliError::stdout(io::ErrorKind::BrokenPipe.into());
        assert!(matches!(closed, CliError::NobodyReads));
        let full = CliError::stdout(io::ErrorKind::StorageFull.into());
        assert!(full.to_string().starts_with("cannot write to standard output: "));
    }
}
