//! The main job: how much memory a recorded program needs, under which configuration, with evidence.
//!
//! The recording is replayed without limits, then under every candidate at several memory sizes, each replay in a world of its own
//! ([`chance`]). A figure is the median with an interval over these worlds, widened by the known error of the simulated machine
//! ([`calibration`]). Recommended is the smallest size that is safe over a whole band, up to the peak ([`search`]), on every release of
//! the kernel that was asked for.

pub mod advice;
mod branches;
mod calibration;
mod candidate;
mod chance;
mod choice;
mod clock;
pub mod cold_memory;
mod config;
mod defaults;
mod devices;
mod effort;
mod expected;
mod families;
mod figures;
mod forecast;
mod fragmented;
mod huge;
mod judge;
mod kernel_memory;
mod kill_curve;
mod kills;
mod mean;
mod native_error;
mod pace;
mod player;
mod pool;
mod predict;
mod race;
mod replay_cache;
mod robust;
mod run;
mod scale;
mod scout;
mod search;
mod tiers;

pub use advice::adaptive::Adapts;
pub use calibration::{EVENTS, ModelError, model_error, model_errors};
pub use candidate::{CANDIDATES, Candidate, FEWEST_FAULTS, Recording};
pub use choice::{AgainstClassic, Gain, Note, NoteKind, Recommendation, percent};
pub use clock::ClockError;
pub use defaults::storage_named;
pub use devices::{DeviceRole, OtherDevice};
pub use effort::{EFFORTS, Effort};
pub use expected::{Gamble, Interval};
pub use figures::{AdviceRow, SchemeDid, Stalls};
pub use fragmented::{Fragmented, LatencyRow};
pub use huge::{DENSE, HugePages};
pub use kills::{KillChance, Kills, Start};
pub use native_error::NativeError;
pub use pace::{Percentiles, SlowdownOf};
pub use predict::{Prediction, predict, recommend_each};
pub use replay_cache::Keep;
pub use robust::{Neighbour, Odds};
pub use scout::{SAMPLE_PEAK_MIN, Sampling};
pub use tiers::{TierAdvice, TierQuestion, TierRatio, TierRecommendation, TierRow, advise_on_tiers};

use forecast::Forecast;
use isotherm_kernel::memory::KernelRelease;
use isotherm_kernel::prices::Prices;
use isotherm_kernel::swap::DeviceConfig;
use isotherm_kernel::swap::device::DeviceKind;
use isotherm_scenario::{Progress, Scenario, ScenarioError};
use isotherm_trace::analysis::{check_for_replay, page_cache_pages};
use isotherm_trace::{TraceError, TraceMeta, TraceReader};
use isotherm_units::{Amount, Bytes, Duration, Ratio};
use isotherm_workload::BuildContext;
use isotherm_workload::replay::EpochOrder;
use judge::Judge;
use pace::ProcessPace;
use player::Player;
use replay_cache::ReplayCache;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tempfile::NamedTempFile;

