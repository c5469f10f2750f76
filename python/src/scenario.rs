//! Scenarios and their results.

use crate::arrow::{Columns, Table};
use crate::error::{self, argument};
use crate::extensions::Registered;
use crate::waiting::interruptible;
use isotherm_answers::{Asked, results};
use isotherm_kernel::memory::KernelRelease;
use isotherm_report::TermStyle;
use isotherm_scenario::{BUNDLED, METRICS, RunOptions, ScenarioError, ScenarioResult, Spread, data_file};
use pyo3::prelude::*;
use std::path::{Path, PathBuf};

pub(crate) fn add_to(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<Scenario>()?;
    module.add_class::<Outcome>()?;
    module.add_function(wrap_pyfunction!(bundled_scenarios, module)?)?;
    module.add_function(wrap_pyfunction!(metric_names, module)?)?;
    module.add_function(wrap_pyfunction!(data_folder, module)?)?;
    module.add_function(wrap_pyfunction!(kernel_rules, module)?)?;
    module.add_function(wrap_pyfunction!(toml_of, module)?)?;
    module.add_function(wrap_pyfunction!(simulate, module)?)
}

/// A scenario that was read and checked.
#[pyclass(frozen, module = "isotherm._native")]
pub(crate) struct Scenario {
    scenario: isotherm_scenario::Scenario,
    /// Name for messages.
    place: String,
    /// Where relative paths start.
    base_dir: PathBuf,
    /// Note on a valid file that spells its keys in the old way.
    #[pyo3(get)]
    note: Option<String>,
}

#[pymethods]
impl Scenario {
    #[staticmethod]
    fn parse(text: &str, place: String, base_dir: PathBuf, registered: Registered) -> PyResult<Self> {
        let extensions = registered.extensions()?;
        let scenario = isotherm_scenario::parse_extended(text, &place, &extensions)
            .map_err(|refused| error::of_scenario(&refused))?;
        Ok(Self { scenario, place, base_dir, note: None })
    }

    /// `json`: the scenario as JSON spells it.
    #[staticmethod]
    fn of_json(json: &str, place: String, base_dir: PathBuf, registered: Registered) -> PyResult<Self> {
        let text = toml_of(json)?;
        Self::parse(&text, place, base_dir, registered)
    }

    #[staticmethod]
    fn load(path: PathBuf, registered: Registered) -> PyResult<Self> {
        let (scenario, note) = isotherm_scenario::load_extended(&path, &registered.extensions()?)
            .map_err(|refused| error::of_scenario(&refused))?;
        let base_dir = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        Ok(Self { scenario, place: path.display().to_string(), base_dir: base_dir.to_path_buf(), note })
    }

    /// `data`: the folder that holds `traces`.
    #[staticmethod]
    fn bundled(name: &str, data: PathBuf) -> PyResult<Self> {
        let Some(bundled) = BUNDLED.iter().find(|bundled| bundled.name == name) else {
            let names: Vec<&str> = BUNDLED.iter().map(|bundled| bundled.name).collect();
            let refused = ScenarioError::NotFound { name: name.to_owned(), bundled: names.join(", ") };
            return Err(error::of_scenario(&refused));
        };
        let scenario = isotherm_scenario::parse(bundled.text, name).map_err(|refused| error::of_scenario(&refused))?;
        Ok(Self { scenario, place: name.to_owned(), base_dir: data, note: None })
    }

    fn to_toml(&self) -> String {
        isotherm_scenario::print(&self.scenario)
    }

    fn to_json(&self) -> PyResult<String> {
        serde_json::to_string(&self.scenario).map_err(|refused| argument("scenario", refused))
    }

    #[getter]
    fn name(&self) -> &str {
        &self.scenario.name
    }
    #[getter]
    fn title(&self) -> &str {
        &self.scenario.title
    }
    #[getter]
    fn base_dir(&self) -> &Path {
        &self.base_dir
    }
}

impl Scenario {
    /// The scenario, and where its relative paths start.
    pub(crate) fn parts(&self) -> (isotherm_scenario::Scenario, PathBuf) {
        (self.scenario.clone(), self.base_dir.clone())
    }
}

