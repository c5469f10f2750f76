//! From runs to rows: metrics computed, summed up over repeats, compared with another variant, averaged over workloads.

use crate::averages::{self, AverageOf, Values};
use crate::metrics::{METRICS, Metric, Sample, metric_named};
use crate::monitoring::{ExplainedMonitor, ExplainedRun, MonitorReport};
use crate::result::{KilledRow, RatioRow, ResultRow, ScenarioResult, Spread};
use crate::run::Unit;
use crate::stats::Summary;
use crate::variant::Variant;
use crate::{Reference, RunMode, Scenario, expectations};
use isotherm_kernel::counters::Counter;
use isotherm_kernel::memory::KernelRelease;
use isotherm_sim::machine::Outcome;
use std::collections::BTreeMap;

/// Result of one run.
pub(crate) struct Played {
    pub(crate) outcome: Outcome,
    pub(crate) monitors: Vec<MonitorReport>,
}

/// All runs of a scenario, by variant, unit (indices) and case: the seed, or the place of its world.
pub(crate) struct PlayedRuns<'a> {
    pub(crate) scenario: &'a Scenario,
    pub(crate) variants: &'a [Variant],
    pub(crate) units: &'a [Unit],
    pub(crate) played: BTreeMap<(usize, usize, u64), Played>,
}

/// A line of the result: a workload, or the whole system.
struct Subject<'a> {
    name: &'a str,
    unit: usize,
    who: Option<usize>,
}

impl PlayedRuns<'_> {
    /// Rows by workload, then variant, then metric, averages last; ratios in the same order.
    pub(crate) fn summarise(&self) -> ScenarioResult {
        let metrics: Vec<&Metric> = if self.scenario.metrics.is_empty() {
            METRICS.iter().collect()
        } else {
            self.scenario.metrics.iter().filter_map(|name| metric_named(name)).collect()
        };
        let subjects = self.subjects();
        let kernels = self.variants.iter().map(|variant| variant.scenario.machine.kernel).collect();
        let mut rows = Rows { scenario: self.scenario, kernels, rows: Vec::new(), ratios: Vec::new() };
        let mut of_workload: BTreeMap<(&str, usize, &str), Values> = BTreeMap::new();
        for subject in &subjects {
            for variant in 0..self.variants.len() {
                for metric in &metrics {
                    if let Some(values) = self.values(subject, variant, metric) {
                        of_workload.insert((subject.name, variant, metric.name), values);
                    }
                }
            }
            let own = |variant, metric| of_workload.get(&(subject.name, variant, metric)).cloned();
            self.each_row(&metrics, |key, variant, base| rows.push((subject.name, key), variant, base, &own));
        }
        for average in &self.scenario.averages {
            let all = || self.scenario.workloads.iter().map(|workload| workload.name.as_str());
            let workloads: Vec<&str> = match average.workloads.as_slice() {
                [] => all().collect(),
                named => named.iter().map(String::as_str).collect(),
            };
            let of_all = |variant: usize, metric: &'static str| -> Option<Vec<&Values>> {
                workloads.iter().map(|workload| of_workload.get(&(*workload, variant, metric))).collect()
            };
            match average.of {
                AverageOf::Values => {
                    let mean = |variant, metric| of_all(variant, metric).map(|all| averages::mean_values(&all));
                    self.each_row(&metrics, |key, variant, base| {
                        rows.push((&average.name, key), variant, base, &mean);
                    });
                }
                AverageOf::Ratios => self.each_row(&metrics, |key, variant, base| {
                    let Some((base, against)) = base else { return };
                    let (Some(values), Some(bases)) = (of_all(variant, key.1), of_all(base, key.1)) else { return };
                    let pairs: Vec<_> = values.into_iter().zip(bases).collect();
                    rows.push_ratio((&average.name, key), variant, against, averages::mean_of_ratios(&pairs));
                }),
            }
        }
        let Rows { rows, ratios, .. } = rows;
        let (scenario, schemes) = (self.scenario.name.clone(), self.explained());
        let killed = self.killed(&subjects);
        let result = ScenarioResult { scenario, rows, ratios, schemes, killed, expectations: Vec::new() };
        let expectations = expectations::judge(&self.scenario.expectations, &result);
        ScenarioResult { expectations, ..result }
    }

    /// Workloads with killed processes, by variant.
    fn killed(&self, subjects: &[Subject<'_>]) -> Vec<KilledRow> {
        let mut rows = Vec::new();
        for subject in subjects {
            for (index, variant) in self.variants.iter().enumerate() {
                let runs = self.played.range((index, subject.unit, 0)..=(index, subject.unit, u64::MAX));
                let kills = |played: &Played| self.sample(subject, played).cgroup.counters.get(Counter::OomKill);
                let (of, killed) =
                    runs.fold((0, 0), |(of, killed), (_, played)| (of + 1, killed + u64::from(kills(played) > 0)));
                if killed > 0 {
                    rows.push(KilledRow {
                        workload: subject.name.to_owned(),
                        variant: variant.name.clone(),
                        kernel: variant.scenario.machine.kernel,
                        runs: killed,
                        of,
                    });
                }
            }
        }
        rows
    }

    /// Results of schemes with the first seed of each unit and variant.
    fn explained(&self) -> Vec<ExplainedRun> {
        let mut runs = Vec::new();
        for (unit_index, unit) in self.units.iter().enumerate() {
            for (variant_index, Variant { name, scenario, .. }) in self.variants.iter().enumerate() {
                // The first world, or the first seed.
                let case = if self.scenario.worlds.is_empty() { scenario.seed } else { 0 };
                let Some(played) = self.played.get(&(variant_index, unit_index, case)) else { continue };
                let monitors = ExplainedMonitor::all(&scenario.monitors, &played.monitors);
                if !monitors.is_empty() {
                    let (workload, variant) = (unit.name(self.scenario).to_owned(), name.clone());
                    runs.push(ExplainedRun { workload, variant, seed: scenario.seed, monitors });
                }
            }
        }
        runs
    }

    /// Calls `push` for each variant and metric, with the number of the variant, and the number and name of the variant it is compared
    /// with: a variant may name another one than the scenario as a whole.
    fn each_row(&self, metrics: &[&Metric], mut push: impl FnMut((&str, &'static str), usize, Option<(usize, &str)>)) {
        for (index, variant) in self.variants.iter().enumerate() {
            let against = variant.scenario.against.as_deref();
            let base = against.and_then(|name| {
                self.variants.iter().position(|other| other.name == name).map(|position| (position, name))
            });
            for metric in metrics {
                push((&variant.name, metric.name), index, base);
            }
        }
    }

    /// Subjects with rows of their own: the workloads, and the system if they share it.
    fn subjects(&self) -> Vec<Subject<'_>> {
        let mut subjects = Vec::new();
        for (index, unit) in self.units.iter().enumerate() {
            let workload = |&workload: &usize| {
                let name = self.scenario.workloads[workload].name.as_str();
                Subject { name, unit: index, who: Some(workload) }
            };
            subjects.extend(unit.workloads.iter().map(workload));
            if unit.mode == RunMode::Together {
                subjects.push(Subject { name: "system", unit: index, who: None });
            }
        }
        subjects
    }

    /// The values that exist; `None` if a required one is missing.
    fn values(&self, subject: &Subject<'_>, variant: usize, metric: &Metric) -> Option<Values> {
        let runs = self.played.range((variant, subject.unit, 0)..=(variant, subject.unit, u64::MAX));
        let mut values = Values::new();
        for (&(_, _, seed), played) in runs {
            match (metric.take)(&self.sample(subject, played)) {
                Some(value) => _ = values.insert(seed, value),
                None if metric.is_partial => {}
                None => return None,
            }
        }
        Some(values)
    }

    fn sample<'o>(&self, subject: &Subject<'_>, played: &'o Played) -> Sample<'o> {
        let Played { outcome, monitors } = played;
        let (unit, who) = (&self.units[subject.unit], subject.who);
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
}

/// Rows as they come together. A key is a workload (or an average, or the system), a variant and a metric.
struct Rows<'a> {
    scenario: &'a Scenario,
    /// Kernels by variant.
    kernels: Vec<KernelRelease>,
    rows: Vec<ResultRow>,
    ratios: Vec<RatioRow>,
}

type Key<'k> = (&'k str, (&'k str, &'static str));