/// A question to [`advise`]: a recording, sizes to try, devices, and the allowed slow-down.
#[derive(Clone, Debug)]
pub struct Question {
    /// Name of the program, used in reports only.
    pub name: String,
    pub trace: PathBuf,
    /// Memory sizes to try; shares are of peak memory. Others are tried where the answer needs them.
    pub memory: Vec<Amount>,
    /// Whether all of these sizes are played; otherwise from the largest down to the first that is too slow.
    pub every_size: bool,
    /// Kernel releases whose rules the replays follow; a recommendation holds on all of them. At least one.
    pub kernels: Vec<KernelRelease>,
    /// The disk under files.
    pub storage: DeviceConfig,
    pub swap: DeviceConfig,
    /// Largest readahead of files, 0 to 16 MiB.
    pub readahead: Bytes,
    /// Prices of the host that the question is about; empty for those of the table of costs.
    pub prices: Prices,
    /// Allowed slow-down compared with unlimited memory; 5 % means a runtime of at most 105 %.
    pub slowdown: Ratio,
    /// Stall that a limit may add to 99 of 100 bursts, the work of a thread from one wait to the next; `None`: the allowed slow-down of
    /// their length.
    pub latency: Option<Duration>,
    /// Name of the page-replacement policy that a recommendation is for; `None`: whichever takes the least memory. Others are played to
    /// compare.
    pub policy: Option<&'static str>,
    /// Number of processors of the simulated machine.
    pub cpus: u32,
    /// Whether right-sizing of the program's group is tried with the policies too.
    pub limits: bool,
    /// Whether the policies that no kernel has are played too.
    pub baselines: bool,
    /// Whether more is played than the recommendation needs: the smallest sizes of combinations, other devices, the kernel's own
    /// parameters, huge pages, and one replay over time.
    pub details: bool,
    pub effort: Effort,
    /// Whether samples of the recording are played.
    pub sampling: Sampling,
    /// Whether nothing is added to what was recorded, for comparisons with kernels in which a player touches the recorded pages: no code
    /// that is used in between, and no files in memory beforehand.
    pub only_recorded: bool,
    /// Where replays are kept for the next question; `None`: nowhere.
    pub keep: Option<Keep>,
    /// Threads to replay with; `None` = one per processor.
    pub threads: Option<usize>,
}

impl Question {
    /// Numbers in [`CANDIDATES`] of the configurations to try.
    fn candidates(&self) -> Vec<usize> {
        (0..CANDIDATES.len()).filter(|&index| CANDIDATES[index].is_asked_for(self)).collect()
    }
}

/// The answer for one release of the kernel.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Advice {
    /// Name of the program.
    pub program: String,
    /// The release by whose rules it was played.
    pub kernel: KernelRelease,
    pub effort: Effort,
    /// Replays of the recording that were played for this release.
    pub replays: u64,
    /// Replays of a sample of the recording.
    pub sampled_replays: u64,
    /// Pages that each page of the sample represents; absent where no sample was played.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sample: Option<u32>,
    /// Whether the search was interrupted: then it is the answer known at that time.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub is_partial: bool,
    /// All releases that the recommendation holds on.
    pub holds_on: Vec<KernelRelease>,
    /// Highest memory charge without limits, the kernel's memory for its threads included, bytes; shares of memory refer to it.
    pub peak_bytes: u64,
    /// Highest resident memory of the program in a run of its own, bytes; absent where the recording has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub measured_peak_bytes: Option<u64>,
    /// Distinct pages of files that it reads and writes through descriptors, bytes; absent where those were not recorded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub page_cache_bytes: Option<u64>,
    /// Memory charge without limits, mean over time, bytes.
    pub unlimited_mean_bytes: u64,
    /// Runtime without limits, nanoseconds of simulated time.
    pub unlimited_runtime_ns: u64,
    /// CPU time of the program's threads and their stalls on memory, with unlimited memory.
    pub unlimited_work_ns: u64,
    /// Processes with a real share of the work, each judged by itself.
    pub processes: Vec<ProcessFigures>,
    /// Major faults without limits (first reads of files).
    pub unlimited_major_faults: u64,
    /// The disk under files.
    pub storage: DeviceConfig,
    pub swap: DeviceConfig,
    /// Prices of the host that the question is about, in ns by name; absent where those of the table of costs were taken.
    #[serde(skip_serializing_if = "Prices::is_empty")]
    pub prices: Prices,
    /// The allowed slow-down, in millionths: 50 000 is 5 %.
    pub slowdown_allowed_ppm: u64,
    /// The stall that memory may add to 99 of 100 bursts, if that was asked for; otherwise the slow-down of their length.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub latency_allowed_ns: Option<u64>,
    /// Every configuration at every size.
    pub rows: Vec<AdviceRow>,
    /// The size at which all configurations are compared: the recommended one, or the largest that was tried.
    pub compared_bytes: u64,
    /// A summary of each configuration.
    pub configurations: Vec<Configuration>,
    /// The recommendation; absent when no size tried is safe.
    pub recommendation: Option<Recommendation>,
    /// The error of the recording's clock; absent without a recommendation, or where it was not measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub clock: Option<ClockError>,
    /// Why a recommendation is withheld though a size was found: the recording says too little.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub withheld: Option<String>,
    /// The recommended configuration on other devices; absent without a recommendation, and unless details were asked for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub other_devices: Vec<OtherDevice>,
    /// Notes on unusual figures.
    pub notes: Vec<Note>,
    /// Combinations with the kernel's own parameters in place of fitted ones, at `compared_bytes`; absent unless details were asked for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub kernel_defaults: Vec<KernelDefaults>,
    /// How much of its memory could be huge pages; absent unless details were asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub huge_pages: Option<HugePages>,
    /// Limits of these figures, one sentence each.
    pub unknowns: Vec<String>,
    /// The recommended configuration as a scenario; `None` without a recommendation.
    #[serde(skip)]
    pub config: Option<Scenario>,
    /// One replay of the recommended configuration, over time; empty without a recommendation, and unless details were asked for.
    #[serde(skip)]
    pub course: Vec<CourseRow>,
}

