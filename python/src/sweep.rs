//! Sweeps: plans, runs, datasets. Who plays the runs is decided in Python.

use crate::error;
use crate::scenario::Scenario;
use isotherm_scenario::set_key;
use isotherm_sweep::{Answer, Ending, Job, JobRow, PlanOptions, Space, SweepError};
use isotherm_workload::WorkloadSpec;
use pyo3::exceptions::{PyFileNotFoundError, PyOSError};
use pyo3::prelude::*;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

pub(crate) fn add_to(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<SweepPlan>()?;
    module.add_class::<SweepDataset>()?;
    module.add_function(wrap_pyfunction!(play_job, module)?)?;
    module.add_function(wrap_pyfunction!(recordings_of, module)?)?;
    module.add_function(wrap_pyfunction!(with_recordings, module)?)?;
    module.add("__build__", BUILD)
}

/// Names this build in datasets, as the command does.
const BUILD: &str = concat!(env!("CARGO_PKG_VERSION"), " ", env!("ISOTHERM_COMMIT"));

/// Workload, variant, kernel, how it ended, metrics.
type Row = (String, String, String, String, BTreeMap<String, f64>);

fn of_sweep(refused: &SweepError) -> PyErr {
    match refused {
        SweepError::Document(_) => error::ScenarioError::new_err(error::chain(refused)),
        SweepError::Scenario(scenario) => error::of_scenario(scenario),
        SweepError::Io { source, .. } if source.kind() == std::io::ErrorKind::NotFound => {
            PyFileNotFoundError::new_err(error::chain(refused))
        }
        SweepError::Io { .. } | SweepError::DiskFull { .. } => PyOSError::new_err(error::chain(refused)),
        _ => error::Error::new_err(error::chain(refused)),
    }
}

/// The runs of a space.
#[pyclass(frozen, module = "isotherm._native")]
pub(crate) struct SweepPlan(isotherm_sweep::Plan);

#[pymethods]
impl SweepPlan {
    /// `space`: text of a space file; `folder`: where its patterns start.
    #[new]
    fn new(
        py: Python<'_>,
        space: &str,
        place: &str,
        folder: PathBuf,
        scenario: &Scenario,
        limit: u64,
    ) -> PyResult<Self> {
        let space = Space::parse(space, place).map_err(|refused| of_sweep(&refused))?;
        let (base, base_dir) = scenario.parts();
        let options = PlanOptions { folder, base_dir, runs_max: limit, build: BUILD.to_owned() };
        // Recordings are read, for their digests.
        let plan = py.detach(|| isotherm_sweep::Plan::new(&space, &base, &options));
        plan.map(Self).map_err(|refused| of_sweep(&refused))
    }

    /// The scenario that the text of a space file names.
    #[staticmethod]
    fn scenario_of(space: &str, place: &str) -> PyResult<String> {
        Ok(Space::parse(space, place).map_err(|refused| of_sweep(&refused))?.scenario)
    }

    fn __len__(&self) -> usize {
        self.0.runs.len()
    }

    /// Identity of each run.
    #[getter]
    fn ids(&self) -> Vec<&str> {
        self.0.runs.iter().map(|run| run.id.as_str()).collect()
    }

    /// Predicted cost of each run, in touches of pages.
    #[getter]
    fn costs(&self) -> Vec<u64> {
        self.0.runs.iter().map(|run| run.cost).collect()
    }

    #[getter]
    fn columns(&self) -> Vec<&str> {
        self.0.column_names().collect()
    }

    /// Scenario and folder of a run.
    fn job(&self, number: usize) -> (String, PathBuf) {
        let job = self.0.job(number);
        (job.scenario, job.folder)
    }
}

/// A dataset that this process alone writes to, until it is closed.
#[pyclass(module = "isotherm._native")]
pub(crate) struct SweepDataset(Option<isotherm_sweep::Dataset>);

#[pymethods]
impl SweepDataset {
    #[new]
    fn new(folder: PathBuf, plan: &SweepPlan) -> PyResult<Self> {
        let dataset = isotherm_sweep::Dataset::open(&folder, &plan.0);
        dataset.map(|dataset| Self(Some(dataset))).map_err(|refused| of_sweep(&refused))
    }

    /// Numbers of the runs to play; runs done, failed before, and of no run of the plan.
    fn missing(&self, plan: &SweepPlan, again: bool) -> PyResult<(Vec<usize>, usize, usize, usize)> {
        let missing = self.open()?.missing(&plan.0, again).map_err(|refused| of_sweep(&refused))?;
        Ok((missing.runs, missing.done, missing.failed, missing.others))
    }

    /// Keeps the answer of a run.
    fn keep(
        &mut self,
        plan: &SweepPlan,
        number: usize,
        seconds: f64,
        error: Option<String>,
        rows: Vec<Row>,
    ) -> PyResult<()> {
        let rows = rows.into_iter().map(row_of).collect::<PyResult<_>>()?;
        let answer = Answer { number, seconds, error, rows };
        let dataset = self.0.as_mut().ok_or_else(closed)?;
        dataset.keep(&plan.0, &answer).map_err(|refused| of_sweep(&refused))
    }

    fn close(&mut self) {
        self.0 = None;
    }
}

impl SweepDataset {
    fn open(&self) -> PyResult<&isotherm_sweep::Dataset> {
        self.0.as_ref().ok_or_else(closed)
    }
}

fn closed() -> PyErr {
    error::Error::new_err("the dataset is closed")
}

fn row_of((workload, variant, kernel, ending, values): Row) -> PyResult<JobRow> {
    let known = [Ending::Finished, Ending::Killed, Ending::Failed];
    let ending = known
        .into_iter()
        .find(|known| known.name() == ending)
        .ok_or_else(|| error::Error::new_err(format!("ending `{ending}`: allowed are finished, killed, failed")))?;
    Ok(JobRow { workload, variant, kernel, ending, values })
}

/// Plays a run on this thread: seconds, error, rows.
#[pyfunction]
fn play_job(py: Python<'_>, number: usize, scenario: String, folder: PathBuf) -> (f64, Option<String>, Vec<Row>) {
    let job = Job { number, scenario, folder };
    let Answer { seconds, error, rows, .. } = py.detach(|| isotherm_sweep::play(&job));
    let of = |row: JobRow| (row.workload, row.variant, row.kernel, row.ending.name().to_owned(), row.values);
    (seconds, error, rows.into_iter().map(of).collect())
}

/// Recordings that a scenario plays, by place, as it names them; of a text that is no scenario none.
#[pyfunction]
fn recordings_of(scenario: &str) -> Vec<(usize, PathBuf)> {
    let Ok(scenario) = isotherm_scenario::parse(scenario, "run") else { return Vec::new() };
    let of = |(index, workload): (usize, &isotherm_scenario::WorkloadEntry)| match &workload.load {
        WorkloadSpec::Trace(trace) => Some((index, trace.path.clone())),
        _ => None,
    };
    scenario.workloads.iter().enumerate().filter_map(of).collect()
}

/// The scenario with other paths for recordings, by place.
#[pyfunction]
fn with_recordings(scenario: &str, paths: BTreeMap<usize, PathBuf>) -> PyResult<String> {
    let broken = |words: String| error::ScenarioError::new_err(words);
    let mut document: toml::Table = scenario.parse().map_err(|refused| broken(format!("{refused}")))?;
    for (index, path) in paths {
        let path: &Path = &path;
        let value = toml::Value::from(path.display().to_string());
        set_key(&mut document, &format!("workloads[{index}].load.path"), value).map_err(broken)?;
    }
    isotherm_document::print_as(&document).map_err(broken)
}
