//! The simulated counters versus the kernels', and whether they are close enough.

use std::collections::BTreeMap;

use isotherm_kernel::memory::KernelRelease;
use isotherm_units::Pages;
use rayon::prelude::*;
use serde::Serialize;

use crate::FidelityError;
use crate::matrix::{Cell, METRICS, NAIVE, Selection, Set, Workload};
use crate::rank::nearest;
use crate::simulate::{self, MEMORY, Simulated, machine_of_release, overlap, release_of};
use crate::stored::KernelData;

/// Counts below this are shown but not judged: a single event more or less would be above the bar.
pub const COUNT_MIN: u64 = 100;

/// One counter of one cell.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CounterRow {
    pub workload: String,
    pub set: Set,
    pub kernel: String,
    pub policy: String,
    /// Limit in percent of the peak.
    pub limit_percent: u32,
    /// Counter.
    pub metric: &'static str,
    /// Count of the simulated machine.
    pub simulated: u64,
    /// Least that a boot counted.
    pub real_low: u64,
    pub real_high: u64,
    pub boots: usize,
    /// Simulated count over the middle of the real ones; `None` where that is zero.
    pub ratio: Option<f64>,
    /// Distance from the nearer end over that end; 0 between the ends. `None` where that end is zero and the simulated is not.
    pub error: Option<f64>,
    /// Count of exact LRU of the same size.
    pub naive: Option<u64>,
    pub naive_error: Option<f64>,
    /// Whether the row counts: a boot or the simulated machine counted [`COUNT_MIN`] or more.
    pub is_judged: bool,
}

/// Resident pages of one cell.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Residency {
    pub workload: String,
    pub set: Set,
    pub kernel: String,
    pub policy: String,
    /// Limit in percent of the peak.
    pub limit_percent: u32,
    /// Jaccard index of the simulated resident pages and those of the first boot.
    pub overlap: f64,
    /// The same index for exact LRU.
    pub naive_overlap: f64,
    /// Least Jaccard index of another boot with the first: the similarity of two runs of one kernel.
    pub boots_overlap: Option<f64>,
}

/// A bar of the summary.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Bar {
    /// Name of the quantity judged.
    pub what: String,
    /// Rows in the judgement.
    pub rows: usize,
    /// Measured value, as a share of one.
    pub measured: Option<f64>,
    /// The bar.
    pub bar: f64,
    /// Whether the bar is a minimum rather than a maximum.
    pub at_least: bool,
    /// Whether the bar is met; `None` without rows.
    pub is_met: Option<bool>,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Comparison {
    /// Version by kernel.
    pub kernels: BTreeMap<String, String>,
    /// Counters.
    pub rows: Vec<CounterRow>,
    /// Resident pages.
    pub residency: Vec<Residency>,
    /// The summary.
    pub bars: Vec<Bar>,
}

/// Plays the selection in the simulated machine, for each kernel by its own rules, and compares. `progress` is called after each simulated
/// run.
///
/// # Errors
/// Stored runs of other scripts, none at all, or a run that fails.
pub fn compare(
    workloads: &[Workload],
    selection: &Selection,
    data: &[KernelData],
    progress: &(dyn Fn() + Sync),
) -> Result<Comparison, FidelityError> {
    let kernels: Vec<&str> = selection.kernels().collect();
    let data: Vec<&KernelData> = data.iter().filter(|data| kernels.contains(&data.kernel.as_str())).collect();
    check(workloads, selection, &data)?;
    let mut jobs: Vec<(KernelRelease, usize, String, u64)> = Vec::new();
    for (index, workload) in workloads.iter().enumerate() {
        for cell in selection.cells_of(&workload.name) {
            let limit = workload.limit(cell.limit_percent).get();
            for release in data.iter().map(|data| release_of(&data.kernel)) {
                jobs.extend([cell.policy.as_str(), NAIVE].map(|policy| (release, index, policy.to_owned(), limit)));
            }
        }
    }
    jobs.sort_unstable();
    jobs.dedup();
    let played = jobs.into_par_iter().map(|job| {
        let simulated =
            simulate::run(&machine_of_release(job.0, MEMORY), &workloads[job.1], &job.2, Pages::new(job.3))?;
        progress();
        Ok((job, simulated))
    });
    let played: Vec<Result<_, FidelityError>> = played.collect();
    let played: BTreeMap<(KernelRelease, usize, String, u64), Simulated> =
        played.into_iter().collect::<Result<_, _>>()?;
    let mut comparison = Comparison {
        kernels: data.iter().map(|data| (data.kernel.clone(), data.release.clone())).collect(),
        rows: Vec::new(),
        residency: Vec::new(),
        bars: Vec::new(),
    };
    for data in &data {
        for (index, workload) in workloads.iter().enumerate() {
            for cell in selection.cells_of(&workload.name) {
                let limit = workload.limit(cell.limit_percent).get();
                let release = release_of(&data.kernel);
                let of = |policy: &str| &played[&(release, index, policy.to_owned(), limit)];
                comparison.add(data, workload, &cell, of(&cell.policy), of(NAIVE));
            }
        }
    }
    comparison.bars = bars(&comparison.rows, &comparison.residency);
    Ok(comparison)
}

