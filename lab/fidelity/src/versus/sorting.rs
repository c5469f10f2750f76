//! LRU_SORT in real kernels versus ours: faults under a limit that drops and rises, with sorted lists and without.

use isotherm_core::host::UnitRange;
use isotherm_core::monitor::{MonitorConfig, Operations};
use isotherm_core::presets::{LruSort, Preset};
use isotherm_guest::monitoring::ARENA_PAGE;
use isotherm_guest::patterns::{Motion, Part, Pattern};
use isotherm_guest::sorting::{Pressure, Sort, Sorted, Sorts};
use isotherm_kernel::cgroup::{CgroupId, Knob, Limit};
use isotherm_kernel::counters::Counter;
use isotherm_kernel::reclaim::policy_by_name;
use isotherm_kernel::swap::device::Compressor;
use isotherm_sim::machine::{
    Action, Ending, MachineBuilder, MachineConfig, MonitorTarget, NodeConfig, Plan, SwapConfig, TickSink, Watched,
};
use isotherm_units::{Bytes, Duration, Instant, PAGE_SHIFT, Ratio};
use serde::{Deserialize, Serialize};

use super::player::{PassTimes, Player};
pub use super::sorting_table::{SEEDS, compare, stored};
use super::{Boot, Rig, quiet, reports};
use crate::FidelityError;
use isotherm_rig::job::Setting;
use isotherm_rig::{Clock, Job, Machine, Report, Task};

/// Pages of the arena: 128 MiB.
const PAGES: u32 = 1 << 15;
const EACH: Motion = Motion::Every { passes: 1 };
pub(super) const PASS: Duration = Duration::from_ms(20);
/// Two seconds of pressure, ten between them and two after.
pub const PASSES: u64 = 700;
/// As in the scenario `plrus`: three quarters of its memory for 1 s, then twice its memory for 10 s.
pub(super) const PRESSURE: Pressure =
    Pressure { low_bytes: 96 << 20, high_bytes: 256 << 20, low_us: 1_000_000, period_us: 11_000_000 };
/// Time at which everything was touched and the first pass begins.
const LOADED: Instant = Instant::from_ns(1_000_000_000);
/// Memory of the guest, and size of its swap.
pub(super) const MEMORY: Bytes = Bytes::from_gib(1);
/// Folder of the module's parameters.
const PARAMETERS: &str = "/sys/module/damon_lru_sort/parameters";

/// A workload with a name.
#[derive(Clone, Copy, Debug)]
pub struct SortWorkload {
    /// Name in tables and data.
    pub name: &'static str,
    parts: &'static [(u32, u32, Motion)],
}

/// The workloads: shapes of the scenario `plrus`, an eighth as large.
pub const SORT_WORKLOADS: &[SortWorkload] = &[
    // A quarter in each pass; the rest is rarely used.
    SortWorkload { name: "frames", parts: &[(0, 8192, EACH), (8192, 24_576, Motion::Uniform { draws: 2 })] },
    // A quarter in each pass for 6 s, then the next.
    SortWorkload { name: "quarters", parts: &[(0, PAGES, Motion::Hop { window: 8192, passes: 300, step: 8192 })] },
    // An eighth in each pass, and a film that passes once in 14 s.
    SortWorkload { name: "stream", parts: &[(0, 4096, EACH), (4096, 28_672, Motion::Sweep { per_pass: 41 })] },
    // Popularity falls as one over the rank, ranks in order.
    SortWorkload { name: "zipf", parts: &[(0, PAGES, Motion::Draws { draws: 1024, scattered: false })] },
];

impl SortWorkload {
    pub(super) fn pattern(&self) -> Pattern {
        let parts = self.parts.iter().map(|&(first, pages, motion)| Part { first, pages, motion });
        Pattern { pages: PAGES, parts: parts.collect() }
    }
}

