//! From figures to advice: what to recommend, what it gains, what is odd.

use super::SetUp;
use super::candidate::{CANDIDATES, Candidate};
use super::figures::{AdviceRow, Figure, Tried, ppm};
use super::replays::{Replays, of};
use crate::error::ScenarioError;
use isotherm_units::Bytes;
use serde::Serialize;

/// The set-up to choose.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Recommendation {
    /// Set-up.
    pub candidate: &'static str,
    /// `memory.max`.
    pub memory_bytes: u64,
    /// It as a share of peak, in millionths.
    pub memory_share_ppm: u64,
    /// Its runtime against unlimited memory, in millionths: mean.
    pub runtime_ratio_ppm: u64,
    /// Lower end of the 95 % confidence interval.
    pub runtime_ratio_ci95_low_ppm: Option<u64>,
    /// Upper end: within what was asked for.
    pub runtime_ratio_ci95_high_ppm: Option<u64>,
    /// What it is predicted to gain.
    pub gain: Gain,
}

/// What is gained.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Gain {
    /// Memory saved: peak less `memory.max`.
    pub saved_bytes: u64,
    /// No more than this could be saved with this set-up: peak less the largest size that was tried and is too slow. Absent when
    /// no size was too slow.
    pub saved_at_most_bytes: Option<u64>,
    /// How much lower the memory charge is than without limits, mean over time.
    pub mean_saved_bytes: u64,
    /// Lower end of its 95 % confidence interval.
    pub mean_saved_ci95_low_bytes: Option<u64>,
    /// Upper end.
    pub mean_saved_ci95_high_bytes: Option<u64>,
    /// Runtime against plain `classic` at the same memory. Absent for `classic` itself, and where that is killed.
    pub against_classic: Option<AgainstClassic>,
    /// The smallest size tried at which plain `classic` is fast enough, with all larger ones.
    pub classic_enough_bytes: Option<u64>,
}

/// A ratio of runtimes, pair by pair of repeats, in millionths: below 1 000 000 is faster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct AgainstClassic {
    /// Pairs.
    pub n: u64,
    /// Mean.
    pub runtime_ratio_ppm: u64,
    /// Lower end of the 95 % confidence interval.
    pub runtime_ratio_ci95_low_ppm: Option<u64>,
    /// Upper end.
    pub runtime_ratio_ci95_high_ppm: Option<u64>,
}

/// Something to know about a set-up's figures.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Note {
    /// Which set-up.
    pub candidate: &'static str,
    /// What kind of note.
    pub kind: NoteKind,
    /// It in words.
    pub message: String,
}

/// Kinds of notes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum NoteKind {
    /// More memory is not always better.
    NotMonotonic,
    /// A smaller size is fast enough on average, but its interval is too wide.
    TooUncertain,
    /// Uses less memory than its limit allows.
    UsesLess,
}

/// Index of the smallest size that is fast enough together with all larger ones; `tried` ascend by size.
pub(super) fn smallest_reliable<T>(tried: &[T], fast_enough: impl Fn(&T) -> bool) -> Option<usize> {
    let slow_from_top = tried.iter().rposition(|one| !fast_enough(one)).map_or(0, |index| index + 1);
    (slow_from_top < tried.len()).then_some(slow_from_top)
}

/// Plays all set-ups at the size that will be recommended, and gives out that size; without one, the largest that was tried.
pub(super) fn compare(replays: &Replays<'_>, tried: &mut Vec<Tried>) -> Result<Bytes, ScenarioError> {
    let largest = tried.iter().map(|one| one.size).max().unwrap_or_default();
    // A set-up that is played at one more size may become the one to recommend there: at that size, or a little below. Only sizes
    // that were tried come up, so that it ends.
    loop {
        let size = best(replays, tried).map_or(largest, |best| tried[best].size);
        let is_missing = |index: &usize| !tried.iter().any(|one| one.index == *index && one.size == size);
        let missing: Vec<(usize, Bytes)> =
            (0..CANDIDATES.len()).filter(is_missing).map(|index| (index, size)).collect();
        if missing.is_empty() {
            return Ok(size);
        }
        tried.extend(replays.try_all(&missing)?);
    }
}

/// The one to recommend, by its place in `tried`: the smallest memory among set-ups that Linux has. Sizes that the search does
/// not tell apart count as equal; then what has fewer parts, then the smaller, then the faster.
fn best(replays: &Replays<'_>, tried: &[Tried]) -> Option<usize> {
    let mut enough: Vec<usize> = Vec::new();
    for (index, _) in CANDIDATES.iter().enumerate().filter(|(_, candidate)| candidate.runs_on_linux()) {
        let own = of(tried, index);
        if let Some(place) = smallest_reliable(&own, |one| replays.is_fast_enough(one)) {
            let size = own[place].size;
            enough.extend(tried.iter().position(|one| one.index == index && one.size == size));
        }
    }
    let smallest = enough.iter().map(|&place| tried[place].size.get()).min()?;
    let as_small = |place: &usize| tried[*place].size.get() <= smallest + replays.resolution().get();
    let mean_runtime = |one: &Tried| one.runs.iter().map(|run| u128::from(run.runtime_ns)).sum::<u128>();
    enough.into_iter().filter(as_small).min_by_key(|&place| {
        let one = &tried[place];
        (CANDIDATES[one.index].nr_parts(), one.size, mean_runtime(one))
    })
}

