//! How long a program would wait for its huge pages: a simulated machine of its memory size is fragmented as by the test program
//! of the patches for proactive compaction, left alone for a while without and with each design of proactive compaction, and
//! asked for as many huge pages as the recording could use.

use super::HugePages;
use super::replay_cache::ReplayCache;
use isotherm_core::compaction::{DESIGNS, Design, Proactiveness};
use isotherm_kernel::compaction::{BlockTaken, HugePath};
use isotherm_kernel::memory::watermarks::{WatermarkConfig, Watermarks, ZoneSize};
use isotherm_kernel::swap::device::DeviceKind;
use isotherm_scenario::single::{Limits, Peaks, Variant, check_ended};
use isotherm_scenario::{CompactionSpec, Progress, RunMode, Scenario, ScenarioError, WorkloadEntry};
use isotherm_sim::machine::{MachineConfig, NodeConfig, Outcome};
use isotherm_units::{Bytes, Duration};
use isotherm_workload::{BuildContext, Effort, FragmenterSpec, HugePagesSpec, WorkloadSpec};
use rayon::prelude::*;
use serde::{Deserialize, Serialize};

/// Bytes of a huge page.
const HUGE: Bytes = Bytes::from_mib(2);
/// Least memory of the machine: a few huge pages are too small a sample.
const MACHINE_MIN: Bytes = Bytes::from_mib(64);
/// Most memory of the machine, so that advice comes soon. Shares and latencies of one huge page do not depend on it.
const MACHINE_MAX: Bytes = Bytes::from_gib(1);
/// Share of each 2 MiB that is given back: three of `FREED_OF` quarters.
const FREED: u64 = 3;
const FREED_OF: u64 = 4;
/// At most this share of the memory is asked for as huge pages: the rest is kept by watermarks and per-CPU lists.
const ASKED_PERCENT: u64 = 67;
/// Machines of each design, each with another seed: where the pieces lie in physical memory, and when the program asks.
const SEEDS: u64 = 3;
/// Time at which others take the free huge pages: after memory was fragmented and before daemons run.
const OTHERS: Duration = Duration::from_ms(400);
/// Time for daemons to work, and then the time within which the program asks.
const ALONE: Duration = Duration::from_secs(10);
const WITHIN: Duration = Duration::from_secs(5);
/// `vm.compaction_proactiveness` with which `merged` goes as far as the original marks, 25 percent.
const PROACTIVENESS: u32 = 75;

/// Latencies of huge pages.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Fragmented {
    /// Memory of the simulated machine, bytes.
    pub machine_bytes: u64,
    /// Huge pages asked for, one after the other.
    pub wanted: u64,
    /// Machines behind each row; figures are over the allocations of all.
    pub n: u64,
    /// Rows without proactive compaction, then with each design.
    pub rows: Vec<LatencyRow>,
    /// The design with the fewest failures, of these the least time, of these the least CPU time.
    pub best: &'static str,
    /// The assumptions behind the figures, one sentence each.
    pub assumptions: Vec<String>,
}

/// Huge pages under one design of proactive compaction.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LatencyRow {
    /// Name of the design; `none` for a machine without proactive compaction.
    #[serde(skip_deserializing)]
    pub design: &'static str,
    pub runs_on_linux: bool,
    /// Huge pages that were allocated, on all machines together.
    pub got: u64,
    /// Allocations of huge pages that failed, on all machines together.
    pub failed: u64,
    /// Share of the allocated huge pages for which a block was free, in millionths.
    pub light_share_ppm: u64,
    /// Median time of an allocation for which a block was free, nanoseconds; `None` if there was none.
    pub light_p50_ns: Option<u64>,
    /// Median time of an allocation for which compaction had to make a block, nanoseconds; `None` if there was none.
    pub fallback_p50_ns: Option<u64>,
    /// 95th percentile of the same times, nanoseconds.
    pub fallback_p95_ns: Option<u64>,
    /// Longest time of all allocations, failures included, nanoseconds.
    pub max_ns: u64,
    /// Mean time of all allocations, failures included, nanoseconds.
    pub mean_ns: u64,
    /// CPU time of the daemon, mean over machines, nanoseconds.
    pub daemon_cpu_ns: u64,
}

