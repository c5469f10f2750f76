//! Attaches the monitors of a scenario to a machine, and collects their events.

use super::record::record_snapshots;
use super::report::{MonitorReport, Tally};
use super::score::{Scorer, Truth};
use super::spec::MonitorSpec;
use super::touched::{NotedStream, Noting, SharedTouched};
use crate::run::Unit;
use crate::{Scenario, ScenarioError};
use isotherm_core::host::{AddressRange, UnitRange};
use isotherm_core::monitor::{Monitor, Operations, Tick, context_seed};
use isotherm_sim::machine::{MachineBuilder, MonitorOutcome, MonitorTarget, Outcome, ProgramId, TickSink, Watched};
use isotherm_trace::region;
use isotherm_units::access::Program;
use isotherm_units::{Duration, PAGE_SHIFT, PageRange};
use isotherm_workload::BuildContext;
use std::collections::BTreeMap;
use std::sync::mpsc::SyncSender;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Use of a scenario's monitors.
#[derive(Clone, Debug)]
pub(crate) enum Watching {
    /// They are left out.
    Off,
    /// They run.
    On {
        /// Length of the periods in which they are judged; `None`: they are not.
        period: Option<Duration>,
        /// Receiver of each snapshot.
        emit: Option<SyncSender<region::Snapshot>>,
    },
}

/// A process that a monitor watches.
#[derive(Clone, Debug)]
pub(super) struct WatchedProcess {
    /// Name for people: `WORKLOAD`, `WORKLOAD/2`, `physical`.
    pub(super) name: String,
    workload: usize,
    process: usize,
    ranges: Vec<UnitRange>,
    truth: Option<Truth>,
}

/// The monitors of one run while its machine is put together.
pub(crate) struct WatchPlan<'a> {
    watching: Watching,
    monitors: Vec<(&'a MonitorSpec, Vec<WatchedProcess>)>,
    seed: u64,
    page_ns: u64,
}

impl<'a> WatchPlan<'a> {
    /// The monitors that have a target among the workloads of `unit`.
    pub(crate) fn new(scenario: &'a Scenario, unit: &Unit, seed: u64, watching: Watching) -> Self {
        let monitors = match &watching {
            Watching::Off => Vec::new(),
            Watching::On { .. } => {
                scenario.monitors.iter().map(|spec| (spec, targets_in(scenario, unit, spec))).collect()
            }
        };
        let monitors = monitors.into_iter().filter(|(_, targets): &(_, Vec<_>)| !targets.is_empty()).collect();
        let page_ns = scenario.machine.nodes.first().map_or(0, |node| node.latency.ns());
        Self { watching, monitors, seed, page_ns }
    }

    /// Prepares a program before it is put on the machine: notes its mappings, and from then on its accesses.
    ///
    /// # Errors
    /// A monitor names a process that it does not have.
    pub(crate) fn prepare(
        &mut self,
        scenario: &Scenario,
        workload: usize,
        program: &mut Program,
        context: &BuildContext,
    ) -> Result<(), ScenarioError> {
        let entry = &scenario.workloads[workload];
        for (spec, targets) in &mut self.monitors {
            for target in targets.iter_mut().filter(|target| target.workload == workload && !spec.is_physical()) {
                let Some(process) = program.processes.get(target.process) else {
                    let message = format!(
                        "it watches process {} of `{}`, which has {}; allowed: 0 to {}",
                        target.process,
                        entry.name,
                        program.processes.len(),
                        program.processes.len().saturating_sub(1)
                    );
                    return Err(ScenarioError::Monitor { monitor: spec.name.clone(), message });
                };
                let mut mapped: Vec<PageRange> = process.layout.iter().map(|mapping| mapping.pages).collect();
                mapped.sort_unstable();
                target.ranges = match (spec.ranges.as_slice(), spec.config.operations) {
                    ([], Operations::Fvaddr) => {
                        joined(&mapped).into_iter().map(|range| range.in_units(spec.config.addr_unit)).collect()
                    }
                    (given, _) => given.iter().map(|&range| range.into()).collect(),
                };
                let Watching::On { period: Some(period), .. } = self.watching else { continue };
                let touched = SharedTouched::new(Noting {
                    period_ns: period.ns(),
                    sample_ns: spec.config.attributes.sample_interval.ns(),
                    page_ns: program.timing.page_ns(self.page_ns),
                    mapped_pages: mapped.iter().map(|pages| pages.len()).sum(),
                });
                for thread in program.threads.iter_mut().filter(|thread| thread.process == target.process) {
                    let stream = std::mem::replace(&mut thread.stream, Box::new(Nothing));
                    thread.stream = Box::new(NotedStream { stream, touched: touched.clone() });
                }
                let stated = entry.load.hot_set(context).filter(|_| target.process == 0);
                target.truth = Some(Truth { touched, stated: stated.map(|pages| joined(&pages)) });
            }
        }
        Ok(())
    }

