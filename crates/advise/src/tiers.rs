//! Recommends a policy over two tiers of memory for a recorded program: plays every policy of the table of tiering policies, on a
//! machine whose fast tier holds a part of the program's peak.
//!
//! Memory is taken as the kernel takes it, from the fast node until that is full and from the slow one then; each policy is compared
//! with all memory fast. A recording lasts seconds and policies act in seconds, so that its epochs are played several times. Each
//! policy is played five times, with a fast tier within 1 % of the size and another seed for random choices.

use super::mean::Figure;
use super::player::scenario_of;
use super::robust::scaled;
use super::run::ppm;
use super::{Question, Sampling, in_pool, lists_requests};
use isotherm_kernel::memory::KernelRelease;
use isotherm_kernel::swap::DeviceConfig;
use isotherm_scenario::single::{Limits, Variant, check_ended, fast_settled_ns, fast_shares, without_limits};
use isotherm_scenario::{Progress, Scenario, ScenarioError};
use isotherm_sim::machine::{Ending, MemoryKind, NodeConfig, Outcome, TieringOutcome};
use isotherm_sim::tiering::{MemoryView, Mover, TIERING_POLICIES, TieringPolicy, TieringSpec};
use isotherm_units::{Amount, Bytes, Duration, PAGE_BYTES, Ratio};
use isotherm_workload::replay::EpochOrder;
use isotherm_workload::{BuildContext, WorkloadSpec};
use rayon::prelude::*;
use serde::Serialize;
use std::path::PathBuf;

/// Replays of each policy.
const REPEATS: usize = 5;
/// Size of the fast tier in each repeat, in thousandths of the size asked for. How it fits the steps of a program's memory is chance: a page
/// more or less of heap, a library more or less of page cache. The first is the size itself.
const SCALES_PERMIL: [u64; REPEATS] = [1000, 990, 995, 1005, 1010];
/// Least size of a node.
const NODE_MIN: Bytes = Bytes::from_mib(4);
/// The recording is played for as long as this at least, as far as its epochs can be played again.
const PLAYED: Duration = Duration::from_secs(30);
/// Most plays of an epoch.
const EPOCHS_MAX: u64 = 100;

/// A question about two tiers of memory.
#[derive(Clone, Debug)]
pub struct TierQuestion {
    /// Name of the program, used in reports only.
    pub name: String,
    pub trace: PathBuf,
    /// Size of the fast tier; shares are of peak memory.
    pub fast: Amount,
    /// Kind of memory of the slow tier.
    pub slow: MemoryKind,
    /// Release of the kernel by whose rules it is played.
    pub kernel: KernelRelease,
    /// The disk under files.
    pub storage: DeviceConfig,
    pub swap: DeviceConfig,
    /// Largest readahead of files, 0 to 16 MiB.
    pub readahead: Bytes,
    /// Number of processors of the simulated machine.
    pub cpus: u32,
    /// Threads to replay with; `None` = one per processor.
    pub threads: Option<usize>,
}

/// The answer: every policy, and the recommended one.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TierAdvice {
    /// Name of the program.
    pub program: String,
    /// The release by whose rules it was played.
    pub kernel: KernelRelease,
    /// The disk under files.
    pub storage: DeviceConfig,
    pub swap: DeviceConfig,
    /// Highest memory charge without limits, bytes.
    pub peak_bytes: u64,
    /// Size of the fast tier, bytes.
    pub fast_bytes: u64,
    /// `fast_bytes` as a share of peak, in millionths.
    pub fast_share_ppm: u64,
    /// Kind of memory of the slow tier.
    pub slow: MemoryKind,
    /// Size of the slow tier, bytes: twice the peak.
    pub slow_bytes: u64,
    /// How often each epoch of the recording was played.
    pub epoch_repeat: u32,
    /// Runtime with all memory fast, nanoseconds: the base of ratios.
    pub all_fast_runtime_ns: u64,
    /// Every policy of the table, in its order.
    pub rows: Vec<TierRow>,
    /// The recommendation; absent where no policy that Linux has lets the program finish.
    pub recommendation: Option<TierRecommendation>,
    /// Limits of these figures, one sentence each.
    pub unknowns: Vec<String>,
    /// The recommended policy as a scenario; `None` without a recommendation.
    #[serde(skip)]
    pub config: Option<Scenario>,
}

