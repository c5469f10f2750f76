//! From replays to figures.

use super::candidate::CANDIDATES;
use super::replays::Replays;
use crate::stats::Summary;
use isotherm_core::generations::{GENERATION_REASONS, GenerationReason, GenerationWhy};
use isotherm_core::schemes::{REASONS, Reason, SchemeReport};
use isotherm_sim::counters::Counter;
use isotherm_sim::machine::{Ending, Outcome};
use isotherm_units::{Bytes, PAGE_BYTES};
use serde::Serialize;

/// What is kept of one replay.
pub(super) struct Run {
    pub(super) runtime_ns: u64,
    pub(super) major_faults: u64,
    ending: Ending,
    pressure_some_ns: u64,
    reclaim_cpu_ns: u64,
    monitor_cpu_ns: u64,
    /// Charge of the program's group, mean over time.
    pub(super) mean_bytes: u64,
    pub(super) schemes: Vec<SchemeReport>,
    /// What tools over generations did.
    generations: Vec<GenerationWhy>,
}

impl Run {
    pub(super) fn of(outcome: Outcome) -> Self {
        let program = &outcome.programs[0];
        let during = || outcome.series.iter().filter(|row| row.at_ns <= program.ended_ns);
        let looks = during().count() as u64;
        let charges = during().map(|row| row.usage_pages[1]).sum::<u64>();
        Self {
            runtime_ns: program.runtime().ns(),
            major_faults: outcome.system().counters.get(Counter::PgMajFault),
            ending: program.ending,
            pressure_some_ns: outcome.system().pressure.memory_some_ns,
            reclaim_cpu_ns: outcome.kernel.kswapd_ns + outcome.kernel.direct_ns,
            monitor_cpu_ns: outcome.monitors.iter().map(|monitor| monitor.cpu_ns).sum::<u64>()
                + outcome.generations.iter().map(|tool| tool.cpu_ns).sum::<u64>(),
            mean_bytes: charges * PAGE_BYTES / looks.max(1),
            schemes: outcome.monitors.into_iter().flat_map(|monitor| monitor.schemes).collect(),
            generations: outcome.generations.into_iter().map(|tool| tool.why).collect(),
        }
    }

    /// Runtime against unlimited memory in millionths; `None` if it did not finish.
    pub(super) fn ratio_ppm(&self, unlimited_ns: u64) -> Option<u64> {
        if self.ending == Ending::Finished { ppm(self.runtime_ns, unlimited_ns) } else { None }
    }
}

/// A set-up at a size, with all its repeats.
pub(super) struct Tried {
    /// Its place in the table of candidates.
    pub(super) index: usize,
    pub(super) size: Bytes,
    pub(super) runs: Vec<Run>,
}

impl Tried {
    /// Runtime against unlimited memory in millionths; `None` if a repeat did not finish.
    pub(super) fn ratio(&self, unlimited_ns: u64) -> Option<Figure> {
        let ratios: Option<Vec<f64>> =
            self.runs.iter().map(|run| run.ratio_ppm(unlimited_ns).map(|ppm| ppm as f64)).collect();
        Figure::of(&ratios?)
    }

    fn figure(&self, take: impl Fn(&Run) -> u64) -> Figure {
        let values: Vec<f64> = self.runs.iter().map(|run| take(run) as f64).collect();
        Figure::of(&values).expect("played at least once")
    }
}

/// A mean with its 95 % confidence interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Figure {
    pub(super) n: u64,
    pub(super) mean: f64,
    low: Option<f64>,
    high: Option<f64>,
}

impl Figure {
    pub(super) fn of(values: &[f64]) -> Option<Self> {
        let Summary { n, mean, ci95_low, ci95_high, .. } = Summary::of(values)?;
        Some(Self { n, mean, low: ci95_low, high: ci95_high })
    }

    /// The upper end; of one value, the value.
    pub(super) fn high(&self) -> f64 {
        self.high.unwrap_or(self.mean)
    }

    pub(super) fn mean_int(&self) -> u64 {
        whole(self.mean)
    }

    pub(super) fn low_int(&self) -> Option<u64> {
        self.low.map(whole)
    }

    pub(super) fn high_int(&self) -> Option<u64> {
        self.high.map(whole)
    }
}

/// The nearest whole number; what is counted is never below 0.
#[expect(clippy::cast_possible_truncation, reason = "it was counted in 64 bits; a cast saturates")]
fn whole(value: f64) -> u64 {
    value.round().max(0.0) as u64
}