/// What to recommend, with what it gains.
pub(super) fn recommend(replays: &Replays<'_>, tried: &[Tried], rows: &[AdviceRow]) -> Option<Recommendation> {
    let best = &tried[best(replays, tried)?];
    let candidate = &CANDIDATES[best.index];
    let ratio = best.ratio(replays.unlimited.runtime_ns)?;
    let too_slow = of(tried, best.index).into_iter().filter(|one| one.size < best.size).map(|one| one.size.get()).max();
    let unlimited_mean = replays.unlimited.mean_bytes;
    let saved: Vec<f64> = best.runs.iter().map(|run| unlimited_mean as f64 - run.mean_bytes as f64).collect();
    let saved = Figure::of(&saved)?;
    let plain = tried.iter().find(|one| CANDIDATES[one.index].name == "classic" && one.size == best.size);
    let against_classic = plain.filter(|plain| plain.index != best.index).and_then(|plain| {
        let pairs: Option<Vec<f64>> = (best.runs.iter().zip(&plain.runs))
            .map(|(run, base)| {
                base.ratio_ppm(replays.unlimited.runtime_ns)?;
                Some(ppm(run.runtime_ns, base.runtime_ns)? as f64)
            })
            .collect();
        let ratio = Figure::of(&pairs?)?;
        Some(AgainstClassic {
            n: ratio.n,
            runtime_ratio_ppm: ratio.mean_int(),
            runtime_ratio_ci95_low_ppm: ratio.low_int(),
            runtime_ratio_ci95_high_ppm: ratio.high_int(),
        })
    });
    Some(Recommendation {
        candidate: candidate.name,
        memory_bytes: best.size.get(),
        memory_share_ppm: ppm(best.size.get(), replays.peak.get())?,
        runtime_ratio_ppm: ratio.mean_int(),
        runtime_ratio_ci95_low_ppm: ratio.low_int(),
        runtime_ratio_ci95_high_ppm: ratio.high_int(),
        gain: Gain {
            saved_bytes: replays.peak.get().saturating_sub(best.size.get()),
            saved_at_most_bytes: too_slow.map(|too_slow| replays.peak.get().saturating_sub(too_slow)),
            mean_saved_bytes: saved.mean_int(),
            mean_saved_ci95_low_bytes: saved.low_int(),
            mean_saved_ci95_high_bytes: saved.high_int(),
            against_classic,
            classic_enough_bytes: enough_bytes("classic", rows),
        },
    })
}

/// The smallest size at which `name` is fast enough, together with all larger ones.
fn enough_bytes(name: &str, rows: &[AdviceRow]) -> Option<u64> {
    let own: Vec<&AdviceRow> = rows.iter().filter(|row| row.candidate == name).collect();
    smallest_reliable(&own, |row| row.is_fast_enough).map(|place| own[place].memory_bytes)
}

pub(super) fn set_up(replays: &Replays<'_>, candidate: &Candidate, rows: &[AdviceRow]) -> SetUp {
    SetUp {
        candidate: candidate.name,
        runs_on_linux: candidate.runs_on_linux(),
        enough_bytes: enough_bytes(candidate.name, rows),
        presets: replays.presets(candidate),
    }
}

/// What is odd, or worth a second look.
pub(super) fn notes(
    replays: &Replays<'_>,
    rows: &[AdviceRow],
    best: Option<&Recommendation>,
    compared: Bytes,
) -> Vec<Note> {
    let linux = || CANDIDATES.iter().filter(|candidate| candidate.runs_on_linux());
    let mut notes: Vec<Note> = linux().filter_map(|candidate| not_monotonic(candidate.name, rows)).collect();
    notes.extend(linux().filter_map(|candidate| too_uncertain(replays, candidate.name, rows)));
    if let Some(best) = best {
        notes.extend(linux().filter_map(|candidate| uses_less(candidate, rows, best, compared)));
    }
    notes
}

/// Faults that are worth a word.
const FAULTS_MIN: u64 = 100;