/// A policy. Figures are means over its replays.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TierRow {
    pub policy: &'static str,
    /// Whether Linux has it; others are shown, never recommended.
    pub runs_on_linux: bool,
    /// Whether the row is a bound (`all-fast`, `all-slow`), which is no policy.
    pub is_bound: bool,
    /// Number of replays behind the figures.
    pub n: u64,
    pub runtime_ns: u64,
    /// Runtime against all memory fast, pair by pair, in millionths. Absent where a replay did not finish.
    pub runtime_ratio_ppm: Option<u64>,
    /// Lower end of its 95 % confidence interval.
    pub runtime_ratio_ci95_low_ppm: Option<u64>,
    /// Upper end of its 95 % confidence interval.
    pub runtime_ratio_ci95_high_ppm: Option<u64>,
    /// Share of touched pages that were on the fast tier, in millionths.
    pub fast_hit_ppm: Option<u64>,
    /// When that share, taken over a second, first reached 90 % of its last value; mean over replays that show it.
    pub fast_settled_ns: Option<u64>,
    /// Bytes moved to the fast tier.
    pub promoted_bytes: u64,
    /// Promoted bytes that were not used again before they left the fast tier or the run ended.
    pub promoted_in_vain_bytes: u64,
    /// Bytes that reclaim moved to the slow tier.
    pub demoted_bytes: u64,
    /// CPU time of daemons, nanoseconds.
    pub daemon_cpu_ns: u64,
    /// CPU time of finding and moving pages in the program's own time, nanoseconds.
    pub thread_cpu_ns: u64,
    /// CPU time that the program lost to flushes for pages that moved, nanoseconds.
    pub interrupted_ns: u64,
    /// Number of replays in which the program did not finish.
    pub unfinished: u64,
    /// For the first replay: time in ns and share of touches on the fast tier, over a second each, in millionths.
    pub fast_hits: Vec<(u64, u64)>,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TierRecommendation {
    /// The policy: `none` where no other is surely faster.
    pub policy: &'static str,
    /// Runtime against all memory fast, in millionths.
    pub runtime_ratio_ppm: u64,
    /// Runtime against no policy, pair by pair; absent where no policy is recommended.
    pub against_none: Option<TierRatio>,
    /// Share of the cost of no policy against all memory fast that is won back, in millionths; 0 where there is no cost.
    pub won_back_ppm: u64,
    /// The fastest policy that Linux does not have, where it is surely faster than the recommended one.
    pub not_in_linux: Option<TierRatio>,
}

/// Ratio of a policy's run time to another's, in millionths, with its 95 % confidence interval.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TierRatio {
    pub policy: &'static str,
    /// Name of the policy that is the base of the ratio.
    pub against: &'static str,
    pub ratio_ppm: u64,
    /// Lower end of the 95 % confidence interval; `None` if there is no interval.
    pub ci95_low_ppm: Option<u64>,
    /// Upper end of the 95 % confidence interval; `None` if there is no interval.
    pub ci95_high_ppm: Option<u64>,
}

impl TierRatio {
    fn is_surely_faster(&self) -> bool {
        self.ci95_high_ppm.unwrap_or(self.ratio_ppm) < Ratio::ONE.ppm()
    }
}

/// Answers a question.
///
/// # Errors
/// A slow tier that is no slower than the fast one, a fast tier of nothing or of more than the peak, a trace that cannot be read.
pub fn advise_on_tiers(question: &TierQuestion, progress: &dyn Progress) -> Result<TierAdvice, ScenarioError> {
    in_pool(question.threads, || answer(question, progress))
}

/// A replay, as far as it counts.
struct Replay {
    runtime_ns: u64,
    ending: Ending,
    tiering: TieringOutcome,
    settled_ns: Option<u64>,
    hits: Vec<(u64, u64)>,
}

impl Replay {
    fn of(outcome: &Outcome) -> Self {
        let program = &outcome.programs[0];
        Self {
            runtime_ns: program.runtime().ns(),
            ending: program.ending,
            tiering: outcome.tiering.clone().expect("a policy runs"),
            settled_ns: fast_settled_ns(outcome),
            hits: fast_shares(outcome),
        }
    }
}