/// LRU_SORT as the series tuned it: hot from a fifth of the samples on, cold after 5 s, 2 % of a processor for each, regardless
/// of free memory. With the module's defaults nothing would happen: it works between 20 % and 5 % of free memory, and nothing is
/// idle for 2 minutes.
fn tuned() -> LruSort {
    LruSort {
        hot_thres_access_freq: Ratio::from_percent(20),
        cold_min_age: Duration::from_secs(5),
        quota_time: Duration::from_ms(40),
        wmarks_high: Ratio::from_percent(100),
        wmarks_mid: Ratio::from_percent(100),
        wmarks_low: Ratio::from_percent(0),
        ..LruSort::default()
    }
}

/// A sampling interval of 5 ms as kept by the guest: its timers go by ticks of 4 ms. The module's ages are counted in
/// aggregations, which get longer by the same factor.
fn kept() -> LruSort {
    let tuned = tuned();
    let longer = |time: Duration| Duration::from_ns(time.ns() / 5 * 8);
    LruSort {
        sample_interval: longer(tuned.sample_interval),
        aggr_interval: longer(tuned.aggr_interval),
        cold_min_age: longer(tuned.cold_min_age),
        ..tuned
    }
}

/// [`tuned`] as the kernel's files.
fn files() -> Vec<Setting> {
    let tuned = tuned();
    let thousandths = |share: Ratio| (share.ppm() / 1000).to_string();
    let [us, ms] = [1000, 1_000_000].map(|unit| move |time: Duration| (time.ns() / unit).to_string());
    let values = [
        ("hot_thres_access_freq", thousandths(tuned.hot_thres_access_freq)),
        ("cold_min_age", us(tuned.cold_min_age)),
        ("quota_ms", ms(tuned.quota_time)),
        ("quota_reset_interval_ms", ms(tuned.quota_reset_interval)),
        ("wmarks_high", thousandths(tuned.wmarks_high)),
        ("wmarks_mid", thousandths(tuned.wmarks_mid)),
        ("wmarks_low", thousandths(tuned.wmarks_low)),
        ("sample_interval", us(tuned.sample_interval)),
        ("aggr_interval", us(tuned.aggr_interval)),
        ("min_nr_regions", tuned.min_nr_regions.to_string()),
        ("max_nr_regions", tuned.max_nr_regions.to_string()),
        ("enabled", "Y".to_owned()),
    ];
    values.map(|(name, value)| Setting { path: format!("{PARAMETERS}/{name}"), value, optional: false }).to_vec()
}

/// Result of one boot of one kernel: [`SORT_WORKLOADS`], each without LRU_SORT, then with it.
pub type RealBoot = Boot<RealRun>;

/// One workload in one boot.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RealRun {
    /// Name of the workload.
    pub workload: String,
    /// Whether lists were sorted.
    pub is_sorted: bool,
    pub counts: Counts,
}

/// Compared counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Counts {
    /// Faults that had to read.
    pub major_faults: u64,
    /// Faults on recently evicted pages.
    pub refaults: u64,
    /// Pages scanned by reclaim.
    pub scanned: u64,
    /// Bytes that LRU_SORT treated as hot.
    pub hot_bytes: u64,
    /// Bytes that it treated as cold.
    pub cold_bytes: u64,
    /// Time from the first pass to the end of the last.
    pub took_us: u64,
}