/// Checks that there is something to compare with, before anything is simulated.
fn check(workloads: &[Workload], selection: &Selection, data: &[&KernelData]) -> Result<(), FidelityError> {
    let mut nr_found = 0;
    for data in data {
        for workload in workloads {
            for cell in selection.cells_of(&workload.name) {
                let Some(run) = data.run(&cell) else { continue };
                if run.digest != workload.digest || run.limit_pages != workload.limit(cell.limit_percent).get() {
                    let (workload, kernel) = (workload.name.clone(), data.kernel.clone());
                    return Err(FidelityError::Stale { verb: "fidelity", workload, kernel });
                }
                nr_found += 1;
            }
        }
    }
    if nr_found == 0 {
        return Err(FidelityError::Nothing { verb: "fidelity", place: "the data".to_owned() });
    }
    Ok(())
}

/// Most runs that [`compare`] plays.
pub fn nr_simulated(workloads: &[Workload], selection: &Selection) -> u64 {
    let of = |workload: &Workload| {
        let limits: std::collections::BTreeSet<u32> =
            selection.cells_of(&workload.name).map(|cell| cell.limit_percent).collect();
        selection.cells_of(&workload.name).count() + limits.len()
    };
    let releases: std::collections::BTreeSet<KernelRelease> = selection.kernels().map(release_of).collect();
    (releases.len() * workloads.iter().map(of).sum::<usize>()) as u64
}

impl Comparison {
    fn add(&mut self, data: &KernelData, workload: &Workload, cell: &Cell, simulated: &Simulated, naive: &Simulated) {
        let Some(run) = data.run(cell) else { return };
        for metric in METRICS {
            let counted = run.counters.get(metric.name).map_or(&[][..], Vec::as_slice);
            let (Some(&low), Some(&high)) = (counted.iter().min(), counted.iter().max()) else { continue };
            let ours = simulated.counters[metric.name];
            let theirs = metric.has_naive.then(|| naive.counters[metric.name]);
            let middle = (low + high) as f64 / 2.0;
            self.rows.push(CounterRow {
                workload: workload.name.clone(),
                set: workload.set,
                kernel: data.kernel.clone(),
                policy: cell.policy.clone(),
                limit_percent: cell.limit_percent,
                metric: metric.name,
                simulated: ours,
                real_low: low,
                real_high: high,
                boots: counted.len(),
                ratio: (middle > 0.0).then(|| ours as f64 / middle),
                error: error(ours, low, high),
                naive: theirs,
                naive_error: theirs.and_then(|theirs| error(theirs, low, high)),
                is_judged: high.max(ours) >= COUNT_MIN,
            });
        }
        self.residency.push(Residency {
            workload: workload.name.clone(),
            set: workload.set,
            kernel: data.kernel.clone(),
            policy: cell.policy.clone(),
            limit_percent: cell.limit_percent,
            overlap: overlap(&simulated.residency, &run.residency),
            naive_overlap: overlap(&naive.residency, &run.residency),
            boots_overlap: run.overlap_of_boots.iter().min().map(|&least| f64::from(least) / 10_000.0),
        });
    }
}

