//! Makes figures from replays.

use super::candidate::{CANDIDATES, FEWEST_FAULTS};
use super::expected::{Expected, Gamble, Interval};
use super::judge::Judge;
use super::kills::{self, Kills};
use super::pace::{Percentiles, ProcessPace, SlowdownOf};
use super::run::{Run, ppm};
use isotherm_core::generations::{GENERATION_REASONS, GenerationReason};
use isotherm_core::schemes::{REASONS, Reason, SchemeReport};
use isotherm_sim::machine::Ending;
use isotherm_units::Bytes;
use serde::Serialize;

/// The figures of a configuration at a size.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct AdviceRow {
    /// Name of the configuration, such as `classic + reclaim`.
    pub candidate: &'static str,
    /// Whether Linux has it; baselines are shown, never recommended.
    pub runs_on_linux: bool,
    /// Whether its predictions were compared with real kernels of this release: only then it can be recommended.
    pub is_calibrated: bool,
    /// `memory.max`, bytes. Limits of replays differ from it by up to 3 %, and by the kernel's own charges.
    pub memory_bytes: u64,
    /// `memory_bytes` as a share of peak, in millionths.
    pub memory_share_ppm: u64,
    /// Replays that the figures are drawn from: those at this size, and neighbours whose limit could be this size's. A single replay has no
    /// interval: it shows the shape.
    pub n: u64,
    /// Whether it is a single replay. Then the ends of intervals are the model's error alone, and no bounds of chance.
    pub is_one_replay: bool,
    /// Pages that each page of these replays represents: 1, or more where a sample was played.
    pub sample: u32,
    /// Median runtime, nanoseconds of simulated time.
    pub runtime_ns: u64,
    /// The worst of runtime, work (CPU time and stalls) of all threads and of each process, and stalls of bursts, as a ratio to that with
    /// unlimited memory, in millionths: 1 050 000 is 5 % slower. Absent when the program was killed in a replay.
    pub runtime_ratio_ppm: Option<Interval>,
    /// That ratio at most, as far as native runs of other programs say ([`NativeError`](super::NativeError)); absent where they say nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub native_at_most_ppm: Option<u64>,
    /// Whether the upper end of that ratio is within the allowed slow-down, and at most 1 run in 100 is killed where replays with a little less
    /// memory were. Never where the answer is withheld.
    pub is_fast_enough: bool,
    /// What was slowed down most, in the slowest of the replays; absent when the program was killed in all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub slowest: Option<SlowdownOf>,
    /// What memory adds to bursts; absent where they are too few to be judged.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stalls: Option<Stalls>,
    pub major_faults: Interval,
    /// The two groups, if the replays fall into two; otherwise `None`.
    pub gamble: Option<Gamble>,
    /// Major faults (median) divided by those of `opt` at the same size, in millionths; absent if `opt` has none, and if either was killed.
    pub faults_to_opt_ppm: Option<u64>,
    /// Memory charge, mean over time, by chance only: below the limit if the program needs less, or proactive reclaim runs.
    pub mean_bytes: Interval,
    /// Share of the runtime in which some task was stalled on memory, in millionths: median.
    pub pressure_some_ppm: u64,
    /// CPU time of kswapd and of direct reclaim, nanoseconds; median.
    pub reclaim_cpu_ns: u64,
    /// CPU time of monitors with their schemes, and of tools over generations: median.
    pub monitor_cpu_ns: u64,
    /// Effects of schemes, in order, then of tools over generations.
    pub schemes: Vec<SchemeDid>,
    /// Ending of the program; the first bad one if replays differ.
    pub ending: Ending,
    /// Number of replays in which the program did not finish.
    pub unfinished: u64,
    /// Of the replays those in which it was killed for lack of memory, with the chance of that in a run; of the kind of start that is killed
    /// more often.
    pub kills: Kills,
}

/// What memory adds to the bursts of the process that it holds up most.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Stalls {
    /// Index in the recording.
    pub process: usize,
    /// The largest of the replays, against no limits.
    #[serde(flatten)]
    pub added: Percentiles,
}

/// Effect of a scheme, or of a tool over generations.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SchemeDid {
    /// Action of the scheme; `evict` for a tool over generations.
    pub action: &'static str,
    /// Bytes it tried, mean over replays.
    pub tried_bytes: u64,
    /// Bytes it changed, mean over replays.
    pub applied_bytes: u64,
    /// The main reason why bytes were not tried or changed, by the names of `isotherm report explain`; also `watermarks`, where these had
    /// it switched off in every pass, and `not_due`. Absent without any.
    pub stopped_by: Option<&'static str>,
}

