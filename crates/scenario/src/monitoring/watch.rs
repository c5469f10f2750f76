//! Watching one replay under one monitor.

use super::attach::{Watching, targets_in};
use super::record::meta_of;
use super::report::MonitorReport;
use super::spec::MonitorSpec;
use crate::assemble::{self, Limits, Peaks};
use crate::run::{RunOptions, Unit, peaks_of};
use crate::variant::{Variant, expand};
use crate::{Scenario, ScenarioError, WorkloadEntry};
use isotherm_core::monitor::MonitorConfig;
use isotherm_sim::machine::{MachineConfig, NodeConfig, Outcome};
use isotherm_trace::region::{self, RecordMeta};
use isotherm_units::{Bytes, Duration, Instant};
use isotherm_workload::{BuildContext, TraceSpec, WorkloadSpec};
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::mpsc::sync_channel;

/// Snapshots that may wait for the listener.
const WAITING: usize = 64;

/// A replay and the monitor that watches it. Cheap to clone: recordings are decoded once for all clones.
#[derive(Clone, Debug)]
pub struct Watch {
    variant: Variant,
    unit: Unit,
    context: BuildContext,
    /// A recording begins with its program, when next to nothing is mapped.
    begins_empty: bool,
    /// Length of the periods in which detection is judged. One second as in publications; recordings of a few seconds are judged
    /// in half seconds.
    pub period: Duration,
}

/// What a watched replay gave.
#[derive(Clone, Debug)]
pub struct Watched {
    /// The monitor, with scores if asked for.
    pub monitor: MonitorReport,
    /// The machine.
    pub outcome: Outcome,
}

impl Watch {
    /// A page trace, replayed on a roomy machine, its process `process` (0 is the first) watched as `config` says. The trace is
    /// opened when it is played. A recording begins with its program, when next to nothing is mapped, and often ends before the
    /// usual 60 s between two looks at the mappings: longer spans than 100 ms (or an aggregation) are shortened to that.
    ///
    /// # Errors
    /// A bad value in `config`.
    pub fn trace(path: impl AsRef<Path>, process: usize, config: MonitorConfig) -> Result<Self, ScenarioError> {
        let path = path.as_ref();
        let name = path.file_stem().map_or_else(|| "trace".to_owned(), |stem| stem.to_string_lossy().into_owned());
        // A path element cannot hold `/`; the one name that scenarios keep for themselves can be a file's.
        let name = if name == "system" { "trace".to_owned() } else { name };
        let nodes = vec![NodeConfig { memory: Bytes::from_gib(256), ..NodeConfig::default() }];
        let scenario = Scenario {
            policy: "fifo".to_owned(),
            until: Duration::from_secs(24 * 3600),
            machine: MachineConfig { nodes, ..MachineConfig::default() },
            workloads: vec![WorkloadEntry::new(&name, WorkloadSpec::Trace(TraceSpec::new(path)))],
            ..Scenario::named(&name)
        };
        let unit = Unit { workloads: vec![0], mode: scenario.run };
        let monitor = MonitorSpec {
            name: "kdamond.0".to_owned(),
            targets: vec![format!("{name}/{process}")],
            ranges: Vec::new(),
            config,
        };
        let watch = Self {
            variant: Variant { name, scenario },
            unit,
            context: BuildContext::new("."),
            begins_empty: true,
            period: Duration::from_ms(500),
        };
        watch.with_monitor(monitor)
    }

    /// One run of a scenario: `variant` (default: the first) with `workload` (default: the first; all of them where they share
    /// the machine) and the scenario's first seed. Watched by the scenario's first monitor, or as `config` says.
    ///
    /// # Errors
    /// No such variant or workload, no monitor in the scenario and none given, a bad value in `config`.
    pub fn scenario(
        scenario: &Scenario,
        options: &RunOptions,
        variant: Option<&str>,
        workload: Option<&str>,
        config: Option<MonitorConfig>,
    ) -> Result<Self, ScenarioError> {
        let meaning = |message: String| ScenarioError::Meaning { place: options.place.clone(), message };
        let mut variants = expand(scenario, &options.place)?;
        let index = match variant {
            None => 0,
            Some(name) => variants.iter().position(|variant| variant.name == name).ok_or_else(|| {
                let names: Vec<&str> = variants.iter().map(|variant| variant.name.as_str()).collect();
                meaning(format!("there is no variant `{name}`; variants: {}", names.join(", ")))
            })?,
        };
        let variant = variants.swap_remove(index);
        let units = Unit::all(&variant.scenario);
        let names: Vec<&str> = variant.scenario.workloads.iter().map(|entry| entry.name.as_str()).collect();
        let holds = |unit: &Unit, name: &str| unit.workloads.iter().any(|&index| names[index] == name);
        let unit = match workload {
            None => units.first(),
            Some(name) => units.iter().find(|unit| holds(unit, name)),
        };
        let unit = unit.cloned().ok_or_else(|| {
            let asked = workload.unwrap_or_default();
            meaning(format!("there is no workload `{asked}`; workloads: {}", names.join(", ")))
        })?;
        let first = variant.scenario.monitors.first().cloned();
        let spec = match (first, config) {
            (Some(spec), None) => spec,
            (Some(spec), Some(config)) => MonitorSpec { config, ..spec },
            (None, Some(config)) => {
                let targets = workload.map(str::to_owned).into_iter().collect();
                MonitorSpec { name: "kdamond.0".to_owned(), targets, ranges: Vec::new(), config }
            }
            (None, None) => {
                return Err(meaning(
                    "it has no monitor; add a `[[monitors]]` table or give a configuration".to_owned(),
                ));
            }
        };
        let context = BuildContext::new(options.base_dir.clone()).with_seed(variant.scenario.seed);
        let watch = Self { variant, unit, context, begins_empty: false, period: Duration::from_secs(1) };
        watch.with_monitor(spec)
    }