impl Fragmented {
    /// For the memory that could be huge; `None` where none could, or the recording does not say.
    ///
    /// # Errors
    /// The simulated machine's.
    pub(super) fn of(
        huge: &HugePages,
        peak: Bytes,
        cache: &ReplayCache,
        progress: &dyn Progress,
    ) -> Result<Option<Self>, ScenarioError> {
        let Some(dense) = huge.dense() else { return Ok(None) };
        let machine = machine_for(peak);
        let footprint = footprint(machine);
        let room = footprint.get() / HUGE.get() * FREED / FREED_OF;
        let wanted = dense.ranges.min(room * ASKED_PERCENT / 100);
        let designs: Vec<Option<Design>> =
            std::iter::once(None).chain(DESIGNS.iter().map(|entry| Some(with_goal((entry.make)(), wanted)))).collect();
        progress.planned(designs.len() as u64 * SEEDS);
        let row_of = |design: Option<&Design>| {
            let scenario = scenario(machine, footprint, wanted, design);
            let row = cache.or_play(&format!("huge pages on {SEEDS} machines"), &scenario, || {
                let outcomes = (1..=SEEDS).into_par_iter().map(|seed| play(&scenario, seed));
                let outcomes = outcomes.collect::<Vec<Result<Outcome, ScenarioError>>>();
                let outcomes = outcomes.into_iter().collect::<Result<Vec<_>, _>>()?;
                Ok::<_, ScenarioError>(LatencyRow::of(design, &outcomes, wanted))
            })?;
            progress.done(SEEDS);
            // A stored row has no name.
            Ok(LatencyRow { design: design.map_or("none", Design::name), ..row })
        };
        let rows = designs.par_iter().map(|design| row_of(design.as_ref()));
        let rows = rows.collect::<Vec<Result<LatencyRow, ScenarioError>>>();
        let rows = rows.into_iter().collect::<Result<Vec<_>, _>>()?;
        cache.save();
        let best = rows[1..]
            .iter()
            .min_by_key(|row| (row.failed, row.mean_ns, row.daemon_cpu_ns))
            .expect("there are designs")
            .design;
        let assumptions = assumptions(machine, peak, footprint, wanted, dense.ranges);
        Ok(Some(Self { machine_bytes: machine.get(), wanted, n: SEEDS, rows, best, assumptions }))
    }

    /// The row without proactive compaction.
    pub fn vanilla(&self) -> &LatencyRow {
        &self.rows[0]
    }

    /// Latencies under the best design.
    ///
    /// # Panics
    /// Never for values made by this module: the best is one of the rows.
    pub fn with_best(&self) -> &LatencyRow {
        self.rows.iter().find(|row| row.design == self.best).expect("one of the rows")
    }
}

impl LatencyRow {
    /// Latencies over the first `wanted` attempts on each machine: a failed attempt is a huge page less.
    fn of(design: Option<&Design>, outcomes: &[Outcome], wanted: u64) -> Self {
        let wanted = usize::try_from(wanted).unwrap_or(usize::MAX);
        let all = || outcomes.iter().flat_map(|outcome| outcome.programs[PROGRAM].blocks.iter().take(wanted));
        let times = |of: fn(&BlockTaken) -> bool| {
            let mut times: Vec<u64> =
                all().filter(|block| block.got && of(block)).map(|block| block.latency_ns).collect();
            times.sort_unstable();
            times
        };
        let light = times(|block| block.path == HugePath::Light);
        let fallback = times(|block| block.path == HugePath::Fallback);
        let got = (light.len() + fallback.len()) as u64;
        let attempts = all().count() as u64;
        let daemon_cpu_ns: u64 =
            outcomes.iter().flat_map(|outcome| &outcome.compaction).map(|daemon| daemon.cpu_ns).sum();
        Self {
            design: design.map_or("none", Design::name),
            runs_on_linux: design.is_none_or(|design| matches!(design, Design::Merged(_))),
            got,
            failed: attempts - got,
            light_share_ppm: (light.len() as u64 * 1_000_000).checked_div(got).unwrap_or(0),
            light_p50_ns: rank(&light, 50),
            fallback_p50_ns: rank(&fallback, 50),
            fallback_p95_ns: rank(&fallback, 95),
            max_ns: all().map(|block| block.latency_ns).max().unwrap_or(0),
            mean_ns: all().map(|block| block.latency_ns).sum::<u64>().checked_div(attempts).unwrap_or(0),
            daemon_cpu_ns: daemon_cpu_ns / (outcomes.len() as u64).max(1),
        }
    }
}

/// Nearest rank of values that ascend.
fn rank(sorted: &[u64], percent: usize) -> Option<u64> {
    let last = sorted.len().checked_sub(1)?;
    Some(sorted[((sorted.len() * percent).div_ceil(100).max(1) - 1).min(last)])
}