/// A policy with its replays.
struct Played {
    policy: &'static TieringPolicy,
    replays: Vec<Replay>,
}

fn answer(question: &TierQuestion, progress: &dyn Progress) -> Result<TierAdvice, ScenarioError> {
    check_slow(question.slow)?;
    super::check_trace(&question.trace)?;
    let as_recorded = Question {
        memory: Vec::new(),
        storage: question.storage,
        swap: question.swap,
        readahead: question.readahead,
        slowdown: Ratio::ZERO,
        cpus: question.cpus,
        sampling: Sampling::Off,
        only_recorded: true,
        threads: question.threads,
        ..Question::usual(question.name.clone(), question.trace.clone(), vec![question.kernel])
    };
    let mut base = scenario_of(&as_recorded, &question.trace, question.kernel, EpochOrder::default());
    progress.planned(1);
    let unlimited = without_limits(&base).play(&BuildContext::new("."), Limits::Off, None)?;
    progress.done(1);
    check_ended(&unlimited)?;
    let peak = Bytes::new(unlimited.cgroups[1].peak_pages * PAGE_BYTES);
    let fast = fast_size(question.fast, peak)?;
    let epoch_repeat = if lists_requests(&question.trace) { 1 } else { epochs(unlimited.programs[0].runtime()) };
    if let WorkloadSpec::Trace(trace) = &mut base.workloads[0].load {
        trace.epoch_repeat = epoch_repeat;
    }
    let slow = Bytes::new((peak.get() * 2).max(Bytes::from_mib(64).get()));
    let nodes = |fast| vec![NodeConfig::of_kind(MemoryKind::Dram, fast), NodeConfig::of_kind(question.slow, slow)];
    base.machine.nodes = nodes(fast);
    progress.planned((TIERING_POLICIES.len() * REPEATS) as u64);
    let wanted: Vec<(&'static TieringPolicy, usize)> =
        TIERING_POLICIES.iter().flat_map(|policy| (0..REPEATS).map(move |repeat| (policy, repeat))).collect();
    let replays: Result<Vec<Replay>, ScenarioError> = wanted
        .par_iter()
        .map(|&(policy, repeat)| {
            let mut scenario = under(&base, policy);
            scenario.machine.nodes = nodes(Bytes::new(scaled(fast, SCALES_PERMIL[repeat]).get().max(NODE_MIN.get())));
            let context = BuildContext::new(".").with_seed(scenario.seed.wrapping_add(repeat as u64));
            let variant = Variant { name: policy.name.to_owned(), scenario, only: Vec::new() };
            let outcome = variant.play(&context, Limits::Off, None)?;
            progress.done(1);
            Ok(Replay::of(&outcome))
        })
        .collect();
    let mut replays = replays?.into_iter();
    let played: Vec<Played> = TIERING_POLICIES
        .iter()
        .map(|policy| Played { policy, replays: replays.by_ref().take(REPEATS).collect() })
        .collect();
    let recommendation = recommend(&played);
    let config = recommendation.as_ref().and_then(|best| {
        let policy = TIERING_POLICIES.iter().find(|policy| policy.name == best.policy)?;
        Some(Scenario { repeats: u32::try_from(REPEATS).expect("a few"), ..under(&base, policy) })
    });
    let all_fast = of(&played, "all-fast");
    Ok(TierAdvice {
        program: question.name.clone(),
        kernel: question.kernel,
        storage: question.storage,
        swap: question.swap,
        peak_bytes: peak.get(),
        fast_bytes: fast.get(),
        fast_share_ppm: ppm(fast.get(), peak.get()).unwrap_or(0),
        slow: question.slow,
        slow_bytes: slow.get(),
        epoch_repeat,
        all_fast_runtime_ns: mean(all_fast, |replay| replay.runtime_ns),
        rows: played.iter().map(|one| row(one, all_fast)).collect(),
        recommendation,
        unknowns: unknowns(question, epoch_repeat),
        config,
    })
}

fn meaning(place: &str, message: String) -> ScenarioError {
    ScenarioError::Meaning { place: place.to_owned(), message }
}

fn check_slow(slow: MemoryKind) -> Result<(), ScenarioError> {
    let fast = MemoryKind::Dram;
    if slow.latency() > fast.latency() {
        return Ok(());
    }
    let slower: Vec<&str> =
        MemoryKind::ALL.iter().filter(|kind| kind.latency() > fast.latency()).map(|kind| kind.name()).collect();
    let message = format!(
        "{} has {}, no slower than the fast tier, which is {} with {}; allowed: {}",
        slow.name(),
        slow.latency(),
        fast.name(),
        fast.latency(),
        slower.join(", ")
    );
    Err(meaning("--slow", message))
}

/// The fast tier in whole pages.
fn fast_size(amount: Amount, peak: Bytes) -> Result<Bytes, ScenarioError> {
    let size = amount.of(peak).pages_floor().bytes();
    if peak < NODE_MIN {
        let message =
            format!("the program's peak is {peak}; a node holds {NODE_MIN} at least, which would be all of it");
        return Err(meaning("--fast", message));
    }
    if size < NODE_MIN || size > peak {
        let message =
            format!("a fast tier of {amount} is {size} here; allowed: {NODE_MIN} to {peak}, which is its peak");
        return Err(meaning("--fast", message));
    }
    Ok(size)
}

/// How often each epoch is played so that the program runs for [`PLAYED`].
fn epochs(runtime: Duration) -> u32 {
    let times = PLAYED.ns().div_ceil(runtime.ns().max(1));
    u32::try_from(times.clamp(1, EPOCHS_MAX)).expect("at most 100")
}

/// The recording under a policy. Without a policy nothing is demoted either: pages stay where they were allocated.
fn under(base: &Scenario, policy: &TieringPolicy) -> Scenario {
    let mut scenario = base.clone();
    scenario.machine.tiering.demotion = !matches!(policy.mover, Mover::Nobody);
    scenario.tiering = Some(TieringSpec { policy: policy.name.to_owned(), ..TieringSpec::default() });
    scenario
}

fn is_bound(policy: &TieringPolicy) -> bool {
    policy.memory != MemoryView::AsItIs
}

fn of<'a>(played: &'a [Played], name: &str) -> &'a Played {
    played.iter().find(|one| one.policy.name == name).expect("in the table")
}

