//! What is monitored: the replay of a page trace, or a run of a scenario.

use std::path::{Path, PathBuf};

use isotherm_core::monitor::FlushPolicy;
use isotherm_kernel::mmu::{MmuConfig, TranslationConfig};
use isotherm_scenario::monitoring::{MonitorSpec, Watch};
use isotherm_scenario::{BUNDLED, RunOptions, Scenario, WorkloadEntry};
use isotherm_sim::machine::{MachineConfig, NodeConfig};
use isotherm_trace::{TraceError, TraceMeta, TraceReader};
use isotherm_units::{Bytes, Duration};
use isotherm_workload::{TraceSpec, WorkloadSpec};

use super::settings::SettingArgs;
use crate::error::CliError;
use crate::ui::Ui;
use crate::verbs::simulate;

/// Flattened into the arguments of verbs that monitor.
#[derive(Debug, clap::Args)]
pub(crate) struct SourceArgs {
    /// A page trace (see `isotherm record` and `isotherm convert import`), a scenario file or the name of a bundled scenario
    /// (`isotherm simulate --list`).
    #[arg(value_name = "TRACE|SCENARIO")]
    source: Option<String>,
    /// Traces: number of the process, from 0 [default: the one with most accesses].
    #[arg(long, value_name = "N")]
    process: Option<usize>,
    /// Traces: the machine has TLBs and paging-structure caches, which keep bits of upper levels clear. With --flush the caches are
    /// simulated in any case.
    #[arg(long)]
    translation_caches: bool,
    /// Scenarios: which variant [default: the first].
    #[arg(long, value_name = "NAME")]
    variant: Option<String>,
    /// Scenarios: which workload [default: the first].
    #[arg(long, value_name = "NAME")]
    workload: Option<String>,
    /// Seed of the monitor's and the workload's chance [default: the scenario's; 1].
    #[arg(long, value_name = "SEED")]
    seed: Option<u64>,
}

/// A replay with its monitor.
#[derive(Debug)]
pub(crate) struct Source {
    pub(crate) watch: Watch,
    /// Metadata of a trace.
    pub(crate) trace: Option<TraceMeta>,
    /// For titles.
    pub(crate) name: String,
    /// Number of the process watched.
    pub(crate) process: usize,
}

impl SourceArgs {
    /// Finds it, and puts the monitor on it.
    pub(crate) fn open(&self, args: &SettingArgs, ui: &Ui) -> Result<Source, CliError> {
        let Some(source) = &self.source else {
            return Err(CliError::usage(
                "nothing to watch: give a trace, a scenario, --pid, --cgroup, --physical, or a command after --",
            ));
        };
        if is_scenario(source) {
            self.of_scenario(source, args, ui)
        } else {
            self.of_trace(Path::new(source), args, ui)
        }
    }

    /// Refuses options of replays when a running process is watched.
    pub(super) fn refuse_given(&self, other: &str) -> Result<(), CliError> {
        let given = [
            (self.source.is_some(), "a trace or a scenario"),
            (self.process.is_some(), "--process"),
            (self.translation_caches, "--translation-caches"),
            (self.variant.is_some(), "--variant"),
            (self.workload.is_some(), "--workload"),
        ];
        match given.iter().find(|(is_given, _)| *is_given) {
            Some((_, what)) => {
                Err(CliError::usage(format!("{what} is for replays, and not for {other}: leave out one of them")))
            }
            None => Ok(()),
        }
    }

    /// The seed of the monitor's chance.
    pub(super) fn seed(&self) -> Option<u64> {
        self.seed
    }

    fn of_scenario(&self, source: &str, args: &SettingArgs, ui: &Ui) -> Result<Source, CliError> {
        let (mut scenario, base_dir) = simulate::find(source, ui)?;
        scenario.seed = self.seed.unwrap_or(scenario.seed);
        let mut config = None;
        if args.is_given() || scenario.monitors.is_empty() {
            let settings = args.settings(ui)?;
            if let Some(monitor) = scenario.monitors.first_mut() {
                monitor.ranges.clone_from(&settings.ranges);
            } else {
                let targets = self.workload.clone().into_iter().collect();
                let mut monitor = MonitorSpec::new("kdamond.0", settings.config.clone());
                (monitor.targets, monitor.ranges) = (targets, settings.ranges);
                scenario.monitors.push(monitor);
            }
            config = Some(settings.config);
        }
        let options = RunOptions { base_dir, place: source.to_owned(), threads: None };
        let (variant, workload) = (self.variant.as_deref(), self.workload.as_deref());
        let watch = Watch::scenario(&scenario, &options, variant, workload, config)?;
        Ok(Source { watch, trace: None, name: scenario.name, process: 0 })
    }

