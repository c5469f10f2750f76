//! What real kernels do, mechanism by mechanism, and beside it the simulated machine as far as that goes. Real runs are stored as
//! data, so that it is there without an emulator; each part can make its data anew. How to read it: `docs/fidelity-monitor.md`.

pub mod compaction;
mod judge;
pub mod monitor;
mod monitor_table;
mod player;
pub mod promotion;

use crate::FidelityError;
use isotherm_rig::job::{Job, Setting};
use isotherm_rig::{Kernel, Machine, Run, RunResult};
use serde::{Deserialize, Serialize};
use std::path::Path;

/// Data of real runs, and how they were made.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Stored<B> {
    /// The command.
    pub command: String,
    /// In the order in which they were made.
    pub boots: Vec<B>,
}

impl<B: for<'a> Deserialize<'a>> Stored<B> {
    /// Reads what was written as JSON; `place` is for messages.
    ///
    /// # Errors
    /// It is not of this kind, or cut short.
    pub fn parse(text: &str, place: &Path) -> Result<Self, FidelityError> {
        serde_json::from_str(text)
            .map_err(|source| FidelityError::Stored { place: place.display().to_string(), source })
    }
}

/// The kernels that data are of, by their names among [`KERNELS`](isotherm_rig::KERNELS).
pub const REAL_KERNELS: [&str; 2] = ["newest", "6.12"];

/// What real runs need.
#[derive(Clone, Copy, Debug)]
pub struct Rig<'a> {
    /// The kernel's name among [`KERNELS`](isotherm_rig::KERNELS), and the kernel.
    pub kernel: (&'static str, &'a Kernel),
    /// The guest's program.
    pub guest: &'a Path,
}

impl Rig<'_> {
    fn run(&self, machine: &Machine, job: &Job) -> Result<RunResult, FidelityError> {
        Ok(Run { kernel: self.kernel.1, machine, guest: self.guest, job, script: None }.go()?)
    }
}

/// Knobs that all parts set: no huge pages, nothing that acts behind an experiment's back.
fn quiet() -> Vec<Setting> {
    let knob = |path: &str, value: &str, optional| Setting { path: path.to_owned(), value: value.to_owned(), optional };
    vec![
        knob("/sys/kernel/mm/transparent_hugepage/enabled", "never", false),
        knob("/sys/module/damon_stat/parameters/enabled", "N", true),
        knob("/proc/sys/kernel/numa_balancing", "0", true),
    ]
}

/// A mean and where its figures lie.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Range {
    /// Of all.
    pub mean: f64,
    /// Least.
    pub low: f64,
    /// Most.
    pub high: f64,
}

impl Range {
    /// Of at least one figure.
    fn of(figures: &[f64]) -> Self {
        Self {
            mean: figures.iter().sum::<f64>() / figures.len().max(1) as f64,
            low: figures.iter().copied().fold(f64::INFINITY, f64::min),
            high: figures.iter().copied().fold(f64::NEG_INFINITY, f64::max),
        }
    }
}

/// One figure of a case in a real kernel.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// What was done.
    pub case: String,
    /// `uname -r`.
    pub kernel: String,
    /// What was counted.
    pub metric: &'static str,
    /// Over boots.
    pub real: Range,
}