fn mean(played: &Played, take: impl Fn(&Replay) -> u64) -> u64 {
    let values: Vec<f64> = played.replays.iter().map(|replay| take(replay) as f64).collect();
    Figure::of(&values).map_or(0, |figure| figure.mean_int())
}

/// Runtime of one against another, pair by pair; `None` if a replay did not finish.
fn ratio(one: &Played, other: &Played) -> Option<Figure> {
    let pair = |(one, other): (&Replay, &Replay)| {
        let is_whole = [one, other].iter().all(|replay| replay.ending == Ending::Finished);
        is_whole.then(|| ppm(one.runtime_ns, other.runtime_ns)).flatten().map(|ratio| ratio as f64)
    };
    let ratios: Option<Vec<f64>> = one.replays.iter().zip(&other.replays).map(pair).collect();
    Figure::of(&ratios?)
}

fn reported_ratio(one: &Played, other: &Played) -> Option<TierRatio> {
    let figure = ratio(one, other)?;
    Some(TierRatio {
        policy: one.policy.name,
        against: other.policy.name,
        ratio_ppm: figure.mean_int(),
        ci95_low_ppm: figure.low_int(),
        ci95_high_ppm: figure.high_int(),
    })
}

fn row(played: &Played, all_fast: &Played) -> TierRow {
    let ratio = ratio(played, all_fast);
    let settled: Vec<f64> = played.replays.iter().filter_map(|replay| Some(replay.settled_ns? as f64)).collect();
    let share = |replay: &Replay| replay.tiering.touches.and_then(|(fast, all)| ppm(fast, all));
    let pages = |take: fn(&TieringOutcome) -> u64| mean(played, |replay| take(&replay.tiering)) * PAGE_BYTES;
    TierRow {
        policy: played.policy.name,
        runs_on_linux: played.policy.runs_on_linux(),
        is_bound: is_bound(played.policy),
        n: played.replays.len() as u64,
        runtime_ns: mean(played, |replay| replay.runtime_ns),
        runtime_ratio_ppm: ratio.map(|ratio| ratio.mean_int()),
        runtime_ratio_ci95_low_ppm: ratio.and_then(|ratio| ratio.low_int()),
        runtime_ratio_ci95_high_ppm: ratio.and_then(|ratio| ratio.high_int()),
        fast_hit_ppm: share(&played.replays[0]).map(|_| mean(played, |replay| share(replay).unwrap_or(0))),
        fast_settled_ns: Figure::of(&settled).map(|figure| figure.mean_int()),
        promoted_bytes: pages(|tiering| tiering.promoted_pages),
        promoted_in_vain_bytes: pages(|tiering| tiering.promoted_in_vain_pages.unwrap_or(0)),
        demoted_bytes: pages(|tiering| tiering.demoted_pages),
        daemon_cpu_ns: mean(played, |replay| replay.tiering.daemon_scan_ns + replay.tiering.daemon_move_ns),
        thread_cpu_ns: mean(played, |replay| replay.tiering.thread_scan_ns + replay.tiering.thread_fault_ns),
        interrupted_ns: mean(played, |replay| replay.tiering.interrupted_ns),
        unfinished: played.replays.iter().filter(|replay| replay.ending != Ending::Finished).count() as u64,
        fast_hits: played.replays[0].hits.clone(),
    }
}

