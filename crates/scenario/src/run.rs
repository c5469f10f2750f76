//! Playing a scenario: variants × workloads × repeats in parallel, results in a fixed order.

use crate::assemble::{self, Limits, Peaks};
use crate::metrics::{METRICS, Metric, Sample, metric_named, need_scores};
use crate::monitoring::{MonitorReport, Watching};
use crate::result::{RatioRow, Row, ScenarioResult};
use crate::stats::Summary;
use crate::variant::{Variant, expand};
use crate::{RunMode, Scenario, ScenarioError};
use isotherm_sim::machine::{Ending, Incident, NodeConfig, Outcome};
use isotherm_units::{Bytes, Duration, Instant, PAGE_BYTES, Pages};
use isotherm_workload::BuildContext;
use rayon::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

/// How to run.
#[derive(Clone, Debug)]
pub struct RunOptions {
    /// Relative paths of workloads start here.
    pub base_dir: PathBuf,
    /// Stands for the scenario in messages: its file.
    pub place: String,
    /// Threads; `None` = one per processor. Results do not depend on it.
    pub threads: Option<usize>,
}

/// Told as runs end; called from several threads.
pub trait Progress: Sync {
    /// So many runs are planned in all.
    fn planned(&self, runs: u64);
    /// One more is done.
    fn done(&self);
}

impl Progress for () {
    fn planned(&self, _runs: u64) {}
    fn done(&self) {}
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
}

/// Memory of the machine on which peaks are found.
const ROOMY: Bytes = Bytes::from_gib(256);

/// Runs a scenario.
///
/// # Errors
/// The first error in the order of variants and workloads.
pub fn run(
    scenario: &Scenario,
    options: &RunOptions,
    progress: &dyn Progress,
) -> Result<ScenarioResult, ScenarioError> {
    let runs = Runs::new(scenario, options)?;
    let pool = rayon::ThreadPoolBuilder::new().num_threads(options.threads.unwrap_or(0)).build();
    match pool {
        Ok(pool) => pool.install(|| runs.play(progress)),
        Err(_) => runs.play(progress), // no thread can be started: the caller's own does it
    }
}

/// Length of the periods in which monitors are judged: as in publications.
const PERIOD: Duration = Duration::from_secs(1);

/// What one run gave.
struct Played {
    outcome: Outcome,
    monitors: Vec<MonitorReport>,
}

struct Runs<'a> {
    scenario: &'a Scenario,
    variants: Vec<Variant>,
    units: Vec<Unit>,
    context: BuildContext,
}

impl<'a> Runs<'a> {
    fn new(scenario: &'a Scenario, options: &RunOptions) -> Result<Self, ScenarioError> {
        let variants = expand(scenario, &options.place)?;
        Ok(Self {
            scenario,
            variants,
            units: Unit::all(scenario),
            context: BuildContext::new(options.base_dir.clone()),
        })
    }

    fn seeds(&self, variant: usize) -> impl Iterator<Item = u64> + use<> {
        let Scenario { seed, repeats, .. } = self.variants[variant].scenario;
        (0..u64::from(repeats)).map(move |repeat| seed.wrapping_add(repeat))
    }

    fn play(&self, progress: &dyn Progress) -> Result<ScenarioResult, ScenarioError> {
        let needs_peaks = self.variants.iter().any(|variant| assemble::needs_peaks(&variant.scenario));
        let units = 0..self.units.len();
        let jobs: Vec<(usize, usize, u64)> = (0..self.variants.len())
            .flat_map(|variant| units.clone().map(move |unit| (variant, unit)))
            .flat_map(|(variant, unit)| self.seeds(variant).map(move |seed| (variant, unit, seed)))
            .collect();
        let cases: Vec<(usize, u64)> =
            jobs.iter().map(|&(_, unit, seed)| (unit, seed)).collect::<BTreeSet<_>>().into_iter().collect();
        progress.planned((jobs.len() + if needs_peaks { cases.len() } else { 0 }) as u64);
        let peaks: BTreeMap<(usize, u64), Peaks> = if needs_peaks {
            let found: Vec<_> = cases
                .par_iter()
                .map(|&(unit, seed)| {
                    let peaks = self.find_peaks(&self.units[unit], seed)?;
                    progress.done();
                    Ok(((unit, seed), peaks))
                })
                .collect::<Vec<Result<_, ScenarioError>>>();
            found.into_iter().collect::<Result<_, _>>()?
        } else {
            BTreeMap::new()
        };
        let no_peaks = Peaks::new();
        let outcomes: Vec<Result<Played, ScenarioError>> = jobs
            .par_iter()
            .map(|&(variant, unit, seed)| {
                let peaks = peaks.get(&(unit, seed)).unwrap_or(&no_peaks);
                let outcome = self.one(&self.variants[variant], &self.units[unit], seed, Limits::Of(peaks))?;
                progress.done();
                Ok(outcome)
            })
            .collect();
        let outcomes = outcomes.into_iter().collect::<Result<Vec<_>, _>>()?;
        let by_job: BTreeMap<_, _> = jobs.into_iter().zip(outcomes).collect();
        Ok(self.summarise(&by_job))
    }

    fn one(&self, variant: &Variant, unit: &Unit, seed: u64, limits: Limits<'_>) -> Result<Played, ScenarioError> {
        let context = self.context.clone().with_seed(seed);
        let watching = match limits {
            Limits::Off => Watching::Off,
            Limits::Of(_) => Watching::On { period: need_scores(&self.scenario.metrics).then_some(PERIOD), emit: None },
        };
        let assembled = assemble::machine(variant, unit, &context, limits, watching)?;
        let until = Instant::START + variant.scenario.until;
        let outcome = assembled.machine.run(until).map_err(|source| ScenarioError::Sim {
            workload: unit.name(&variant.scenario).to_owned(),
            variant: variant.name.clone(),
            source,
        })?;
        let monitors = assembled.observers.into_iter().map(|observer| observer.finish(&outcome)).collect();
        Ok(Played { outcome, monitors })
    }

