//! Errors, each with the way out.

use std::path::PathBuf;
use thiserror::Error;

/// An error of the comparison.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum FidelityError {
    /// The list of workloads cannot be parsed.
    #[error("{place}: {source}")]
    Workloads {
        /// File of the workloads.
        place: String,
        source: toml::de::Error,
    },
    /// A filter names an unknown item.
    #[error("no {what} is called `{name}`; there are {known}")]
    Unknown {
        /// Kind of the item.
        what: &'static str,
        name: String,
        known: String,
    },
    /// A workload cannot be built.
    #[error("workload `{workload}`: {source}")]
    Workload { workload: String, source: isotherm_workload::WorkloadError },
    /// The simulated machine could not play it.
    #[error("workload `{workload}`, {policy}: {source}")]
    Simulation { workload: String, policy: String, source: isotherm_sim::machine::SimError },
    /// The simulated machine did not reach the end of the script.
    #[error("workload `{workload}`, {policy}: {what}")]
    Unfinished {
        workload: String,
        policy: String,
        /// The unexpected event.
        what: String,
    },
    /// The simulated machine refuses the run that is to be compared with a real kernel.
    #[error("the simulated machine: {0}")]
    Simulated(#[from] isotherm_sim::machine::SimError),
    #[error(transparent)]
    Rig(#[from] isotherm_rig::RigError),
    /// Some runs failed in the guest; nothing was stored.
    #[error("{} of {of} runs failed in kernel {kernel}, so that nothing was stored:\n  {}", failures.len(), failures.join("\n  "))]
    Runs {
        kernel: String,
        /// Runs in all.
        of: usize,
        /// The runs that failed, and why.
        failures: Vec<String>,
    },
    /// A kernel has no such counter: it cannot be compared.
    #[error("kernel {kernel} counts no `{counter}`, neither of groups nor of the machine; nothing was stored")]
    NoCounter {
        kernel: String,
        /// Name of the counter in the kernel.
        counter: &'static str,
    },
    /// Stored runs cannot be read or written.
    #[error("{}: {source}", path.display())]
    Io { path: PathBuf, source: std::io::Error },
    /// Stored runs are damaged.
    #[error("{place}: {source}")]
    Stored { place: String, source: serde_json::Error },
    /// A list has a name twice.
    #[error("{place}: `{name}` is listed twice")]
    Twice { place: String, name: String },
    /// Stored plays are damaged, or of another kernel or guest.
    #[error("{place}: {reason}")]
    Store { place: String, reason: String },
    /// Stored runs belong to another script than the present one.
    #[error(
        "the stored runs of workload `{workload}` in kernel {kernel} are of another script or limit than the present one; make them \
         anew: isotherm-lab {verb} --refresh --kernel {kernel} --workload {workload}. The data that come with isotherm-lab are part \
         of the program: build it anew afterwards, or name their folder with --data"
    )]
    Stale {
        /// The comparison's verb.
        verb: &'static str,
        workload: String,
        kernel: String,
    },
    /// Data of no boot at all.
    #[error("{place} has no boots to compare with; make some: isotherm-lab {table} --refresh --data {place}")]
    NoBoots { place: String, table: String },
    /// The command failed in the guest.
    #[error("{0}")]
    Live(String),
    /// There is nothing to compare with.
    #[error("no stored runs of this selection in {place}; make them: isotherm-lab {verb} --refresh")]
    Nothing {
        /// The comparison's verb.
        verb: &'static str,
        /// Folder that was searched.
        place: String,
    },
}

impl FidelityError {
    pub(crate) fn io(path: impl Into<PathBuf>) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.into();
        move |source| Self::Io { path, source }
    }
}
