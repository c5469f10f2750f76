//! The player: a recording under configurations at sizes, each replay in a world of its own.

use super::branches::Branches;
use super::candidate::{CANDIDATES, Candidate, Recording};
use super::chance::{Draw, Hardware, KERNEL_CHARGE_BP, LIMIT_MIN, LIMIT_SPREAD_BP};
use super::families::{Family, families};
use super::kernel_memory;
use super::pace::{BurstBound, Pace};
use super::pool::Pool;
use super::replay_cache::{CacheLookup, ReplayCache};
use super::run::Run;
use super::scale::Scale;
use super::{CourseRow, KernelDefaults, Question, lists_requests};
use isotherm_core::limits::LimitsConfig;
use isotherm_core::schemes::explain;
use isotherm_kernel::counters::Counter;
use isotherm_kernel::memory::KernelRelease;
use isotherm_kernel::swap::DeviceConfig;
use isotherm_scenario::monitoring::MonitorSpec;
use isotherm_scenario::single::{Limits, Peaks, Variant, check_ended, group_path, name_of, without_limits};
use isotherm_scenario::{GenerationsSpec, Progress, Scenario, ScenarioError, WorkloadEntry};
use isotherm_sim::machine::{MachineConfig, NodeConfig, Outcome, SeriesRow};
use isotherm_trace::{EventKind, MapRange, TraceReader};
use isotherm_units::{Amount, Bytes, Duration, PAGE_BYTES};
use isotherm_workload::replay::{EpochOrder, PlayAs};
use isotherm_workload::{BuildContext, TraceSpec, WorkloadSpec};
use rayon::prelude::*;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

/// Limits above this, and above twice the peak, are not tried, because they would limit nothing.
const MEMORY_MAX: Bytes = Bytes::from_gib(4);
/// Least memory of the machine: the kernel's reserves are a large part of less.
const MACHINE_MIN: Bytes = Bytes::from_mib(512);
/// Two sizes differ if they are at least this part of the size apart.
const STEPS_PER_SIZE_MIN: u64 = 20;
/// This number of draws contains all kinds of hardware that chance gives.
const DRAWS_OF_ALL_HARDWARE: u64 = 512;
/// Samples of the memory charge in a run that is shown over time.
const SAMPLES: u64 = 256;

/// The program without limits.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Unlimited {
    pub(super) pace: Pace,
    /// Highest charge of its own group.
    peak: Bytes,
    pub(super) major_faults: u64,
    /// Memory charge, mean over time.
    pub(super) mean_bytes: u64,
    /// Whether it may have waited for the device of swap.
    waits_for_swap: bool,
}

impl Unlimited {
    /// In units of the recording or sample that is played; [`Unlimited::of_whole`] converts them to the whole.
    fn play(roomy: &Variant, context: &BuildContext) -> Result<Self, ScenarioError> {
        let outcome = roomy.play(context, Limits::Off, None)?;
        check_ended(&outcome)?;
        // The root and the program's own group.
        let peak = Bytes::new(outcome.cgroups[1].peak_pages * PAGE_BYTES);
        let pace = Pace::of(&outcome.programs[0]);
        let waits_for_swap = outcome.system().counters.get(Counter::PswpOut) > 0;
        let draw = Draw::of(0, roomy.scenario.machine.cpus);
        let run = Run::of(outcome, &draw, Bytes::new(u64::MAX), (&pace, BurstBound::Share), &Scale::WHOLE);
        Ok(Self { pace, peak, major_faults: run.major_faults, mean_bytes: run.mean_bytes, waits_for_swap })
    }

    fn of_whole(self, scale: &Scale) -> Self {
        Self {
            peak: scale.whole(self.peak),
            major_faults: scale.count(self.major_faults),
            mean_bytes: scale.whole(Bytes::new(self.mean_bytes)).get(),
            ..self
        }
    }
}

/// The program without limits on some hardware.
struct Free {
    pace: Pace,
    /// Memory charge, mean over time, of the whole.
    mean_bytes: u64,
}

impl Free {
    fn of(played: Unlimited, scale: &Scale) -> Self {
        let Unlimited { pace, mean_bytes, .. } = played.of_whole(scale);
        Self { pace, mean_bytes }
    }
}