/// A process of the program without limits.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ProcessFigures {
    /// Index in the recording.
    pub process: usize,
    pub name: String,
    /// CPU time of its threads, and their stalls on memory.
    pub work_ns: u64,
    /// Bursts of its threads: from one wait to the next.
    pub bursts: u64,
    /// Their lengths.
    pub burst: Percentiles,
    /// What it makes of the limit that it finds when it starts.
    #[serde(skip)]
    pub adapts: Vec<Adapts>,
}

impl ProcessFigures {
    fn of(pace: &ProcessPace, meta: &TraceMeta) -> Self {
        let name = meta.processes.get(pace.process).map_or_else(String::new, |process| process.name.clone());
        let adapts = Adapts::of(&name, &meta.command);
        let ProcessPace { process, work_ns, nr_bursts, length, .. } = *pace;
        Self { process, name, work_ns, bursts: nr_bursts, burst: length, adapts }
    }
}

/// With less work than this a recording is too short to say anything, in nanoseconds.
const WORK_MIN_NS: u64 = 100_000_000;

impl Advice {
    /// Takes the recommendation back if the recording cannot support one: the program worked for too short a time to judge it, unless it is
    /// a list of requests, whose pace is made up; or it sizes its memory by time, which the recorder stretches.
    pub fn withhold_if_unknowable(&mut self, question: &Question) {
        if lists_requests(&question.trace) {
            return;
        }
        let is_stretched = TraceReader::open(&question.trace).is_ok_and(|reader| reader.meta().is_made_by_an_engine());
        self.withheld = if self.unlimited_work_ns < WORK_MIN_NS {
            Some(format!(
                "{} works for {} only, and less than {} of work does not say how much memory it needs; record it for longer, or with more to \
                 do (--anyway answers all the same)",
                self.program,
                Duration::from_ns(self.unlimited_work_ns).approx(),
                Duration::from_ns(WORK_MIN_NS).approx(),
            ))
        } else if is_stretched
            && self.processes.iter().any(|process| advice::adaptive::sizes_memory_by_time(&process.name))
        {
            Some(
                "a JVM sizes its heap by how long its collections take, and the recorder makes these many times as long, so that no size \
                 from such a recording has held (docs/use/advise.md#jvm); isotherm verify --memory 90%,75% -- COMMAND measures sizes as it \
                 runs (--anyway answers all the same)"
                    .to_owned(),
            )
        } else {
            None
        };
        if self.withheld.is_some() {
            self.call_nothing_enough();
        }
    }

    fn call_nothing_enough(&mut self) {
        (self.recommendation, self.config, self.clock) = (None, None, None);
        self.other_devices.clear();
        for row in &mut self.rows {
            (row.is_fast_enough, row.native_at_most_ppm) = (false, None);
        }
        self.configurations.iter_mut().for_each(|configuration| configuration.enough_bytes = None);
    }
}

