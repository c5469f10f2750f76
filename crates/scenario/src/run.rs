//! Playing a scenario: variants × workloads × repeats in parallel, results in a fixed order.

use crate::assemble::{self, Limits, Peaks};
use crate::metrics::need_scores;
use crate::monitoring::Watching;
use crate::result::ScenarioResult;
use crate::rows::{Played, PlayedRuns};
use crate::variant::{Variant, ready_in_worlds};
use crate::{Extensions, RunMode, Scenario, ScenarioError};
use isotherm_kernel::reclaim::AddedPolicies;
use isotherm_sim::machine::{Ending, Incident, NodeConfig, Outcome, SimError, TieringConfig};
use isotherm_units::{Bytes, Duration, Instant, PAGE_BYTES, Pages};
use isotherm_workload::BuildContext;
use rayon::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

#[derive(Clone, Debug)]
pub struct RunOptions {
    /// Folder at which relative paths of workloads start.
    pub base_dir: PathBuf,
    /// Name of the scenario in messages: its file.
    pub place: String,
    /// Threads; `None` = one per processor. Results do not depend on it.
    pub threads: Option<usize>,
}

/// Called when runs end, from several threads.
pub trait Progress: Sync {
    /// Further planned work: runs, or parts of them if they differ in size.
    fn planned(&self, work: u64);
    /// Work that is done.
    fn done(&self, work: u64);
    /// Whether the caller wants it to end. [`run()`] then ends at once, without a result. Advice begins no new work then, and reports the
    /// results so far.
    fn is_stopped(&self) -> bool {
        false
    }
}

impl Progress for () {
    fn planned(&self, _work: u64) {}
    fn done(&self, _work: u64) {}
}

/// Workloads that share one machine, by index in the scenario.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Unit {
    pub(crate) workloads: Vec<usize>,
    pub(crate) mode: RunMode,
}

impl Unit {
    pub(crate) fn all(scenario: &Scenario) -> Vec<Self> {
        let (indices, mode) = (0..scenario.workloads.len(), scenario.run);
        match mode {
            RunMode::Each => indices.map(|index| Self { workloads: vec![index], mode }).collect(),
            RunMode::Together => vec![Self { workloads: indices.collect(), mode }],
        }
    }

    pub(crate) fn name<'a>(&self, scenario: &'a Scenario) -> &'a str {
        match self.mode {
            RunMode::Each => &scenario.workloads[self.workloads[0]].name,
            RunMode::Together => "system",
        }
    }

    /// The error of a run of `variant` that failed.
    pub(crate) fn failed(&self, variant: &Variant, source: SimError) -> ScenarioError {
        let workload = self.name(&variant.scenario).to_owned();
        ScenarioError::Sim { workload, variant: variant.name.clone(), source }
    }
}

/// Memory of the machine on which peaks are found.
const ROOMY: Bytes = Bytes::from_gib(256);

/// Runs a scenario.
///
/// # Errors
/// The first error in the order of variants and workloads; [`ScenarioError::Stopped`] when [`Progress::is_stopped`] returns true.
pub fn run(
    scenario: &Scenario,
    options: &RunOptions,
    progress: &dyn Progress,
) -> Result<ScenarioResult, ScenarioError> {
    run_extended(scenario, options, &Extensions::default(), progress)
}

/// Runs a scenario as [`run()`] does; it may name policies and workloads that a program has added.
///
/// # Errors
/// As [`run()`].
pub fn run_extended(
    scenario: &Scenario,
    options: &RunOptions,
    extensions: &Extensions,
    progress: &dyn Progress,
) -> Result<ScenarioResult, ScenarioError> {
    let runs = Runs::new(scenario, options, extensions)?;
    let pool = rayon::ThreadPoolBuilder::new().num_threads(options.threads.unwrap_or(0)).build();
    match pool {
        Ok(pool) => pool.install(|| runs.play(progress)),
        Err(_) => runs.play(progress), // no thread can be started: the caller's own does it
    }
}

/// Length of the periods in which monitors are judged: as in publications.
const PERIOD: Duration = Duration::from_secs(1);

struct Runs<'a> {
    scenario: &'a Scenario,
    /// Variants by world; one list without worlds. The first is used for names.
    variants: Vec<Vec<Variant>>,
    units: Vec<Unit>,
    context: BuildContext,
    policies: AddedPolicies,
}

impl<'a> Runs<'a> {
    fn new(scenario: &'a Scenario, options: &RunOptions, extensions: &Extensions) -> Result<Self, ScenarioError> {
        let variants = ready_in_worlds(scenario, &options.place, &options.base_dir, &extensions.policies)?;
        let mut context = BuildContext::new(options.base_dir.clone());
        context.registered = extensions.workloads.clone();
        Ok(Self { scenario, variants, units: Unit::all(scenario), context, policies: extensions.policies.clone() })
    }

    /// The cases of a variant: places of worlds, or seeds of repeats.
    fn cases(&self, variant: usize) -> Vec<u64> {
        let Scenario { seed, repeats, .. } = self.variants[0][variant].scenario;
        match self.scenario.worlds.len() {
            0 => (0..u64::from(repeats)).map(|repeat| seed.wrapping_add(repeat)).collect(),
            worlds => (0..worlds as u64).collect(),
        }
    }

    /// The variant of a case, and its seed.
    fn of_case(&self, variant: usize, case: u64) -> (&Variant, u64) {
        match usize::try_from(case).ok().filter(|_| !self.scenario.worlds.is_empty()) {
            Some(world) => (&self.variants[world][variant], self.variants[world][variant].scenario.seed),
            None => (&self.variants[0][variant], case),
        }
    }