    /// The same replay watched as `config` says.
    ///
    /// # Errors
    /// A bad value in `config`.
    pub fn with_config(&self, config: MonitorConfig) -> Result<Self, ScenarioError> {
        let spec = MonitorSpec { config, ..self.spec().clone() };
        self.clone().with_monitor(spec)
    }

    fn with_monitor(mut self, mut spec: MonitorSpec) -> Result<Self, ScenarioError> {
        if self.begins_empty {
            let attributes = &mut spec.config.attributes;
            let most = attributes.aggr_interval.max(Duration::from_ms(100));
            attributes.ops_update_interval = attributes.ops_update_interval.min(most);
        }
        spec.config
            .validate()
            .map_err(|error| ScenarioError::Monitor { monitor: spec.name.clone(), message: error.to_string() })?;
        self.variant.scenario.monitors = vec![spec];
        if targets_in(&self.variant.scenario, &self.unit, self.spec()).is_empty() {
            let message = format!("none of its targets ({}) is in this run", self.spec().targets.join(", "));
            return Err(ScenarioError::Monitor { monitor: self.spec().name.clone(), message });
        }
        Ok(self)
    }

    fn spec(&self) -> &MonitorSpec {
        &self.variant.scenario.monitors[0]
    }

    /// How it watches.
    pub fn config(&self) -> &MonitorConfig {
        &self.spec().config
    }

    /// What a record of this run says about itself: for [`isotherm_trace::region::RegionWriter::create`] before [`watch`].
    pub fn record_meta(&self) -> RecordMeta {
        let targets = targets_in(&self.variant.scenario, &self.unit, self.spec());
        let mut meta = meta_of(self.config(), &targets, "simulated machine");
        meta.notes.push(format!("monitored in a simulation of `{}`", self.variant.name));
        meta
    }
}

/// Plays the replay and hands each snapshot to `sink` as soon as it is there, targets in order, on the calling thread. After
/// [`ControlFlow::Break`] no more are handed out; the replay goes on to its end, so that the figures are those of a whole run.
///
/// # Errors
/// The replay cannot be made, or broke.
pub fn watch(
    watch: &Watch,
    sink: &mut dyn FnMut(&region::Snapshot) -> ControlFlow<()>,
) -> Result<Watched, ScenarioError> {
    std::thread::scope(|scope| {
        let (emit, snapshots) = sync_channel(WAITING);
        let run = scope.spawn(move || play(watch, Watching::On { period: None, emit: Some(emit) }));
        for snapshot in &snapshots {
            if sink(&snapshot).is_break() {
                break;
            }
        }
        drop(snapshots);
        run.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// Plays the replay and judges the monitor against what was really used, page by page ([`MonitorReport::scores`]).
///
/// # Errors
/// The replay cannot be made, or broke.
pub fn accuracy(watch: &Watch) -> Result<Watched, ScenarioError> {
    play(watch, Watching::On { period: Some(watch.period), emit: None })
}

fn play(watch: &Watch, watching: Watching) -> Result<Watched, ScenarioError> {
    let Watch { variant, unit, context, .. } = watch;
    let sim_error = |source| ScenarioError::Sim {
        workload: unit.name(&variant.scenario).to_owned(),
        variant: variant.name.clone(),
        source,
    };
    let until = Instant::START + variant.scenario.until;
    let peaks = if assemble::needs_peaks(&variant.scenario) {
        let roomy = crate::run::without_limits(&variant.scenario);
        let assembled = assemble::machine(&roomy, unit, context, Limits::Off, Watching::Off)?;
        peaks_of(&assembled.machine.run(until).map_err(sim_error)?)
    } else {
        Peaks::new()
    };
    let assembled = assemble::machine(variant, unit, context, Limits::Of(&peaks), watching)?;
    let outcome = assembled.machine.run(until).map_err(sim_error)?;
    let observer = assembled.observers.into_iter().next().expect("a watch has one monitor with a target");
    Ok(Watched { monitor: observer.finish(&outcome), outcome })
}