/// Distance of `value` from the nearer end of `low..=high`, as a share of that end.
pub(crate) fn error(value: u64, low: u64, high: u64) -> Option<f64> {
    let end = value.clamp(low, high);
    match (value.abs_diff(end), end) {
        (0, _) => Some(0.0),
        (_, 0) => None,
        (distance, end) => Some(distance as f64 / end as f64),
    }
}

/// Median and 90th percentile that each policy must reach on the fitting set.
const ERROR_BARS: &[(&str, f64, f64)] = &[("classic", 0.025, 0.08), ("mglru", 0.04, 0.12)];
/// Factor on the bars for the held-out set.
const HELD_OUT_FACTOR: f64 = 1.5;
/// Most by which a row may be worse than exact LRU.
const NAIVE_MARGIN: f64 = 0.02;
/// If major faults of the kernel's policies differ by more than this, the simulated ones must differ in the same direction.
const ORDER_MIN: f64 = 0.05;
const ORDER_BAR: f64 = 0.9;
const OVERLAP_BAR: f64 = 0.85;

fn bar(what: String, rows: usize, measured: Option<f64>, bar: f64, at_least: bool) -> Bar {
    // A thousandth of a point is noise of the arithmetic.
    let is_met = measured.map(|measured| if at_least { measured >= bar - 1e-9 } else { measured <= bar + 1e-9 });
    Bar { what, rows, measured, bar, at_least, is_met }
}

fn bars(rows: &[CounterRow], residency: &[Residency]) -> Vec<Bar> {
    let mut bars = Vec::new();
    for set in [Set::Fitting, Set::HeldOut] {
        let factor = if set == Set::HeldOut { HELD_OUT_FACTOR } else { 1.0 };
        for &(policy, median, p90) in ERROR_BARS {
            let of = |error: fn(&CounterRow) -> Option<f64>, any: bool| {
                let judged = rows.iter().filter(|row| row.set == set && row.policy == policy && row.is_judged);
                let mut errors: Vec<f64> = judged
                    .filter(|row| any || row.naive.is_some())
                    .map(|row| error(row).unwrap_or(f64::INFINITY))
                    .collect();
                errors.sort_by(f64::total_cmp);
                errors
            };
            let (errors, naive) = (of(|row| row.error, true), of(|row| row.naive_error, false));
            for (name, permille, limit) in [("median", 500, median), ("90th percentile", 900, p90)] {
                let exact = nearest(&naive, permille)
                    .map_or_else(String::new, |share| format!(" (exact LRU: {:.1} %)", share * 100.0));
                let what = format!("{}, {policy}: {name} of errors{exact}", set.name());
                bars.push(bar(what, errors.len(), nearest(&errors, permille), limit * factor, false));
            }
        }
    }
    let versus_naive: Vec<(f64, f64)> = rows
        .iter()
        .filter(|row| row.is_judged && row.naive.is_some())
        .map(|row| (row.error.unwrap_or(f64::INFINITY), row.naive_error.unwrap_or(f64::INFINITY)))
        .collect();
    let worse = versus_naive.iter().filter(|(ours, naive)| *ours > naive + NAIVE_MARGIN).count();
    let share = (!versus_naive.is_empty()).then(|| worse as f64 / versus_naive.len() as f64);
    bars.push(bar("rows worse than exact LRU by more than 2 points".to_owned(), versus_naive.len(), share, 0.0, false));
    let (nr_ordered, right) = ordering(rows);
    let share = (nr_ordered > 0).then(|| right as f64 / nr_ordered as f64);
    let what =
        "classic and mglru ordered by major faults as in the kernel, where these differ by more than 5 %".to_owned();
    bars.push(bar(what, nr_ordered, share, ORDER_BAR, true));
    let mut overlaps: Vec<f64> = residency.iter().map(|residency| residency.overlap).collect();
    overlaps.sort_by(f64::total_cmp);
    let median = nearest(&overlaps, 500);
    bars.push(bar("median overlap of resident pages".to_owned(), overlaps.len(), median, OVERLAP_BAR, true));
    bars
}