/// A set-up at a size.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct AdviceRow {
    /// Set-up.
    pub candidate: &'static str,
    /// Whether Linux has it; yardsticks are shown, never recommended.
    pub runs_on_linux: bool,
    /// `memory.max`; repeats lie up to 1 % beside it.
    pub memory_bytes: u64,
    /// It as a share of peak, in millionths.
    pub memory_share_ppm: u64,
    /// Replays. All figures are means over them.
    pub n: u64,
    /// Runtime.
    pub runtime_ns: u64,
    /// Runtime against unlimited memory in millionths: 1 050 000 = 5 % slower. Absent when the program was killed.
    pub runtime_ratio_ppm: Option<u64>,
    /// Lower end of its 95 % confidence interval.
    pub runtime_ratio_ci95_low_ppm: Option<u64>,
    /// Upper end.
    pub runtime_ratio_ci95_high_ppm: Option<u64>,
    /// Whether that upper end is within the slowdown asked for.
    pub is_fast_enough: bool,
    /// Major faults.
    pub major_faults: u64,
    /// Lower end of their 95 % confidence interval.
    pub major_faults_ci95_low: Option<u64>,
    /// Upper end.
    pub major_faults_ci95_high: Option<u64>,
    /// Major faults divided by those of `opt` at the same size, in millionths; absent where `opt` has none,
    /// and where either was killed.
    pub faults_to_opt_ppm: Option<u64>,
    /// Memory charge, mean over time: below the limit where the program needs less, or something reclaims before it must.
    pub mean_bytes: u64,
    /// Lower end of its 95 % confidence interval.
    pub mean_ci95_low_bytes: Option<u64>,
    /// Upper end.
    pub mean_ci95_high_bytes: Option<u64>,
    /// Share of the runtime in which some task was stalled on memory, in millionths.
    pub pressure_some_ppm: u64,
    /// CPU time of reclaim, kswapd and direct.
    pub reclaim_cpu_ns: u64,
    /// CPU time of monitors with their schemes, and of tools over generations.
    pub monitor_cpu_ns: u64,
    /// What schemes did, in order, then tools over generations.
    pub schemes: Vec<SchemeDid>,
    /// How it ended; of repeats that differ, the first bad end.
    pub ending: Ending,
    /// Repeats that did not finish.
    pub unfinished: u64,
}

/// What a scheme did, or a tool over generations.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SchemeDid {
    /// Its action; `evict` for a tool over generations.
    pub action: &'static str,
    /// Bytes it tried, mean over repeats.
    pub tried_bytes: u64,
    /// Bytes it changed.
    pub applied_bytes: u64,
    /// What kept most bytes from being tried or changed, by the names of `isotherm explain`; also `watermarks`, where these
    /// had it switched off in every pass, and `not_due`. Absent if nothing did.
    pub stopped_by: Option<&'static str>,
}

/// All rows, by set-up and size.
pub(super) fn rows(replays: &Replays<'_>, tried: &[Tried]) -> Vec<AdviceRow> {
    let mut sorted: Vec<&Tried> = tried.iter().collect();
    sorted.sort_by_key(|tried| (tried.index, tried.size));
    let mut rows: Vec<AdviceRow> = sorted.into_iter().map(|tried| row(replays, tried)).collect();
    relate_to_opt(&mut rows);
    rows
}

fn row(replays: &Replays<'_>, tried: &Tried) -> AdviceRow {
    let candidate = &CANDIDATES[tried.index];
    let ratio = tried.ratio(replays.unlimited.runtime_ns);
    let (faults, mean) = (tried.figure(|run| run.major_faults), tried.figure(|run| run.mean_bytes));
    let unfinished = || tried.runs.iter().map(|run| run.ending).filter(|ending| *ending != Ending::Finished);
    let pressure = tried.figure(|run| ppm(run.pressure_some_ns, run.runtime_ns).unwrap_or(0));
    AdviceRow {
        candidate: candidate.name,
        runs_on_linux: candidate.runs_on_linux(),
        memory_bytes: tried.size.get(),
        memory_share_ppm: ppm(tried.size.get(), replays.peak.get()).unwrap_or(0),
        n: tried.runs.len() as u64,
        runtime_ns: tried.figure(|run| run.runtime_ns).mean_int(),
        runtime_ratio_ppm: ratio.map(|ratio| ratio.mean_int()),
        runtime_ratio_ci95_low_ppm: ratio.and_then(|ratio| ratio.low_int()),
        runtime_ratio_ci95_high_ppm: ratio.and_then(|ratio| ratio.high_int()),
        is_fast_enough: replays.is_fast_enough(tried),
        major_faults: faults.mean_int(),
        major_faults_ci95_low: faults.low_int(),
        major_faults_ci95_high: faults.high_int(),
        faults_to_opt_ppm: None,
        mean_bytes: mean.mean_int(),
        mean_ci95_low_bytes: mean.low_int(),
        mean_ci95_high_bytes: mean.high_int(),
        pressure_some_ppm: pressure.mean_int(),
        reclaim_cpu_ns: tried.figure(|run| run.reclaim_cpu_ns).mean_int(),
        monitor_cpu_ns: tried.figure(|run| run.monitor_cpu_ns).mean_int(),
        schemes: schemes_of(&tried.runs).into_iter().chain(evictions_of(&tried.runs)).collect(),
        ending: unfinished().next().unwrap_or(Ending::Finished),
        unfinished: unfinished().count() as u64,
    }
}

