//! The main job: how much memory a recorded program needs, under which set-up, with evidence.
//!
//! The recording is replayed without limits, then under every candidate at each memory size. A replay has no chance in it,
//! so each figure is exact for the recording and n = 1. Between the smallest size that is fast enough and the next
//! smaller one the limit is narrowed down by bisection; if even the smallest is fast enough, smaller ones are tried.

mod candidate;

pub use candidate::{CANDIDATES, Candidate};

use crate::assemble::{self, Limits, Peaks};
use crate::error::ScenarioError;
use crate::monitoring::Watching;
use crate::run::{Progress, Unit, check_ended, peaks_of, without_limits};
use crate::variant::{Variant, name_of};
use crate::{RunMode, Scenario, WorkloadEntry};
use isotherm_sim::counters::Counter;
use isotherm_sim::machine::{Ending, MachineConfig, NodeConfig, Outcome};
use isotherm_sim::swap::device::DeviceKind;
use isotherm_trace::TraceReader;
use isotherm_units::{Amount, Bytes, Duration, Instant, PAGE_BYTES, Ratio};
use isotherm_workload::replay::PlayAs;
use isotherm_workload::{BuildContext, TraceSpec, WorkloadSpec};
use rayon::prelude::*;
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

impl Question {
    /// The default memory sizes: 40 % to 100 % of peak.
    pub fn default_memory() -> Vec<Amount> {
        [40, 50, 60, 70, 80, 90, 100].map(|percent| Amount::Share(Ratio::from_percent(percent))).to_vec()
    }
}

/// The answer.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Advice {
    /// Name of the program.
    pub program: String,
    /// Highest memory charge without limits: what shares are of.
    pub peak_bytes: u64,
    /// Runtime without limits.
    pub unlimited_runtime_ns: u64,
    /// Major faults without limits (first reads of files).
    pub unlimited_major_faults: u64,
    /// Swap device.
    pub swap: DeviceKind,
    /// The slowdown asked for, in millionths.
    pub slowdown_allowed_ppm: u64,
    /// Every replay, by candidate and size.
    pub rows: Vec<AdviceRow>,
    /// What to do; absent when no size tried is fast enough.
    pub recommendation: Option<Recommendation>,
    /// What these figures do not include.
    pub unknowns: Vec<String>,
    /// The recommended set-up as a scenario.
    #[serde(skip)]
    pub config: Option<Scenario>,
}

/// One replay.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct AdviceRow {
    /// Set-up.
    pub candidate: &'static str,
    /// Whether Linux has it; yardsticks are shown, never recommended.
    pub runs_on_linux: bool,
    /// `memory.max`.
    pub memory_bytes: u64,
    /// It as a share of peak, in millionths.
    pub memory_share_ppm: u64,
    /// Runtime.
    pub runtime_ns: u64,
    /// Runtime against unlimited memory in millionths: 1 050 000 = 5 % slower. Absent when the program was killed.
    pub runtime_ratio_ppm: Option<u64>,
    /// Major faults.
    pub major_faults: u64,
    /// Share of the runtime in which some task was stalled on memory, in millionths.
    pub pressure_some_ppm: u64,
    /// CPU time of reclaim, kswapd and direct.
    pub reclaim_cpu_ns: u64,
    /// Major faults divided by those of `opt` at the same size, in millionths; absent where `opt` has none or did not run.
    pub faults_to_opt_ppm: Option<u64>,
    /// How it ended.
    pub ending: Ending,
}

/// The set-up to choose.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Recommendation {
    /// Set-up.
    pub candidate: &'static str,
    /// `memory.max`.
    pub memory_bytes: u64,
    /// It as a share of peak, in millionths.
    pub memory_share_ppm: u64,
    /// Its runtime against unlimited memory, in millionths.
    pub runtime_ratio_ppm: u64,
    /// Memory saved against peak.
    pub saved_bytes: u64,
}

/// Limits below this are not tried: a fault may need several pages at once.
const MEMORY_MIN: Bytes = Bytes::new(32 * PAGE_BYTES);
/// Steps of bisection: 10 % of peak come down to below 1 %.
const BISECTIONS: u32 = 4;

