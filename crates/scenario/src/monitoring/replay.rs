//! One run of a scenario with all its monitors.

use super::attach::{WatchedProcess, Watching, targets_in};
use super::report::MonitorReport;
use super::spec::MonitorSpec;
use crate::assemble::{self, Limits, Peaks};
use crate::run::{RunOptions, Unit, peaks_of};
use crate::variant::{Variant, ready_in_worlds};
use crate::{Scenario, ScenarioError};
use isotherm_kernel::reclaim::AddedPolicies;
use isotherm_sim::machine::Outcome;
use isotherm_units::Instant;
use isotherm_workload::BuildContext;

/// One variant, one workload (or all workloads if they share the machine), one seed.
#[derive(Clone, Debug)]
pub struct Replay {
    pub(super) variant: Variant,
    pub(super) unit: Unit,
    pub(super) context: BuildContext,
}

impl Replay {
    /// The run of `variant` (default: the first) with `workload` (default: the first; all of them where they share the
    /// machine) and the scenario's first seed.
    ///
    /// # Errors
    /// No such variant or workload; the message lists the existing ones.
    pub fn of_scenario(
        scenario: &Scenario,
        options: &RunOptions,
        variant: Option<&str>,
        workload: Option<&str>,
    ) -> Result<Self, ScenarioError> {
        let meaning = |message: String| ScenarioError::Meaning { place: options.place.clone(), message };
        let mut variants =
            ready_in_worlds(scenario, &options.place, &options.base_dir, &AddedPolicies::default())?.swap_remove(0);
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
        let context = BuildContext::new(options.base_dir.clone()).with_seed(variant.scenario.seed);
        Ok(Self { variant, unit, context })
    }

    /// Name of the variant that is replayed.
    pub fn variant(&self) -> &str {
        &self.variant.name
    }

    /// Name of the workload; `system` if several share the machine.
    pub fn workload(&self) -> &str {
        self.unit.name(&self.variant.scenario)
    }

    /// The monitors that have a target in this run, in the order of the scenario.
    pub fn monitors(&self) -> Vec<&MonitorSpec> {
        self.variant.scenario.monitors.iter().filter(|spec| !self.targets_of(spec).is_empty()).collect()
    }

    /// Whether `[[limits]]` size a group in this variant.
    pub fn has_limits(&self) -> bool {
        !self.variant.scenario.limits.is_empty()
    }

    /// Plays it. The reports are in the order of [`monitors`](Self::monitors).
    ///
    /// # Errors
    /// The replay cannot be made, or broke.
    pub fn play(&self) -> Result<(Vec<MonitorReport>, Outcome), ScenarioError> {
        self.play_watched(Watching::On { period: None, emit: None })
    }

    /// The targets of a monitor in their order, and the group of each: `sqlite` in `/sqlite`, `physical` in none.
    pub fn target_names(&self, spec: &MonitorSpec) -> Vec<(String, Option<String>)> {
        let workloads = &self.variant.scenario.workloads;
        let group = |target: &WatchedProcess| {
            let workload =
                workloads.iter().find(|entry| entry.name == target.name.split('/').next().unwrap_or_default())?;
            Some(format!("/{}", workload.cgroup.as_deref().unwrap_or(&workload.name).trim_start_matches('/')))
        };
        self.targets_of(spec).iter().map(|target| (target.name.clone(), group(target))).collect()
    }

    pub(super) fn targets_of(&self, spec: &MonitorSpec) -> Vec<WatchedProcess> {
        targets_in(&self.variant.scenario, &self.unit, spec)
    }

    pub(super) fn play_watched(&self, watching: Watching) -> Result<(Vec<MonitorReport>, Outcome), ScenarioError> {
        let Self { variant, unit, context } = self;
        let sim_error = |source| unit.failed(variant, source);
        let until = Instant::START + variant.scenario.until;
        let peaks = if assemble::needs_peaks(&variant.scenario) {
            let roomy = crate::run::without_limits(&variant.scenario);
            let assembled =
                assemble::machine(&roomy, unit, context, Limits::Off, Watching::Off, &AddedPolicies::default())?;
            peaks_of(&assembled.machine.run(until).map_err(sim_error)?)
        } else {
            Peaks::new()
        };
        let assembled =
            assemble::machine(variant, unit, context, Limits::Of(&peaks), watching, &AddedPolicies::default())?;
        let outcome = assembled.machine.run(until).map_err(sim_error)?;
        let monitors = assembled.observers.into_iter().map(|observer| observer.finish(&outcome)).collect();
        Ok((monitors, outcome))
    }
}
