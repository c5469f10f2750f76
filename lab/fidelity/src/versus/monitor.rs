//! The monitor of `isotherm-core` in the simulated machine versus DAMON in real kernels: the same patterns, the same attributes, judged
//! by the same code.

use isotherm_core::host::UnitRange;
use isotherm_core::monitor::{Attributes, Monitor, MonitorConfig, Operations, Tick};
use isotherm_guest::monitoring::{ARENA_PAGE, Addresses, Region, Snapshot, Watch, Watches};
use isotherm_guest::patterns::{Motion, Part, Pattern};
use isotherm_kernel::cgroup::CgroupId;
use isotherm_kernel::reclaim::policy_by_name;
use isotherm_sim::machine::{MachineBuilder, MachineConfig, MonitorTarget, NodeConfig, TickSink, Watched as Target};
use isotherm_units::{Bytes, Duration, Instant, PAGE_SHIFT, PageRange};
use serde::{Deserialize, Serialize};
use std::sync::{Arc, Mutex, PoisonError};

pub use super::judge::{Detection, Scores};
use super::judge::{Intervals, judge};
pub use super::monitor_table::{BAR, MonitorRow, SEEDS, compare, stored};
use super::player::{PassTimes, Player};
use super::{OfKernel, Rig, quiet, reports};
use crate::FidelityError;
use isotherm_rig::{Clock, Job, Machine, Report, Task};

/// A pattern with a name.
#[derive(Clone, Copy, Debug)]
pub struct NamedPattern {
    /// Name in tables and data.
    pub name: &'static str,
    parts: &'static [(u32, u32, Motion)],
}

/// Pages of the arena: 64 MiB.
const PAGES: u32 = 1 << 14;
const EACH: Motion = Motion::Every { passes: 1 };

pub const PATTERNS: &[NamedPattern] = &[
    // A quarter in use, the rest not.
    NamedPattern { name: "hot-set", parts: &[(4096, 4096, EACH)] },
    // Three hot sets of 2 MiB, 8 MiB and 512 KiB.
    NamedPattern { name: "hot-sets", parts: &[(1024, 512, EACH), (6000, 2048, EACH), (12_000, 128, EACH)] },
    // 8 MiB in use, which move on by 8 MiB after 8 s.
    NamedPattern { name: "moving", parts: &[(0, PAGES, Motion::Hop { window: 2048, passes: 800, step: 2048 })] },
    // All of it in 2.56 s, and in 80 ms.
    NamedPattern { name: "scan", parts: &[(0, PAGES, Motion::Sweep { per_pass: 64 })] },
    NamedPattern { name: "scan-fast", parts: &[(0, PAGES, Motion::Sweep { per_pass: 2048 })] },
    // Popularity falls as one over the rank; ranks in order, and scattered over the pages.
    NamedPattern { name: "zipf", parts: &[(0, PAGES, Motion::Draws { draws: 4096, scattered: false })] },
    NamedPattern { name: "zipf-scattered", parts: &[(0, PAGES, Motion::Draws { draws: 4096, scattered: true })] },
    // Each 16th page of a quarter.
    NamedPattern { name: "sparse", parts: &[(4096, 4096, Motion::Strided { step: 16 })] },
    // Eighths used each 10 ms, 80 ms, 200 ms and 500 ms.
    NamedPattern {
        name: "warm",
        parts: &[
            (1024, 2048, EACH),
            (4096, 2048, Motion::Every { passes: 8 }),
            (8192, 2048, Motion::Every { passes: 20 }),
            (12_288, 2048, Motion::Every { passes: 50 }),
        ],
    },
];

impl NamedPattern {
    /// The pattern as it is played.
    pub fn pattern(&self) -> Pattern {
        let parts = self.parts.iter().map(|&(first, pages, motion)| Part { first, pages, motion });
        Pattern { pages: PAGES, parts: parts.collect() }
    }
}

/// Both kinds of addresses.
pub const ADDRESSES: [Addresses; 2] = [Addresses::Vaddr, Addresses::Fvaddr];

/// Time from pass to pass, sampling and aggregation interval: ten times the usual ones, since an emulated kernel is slow; only their
/// ratios matter.
const PASS: Duration = Duration::from_ms(10);
const SAMPLE: Duration = Duration::from_ms(50);
const AGGR: Duration = Duration::from_secs(1);
/// [`SAMPLE`] as kept by the guest: its timers go by ticks of 4 ms, and each interval begins after the work of the one before.
const KEPT_SAMPLE: Duration = Duration::from_ms(56);
const UPDATE: Duration = Duration::from_secs(1);
const REGIONS: (u32, u32) = (10, 1000);
/// Length of the watch.
pub const SECONDS: u64 = 30;

/// When everything was touched and the first pass begins.
const LOADED: Instant = Instant::from_ns(100_000_000);

const INTERVALS: Intervals = Intervals { sample_ns: SAMPLE.ns(), samples: 20 };
const _: () = assert!(INTERVALS.sample_ns * INTERVALS.samples as u64 == AGGR.ns(), "an aggregation is whole samples");

/// Result of one boot of one kernel.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RealBoot {
    /// Name of the kernel here.
    pub name: String,
    /// `uname -r`.
    pub release: String,
    /// Mappings of the process, `(first page, pages)`.
    pub mappings: Vec<(u64, u64)>,
    /// In the order of [`PATTERNS`], then [`ADDRESSES`].
    pub runs: Vec<RealRun>,
}

