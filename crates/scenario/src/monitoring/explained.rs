//! Results of the schemes of a run, in counts and as text: for `isotherm report explain` and in results.

use super::report::MonitorReport;
use super::spec::MonitorSpec;
use isotherm_core::schemes::{Scheme, SchemeReport, explain};
use serde::{Deserialize, Serialize};

/// One run: a variant with a workload, and one seed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExplainedRun {
    /// Workload; `system` where several share the machine.
    pub workload: String,
    pub variant: String,
    pub seed: u64,
    /// Monitors of the run that have schemes, in the order of the scenario.
    pub monitors: Vec<ExplainedMonitor>,
}

/// A monitor and its schemes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExplainedMonitor {
    pub name: String,
    /// Time from the first tick to the end of the run.
    pub watched_ns: u64,
    pub snapshots: u64,
    /// CPU time of its kernel thread, nanoseconds.
    pub cpu_ns: u64,
    /// Unusual events, in words, each kind once with the number of times.
    pub events: Vec<(String, u64)>,
    /// Schemes of the monitor, in the order of its configuration.
    pub schemes: Vec<ExplainedScheme>,
}

/// A scheme, its results, and these in words.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExplainedScheme {
    /// State and counts of the scheme at the end of the run.
    #[serde(flatten)]
    pub report: SchemeReport,
    /// Sentences; the reason that held it back most often comes first.
    pub words: Vec<String>,
}

impl ExplainedMonitor {
    /// The schemes of `spec`, with their reports.
    pub fn new(spec: &MonitorSpec, report: &MonitorReport) -> Self {
        let explained = |(scheme, report): (&Scheme, &SchemeReport)| ExplainedScheme {
            words: explain(scheme, report),
            report: report.clone(),
        };
        Self {
            name: report.name.clone(),
            watched_ns: report.watched_ns,
            snapshots: report.snapshots,
            cpu_ns: report.cpu_ns,
            events: report.events.clone(),
            schemes: spec.config.schemes.iter().zip(&report.schemes).map(explained).collect(),
        }
    }

    /// Monitors of `specs` that have schemes, by the names in `reports`.
    pub(crate) fn all(specs: &[MonitorSpec], reports: &[MonitorReport]) -> Vec<Self> {
        let spec_of = |report: &MonitorReport| specs.iter().find(|spec| spec.name == report.name);
        let explained = reports.iter().filter_map(|report| Some(Self::new(spec_of(report)?, report)));
        explained.filter(|monitor| !monitor.schemes.is_empty()).collect()
    }
}