/// A question on one release of the kernel, with all that is known of its recording and all its replays.
pub(super) struct Player<'a> {
    pub(super) question: &'a Question,
    pub(super) kernel: KernelRelease,
    /// Assumed order of accesses within an epoch, where the recording has none.
    pub(super) order: EpochOrder,
    progress: &'a dyn Progress,
    /// Whether the whole is played or a sample: sizes here refer to the whole, and sizes of [`base`](Self::base) to the trace that is
    /// played.
    scale: Scale,
    base: Scenario,
    context: BuildContext,
    peaks: Peaks,
    pub(super) recording: Recording,
    /// The sizes asked for, ascending, each once.
    pub(super) sizes: Vec<Bytes>,
    /// Highest charge, the kernel's own memory included.
    pub(super) peak: Bytes,
    /// Memory of the kernel for the program's threads, which a replay does not charge.
    kernel_memory: Bytes,
    pub(super) unlimited: Unlimited,
    /// Whether the recording has files.
    has_files: bool,
    /// Whether they may be in memory before the program starts.
    may_be_warm: bool,
    /// Memory for them then.
    of_others: Bytes,
    /// The program without limits, by the hardware of a draw.
    free: BTreeMap<Hardware, Free>,
    pub(super) cache: Arc<ReplayCache>,
    pub(super) pool: Pool,
}

impl<'a> Player<'a> {
    /// Plays the recording, or `trace`, a sample of the recording, without limits. `peak`: base of shares, if it is known from another
    /// release, or from the whole.
    pub(super) fn new(
        question: &'a Question,
        trace: &Path,
        (kernel, order): (KernelRelease, EpochOrder),
        context: &BuildContext,
        cache: &Arc<ReplayCache>,
        peak: Option<Bytes>,
        progress: &'a dyn Progress,
    ) -> Result<Self, ScenarioError> {
        let mut base = scenario_of(question, trace, kernel, order);
        let roomy = without_limits(&base);
        let files = files_of(trace);
        let units = Scale::units_of(base.machine.sample);
        progress.planned(units);
        let played = cache.or_play("without limits", &roomy.scenario, || Unlimited::play(&roomy, context))?;
        progress.done(units);
        let runtime = Duration::from_ns(played.pace.runtime_ns);
        // The name of the program in the baseline run is used.
        let peaks = Peaks::from([(group_path(&base, 0), played.peak)]);
        if played.peak == Bytes::ZERO {
            let reason = "it takes no memory: it only reads what was never written".to_owned();
            return Err(ScenarioError::NoPeak { workload: question.name.clone(), reason });
        }
        let meta = TraceReader::open(trace).map(|reader| reader.meta().clone()).unwrap_or_default();
        let whole = Scale::of(base.machine.sample, played.peak, None).whole(played.peak);
        let kernel_memory = kernel_memory::beyond_draws(&meta, peak.unwrap_or(whole));
        let of_program = |peak: Bytes| Bytes::new(peak.get().saturating_sub(kernel_memory.get()));
        let scale = Scale::of(base.machine.sample, played.peak, peak.map(of_program));
        let unlimited = played.clone().of_whole(&scale);
        let peak = peak.unwrap_or(Bytes::new(unlimited.peak.get().saturating_add(kernel_memory.get())));
        let sizes = sizes(question, peak)?;
        let largest = sizes.last().copied().unwrap_or_default().max(peak);
        let room = scale.own(largest);
        let may_be_warm = !question.only_recorded && files > Bytes::ZERO && files <= warm_files_max(room);
        let of_others = if may_be_warm { files } else { Bytes::ZERO };
        base.machine.nodes = vec![NodeConfig { memory: roomy_for(room, of_others), ..NodeConfig::default() }];
        let has_files = files > Bytes::ZERO;
        let centre = Draw::of(0, question.cpus).hardware().that_matters(has_files, played.waits_for_swap);
        let free = BTreeMap::from([(centre, Free { pace: played.pace.clone(), mean_bytes: unlimited.mean_bytes })]);
        Ok(Self {
            question,
            kernel,
            order,
            progress,
            scale,
            base,
            context: context.clone(),
            peaks,
            recording: Recording { runtime },
            sizes,
            peak,
            kernel_memory,
            unlimited,
            has_files,
            may_be_warm,
            of_others,
            free,
            cache: Arc::clone(cache),
            pool: Pool::default(),
        })
    }