/// One moment of a replay.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CourseRow {
    pub at_ns: u64,
    /// Pages charged to the program.
    pub usage_pages: u64,
    /// Major faults since the start.
    pub major_faults: u64,
    /// Time since the start in which tasks waited for memory (`some` of PSI), nanoseconds.
    pub stalled_ns: u64,
}

/// A summary of a configuration.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Configuration {
    pub candidate: &'static str,
    /// Whether Linux has it; baselines are shown, never recommended.
    pub runs_on_linux: bool,
    /// Whether its predictions were compared with real kernels of this release: only then it can be recommended.
    pub is_calibrated: bool,
    /// The smallest size tried that is safe: fast enough, together with all larger ones.
    pub enough_bytes: Option<u64>,
    /// Schemes and tools that run with the policy: as a scenario's `preset` with parameters that differ from the kernel's, or as the
    /// fitted keys of its `[[generations]]`.
    pub presets: Vec<String>,
}

/// Results of a combination with the kernel's own parameters.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct KernelDefaults {
    /// Name of the combination, such as `classic + reclaim`.
    pub candidate: &'static str,
    pub preset: &'static str,
    /// Runtime against unlimited memory, in millionths; absent when the program was killed. One replay.
    pub runtime_ratio_ppm: Option<u64>,
    /// Effect of each scheme and what limited it, in sentences.
    pub words: Vec<Vec<String>>,
}

/// Answers a question: an answer for each release, in the order they were asked for, with one recommendation for all of them.
///
/// # Errors
/// The trace cannot be read, or a size is below the minimum or above the machine.
pub fn advise(question: &Question, progress: &dyn Progress) -> Result<Vec<Advice>, ScenarioError> {
    in_pool(question.threads, || {
        check_trace(&question.trace)?;
        answer(question, progress)
    })
}

/// The memory that could be huge pages, and their latencies: only this part, without a search for sizes. The peak is the first release's.
///
/// # Errors
/// The trace cannot be read, or takes no memory.
pub fn huge_pages(
    question: &Question,
    progress: &dyn Progress,
) -> Result<(isotherm_units::Bytes, HugePages), ScenarioError> {
    in_pool(question.threads, || {
        check_trace(&question.trace)?;
        let kernel = question.kernels.first().copied().unwrap_or_default();
        let player = Player::new(
            question,
            &question.trace,
            (kernel, EpochOrder::Recorded),
            &BuildContext::new("."),
            &Arc::default(),
            None,
            progress,
        )?;
        Ok((player.peak, HugePages::of(question, player.peak, &player.cache, progress)?))
    })
}

/// Refuses a trace with a few rows of more pages than a replay could hold. A recording that cannot be read is reported when it is played.
fn check_trace(trace: &Path) -> Result<(), ScenarioError> {
    match check_for_replay(trace) {
        Err(error @ TraceError::TooManyPages { .. }) => {
            Err(ScenarioError::Meaning { place: "advise".to_owned(), message: error.to_string() })
        }
        _ => Ok(()),
    }
}

/// Stack of a thread, in bytes: one that waits takes other work on, so that several replays lie on it.
const STACK_BYTES: usize = 16 << 20;

/// Runs `work` in a pool of `threads`; if no thread can be started, on the caller's own.
fn in_pool<T: Send>(threads: Option<usize>, work: impl FnOnce() -> T + Send) -> T {
    match rayon::ThreadPoolBuilder::new().num_threads(threads.unwrap_or(0)).stack_size(STACK_BYTES).build() {
        Ok(pool) => pool.install(work),
        Err(_) => work(),
    }
}

/// A set of replays for each release, and for each order of accesses where the recording has none; shares of memory are of the first
/// one's peak.
fn releases<'a>(
    question: &'a Question,
    trace: &Path,
    peak: Option<Bytes>,
    progress: &'a dyn Progress,
) -> Result<Vec<Judge<'a>>, ScenarioError> {
    let context = BuildContext::new(".");
    let has_order = TraceReader::open(trace).is_ok_and(|reader| !reader.meta().has_no_order_within_epochs());
    let ways = if has_order { &[EpochOrder::Recorded][..] } else { &[EpochOrder::Recorded, EpochOrder::Scattered] };
    let cache = Arc::new(ReplayCache::of(question));
    let mut releases: Vec<Judge<'a>> = Vec::new();
    for &kernel in &question.kernels {
        for &order in ways {
            let peak = peak.or_else(|| releases.first().map(|first| first.player.peak));
            let player = Player::new(question, trace, (kernel, order), &context, &cache, peak, progress)?;
            releases.push(Judge::of(player));
        }
    }
    Ok(releases)
}