/// The fastest policy of Linux that is surely faster than none; else none.
fn recommend(played: &[Played]) -> Option<TierRecommendation> {
    let (none, all_fast) = (of(played, "none"), of(played, "all-fast"));
    let policies = || played.iter().filter(|one| !is_bound(one.policy));
    let fastest = |linux: bool, against: &Played| {
        let faster = policies().filter(|one| one.policy.runs_on_linux() == linux);
        let ratios = faster.filter_map(|one| Some((one, reported_ratio(one, against)?)));
        ratios.filter(|(_, ratio)| ratio.is_surely_faster()).min_by_key(|(_, ratio)| ratio.ratio_ppm)
    };
    let (best, against_none) = match fastest(true, none) {
        Some((best, ratio)) => (best, Some(ratio)),
        None => (none, None),
    };
    let runtime_ratio_ppm = ratio(best, all_fast)?.mean_int();
    let costs = |ratio_ppm: u64| ratio_ppm.saturating_sub(Ratio::ONE.ppm());
    let none_costs = ratio(none, all_fast).map_or(0, |ratio| costs(ratio.mean_int()));
    let won_back_ppm = ppm(none_costs.saturating_sub(costs(runtime_ratio_ppm)), none_costs).unwrap_or(0);
    let not_in_linux = fastest(false, best).map(|(_, ratio)| ratio);
    Some(TierRecommendation { policy: best.policy.name, runtime_ratio_ppm, against_none, won_back_ppm, not_in_linux })
}

/// Limits of the figures, as text for the user.
fn unknowns(question: &TierQuestion, epoch_repeat: u32) -> Vec<String> {
    let mut unknowns = vec![
        "The recording lists each page once per epoch, so that each costs one access to the slow tier there: a program that uses pages \
         more often, out of the caches, loses more on slow memory than is shown. Trust the shares of touches on the fast tier before \
         runtimes."
            .to_owned(),
        format!(
            "{} is a model of its kind ({}, {} GB/s); bandwidth is not shared between accesses and copies.",
            question.slow.name(),
            question.slow.latency(),
            question.slow.bandwidth().get() / 1_000_000_000
        ),
        "One run of one input was recorded. Intervals are over sizes of the fast tier up to 1 % beside the one asked for, and over \
         seeds of what samples; they know of no other input."
            .to_owned(),
        "The scan daemon (v0 to v3, rch) is in no released Linux; it is compared and not recommended.".to_owned(),
    ];
    if epoch_repeat > 1 {
        unknowns.push(format!(
            "Each epoch is played {epoch_repeat} times, as policies act in seconds and the recording is short: a program that works so \
             many times as long on the same memory."
        ));
    }
    unknowns
}

#[cfg(test)]
mod tests {
    use super::*;

