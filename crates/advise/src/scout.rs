//! Samples of long recordings: as scouts that find the sizes to try, or in place of the whole.
//!
//! A replay of a sixteenth of the memory takes a sixteenth of the time. A scout makes the whole search; then the whole recording is played
//! at the sizes that decide the answer. So a recommendation is always based on replays of the whole, unless a sample was asked for.

use super::Question;
use super::choice::{self, Choice};
use super::effort::Effort;
use super::judge::Judge;
use super::search;
use isotherm_scenario::{Progress, ScenarioError};
use isotherm_trace::sample::{SampleRate, write_sample};
use isotherm_trace::{TraceError, TraceReader};
use isotherm_units::Bytes;
use std::path::Path;
use tempfile::NamedTempFile;

/// Use of samples.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sampling {
    /// The whole; of a long recording with much memory, a sample first finds the sizes to try.
    #[default]
    Auto,
    /// The whole alone.
    Off,
    /// The whole, after this sample has found the sizes to try.
    Scout(SampleRate),
    /// This sample alone.
    Only(SampleRate),
}

/// Least peak of a sample: 240 groups of pages, a sixteenth of a little less than 1 GiB.
pub const SAMPLE_PEAK_MIN: Bytes = Bytes::from_mib(60);
/// Page touches of a scout, about.
const SCOUT_ACCESSES: u64 = 1_000_000;
/// Least ratio of the whole to a scout: a longer scout does not help.
const SCOUT_MIN: u32 = 4;
const SCOUT_MAX: u32 = 64;

/// The sample that scouts for a recording, if that is long and large enough.
pub(super) fn scout_for(question: &Question, peak: Bytes) -> Option<SampleRate> {
    match question.sampling {
        Sampling::Scout(rate) => return Some(rate),
        Sampling::Auto if question.effort != Effort::Thorough => {}
        Sampling::Auto | Sampling::Off | Sampling::Only(_) => return None,
    }
    let meta = TraceReader::open(&question.trace).ok()?.meta().clone();
    if meta.sample.is_some() {
        return None;
    }
    let times = (meta.accesses / SCOUT_ACCESSES).min(peak.get() / SAMPLE_PEAK_MIN.get());
    let times = u32::try_from(times).unwrap_or(u32::MAX).min(SCOUT_MAX);
    let times = times.checked_ilog2().map_or(0, |log| 1 << log);
    SampleRate::one_in(times).filter(|_| times >= SCOUT_MIN)
}

/// Work of making a sample, for progress, where a replay of the whole is a thousand.
const READING_UNITS: u64 = 400;

/// Makes a sample, as a file that is removed when it is dropped.
pub(super) fn sampled(trace: &Path, rate: SampleRate, progress: &dyn Progress) -> Result<NamedTempFile, ScenarioError> {
    let meaning = |message: String| ScenarioError::Meaning { place: trace.display().to_string(), message };
    let told = |error: TraceError| meaning(error.to_string());
    let file = tempfile::Builder::new().prefix("isotherm-").suffix(".parquet").tempfile();
    let file = file.map_err(|error| meaning(format!("there is no room for a sample of it: {error}")))?;
    let mut reader = TraceReader::open(trace).map_err(told)?;
    let nr_rows = reader.meta().rows.max(1);
    let (mut nr_read, mut units) = (0, 0);
    progress.planned(READING_UNITS);
    let read = |rows| {
        nr_read += rows;
        let now = (READING_UNITS * nr_read / nr_rows).min(READING_UNITS);
        progress.done(now - units);
        units = now;
    };
    write_sample(&mut reader, rate, file.path(), read).map_err(told)?;
    Ok(file)
}

/// Refuses a sample that would mislead: one with too few pages.
pub(super) fn check_size(question: &Question, rate: SampleRate, peak: Bytes) -> Result<(), ScenarioError> {
    let own = peak.get() / u64::from(rate.get());
    if own >= SAMPLE_PEAK_MIN.get() {
        return Ok(());
    }
    let largest = peak.get() / SAMPLE_PEAK_MIN.get();
    let way_out =
        if largest >= 2 { format!("take 1/{largest} or a larger part") } else { "leave --sample out".to_owned() };
    let message = format!(
        "its peak is {}: a sample of {rate} has {} of that, and fewer than {SAMPLE_PEAK_MIN} say too little; {way_out}",
        peak.approx(),
        Bytes::new(own).approx(),
    );
    Err(ScenarioError::Meaning { place: question.name.clone(), message })
}

/// The search on the scouts, one for each of `releases`, and takes over their results.
pub(super) fn scout<'a>(
    releases: &mut [Judge<'a>],
    scouts: &mut [Judge<'a>],
    configurations: &[usize],
) -> Result<(), ScenarioError> {
    for scout in scouts.iter_mut() {
        search::survey(scout, configurations)?;
    }
    let choice = choice::choose(scouts)?;
    for scout in scouts.iter_mut() {
        search::survey_combinations(scout, choice.map(|choice| choice.size))?;
    }
    for (whole, scout) in releases.iter_mut().zip(scouts.iter_mut()) {
        whole.player.know_unlimited_by(&mut scout.player)?;
        whole.player.pool.take_samples_of(&scout.player.pool);
        whole.is_scouted = true;
    }
    Ok(())
}

/// All configurations at the recommended size, played by the scouts.
pub(super) fn compare(
    releases: &mut [Judge<'_>],
    scouts: &mut [Judge<'_>],
    choice: Option<Choice>,
) -> Result<(), ScenarioError> {
    for (whole, scout) in releases.iter_mut().zip(scouts.iter_mut()) {
        let size = choice::compared(whole, choice);
        choice::compare(scout, Some(Choice { index: 0, size }))?;
        whole.player.pool.take_samples_of(&scout.player.pool);
    }
    Ok(())
}