/// Name, title, and whether it plays recordings, of each bundled scenario.
#[pyfunction]
fn bundled_scenarios() -> PyResult<Vec<(&'static str, String, bool)>> {
    let of = |bundled: &isotherm_scenario::Bundled| {
        let scenario =
            isotherm_scenario::parse(bundled.text, bundled.name).map_err(|refused| error::of_scenario(&refused))?;
        Ok((bundled.name, scenario.title, bundled.text.contains("traces/")))
    };
    BUNDLED.iter().map(of).collect()
}

#[pyfunction]
fn metric_names() -> Vec<&'static str> {
    METRICS.iter().map(|metric| metric.name).collect()
}

/// The folder that holds `traces`, or the places that were searched in vain.
#[pyfunction]
#[pyo3(signature = (configured, executable))]
fn data_folder(configured: Option<PathBuf>, executable: Option<PathBuf>) -> Result<PathBuf, PyErr> {
    let traces = data_file("traces", configured.as_deref(), executable.as_deref()).map_err(|tried| {
        let tried: Vec<String> = tried.iter().map(|path| path.display().to_string()).collect();
        error::Error::new_err(format!(
            "the bundled recordings are not found (tried {}); set ISOTHERM_DATA, or `data`, to the folder that holds `traces`",
            tried.join(", ")
        ))
    })?;
    Ok(traces.parent().map_or_else(|| PathBuf::from("."), Path::to_path_buf))
}

/// A document of JSON as TOML.
#[pyfunction]
fn toml_of(json: &str) -> PyResult<String> {
    let value: toml::Value = serde_json::from_str(json).map_err(|refused| argument("scenario", refused))?;
    toml::to_string(&value).map_err(|refused| argument("scenario", refused))
}

/// The releases of the kernel that are meant by a name: one, or with `all` those that were compared with
/// running kernels. `running`: the release of this machine's kernel.
#[pyfunction]
#[pyo3(signature = (name, running))]
fn kernel_rules(name: Option<&str>, running: Option<&str>) -> PyResult<Vec<&'static str>> {
    let of_host = || running.and_then(KernelRelease::nearest);
    let releases = match name {
        None => vec![of_host().unwrap_or(KernelRelease::NEWEST)],
        Some("all") => KernelRelease::COMPARED.to_vec(),
        Some("host") => vec![of_host().ok_or_else(|| {
            let runs = running.unwrap_or("another kernel than Linux");
            argument(
                "kernel",
                format!("this machine runs {runs}, of which there are no rules; there are {}", KernelRelease::names()),
            )
        })?],
        Some(name) => vec![named(name)?],
    };
    Ok(releases.into_iter().map(KernelRelease::name).collect())
}

fn named(release: &str) -> PyResult<KernelRelease> {
    release.parse().map_err(|refused| argument("kernel", format!("{refused}, host, all")))
}

/// Releases of names that [`kernel_rules`] gave.
pub(crate) fn releases(names: &[String]) -> PyResult<Vec<KernelRelease>> {
    names.iter().map(|name| named(name)).collect()
}

/// Plays a scenario.
#[pyfunction]
#[pyo3(signature = (scenario, *, seed, repeats, threads, kernels, metrics, registered, progress))]
#[expect(clippy::too_many_arguments, reason = "each has its name in Python")]
fn simulate(
    py: Python<'_>,
    scenario: &Scenario,
    seed: Option<u64>,
    repeats: Option<u32>,
    threads: Option<usize>,
    kernels: Option<Vec<String>>,
    metrics: Vec<String>,
    registered: Registered,
    progress: Option<Bound<'_, PyAny>>,
) -> PyResult<Outcome> {
    let asked = Asked {
        seed,
        repeats,
        metrics: Asked::metrics_named(&metrics).map_err(|refused| argument("metrics", refused))?,
        kernels: kernels.map(|names| releases(&names)).transpose()?,
    };
    if let Some(what) = asked.against_worlds(&scenario.scenario) {
        let worlds = scenario.scenario.worlds.len();
        let words = format!("the repeats of `{}` are its {worlds} worlds, each with a seed of its own", scenario.place);
        return Err(argument(what, words));
    }
    let extensions = registered.extensions()?;
    let options = RunOptions { base_dir: scenario.base_dir.clone(), place: scenario.place.clone(), threads };
    let played = interruptible(py, progress.as_ref(), |watched| {
        let mut result = asked.play(scenario.scenario.clone(), &options, &extensions, watched)?;
        asked.only_asked(&mut result);
        Ok(result)
    })?;
    let result = played.map_err(|refused| error::of_scenario(&refused))?;
    Ok(Outcome { result, asked: asked.metrics })
}