/// Pairs of classic and MGLRU whose major faults differ by more than [`ORDER_MIN`] in the kernel, and those ordered alike.
fn ordering(rows: &[CounterRow]) -> (usize, usize) {
    let of = |row: &CounterRow, policy: &str| {
        let same = |other: &&CounterRow| {
            other.metric == row.metric
                && other.workload == row.workload
                && other.kernel == row.kernel
                && other.limit_percent == row.limit_percent
                && other.policy == policy
        };
        rows.iter().find(same).cloned()
    };
    let mut counts = (0, 0);
    for classic in rows.iter().filter(|row| row.metric == "major_faults" && row.policy == "classic") {
        let Some(mglru) = of(classic, "mglru") else { continue };
        // Between the nearer ends: overlapping ranges do not differ.
        let (less, more) = if classic.real_high < mglru.real_low {
            (classic.real_high, mglru.real_low)
        } else if mglru.real_high < classic.real_low {
            (mglru.real_high, classic.real_low)
        } else {
            continue;
        };
        if (more - less) as f64 <= ORDER_MIN * less as f64 || more < COUNT_MIN {
            continue;
        }
        counts.0 += 1;
        let kernels = classic.real_high < mglru.real_low;
        let ours = classic.simulated < mglru.simulated;
        counts.1 += usize::from(kernels == ours && classic.simulated != mglru.simulated);
    }
    counts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_counted_from_the_nearer_end() {
        let table = [
            ((100, 90, 110), Some(0.0)),
            ((99, 110, 120), Some(0.1)),
            ((132, 110, 120), Some(0.1)),
            ((0, 0, 0), Some(0.0)),
            ((5, 0, 0), None),
            ((0, 50, 60), Some(1.0)),
        ];
        for ((value, low, high), expected) in table {
            assert_eq!(error(value, low, high), expected, "{value} in {low}..={high}");
        }
    }

    fn row(policy: &str, simulated: u64, real: (u64, u64), naive: u64) -> CounterRow {
        CounterRow {
            workload: "w".to_owned(),
            set: Set::Fitting,
            kernel: "k".to_owned(),
            policy: policy.to_owned(),
            limit_percent: 75,
            metric: "major_faults",
            simulated,
            real_low: real.0,
            real_high: real.1,
            boots: 3,
            ratio: None,
            error: error(simulated, real.0, real.1),
            naive: Some(naive),
            naive_error: error(naive, real.0, real.1),
            is_judged: simulated.max(real.1) >= COUNT_MIN,
        }
    }

    fn measured(bars: &[Bar], begin: &str) -> (usize, Option<f64>, Option<bool>) {
        let bar = bars.iter().find(|bar| bar.what.starts_with(begin)).unwrap();
        (bar.rows, bar.measured, bar.is_met)
    }

    #[test]
    fn bars_by_hand() {
        // Classic is off by 10 %, MGLRU exact; exact LRU is right for classic.
        let rows = [row("classic", 1100, (900, 1000), 950), row("mglru", 600, (500, 700), 1400)];
        let bars = bars(&rows, &[]);
        assert_eq!(measured(&bars, "fitting, classic: median"), (1, Some(0.1), Some(false)));
        assert_eq!(measured(&bars, "fitting, mglru: 90th"), (1, Some(0.0), Some(true)));
        assert_eq!(measured(&bars, "held-out, mglru: median"), (0, None, None));
        assert_eq!(measured(&bars, "rows worse than exact LRU"), (2, Some(0.5), Some(false)));
        assert_eq!(measured(&bars, "classic and mglru ordered"), (1, Some(1.0), Some(true)));
        assert_eq!(measured(&bars, "median overlap"), (0, None, None));
    }

    #[test]
    fn only_clear_differences_are_ordered() {
        let pair = |classic, mglru| ordering(&[row("classic", 10, classic, 0), row("mglru", 20, mglru, 0)]);
        assert_eq!(pair((1000, 1010), (1005, 2000)), (0, 0), "ranges meet");
        assert_eq!(pair((1000, 1010), (1040, 2000)), (0, 0), "3 % apart");
        assert_eq!(pair((1000, 1010), (1100, 1200)), (1, 1));
        assert_eq!(pair((1100, 1200), (1000, 1010)), (1, 0), "the other way round");
        assert_eq!(pair((10, 12), (30, 40)), (0, 0), "too few to judge");
    }
}
