//! The main job: how much memory a recorded program needs, under which set-up, with evidence.
//!
//! The recording is replayed without limits, then under every candidate at each memory size, several times: at limits up to
//! 1 % beside the size, each with another seed for what has chance in it. So each figure carries n, mean and a 95 % confidence
//! interval. Between the smallest size that is fast enough and the next smaller one the limit is narrowed down by bisection;
//! if even the smallest is fast enough, smaller ones are tried.

mod candidate;
mod choice;
mod figures;
mod fragmented;
mod huge;
mod replays;
mod tiers;

pub use candidate::{CANDIDATES, Candidate, Recording};
pub use choice::{AgainstClassic, Gain, Note, NoteKind, Recommendation};
pub use figures::{AdviceRow, SchemeDid};
pub use fragmented::{Fragmented, LatencyRow};
pub use huge::{DENSE, HugePages};
pub use replays::REPEATS;
pub use tiers::{TierAdvice, TierQuestion, TierRatio, TierRecommendation, TierRow, advise_on_tiers};

use crate::Scenario;
use crate::error::ScenarioError;
use crate::run::Progress;
use isotherm_sim::swap::device::DeviceKind;
use isotherm_trace::TraceReader;
use isotherm_units::{Amount, Ratio};
use serde::Serialize;
use std::path::PathBuf;

/// What to advise on.
#[derive(Clone, Debug)]
pub struct Question {
    /// Name of the program, for reports.
    pub name: String,
    /// The recording.
    pub trace: PathBuf,
    /// Memory sizes to try; shares are of peak memory.
    pub memory: Vec<Amount>,
    /// Swap device.
    pub swap: DeviceKind,
    /// How much slower than with unlimited memory is still fine.
    pub slowdown: Ratio,
    /// Processors of the machine.
    pub cpus: u32,
    /// Threads to replay with; `None` = one per processor.
    pub threads: Option<usize>,
}

/// The answer.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Advice {
    /// Name of the program.
    pub program: String,
    /// Highest memory charge without limits: what shares are of.
    pub peak_bytes: u64,
    /// Mean memory charge without limits, over time.
    pub unlimited_mean_bytes: u64,
    /// Runtime without limits.
    pub unlimited_runtime_ns: u64,
    /// Major faults without limits (first reads of files).
    pub unlimited_major_faults: u64,
    /// Swap device.
    pub swap: DeviceKind,
    /// The slowdown asked for, in millionths.
    pub slowdown_allowed_ppm: u64,
    /// Every set-up at every size.
    pub rows: Vec<AdviceRow>,
    /// The size at which all set-ups are compared: the recommended one, or the largest that was tried.
    pub compared_bytes: u64,
    /// Each set-up in short.
    pub set_ups: Vec<SetUp>,
    /// What to do; absent when no size tried is fast enough.
    pub recommendation: Option<Recommendation>,
    /// What is odd about these figures, and what else they show.
    pub notes: Vec<Note>,
    /// Combinations with the kernel's own parameters in place of fitted ones, at `compared_bytes`.
    pub kernel_defaults: Vec<KernelDefaults>,
    /// What of its memory could be huge pages.
    pub huge_pages: HugePages,
    /// What these figures do not include.
    pub unknowns: Vec<String>,
    /// The recommended set-up as a scenario.
    #[serde(skip)]
    pub config: Option<Scenario>,
}

/// A set-up in short.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SetUp {
    /// Its name.
    pub candidate: &'static str,
    /// Whether Linux has it; yardsticks are shown, never recommended.
    pub runs_on_linux: bool,
    /// The smallest size tried that is fast enough, together with all larger ones.
    pub enough_bytes: Option<u64>,
    /// What works beside the policy, as a scenario's `preset` with what differs from the kernel's parameters, or as the fitted keys
    /// of its `[[generations]]`.
    pub presets: Vec<String>,
}

/// How a combination fares with the kernel's own parameters.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct KernelDefaults {
    /// The combination.
    pub candidate: &'static str,
    /// Which preset.
    pub preset: &'static str,
    /// Runtime against unlimited memory, in millionths; absent when the program was killed. One replay.
    pub runtime_ratio_ppm: Option<u64>,
    /// What each of its schemes did and what stopped it, in sentences.
    pub words: Vec<Vec<String>>,
}