/// Plays workloads in a real kernel, in one boot.
///
/// # Errors
/// The guest does not finish, or has no LRU_SORT.
pub fn real(rig: &Rig<'_>, workloads: &[SortWorkload], passes: u64) -> Result<RealBoot, FidelityError> {
    let cases = workloads.iter().flat_map(|workload| [false, true].map(|is_sorted| (workload, is_sorted)));
    let runs = cases.clone().map(|(workload, is_sorted)| Sort {
        pattern: workload.pattern(),
        pass_us: PASS.ns() / 1000,
        passes,
        pressure: PRESSURE,
        lru_sort: if is_sorted { files() } else { Vec::new() },
        program: Vec::new(),
        settle_ms: 0,
    });
    let task = Task::Sort(Sorts { runs: runs.collect() });
    let mut settings = quiet();
    let knob = |path: &str, value: &str| Setting { path: path.to_owned(), value: value.to_owned(), optional: false };
    settings.extend([knob("/sys/kernel/mm/lru_gen/enabled", "n"), knob("/proc/sys/vm/swappiness", "60")]);
    let job = Job { settings, zram_bytes: Some(MEMORY.get()), files_device: None, task };
    let time_limit = std::time::Duration::from_secs(1800);
    let machine = Machine { memory_bytes: MEMORY.get(), clock: Clock::Instructions, time_limit, ..Machine::default() };
    let result = rig.run(&machine, &job)?;
    let sorted = reports(&result, 2 * workloads.len(), |report| match report {
        Report::Sorted(sorted) => Some(sorted),
        _ => None,
    })?;
    let runs = cases.zip(sorted).map(|((workload, is_sorted), sorted)| RealRun {
        workload: workload.name.to_owned(),
        is_sorted,
        counts: counts_of(sorted),
    });
    Ok(Boot { name: rig.kernel.0.to_owned(), release: result.kernel.clone(), runs: runs.collect() })
}

/// [`real`] as its data were made.
///
/// # Errors
/// As [`real`].
pub fn real_all(rig: &Rig<'_>) -> Result<RealBoot, FidelityError> {
    real(rig, SORT_WORKLOADS, PASSES)
}

pub(super) fn counts_of(sorted: &Sorted) -> Counts {
    let of = |name: &str| sorted.memory_stat.get(name).and_then(|&value| u64::try_from(value).ok()).unwrap_or(0);
    let own = |name: &str| sorted.lru_sort.get(name).copied().unwrap_or(0);
    Counts {
        major_faults: of("pgmajfault"),
        refaults: of("workingset_refault_anon"),
        scanned: of("pgscan"),
        hot_bytes: own("bytes_lru_sorted_hot_regions"),
        cold_bytes: own("bytes_lru_sorted_cold_regions"),
        took_us: sorted.took_us,
    }
}

/// The same in the simulated machine.
///
/// # Errors
/// The machine refuses the workload, or kills it.
pub fn simulated(workload: &SortWorkload, is_sorted: bool, passes: u64, seed: u64) -> Result<Counts, FidelityError> {
    let setup = || Preset::LruSort(kept()).setup().expect("a test sets it up");
    simulated_with(workload, is_sorted.then(|| setup().config), passes, seed)
}

