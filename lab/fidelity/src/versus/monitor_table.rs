//! Our monitor versus the kernel's.

use super::monitor::{ADDRESSES, NamedPattern, RealBoot, Scores, simulated};
use super::{Range, Stored};
use crate::FidelityError;
use isotherm_guest::monitoring::Addresses;
use serde::Serialize;
use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::path::Path;

/// Most by which our precision and recall may be below the kernel's.
pub const BAR: f64 = 0.05;
/// Seeds that the simulated monitor is run with.
pub const SEEDS: RangeInclusive<u64> = 1..=5;

/// One figure in both worlds.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct MonitorRow {
    /// Name of the pattern.
    pub pattern: &'static str,
    /// Kind of addresses.
    pub addresses: Addresses,
    /// `uname -r`.
    pub kernel: String,
    /// `often_precision`, `often_recall`, `seen_precision`, `seen_recall`, `regions`, `nr_accesses_error`.
    pub metric: &'static str,
    /// Over seeds.
    pub simulated: Range,
    /// Over boots.
    pub real: Range,
    /// For precision and recall: whether our mean is at most [`BAR`] below the kernel's nearer end.
    pub met: Option<bool>,
}

type Figure = (&'static str, fn(&Scores) -> Option<f64>, bool);

const FIGURES: [Figure; 6] = [
    ("often_precision", |scores| scores.often.precision, true),
    ("often_recall", |scores| scores.often.recall, true),
    ("seen_precision", |scores| scores.seen.precision, true),
    ("seen_recall", |scores| scores.seen.recall, true),
    ("regions", |scores| Some(scores.regions), false),
    ("nr_accesses_error", |scores| Some(scores.nr_accesses_error), false),
];

/// The data that come with this program.
///
/// # Errors
/// Never: a test reads them.
pub fn stored() -> Result<Stored<RealBoot>, FidelityError> {
    Stored::parse(include_str!("../../data/monitor.json"), Path::new("monitor.json"))
}

/// Simulates the `patterns` that have real runs, with `seeds`, and compares the two. `done` is called after each simulated run.
///
/// # Errors
/// The simulated machine refuses a run.
pub fn compare(
    stored: &Stored<RealBoot>,
    patterns: &[NamedPattern],
    seeds: RangeInclusive<u64>,
    done: &mut dyn FnMut(),
) -> Result<Vec<MonitorRow>, FidelityError> {
    let mut kernels: BTreeMap<&str, Vec<&RealBoot>> = BTreeMap::new();
    for boot in &stored.boots {
        kernels.entry(&boot.release).or_default().push(boot);
    }
    let mut rows = Vec::new();
    for pattern in patterns {
        for addresses in ADDRESSES {
            for (&kernel, boots) in kernels.iter().rev() {
                let runs = boots.iter().flat_map(|boot| &boot.runs);
                let real: Vec<Scores> = runs
                    .filter(|run| run.pattern == pattern.name && run.addresses == addresses)
                    .map(|run| run.scores)
                    .collect();
                if real.is_empty() {
                    continue;
                }
                let mut ours = Vec::new();
                for seed in seeds.clone() {
                    ours.push(simulated(pattern, addresses, &boots[0].mappings, seed)?);
                    done();
                }
                rows.extend(FIGURES.iter().filter_map(|&(metric, figure, is_judged)| {
                    let [ours, real] =
                        [&ours, &real].map(|scores| scores.iter().filter_map(figure).collect::<Vec<_>>());
                    if ours.is_empty() || real.is_empty() {
                        return None;
                    }
                    let (simulated, real) = (Range::of(&ours), Range::of(&real));
                    Some(MonitorRow {
                        pattern: pattern.name,
                        addresses,
                        kernel: kernel.to_owned(),
                        metric,
                        simulated,
                        real,
                        met: is_judged.then_some(simulated.mean >= real.low - BAR),
                    })
                }));
            }
        }
    }
    Ok(rows)
}