/// Answers a question.
///
/// # Errors
/// The trace cannot be read, or a size is below the minimum or above the machine.
pub fn advise(question: &Question, progress: &dyn Progress) -> Result<Advice, ScenarioError> {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(question.threads.unwrap_or(0)).build();
    match pool {
        Ok(pool) => pool.install(|| answer(question, progress)),
        Err(_) => answer(question, progress), // no thread can be started: the caller's own does it
    }
}

fn answer(question: &Question, progress: &dyn Progress) -> Result<Advice, ScenarioError> {
    let replays = replays::Replays::new(question, progress)?;
    let mut tried = replays.survey()?;
    replays.narrow_down(&mut tried)?;
    let compared = choice::compare(&replays, &mut tried)?;
    let rows = figures::rows(&replays, &tried);
    let recommendation = choice::recommend(&replays, &tried, &rows);
    let notes = choice::notes(&replays, &rows, recommendation.as_ref(), compared);
    let set_ups = CANDIDATES.iter().map(|candidate| choice::set_up(&replays, candidate, &rows)).collect();
    let huge_pages = HugePages::of(question, replays.peak, progress)?;
    let config = recommendation.as_ref().map(|best| replays.config(best.candidate, best.memory_bytes));
    Ok(Advice {
        program: question.name.clone(),
        peak_bytes: replays.peak.get(),
        unlimited_mean_bytes: replays.unlimited.mean_bytes,
        unlimited_runtime_ns: replays.unlimited.runtime_ns,
        unlimited_major_faults: replays.unlimited.major_faults,
        swap: question.swap,
        slowdown_allowed_ppm: question.slowdown.ppm(),
        rows,
        compared_bytes: compared.get(),
        set_ups,
        recommendation,
        notes,
        kernel_defaults: replays.kernel_defaults(compared)?,
        huge_pages,
        unknowns: unknowns(question),
        config,
    })
}

/// Whether the trace is one of requests (no epochs) and not of a program's pages. A trace that cannot be opened is found out
/// when it is played.
fn lists_requests(question: &Question) -> bool {
    TraceReader::open(&question.trace).is_ok_and(|reader| reader.meta().epoch_ns == 0)
}

/// What the figures leave out, in words for the user.
fn unknowns(question: &Question) -> Vec<String> {
    let filter = if lists_requests(question) {
        "The trace lists requests, not a program's accesses: each is played as a store that takes a page, at a made-up pace."
    } else {
        "The recording lists each page once per epoch: reuse within an epoch is not seen, and reclaim that acts faster than \
         that is judged too kindly."
    };
    let device = match question.swap {
        DeviceKind::None => "There is no swap here: anonymous memory cannot be reclaimed at all.".to_owned(),
        DeviceKind::Zram => {
            "zram is a model: every page compresses three to one at one cost, real pages differ. What it holds lies outside \
             the limit."
                .to_owned()
        }
        DeviceKind::Ram => "A RAM disk takes as much memory as it holds, outside the limit.".to_owned(),
        DeviceKind::Nvme | DeviceKind::Ssd | DeviceKind::Disk => {
            "The swap device is a model of its kind with nothing else using it; yours may be slower.".to_owned()
        }
    };
    vec![
        filter.to_owned(),
        "Accesses of the kernel on the program's behalf (read and write buffers, page cache of read() and write()) are not in \
         the recording."
            .to_owned(),
        "Time is the program's own CPU time plus simulated stalls; waiting for input, disks or other programs is not in it."
            .to_owned(),
        device,
        "One run of one input was recorded; other inputs may need more. Intervals are over limits up to 1 % beside each size, \
         and over seeds of what samples; they know of no other input."
            .to_owned(),
        "Ages of schemes are fitted to the length of the recording, and their machine has room to spare: on a machine that \
         lives for days, and is short of memory, they act at other times."
            .to_owned(),
    ]
}