/// Result of playing a scenario.
#[pyclass(frozen, module = "isotherm._native")]
pub(crate) struct Outcome {
    result: ScenarioResult,
    asked: Option<Vec<String>>,
}

/// Columns of a statistic, the same of values and of ratios.
macro_rules! statistics {
    ($columns:expr, $rows:expr) => {{
        let rows = $rows;
        let spread = |part: fn(&Spread) -> f64| rows.iter().map(move |row| row.spread.as_ref().map(part));
        $columns
            .counts("n", rows.iter().map(|row| Some(row.n)))
            .numbers("mean", rows.iter().map(|row| Some(row.mean)))
            .numbers("stddev", rows.iter().map(|row| Some(row.stddev)))
            .numbers("ci95_low", rows.iter().map(|row| row.ci95_low))
            .numbers("ci95_high", rows.iter().map(|row| row.ci95_high))
            .numbers("median", spread(|spread| spread.median))
            .numbers("least", spread(|spread| spread.least))
            .numbers("most", spread(|spread| spread.most))
            .numbers("reference", rows.iter().map(|row| row.reference))
            .numbers("reference_low", rows.iter().map(|row| row.reference_low))
            .numbers("reference_high", rows.iter().map(|row| row.reference_high))
    }};
}

#[pymethods]
impl Outcome {
    /// As the command prints it with `--format json`, the last line end included.
    fn to_json(&self) -> PyResult<String> {
        let text = serde_json::to_string_pretty(&self.result).map_err(|refused| argument("result", refused))?;
        Ok(text + "\n")
    }

    fn to_csv(&self) -> String {
        results::of_programs(&self.result).to_csv()
    }

    fn table(&self) -> PyResult<Table> {
        let rows = &self.result.rows;
        let columns = Columns::default()
            .text("workload", rows.iter().map(|row| &row.workload))
            .text("variant", rows.iter().map(|row| &row.variant))
            .text("kernel", rows.iter().map(|row| row.kernel.name()))
            .text("metric", rows.iter().map(|row| &row.metric));
        statistics!(columns, rows).table()
    }

    fn ratios(&self) -> PyResult<Table> {
        let rows = &self.result.ratios;
        let columns = Columns::default()
            .text("workload", rows.iter().map(|row| &row.workload))
            .text("variant", rows.iter().map(|row| &row.variant))
            .text("kernel", rows.iter().map(|row| row.kernel.name()))
            .text("metric", rows.iter().map(|row| &row.metric))
            .text("against", rows.iter().map(|row| &row.against));
        statistics!(columns, rows)
            .flags("sign_agrees", rows.iter().map(|row| row.sign_agrees))
            .flags("overlaps", rows.iter().map(|row| row.overlaps))
            .table()
    }

    /// The value of a workload, variant and metric: its mean.
    fn mean(&self, workload: &str, variant: &str, metric: &str) -> Option<f64> {
        self.result.row(workload, variant, metric).map(|row| row.mean)
    }

    #[getter]
    fn scenario(&self) -> &str {
        &self.result.scenario
    }

    fn nr_missed(&self) -> usize {
        self.result.expectations.iter().filter(|row| !row.met).count()
    }

    /// The tables that the command prints, in `columns` columns.
    fn text(&self, columns: usize) -> String {
        let style = TermStyle::plain(columns);
        let (tables, _) = results::of_workloads(&self.result, self.asked.as_deref());
        let tables = tables.into_iter().chain(results::versus_expected(&self.result));
        tables.map(|table| table.to_text(&style) + "\n").collect()
    }
}