/// Answers a question.
///
/// # Errors
/// The trace cannot be read, or a size is below the minimum or above the machine.
pub fn advise(question: &Question, progress: &dyn Progress) -> Result<Advice, ScenarioError> {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(question.threads.unwrap_or(0)).build();
    match pool {
        Ok(pool) => pool.install(|| Replays::new(question)?.answer(progress)),
        Err(_) => Replays::new(question)?.answer(progress),
    }
}

struct Replays<'a> {
    question: &'a Question,
    base: Scenario,
    context: BuildContext,
    peaks: Peaks,
    peak: Bytes,
    unlimited: Outcome,
}

impl<'a> Replays<'a> {
    fn new(question: &'a Question) -> Result<Self, ScenarioError> {
        let mut base = scenario_of(question);
        let context = BuildContext::new(".");
        let unlimited = {
            let variant = without_limits(&base);
            let unit = Unit { workloads: vec![0], mode: RunMode::Each };
            play(&variant, &unit, &context, Limits::Off)?
        };
        check_ended(&unlimited)?;
        let peaks = peaks_of(&unlimited);
        // The root and the program's own group.
        let peak = Bytes::new(unlimited.cgroups[1].peak_pages * PAGE_BYTES);
        if peak == Bytes::ZERO {
            let reason = "it takes no memory: it only reads what was never written".to_owned();
            return Err(ScenarioError::NoPeak { workload: question.name.clone(), reason });
        }
        // Room for the program, for compressed swap and for the kernel's reserves, so that only the limit binds.
        let roomy = Bytes::new((peak.get() * 2).max(Bytes::from_gib(4).get()));
        base.machine.nodes = vec![NodeConfig { memory: roomy, ..NodeConfig::default() }];
        Ok(Self { question, base, context, peaks, peak, unlimited })
    }

    fn answer(&self, progress: &dyn Progress) -> Result<Advice, ScenarioError> {
        let sizes = self.sizes()?;
        let jobs: Vec<(&Candidate, Bytes)> =
            CANDIDATES.iter().flat_map(|candidate| sizes.iter().map(move |&size| (candidate, size))).collect();
        progress.planned(jobs.len() as u64);
        let rows: Vec<Result<AdviceRow, ScenarioError>> = jobs
            .par_iter()
            .map(|&(candidate, size)| {
                let row = self.row(candidate, size)?;
                progress.done();
                Ok(row)
            })
            .collect();
        let mut rows = rows.into_iter().collect::<Result<Vec<_>, _>>()?;
        self.refine(&mut rows, progress)?;
        rows.sort_by_key(|row| (CANDIDATES.iter().position(|c| c.name == row.candidate), row.memory_bytes));
        relate_to_opt(&mut rows);
        let recommendation = self.recommend(&rows);
        let config = recommendation.as_ref().map(|recommendation| self.config(recommendation));
        Ok(Advice {
            program: self.question.name.clone(),
            peak_bytes: self.peak.get(),
            unlimited_runtime_ns: self.unlimited.programs[0].runtime().ns(),
            unlimited_major_faults: self.unlimited.system().counters.get(Counter::PgMajFault),
            swap: self.question.swap,
            slowdown_allowed_ppm: self.question.slowdown.ppm(),
            rows,
            recommendation,
            unknowns: unknowns(self.question),
            config,
        })
    }

    /// The sizes asked for, in bytes, ascending, each once.
    fn sizes(&self) -> Result<Vec<Bytes>, ScenarioError> {
        let machine = self.base.machine.memory();
        let mut sizes = Vec::new();
        for &amount in &self.question.memory {
            let size = amount.of(self.peak).pages_floor().bytes();
            if size < MEMORY_MIN || size > machine {
                let message = format!("memory size {amount} is {size} here; allowed: {MEMORY_MIN} to {machine}");
                return Err(ScenarioError::Meaning { place: "--memory".to_owned(), message });
            }
            sizes.push(size);
        }
        sizes.sort_unstable();
        sizes.dedup();
        Ok(sizes)
    }