/// All rows, by configuration and size.
pub(super) fn rows(judge: &Judge<'_>) -> Vec<AdviceRow> {
    let places: Vec<(usize, Bytes)> = judge.player.pool.places().collect();
    let mut rows: Vec<AdviceRow> = places.into_iter().map(|(index, size)| row(judge, index, size)).collect();
    relate_to_opt(&mut rows);
    rows
}

fn row(judge: &Judge<'_>, index: usize, size: Bytes) -> AdviceRow {
    let candidate = &CANDIDATES[index];
    let runs = judge.player.pool.around(index, size);
    let expected = judge.expected(index, size).expect("played at least once");
    let interval = |take: &dyn Fn(&Run) -> u64| Interval::of_runs(&runs, take).expect("played at least once");
    let unfinished = || runs.iter().map(|run| run.ending).filter(|ending| *ending != Ending::Finished);
    let Expected { n, faults, ratio, gamble, .. } = expected;
    AdviceRow {
        candidate: candidate.name,
        runs_on_linux: candidate.runs_on_linux(),
        is_calibrated: judge.model_error(index).is_some(),
        memory_bytes: size.get(),
        memory_share_ppm: ppm(size.get(), judge.player.peak.get()).unwrap_or(0),
        n: n as u64,
        is_one_replay: n == 1,
        sample: runs.iter().map(|run| run.pages).max().unwrap_or(1),
        runtime_ns: interval(&|run| run.pace.runtime_ns).median,
        runtime_ratio_ppm: ratio,
        native_at_most_ppm: None,
        is_fast_enough: judge.is_fast_enough(&expected) && kills::is_enough(judge, index, size, 0),
        slowest: runs.iter().max_by_key(|run| run.ratio_ppm).and_then(|run| run.slowdown_of),
        stalls: stalls(judge, &runs),
        major_faults: faults,
        gamble,
        faults_to_opt_ppm: None,
        mean_bytes: interval(&|run| run.mean_bytes),
        pressure_some_ppm: interval(&|run| ppm(run.pressure_some_ns, run.pace.runtime_ns).unwrap_or(0)).median,
        reclaim_cpu_ns: interval(&|run| run.reclaim_cpu_ns).median,
        monitor_cpu_ns: interval(&|run| run.monitor_cpu_ns).median,
        schemes: schemes_of(&runs).into_iter().chain(evictions_of(&runs)).collect(),
        ending: unfinished().next().unwrap_or(Ending::Finished),
        unfinished: unfinished().count() as u64,
        kills: Kills::of(&runs),
    }
}

/// By the process whose 99th percentile grows most against the length of its bursts.
fn stalls(judge: &Judge<'_>, runs: &[&Run]) -> Option<Stalls> {
    let free = &judge.player.unlimited.pace.processes;
    let of = |(nth, free): (usize, &ProcessPace)| {
        let added = runs.iter().filter_map(|run| Some(run.pace.processes.get(nth)?.added_stall(free)));
        let added = added.reduce(Percentiles::max)?;
        Some((ppm(added.p99_ns, free.length.p99_ns)?, Stalls { process: free.process, added }))
    };
    let judged = free.iter().enumerate().filter(|(_, free)| free.has_bursts());
    judged.filter_map(of).max_by_key(|&(share, _)| share).map(|(_, stalls)| stalls)
}

/// Effect of each scheme over all repeats.
fn schemes_of(runs: &[&Run]) -> Vec<SchemeDid> {
    let first = runs.first().map_or(&[][..], |run| &run.schemes);
    let did = |(place, scheme): (usize, &SchemeReport)| {
        let all = || runs.iter().filter_map(|run| run.schemes.get(place));
        let whole = |run: &Run, bytes: u64| bytes.saturating_mul(run.pages.into());
        let mean = |take: fn(&SchemeReport) -> u64| {
            let each = runs.iter().filter_map(|run| Some(whole(run, take(run.schemes.get(place)?))));
            each.sum::<u64>() / runs.len() as u64
        };
        SchemeDid {
            action: scheme.action.name(),
            tried_bytes: mean(|report| report.stats.sz_tried),
            applied_bytes: mean(|report| report.stats.sz_applied),
            stopped_by: stopped_by(&all().collect::<Vec<_>>()),
        }
    };
    first.iter().enumerate().map(did).collect()
}

