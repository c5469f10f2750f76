//! Makes advice from figures: the recommendation, its gain, and notes.

use super::Configuration;
use super::candidate::{CANDIDATES, Candidate, FEWEST_FAULTS};
use super::expected::Interval;
use super::figures::AdviceRow;
use super::judge::{EQUAL_STEPS, Judge};
use super::kills::{self, KillChance, Kills};
use super::robust::{GambleBand, Neighbour, Odds, gambles, neighbours, odds, scaled};
use super::run::{Run, ppm};
use super::search::{lowest_safe, settle};
use isotherm_scenario::ScenarioError;
use isotherm_units::Bytes;
use serde::Serialize;

/// The recommended configuration and size.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Recommendation {
    /// Name of the configuration, such as `classic + reclaim`.
    pub candidate: &'static str,
    /// Recommended `memory.max`, bytes.
    pub memory_bytes: u64,
    /// `memory_bytes` as a share of peak, in millionths.
    pub memory_share_ppm: u64,
    /// Replays that the figures are drawn from.
    pub n: u64,
    /// Run time relative to unlimited memory, in millionths. The upper end is within the allowed slow-down.
    pub runtime_ratio_ppm: Interval,
    /// That ratio at most, as far as native runs of other programs say; absent where they say nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub native_at_most_ppm: Option<u64>,
    pub major_faults: Interval,
    /// Major faults that cost the allowed slow-down, by the cost of a fault in these replays; absent where none had more faults than with
    /// unlimited memory.
    pub allowed_faults: Option<u64>,
    /// Of these replays those that were killed for lack of memory: none, with the chance of that in a run; of the kind of start that is
    /// killed more often.
    pub kills: Kills,
    /// The chance of a kill in a run of that kind, from replays with less memory and more too.
    pub kill_chance: KillChance,
    /// Kills in replays with clearly less memory, down to a tenth less.
    pub kills_with_less: Kills,
    /// The predicted gain compared with unlimited memory and with plain `classic`.
    pub gain: Gain,
    /// The same configuration with 3 % less, 3 % more and 10 % more memory.
    pub neighbours: Vec<Neighbour>,
    /// The price of safety: the chance of being too slow, by memory.
    pub odds: Vec<Odds>,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Gain {
    /// Memory saved, bytes: peak minus `memory.max`.
    pub saved_bytes: u64,
    /// No more than this could be saved with this configuration: peak less the largest size that was tried and is not safe. Absent when
    /// no size was too slow.
    pub saved_at_most_bytes: Option<u64>,
    /// How much lower the memory charge is than without limits, mean over time; by chance only.
    pub mean_saved_bytes: Interval,
    /// Runtime against plain `classic` at the same memory. Absent for `classic` itself, and where that is killed.
    pub against_classic: Option<AgainstClassic>,
    /// The smallest size tried at which plain `classic` is safe.
    pub classic_enough_bytes: Option<u64>,
}

/// A ratio of runtimes, pair by pair of replays that had the same chance, in millionths: below 1 000 000 is faster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct AgainstClassic {
    /// Number of pairs of replays.
    pub n: u64,
    /// The ratios of run times, in millionths; by chance only.
    pub runtime_ratio_ppm: Interval,
}

/// A note on a configuration's figures.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Note {
    /// Name of the configuration.
    pub candidate: &'static str,
    pub kind: NoteKind,
    /// The note as a sentence.
    pub message: String,
}

/// Subject of a note.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum NoteKind {
    /// At some sizes the outcomes fall into two groups.
    Gamble,
    /// More memory is not always better.
    NotMonotonic,
    /// A smaller size is fast enough in most replays, but not surely.
    TooUncertain,
    /// Would need less memory, but was never compared with real kernels.
    NotCalibrated,
    /// Uses less memory than its limit allows.
    UsesLess,
}

/// A recommendation: a configuration, by its number in the table, and a size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Choice {
    pub(super) index: usize,
    pub(super) size: Bytes,
}