    fn row(&self, candidate: &Candidate, size: Bytes) -> Result<AdviceRow, ScenarioError> {
        let scenario = (candidate.apply)(Scenario { limit: Some(Amount::Absolute(size)), ..self.base.clone() });
        let variant = Variant { name: name_of(candidate.name, scenario.limit), scenario };
        let unit = Unit { workloads: vec![0], mode: RunMode::Each };
        let outcome = play(&variant, &unit, &self.context, Limits::Of(&self.peaks))?;
        let program = &outcome.programs[0];
        let runtime_ns = program.runtime().ns();
        let finished = program.ending == Ending::Finished;
        let unlimited_ns = self.unlimited.programs[0].runtime().ns();
        Ok(AdviceRow {
            candidate: candidate.name,
            runs_on_linux: candidate.runs_on_linux(),
            memory_bytes: size.get(),
            memory_share_ppm: ppm(size.get(), self.peak.get()).unwrap_or(0),
            runtime_ns,
            runtime_ratio_ppm: if finished { ppm(runtime_ns, unlimited_ns) } else { None },
            major_faults: outcome.system().counters.get(Counter::PgMajFault),
            pressure_some_ppm: ppm(outcome.system().pressure.memory_some_ns, runtime_ns).unwrap_or(0),
            reclaim_cpu_ns: outcome.kernel.kswapd_ns + outcome.kernel.direct_ns,
            faults_to_opt_ppm: None,
            ending: program.ending,
        })
    }

    fn allowed_ppm(&self) -> u64 {
        Ratio::ONE.ppm() + self.question.slowdown.ppm()
    }

    fn is_fast_enough(&self, row: &AdviceRow) -> bool {
        row.runtime_ratio_ppm.is_some_and(|ratio| ratio <= self.allowed_ppm())
    }

    /// Narrows down, for each set-up that Linux has, the border between too slow and fast enough.
    fn refine(&self, rows: &mut Vec<AdviceRow>, progress: &dyn Progress) -> Result<(), ScenarioError> {
        for candidate in CANDIDATES.iter().filter(|candidate| candidate.runs_on_linux()) {
            for _ in 0..BISECTIONS {
                let mut own: Vec<&AdviceRow> = rows.iter().filter(|row| row.candidate == candidate.name).collect();
                own.sort_by_key(|row| row.memory_bytes);
                let Some(first_fast) = smallest_reliable(&own, |row| self.is_fast_enough(row)) else { break };
                let high = own[first_fast].memory_bytes;
                // Below the smallest size tried nothing is known: half of it comes next.
                let low = first_fast.checked_sub(1).map_or(0, |below| own[below].memory_bytes);
                let middle = Bytes::new((low + high) / 2).pages_floor().bytes();
                if high - low <= self.peak.get() / 64 || middle.get() == low || middle < MEMORY_MIN {
                    break;
                }
                progress.planned(1);
                rows.push(self.row(candidate, middle)?);
                progress.done();
            }
        }
        Ok(())
    }

    /// The smallest memory among set-ups that Linux has; at equal memory the faster one.
    fn recommend(&self, rows: &[AdviceRow]) -> Option<Recommendation> {
        let best = CANDIDATES.iter().filter(|candidate| candidate.runs_on_linux()).filter_map(|candidate| {
            let own: Vec<&AdviceRow> = rows.iter().filter(|row| row.candidate == candidate.name).collect();
            smallest_reliable(&own, |row| self.is_fast_enough(row)).map(|index| own[index])
        });
        let best = best.min_by_key(|row| (row.memory_bytes, row.runtime_ns))?;
        Some(Recommendation {
            candidate: best.candidate,
            memory_bytes: best.memory_bytes,
            memory_share_ppm: best.memory_share_ppm,
            runtime_ratio_ppm: best.runtime_ratio_ppm?,
            saved_bytes: self.peak.get().saturating_sub(best.memory_bytes),
        })
    }

    fn config(&self, recommendation: &Recommendation) -> Scenario {
        let candidate = CANDIDATES.iter().find(|candidate| candidate.name == recommendation.candidate);
        let limit = Some(Amount::Absolute(Bytes::new(recommendation.memory_bytes)));
        let scenario = Scenario { limit, ..self.base.clone() };
        (candidate.expect("recommended from the table").apply)(scenario)
    }
}