    /// Plays configurations, by their number in the table, at sizes, the given number of times more. Each replay of a size has a draw of
    /// its own.
    pub(super) fn play_more(&mut self, wanted: &[(usize, Bytes, usize)]) -> Result<(), ScenarioError> {
        let mut jobs = Vec::new();
        for &(index, size, more) in wanted {
            let played = self.pool.at(index, size).len();
            // Draws differ between neighbouring sizes, which are judged together.
            let first = size.get() / self.step_at(size).get().max(1) * 8;
            let number = |nth: usize| if nth == 0 { 0 } else { first + nth as u64 };
            jobs.extend((played..played + more).map(|nth| (index, size, self.draw(number(nth)))));
        }
        self.know_unlimited(jobs.iter().map(|(_, _, draw)| draw))?;
        self.progress.planned(self.units() * jobs.len() as u64);
        let this = &*self;
        let played = families(&jobs).into_par_iter().map(|Family { index, draw, members }| {
            let sizes: Vec<Bytes> = members.iter().map(|&(size, _)| size).collect();
            let runs = this.run_family(index, &draw, &sizes)?;
            Ok(members.into_iter().zip(runs).map(|((size, job), run)| (job, index, size, run)).collect::<Vec<_>>())
        });
        let played = played.collect::<Vec<Result<_, ScenarioError>>>().into_iter().collect::<Result<Vec<_>, _>>()?;
        let mut played: Vec<_> = played.into_iter().flatten().collect();
        played.sort_unstable_by_key(|&(job, ..)| job);
        for (_, index, size, run) in played {
            self.pool.add(index, size, run);
        }
        self.cache.save();
        Ok(())
    }

    /// Replays of a configuration in one world at ascending sizes; `None` for replays that were not begun.
    fn run_family(&self, index: usize, draw: &Draw, sizes: &[Bytes]) -> Result<Vec<Option<Run>>, ScenarioError> {
        let is_stopped = || self.progress.is_stopped();
        if is_stopped() {
            return Ok(vec![None; sizes.len()]);
        }
        let (mut runs, mut missing) = (Vec::new(), Vec::new());
        for (at, &size) in sizes.iter().enumerate() {
            let prepared = self.prepared(&self.scenario(&CANDIDATES[index], size), size, draw);
            match self.cache.find::<Run>(&self.what(draw, &prepared), &prepared.variant.scenario) {
                CacheLookup::Known(run) => {
                    runs.push(Some(run));
                    self.progress.done(self.units());
                }
                CacheLookup::Unknown(place) => {
                    runs.push(None);
                    missing.push((at, prepared, place));
                }
            }
        }
        let runs = Mutex::new(runs);
        let done = |nth: usize, outcome| {
            let (at, prepared, place) = &missing[nth];
            let run = self.run_of(outcome, draw, prepared);
            self.cache.keep(place.clone(), &run);
            self.progress.done(self.units());
            runs.lock().unwrap_or_else(PoisonError::into_inner)[*at] = Some(run);
        };
        let branches = Branches {
            variants: missing.iter().map(|(_, prepared, _)| prepared.variant.clone()).collect(),
            context: &self.context.clone().with_seed(draw.seed),
            peaks: &self.peaks,
            is_stopped: &is_stopped,
            done: &done,
        };
        branches.play()?;
        Ok(runs.into_inner().unwrap_or_else(PoisonError::into_inner))
    }

    /// Plays configurations until each was played `times` at its size.
    pub(super) fn play_up_to(&mut self, times: usize, places: &[(usize, Bytes)]) -> Result<(), ScenarioError> {
        let lacking =
            |&(index, size): &(usize, Bytes)| (index, size, times.saturating_sub(self.pool.at(index, size).len()));
        let wanted: Vec<_> = places.iter().map(lacking).filter(|&(.., more)| more > 0).collect();
        self.play_more(&wanted)
    }

