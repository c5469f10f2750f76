//! Real kernels, mechanism by mechanism, versus the simulated machine where it has the mechanism. Real runs are stored as data,
//! so that comparing needs no emulator; each part can repeat its real runs. Results:
//! `docs/evidence/fidelity.md#monitor-and-daemons`.

pub mod compaction;
mod compaction_simulated;
mod judge;
pub mod live;
pub mod live_advice;
pub mod live_compaction;
pub mod live_kills;
pub mod live_prices;
pub mod live_programs;
pub mod live_promotion;
pub mod live_reclaim;
pub mod live_record;
pub mod live_restores;
pub mod live_sorting;
pub mod live_tenant;
pub mod live_trial;
pub mod live_verbs;
pub mod monitor;
mod monitor_table;
mod player;
pub mod promotion;
mod promotion_simulated;
pub mod sorting;
mod sorting_table;

use crate::FidelityError;
use isotherm_rig::job::{Job, Setting};
use isotherm_rig::{Extras, Kernel, Machine, Report, RigError, Run, RunResult};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::Path;

/// Data of real runs, and how they were made.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Stored<B> {
    pub command: String,
    /// Boots, in the order in which they were made.
    pub boots: Vec<B>,
}

impl<B: for<'a> Deserialize<'a>> Stored<B> {
    /// Parses stored JSON; `place` is for messages.
    ///
    /// # Errors
    /// It is of another kind, or truncated.
    pub fn parse(text: &str, place: &Path) -> Result<Self, FidelityError> {
        serde_json::from_str(text)
            .map_err(|source| FidelityError::Stored { place: place.display().to_string(), source })
    }
}

/// Result of one boot of one kernel.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Boot<R> {
    /// Name of the kernel here.
    pub name: String,
    /// `uname -r`.
    pub release: String,
    /// Runs, in the order of the part's cases.
    pub runs: Vec<R>,
}

/// Data of one boot of any kind.
pub trait OfKernel {
    /// Name of the kernel here.
    fn kernel(&self) -> &str;
}

impl<R> OfKernel for Boot<R> {
    fn kernel(&self) -> &str {
        &self.name
    }
}

impl<B: OfKernel> Stored<B> {
    /// Takes the boots of `newer`, and keeps its own boots of kernels that `newer` lacks.
    #[must_use]
    pub fn with(mut self, newer: Self) -> Self {
        self.boots.retain(|boot| newer.boots.iter().all(|other| other.kernel() != boot.kernel()));
        self.boots.extend(newer.boots);
        let place = |boot: &B| crate::KERNELS.iter().position(|kernel| *kernel == boot.kernel());
        self.boots.sort_by_key(place);
        Self { command: newer.command, ..self }
    }
}

/// Needs of real runs.
#[derive(Clone, Copy, Debug)]
pub struct Rig<'a> {
    /// The kernel's name among [`KERNELS`](isotherm_rig::KERNELS), and the kernel.
    pub kernel: (&'static str, &'a Kernel),
    /// The guest's program.
    pub guest: &'a Path,
}

impl Rig<'_> {
    fn run(&self, machine: &Machine, job: &Job) -> Result<RunResult, FidelityError> {
        self.run_with(machine, job, &Extras::default())
    }

    fn run_with(&self, machine: &Machine, job: &Job, extras: &Extras) -> Result<RunResult, FidelityError> {
        Ok(Run { kernel: self.kernel.1, machine, guest: self.guest, job, script: None, extras }.go()?)
    }
}

/// Reports of the guest's runs, which should be `wanted` in number.
///
/// # Errors
/// A report is missing: later ones would be taken for reports of other runs.
fn reports<T>(
    result: &RunResult,
    wanted: usize,
    pick: impl Fn(&Report) -> Option<&T>,
) -> Result<Vec<&T>, FidelityError> {
    let found: Vec<&T> = result.reports.iter().filter_map(pick).collect();
    if found.len() == wanted {
        return Ok(found);
    }
    let reason = format!("the guest told of {} runs of {wanted}; a line of its reports is torn", found.len());
    Err(RigError::Damaged { path: "reports".into(), reason }.into())
}

/// Boots by release, the newest first.
fn by_release<R>(boots: &[Boot<R>]) -> impl Iterator<Item = (&str, Vec<&Boot<R>>)> {
    let mut kernels: BTreeMap<&str, Vec<&Boot<R>>> = BTreeMap::new();
    for boot in boots {
        kernels.entry(&boot.release).or_default().push(boot);
    }
    kernels.into_iter().rev()
}

/// Knobs that all parts set: no huge pages, nothing that acts on its own.
fn quiet() -> Vec<Setting> {
    let knob = |path: &str, value: &str, optional| Setting { path: path.to_owned(), value: value.to_owned(), optional };
    vec![
        knob("/sys/kernel/mm/transparent_hugepage/enabled", "never", false),
        knob("/sys/module/damon_stat/parameters/enabled", "N", true),
        knob("/proc/sys/kernel/numa_balancing", "0", true),
    ]
}

/// A mean and the range of its figures.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Range {
    pub mean: f64,
    /// Least.
    pub low: f64,
    pub high: f64,
}

impl Range {
    /// Range of all figures, if there are any.
    fn of_some(figures: &[f64]) -> Option<Self> {
        (!figures.is_empty()).then(|| Self::of(figures))
    }

    /// Range of at least one figure.
    fn of(figures: &[f64]) -> Self {
        Self {
            mean: figures.iter().sum::<f64>() / figures.len().max(1) as f64,
            low: figures.iter().copied().fold(f64::INFINITY, f64::min),
            high: figures.iter().copied().fold(f64::NEG_INFINITY, f64::max),
        }
    }
}

/// One figure of a case in both worlds.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FigureRow {
    pub case: String,
    /// `uname -r`.
    pub kernel: String,
    /// Name of the figure.
    pub metric: &'static str,
    /// Range over simulated runs; `None` if the simulated machine has no such figure.
    pub simulated: Option<Range>,
    /// Over boots.
    pub real: Range,
}