    fn play(&self, progress: &dyn Progress) -> Result<ScenarioResult, ScenarioError> {
        let needs_peaks = self.variants.iter().flatten().any(|variant| assemble::needs_peaks(&variant.scenario));
        let units = 0..self.units.len();
        let jobs: Vec<(usize, usize, u64)> = (0..self.variants[0].len())
            .flat_map(|variant| units.clone().map(move |unit| (variant, unit)))
            .filter(|&(variant, unit)| self.variants[0][variant].plays(self.units[unit].name(self.scenario)))
            .flat_map(|(variant, unit)| self.cases(variant).into_iter().map(move |case| (variant, unit, case)))
            .collect();
        let cases: Vec<(usize, u64)> =
            jobs.iter().map(|&(_, unit, case)| (unit, case)).collect::<BTreeSet<_>>().into_iter().collect();
        progress.planned((jobs.len() + if needs_peaks { cases.len() } else { 0 }) as u64);
        let peaks: BTreeMap<(usize, u64), Peaks> = if needs_peaks {
            let found: Vec<_> = cases
                .par_iter()
                .map(|&(unit, case)| {
                    let peaks = self.find_peaks(&self.units[unit], self.of_case(0, case).1, progress)?;
                    progress.done(1);
                    Ok(((unit, case), peaks))
                })
                .collect::<Vec<Result<_, ScenarioError>>>();
            found.into_iter().collect::<Result<_, _>>()?
        } else {
            BTreeMap::new()
        };
        let no_peaks = Peaks::new();
        let outcomes: Vec<Result<Played, ScenarioError>> = jobs
            .par_iter()
            .map(|&(variant, unit, case)| {
                let peaks = peaks.get(&(unit, case)).unwrap_or(&no_peaks);
                let (variant, seed) = self.of_case(variant, case);
                let outcome = self.one(variant, &self.units[unit], seed, Limits::Of(peaks), progress)?;
                progress.done(1);
                Ok(outcome)
            })
            .collect();
        let outcomes = outcomes.into_iter().collect::<Result<Vec<_>, _>>()?;
        let played = jobs.into_iter().zip(outcomes).collect();
        let Self { scenario, variants, units, .. } = self;
        Ok(PlayedRuns { scenario, variants: &variants[0], units, played }.summarise())
    }

    fn one(
        &self,
        variant: &Variant,
        unit: &Unit,
        seed: u64,
        limits: Limits<'_>,
        progress: &dyn Progress,
    ) -> Result<Played, ScenarioError> {
        let context = self.context.clone().with_seed(seed);
        let watching = match limits {
            Limits::Off => Watching::Off,
            Limits::Of(_) => Watching::On { period: need_scores(&self.scenario.metrics).then_some(PERIOD), emit: None },
        };
        let assembled = assemble::machine(variant, unit, &context, limits, watching, &self.policies)?;
        let until = Instant::START + variant.scenario.until;
        let mut outcome =
            assembled.machine.run_while(until, &|| !progress.is_stopped()).map_err(|source| match source {
                SimError::Stopped => ScenarioError::Stopped,
                source => unit.failed(variant, source),
            })?;
        let monitors = assembled.observers.into_iter().map(|observer| observer.finish(&outcome)).collect();
        assemble::join_copies(&variant.scenario, unit, &mut outcome);
        Ok(Played { outcome, monitors })
    }

    /// Peak charges of all groups in a run on a roomy machine without limits.
    fn find_peaks(&self, unit: &Unit, seed: u64, progress: &dyn Progress) -> Result<Peaks, ScenarioError> {
        let variant = without_limits(self.scenario);
        let outcome = self.one(&variant, unit, seed, Limits::Off, progress)?.outcome;
        check_ended(&outcome)?;
        Ok(peaks_of(&outcome))
    }
}

/// The scenario without restrictions on its workloads: no limits, much memory, the cheapest policy.
pub fn without_limits(scenario: &Scenario) -> Variant {
    let own = scenario.clone();
    let mut scenario = Scenario {
        matrix: None,
        variants: Vec::new(),
        worlds: Vec::new(),
        limit: None,
        other_tasks: Duration::ZERO,
        ..own
    };
    scenario.policy = "fifo".to_owned(); // charges page by page, so that the peak is exact
    let latency = scenario.machine.nodes.first().map_or_else(|| NodeConfig::default().latency, |node| node.latency);
    scenario.machine.nodes = vec![NodeConfig { memory: ROOMY, latency, ..NodeConfig::default() }];
    (scenario.machine.distances, scenario.machine.tiering) = (Vec::new(), TieringConfig::default());
    scenario.machine.min_free = None;
    scenario.tiering = None;
    scenario.workloads.iter_mut().for_each(|workload| workload.node = None);
    Variant { name: "without limits".to_owned(), scenario, only: Vec::new() }
}

/// Whether every program came to its end, as its peak memory needs.
pub fn check_ended(outcome: &Outcome) -> Result<(), ScenarioError> {
    let good = |ending| matches!(ending, Ending::Finished | Ending::NotStarted | Ending::Stopped);
    let Some(program) = outcome.programs.iter().find(|program| !good(program.ending)) else { return Ok(()) };
    let reason = match outcome.incidents.first() {
        Some(Incident::BadAccess { page, .. }) => format!("it touched page {page:#x}, where nothing is mapped"),
        Some(Incident::OutOfMemory { resident_pages, .. }) => {
            format!("it was killed with {} resident", Pages::new(*resident_pages).bytes())
        }
        None => format!("it ended as {:?}", program.ending),
    };
    Err(ScenarioError::NoPeak { workload: program.name.clone(), reason })
}

pub(crate) fn peaks_of(outcome: &Outcome) -> Peaks {
    outcome.cgroups.iter().map(|group| (group.path.clone(), Bytes::new(group.peak_pages * PAGE_BYTES))).collect()
}