    /// Finds out how long the program runs without limits on the hardware of these draws.
    fn know_unlimited<'d>(&mut self, draws: impl Iterator<Item = &'d Draw>) -> Result<(), ScenarioError> {
        let missing: BTreeMap<Hardware, &Draw> = draws
            .filter(|draw| !self.free.contains_key(&self.hardware(draw)))
            .map(|draw| (self.hardware(draw), draw))
            .collect();
        if self.progress.is_stopped() {
            return Ok(());
        }
        let units = self.units();
        self.progress.planned(units * missing.len() as u64);
        let missing: Vec<(Hardware, &Draw)> = missing.into_iter().collect();
        let played = missing.par_iter().map(|(hardware, draw)| {
            let mut scenario = self.base.clone();
            draw.apply(&mut scenario, self.recording.runtime);
            let roomy = without_limits(&scenario);
            let play = || Unlimited::play(&roomy, &self.context);
            let free = self.cache.or_play("without limits", &roomy.scenario, play)?;
            self.progress.done(units);
            Ok((*hardware, Free::of(free, &self.scale)))
        });
        let played = played.collect::<Vec<Result<_, ScenarioError>>>().into_iter().collect::<Result<Vec<_>, _>>()?;
        self.free.extend(played);
        Ok(())
    }

    /// Takes over from replays of a sample how much other hardware slows the program down without limits. That needs no pages.
    pub(super) fn know_unlimited_by(&mut self, sample: &mut Self) -> Result<(), ScenarioError> {
        let draws: Vec<Draw> = (0..DRAWS_OF_ALL_HARDWARE).map(|number| self.draw(number)).collect();
        sample.know_unlimited(draws.iter())?;
        for (&hardware, free) in &sample.free {
            let pace = free.pace.scaled(&sample.unlimited.pace, &self.unlimited.pace);
            self.free.entry(hardware).or_insert(Free { pace, mean_bytes: free.mean_bytes });
        }
        Ok(())
    }

    /// The part of a draw that changes the runtime without limits.
    fn hardware(&self, draw: &Draw) -> Hardware {
        draw.hardware().that_matters(self.has_files, self.unlimited.waits_for_swap)
    }

    /// World number `number` of this recording.
    pub(super) fn draw(&self, number: u64) -> Draw {
        let draw = Draw::of(number, self.question.cpus);
        if self.may_be_warm { draw } else { draw.cold() }
    }

    /// Memory charge without limits, mean over time, in world number `number`; bytes.
    pub(super) fn unlimited_mean(&self, number: u64) -> u64 {
        let free = self.free.get(&self.hardware(&self.draw(number)));
        free.map_or(self.unlimited.mean_bytes, |free| free.mean_bytes)
    }

    /// Work of one replay, for progress.
    fn units(&self) -> u64 {
        Scale::units_of(self.base.machine.sample)
    }

    /// A candidate at a size, before chance is applied; sizes of the trace that is played.
    fn scenario(&self, candidate: &Candidate, size: Bytes) -> Scenario {
        let plain = Scenario { limit: Some(Amount::Absolute(self.scale.own(size))), ..self.base.clone() };
        candidate.apply(plain, &self.recording)
    }

    /// The scenario for the whole recording.
    pub(super) fn whole_scenario(&self, candidate: &Candidate, size: Bytes) -> Scenario {
        let mut plain = Scenario { limit: Some(Amount::Absolute(size)), ..self.base.clone() };
        plain.machine.sample = 1;
        let largest = self.sizes.last().copied().unwrap_or_default().max(self.peak);
        plain.machine.nodes = vec![NodeConfig { memory: roomy_for(largest, self.of_others), ..NodeConfig::default() }];
        for workload in &mut plain.workloads {
            if let WorkloadSpec::Trace(trace) = &mut workload.load {
                trace.path.clone_from(&self.question.trace);
            }
        }
        candidate.apply(plain, &self.recording)
    }

    fn run(&self, scenario: &Scenario, size: Bytes, draw: &Draw) -> Result<Run, ScenarioError> {
        self.run_prepared(&self.prepared(scenario, size, draw), draw)
    }

    fn run_prepared(&self, prepared: &Prepared, draw: &Draw) -> Result<Run, ScenarioError> {
        let context = self.context.clone().with_seed(draw.seed);
        self.cache.or_play(&self.what(draw, prepared), &prepared.variant.scenario, || {
            let outcome = prepared.variant.play(&context, Limits::Of(&self.peaks), None)?;
            Ok(self.run_of(outcome, draw, prepared))
        })
    }

    /// A scenario in the world of a draw, with the limit that it has at a size.
    fn prepared(&self, scenario: &Scenario, size: Bytes, draw: &Draw) -> Prepared {
        let (mut scenario, limit) = (scenario.clone(), draw.limit(size));
        draw.apply(&mut scenario, self.recording.runtime);
        scenario.limit = Some(Amount::Absolute(self.scale.own(self.left_for_program(limit))));
        let name = name_of(&scenario.policy, scenario.limit);
        let free = self.free.get(&self.hardware(draw)).map_or(&self.unlimited.pace, |free| &free.pace).clone();
        Prepared { variant: Variant { name, scenario, only: Vec::new() }, limit, free }
    }

    /// The part of a limit that is left when the kernel's own memory is charged.
    pub(super) fn left_for_program(&self, limit: Bytes) -> Bytes {
        Bytes::new(limit.get().saturating_sub(self.kernel_memory.get())).max(LIMIT_MIN)
    }

    fn run_of(&self, outcome: Outcome, draw: &Draw, prepared: &Prepared) -> Run {
        Run::of(outcome, draw, prepared.limit, (&prepared.free, self.bound()), &self.scale)
    }

    /// Cache key of a replay.
    fn what(&self, draw: &Draw, prepared: &Prepared) -> String {
        let Prepared { free, limit, .. } = prepared;
        format!("replay of draw {} next to {free:?}, {:?}, {limit}", draw.number, self.bound())
    }

    /// The allowed stall of a burst.
    fn bound(&self) -> BurstBound {
        let Question { latency, slowdown, .. } = *self.question;
        latency.map_or(BurstBound::Share, |latency| BurstBound::Latency(latency, slowdown))
    }

    /// One replay of a configuration at a size over time, with all parameters of chance in the middle.
    pub(super) fn course(&self, index: usize, size: Bytes) -> Result<Vec<CourseRow>, ScenarioError> {
        let scenario = self.scenario(&CANDIDATES[index], size);
        let name = name_of(&scenario.policy, scenario.limit);
        let variant = Variant { name, scenario, only: Vec::new() };
        let sample = sample_every(self.recording.runtime);
        self.progress.planned(self.units());
        let course = self.cache.or_play("course", &variant.scenario, || {
            let outcome = variant.play(&self.context, Limits::Of(&self.peaks), Some(sample))?;
            Ok::<_, ScenarioError>(outcome.series.iter().map(|row| course_row(row, &self.scale)).collect::<Vec<_>>())
        })?;
        self.progress.done(self.units());
        Ok(course)
    }

    /// Result of a configuration on other devices, with all parameters of chance in the middle: its runtime against unlimited memory there,
    /// in millionths, and its major faults. `None` if it was killed.
    pub(super) fn elsewhere(
        &self,
        index: usize,
        size: Bytes,
        devices: Devices,
    ) -> Result<Option<(u64, u64)>, ScenarioError> {
        let draw = self.draw(0);
        let mut scenario = self.scenario(&CANDIDATES[index], size);
        (scenario.machine.storage, scenario.machine.swap.device) = (devices.storage, devices.swap);
        let roomy = without_limits(&scenario);
        let play = || Unlimited::play(&roomy, &self.context);
        let free = self.cache.or_play("without limits", &roomy.scenario, play)?;
        let prepared = Prepared { free: free.pace, ..self.prepared(&scenario, size, &draw) };
        let run = self.run_prepared(&prepared, &draw)?;
        Ok(run.ratio_ppm.map(|ratio| (ratio, run.major_faults)))
    }

    /// Effect of presets with the kernel's own parameters, each in the first combination that has it.
    pub(super) fn kernel_defaults(&self, size: Bytes) -> Result<Vec<KernelDefaults>, ScenarioError> {
        let mut defaults = Vec::new();
        let mut known = BTreeSet::new();
        for candidate in CANDIDATES.iter() {
            let mut scenario = self.scenario(candidate, size);
            let Some(fitted) = scenario.monitors.iter().find_map(MonitorSpec::preset) else { continue };
            let preset = fitted.name();
            let usual = preset.parse().map_err(meaning)?;
            if *fitted == usual || !known.insert(preset) {
                continue;
            }
            scenario.monitors = vec![MonitorSpec::of_preset(preset, usual).map_err(meaning)?];
            self.progress.planned(self.units());
            let run = self.run(&scenario, size, &self.draw(0))?;
            self.progress.done(self.units());
            let schemes = &scenario.monitors[0].config.schemes;
            defaults.push(KernelDefaults {
                candidate: candidate.name,
                preset,
                runtime_ratio_ppm: run.ratio_ppm,
                words: schemes.iter().zip(&run.schemes).map(|(scheme, report)| explain(scheme, report)).collect(),
            });
        }
        Ok(defaults)
    }

    /// Schemes and tools of `candidate`, as text of a scenario.
    pub(super) fn presets(&self, candidate: &Candidate) -> Vec<String> {
        let scenario = self.scenario(candidate, self.peak);
        let written = |monitor: &MonitorSpec| {
            let table = isotherm_document::to_table(monitor).expect("scenario types are TOML tables");
            let preset = table.get("preset")?.as_table()?;
            let is_name = |(key, _): &(&String, &toml::Value)| key.as_str() == "preset";
            let name = preset.iter().filter(is_name);
            let keys = name.chain(preset.iter().filter(|entry| !is_name(entry)));
            let keys: Vec<String> = keys.map(|(key, value)| format!("{key} = {value}")).collect();
            Some(format!("{{ {} }}", keys.join(", ")))
        };
        let tool = |tool: &GenerationsSpec| {
            let table = isotherm_document::to_table(tool).expect("scenario types are TOML tables");
            // The fitted keys.
            let keys = ["mode", "threshold", "swappiness"]
                .iter()
                .filter_map(|key| Some(format!("{key} = {}", table.get(*key)?)));
            format!("{{ {} }}", keys.collect::<Vec<_>>().join(", "))
        };
        let presets = scenario.monitors.iter().filter_map(written);
        let sizing =
            |limits: &LimitsConfig| format!("{{ interval = \"{}\", floor = \"{}\" }}", limits.interval, limits.floor);
        let tools = scenario.generations.iter().map(tool).chain(scenario.limits.iter().map(sizing));
        presets.chain(tools).collect()
    }

    /// Step between sizes: a hundredth of the peak, in whole pages.
    pub(super) fn step(&self) -> Bytes {
        Bytes::new((self.peak.get() / 100).max(PAGE_BYTES)).pages_floor().bytes()
    }

    /// Steps around `size`: a [`step`](Self::step) halved until it is a twentieth of `size` at most, in whole pages.
    pub(super) fn step_at(&self, size: Bytes) -> Bytes {
        let mut step = self.step().get();
        while step > PAGE_BYTES && step > size.get() / STEPS_PER_SIZE_MIN {
            step = Bytes::new((step / 2).max(PAGE_BYTES)).pages_floor().bytes().get();
        }
        Bytes::new(step)
    }

    /// The smallest size of the lattice at which no draw takes anything from the peak.
    pub(super) fn above_peak(&self) -> Bytes {
        let least_bp = u128::from(10_000 - LIMIT_SPREAD_BP - KERNEL_CHARGE_BP);
        let bytes = (u128::from(self.peak.get()) * 10_000).div_ceil(least_bp);
        let step = self.step().get();
        Bytes::new(u64::try_from(bytes).unwrap_or(u64::MAX).div_ceil(step).saturating_mul(step))
    }

    /// The tried size nearest to `size`.
    pub(super) fn on_lattice(&self, size: Bytes) -> Bytes {
        let step = self.step_at(size).get();
        Bytes::new((size.get() + step / 2) / step * step)
    }

    /// Pages that each page of the trace played represents, if that is a sample.
    pub(super) fn sample(&self) -> Option<u32> {
        Some(self.scale.pages).filter(|&pages| pages > 1)
    }

    /// Whether the user asked to stop with the results so far.
    pub(super) fn is_stopped(&self) -> bool {
        self.progress.is_stopped()
    }
}