    /// Adds the monitors to the machine; `programs` are the numbers of the workloads on it.
    ///
    /// # Errors
    /// A configuration that the core refuses.
    pub(crate) fn attach(
        self,
        builder: &mut MachineBuilder,
        programs: &BTreeMap<usize, ProgramId>,
    ) -> Result<Vec<Observer>, ScenarioError> {
        let mut observers = Vec::new();
        let Watching::On { period, emit } = self.watching else { return Ok(observers) };
        for (index, (spec, targets)) in (0..).zip(self.monitors) {
            let ranges_of = |target: &WatchedProcess| match (spec.is_physical(), target.ranges.is_empty()) {
                (true, true) => vec![builder.physical_range(spec.config.addr_unit)],
                _ => target.ranges.clone(),
            };
            let watched = targets.iter().map(|target| Watched {
                target: match spec.is_physical() {
                    true => MonitorTarget::Physical,
                    false => MonitorTarget::Process(programs[&target.workload], target.process),
                },
                ranges: ranges_of(target),
            });
            let watched = watched.collect();
            let truths: Option<Vec<Truth>> = targets.iter().map(|target| target.truth.clone()).collect();
            let scorer = period.zip(truths).map(|(period, truths)| Scorer::new(period, truths));
            let heard = Arc::new(Mutex::new(Heard { tally: Tally::default(), scorer, emit: emit.clone() }));
            let ear = Arc::clone(&heard);
            let sink: TickSink = Box::new(move |monitor, tick| lock(&ear).note(monitor, tick));
            builder
                .kdamond(&spec.name, spec.config.clone(), context_seed(self.seed, index), watched, sink)
                .map_err(|error| ScenarioError::Monitor { monitor: spec.name.clone(), message: error.to_string() })?;
            let workloads = targets.iter().map(|target| (!spec.is_physical()).then_some(target.workload)).collect();
            observers.push(Observer { name: spec.name.clone(), workloads, heard });
        }
        Ok(observers)
    }
}

/// The targets of `spec` among the workloads of `unit`. Checked before: names are known, process numbers are numbers.
pub(super) fn targets_in(scenario: &Scenario, unit: &Unit, spec: &MonitorSpec) -> Vec<WatchedProcess> {
    let process =
        |name: String, workload, process| WatchedProcess { name, workload, process, ranges: Vec::new(), truth: None };
    if spec.is_physical() {
        let ranges = spec.ranges.iter().map(|&range| range.into()).collect();
        return vec![WatchedProcess { ranges, ..process("physical".to_owned(), 0, 0) }];
    }
    let name_of = |workload: usize| scenario.workloads[workload].name.as_str();
    match spec.named_targets().ok().flatten() {
        None => unit.workloads.iter().map(|&workload| process(name_of(workload).to_owned(), workload, 0)).collect(),
        Some(named) => (named.into_iter().zip(&spec.targets))
            .filter_map(|((name, number), written)| {
                let workload = *unit.workloads.iter().find(|&&workload| name_of(workload) == name)?;
                Some(process(written.clone(), workload, number))
            })
            .collect(),
    }
}

/// Sorted pages as byte ranges, neighbours joined.
fn joined(pages: &[PageRange]) -> Vec<AddressRange> {
    let mut ranges: Vec<AddressRange> = Vec::new();
    for pages in pages.iter().filter(|pages| !pages.is_empty()) {
        let (start, end) = (pages.start << PAGE_SHIFT, pages.end << PAGE_SHIFT);
        match ranges.last_mut().filter(|last| last.end >= start) {
            Some(last) => last.end = last.end.max(end),
            None => ranges.push(AddressRange::new(start, end)),
        }
    }
    ranges
}

/// Placeholder for a stream that is being wrapped.
struct Nothing;

impl isotherm_units::access::Stream for Nothing {
    fn next_batch(
        &mut self,
        _now: isotherm_units::Instant,
        _batch: &mut isotherm_units::access::Batch,
    ) -> Result<isotherm_units::access::After, isotherm_units::access::StreamError> {
        Ok(isotherm_units::access::After::Finish)
    }
}

/// Events of a monitor so far.
struct Heard {
    tally: Tally,
    scorer: Option<Scorer>,
    emit: Option<SyncSender<region::Snapshot>>,
}

impl Heard {
    fn note(&mut self, monitor: &Monitor, tick: &Tick) {
        self.tally.note(monitor, tick);
        if !tick.has_snapshot {
            return;
        }
        if let Some(scorer) = &mut self.scorer {
            scorer.add(monitor.snapshot());
        }
        let Some(emit) = &self.emit else { return };
        let mut snapshots = record_snapshots(monitor.snapshot(), monitor.config()).into_iter();
        if snapshots.any(|snapshot| emit.send(snapshot).is_err()) {
            // The receiver is gone.
            self.emit = None;
        }
    }
}

fn lock(heard: &Mutex<Heard>) -> MutexGuard<'_, Heard> {
    heard.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Observes a monitor from outside its machine.
pub(crate) struct Observer {
    name: String,
    /// `None`: all of memory.
    workloads: Vec<Option<usize>>,
    heard: Arc<Mutex<Heard>>,
}

impl Observer {
    /// The report of the monitor, after its run.
    pub(crate) fn finish(self, outcome: &Outcome) -> MonitorReport {
        let mut heard = lock(&self.heard);
        heard.emit = None;
        let scores = heard.scorer.take().map(Scorer::finish);
        let tally = std::mem::take(&mut heard.tally);
        let cost = outcome.monitors.iter().find(|monitor| monitor.name == self.name);
        let cost: MonitorOutcome = cost.cloned().expect("a monitor was added for each observer");
        tally.into_report(self.workloads, cost, outcome.ended_ns, scores)
    }
}