/// The smallest safe memory among configurations whose predictions were compared with real kernels of all these releases. Of configurations
/// that the search finds equal, the one that loses least with 3 % less memory; then the smaller.
pub(super) fn choose(releases: &mut [Judge<'_>]) -> Result<Option<Choice>, ScenarioError> {
    let is_race = releases.iter().all(|judge| judge.player.question.effort.is_race());
    let open = calibrated(releases);
    let settled = settle(releases, open, is_race)?;
    let safe: Vec<Choice> = settled.into_iter().map(|(index, size)| Choice { index, size }).collect();
    let Some(smallest) = safe.iter().map(|choice| choice.size).min() else { return Ok(None) };
    let step = releases.iter().map(|judge| judge.player.step_at(smallest).get()).max().unwrap_or(0);
    let is_as_small = |choice: &Choice| choice.size.get() <= smallest.get() + EQUAL_STEPS * step;
    let excess_with_less = |choice: &Choice| {
        let worst = |judge: &Judge<'_>| {
            let expected = judge.expected(choice.index, scaled(choice.size, 970));
            expected.map_or(u64::MAX, |expected| expected.excess_ppm())
        };
        releases.iter().map(worst).max().unwrap_or(u64::MAX)
    };
    Ok(safe.into_iter().filter(is_as_small).min_by_key(|choice| (excess_with_less(choice), choice.size)))
}

/// Configurations that may be recommended: of the policy that was asked for, if one was, and with predictions that were compared with real
/// kernels of all these releases.
pub(super) fn calibrated(releases: &[Judge<'_>]) -> Vec<usize> {
    let may_be = |judge: &Judge<'_>, index: usize| {
        judge.model_error(index).is_some() && CANDIDATES[index].may_be_recommended(judge.player.question)
    };
    (0..CANDIDATES.len()).filter(|&index| releases.iter().all(|judge| may_be(judge, index))).collect()
}

/// Plays all configurations at the size that will be recommended, and returns that size; without one, the largest that was tried.
pub(super) fn compare(judge: &mut Judge<'_>, choice: Option<Choice>) -> Result<Bytes, ScenarioError> {
    let size = compared(judge, choice);
    let effort = judge.player.question.effort;
    let (finalists, others): (Vec<usize>, Vec<usize>) =
        judge.player.question.candidates().into_iter().partition(|&index| judge.model_error(index).is_some());
    for (indices, times) in [(finalists, effort.to_compare()), (others, effort.to_show())] {
        let places: Vec<(usize, Bytes)> = indices.into_iter().map(|index| (index, size)).collect();
        judge.player.play_up_to(times, &places)?;
    }
    Ok(size)
}

/// The size at which all configurations are compared.
pub(super) fn compared(judge: &Judge<'_>, choice: Option<Choice>) -> Bytes {
    let largest = judge.player.pool.places().map(|(_, size)| size).max().unwrap_or_default();
    choice.map_or(largest, |choice| choice.size)
}

/// The recommendation, with its gain on this release.
pub(super) fn recommend(judge: &Judge<'_>, choice: Choice) -> Option<Recommendation> {
    let Choice { index, size } = choice;
    let expected = judge.expected(index, size)?;
    let runs = judge.player.pool.around(index, size);
    let (kills, kill_chance) = kills::chance(judge, index, size)?;
    let is_unsafe =
        |size: &Bytes| !judge.expected(index, *size).is_some_and(|expected| judge.is_fast_enough(&expected));
    let too_slow = judge.player.pool.sizes(index).take_while(|&below| below < size).filter(is_unsafe).last();
    let saved = |run: &Run| judge.player.unlimited_mean(run.draw).saturating_sub(run.mean_bytes);
    let classic = CANDIDATES.iter().position(|candidate| candidate.name == "classic");
    let against_classic = classic.filter(|&classic| classic != index).and_then(|classic| {
        let plain = judge.player.pool.at(classic, size);
        let pair = |run: &Run| {
            let base = plain.iter().find(|base| base.draw == run.draw)?;
            Some((run.ratio_ppm, base.ratio_ppm))
        };
        let pairs = judge.player.pool.at(index, size).iter().filter_map(pair);
        let ratios: Option<Vec<u64>> = pairs.map(|(own, base)| ppm(own?, base?)).collect();
        let mut ratios = ratios?;
        Some(AgainstClassic { n: ratios.len() as u64, runtime_ratio_ppm: Interval::of_chance(&mut ratios)? })
    });
    Some(Recommendation {
        candidate: CANDIDATES[index].name,
        memory_bytes: size.get(),
        memory_share_ppm: ppm(size.get(), judge.player.peak.get())?,
        n: expected.n as u64,
        runtime_ratio_ppm: expected.ratio?,
        native_at_most_ppm: None,
        major_faults: expected.faults,
        allowed_faults: judge.allowed_faults(index),
        kills,
        kill_chance,
        kills_with_less: Kills::of(&judge.player.pool.a_little_below(index, size)),
        gain: Gain {
            saved_bytes: judge.player.peak.get().saturating_sub(size.get()),
            saved_at_most_bytes: too_slow.map(|too_slow| judge.player.peak.get().saturating_sub(too_slow.get())),
            mean_saved_bytes: Interval::of_runs(&runs, saved)?,
            against_classic,
            classic_enough_bytes: classic.and_then(|classic| lowest_safe(judge, classic)).map(Bytes::get),
        },
        neighbours: neighbours(judge, index, size),
        odds: odds(judge, index, size),
    })
}