/// A replay to be made.
struct Prepared {
    variant: Variant,
    limit: Bytes,
    free: Pace,
}

/// Memory of a machine on which only the limit binds: room for the program, for compressed swap and for the kernel's reserves. The machine
/// has no more, because schemes work on all memory, free memory included.
fn roomy_for(largest: Bytes, files_of_others: Bytes) -> Bytes {
    Bytes::new(((largest.get() + files_of_others.get()) * 2).max(MACHINE_MIN.get()))
}

/// Files up to this size may all be in memory before a program starts, if its own memory is at most `largest`. Of larger ones others will
/// have read a part, and which is not known.
fn warm_files_max(largest: Bytes) -> Bytes {
    Bytes::new((largest.get() * 2).max(MACHINE_MIN.get() / 2))
}

/// Size of all files of a recording, as far as it uses or maps them; 0 without any.
fn files_of(trace: &Path) -> Bytes {
    let Ok(reader) = TraceReader::open(trace) else { return Bytes::ZERO };
    let mut pages: BTreeMap<&str, u64> = BTreeMap::new();
    for event in &reader.meta().events {
        if let EventKind::Map(MapRange { file: Some(file), file_page, start, end, .. }) = &event.kind {
            let own = pages.entry(file).or_default();
            *own = (*own).max(file_page.saturating_add(end.saturating_sub(*start)));
        }
    }
    let bytes =
        pages.values().fold(0_u64, |sum, pages| sum.saturating_add(pages.saturating_mul(reader.meta().page_bytes)));
    Bytes::new(bytes)
}

