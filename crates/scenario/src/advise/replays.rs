//! Playing: which set-ups at which sizes, how often.

use super::candidate::{CANDIDATES, Candidate, Recording};
use super::choice::smallest_reliable;
use super::figures::{Run, Tried};
use super::{KernelDefaults, Question, lists_requests};
use crate::assemble::{self, Limits, Peaks};
use crate::error::ScenarioError;
use crate::monitoring::{MonitorSpec, Watching};
use crate::run::{Progress, Unit, check_ended, peaks_of, without_limits};
use crate::variant::{Variant, name_of};
use crate::{GenerationsSpec, RunMode, Scenario, WorkloadEntry};
use isotherm_core::schemes::explain;
use isotherm_sim::machine::{MachineConfig, NodeConfig, Outcome};
use isotherm_units::{Amount, Bytes, Duration, Instant, PAGE_BYTES, Ratio};
use isotherm_workload::replay::PlayAs;
use isotherm_workload::{BuildContext, TraceSpec, WorkloadSpec};
use rayon::prelude::*;
use std::collections::BTreeSet;

/// Replays of each set-up at each size.
pub const REPEATS: usize = 5;
/// By how much of a thousandth the limit of each repeat lies beside the size. How a limit falls on the steps of a program's
/// memory is chance: a page more or less of heap, a library more or less of page cache. The first is the size itself.
const BESIDE_PERMIL: [i64; REPEATS] = [0, -10, -5, 5, 10];
/// Limits below this are not tried: a fault may need several pages at once.
const MEMORY_MIN: Bytes = Bytes::new(32 * PAGE_BYTES);
/// Limits above this, and above twice the peak, are not tried: nothing would be limited.
const MEMORY_MAX: Bytes = Bytes::from_gib(4);
/// The machine has at least so much: the kernel's reserves are a large part of less.
const MACHINE_MIN: Bytes = Bytes::from_mib(512);
/// Steps of bisection: 10 % of peak come down to below 1 %.
const BISECTIONS: u32 = 4;
/// Bisection ends at this share of peak: sizes that are closer are not told apart.
const RESOLUTION: u64 = 64;
/// Looks at the memory charge in a run without limits.
const LOOKS: u64 = 256;

/// A question with what was found out about its recording.
pub(super) struct Replays<'a> {
    question: &'a Question,
    progress: &'a dyn Progress,
    base: Scenario,
    context: BuildContext,
    peaks: Peaks,
    recording: Recording,
    /// The sizes asked for, ascending, each once.
    sizes: Vec<Bytes>,
    /// Highest charge.
    pub(super) peak: Bytes,
    pub(super) unlimited: Run,
}

impl<'a> Replays<'a> {
    pub(super) fn new(question: &'a Question, progress: &'a dyn Progress) -> Result<Self, ScenarioError> {
        let mut base = scenario_of(question);
        let context = BuildContext::new(".");
        let roomy = without_limits(&base);
        progress.planned(2);
        let first = play(&roomy, &context, Limits::Off, None)?;
        progress.done();
        check_ended(&first)?;
        let runtime = first.programs[0].runtime();
        let unlimited = play(&roomy, &context, Limits::Off, Some(look_every(runtime)))?;
        progress.done();
        let peaks = peaks_of(&unlimited);
        // The root and the program's own group.
        let peak = Bytes::new(unlimited.cgroups[1].peak_pages * PAGE_BYTES);
        if peak == Bytes::ZERO {
            let reason = "it takes no memory: it only reads what was never written".to_owned();
            return Err(ScenarioError::NoPeak { workload: question.name.clone(), reason });
        }
        let sizes = sizes(question, peak)?;
        // Room for the program, for compressed swap and for the kernel's reserves, so that only the limit binds; but not more than
        // that, because schemes look at all memory, and would be busy with what is free.
        let largest = sizes.last().copied().unwrap_or_default().max(peak);
        let roomy = Bytes::new((largest.get() * 2).max(MACHINE_MIN.get()));
        base.machine.nodes = vec![NodeConfig { memory: roomy, ..NodeConfig::default() }];
        let (recording, unlimited) = (Recording { runtime }, Run::of(unlimited));
        Ok(Self { question, progress, base, context, peaks, recording, sizes, peak, unlimited })
    }

    /// Every set-up at every size asked for.
    pub(super) fn survey(&self) -> Result<Vec<Tried>, ScenarioError> {
        let sizes = &self.sizes;
        let wanted: Vec<(usize, Bytes)> =
            (0..CANDIDATES.len()).flat_map(|index| sizes.iter().map(move |&size| (index, size))).collect();
        self.try_all(&wanted)
    }

    /// Narrows down, for each set-up that Linux has, the border between too slow and fast enough.
    pub(super) fn narrow_down(&self, tried: &mut Vec<Tried>) -> Result<(), ScenarioError> {
        for _ in 0..BISECTIONS {
            let linux = CANDIDATES.iter().enumerate().filter(|(_, candidate)| candidate.runs_on_linux());
            let wanted: Vec<_> =
                linux.filter_map(|(index, _)| Some((index, self.between(&of(tried, index))?))).collect();
            if wanted.is_empty() {
                break;
            }
            tried.extend(self.try_all(&wanted)?);
        }
        Ok(())
    }