/// The pair of sizes of which the larger has most more major faults than the smaller: by a tenth and [`FAULTS_MIN`], with all of its
/// interval above the mean of the smaller. The intervals are told, because the smaller's may be wide: limits 1 % apart can differ
/// as much.
fn not_monotonic(name: &'static str, rows: &[AdviceRow]) -> Option<Note> {
    // What was killed had no time for more faults.
    let own: Vec<&AdviceRow> = rows.iter().filter(|row| row.candidate == name && row.unfinished == 0).collect();
    let mut worst: Option<(u64, &AdviceRow, &AdviceRow)> = None;
    for (place, small) in own.iter().enumerate() {
        for large in &own[place + 1..] {
            let (few, many) = (small.major_faults, large.major_faults);
            let is_clear = large.major_faults_ci95_low.unwrap_or(many) > few;
            let more = many.saturating_sub(few);
            if is_clear && more >= FAULTS_MIN.max(few / 10) && more > worst.map_or(0, |(more, ..)| more) {
                worst = Some((more, small, large));
            }
        }
    }
    let (_, small, large) = worst?;
    let faults = |row: &AdviceRow| match (row.major_faults_ci95_low, row.major_faults_ci95_high) {
        (Some(low), Some(high)) => format!("{} ({low} to {high})", row.major_faults),
        _ => row.major_faults.to_string(),
    };
    let size = |row: &AdviceRow| Bytes::new(row.memory_bytes).approx();
    let message = format!(
        "more memory is not always better: {} major faults with {}, but {} with {}",
        faults(small),
        size(small),
        faults(large),
        size(large),
    );
    Some(Note { candidate: name, kind: NoteKind::NotMonotonic, message })
}

/// A size below the one that is enough which is fast enough on average, with all sizes in between.
fn too_uncertain(replays: &Replays<'_>, name: &'static str, rows: &[AdviceRow]) -> Option<Note> {
    let own: Vec<&AdviceRow> = rows.iter().filter(|row| row.candidate == name).collect();
    let is_on_average = |row: &&AdviceRow| row.runtime_ratio_ppm.is_some_and(|ratio| ratio <= replays.allowed_ppm());
    let on_average = smallest_reliable(&own, is_on_average)?;
    let surely = smallest_reliable(&own, |row| row.is_fast_enough).unwrap_or(own.len());
    let doubtful = own[on_average..surely].iter().find(|row| !row.is_fast_enough)?;
    let upper = doubtful.runtime_ratio_ci95_high_ppm?.saturating_sub(1_000_000);
    let message = format!(
        "{} would do on average, but not surely: the upper end of the interval is {}.{} % slower",
        Bytes::new(doubtful.memory_bytes).approx(),
        upper / 10_000,
        upper % 10_000 / 1_000,
    );
    Some(Note { candidate: name, kind: NoteKind::TooUncertain, message })
}

/// A combination that is fast enough at the recommended size and holds clearly less memory there, by 5 % and more.
fn uses_less(candidate: &Candidate, rows: &[AdviceRow], best: &Recommendation, size: Bytes) -> Option<Note> {
    let at = |name: &str| rows.iter().find(|row| row.candidate == name && row.memory_bytes == size.get());
    let (row, base) = (at(candidate.name)?, at(best.candidate)?);
    let is_enough = enough_bytes(candidate.name, rows).is_some_and(|enough| enough <= size.get());
    let is_clear = row.mean_ci95_high_bytes? < base.mean_ci95_low_bytes?;
    if !is_enough || !is_clear || row.mean_bytes + base.mean_bytes / 20 > base.mean_bytes {
        return None;
    }
    let slower = row.runtime_ratio_ppm?.saturating_sub(1_000_000);
    let message = format!(
        "holds {} on average under the same limit, {} less than {}, and is {}.{} % slower than with unlimited memory",
        Bytes::new(row.mean_bytes).approx(),
        Bytes::new(base.mean_bytes - row.mean_bytes).approx(),
        best.candidate,
        slower / 10_000,
        slower % 10_000 / 1_000,
    );
    Some(Note { candidate: candidate.name, kind: NoteKind::UsesLess, message })
}

#[cfg(test)]
mod tests {
    use super::super::figures::tests::row;
    use super::*;

    #[test]
    fn a_size_counts_only_if_all_larger_ones_are_fast_enough_too() {
        let fast = [true, false, true, true];
        assert_eq!(smallest_reliable(&fast, |fast| *fast), Some(2));
        assert_eq!(smallest_reliable(&fast[..2], |fast| *fast), None);
        assert_eq!(smallest_reliable(&[], |fast: &bool| *fast), None);
    }

    #[test]
    fn a_curve_that_rises_is_told_with_its_worst_pair() {
        let rows = [row("mglru", 1 << 20, 5000), row("mglru", 2 << 20, 830), row("mglru", 3 << 20, 3039)];
        let note = not_monotonic("mglru", &rows).expect("it rises");
        assert_eq!(
            note.message,
            "more memory is not always better: 830 (830 to 830) major faults with 2.00 MiB, but 3039 (3039 to 3039) with \
             3.00 MiB"
        );
        assert_eq!(not_monotonic("mglru", &rows[..2]), None, "it falls");
        let killed = AdviceRow { unfinished: 5, ..row("mglru", 1 << 20, 10) };
        assert_eq!(not_monotonic("mglru", &[killed, rows[1].clone()]), None, "killed early");
        let unsure = AdviceRow { major_faults_ci95_low: Some(800), ..rows[2].clone() };
        assert_eq!(not_monotonic("mglru", &[rows[1].clone(), unsure]), None, "within the interval");
        let few = [row("mglru", 1, 50), row("mglru", 2, 149)];
        assert_eq!(not_monotonic("mglru", &few), None, "too few to tell");
    }
}