/// The root and the program's own group; the second counts.
fn course_row(row: &SeriesRow, scale: &Scale) -> CourseRow {
    CourseRow {
        at_ns: row.at_ns,
        usage_pages: scale.count(row.usage_pages.get(1).copied().unwrap_or(0)),
        major_faults: scale.count(row.major_faults),
        stalled_ns: row.memory_some_ns,
    }
}

/// The devices of a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Devices {
    pub(super) storage: DeviceConfig,
    pub(super) swap: DeviceConfig,
}

/// The sizes asked for, in bytes, ascending, each once.
fn sizes(question: &Question, peak: Bytes) -> Result<Vec<Bytes>, ScenarioError> {
    let memory_max = Bytes::new((peak.get() * 2).max(MEMORY_MAX.get()));
    let mut sizes = BTreeSet::new();
    for &amount in &question.memory {
        let size = amount.of(peak).pages_floor().bytes();
        // Shares of a small peak may be below the least limit.
        let size = if matches!(amount, Amount::Share(_)) && peak >= LIMIT_MIN { size.max(LIMIT_MIN) } else { size };
        if peak < LIMIT_MIN {
            let message = format!(
                "the program's peak is {peak}, less than the smallest limit that is tried, {LIMIT_MIN}: there is nothing to save"
            );
            return Err(ScenarioError::Meaning { place: question.name.clone(), message });
        }
        if size < LIMIT_MIN || size > memory_max {
            let message =
                format!("{amount} is {size}, as the program's peak is {peak}; allowed: {LIMIT_MIN} to {memory_max}");
            return Err(ScenarioError::Meaning { place: "--memory".to_owned(), message });
        }
        sizes.insert(size);
    }
    Ok(sizes.into_iter().collect())
}