/// The same with a monitor whose schemes sort lists, over physical memory or the process.
///
/// # Errors
/// As [`simulated`].
pub(super) fn simulated_with(
    workload: &SortWorkload,
    sorted: Option<MonitorConfig>,
    passes: u64,
    seed: u64,
) -> Result<Counts, FidelityError> {
    let nodes = vec![NodeConfig { memory: MEMORY, ..NodeConfig::default() }];
    let swap = SwapConfig { size: Some(MEMORY), compressor: Compressor::Lz4, ..SwapConfig::default() };
    let config = MachineConfig { cpus: 1, nodes, swap, ..MachineConfig::default() };
    let mut builder = MachineBuilder::new(&config, policy_by_name("classic").expect("the table has it").build())?;
    let group = builder.add_cgroup(CgroupId::ROOT, "sort")?;
    for (after_us, bytes) in [(0, PRESSURE.low_bytes), (PRESSURE.low_us, PRESSURE.high_bytes)] {
        let limit = Limit::At(Bytes::new(bytes).pages_floor());
        builder.plan(Plan {
            at: LOADED + Duration::from_us(after_us),
            every: Some(Duration::from_us(PRESSURE.period_us)),
            action: Action::Set(group, Knob::Max, limit),
        });
    }
    let player = Player {
        pattern: workload.pattern(),
        others: Vec::new(),
        pass: PASS,
        passes: Some(passes),
        compute: Duration::ZERO,
        begin: LOADED,
        times: PassTimes::default(),
    };
    let id = builder.add_program(player.into_program(), group)?;
    builder.start_at(id, Instant::START);
    if let Some(config) = sorted {
        let watched = match config.operations {
            Operations::Paddr => {
                let ranges = vec![builder.physical_range(config.addr_unit)];
                Watched { target: MonitorTarget::Physical, ranges }
            }
            // The player maps only its arena, which cannot be divided into three ranges.
            _ => {
                let ranges = vec![UnitRange {
                    start: ARENA_PAGE << PAGE_SHIFT,
                    end: (ARENA_PAGE + u64::from(PAGES)) << PAGE_SHIFT,
                }];
                Watched { target: MonitorTarget::Process(id, 0), ranges }
            }
        };
        let sink: TickSink = Box::new(|_, _| {});
        builder.kdamond("lru-sort", config, seed, vec![watched], sink)?;
    }
    let outcome = builder.build().run(Instant::START + Duration::from_secs(3600))?;
    let program = &outcome.programs[0];
    if program.ending != Ending::Finished {
        return Err(FidelityError::Unfinished {
            workload: workload.name.to_owned(),
            policy: "classic".to_owned(),
            what: format!("it did not come to its end: {:?}", program.ending),
        });
    }
    let counters = &outcome.cgroup(&program.cgroup).expect("a program's group is there").counters;
    let schemes = outcome.monitors.first().map(|monitor| &monitor.schemes[..]).unwrap_or_default();
    let treated = |index: usize| schemes.get(index).map_or(0, |report| report.stats.sz_applied);
    Ok(Counts {
        major_faults: counters.get(Counter::PgMajFault),
        refaults: counters.get(Counter::WorkingsetRefaultAnon),
        scanned: counters.pgscan(),
        hot_bytes: treated(0),
        cold_bytes: treated(1),
        took_us: (program.ended_ns - LOADED.ns()) / 1000,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_preset_is_set_up_with_what_the_guest_makes_of_it() {
        let kept = kept();
        assert_eq!(
            (kept.sample_interval, kept.aggr_interval, kept.cold_min_age),
            (Duration::from_ms(8), Duration::from_ms(160), Duration::from_secs(8))
        );
        assert!(Preset::LruSort(kept).setup().is_ok());
    }

    #[test]
    fn the_modules_files_hold_the_same_values_in_the_kernels_units() {
        let files = files();
        let of = |name: &str| {
            let path = format!("{PARAMETERS}/{name}");
            files.iter().find(|setting| setting.path == path).map(|setting| setting.value.as_str())
        };
        let table = [
            ("hot_thres_access_freq", "200"),
            ("cold_min_age", "5000000"),
            ("quota_ms", "40"),
            ("quota_reset_interval_ms", "1000"),
            ("wmarks_high", "1000"),
            ("wmarks_low", "0"),
            ("sample_interval", "5000"),
            ("aggr_interval", "100000"),
        ];
        for (name, value) in table {
            assert_eq!(of(name), Some(value), "{name}");
        }
        assert_eq!(files.last().map(|setting| setting.value.as_str()), Some("Y"), "switched on when all is set");
    }

    #[test]
    fn patterns_can_be_played() {
        for workload in SORT_WORKLOADS {
            assert_eq!(workload.pattern().flaw(), None, "{}", workload.name);
        }
    }

    /// The quarter in use was touched first when everything was touched, so it is evicted, and comes back at once.
    #[test]
    fn pressure_makes_a_simulated_program_fault() {
        let plain = simulated(&SORT_WORKLOADS[0], false, 100, 1).unwrap();
        assert!(plain.scanned >= 8192 && (8192..9000).contains(&plain.major_faults), "{plain:?}");
        assert_eq!((plain.hot_bytes, plain.cold_bytes), (0, 0), "nobody sorts");
        let sorted = simulated(&SORT_WORKLOADS[0], true, 100, 1).unwrap();
        assert!(sorted.hot_bytes > 0, "{sorted:?}");
    }
}