/// A machine on which the memory given back in pieces is about the memory of the program.
fn machine_for(peak: Bytes) -> Bytes {
    let memory = u128::from(peak.get()) * u128::from(FREED_OF) / u128::from(FREED);
    let memory = u64::try_from(memory).unwrap_or(u64::MAX).clamp(MACHINE_MIN.get(), MACHINE_MAX.get());
    Bytes::new(memory.div_ceil(2 * HUGE.get()) * 2 * HUGE.get())
}

/// All memory except the part that the watermarks keep, in whole 2 MiB.
fn footprint(machine: Bytes) -> Bytes {
    let config = WatermarkConfig { huge_pages: true, ..WatermarkConfig::default() };
    let zone = ZoneSize { managed: machine.pages_floor(), movable: false };
    let high = Watermarks::new(&config, &[vec![zone]]).zones[0].high;
    let filled = machine.get() - isotherm_units::Pages::new(high).bytes().get();
    // One more for the first huge page.
    Bytes::new((filled / HUGE.get() - 1) * HUGE.get())
}

/// A design that is to have `wanted` huge pages ready, or to go as far as the original test.
fn with_goal(design: Design, wanted: u64) -> Design {
    match design {
        Design::Merged(config) => {
            let proactiveness = Proactiveness::try_from(PROACTIVENESS).expect("at most 100");
            Design::Merged(isotherm_core::compaction::MergedConfig { proactiveness, ..config })
        }
        Design::Controller(config) => {
            Design::Controller(isotherm_core::compaction::ControllerConfig { keep: wanted, ..config })
        }
        // The original marks are their defaults.
        Design::Rfc(_) | Design::Explicit(_) => design,
    }
}

/// Index in the scenario of the program that asks.
const PROGRAM: usize = 2;

fn scenario(machine: Bytes, footprint: Bytes, wanted: u64, design: Option<&Design>) -> Scenario {
    let fragmenter = FragmenterSpec {
        footprint,
        lead: HUGE,
        fill_compute: Duration::ZERO,
        duration: Duration::from_secs(30),
        ..FragmenterSpec::default()
    };
    let others = HugePagesSpec { effort: Effort::Light, ..HugePagesSpec::default() };
    let driver = HugePagesSpec { delay: WITHIN, count: Some(wanted), failures: wanted, ..HugePagesSpec::default() };
    let mut config = MachineConfig { cpus: 4, transparent_hugepages: true, ..MachineConfig::default() };
    config.nodes = vec![NodeConfig { memory: machine, ..NodeConfig::default() }];
    config.swap.device = DeviceKind::None.into();
    let others = WorkloadEntry { start: OTHERS, ..WorkloadEntry::new("others", WorkloadSpec::HugePages(others)) };
    let driver = WorkloadEntry { start: ALONE, ..WorkloadEntry::new("program", WorkloadSpec::HugePages(driver)) };
    Scenario {
        run: RunMode::Together,
        until: Duration::from_secs(60),
        machine: config,
        workloads: vec![WorkloadEntry::new("fragmenter", WorkloadSpec::Fragmenter(fragmenter)), others, driver],
        compaction: design.map(|design| CompactionSpec::new("daemon", design.clone())).into_iter().collect(),
        ..Scenario::named("fragmented memory")
    }
}

fn play(scenario: &Scenario, seed: u64) -> Result<Outcome, ScenarioError> {
    let variant = Variant { name: "huge pages".to_owned(), scenario: scenario.clone(), only: Vec::new() };
    let outcome = variant.play(&BuildContext::new(".").with_seed(seed), Limits::Of(&Peaks::new()), None)?;
    check_ended(&outcome)?;
    Ok(outcome)
}

