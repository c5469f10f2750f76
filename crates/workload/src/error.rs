//! Why a workload cannot be built.

use std::path::{Path, PathBuf};

/// Why a workload cannot be built. Each message names the kind of workload and the field or line, the allowed values, and the remedy.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WorkloadError {
    /// A field has a value outside the allowed ones.
    #[error("{kind}: `{field}` is {got}; allowed: {allowed}")]
    Field {
        /// Kind of the workload, as in its `kind` key.
        kind: &'static str,
        /// Key in the workload's table.
        field: &'static str,
        got: String,
        /// The allowed values.
        allowed: String,
    },
    /// Fields that exclude or need each other.
    #[error("{kind}: {problem}; {way_out}")]
    Contradiction {
        /// Kind of the workload, as in its `kind` key.
        kind: &'static str,
        problem: String,
        /// How to fix it.
        way_out: String,
    },
    /// A file cannot be read.
    #[error("{kind}: cannot read {}", path.display())]
    Io {
        /// Kind of the workload, as in its `kind` key.
        kind: &'static str,
        path: PathBuf,
        source: std::io::Error,
    },
    /// A line of a configuration file is wrong.
    #[error("{}:{line}: {problem}; allowed: {allowed}", path.display())]
    Line {
        path: PathBuf,
        /// Line number, from 1.
        line: usize,
        problem: String,
        /// The allowed values.
        allowed: String,
    },
    /// A workload of the program that plays the scenario cannot be made.
    #[error("workload `{name}`: {why}")]
    Registered {
        /// The name that it was registered under.
        name: String,
        /// The reason, as text.
        why: String,
    },
    /// A page trace cannot be read.
    #[error("trace: cannot replay {}", path.display())]
    Trace { path: PathBuf, source: isotherm_trace::TraceError },
    /// The accesses are not known beforehand, but the policy needs them.
    #[error("{kind}: its accesses are not known beforehand, which Belady's MIN (`opt`) needs: {reason}")]
    NoFuture {
        /// Kind of the workload, as in its `kind` key.
        kind: &'static str,
        /// The reason, and the way out.
        reason: String,
    },
    /// The workload is too long for Belady's MIN.
    #[error("{kind}: too long for Belady's MIN (`opt`); replay a shorter part or leave `opt` out")]
    FutureTooLarge {
        /// Kind of the workload, as in its `kind` key.
        kind: &'static str,
        /// The limit.
        source: isotherm_units::access::FutureTooLarge,
    },
    /// The accesses broke off while they were read ahead.
    #[error("{kind}: the accesses cannot be read ahead")]
    Stream {
        /// Kind of the workload, as in its `kind` key.
        kind: &'static str,
        source: isotherm_units::access::StreamError,
    },
}

impl WorkloadError {
    #[cold]
    pub(crate) fn field(
        kind: &'static str,
        field: &'static str,
        got: impl std::fmt::Display,
        allowed: impl Into<String>,
    ) -> Self {
        Self::Field { kind, field, got: got.to_string(), allowed: allowed.into() }
    }
    #[cold]
    pub(crate) fn contradiction(kind: &'static str, problem: impl Into<String>, way_out: impl Into<String>) -> Self {
        Self::Contradiction { kind, problem: problem.into(), way_out: way_out.into() }
    }
    #[cold]
    pub(crate) fn io(kind: &'static str, path: &Path, source: std::io::Error) -> Self {
        Self::Io { kind, path: path.to_owned(), source }
    }
}