    fn of_trace(&self, path: &Path, args: &SettingArgs, ui: &Ui) -> Result<Source, CliError> {
        for (given, flag) in [(self.variant.is_some(), "--variant"), (self.workload.is_some(), "--workload")] {
            if given {
                return Err(CliError::usage(format!("{} is no scenario: {flag} is for scenarios", path.display())));
            }
        }
        let mut reader = TraceReader::open(path)?;
        let meta = reader.meta().clone();
        let count = meta.processes.len().max(1);
        let process = match self.process {
            Some(process) if process >= count => {
                return Err(CliError::usage(format!("--process is {process}; allowed: 0 to {}", count - 1)));
            }
            Some(process) => process,
            None => busiest(&mut reader, ui)?,
        };
        let mut settings = args.settings(ui)?;
        let attributes = &mut settings.config.attributes;
        if args.leaves_update_open() {
            attributes.ops_update_interval = attributes.ops_update_interval.min(attributes.aggr_interval);
        }
        if meta.epoch_ns > attributes.sample_interval.ns() {
            ui.say(format_args!(
                "note: the trace has a page once in {} of CPU time; checks each {} find it in few of them",
                Duration::from_ns(meta.epoch_ns),
                attributes.sample_interval
            ));
        }
        let name = path.file_stem().map_or_else(|| "trace".to_owned(), |stem| stem.to_string_lossy().into_owned());
        let with_caches = self.translation_caches || settings.config.flush != FlushPolicy::None;
        let scenario = replay_of(path, self.seed.unwrap_or(1), with_caches);
        let mut monitor = MonitorSpec::new("kdamond.0", settings.config);
        monitor.targets = vec![format!("{PROGRAM}/{process}")];
        monitor.ranges = settings.ranges;
        let scenario = Scenario { monitors: vec![monitor], ..scenario };
        let options = RunOptions { base_dir: PathBuf::from("."), place: path.display().to_string(), threads: None };
        let mut watch = Watch::scenario(&scenario, &options, None, None, None)?;
        // Recordings are short: periods of half a second give more samples.
        watch.period = Duration::from_ms(500);
        Ok(Source { watch, trace: Some(meta), name, process })
    }
}

/// Whether `source` is a scenario, by its name; all other sources are traces.
pub(crate) fn is_scenario(source: &str) -> bool {
    BUNDLED.iter().any(|bundled| bundled.name == source)
        || Path::new(source).extension().is_some_and(|extension| extension == "toml")
}

/// The process with most accesses; the first of equals.
fn busiest(reader: &mut TraceReader, ui: &Ui) -> Result<usize, CliError> {
    let meta = reader.meta().clone();
    if meta.processes.len() < 2 {
        return Ok(0);
    }
    let spinner = ui.spinner("reading the trace");
    let mut accesses = vec![0u64; meta.processes.len()];
    let read = reader.for_each_batch(|batch| {
        for row in batch.rows() {
            accesses[meta.process_of(row.thread)] += u64::from(row.pages);
        }
        Ok::<(), TraceError>(())
    });
    spinner.finish_and_clear();
    read?;
    let busiest = (0..accesses.len()).rev().max_by_key(|&process| accesses[process]).unwrap_or(0);
    let name = &meta.processes[busiest].name;
    ui.say(format_args!("note: of {} processes number {busiest} ({name}) is watched", meta.processes.len()));
    Ok(busiest)
}

/// The workload that a trace is.
const PROGRAM: &str = "program";

/// A trace alone on a machine with memory for everything: as [`Watch::trace`], with a seed, ranges and translation caches.
pub(crate) fn replay_of(path: &Path, seed: u64, with_caches: bool) -> Scenario {
    let nodes = vec![NodeConfig { memory: Bytes::from_gib(256), ..NodeConfig::default() }];
    let translation = with_caches.then(TranslationConfig::default);
    let mmu = MmuConfig { translation, ..MmuConfig::default() };
    Scenario {
        seed,
        // Nothing is ever reclaimed. Policies that see every access do not model TLBs.
        policy: if with_caches { "classic" } else { "fifo" }.to_owned(),
        until: Duration::from_secs(24 * 3600),
        machine: MachineConfig { nodes, mmu, ..MachineConfig::default() },
        workloads: vec![WorkloadEntry::new(PROGRAM, WorkloadSpec::Trace(TraceSpec::new(path)))],
        ..Scenario::named(PROGRAM)
    }
}