fn assumptions(machine: Bytes, peak: Bytes, footprint: Bytes, wanted: u64, could_be: u64) -> Vec<String> {
    let mut all = vec![
        format!(
            "A simulated machine of {} without swap, filled with single pages up to its watermarks ({}), of which the first \
             three quarters of each 2 MiB are given back: nothing but movable pages, which nobody uses. Others take what huge pages \
             are free then.",
            machine.approx(),
            footprint.approx()
        ),
        format!(
            "Daemons have {ALONE} to work; within the next {WITHIN} the program asks for {wanted} huge pages, one after the other, \
             each with compaction as after MADV_HUGEPAGE, and tries once more where a first attempt fails.",
        ),
        format!(
            "`rfc` and `explicit` have the marks 25 and 30 percent, `merged` a proactiveness of {PROACTIVENESS} (Linux: 20), \
             `controller` keeps {wanted} huge pages."
        ),
        "Zeroing a huge page comes on top. Prices of moving pages are the cost table's; real memory holds pages that cannot move, \
         and then fewer huge pages are had."
            .to_owned(),
    ];
    if wanted < could_be {
        all.push(format!(
            "{could_be} ranges could be huge; {wanted} are asked for, {ASKED_PERCENT} % of what a machine of {} has in pieces.",
            machine.approx()
        ));
    }
    if machine_for(peak) == MACHINE_MIN {
        all.push(format!("The program is small: its machine is of the least size, {}.", MACHINE_MIN.approx()));
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use isotherm_trace::analysis::{HugeRanges, HugeStep};

    fn huge(ranges: u64) -> HugePages {
        let step = |least_share_ppm, ranges| HugeStep {
            least_share_ppm,
            ranges,
            held_bytes: 0,
            held_share_ppm: 0,
            accesses_share_ppm: 0,
            overhead_bytes: 0,
        };
        let reported =
            HugeRanges { touched_bytes: 0, anonymous_bytes: 0, steps: vec![step(super::super::DENSE.ppm(), ranges)] };
        HugePages {
            dense_share_ppm: super::super::DENSE.ppm(),
            ranges: Some(reported),
            not_reported: None,
            fragmented: None,
        }
    }

    #[test]
    fn machines_are_of_the_programs_size_within_limits() {
        let mib = Bytes::from_mib;
        let table = [(1, 64), (48, 64), (300, 400), (301, 404), (768, 1024), (1 << 20, 1024)];
        for (peak, expected) in table {
            assert_eq!(machine_for(mib(peak)), mib(expected), "{peak} MiB");
        }
        assert_eq!(machine_for(Bytes::new(u64::MAX)), MACHINE_MAX);
        // 1 GiB: 5632 pages are kept as minimum, and twice a quarter of it on top: 33 MiB.
        assert_eq!(footprint(mib(1024)), mib(1024 - 33 - 1 - 2));
    }

    /// Memory that is free in pieces has to be made into huge pages while the program waits, or before.
    #[test]
    fn without_a_daemon_the_program_waits_and_with_the_best_it_does_not() {
        let reported = Fragmented::of(&huge(40), Bytes::from_mib(100), &ReplayCache::default(), &())
            .unwrap()
            .expect("40 could be huge");
        assert_eq!((reported.wanted, reported.machine_bytes, reported.rows.len()), (30, 136 << 20, 1 + DESIGNS.len()));
        let (vanilla, best) = (reported.vanilla(), reported.with_best());
        assert_eq!((vanilla.got + vanilla.failed, vanilla.design, vanilla.daemon_cpu_ns), (90, "none", 0));
        assert!(vanilla.fallback_p50_ns > best.light_p50_ns && best.failed <= vanilla.failed, "{reported:?}");
        assert!(best.light_share_ppm > vanilla.light_share_ppm && best.mean_ns < vanilla.mean_ns / 2, "{reported:?}");
        assert!(best.daemon_cpu_ns > 0);
        assert!(reported.rows.iter().skip(1).all(|row| row.mean_ns >= best.mean_ns || row.failed > 0), "{reported:?}");
        assert_eq!(reported.rows.iter().filter(|row| row.runs_on_linux).count(), 2, "none, and merged");
        assert_eq!(
            Fragmented::of(&huge(40), Bytes::from_mib(100), &ReplayCache::default(), &()).unwrap(),
            Some(reported),
            "the same again"
        );
    }

    #[test]
    fn what_was_kept_is_not_played_again_and_keeps_its_names() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("kept.jsonl");
        let of = || Fragmented::of(&huge(40), Bytes::from_mib(100), &ReplayCache::in_file(file.clone()), &()).unwrap();
        let lines = || std::fs::read_to_string(&file).unwrap().lines().count();
        let first = of();
        assert_eq!(lines(), 1 + DESIGNS.len());
        assert_eq!((of(), lines()), (first, 1 + DESIGNS.len()));
    }

    #[test]
    fn more_than_the_machine_holds_is_told_for_a_part() {
        let reported = Fragmented::of(&huge(100_000), Bytes::from_gib(300), &ReplayCache::default(), &())
            .unwrap()
            .expect("they could be huge");
        assert_eq!(reported.machine_bytes, MACHINE_MAX.get());
        assert!(
            reported.wanted < 400
                && reported.assumptions.iter().any(|line| line.contains("100000 ranges could be huge"))
        );
        assert_eq!(
            Fragmented::of(&huge(0), Bytes::from_mib(100), &ReplayCache::default(), &()).unwrap(),
            None,
            "nothing could be huge"
        );
    }
}
