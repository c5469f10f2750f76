//! Hint-fault promotion in real kernels: hot memory on a slow node without processors, and its promotion by the kernel.

use isotherm_guest::patterns::{Motion, Part, Pattern};
use isotherm_guest::tiering::{Tiered, Tiering, Tierings};
use isotherm_units::Duration;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::Path;

use super::promotion_simulated::simulated;
use super::{Boot, FigureRow, Range, Rig, Stored, by_release, quiet, reports};
use crate::FidelityError;
use isotherm_rig::job::Setting;
use isotherm_rig::{Clock, Job, Machine, Report, Task};

/// Pages of the arena: 128 MiB.
pub(super) const PAGES: u32 = 1 << 15;
pub(super) const PASS: Duration = Duration::from_ms(20);
/// 60 s.
pub const PASSES: u64 = 3000;
/// Passes between two samples: 2 s.
pub(super) const LOOK_EVERY: u64 = 100;
/// Memory of the fast and of the slow node.
pub(super) const MEMORY_BYTES: (u64, u64) = (1 << 30, 512 << 20);
/// Far above the memory to promote.
pub(super) const RATE_MBPS: u32 = 65_536;

/// A workload with a name, and the mode of NUMA balancing it is played in.
#[derive(Clone, Copy, Debug)]
pub struct TierCase {
    /// Name in tables and data.
    pub name: &'static str,
    /// `kernel.numa_balancing`: 0 off, 1 locality, 2 tiering.
    pub mode: u32,
    parts: &'static [(u32, u32, Motion)],
}

const ABENCH: &[(u32, u32, Motion)] = &[(0, PAGES, Motion::Uniform { draws: 2048 })];
const HOT: &[(u32, u32, Motion)] = &[(8192, 8192, Motion::Every { passes: 1 })];

/// The workloads. `abench` is the published benchmark made small: whole pages at random, a sixteenth of them in each pass. In
/// `hot-set` a quarter is used in each pass, the rest never.
pub const TIER_CASES: &[TierCase] = &[
    TierCase { name: "abench", mode: 2, parts: ABENCH },
    TierCase { name: "hot-set", mode: 2, parts: HOT },
    TierCase { name: "hot-set", mode: 1, parts: HOT },
];

impl TierCase {
    pub(super) fn pattern(&self) -> Pattern {
        let parts = self.parts.iter().map(|&(first, pages, motion)| Part { first, pages, motion });
        Pattern { pages: PAGES, parts: parts.collect() }
    }
}

/// Result of one boot of one kernel, in the order of [`TIER_CASES`].
pub type RealBoot = Boot<RealRun>;

/// One workload in one boot.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RealRun {
    /// Name of the workload.
    pub workload: String,
    /// Mode of NUMA balancing.
    pub mode: u32,
    /// Tiers as the kernel has them, `NAME: nodes`.
    pub tiers: Vec<String>,
    /// Counts of `/proc/vmstat`; counters that stayed 0 are left out.
    pub vmstat: BTreeMap<String, i64>,
    /// (passes done, pages of the arena on the fast and on the slow node).
    pub nodes: Vec<(u64, Vec<u64>)>,
}

/// Plays `cases` in a real kernel, in one boot.
///
/// # Errors
/// The guest does not finish.
pub fn real(rig: &Rig<'_>, cases: &[TierCase], passes: u64) -> Result<RealBoot, FidelityError> {
    let runs = cases.iter().map(|case| Tiering {
        pattern: case.pattern(),
        pass_us: PASS.ns() / 1000,
        passes,
        numa_balancing: case.mode,
        promote_rate_mbps: RATE_MBPS,
        slow_node: 1,
        look_every: LOOK_EVERY,
        hot: None,
        program: Vec::new(),
    });
    let task = Task::Tier(Tierings { runs: runs.collect() });
    let mut settings = quiet();
    settings.push(Setting {
        path: "/sys/kernel/mm/numa/demotion_enabled".to_owned(),
        value: "1".to_owned(),
        optional: true,
    });
    let job = Job { settings, zram_bytes: None, files_device: None, task };
    let machine = Machine {
        memory_bytes: MEMORY_BYTES.0,
        slow_bytes: Some(MEMORY_BYTES.1),
        clock: Clock::Instructions,
        time_limit: std::time::Duration::from_secs(900),
        ..Machine::default()
    };
    let result = rig.run(&machine, &job)?;
    let tiered = reports(&result, cases.len(), |report| match report {
        Report::Tiered(tiered) => Some(tiered),
        _ => None,
    })?;
    let runs = cases.iter().zip(tiered).map(|(case, Tiered { tiers, vmstat, nodes, .. })| RealRun {
        workload: case.name.to_owned(),
        mode: case.mode,
        tiers: tiers.clone(),
        vmstat: vmstat.iter().filter(|(_, value)| **value != 0).map(|(name, value)| (name.clone(), *value)).collect(),
        nodes: nodes.clone(),
    });
    let runs = runs.collect();
    Ok(Boot { name: rig.kernel.0.to_owned(), release: result.kernel.clone(), runs })
}