    /// Peak charges of all groups in a run on a roomy machine without limits.
    fn find_peaks(&self, unit: &Unit, seed: u64) -> Result<Peaks, ScenarioError> {
        let variant = without_limits(self.scenario);
        let outcome = self.one(&variant, unit, seed, Limits::Off)?.outcome;
        check_ended(&outcome)?;
        Ok(peaks_of(&outcome))
    }

    fn summarise(&self, played: &BTreeMap<(usize, usize, u64), Played>) -> ScenarioResult {
        let scenario = self.scenario;
        let wanted: Vec<&Metric> = if scenario.metrics.is_empty() {
            METRICS.iter().collect()
        } else {
            scenario.metrics.iter().filter_map(|name| metric_named(name)).collect()
        };
        let (mut rows, mut ratios) = (Vec::new(), Vec::new());
        for (unit_index, unit) in self.units.iter().enumerate() {
            for who in self.rows_of(unit) {
                for (variant_index, variant) in self.variants.iter().enumerate() {
                    // Each may name another base than the scenario as a whole.
                    let against = variant.scenario.against.as_deref();
                    let base = against.and_then(|name| self.variants.iter().position(|other| other.name == name));
                    for metric in &wanted {
                        let take = |variant: usize| -> Vec<(u64, Option<f64>)> {
                            let values = self.seeds(variant).map(|seed| {
                                let played = &played[&(variant, unit_index, seed)];
                                (seed, (metric.take)(&self.sample(unit, who, played)))
                            });
                            values.collect()
                        };
                        let Some(values) = present(take(variant_index), metric) else { continue };
                        let workload = who.map_or("system", |index| &scenario.workloads[index].name);
                        let key = (workload, variant.name.as_str(), metric.name);
                        if let Some(summary) = Summary::of(&values.values().copied().collect::<Vec<_>>()) {
                            rows.push(Row::new(key, summary, self.reference(key, None)));
                        }
                        if let (Some(base), Some(against)) = (base, against)
                            && let Some(bases) = present(take(base), metric)
                        {
                            let pairs = values.iter().filter_map(|(seed, &value)| Some((value, *bases.get(seed)?)));
                            let (values, bases): (Vec<f64>, Vec<f64>) = pairs.unzip();
                            if let Some(summary) = Summary::of_ratios(&values, &bases) {
                                ratios.push(RatioRow::new(key, against, summary, self.reference(key, Some(against))));
                            }
                        }
                    }
                }
            }
        }
        ScenarioResult { scenario: scenario.name.clone(), rows, ratios }
    }

    /// Workloads with rows of their own; `None` = the whole system.
    fn rows_of(&self, unit: &Unit) -> Vec<Option<usize>> {
        let own = unit.workloads.iter().map(|&index| Some(index));
        let system = (unit.mode == RunMode::Together).then_some(None);
        own.chain(system).collect()
    }

    fn sample<'o>(&self, unit: &Unit, who: Option<usize>, played: &'o Played) -> Sample<'o> {
        let Played { outcome, monitors } = played;
        let program = who.map(|index| {
            let at = unit.workloads.iter().position(|&other| other == index).expect("rows come from the unit");
            &outcome.programs[at]
        });
        let alone = unit.mode == RunMode::Each;
        let cgroup = match program {
            Some(program) => outcome.cgroup(&program.cgroup).expect("programs run in groups of the outcome"),
            None => outcome.system(),
        };
        // Physical memory is the system's, or that of the one workload there is.
        let watches = |report: &&MonitorReport| match who {
            Some(_) => report.workloads.contains(&who) || alone && report.workloads.contains(&None),
            None => report.workloads.contains(&None),
        };
        let monitor = monitors.iter().find(watches);
        Sample { program, cgroup, outcome, owns_kernel: alone || program.is_none(), monitor }
    }

    fn reference(&self, key: (&str, &str, &str), against: Option<&str>) -> Option<f64> {
        let found = self.scenario.references.iter().find(|reference| {
            (reference.workload.as_str(), reference.variant.as_str(), reference.metric.as_str()) == key
                && reference.against.as_deref() == against
        });
        found.map(|reference| reference.value)
    }
}

/// The values that there are, by seed; `None` if some that must be there are not.
fn present(values: Vec<(u64, Option<f64>)>, metric: &Metric) -> Option<BTreeMap<u64, f64>> {
    let nr_values = values.len();
    let there: BTreeMap<u64, f64> = values.into_iter().filter_map(|(seed, value)| Some((seed, value?))).collect();
    (metric.is_partial || there.len() == nr_values).then_some(there)
}

/// The scenario with nothing in the way of its workloads: no limits, much memory, the cheapest policy.
pub(crate) fn without_limits(scenario: &Scenario) -> Variant {
    let mut scenario = Scenario { matrix: None, variants: Vec::new(), limit: None, ..scenario.clone() };
    scenario.policy = "fifo".to_owned(); // charges page by page, so that the peak is exact
    let latency = scenario.machine.nodes.first().map_or_else(|| NodeConfig::default().latency, |node| node.latency);
    scenario.machine.nodes = vec![NodeConfig { memory: ROOMY, latency }];
    scenario.machine.min_free = None;
    Variant { name: "without limits".to_owned(), scenario }
}

/// Whether every program came to its end, as its peak memory needs.
pub(crate) fn check_ended(outcome: &Outcome) -> Result<(), ScenarioError> {
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