/// Effect of each tool over generations over all repeats.
fn evictions_of(runs: &[&Run]) -> Vec<SchemeDid> {
    let nr_tools = runs.first().map_or(0, |run| run.generations.len());
    let did = |place: usize| {
        let sum = |reason| {
            let of = |run: &&Run| Some(run.generations.get(place)?.of(reason).bytes.saturating_mul(run.pages.into()));
            runs.iter().filter_map(of).sum::<u64>()
        };
        let evicted = sum(GenerationReason::Evicted);
        let kept = GENERATION_REASONS
            .iter()
            .filter(|(reason, _)| !matches!(reason, GenerationReason::Aged | GenerationReason::Evicted));
        let most = kept
            .map(|&(reason, name)| (sum(reason), name))
            .reduce(|most, next| if next.0 > most.0 { next } else { most });
        let mean = |bytes: u64| bytes / runs.len() as u64;
        SchemeDid {
            action: "evict",
            tried_bytes: mean(evicted + sum(GenerationReason::StillThere)),
            applied_bytes: mean(evicted),
            stopped_by: most.filter(|(bytes, _)| *bytes > 0).map(|(_, name)| name),
        }
    };
    (0..nr_tools).map(did).collect()
}

/// The reason that kept the most bytes from being changed; of equal ones the first of the table.
fn stopped_by(reports: &[&SchemeReport]) -> Option<&'static str> {
    let sum = |take: &dyn Fn(&SchemeReport) -> u64| reports.iter().map(|report| take(report)).sum::<u64>();
    let passes = sum(&|report| report.all_passes.passes);
    if passes == 0 {
        let is_off = reports.iter().any(|report| !report.is_active || report.inactive_ns > 0);
        return Some(if is_off { "watermarks" } else { "not_due" });
    }
    if sum(&|report| report.all_passes.inactive_passes) == passes {
        return Some("watermarks");
    }
    let mut most = None;
    for (reason, name) in REASONS {
        if matches!(reason, Reason::Applied | Reason::Counted) {
            continue;
        }
        let bytes = sum(&|report| report.all_passes.of(reason).bytes);
        if bytes > most.map_or(0, |(bytes, _)| bytes) {
            most = Some((bytes, name));
        }
    }
    most.map(|(_, name)| name)
}

/// Sets faults in relation to the fewest possible. Those rows say nothing of time.
fn relate_to_opt(rows: &mut [AdviceRow]) {
    let opt: Vec<(u64, u64)> = rows
        .iter()
        .filter(|row| row.candidate == FEWEST_FAULTS && row.unfinished == 0)
        .map(|row| (row.memory_bytes, row.major_faults.median))
        .collect();
    for row in rows.iter_mut().filter(|row| row.unfinished == 0) {
        let floor = opt.iter().find(|(bytes, _)| *bytes == row.memory_bytes).map(|(_, faults)| *faults);
        row.faults_to_opt_ppm = floor.and_then(|floor| ppm(row.major_faults.median, floor));
    }
    for row in rows.iter_mut().filter(|row| row.candidate == FEWEST_FAULTS) {
        (row.runtime_ratio_ppm, row.is_fast_enough, row.slowest, row.stalls) = (None, false, None, None);
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(crate) fn exactly(value: u64) -> Interval {
        Interval { median: value, low: value, high: value, chance_low: value, chance_high: value }
    }

    pub(crate) fn row(candidate: &'static str, memory_bytes: u64, major_faults: u64) -> AdviceRow {
        AdviceRow {
            candidate,
            runs_on_linux: candidate != "opt",
            is_calibrated: true,
            memory_bytes,
            memory_share_ppm: 0,
            n: 5,
            is_one_replay: false,
            sample: 1,
            runtime_ns: 0,
            runtime_ratio_ppm: Some(exactly(1_000_000)),
            native_at_most_ppm: None,
            is_fast_enough: true,
            slowest: Some(SlowdownOf::Runtime),
            stalls: None,
            major_faults: exactly(major_faults),
            gamble: None,
            faults_to_opt_ppm: None,
            mean_bytes: exactly(memory_bytes),
            pressure_some_ppm: 0,
            reclaim_cpu_ns: 0,
            monitor_cpu_ns: 0,
            schemes: Vec::new(),
            ending: Ending::Finished,
            unfinished: 0,
            kills: Kills::of(&[]),
        }
    }

    #[test]
    fn faults_are_related_to_opt_at_the_same_size() {
        let mut rows = vec![row("classic", 1, 3), row("opt", 1, 2), row("classic", 2, 3)];
        relate_to_opt(&mut rows);
        let ratios: Vec<_> = rows.iter().map(|row| row.faults_to_opt_ppm).collect();
        assert_eq!(ratios, [Some(1_500_000), Some(1_000_000), None]);
        let have_times: Vec<_> = rows.iter().map(|row| row.runtime_ratio_ppm.is_some()).collect();
        assert_eq!(have_times, [true, false, true], "the fewest faults are no floor of time");
    }
}
