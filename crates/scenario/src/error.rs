//! Errors of scenarios and runs.

use isotherm_document::DocumentError;
use std::path::PathBuf;

/// Why a scenario cannot be read or run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ScenarioError {
    #[error("cannot read {}: {source}", path.display())]
    Io { path: PathBuf, source: std::io::Error },
    /// Neither a bundled name nor a file.
    #[error("`{name}` is neither a scenario file nor a bundled scenario; bundled: {bundled}")]
    NotFound {
        /// The name that was asked for.
        name: String,
        /// The names of the bundled scenarios.
        bundled: String,
    },
    /// The text is not a scenario.
    #[error(transparent)]
    Document(#[from] DocumentError),
    /// The text is well-formed, but a value in it is invalid.
    #[error("{place}: {message}")]
    Meaning {
        /// `file:line:column`, as far as the key is written.
        place: String,
        /// The error, the allowed values and the way out.
        message: String,
    },
    /// A workload cannot be made.
    #[error("workload `{workload}`: {source}")]
    Workload { workload: String, source: isotherm_workload::WorkloadError },
    /// A machine cannot be made or broke.
    #[error("workload `{workload}`, variant `{variant}`: {source}")]
    Sim { workload: String, variant: String, source: isotherm_sim::machine::SimError },
    /// A monitor whose target cannot be monitored.
    #[error("monitor `{monitor}`: {message}")]
    Monitor {
        monitor: String,
        /// The error, and the allowed values.
        message: String,
    },
    /// The caller does not want a result any more.
    #[error("stopped before the end; nothing is kept of a scenario that was not played to its end")]
    Stopped,
    /// The run without limits did not come to its end, so there is no peak to take shares of.
    #[error(
        "workload `{workload}`: its peak memory is unknown, because the run without limits did not end well: {reason}"
    )]
    NoPeak { workload: String, reason: String },
}