/// [`real`] as its data were made.
///
/// # Errors
/// As [`real`].
pub fn real_all(rig: &Rig<'_>) -> Result<RealBoot, FidelityError> {
    real(rig, TIER_CASES, PASSES)
}

/// The data that come with this program.
///
/// # Errors
/// Never: a test reads them.
pub fn stored() -> Result<Stored<RealBoot>, FidelityError> {
    Stored::parse(include_str!("../../data/promotion.json"), Path::new("promotion.json"))
}

/// Compared data of either world.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Measured {
    pub(super) vmstat: BTreeMap<String, i64>,
    /// (passes done, pages of the arena on the fast and on the slow node).
    pub(super) nodes: Looks,
}

/// See [`RealRun::nodes`].
pub(super) type Looks = Vec<(u64, Vec<u64>)>;

/// Counters that are compared, by the kernel's names.
const COUNTERS: [&str; 7] = [
    "pgpromote_success",
    "pgpromote_candidate",
    "numa_hint_faults",
    "numa_pte_updates",
    "pgmigrate_success",
    "pgdemote_kswapd",
    "pgdemote_direct",
];

/// Simulates the `cases` that have real runs, `passes` long, and compares the two. The simulated machine has no randomness here, so one run
/// is enough. In addition to counters: `fast_pages_end`, pages of the arena on the fast node at the end, and `passes_to_90_percent`, passes
/// until nine tenths of these were there (as far as states were taken), for runs with any promotion. `done` is called after each simulated
/// run.
///
/// # Errors
/// The simulated machine refuses a run.
pub fn compare(
    stored: &Stored<RealBoot>,
    cases: &[TierCase],
    passes: u64,
    done: &mut dyn FnMut(),
) -> Result<Vec<FigureRow>, FidelityError> {
    let mut rows = Vec::new();
    for case in cases {
        let is_it = |run: &&RealRun| run.workload == case.name && run.mode == case.mode;
        if !stored.boots.iter().flat_map(|boot| &boot.runs).any(|run| is_it(&run)) {
            continue;
        }
        let ours = [simulated(case, passes)?];
        done();
        for (kernel, boots) in by_release(&stored.boots) {
            let runs = boots.iter().flat_map(|boot| &boot.runs).filter(is_it);
            let real: Vec<Measured> =
                runs.map(|run| Measured { vmstat: run.vmstat.clone(), nodes: run.nodes.clone() }).collect();
            let mut push = |metric: &'static str, figure: &dyn Fn(&Measured) -> Option<f64>| {
                let of = |runs: &[Measured]| Range::of_some(&runs.iter().filter_map(figure).collect::<Vec<_>>());
                let Some(real) = of(&real) else { return };
                let case = format!("{}, mode {}", case.name, case.mode);
                rows.push(FigureRow { case, kernel: kernel.to_owned(), metric, simulated: of(&ours), real });
            };
            for name in COUNTERS {
                push(name, &|run| Some(run.vmstat.get(name).copied().unwrap_or(0) as f64));
            }
            push("fast_pages_end", &|run| Some(fast_pages(run.nodes.last()) as f64));
            push("passes_to_90_percent", &|run| Some(passes_to_nine_tenths(&run.nodes)? as f64));
        }
    }
    Ok(rows)
}

fn fast_pages(sample: Option<&(u64, Vec<u64>)>) -> u64 {
    sample.and_then(|(_, nodes)| nodes.first()).copied().unwrap_or(0)
}

/// `None`: nothing came to the fast node.
fn passes_to_nine_tenths(samples: &[(u64, Vec<u64>)]) -> Option<u64> {
    let most = fast_pages(samples.last());
    let found = samples.iter().find(|sample| fast_pages(Some(sample)) * 10 >= most * 9);
    found.filter(|_| most > 0).map(|(passes, _)| *passes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nine_tenths_by_hand() {
        let samples = [(0, vec![0, 100]), (10, vec![50, 50]), (20, vec![73, 27]), (30, vec![80, 20])];
        assert_eq!((fast_pages(samples.last()), passes_to_nine_tenths(&samples)), (80, Some(20)));
        assert_eq!((fast_pages(None), passes_to_nine_tenths(&[])), (0, None));
        assert_eq!(passes_to_nine_tenths(&[(0, vec![0, 100]), (10, vec![0, 100])]), None, "nothing came");
    }
}