impl OfKernel for RealBoot {
    fn kernel(&self) -> &str {
        &self.name
    }
}

/// One pattern in one boot.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RealRun {
    /// Name of the pattern.
    pub pattern: String,
    /// Kind of addresses.
    pub addresses: Addresses,
    /// DAMON's accuracy.
    pub scores: Scores,
}

/// Plays `patterns` in a real kernel, one after the other in one boot, with both kinds of addresses.
///
/// # Errors
/// The guest does not finish, or has no DAMON.
pub fn real(rig: &Rig<'_>, patterns: &[NamedPattern], seconds: u64) -> Result<RealBoot, FidelityError> {
    let cases = patterns.iter().flat_map(|pattern| ADDRESSES.map(|addresses| (pattern, addresses)));
    let runs = cases.clone().map(|(pattern, addresses)| Watch {
        pattern: pattern.pattern(),
        pass_us: PASS.ns() / 1000,
        addresses,
        sample_us: SAMPLE.ns() / 1000,
        aggr_us: AGGR.ns() / 1000,
        min_regions: REGIONS.0,
        max_regions: REGIONS.1,
        seconds,
    });
    let task = Task::Watch(Watches { runs: runs.collect() });
    let job = Job { settings: quiet(), zram_bytes: None, files_device: None, task };
    let time_limit = std::time::Duration::from_secs(900);
    let machine = Machine { clock: Clock::Instructions, time_limit, ..Machine::default() };
    let result = rig.run(&machine, &job)?;
    let watched = reports(&result, cases.clone().count(), |report| match report {
        Report::Watched(watched) => Some(watched),
        _ => None,
    })?;
    let mappings = watched.first().map(|watched| watched.mappings.clone()).unwrap_or_default();
    let runs = cases.zip(watched).map(|((pattern, addresses), watched)| RealRun {
        pattern: pattern.name.to_owned(),
        addresses,
        scores: judge(&pattern.pattern(), &watched.passes_ns, &watched.snapshots, INTERVALS),
    });
    let runs = runs.collect();
    Ok(RealBoot { name: rig.kernel.0.to_owned(), release: result.kernel.clone(), mappings, runs })
}

/// The same by our monitor in the simulated machine, in a process with these mappings.
///
/// # Errors
/// The machine refuses the run.
pub fn simulated(
    pattern: &NamedPattern,
    addresses: Addresses,
    mappings: &[(u64, u64)],
    seed: u64,
) -> Result<Scores, FidelityError> {
    let pattern = pattern.pattern();
    let nodes = vec![NodeConfig { memory: Bytes::from_gib(1), ..NodeConfig::default() }];
    let policy = policy_by_name("classic").expect("the table has it").build();
    let mut builder = MachineBuilder::new(&MachineConfig { nodes, ..MachineConfig::default() }, policy)?;
    let others = mappings.iter().filter(|(first, _)| *first != ARENA_PAGE);
    let times = PassTimes::default();
    let player = Player {
        pattern: pattern.clone(),
        others: others.map(|&(first, pages)| PageRange::at(first, pages)).collect(),
        pass: PASS,
        passes: None,
        compute: Duration::ZERO,
        begin: LOADED,
        times: times.clone(),
    };
    let arena = player.arena();
    let id = builder.add_program(player.into_program(), CgroupId::ROOT)?;
    builder.start_at(id, Instant::START);
    let (operations, ranges) = match addresses {
        Addresses::Vaddr => (Operations::Vaddr, Vec::new()),
        Addresses::Fvaddr => {
            (Operations::Fvaddr, vec![UnitRange::new(arena.start << PAGE_SHIFT, arena.end << PAGE_SHIFT)])
        }
    };
    let attributes = Attributes {
        sample_interval: KEPT_SAMPLE,
        aggr_interval: KEPT_SAMPLE.saturating_mul(INTERVALS.samples as u64),
        ops_update_interval: UPDATE,
        min_nr_regions: REGIONS.0,
        max_nr_regions: REGIONS.1,
        intervals_goal: None,
    };
    let config = MonitorConfig { operations, attributes, ..MonitorConfig::default() };
    let snapshots = Arc::new(Mutex::new(Vec::new()));
    let heard = snapshots.clone();
    let sink: TickSink = Box::new(move |monitor: &Monitor, tick: &Tick| {
        if tick.has_snapshot {
            heard.lock().unwrap_or_else(PoisonError::into_inner).push(snapshot_of(monitor));
        }
    });
    let target = MonitorTarget::Process(id, 0);
    builder.kdamond("kdamond.0", config, seed, vec![Target { target, ranges }], sink)?;
    builder.build().run(Instant::START + Duration::from_secs(SECONDS))?;
    let snapshots = std::mem::take(&mut *snapshots.lock().unwrap_or_else(PoisonError::into_inner));
    let times = std::mem::take(&mut *times.lock().unwrap_or_else(PoisonError::into_inner));
    Ok(judge(&pattern, &times, &snapshots, INTERVALS))
}

fn snapshot_of(monitor: &Monitor) -> Snapshot {
    let snapshot = monitor.snapshot();
    let regions = snapshot.regions.iter().map(|region| Region {
        start: region.range.start,
        end: region.range.end,
        nr_accesses: region.nr_accesses,
        age: region.age,
    });
    Snapshot { at_ns: snapshot.at.ns(), regions: regions.collect() }
}