fn answer(question: &Question, progress: &dyn Progress) -> Result<Vec<Advice>, ScenarioError> {
    let forecast = Forecast::new(progress);
    let progress: &dyn Progress = &forecast;
    // Lives as long as it is played.
    let sample = match question.sampling {
        Sampling::Only(rate) => Some(scout::sampled(&question.trace, rate, progress)?),
        Sampling::Auto | Sampling::Off | Sampling::Scout(_) => None,
    };
    let played = sample.as_ref().map_or(question.trace.as_path(), NamedTempFile::path);
    let mut whole = releases(question, played, None, progress)?;
    let Some((peak, cache)) = whole.first().map(|first| (first.player.peak, Arc::clone(&first.player.cache))) else {
        return Ok(Vec::new());
    };
    if let Sampling::Only(rate) = question.sampling {
        scout::check_size(question, rate, peak)?;
    }
    let rate = scout::scout_for(question, peak);
    match rate {
        Some(rate) => forecast.expect_scouted(question, rate),
        None => forecast.expect_search(question, whole.first().and_then(|first| first.player.sample()).unwrap_or(1)),
    }
    let scout = rate.map(|rate| scout::sampled(&question.trace, rate, progress)).transpose()?;
    let mut scouts = match &scout {
        Some(scout) => releases(question, scout.path(), Some(peak), progress)?,
        None => Vec::new(),
    };
    // Independent of each other: all threads have work while the search tries one size after the other.
    let (choice, huge_pages) = rayon::join(
        || search_all(question, &mut whole, &mut scouts),
        || question.details.then(|| HugePages::of(question, peak, &cache, progress)).transpose(),
    );
    let (choice, huge_pages) = (choice?, huge_pages?);
    let answers = worst_of_each(whole, choice).into_iter().map(|mut judge| {
        let scout = scouts
            .iter()
            .find(|scout| (scout.player.kernel, scout.player.order) == (judge.player.kernel, judge.player.order));
        advice(&mut judge, scout, choice, huge_pages.as_ref())
    });
    answers.collect()
}

