//! Report of a monitor: effects and cost.

use super::score::Scores;
use isotherm_core::monitor::{Activity, Event, Monitor, Tick};
use isotherm_core::schemes::SchemeReport;
use isotherm_sim::machine::MonitorOutcome;
use serde::Serialize;

/// Cycles a nanosecond of the processor that the cost table describes: 3 GHz (`docs/mechanism/machine.md#costs`).
pub const CYCLES_PER_NS: u64 = 3;

/// Effects and cost of one monitor in one run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct MonitorReport {
    pub name: String,
    /// Indices of the workloads it watched; `None` is physical memory.
    #[serde(skip)]
    pub workloads: Vec<Option<usize>>,
    /// Time from its first tick to the end of the run, nanoseconds.
    pub watched_ns: u64,
    pub snapshots: u64,
    /// Mean number of regions over all ticks: each costs a clear and a test.
    pub regions_mean: f64,
    /// Accessed bits that probes cleared and tested.
    pub checks: u64,
    /// Page-table words that walks down read and cleared.
    pub scanned_words: u64,
    /// CPU time of its kernel thread, nanoseconds.
    pub cpu_ns: u64,
    /// The same in cycles of the processor that the cost table describes, [`CYCLES_PER_NS`].
    pub cpu_cycles: u64,
    /// Times that its thread was woken.
    pub wakeups: u64,
    /// Times that cached translations were dropped.
    pub flushes: u64,
    /// The monitor's own statistics.
    #[serde(skip)]
    pub activity: Activity,
    /// Unusual events as text, each kind once with its number.
    pub events: Vec<(String, u64)>,
    /// Effects of its schemes and what limited them, in order, at the end.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub schemes: Vec<SchemeReport>,
    /// Accuracy, if asked for; never for physical memory, whose uses are not recorded.
    pub scores: Option<Scores>,
}

impl MonitorReport {
    /// `count` a second of the time it watched.
    pub fn per_second(&self, count: u64) -> f64 {
        if self.watched_ns == 0 { 0.0 } else { count as f64 * 1e9 / self.watched_ns as f64 }
    }

    /// Accessed bits cleared and tested a second, words of scanned tables included.
    pub fn checks_per_second(&self) -> f64 {
        self.per_second(self.checks + self.scanned_words)
    }
}

/// Counts ticks of a monitor while it runs.
#[derive(Clone, Debug, Default)]
pub(super) struct Tally {
    ticks: u64,
    regions: u64,
    activity: Activity,
    events: Vec<(String, u64)>,
}

impl Tally {
    pub(super) fn note(&mut self, monitor: &Monitor, tick: &Tick) {
        self.ticks += 1;
        self.regions += monitor.targets().filter_map(|id| monitor.regions(id)).map(|all| all.len() as u64).sum::<u64>();
        self.activity = *monitor.activity();
        for event in &tick.events {
            let text = describe(event);
            match self.events.iter_mut().find(|(known, _)| *known == text) {
                Some((_, count)) => *count += 1,
                None => self.events.push((text, 1)),
            }
        }
    }

    pub(super) fn into_report(
        self,
        workloads: Vec<Option<usize>>,
        cost: MonitorOutcome,
        ended_ns: u64,
        scores: Option<Scores>,
    ) -> MonitorReport {
        MonitorReport {
            workloads,
            watched_ns: cost.started_ns.map_or(0, |started_ns| ended_ns.saturating_sub(started_ns)),
            snapshots: self.activity.aggregations,
            regions_mean: self.regions as f64 / self.ticks.max(1) as f64,
            checks: cost.probes.checks(),
            scanned_words: self.activity.child_scan_words,
            cpu_ns: cost.cpu_ns,
            cpu_cycles: cost.cpu_ns * CYCLES_PER_NS,
            wakeups: cost.wakeups,
            flushes: cost.probes.flushes,
            activity: self.activity,
            events: self.events,
            schemes: cost.schemes,
            scores,
            name: cost.name,
        }
    }
}

/// Without numbers that differ between occurrences, so that equal events are counted.
fn describe(event: &Event) -> String {
    match event {
        Event::TargetGone(target) => format!("target {} has ended", target.0),
        Event::NoLayout { target, why } => format!("target {}: {why}", target.0),
        Event::FewPlaces { target, places } => format!(
            "target {}: mappings in {places} of the three separate places that `vaddr` needs; watched as they are, as `fvaddr` would",
            target.0
        ),
        Event::HostFailed { target, call, error } => format!("target {}: `{call}` failed: {error}", target.0),
        Event::Tuned { .. } => "intervals were tuned".to_owned(),
        Event::Committed => "a new configuration came into force".to_owned(),
        Event::Stopped => "no target is left".to_owned(),
        other => format!("{other:?}"),
    }
}