/// Index of the smallest size that is fast enough together with all larger ones; `rows` ascend by size.
fn smallest_reliable(rows: &[&AdviceRow], fast_enough: impl Fn(&AdviceRow) -> bool) -> Option<usize> {
    let slow_from_top = rows.iter().rposition(|row| !fast_enough(row)).map_or(0, |index| index + 1);
    (slow_from_top < rows.len()).then_some(slow_from_top)
}

fn relate_to_opt(rows: &mut [AdviceRow]) {
    let opt: Vec<(u64, u64)> =
        rows.iter().filter(|row| row.candidate == "opt").map(|row| (row.memory_bytes, row.major_faults)).collect();
    for row in rows {
        let floor = opt.iter().find(|(bytes, _)| *bytes == row.memory_bytes).map(|(_, faults)| *faults);
        row.faults_to_opt_ppm = floor.and_then(|floor| ppm(row.major_faults, floor));
    }
}

fn ppm(part: u64, whole: u64) -> Option<u64> {
    let ratio = (u128::from(part) * 1_000_000).checked_div(u128::from(whole))?;
    u64::try_from(ratio).ok()
}

fn play(variant: &Variant, unit: &Unit, context: &BuildContext, limits: Limits<'_>) -> Result<Outcome, ScenarioError> {
    let assembled = assemble::machine(variant, unit, context, limits, Watching::Off)?;
    assembled.machine.run(Instant::START + variant.scenario.until).map_err(|source| ScenarioError::Sim {
        workload: unit.name(&variant.scenario).to_owned(),
        variant: variant.name.clone(),
        source,
    })
}

/// The recording on a machine of the asked-for kind.
fn scenario_of(question: &Question) -> Scenario {
    let mut machine = MachineConfig { cpus: question.cpus, ..MachineConfig::default() };
    machine.swap.device = question.swap;
    // Requests say nothing of reads and writes; memory that is only read takes no page.
    let play_as = if lists_requests(question) { PlayAs::Write } else { PlayAs::Recorded };
    let load = WorkloadSpec::Trace(TraceSpec { play_as, ..TraceSpec::new(&question.trace) });
    Scenario {
        title: format!("{} as recorded", question.name),
        until: Duration::from_secs(24 * 3600),
        machine,
        workloads: vec![WorkloadEntry::new(&question.name, load)],
        ..Scenario::named(&question.name)
    }
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
            "zram is a model: every page compresses three to one at one cost, real pages differ.".to_owned()
        }
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
        "One run of one input was recorded; other inputs may need more.".to_owned(),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(memory_bytes: u64, ratio_ppm: Option<u64>) -> AdviceRow {
        AdviceRow {
            candidate: "classic",
            runs_on_linux: true,
            memory_bytes,
            memory_share_ppm: 0,
            runtime_ns: 0,
            runtime_ratio_ppm: ratio_ppm,
            major_faults: 3,
            pressure_some_ppm: 0,
            reclaim_cpu_ns: 0,
            faults_to_opt_ppm: None,
            ending: Ending::Finished,
        }
    }

    #[test]
    fn a_size_counts_only_if_all_larger_ones_are_fast_enough_too() {
        let rows = [row(1, Some(1_000_000)), row(2, Some(1_200_000)), row(3, Some(1_040_000)), row(4, Some(1_000_000))];
        let rows: Vec<&AdviceRow> = rows.iter().collect();
        let fast = |row: &AdviceRow| row.runtime_ratio_ppm.is_some_and(|ratio| ratio <= 1_050_000);
        assert_eq!(smallest_reliable(&rows, fast), Some(2));
        assert_eq!(smallest_reliable(&rows[..2], fast), None);
        assert_eq!(smallest_reliable(&[], fast), None);
    }

    #[test]
    fn faults_are_related_to_opt_at_the_same_size() {
        let mut rows =
            vec![row(1, None), AdviceRow { candidate: "opt", major_faults: 2, ..row(1, None) }, row(2, None)];
        relate_to_opt(&mut rows);
        let ratios: Vec<_> = rows.iter().map(|row| row.faults_to_opt_ppm).collect();
        assert_eq!(ratios, [Some(1_500_000), Some(1_000_000), None]);
    }
}
