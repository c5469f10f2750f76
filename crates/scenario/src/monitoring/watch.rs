//! Watching one replay under one monitor.

use super::attach::Watching;
use super::record::meta_of;
use super::replay::Replay;
use super::report::MonitorReport;
use super::spec::MonitorSpec;
use crate::run::{RunOptions, Unit};
use crate::variant::Variant;
use crate::{Scenario, ScenarioError, WorkloadEntry};
use isotherm_core::monitor::MonitorConfig;
use isotherm_sim::machine::{MachineConfig, NodeConfig, Outcome};
use isotherm_trace::region::{self, RecordMeta};
use isotherm_units::{Bytes, Duration};
use isotherm_workload::{BuildContext, TraceSpec, WorkloadSpec};
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::mpsc::sync_channel;

/// Snapshots that may wait for the listener.
const WAITING: usize = 64;

/// A replay and the monitor that watches it. Cheap to clone: recordings are decoded once for all clones.
#[derive(Clone, Debug)]
pub struct Watch {
    replay: Replay,
    /// A recording begins with its program, when hardly any memory is mapped.
    begins_empty: bool,
    /// Length of the periods in which detection is judged. One second as in publications; recordings of a few seconds are judged in half
    /// seconds.
    pub period: Duration,
}

/// The result of a monitored replay.
#[derive(Clone, Debug)]
pub struct Watched {
    /// The monitor, with scores if asked for.
    pub monitor: MonitorReport,
    pub outcome: Outcome,
}

impl Watch {
    /// A page trace, replayed on a roomy machine, with the monitor of `config` on its process `process` (0 is the first). The trace is
    /// opened when it is played. A recording begins with its program, when next to nothing is mapped, and often ends before the usual 60 s
    /// between two reads of the mappings: intervals over 100 ms (or an aggregation) are shortened to that.
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
        let targets = vec![format!("{name}/{process}")];
        let monitor = MonitorSpec { targets, ..MonitorSpec::new("kdamond.0", config) };
        let replay =
            Replay { variant: Variant { name, scenario, only: Vec::new() }, unit, context: BuildContext::new(".") };
        let watch = Self { replay, begins_empty: true, period: Duration::from_ms(500) };
        watch.with_monitor(monitor)
    }

    /// One run of a scenario: `variant` (default: the first) with `workload` (default: the first; all of them where they share the machine)
    /// and the scenario's first seed. Watched by the scenario's first monitor, or by the monitor of `config`.
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
        let replay = Replay::of_scenario(scenario, options, variant, workload)?;
        let first = replay.variant.scenario.monitors.first().cloned();
        let spec = match (first, config) {
            (Some(spec), None) => spec,
            (Some(spec), Some(config)) => spec.with_config(config),
            (None, Some(config)) => {
                let targets = workload.map(str::to_owned).into_iter().collect();
                MonitorSpec { targets, ..MonitorSpec::new("kdamond.0", config) }
            }
            (None, None) => {
                let message = "it has no monitor; add a `[[monitors]]` table or give a configuration".to_owned();
                return Err(ScenarioError::Meaning { place: options.place.clone(), message });
            }
        };
        Self { replay, begins_empty: false, period: Duration::from_secs(1) }.with_monitor(spec)
    }

    /// The same replay with the monitor of `config`.
    ///
    /// # Errors
    /// A bad value in `config`.
    pub fn with_config(&self, config: MonitorConfig) -> Result<Self, ScenarioError> {
        let spec = self.spec().clone().with_config(config);
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
        self.replay.variant.scenario.monitors = vec![spec];
        if self.replay.targets_of(self.spec()).is_empty() {
            let message = format!("none of its targets ({}) is in this run", self.spec().targets.join(", "));
            return Err(ScenarioError::Monitor { monitor: self.spec().name.clone(), message });
        }
        Ok(self)
    }

    fn spec(&self) -> &MonitorSpec {
        &self.replay.variant.scenario.monitors[0]
    }

    /// The configuration of the monitor.
    pub fn config(&self) -> &MonitorConfig {
        &self.spec().config
    }

    /// Metadata of a record of this run: for [`isotherm_trace::region::RegionWriter::create`] before [`watch`].
    pub fn record_meta(&self) -> RecordMeta {
        let targets = self.replay.targets_of(self.spec());
        let mut meta = meta_of(self.config(), &targets, "simulated machine");
        meta.notes.push(format!("monitored in a simulation of `{}`", self.replay.variant.name));
        meta
    }
}

/// Plays the replay and passes each snapshot to `sink` as soon as it is taken, targets in order, on the calling thread. After
/// [`ControlFlow::Break`] no more snapshots are passed; the replay runs to its end, so that the figures cover a whole run.
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

/// Plays the replay and judges the monitor against ground truth, page by page ([`MonitorReport::scores`]).
///
/// # Errors
/// The replay cannot be made, or broke.
pub fn accuracy(watch: &Watch) -> Result<Watched, ScenarioError> {
    play(watch, Watching::On { period: Some(watch.period), emit: None })
}

fn play(watch: &Watch, watching: Watching) -> Result<Watched, ScenarioError> {
    let (monitors, outcome) = watch.replay.play_watched(watching)?;
    let monitor = monitors.into_iter().next().expect("a watch has one monitor with a target");
    Ok(Watched { monitor, outcome })
}
