//! Predictions without a recommendation: expected results of a configuration at given sizes. Used for comparisons with real kernels.

use super::candidate::CANDIDATES;
use super::choice::{self, Recommendation};
use super::expected::Interval;
use super::{Question, in_pool, releases, search};
use isotherm_kernel::memory::KernelRelease;
use isotherm_scenario::{Progress, ScenarioError};
use isotherm_units::{Bytes, Ratio};
use serde::Serialize;

/// Expected results of a configuration at a size.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Prediction {
    pub kernel: KernelRelease,
    /// Name of the configuration, such as `classic + reclaim`.
    pub candidate: &'static str,
    /// `memory.max` of the program's group, bytes.
    pub memory_bytes: u64,
    /// Number of replays behind the figures.
    pub n: u64,
    pub major_faults: Interval,
    /// Runtime against unlimited memory, in millionths; absent when the program was killed in a replay.
    pub runtime_ratio_ppm: Option<Interval>,
    /// Major faults that cost the allowed slow-down, beyond the faults with unlimited memory, by the cost of a fault in these replays;
    /// absent if no replay had more faults than without limits.
    pub allowed_faults: Option<u64>,
}

/// Plays configurations, by name, at sizes, `draws` times each, on every release of the question; its own sizes are not played.
///
/// # Errors
/// As [`advise`](super::advise); a configuration that is not in the table has no prediction.
pub fn predict(
    question: &Question,
    wanted: &[(&str, Bytes)],
    draws: usize,
    progress: &dyn Progress,
) -> Result<Vec<Prediction>, ScenarioError> {
    in_pool(question.threads, || {
        let mut predictions = Vec::new();
        for mut judge in releases(question, &question.trace, None, progress)? {
            let index_of = |name: &str| CANDIDATES.iter().position(|candidate| candidate.name == name);
            let places: Vec<(usize, Bytes)> =
                wanted.iter().filter_map(|&(name, size)| Some((index_of(name)?, size))).collect();
            judge.player.play_up_to(draws, &places)?;
            for (index, size) in places {
                let Some(expected) = judge.expected(index, size) else { continue };
                predictions.push(Prediction {
                    kernel: judge.player.kernel,
                    candidate: CANDIDATES[index].name,
                    memory_bytes: size.get(),
                    n: expected.n as u64,
                    major_faults: expected.faults,
                    runtime_ratio_ppm: expected.ratio,
                    allowed_faults: judge.allowed_faults(index),
                });
            }
        }
        Ok(predictions)
    })
}

/// The recommendation on the first release of a question for each of these slow-downs: [`advise`](super::advise) without figures that are
/// only shown, so that many questions can be asked. `None`: nothing is safe.
///
/// # Errors
/// As [`advise`](super::advise).
pub fn recommend_each(
    question: &Question,
    slowdowns: &[Ratio],
    progress: &dyn Progress,
) -> Result<Vec<Option<Recommendation>>, ScenarioError> {
    in_pool(question.threads, || {
        let mut releases = releases(question, &question.trace, None, progress)?;
        let mut recommended = Vec::new();
        for &slowdown in slowdowns {
            let configurations = choice::calibrated(&releases);
            for judge in &mut releases {
                judge.slowdown = slowdown;
                search::survey(judge, &configurations)?;
            }
            let choice = choice::choose(&mut releases)?;
            let on_first = |choice| releases.first().and_then(|judge| choice::recommend(judge, choice));
            recommended.push(choice.and_then(on_first));
        }
        Ok(recommended)
    })
}