    /// The middle between the smallest size that is fast enough and the next smaller one, if they are far enough apart.
    fn between(&self, own: &[&Tried]) -> Option<Bytes> {
        let first_fast = smallest_reliable(own, |tried| self.is_fast_enough(tried))?;
        let high = own[first_fast].size.get();
        // Below the smallest size tried nothing is known: half of it comes next.
        let low = first_fast.checked_sub(1).map_or(0, |below| own[below].size.get());
        let middle = Bytes::new((low + high) / 2).pages_floor().bytes();
        let is_worth_it = high - low > self.resolution().get() && middle.get() != low && middle >= MEMORY_MIN;
        is_worth_it.then_some(middle)
    }

    /// Plays set-ups, by their number in the table, at sizes.
    pub(super) fn try_all(&self, wanted: &[(usize, Bytes)]) -> Result<Vec<Tried>, ScenarioError> {
        let repeats: Vec<(usize, Bytes, usize)> =
            wanted.iter().flat_map(|&(index, size)| (0..REPEATS).map(move |repeat| (index, size, repeat))).collect();
        self.progress.planned(repeats.len() as u64);
        let runs: Vec<Result<Run, ScenarioError>> = repeats
            .par_iter()
            .map(|&(index, size, repeat)| {
                let run = self.run(&self.scenario(&CANDIDATES[index], beside(size, repeat)), repeat)?;
                self.progress.done();
                Ok(run)
            })
            .collect();
        let mut runs = runs.into_iter().collect::<Result<Vec<_>, _>>()?.into_iter();
        let tried =
            wanted.iter().map(|&(index, size)| Tried { index, size, runs: runs.by_ref().take(REPEATS).collect() });
        Ok(tried.collect())
    }

    fn scenario(&self, candidate: &Candidate, limit: Bytes) -> Scenario {
        let limit = Some(Amount::Absolute(limit));
        candidate.apply(Scenario { limit, ..self.base.clone() }, &self.recording)
    }

    fn run(&self, scenario: &Scenario, repeat: usize) -> Result<Run, ScenarioError> {
        let name = name_of(&scenario.policy, scenario.limit);
        let variant = Variant { name, scenario: scenario.clone(), only: Vec::new() };
        let context = self.context.clone().with_seed(scenario.seed.wrapping_add(repeat as u64));
        let look = look_every(self.recording.runtime);
        play(&variant, &context, Limits::Of(&self.peaks), Some(look)).map(Run::of)
    }

    /// What its presets do with the kernel's own parameters, each in the first combination that has it.
    pub(super) fn kernel_defaults(&self, size: Bytes) -> Result<Vec<KernelDefaults>, ScenarioError> {
        let mut defaults = Vec::new();
        let mut known = BTreeSet::new();
        for candidate in CANDIDATES {
            let mut scenario = self.scenario(candidate, size);
            let Some(fitted) = scenario.monitors.iter().find_map(MonitorSpec::preset) else { continue };
            let preset = fitted.name();
            let usual = preset.parse().map_err(meaning)?;
            if *fitted == usual || !known.insert(preset) {
                continue;
            }
            scenario.monitors = vec![MonitorSpec::of_preset(preset, usual).map_err(meaning)?];
            self.progress.planned(1);
            let run = self.run(&scenario, 0)?;
            self.progress.done();
            let schemes = &scenario.monitors[0].config.schemes;
            defaults.push(KernelDefaults {
                candidate: candidate.name,
                preset,
                runtime_ratio_ppm: run.ratio_ppm(self.unlimited.runtime_ns),
                words: schemes.iter().zip(&run.schemes).map(|(scheme, report)| explain(scheme, report)).collect(),
            });
        }
        Ok(defaults)
    }

    /// What works beside the policy of `candidate`, as a scenario says it.
    pub(super) fn presets(&self, candidate: &Candidate) -> Vec<String> {
        let scenario = self.scenario(candidate, self.peak);
        let written = |monitor: &MonitorSpec| {
            let table = toml::Table::try_from(monitor).expect("scenario types are TOML tables");
            let preset = table.get("preset")?.as_table()?;
            let is_name = |(key, _): &(&String, &toml::Value)| key.as_str() == "preset";
            let name = preset.iter().filter(is_name);
            let keys = name.chain(preset.iter().filter(|entry| !is_name(entry)));
            let keys: Vec<String> = keys.map(|(key, value)| format!("{key} = {value}")).collect();
            Some(format!("{{ {} }}", keys.join(", ")))
        };
        let tool = |tool: &GenerationsSpec| {
            let table = toml::Table::try_from(tool).expect("scenario types are TOML tables");
            // Of its keys, those that are fitted.
            let keys = ["mode", "threshold", "swappiness"]
                .iter()
                .filter_map(|key| Some(format!("{key} = {}", table.get(*key)?)));
            format!("{{ {} }}", keys.collect::<Vec<_>>().join(", "))
        };
        let presets = scenario.monitors.iter().filter_map(written);
        presets.chain(scenario.generations.iter().map(tool)).collect()
    }