pub(super) fn configuration(judge: &Judge<'_>, index: usize, candidate: &Candidate) -> Configuration {
    let has_time = candidate.name != FEWEST_FAULTS;
    Configuration {
        candidate: candidate.name,
        runs_on_linux: candidate.runs_on_linux(),
        is_calibrated: judge.model_error(index).is_some(),
        enough_bytes: if has_time { lowest_safe(judge, index).map(Bytes::get) } else { None },
        presets: judge.player.presets(candidate),
    }
}

/// Notes on unusual figures.
pub(super) fn notes(
    judge: &Judge<'_>,
    rows: &[AdviceRow],
    best: Option<&Recommendation>,
    compared: Bytes,
) -> Vec<Note> {
    let tried = judge.player.question.candidates();
    let linux =
        || tried.iter().map(|&index| (index, &CANDIDATES[index])).filter(|(_, candidate)| candidate.runs_on_linux());
    let bands: Vec<GambleBand> = linux().flat_map(|(index, candidate)| gambles(judge, index, candidate.name)).collect();
    let mut notes: Vec<Note> = bands.iter().map(gamble).collect();
    let is_gamble = |name: &str| bands.iter().any(|band| band.candidate == name);
    // A gamble rises and falls, which is reported already.
    notes.extend(
        linux()
            .filter(|(_, candidate)| !is_gamble(candidate.name))
            .filter_map(|(_, candidate)| not_monotonic(candidate.name, rows)),
    );
    notes.extend(linux().filter_map(|(index, candidate)| too_uncertain(judge, index, candidate.name)));
    if let Some(best) = best {
        notes.extend(linux().filter_map(|(index, candidate)| not_calibrated(judge, index, candidate.name, best)));
        notes.extend(linux().filter_map(|(index, candidate)| uses_less(judge, index, candidate, rows, best, compared)));
    }
    notes
}

/// A band of sizes at which chance decides.
fn gamble(band: &GambleBand) -> Note {
    let bytes = |bytes: u64| Bytes::new(bytes).approx();
    let place = if band.from_bytes == band.to_bytes {
        format!("with {}", bytes(band.from_bytes))
    } else {
        format!("between {} and {}", bytes(band.from_bytes), bytes(band.to_bytes))
    };
    let worst = &band.worst;
    let message = format!(
        "{place} it is a gamble: {} or {} major faults ({} % of replays)",
        worst.good_faults,
        worst.bad_faults,
        worst.bad_share_ppm / 10_000
    );
    Note { candidate: band.candidate, kind: NoteKind::Gamble, message }
}

/// Fewer additional faults than this are not reported.
const FAULTS_MIN: u64 = 100;