/// The whole search: by `whole` alone, or by its `scouts` first.
fn search_all<'a>(
    question: &Question,
    whole: &mut [Judge<'a>],
    scouts: &mut [Judge<'a>],
) -> Result<Option<choice::Choice>, ScenarioError> {
    let all = question.candidates();
    if !scouts.is_empty() {
        scout::scout(whole, scouts, &all)?;
        let choice = choice::choose(whole)?;
        scout::compare(whole, scouts, choice)?;
        return Ok(choice);
    }
    for judge in whole.iter_mut() {
        search::survey(judge, &all)?;
    }
    let choice = choice::choose(whole)?;
    for judge in whole {
        search::survey_combinations(judge, choice.map(|choice| choice.size))?;
    }
    Ok(choice)
}

/// For each release the replays with the worst result for a choice, in the order of releases.
fn worst_of_each(releases: Vec<Judge<'_>>, choice: Option<choice::Choice>) -> Vec<Judge<'_>> {
    let excess = |judge: &Judge<'_>| {
        let expected = choice.and_then(|choice| judge.expected(choice.index, choice.size));
        expected.map_or(0, |expected| expected.excess_ppm())
    };
    let mut worst: Vec<Judge<'_>> = Vec::new();
    for judge in releases {
        match worst.last_mut().filter(|last| last.player.kernel == judge.player.kernel) {
            None => worst.push(judge),
            Some(last) if excess(&judge) > excess(last) => *last = judge,
            Some(_) => {}
        }
    }
    worst
}

/// The answer of one release for a choice. Figures that take a single replay are played by the `scout`, where there is one.
fn advice(
    judge: &mut Judge<'_>,
    scout: Option<&Judge<'_>>,
    choice: Option<choice::Choice>,
    huge_pages: Option<&HugePages>,
) -> Result<Advice, ScenarioError> {
    let question = judge.player.question;
    let mut trace = TraceReader::open(&question.trace).ok();
    let meta = trace.as_ref().map(|trace| trace.meta().clone()).unwrap_or_default();
    let page_cache_pages = trace.as_mut().and_then(|trace| page_cache_pages(trace).ok()).flatten();
    let compared = choice::compare(judge, choice)?;
    let rows = figures::rows(judge);
    let recommendation = choice.and_then(|choice| choice::recommend(judge, choice));
    let notes = choice::notes(judge, &rows, recommendation.as_ref(), compared);
    let configurations =
        question.candidates().into_iter().map(|index| choice::configuration(judge, index, &CANDIDATES[index]));
    // The source of a sample in a file is not known here, so the whole cannot be played.
    let config = choice
        .filter(|_| recommendation.is_some() && meta.sample.is_none())
        .map(|choice| config::scenario_for(judge, choice.index, choice.size));
    let single: &Judge<'_> = scout.unwrap_or(judge);
    let has_details = question.details && !single.player.is_stopped();
    let choice = choice.filter(|_| has_details);
    let (other_devices, (kernel_defaults, course)) = rayon::join(
        || choice.map_or(Ok(Vec::new()), |choice| devices::others(single, choice.index, choice.size)),
        || {
            let defaults = || if has_details { single.player.kernel_defaults(compared) } else { Ok(Vec::new()) };
            rayon::join(defaults, || {
                choice.map_or(Ok(Vec::new()), |choice| single.player.course(choice.index, choice.size))
            })
        },
    );
    let mut advice = Advice {
        program: question.name.clone(),
        kernel: judge.player.kernel,
        effort: question.effort,
        replays: judge.player.pool.nr_played().0,
        sampled_replays: judge.player.pool.nr_played().1,
        sample: scout.unwrap_or(judge).player.sample(),
        is_partial: judge.player.is_stopped(),
        holds_on: question.kernels.clone(),
        peak_bytes: judge.player.peak.get(),
        measured_peak_bytes: meta.native.map(|native| native.peak_rss_bytes),
        page_cache_bytes: page_cache_pages.map(|pages| pages.saturating_mul(meta.page_bytes)),
        unlimited_mean_bytes: judge.player.unlimited.mean_bytes,
        unlimited_runtime_ns: judge.player.unlimited.pace.runtime_ns,
        unlimited_work_ns: judge.player.unlimited.pace.work_ns,
        processes: judge.player.unlimited.pace.processes.iter().map(|pace| ProcessFigures::of(pace, &meta)).collect(),
        unlimited_major_faults: judge.player.unlimited.major_faults,
        storage: question.storage,
        swap: question.swap,
        prices: question.prices.clone(),
        slowdown_allowed_ppm: question.slowdown.ppm(),
        latency_allowed_ns: question.latency.map(Duration::ns),
        rows,
        compared_bytes: compared.get(),
        configurations: configurations.collect(),
        clock: recommendation
            .as_ref()
            .and_then(|best| Some(ClockError::of(meta.clock.error_percent?, best.runtime_ratio_ppm.high))),
        recommendation,
        withheld: None,
        other_devices: other_devices?,
        notes,
        kernel_defaults: kernel_defaults?,
        huge_pages: huge_pages.cloned(),
        unknowns: unknowns(question, judge.player.order, &meta),
        config,
        course: course?,
    };
    native_error::fill(&mut advice);
    Ok(advice)
}

/// Whether the trace is one of requests (no epochs) and not of a program's pages. A trace that cannot be opened fails when it is played.
fn lists_requests(trace: &Path) -> bool {
    TraceReader::open(trace).is_ok_and(|reader| reader.meta().epoch_ns == 0)
}

const FAULT_AROUND: &str = "Around a fault in a file the kernel marks up to 16 pages as used, whether they were or not. A program that reads \
                            mapped files at random looks as if it needed more memory than it does (SQLite was told a third too much): \
                            record it with --no-fault-around.";

/// Limits of the figures, as text for the user.
fn unknowns(question: &Question, order: EpochOrder, meta: &TraceMeta) -> Vec<String> {
    let kernel = match (meta.kernel_accesses, meta.page_cache.is_some()) {
        (true, true) => {
            "Memory of the kernel itself (page tables, directories, inodes) and what io_uring touches are not in the recording."
        }
        (false, true) => {
            "Of the buffers that the kernel reads and writes for the program, those of uncommon system calls are not in the \
             recording."
        }
        (true, false) => "The page cache of read() and write() is not in the recording.",
        (false, false) => {
            "Accesses of the kernel on the program's behalf (read and write buffers, page cache of read() and write()) are not in \
             the recording."
        }
    };
    let filter = if lists_requests(&question.trace) {
        "The trace lists requests, not a program's accesses: each is played as a store that takes a page, at a made-up pace."
    } else {
        "The recording lists each page once per epoch: reuse within an epoch is not seen, and reclaim that acts faster than \
         that is judged too kindly."
    };
    let device = match question.swap {
        DeviceConfig::Kind(DeviceKind::None) => "There is no swap here: anonymous memory cannot be reclaimed at all.".to_owned(),
        DeviceConfig::Kind(DeviceKind::Zram) => {
            "zram is a model: every page compresses three to one at one cost, real pages differ. What it holds lies outside \
             the limit."
                .to_owned()
        }
        DeviceConfig::Kind(DeviceKind::Ram) => "A RAM disk takes as much memory as it holds, outside the limit.".to_owned(),
        DeviceConfig::Kind(DeviceKind::Nvme | DeviceKind::Ssd | DeviceKind::Disk) | DeviceConfig::Numbers(_) => {
            "The swap device is a model of its kind with nothing else using it; yours may be slower.".to_owned()
        }
    };
    let mut unknowns = Vec::new();
    if meta.has_no_order_within_epochs() {
        let worse = match order {
            EpochOrder::Recorded => "by address",
            EpochOrder::Scattered => "scattered",
        };
        unknowns.push(format!(
            "The recording is made of accessed bits: nobody saw in which order the pages of an epoch were used. It was played by address \
             and scattered. The recommendation holds for both; the figures are those {worse}, which are the worse ones."
        ));
        if meta.fault_around_bytes != Some(meta.page_bytes) {
            unknowns.push(FAULT_AROUND.to_owned());
        }
    }
    unknowns.extend([
        filter.to_owned(),
        kernel.to_owned(),
        "Time is the program's own CPU time plus simulated stalls; waiting for input, disks or other programs is not in it."
            .to_owned(),
        device,
        "In half of the replays the program reads its files itself; in the others they are in memory already, as after a restart, and its \
         group pays for none. (It reads files that are larger than twice its peak itself always.) Not all kills are predicted: Linux 6.18 \
         killed xz at 70 and 80 % of its peak in four of six first runs, and no replay of a first run is \
         (docs/evidence/live.md#a-group-without-files)."
            .to_owned(),
        "One run of one input was recorded; other inputs may need more. Intervals hold what chance does to that run and what the \
         model is known to be off; they know of no other input."
            .to_owned(),
        "Ages of schemes are fitted to the length of the recording, and their machine has room to spare: on a machine that \
         lives for days, and is short of memory, they act at other times."
            .to_owned(),
    ]);
    let read: Vec<_> = question.kernels.iter().filter(|kernel| !KernelRelease::COMPARED.contains(kernel)).collect();
    unknowns.extend(read.first().map(|kernel| {
        let [old, new] = KernelRelease::COMPARED;
        format!(
            "The rules of Linux {kernel} were read in its source and compared with no running kernel: intervals have the larger error of \
             {old} and {new}."
        )
    }));
    unknowns
}