impl<'a> Rows<'a> {
    /// The row of a key, and its ratio to `base`, a variant's number and name. `values` belong to a variant and metric.
    fn push(
        &mut self,
        key: Key<'_>,
        variant: usize,
        base: Option<(usize, &str)>,
        values: &dyn Fn(usize, &'static str) -> Option<Values>,
    ) {
        let (workload, (variant_name, metric)) = key;
        let Some(own) = values(variant, metric) else { return };
        let key = (workload, variant_name, metric);
        if let Some(summary) = Summary::of(&own.values().copied().collect::<Vec<_>>()) {
            let row = ResultRow::new((key, self.kernels[variant]), summary, self.reference(key, None));
            self.rows.push(ResultRow { spread: self.spread(&summary), ..row });
        }
        if let Some((base, against)) = base
            && let Some(bases) = values(base, metric)
        {
            self.push_ratio((workload, (variant_name, metric)), variant, against, averages::ratios(&own, &bases));
        }
    }

    fn push_ratio(&mut self, key: Key<'_>, variant: usize, against: &str, summary: Option<Summary>) {
        let (workload, (variant_name, metric)) = key;
        let key = (workload, variant_name, metric);
        if let Some(summary) = summary {
            let reference = self.reference(key, Some(against));
            let row = RatioRow::new((key, self.kernels[variant]), against, summary, reference);
            self.ratios.push(RatioRow { spread: self.spread(&summary), ..row });
        }
    }

    /// Distribution of values, if repeats are worlds.
    fn spread(&self, summary: &Summary) -> Option<Spread> {
        (!self.scenario.worlds.is_empty()).then(|| Spread::of(summary))
    }

    fn reference(&self, key: (&str, &str, &str), against: Option<&str>) -> Option<&'a Reference> {
        self.scenario.references.iter().find(|reference| {
            (reference.workload.as_str(), reference.variant.as_str(), reference.metric.as_str()) == key
                && reference.against.as_deref() == against
        })
    }
}
