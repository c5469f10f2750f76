//! A scenario with the user's changes: other seeds, repeats, kernel releases and metrics than its own.

use isotherm_kernel::memory::KernelRelease;
use isotherm_scenario::{
    Extensions, METRICS, Progress, RunOptions, Scenario, ScenarioError, ScenarioResult, side_by_side, unknown_metric,
};

/// Options that override or add to the scenario; `None` each: not given.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Asked {
    /// Seed of the first repeat.
    pub seed: Option<u64>,
    pub repeats: Option<u32>,
    /// Names of [`METRICS`].
    pub metrics: Option<Vec<String>>,
    /// A single release, or several side by side.
    pub kernels: Option<Vec<KernelRelease>>,
}

impl Asked {
    /// The metrics of these names; `all` means every metric; an empty list means no choice.
    ///
    /// # Errors
    /// A message: there is no such metric.
    pub fn metrics_named(names: &[String]) -> Result<Option<Vec<String>>, String> {
        if names.iter().any(|name| name == "all") {
            return Ok(Some(METRICS.iter().map(|metric| metric.name.to_owned()).collect()));
        }
        let is_known = |name: &String| METRICS.iter().any(|metric| metric.name == *name);
        match names.iter().find(|name| !is_known(name)) {
            Some(unknown) => Err(unknown_metric(unknown)),
            None => Ok((!names.is_empty()).then(|| names.to_vec())),
        }
    }

    /// The option (seed or repeats) that conflicts with a scenario whose worlds are its repeats.
    pub fn against_worlds(&self, scenario: &Scenario) -> Option<&'static str> {
        let asked = [(self.repeats.is_some(), "repeats"), (self.seed.is_some(), "seed")];
        let asked = asked.into_iter().find(|(is_asked, _)| *is_asked).map(|(_, what)| what);
        asked.filter(|_| !scenario.worlds.is_empty())
    }

    /// Plays the scenario with the user's changes. The result also has rows of metrics that were not asked for, if the scenario names them.
    ///
    /// # Errors
    /// As [`isotherm_scenario::run`].
    pub fn play(
        &self,
        mut scenario: Scenario,
        options: &RunOptions,
        extensions: &Extensions,
        progress: &dyn Progress,
    ) -> Result<ScenarioResult, ScenarioError> {
        scenario.seed = self.seed.unwrap_or(scenario.seed);
        scenario.repeats = self.repeats.unwrap_or(scenario.repeats);
        if let Some(asked) = self.metrics.as_ref().filter(|_| !scenario.metrics.is_empty()) {
            let more = asked.iter().filter(|name| !scenario.metrics.contains(name)).cloned().collect::<Vec<_>>();
            scenario.metrics.extend(more);
        }
        let on = |scenario: &Scenario| isotherm_scenario::run_extended(scenario, options, extensions, progress);
        match self.kernels.as_deref() {
            None => on(&scenario),
            Some(&[release]) => on(&scenario.on_kernel(release)),
            Some(releases) => {
                let of = |&release| on(&scenario.clone().on_kernel(release)).map(|result| (release, result));
                releases.iter().map(of).collect::<Result<_, _>>().map(side_by_side)
            }
        }
    }

    /// Keeps only the rows of the requested metrics, if there were any.
    pub fn only_asked(&self, result: &mut ScenarioResult) {
        if let Some(asked) = &self.metrics {
            result.rows.retain(|row| asked.contains(&row.metric));
            result.ratios.retain(|row| asked.contains(&row.metric));
        }
    }
}