    fn played(name: &str, runtimes_ms: [u64; 3], ending: Ending) -> Played {
        let policy = TIERING_POLICIES.iter().find(|policy| policy.name == name).expect("in the table");
        let replay = |ms| Replay {
            runtime_ns: ms * 1_000_000,
            ending,
            tiering: TieringOutcome::default(),
            settled_ns: None,
            hits: Vec::new(),
        };
        Played { policy, replays: runtimes_ms.map(replay).into_iter().collect() }
    }

    fn table(mode_2: [u64; 3], rch: [u64; 3]) -> Vec<Played> {
        vec![
            played("none", [1500, 1510, 1520], Ending::Finished),
            played("rch", rch, Ending::Finished),
            played("numa-mode-1", [900, 900, 900], Ending::OutOfMemory),
            played("numa-mode-2", mode_2, Ending::Finished),
            played("all-fast", [1000, 1000, 1000], Ending::Finished),
            played("all-slow", [1600, 1600, 1600], Ending::Finished),
        ]
    }

    #[test]
    fn what_is_surely_faster_than_nothing_is_recommended_if_linux_has_it() {
        let best = recommend(&table([1250, 1255, 1260], [1100, 1105, 1110])).expect("it finishes");
        assert_eq!((best.policy, best.runtime_ratio_ppm), ("numa-mode-2", 1_255_000));
        let against = best.against_none.expect("it is not none");
        assert!((830_000..832_000).contains(&against.ratio_ppm) && against.is_surely_faster(), "{against:?}");
        // 510 ms less 255 ms of 510 ms.
        assert_eq!(best.won_back_ppm, 500_000);
        let other = best.not_in_linux.expect("it is faster still");
        assert_eq!((other.policy, other.against), ("rch", "numa-mode-2"));
    }

    #[test]
    fn what_is_faster_by_chance_is_not() {
        let best = recommend(&table([1300, 1510, 1600], [1490, 1510, 1530])).expect("it finishes");
        assert_eq!((best.policy, best.against_none, best.won_back_ppm), ("none", None, 0));
        assert_eq!(best.not_in_linux, None);
        let mut killed = table([1; 3], [1; 3]);
        killed.iter_mut().flat_map(|one| &mut one.replays).for_each(|replay| replay.ending = Ending::OutOfMemory);
        assert_eq!(recommend(&killed), None, "nothing finishes");
    }

    #[test]
    fn bad_sizes_and_kinds_are_refused_in_words() {
        let peak = Bytes::from_mib(100);
        let refused = |amount: Amount, peak| fast_size(amount, peak).unwrap_err().to_string();
        let share = |percent| Amount::Share(Ratio::from_percent(percent));
        assert_eq!(fast_size(share(50), peak).ok(), Some(Bytes::from_mib(50)));
        assert_eq!(fast_size(share(100), peak).ok(), Some(peak));
        for (amount, words) in [
            (share(0), "a fast tier of 0% is 0B here; allowed: 4MiB to 100MiB, which is its peak"),
            (share(101), "a fast tier of 101% is 101MiB here; allowed: 4MiB to 100MiB"),
            (Amount::Absolute(Bytes::from_mib(3)), "a fast tier of 3MiB is 3MiB here; allowed: 4MiB to 100MiB"),
        ] {
            assert!(refused(amount, peak).contains(words), "{}", refused(amount, peak));
        }
        assert!(refused(share(50), Bytes::from_mib(2)).contains("the program's peak is 2MiB"));
        let message = check_slow(MemoryKind::Dram).unwrap_err().to_string();
        let words =
            "dram has 100ns, no slower than the fast tier, which is dram with 100ns; allowed: cxl-near, cxl, cxl-far";
        assert!(message.contains(words), "{message}");
        assert!(check_slow(MemoryKind::CxlNear).is_ok());
    }

    #[test]
    fn short_recordings_are_played_for_half_a_minute() {
        let table = [(3000, 10), (2840, 11), (30_000, 1), (60_000, 1), (1, 100), (0, 100)];
        for (ms, times) in table {
            assert_eq!(epochs(Duration::from_ms(ms)), times, "{ms} ms");
        }
    }
}
