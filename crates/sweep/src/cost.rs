//! Rough predicted cost of runs, in touches of pages.

use isotherm_scenario::Scenario;
use isotherm_trace::TraceReader;
use isotherm_units::Amount;
use isotherm_workload::WorkloadSpec;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Assumed touches of a workload that is not a recording.
const OTHERS: u64 = 1_000_000;

/// Costs of recordings that were read.
#[derive(Default)]
pub(crate) struct Costs(BTreeMap<PathBuf, u64>);

impl Costs {
    /// Cost in touches of pages, at least 1. A limit that is a share of the peak adds a run that finds the peak.
    pub(crate) fn of(&mut self, scenario: &Scenario, folder: &Path) -> u64 {
        let once: u64 = scenario
            .workloads
            .iter()
            .map(|workload| match &workload.load {
                WorkloadSpec::Trace(trace) => self.of_trace(&folder.join(&trace.path)),
                _ => OTHERS,
            })
            .sum();
        let matrix = scenario.matrix.iter().map(|matrix| matrix.policies.len() * matrix.limits.len()).sum::<usize>();
        let variants = (matrix + scenario.variants.len()).max(1) as u64 * scenario.worlds.len().max(1) as u64;
        let peak = u64::from(matches!(scenario.limit, Some(Amount::Share(_))));
        once.saturating_mul(variants + peak).max(1)
    }

    fn of_trace(&mut self, path: &Path) -> u64 {
        if let Some(&known) = self.0.get(path) {
            return known;
        }
        let touches = TraceReader::open(path).map_or(OTHERS, |reader| reader.meta().accesses);
        self.0.insert(path.to_path_buf(), touches);
        touches
    }
}
