//! Advice on how much memory a program needs.

use crate::arrow::{Columns, Table};
use crate::error::{self, argument};
use crate::scenario::releases;
use crate::waiting::interruptible;
use isotherm_advise::advice::platform::Platform;
use isotherm_advise::advice::{document, page, tables, words};
use isotherm_advise::{AdviceRow, Effort, Keep, Question, Sampling, storage_named};
use isotherm_report::TermStyle;
use isotherm_scenario::digest_of_file;
use isotherm_units::{Amount, Duration, Ratio};
use pyo3::prelude::*;
use std::path::PathBuf;

pub(crate) fn add_to(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<Advice>()?;
    module.add_function(wrap_pyfunction!(ask, module)?)
}

/// The answers for each release of the kernel, and the question.
#[pyclass(frozen, module = "isotherm._native")]
pub(crate) struct Advice {
    answers: Vec<isotherm_advise::Advice>,
    question: Question,
}

/// Options besides the trace, as text of the command's flags; `None`: the default.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
struct Wishes {
    memory: Option<Vec<String>>,
    storage: Option<String>,
    swap: Option<String>,
    slowdown: Option<String>,
    latency: Option<String>,
    cpus: Option<u32>,
    limits: bool,
    baselines: bool,
    details: bool,
    effort: Option<String>,
    sample: Option<String>,
    threads: Option<usize>,
    anyway: bool,
}

impl Wishes {
    fn apply(self, question: &mut Question) -> PyResult<()> {
        if let Some(memory) = self.memory {
            let amounts = memory.iter().map(|text| text.parse::<Amount>());
            question.every_size = true;
            question.memory = amounts.collect::<Result<_, _>>().map_err(|refused| argument("memory", refused))?;
        }
        if let Some(storage) = self.storage {
            question.storage = storage_named(&storage).map_err(|refused| argument("storage", refused))?;
        }
        if let Some(swap) = self.swap {
            question.swap = swap.parse().map_err(|refused| argument("swap", refused))?;
        }
        if let Some(slowdown) = self.slowdown {
            question.slowdown = slowdown.parse::<Ratio>().map_err(|refused| argument("slowdown", refused))?;
        }
        if let Some(latency) = self.latency {
            let latency = latency.parse::<Duration>().map_err(|refused| argument("latency", refused))?;
            if latency == Duration::ZERO {
                return Err(argument("latency", "0s; allowed: more, such as 2ms"));
            }
            question.latency = Some(latency);
        }
        if let Some(cpus) = self.cpus {
            question.cpus = Some(cpus)
                .filter(|cpus| (1..=256).contains(cpus))
                .ok_or_else(|| argument("cpus", format!("{cpus} is out of range; allowed: 1 to 256")))?;
        }
        question.limits = self.limits;
        question.baselines = self.baselines;
        question.details = self.details;
        if let Some(effort) = self.effort {
            question.effort =
                effort.parse::<Effort>().map_err(|allowed| argument("effort", format!("`{effort}`; {allowed}")))?;
        }
        if let Some(sample) = self.sample {
            question.sampling =
                sample.parse::<Sampling>().map_err(|allowed| argument("sample", format!("`{sample}`: {allowed}")))?;
        }
        question.threads = self.threads;
        Ok(())
    }
}

/// Answers the question of how much memory a program needs. `keep`: the folder of earlier replays, and the file whose bytes
/// identify this engine.
#[pyfunction]
#[pyo3(name = "advise", signature = (name, trace, kernels, wishes, keep, progress))]
fn ask(
    py: Python<'_>,
    name: String,
    trace: PathBuf,
    kernels: Vec<String>,
    wishes: Wishes,
    keep: Option<(PathBuf, PathBuf)>,
    progress: Option<Bound<'_, PyAny>>,
) -> PyResult<Advice> {
    let mut question = Question::usual(name, trace, releases(&kernels)?);
    let anyway = wishes.anyway;
    wishes.apply(&mut question)?;
    question.keep = keep.and_then(|(folder, engine)| {
        let build = digest_of_file(&engine).ok()?;
        Some(Keep { folder, build })
    });
    let answers = interruptible(py, progress.as_ref(), |watched| isotherm_advise::advise(&question, watched))?;
    let mut answers = answers.map_err(|refused| error::of_scenario(&refused))?;
    if !anyway {
        answers.iter_mut().for_each(|advice| advice.withhold_if_unknowable(&question));
    }
    Ok(Advice { answers, question })
}

