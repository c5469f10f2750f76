//! Answers of `isotherm advise` for the programs that it is judged on, and predictions of stored plays.

use std::collections::BTreeMap;
use std::path::Path;

use isotherm_advise::{Effort, Question, Recommendation, Sampling, predict, recommend_each};
use isotherm_fidelity::advice::answer::HOLD_PERCENT;
use isotherm_fidelity::advice::{Answer, Answers, Interval, Listed, Prediction, Recommended, StoredPlay};
use isotherm_kernel::memory::KernelRelease;
use isotherm_terminal::{BarProgress, CliError, Ui};
use isotherm_units::{Amount, Bytes, PAGE_BYTES, Ratio};

/// Allowed slow-downs that are judged, in percent.
const SLOWDOWNS_PERCENT: [u32; 3] = [2, 5, 10];
/// Sizes that are asked for, in percent of the peak: the default of `isotherm advise`.
const MEMORY_PERCENT: [u64; 7] = [40, 50, 60, 70, 80, 90, 100];
/// Replays of each configuration at each size whose interval is compared with a stored play: as many as for a recommendation.
const DRAWS: usize = 10;

fn question(listed: &Listed, root: &Path, kernel: &str) -> Result<Question, CliError> {
    let kernel: KernelRelease = kernel.parse().map_err(CliError::usage)?;
    Ok(Question {
        memory: MEMORY_PERCENT.map(|percent| Amount::Share(Ratio::from_percent(percent))).to_vec(),
        effort: Effort::Thorough,
        sampling: Sampling::Off,
        only_recorded: true,
        ..Question::usual(listed.name.clone(), root.join(&listed.path), vec![kernel])
    })
}

/// Asks for a recommendation for each of these programs, kernels and slow-downs. A missing recording is skipped.
pub(super) fn answers(listed: &[&Listed], root: &Path, kernels: &[&str], ui: &Ui) -> Result<Answers, CliError> {
    let mut answers = Vec::new();
    let slowdowns = SLOWDOWNS_PERCENT.map(|percent| Ratio::from_percent(u64::from(percent)));
    for listed in there(listed, root, ui) {
        for kernel in kernels {
            let bar = BarProgress::new(ui, &format!("asking of {} on {kernel}", listed.name));
            let each = recommend_each(&question(listed, root, kernel)?, &slowdowns, &bar);
            bar.finish();
            let each = each?;
            answers.extend(SLOWDOWNS_PERCENT.into_iter().zip(each).map(|(slowdown_percent, best)| Answer {
                program: listed.name.clone(),
                kernel: (*kernel).to_owned(),
                slowdown_percent,
                recommended: best.as_ref().map(recommended),
            }));
        }
    }
    let note = "upper ends at the recommended size, at 3 % and at 10 % more, as `isotherm advise` gives them";
    Ok(Answers { rule: "band".to_owned(), note: note.to_owned(), answers })
}

/// The judged part of a recommendation. Beyond the largest size that was tried, the prediction at the recommended size is promised.
fn recommended(best: &Recommendation) -> Recommended {
    let upper = |percent: u64| {
        let neighbour = best.neighbours.iter().find(|neighbour| neighbour.of_recommended_permil == percent * 10);
        neighbour.map_or(best.major_faults.high, |neighbour| neighbour.major_faults.high)
    };
    Recommended {
        candidate: best.candidate.to_owned(),
        policy: best.candidate.split(" + ").next().unwrap_or_default().to_owned(),
        memory_bytes: best.memory_bytes,
        upper_faults: HOLD_PERCENT.map(upper),
        allowed_faults: best.allowed_faults,
    }
}

/// Predicts the major faults of stored plays of one kernel by chance only: the model's error is computed from these.
pub(super) fn predictions(
    listed: &[&Listed],
    root: &Path,
    kernel: &str,
    plays: &[StoredPlay],
    ui: &Ui,
) -> Result<Vec<Prediction>, CliError> {
    let mut predictions = Vec::new();
    for listed in there(listed, root, ui) {
        let own: Vec<&StoredPlay> = plays.iter().filter(|play| play.key.program == listed.name).collect();
        let wanted: Vec<(&str, Bytes)> =
            own.iter().map(|play| (play.key.policy.as_str(), Bytes::new(play.key.limit_pages * PAGE_BYTES))).collect();
        if wanted.is_empty() {
            continue;
        }
        let bar = BarProgress::new(ui, &format!("predicting {} on {kernel}", listed.name));
        let found = predict(&question(listed, root, kernel)?, &wanted, DRAWS, &bar);
        bar.finish();
        for found in found? {
            let faults = Interval { low: found.major_faults.chance_low, high: found.major_faults.chance_high };
            predictions.push(Prediction {
                kernel: kernel.to_owned(),
                program: listed.name.clone(),
                policy: found.candidate.to_owned(),
                limit_pages: found.memory_bytes / PAGE_BYTES,
                counters: BTreeMap::from([("major_faults".to_owned(), faults)]),
            });
        }
    }
    Ok(predictions)
}

fn there<'a>(listed: &[&'a Listed], root: &Path, ui: &Ui) -> Vec<&'a Listed> {
    let is_there = |listed: &&Listed| {
        let is_there = root.join(&listed.path).exists();
        if !is_there {
            ui.say(format_args!("{} is skipped: its recording {} is not there", listed.name, listed.path.display()));
        }
        is_there
    };
    listed.iter().copied().filter(is_there).collect()
}