fn sample_every(runtime: Duration) -> Duration {
    Duration::from_ns((runtime.ns() / SAMPLES).max(10_000))
}

fn meaning(error: impl ToString) -> ScenarioError {
    ScenarioError::Meaning { place: "advise".to_owned(), message: error.to_string() }
}

/// The recording on a machine of the asked-for kind.
pub(super) fn scenario_of(question: &Question, trace: &Path, kernel: KernelRelease, order: EpochOrder) -> Scenario {
    let sample = TraceReader::open(trace).ok().and_then(|reader| reader.meta().sample).unwrap_or(1);
    let mut machine = MachineConfig {
        kernel,
        sample,
        cpus: question.cpus,
        storage: question.storage,
        readahead: question.readahead,
        prices: question.prices.clone(),
        ..MachineConfig::default()
    };
    machine.swap.device = question.swap;
    if !question.only_recorded {
        machine.code_in_use = true;
        // Batches hide the last pages of a list from reclaim, which decides where files are few; without files there is no other list.
        machine.lru_batches = sample == 1 && files_of(trace) > Bytes::ZERO;
    }
    // Requests do not say whether they read or write; memory that is only read takes no page.
    let play_as = if lists_requests(trace) { PlayAs::Write } else { PlayAs::Recorded };
    let load = WorkloadSpec::Trace(TraceSpec { play_as, order, ..TraceSpec::new(trace) });
    Scenario {
        title: format!("{} as recorded", question.name),
        until: Duration::from_secs(24 * 3600),
        machine,
        workloads: vec![WorkloadEntry::new(&question.name, load)],
        ..Scenario::named(&question.name)
    }
}