#[pymethods]
impl Advice {
    /// As the command prints it with `--format json`, the last line end included.
    fn to_json(&self) -> PyResult<String> {
        let value = document(&self.answers).map_err(|refused| argument("advice", refused))?;
        let text = serde_json::to_string_pretty(&value).map_err(|refused| argument("advice", refused))?;
        Ok(text + "\n")
    }

    fn to_csv(&self) -> String {
        tables::rows(&self.answers).to_csv()
    }

    /// The page that the command writes with `--report` on the day `date`.
    fn to_html(&self, py: Python<'_>, date: &str) -> PyResult<String> {
        let occasion = page::Occasion { config: None, platform: &Platform::CGROUP, date };
        let page = py.detach(|| page::html(&self.answers, &self.question, occasion));
        page.map_err(|refused| error::of_trace(&refused))
    }

    /// The recommended configuration as a scenario; `None`: no size tried is safe, or only a sample was played.
    fn config(&self) -> Option<String> {
        self.answers.first().and_then(|advice| advice.config.as_ref()).map(isotherm_scenario::print)
    }

    /// Name of the configuration, memory in bytes, and the runtime next to that with unlimited memory, in millionths.
    fn recommendation(&self) -> Option<(String, u64, u64)> {
        let best = self.answers.first()?.recommendation.as_ref()?;
        Some((best.candidate.to_string(), best.memory_bytes, best.runtime_ratio_ppm.median))
    }

    fn peak_bytes(&self) -> u64 {
        self.answers.first().map_or(0, |advice| advice.peak_bytes)
    }

    fn is_partial(&self) -> bool {
        self.answers.iter().any(|advice| advice.is_partial)
    }

    /// The verdict of each release, and its certainty.
    fn sentences(&self) -> Vec<String> {
        let of = |advice: &isotherm_advise::Advice| {
            let mut sentences = vec![words::verdict(advice)];
            sentences.extend(words::sample(advice));
            sentences.extend(words::gains(advice));
            sentences.extend(words::firmness(advice).into_iter().take(2));
            sentences
        };
        self.answers.iter().flat_map(of).collect()
    }

    /// The comparison, as the command prints it, in `columns` columns.
    fn text(&self, columns: usize) -> String {
        let style = TermStyle::plain(columns);
        let tables = self.answers.iter().map(|advice| tables::evidence(advice).to_text(&style));
        tables.collect::<Vec<_>>().join("\n")
    }

    /// Every configuration at every size that was tried.
    fn table(&self) -> PyResult<Table> {
        let rows: Vec<(&str, &AdviceRow)> = (self.answers.iter())
            .flat_map(|advice| advice.rows.iter().map(|row| (advice.kernel.name(), row)))
            .collect();
        let ratio = |part: fn(&AdviceRow) -> Option<u64>| rows.iter().map(move |(_, row)| part(row));
        let count = |part: fn(&AdviceRow) -> u64| rows.iter().map(move |(_, row)| Some(part(row)));
        Columns::default()
            .text("kernel", rows.iter().map(|(kernel, _)| *kernel))
            .text("configuration", rows.iter().map(|(_, row)| row.candidate.to_string()))
            .counts("memory_bytes", count(|row| row.memory_bytes))
            .counts("runtime_ratio_ppm_low", ratio(|row| row.runtime_ratio_ppm.map(|ratio| ratio.low)))
            .counts("runtime_ratio_ppm", ratio(|row| row.runtime_ratio_ppm.map(|ratio| ratio.median)))
            .counts("runtime_ratio_ppm_high", ratio(|row| row.runtime_ratio_ppm.map(|ratio| ratio.high)))
            .counts("major_faults_low", count(|row| row.major_faults.low))
            .counts("major_faults", count(|row| row.major_faults.median))
            .counts("major_faults_high", count(|row| row.major_faults.high))
            .counts("mean_bytes", count(|row| row.mean_bytes.median))
            .table()
    }
}