    /// The set-up of this name with this limit, for a user to play.
    pub(super) fn config(&self, name: &str, memory_bytes: u64) -> Scenario {
        let candidate = CANDIDATES.iter().find(|candidate| candidate.name == name).expect("from the table");
        let scenario = self.scenario(candidate, Bytes::new(memory_bytes));
        // Where nothing has chance in it, more runs would tell the same again.
        let repeats = if scenario.monitors.is_empty() { 1 } else { u32::try_from(REPEATS).expect("a few") };
        Scenario { repeats, ..scenario }
    }

    /// Sizes that are closer are not told apart.
    pub(super) fn resolution(&self) -> Bytes {
        Bytes::new(self.peak.get() / RESOLUTION)
    }

    pub(super) fn allowed_ppm(&self) -> u64 {
        Ratio::ONE.ppm() + self.question.slowdown.ppm()
    }

    /// Whether even the upper end of its interval is within what was asked for.
    pub(super) fn is_fast_enough(&self, tried: &Tried) -> bool {
        tried.ratio(self.unlimited.runtime_ns).is_some_and(|ratio| ratio.high() <= self.allowed_ppm() as f64)
    }
}

/// What was tried of one set-up, ascending by size.
pub(super) fn of(tried: &[Tried], index: usize) -> Vec<&Tried> {
    let mut own: Vec<&Tried> = tried.iter().filter(|tried| tried.index == index).collect();
    own.sort_by_key(|tried| tried.size);
    own
}

/// The sizes asked for, in bytes, ascending, each once.
fn sizes(question: &Question, peak: Bytes) -> Result<Vec<Bytes>, ScenarioError> {
    let memory_max = Bytes::new((peak.get() * 2).max(MEMORY_MAX.get()));
    let mut sizes = BTreeSet::new();
    for &amount in &question.memory {
        let size = amount.of(peak).pages_floor().bytes();
        if size < MEMORY_MIN || size > memory_max {
            let message = format!("memory size {amount} is {size} here; allowed: {MEMORY_MIN} to {memory_max}");
            return Err(ScenarioError::Meaning { place: "--memory".to_owned(), message });
        }
        sizes.insert(size);
    }
    Ok(sizes.into_iter().collect())
}

/// The limit of a repeat.
pub(super) fn beside(size: Bytes, repeat: usize) -> Bytes {
    let permil = u64::try_from(1000 + BESIDE_PERMIL[repeat]).expect("far from 0");
    let bytes = u128::from(size.get()) * u128::from(permil) / 1000;
    Bytes::new(u64::try_from(bytes).unwrap_or(u64::MAX)).pages_floor().bytes().max(MEMORY_MIN)
}

fn look_every(runtime: Duration) -> Duration {
    Duration::from_ns((runtime.ns() / LOOKS).max(10_000))
}

fn meaning(error: impl ToString) -> ScenarioError {
    ScenarioError::Meaning { place: "advise".to_owned(), message: error.to_string() }
}

pub(super) fn play(
    variant: &Variant,
    context: &BuildContext,
    limits: Limits<'_>,
    look: Option<Duration>,
) -> Result<Outcome, ScenarioError> {
    let unit = Unit { workloads: vec![0], mode: RunMode::Each };
    let watching = match limits {
        Limits::Off => Watching::Off,
        Limits::Of(_) => Watching::On { period: None, emit: None },
    };
    // What schemes did stands in the outcome.
    let (mut builder, _observers) = assemble::builder(variant, &unit, context, limits, watching)?;
    if let Some(look) = look {
        builder.record_series(look);
    }
    builder.build().run(Instant::START + variant.scenario.until).map_err(|source| ScenarioError::Sim {
        workload: unit.name(&variant.scenario).to_owned(),
        variant: variant.name.clone(),
        source,
    })
}

/// The recording on a machine of the asked-for kind.
pub(super) fn scenario_of(question: &Question) -> Scenario {
    let mut machine = MachineConfig { cpus: question.cpus, ..MachineConfig::default() };
    machine.swap.device = question.swap.into();
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repeats_lie_on_both_sides_of_a_size_and_the_first_on_it() {
        assert_eq!(BESIDE_PERMIL.iter().sum::<i64>(), 0, "their mean is the size");
        let size = Bytes::from_mib(100);
        let limits: Vec<u64> = (0..REPEATS).map(|repeat| beside(size, repeat).get() / PAGE_BYTES).collect();
        assert_eq!(limits, [25_600, 25_344, 25_472, 25_728, 25_856]);
        assert_eq!(beside(MEMORY_MIN, 1), MEMORY_MIN, "never below the smallest limit");
    }
}
