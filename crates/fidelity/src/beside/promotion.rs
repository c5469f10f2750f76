//! Hint-fault promotion in real kernels: hot memory on a slow node without processors, and what the kernel makes of it.

use isotherm_guest::patterns::{Motion, Part, Pattern};
use isotherm_guest::tiering::{Tiered, Tiering, Tierings};
use isotherm_units::Duration;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::Path;

use super::{Range, Rig, Row, Stored, quiet};
use crate::FidelityError;
use isotherm_rig::job::Setting;
use isotherm_rig::{Clock, Job, Machine, Report, Task};

/// Pages of the arena: 128 MiB.
const PAGES: u32 = 1 << 15;
const PASS: Duration = Duration::from_ms(20);
/// 60 s.
const PASSES: u64 = 3000;
/// A state each 2 s.
const LOOK_EVERY: u64 = 100;
/// Memory of the fast and of the slow node.
const MEMORY_BYTES: (u64, u64) = (1 << 30, 512 << 20);
/// Far above what there is to promote.
const RATE_MBPS: u32 = 65_536;

/// A workload with a name, and the mode of NUMA balancing it is played in.
#[derive(Clone, Copy, Debug)]
pub struct TierCase {
    /// In tables and data.
    pub name: &'static str,
    /// One line for people.
    pub summary: &'static str,
    /// `kernel.numa_balancing`: 0 off, 1 locality, 2 tiering.
    pub mode: u32,
    parts: &'static [(u32, u32, Motion)],
}

const ABENCH: &[(u32, u32, Motion)] = &[(0, PAGES, Motion::Uniform { draws: 2048 })];
const HOT: &[(u32, u32, Motion)] = &[(8192, 8192, Motion::Every { passes: 1 })];

/// What is played. `abench` is the published benchmark made small: whole pages at random, a sixteenth of them in each pass.
pub const TIER_CASES: &[TierCase] = &[
    TierCase { name: "abench", summary: "random pages of all memory", mode: 2, parts: ABENCH },
    TierCase { name: "hot-set", summary: "a quarter in each pass, the rest never", mode: 2, parts: HOT },
    TierCase { name: "hot-set", summary: "the same without tiering", mode: 1, parts: HOT },
];

/// What one boot of one kernel gave.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RealBoot {
    /// Name of the kernel here.
    pub name: String,
    /// `uname -r`.
    pub release: String,
    /// In the order of [`TIER_CASES`].
    pub runs: Vec<RealRun>,
}

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
    /// What `/proc/vmstat` counted; what stayed 0 is left out.
    pub vmstat: BTreeMap<String, i64>,
    /// After so many passes, pages of the arena on the fast and on the slow node.
    pub nodes: Vec<(u64, Vec<u64>)>,
}

/// Plays `cases` in a real kernel, in one boot.
///
/// # Errors
/// The guest does not come to its end.
pub fn real(rig: &Rig<'_>, cases: &[TierCase], passes: u64) -> Result<RealBoot, FidelityError> {
    let runs = cases.iter().map(|case| {
        let parts = case.parts.iter().map(|&(first, pages, motion)| Part { first, pages, motion });
        Tiering {
            pattern: Pattern { pages: PAGES, parts: parts.collect() },
            pass_us: PASS.ns() / 1000,
            passes,
            numa_balancing: case.mode,
            promote_rate_mbps: RATE_MBPS,
            slow_node: 1,
            look_every: LOOK_EVERY,
        }
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
    let tiered = result.reports.iter().filter_map(|report| match report {
        Report::Tiered(tiered) => Some(tiered),
        _ => None,
    });
    let runs = cases.iter().zip(tiered).map(|(case, Tiered { tiers, vmstat, nodes, .. })| RealRun {
        workload: case.name.to_owned(),
        mode: case.mode,
        tiers: tiers.clone(),
        vmstat: vmstat.iter().filter(|(_, value)| **value != 0).map(|(name, value)| (name.clone(), *value)).collect(),
        nodes: nodes.clone(),
    });
    let runs = runs.collect();
    Ok(RealBoot { name: rig.kernel.0.to_owned(), release: result.kernel, runs })
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
/// Never, as a test sees.
pub fn stored() -> Result<Stored<RealBoot>, FidelityError> {
    Stored::parse(include_str!("../../data/promotion.json"), Path::new("promotion.json"))
}

/// Counters that are compared, by the kernel's names.
const COUNTERS: [&str; 6] = [
    "pgpromote_success",
    "pgpromote_candidate",
    "numa_hint_faults",
    "numa_pte_updates",
    "pgmigrate_success",
    "pgdemote_kswapd",
];

/// What real kernels did, case by case. Besides counters `fast_pages_end`: pages of the arena on the fast node at the end, and
/// `passes_to_90_percent`: passes until nine tenths of these were there (as far as states were taken).
pub fn rows(stored: &Stored<RealBoot>) -> Vec<Row> {
    let mut kernels: BTreeMap<&str, Vec<&RealBoot>> = BTreeMap::new();
    for boot in &stored.boots {
        kernels.entry(&boot.release).or_default().push(boot);
    }
    let mut rows = Vec::new();
    for case in TIER_CASES {
        for (&kernel, boots) in kernels.iter().rev() {
            let runs = boots.iter().flat_map(|boot| &boot.runs);
            let runs: Vec<_> = runs.filter(|run| run.workload == case.name && run.mode == case.mode).collect();
            if runs.is_empty() {
                continue;
            }
            let mut push = |metric: &'static str, figures: Vec<f64>| {
                rows.push(Row {
                    case: format!("{}, mode {}", case.name, case.mode),
                    kernel: kernel.to_owned(),
                    metric,
                    real: Range::of(&figures),
                });
            };
            for name in COUNTERS {
                let of = |run: &&RealRun| run.vmstat.get(name).copied().unwrap_or(0) as f64;
                push(name, runs.iter().map(of).collect());
            }
            push("fast_pages_end", runs.iter().map(|run| fast_pages(run.nodes.last()) as f64).collect());
            push("passes_to_90_percent", runs.iter().map(|run| passes_to_nine_tenths(&run.nodes) as f64).collect());
        }
    }
    rows
}

fn fast_pages(look: Option<&(u64, Vec<u64>)>) -> u64 {
    look.and_then(|(_, nodes)| nodes.first()).copied().unwrap_or(0)
}

fn passes_to_nine_tenths(looks: &[(u64, Vec<u64>)]) -> u64 {
    let most = fast_pages(looks.last());
    let found = looks.iter().find(|look| fast_pages(Some(look)) * 10 >= most * 9);
    found.map_or(0, |(passes, _)| *passes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nine_tenths_by_hand() {
        let looks = [(0, vec![0, 100]), (10, vec![50, 50]), (20, vec![73, 27]), (30, vec![80, 20])];
        assert_eq!((fast_pages(looks.last()), passes_to_nine_tenths(&looks)), (80, 20));
        assert_eq!((fast_pages(None), passes_to_nine_tenths(&[])), (0, 0));
    }
}