/// What each scheme did over all repeats.
fn schemes_of(runs: &[Run]) -> Vec<SchemeDid> {
    let first = runs.first().map_or(&[][..], |run| &run.schemes);
    let did = |(place, scheme): (usize, &SchemeReport)| {
        let all = || runs.iter().filter_map(|run| run.schemes.get(place));
        let mean = |take: fn(&SchemeReport) -> u64| all().map(take).sum::<u64>() / runs.len() as u64;
        SchemeDid {
            action: scheme.action.name(),
            tried_bytes: mean(|report| report.stats.sz_tried),
            applied_bytes: mean(|report| report.stats.sz_applied),
            stopped_by: stopped_by(&all().collect::<Vec<_>>()),
        }
    };
    first.iter().enumerate().map(did).collect()
}

/// What each tool over generations did over all repeats.
fn evictions_of(runs: &[Run]) -> Vec<SchemeDid> {
    let nr_tools = runs.first().map_or(0, |run| run.generations.len());
    let did = |place: usize| {
        let sum = |reason| {
            runs.iter().filter_map(|run| run.generations.get(place)).map(|why| why.of(reason).bytes).sum::<u64>()
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

/// What kept the most bytes from being changed; of equal ones the first of the table.
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

fn relate_to_opt(rows: &mut [AdviceRow]) {
    let opt: Vec<(u64, u64)> = rows
        .iter()
        .filter(|row| row.candidate == "opt" && row.unfinished == 0)
        .map(|row| (row.memory_bytes, row.major_faults))
        .collect();
    for row in rows.iter_mut().filter(|row| row.unfinished == 0) {
        let floor = opt.iter().find(|(bytes, _)| *bytes == row.memory_bytes).map(|(_, faults)| *faults);
        row.faults_to_opt_ppm = floor.and_then(|floor| ppm(row.major_faults, floor));
    }
}

pub(super) fn ppm(part: u64, whole: u64) -> Option<u64> {
    let ratio = (u128::from(part) * 1_000_000).checked_div(u128::from(whole))?;
    u64::try_from(ratio).ok()
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(crate) fn row(candidate: &'static str, memory_bytes: u64, major_faults: u64) -> AdviceRow {
        AdviceRow {
            candidate,
            runs_on_linux: candidate != "opt",
            memory_bytes,
            memory_share_ppm: 0,
            n: 5,
            runtime_ns: 0,
            runtime_ratio_ppm: Some(1_000_000),
            runtime_ratio_ci95_low_ppm: Some(1_000_000),
            runtime_ratio_ci95_high_ppm: Some(1_000_000),
            is_fast_enough: true,
            major_faults,
            major_faults_ci95_low: Some(major_faults),
            major_faults_ci95_high: Some(major_faults),
            faults_to_opt_ppm: None,
            mean_bytes: memory_bytes,
            mean_ci95_low_bytes: Some(memory_bytes),
            mean_ci95_high_bytes: Some(memory_bytes),
            pressure_some_ppm: 0,
            reclaim_cpu_ns: 0,
            monitor_cpu_ns: 0,
            schemes: Vec::new(),
            ending: Ending::Finished,
            unfinished: 0,
        }
    }

    #[test]
    fn faults_are_related_to_opt_at_the_same_size() {
        let mut rows = vec![row("classic", 1, 3), row("opt", 1, 2), row("classic", 2, 3)];
        relate_to_opt(&mut rows);
        let ratios: Vec<_> = rows.iter().map(|row| row.faults_to_opt_ppm).collect();
        assert_eq!(ratios, [Some(1_500_000), Some(1_000_000), None]);
    }

    #[test]
    fn figures_are_means_with_intervals() {
        // 2, 4, 6: half-width 4.303 * 2 / sqrt 3 = 4.969.
        let figure = Figure::of(&[2.0, 4.0, 6.0]).expect("values");
        assert_eq!((figure.n, figure.mean_int(), figure.low_int(), figure.high_int()), (3, 4, Some(0), Some(9)));
        let one = Figure::of(&[5.0]).expect("a value");
        assert_eq!((one.mean_int(), one.low_int(), one.high()), (5, None, 5.0));
    }
}
