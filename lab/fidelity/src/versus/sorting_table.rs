//! The effect of LRU_SORT, in real kernels and simulated, side by side.

use super::sorting::{Counts, PASSES, RealBoot, RealRun, SORT_WORKLOADS, simulated};
use super::{FigureRow, Range, Stored, by_release};
use crate::FidelityError;
use std::ops::RangeInclusive;
use std::path::Path;

/// Seeds of our runs: as many as there are boots.
pub const SEEDS: RangeInclusive<u64> = 1..=5;

/// Counts without and with sorted lists.
type Pair = [Counts; 2];

type Figure = (&'static str, fn(&Pair) -> Option<f64>);

/// Counts and bytes as they are; ratios are sorted by plain, and `None` where that is 0.
const FIGURES: [Figure; 11] = [
    ("major_faults_plain", |[plain, _]| Some(plain.major_faults as f64)),
    ("major_faults_sorted", |[_, sorted]| Some(sorted.major_faults as f64)),
    ("major_faults_ratio", |[plain, sorted]| ratio(sorted.major_faults, plain.major_faults)),
    ("refaults_plain", |[plain, _]| Some(plain.refaults as f64)),
    ("refaults_sorted", |[_, sorted]| Some(sorted.refaults as f64)),
    ("refaults_ratio", |[plain, sorted]| ratio(sorted.refaults, plain.refaults)),
    ("scanned_plain", |[plain, _]| Some(plain.scanned as f64)),
    ("scanned_sorted", |[_, sorted]| Some(sorted.scanned as f64)),
    ("scanned_ratio", |[plain, sorted]| ratio(sorted.scanned, plain.scanned)),
    ("hot_bytes", |[_, sorted]| Some(sorted.hot_bytes as f64)),
    ("cold_bytes", |[_, sorted]| Some(sorted.cold_bytes as f64)),
];

fn ratio(sorted: u64, plain: u64) -> Option<f64> {
    (plain > 0).then(|| sorted as f64 / plain as f64)
}

/// The data that come with this program.
///
/// # Errors
/// Never: a test reads them.
pub fn stored() -> Result<Stored<RealBoot>, FidelityError> {
    Stored::parse(include_str!("../../data/sorting.json"), Path::new("sorting.json"))
}

/// Simulates workloads with real runs, with `seeds`, and compares the two. `done` is called after each pair of simulated runs.
///
/// # Errors
/// The simulated machine refuses a run.
pub fn compare(
    stored: &Stored<RealBoot>,
    seeds: RangeInclusive<u64>,
    done: &mut dyn FnMut(),
) -> Result<Vec<FigureRow>, FidelityError> {
    let mut rows = Vec::new();
    for workload in SORT_WORKLOADS {
        let kernels: Vec<(&str, Vec<Pair>)> =
            by_release(&stored.boots).map(|(kernel, boots)| (kernel, pairs(&boots, workload.name))).collect();
        if kernels.iter().all(|(_, real)| real.is_empty()) {
            continue;
        }
        // Without sorting there is no randomness.
        let plain = simulated(workload, false, PASSES, 1)?;
        let mut ours = Vec::new();
        for seed in seeds.clone() {
            ours.push([plain, simulated(workload, true, PASSES, seed)?]);
            done();
        }
        for (kernel, real) in kernels {
            for (metric, figure) in FIGURES {
                let of = |pairs: &[Pair]| Range::of_some(&pairs.iter().filter_map(figure).collect::<Vec<_>>());
                let Some(real) = of(&real) else { continue };
                let case = workload.name.to_owned();
                rows.push(FigureRow { case, kernel: kernel.to_owned(), metric, simulated: of(&ours), real });
            }
        }
    }
    Ok(rows)
}

fn pairs(boots: &[&RealBoot], workload: &str) -> Vec<Pair> {
    let pair = |boot: &&RealBoot| {
        let of = |is_sorted| {
            let is_it = |run: &&RealRun| run.workload == workload && run.is_sorted == is_sorted;
            Some(boot.runs.iter().find(is_it)?.counts)
        };
        Some([of(false)?, of(true)?])
    };
    boots.iter().filter_map(pair).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_by_hand() {
        let counts = |major_faults| Counts { major_faults, scanned: 10, ..Counts::default() };
        let of = |name: &str, pair: &Pair| FIGURES.iter().find(|(known, _)| *known == name).unwrap().1(pair);
        let pair = [counts(200), counts(150)];
        assert_eq!(of("major_faults_plain", &pair), Some(200.0));
        assert_eq!(of("major_faults_sorted", &pair), Some(150.0));
        assert_eq!(of("major_faults_ratio", &pair), Some(0.75));
        assert_eq!(of("refaults_ratio", &pair), None, "of nothing");
        assert_eq!(of("scanned_ratio", &pair), Some(1.0));
    }

    #[test]
    fn a_boot_without_one_half_gives_no_pair() {
        let run = |is_sorted| RealRun { workload: "zipf".to_owned(), is_sorted, counts: Counts::default() };
        let boot = |runs| RealBoot { name: "6.12".to_owned(), release: "6.12.1".to_owned(), runs };
        let (whole, half) = (boot(vec![run(false), run(true)]), boot(vec![run(false)]));
        assert_eq!(pairs(&[&whole, &half], "zipf").len(), 1);
        assert_eq!(pairs(&[&whole], "frames").len(), 0);
    }
}
