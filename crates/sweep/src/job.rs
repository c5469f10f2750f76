//! One run as a job, and its answer.

use isotherm_scenario::{RunOptions, ScenarioResult};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Instant;

/// A run to play.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Job {
    /// Number of the run in its plan.
    pub number: usize,
    /// The scenario, as text.
    pub scenario: String,
    /// Where its relative paths start.
    pub folder: PathBuf,
}

/// Result of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Answer {
    pub number: usize,
    /// Time it took, seconds, on one processor. Results do not depend on it.
    pub seconds: f64,
    /// Message: why there is no result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rows: Vec<JobRow>,
}

/// A workload under a variant.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct JobRow {
    pub workload: String,
    pub variant: String,
    /// The release whose rules the simulated kernel followed.
    pub kernel: String,
    pub ending: Ending,
    /// Values by name of the metric.
    pub values: BTreeMap<String, f64>,
}

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Ending {
    Finished,
    /// A process was killed for lack of memory: figures are of the time before.
    Killed,
    /// There are no figures.
    Failed,
}

impl Ending {
    /// Name as in the dataset.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Finished => "finished",
            Self::Killed => "killed",
            Self::Failed => "failed",
        }
    }
}

impl Answer {
    /// There is no result; `error` has the reason.
    pub fn failed(number: usize, seconds: f64, error: String) -> Self {
        Self { number, seconds, error: Some(error), rows: Vec::new() }
    }
}

/// Plays a run on this thread. All errors are in the answer: a failed run does not end the others.
pub fn play(job: &Job) -> Answer {
    let began = Instant::now();
    let played = std::panic::catch_unwind(|| {
        let place = format!("run {}", job.number);
        let scenario = isotherm_scenario::parse(&job.scenario, &place).map_err(|error| error.to_string())?;
        let options = RunOptions { base_dir: job.folder.clone(), place, threads: Some(1) };
        isotherm_scenario::run(&scenario, &options, &()).map_err(|error| error.to_string())
    });
    let seconds = began.elapsed().as_secs_f64();
    match played {
        Ok(Ok(result)) => Answer { number: job.number, seconds, error: None, rows: rows(&result) },
        Ok(Err(error)) => Answer::failed(job.number, seconds, error),
        Err(panic) => {
            let said = panic.downcast_ref::<String>().map(String::as_str);
            let said = said.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no more is known");
            Answer::failed(job.number, seconds, format!("the simulation broke off, a bug of isotherm: {said}"))
        }
    }
}

fn rows(result: &ScenarioResult) -> Vec<JobRow> {
    let mut rows: Vec<JobRow> = Vec::new();
    for row in &result.rows {
        let kernel = row.kernel.to_string();
        let is_it = |known: &&mut JobRow| {
            known.workload == row.workload && known.variant == row.variant && known.kernel == kernel
        };
        let values = match rows.iter_mut().find(is_it) {
            Some(known) => &mut known.values,
            None => {
                let is_killed = result.killed.iter().any(|killed| {
                    killed.workload == row.workload && killed.variant == row.variant && killed.kernel == row.kernel
                });
                rows.push(JobRow {
                    workload: row.workload.clone(),
                    variant: row.variant.clone(),
                    kernel,
                    ending: if is_killed { Ending::Killed } else { Ending::Finished },
                    values: BTreeMap::new(),
                });
                &mut rows.last_mut().expect("just pushed").values
            }
        };
        values.insert(row.metric.clone(), row.mean);
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(scenario: &str) -> Job {
        Job { number: 7, scenario: scenario.into(), folder: PathBuf::from("nowhere") }
    }

    const SCAN: &str = "[[workloads]]\nname = 'w'\nload = { kind = 'scan', footprint = '4MiB', repeat = 3 }";

    #[test]
    fn a_run_has_a_row_for_each_workload_and_variant() {
        let variants = "[[variants]]\nname = 'a'\npatch = { policy = 'lru' }\n[[variants]]\nname = 'b'\npatch = {}";
        let answer = play(&job(&format!("name = 'x'\nmetrics = ['runtime_ns', 'major_faults']\n{SCAN}\n{variants}")));
        assert_eq!((answer.number, answer.error), (7, None));
        let names: Vec<_> = answer.rows.iter().map(|row| (row.workload.as_str(), row.variant.as_str())).collect();
        assert_eq!(names, [("w", "a"), ("w", "b")]);
        for row in &answer.rows {
            assert_eq!(row.ending, Ending::Finished);
            assert!(row.values["runtime_ns"] > 0.0 && row.values.contains_key("major_faults"), "{row:?}");
        }
    }

    #[test]
    fn what_is_wrong_with_a_run_is_its_answer() {
        let answer = play(&job("name = 'x'"));
        assert!(answer.error.unwrap().contains("missing field `workloads`"));
        let trace = "[[workloads]]\nname = 'w'\nload = { kind = 'trace', path = 'none.parquet' }";
        let answer = play(&job(&format!("name = 'x'\n{trace}")));
        assert!(answer.error.unwrap().contains("none.parquet") && answer.rows.is_empty());
    }
}