/// The pair of sizes with the largest increase of major faults from the smaller to the larger: by a tenth and [`FAULTS_MIN`], and the
/// larger size's interval of chance is above the median of the smaller.
fn not_monotonic(name: &'static str, rows: &[AdviceRow]) -> Option<Note> {
    // A killed program had no time for more faults.
    let own: Vec<&AdviceRow> = rows.iter().filter(|row| row.candidate == name && row.unfinished == 0).collect();
    let mut worst: Option<(u64, &AdviceRow, &AdviceRow)> = None;
    for (place, small) in own.iter().enumerate() {
        for large in &own[place + 1..] {
            let (few, many) = (small.major_faults.median, large.major_faults.median);
            let is_clear = large.major_faults.chance_low > few;
            let more = many.saturating_sub(few);
            if is_clear && more >= FAULTS_MIN.max(few / 10) && more > worst.map_or(0, |(more, ..)| more) {
                worst = Some((more, small, large));
            }
        }
    }
    let (_, small, large) = worst?;
    let faults = |row: &AdviceRow| {
        let Interval { median, chance_low, chance_high, .. } = row.major_faults;
        format!("{median} ({chance_low} to {chance_high})")
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

/// A size below the safe one that is fast enough by the median, as are all sizes in between.
fn too_uncertain(judge: &Judge<'_>, index: usize, name: &'static str) -> Option<Note> {
    let is_so_by_median = |&size: &Bytes| {
        let ratio = judge.expected(index, size).and_then(|expected| expected.ratio);
        ratio.is_some_and(|ratio| ratio.median <= judge.allowed_ppm())
    };
    let by_median = judge.player.pool.sizes(index).rev().take_while(is_so_by_median).last()?;
    let surely = lowest_safe(judge, index);
    let expected = judge.expected(index, by_median)?;
    if surely.is_some_and(|surely| surely <= by_median) || expected.gamble.is_some() {
        return None;
    }
    let ratio = expected.ratio?;
    let upper = ratio.high.saturating_sub(1_000_000);
    let why = if ratio.chance_high <= judge.allowed_ppm() { "by what the model is off" } else { "by chance" };
    let message = format!(
        "{} would do in most replays, but not surely: up to {} slower {why}",
        by_median.approx(),
        percent(upper),
    );
    Some(Note { candidate: name, kind: NoteKind::TooUncertain, message })
}

/// A combination that would need clearly less memory than the recommended one, by the replays made.
fn not_calibrated(judge: &Judge<'_>, index: usize, name: &'static str, best: &Recommendation) -> Option<Note> {
    let enough = lowest_safe(judge, index)?;
    let less = best.memory_bytes.saturating_sub(enough.get());
    if judge.model_error(index).is_some() || less <= EQUAL_STEPS * judge.player.step().get() {
        return None;
    }
    let message = format!(
        "{} would do by {} replays a size, {} less; it is not recommended, because it was not compared with real kernels",
        enough.approx(),
        judge.player.pool.at(index, enough).len(),
        Bytes::new(less).approx(),
    );
    Some(Note { candidate: name, kind: NoteKind::NotCalibrated, message })
}

/// A combination that is fast enough at the recommended size and holds clearly less memory there, by 5 % and more.
fn uses_less(
    judge: &Judge<'_>,
    index: usize,
    candidate: &Candidate,
    rows: &[AdviceRow],
    best: &Recommendation,
    size: Bytes,
) -> Option<Note> {
    let at = |name: &str| rows.iter().find(|row| row.candidate == name && row.memory_bytes == size.get());
    let (row, base) = (at(candidate.name)?, at(best.candidate)?);
    let is_enough = lowest_safe(judge, index).is_some_and(|enough| enough <= size);
    let (own, others) = (row.mean_bytes, base.mean_bytes);
    if !is_enough || own.high >= others.low || own.median + others.median / 20 > others.median {
        return None;
    }
    let slower = row.runtime_ratio_ppm?.median.saturating_sub(1_000_000);
    let message = format!(
        "holds {} on average under the same limit, {} less than {}, and is {} slower than with unlimited memory",
        Bytes::new(own.median).approx(),
        Bytes::new(others.median - own.median).approx(),
        best.candidate,
        percent(slower),
    );
    Some(Note { candidate: candidate.name, kind: NoteKind::UsesLess, message })
}

/// Millionths in percent, to the nearest tenth as tables have them: `1.8 %`.
pub fn percent(ppm: u64) -> String {
    let tenths = ppm.saturating_add(500) / 1_000;
    format!("{}.{} %", tenths / 10, tenths % 10)
}

#[cfg(test)]
mod tests {
    use super::super::expected::Gamble;
    use super::super::figures::tests::{exactly, row};
    use super::*;

    #[test]
    fn shares_are_rounded_as_in_tables() {
        let table =
            [(0, "0.0 %"), (499, "0.0 %"), (500, "0.1 %"), (17_500, "1.8 %"), (999_499, "99.9 %"), (u64::MAX, "")];
        for (ppm, text) in &table[..5] {
            assert_eq!(percent(*ppm), *text);
        }
        assert!(percent(table[5].0).ends_with(" %"), "the largest is told as well");
    }

    #[test]
    fn a_gamble_is_told_with_both_outcomes() {
        let worst = Gamble { good_faults: 1500, bad_faults: 24_000, bad_share_ppm: 400_000 };
        let band = GambleBand { candidate: "mglru", from_bytes: 95 << 20, to_bytes: 108 << 20, worst };
        let note = gamble(&band);
        assert_eq!(
            note.message,
            "between 95.0 MiB and 108 MiB it is a gamble: 1500 or 24000 major faults (40 % of replays)"
        );
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
        let unsure = AdviceRow { major_faults: Interval { chance_low: 800, ..exactly(3039) }, ..rows[2].clone() };
        assert_eq!(not_monotonic("mglru", &[rows[1].clone(), unsure]), None, "within the interval");
        let few = [row("mglru", 1, 50), row("mglru", 2, 149)];
        assert_eq!(not_monotonic("mglru", &few), None, "too few to tell");
    }
}
