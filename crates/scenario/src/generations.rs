//! Tools over generations in a scenario file, and how they are attached to its machines.

use crate::daemons::{DaemonSpec, Misplaced, Site};
use crate::metrics::need_ground_truth;
use crate::validate::did_you_mean;
use crate::{Scenario, ScenarioError};
use isotherm_core::daemon::Kind;
use isotherm_core::generations::{EstimatorConfig, ReclaimerConfig, TARGETS_ALL, ToolConfig, covers};
use isotherm_document::KeyPath;
use serde::{Deserialize, Serialize};

/// A `[[generations]]` table: a daemon of user space over the generations of the Multi-Gen LRU
/// (`docs/mechanism/mglru.md#generations-in-user-space`). Under another policy it finds nothing to read, reports that, and changes nothing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GenerationsSpec {
    /// Name of the daemon in results.
    pub name: String,
    /// Kind of the tool, estimator or reclaimer, with its settings.
    #[serde(flatten)]
    pub tool: ToolConfig,
}

impl GenerationsSpec {
    /// A daemon that estimates the working set by `config`.
    pub fn estimate(name: &str, config: EstimatorConfig) -> Self {
        Self { name: name.to_owned(), tool: ToolConfig::Estimate(config) }
    }

    /// A daemon that evicts old generations by `config`.
    pub fn reclaim(name: &str, config: ReclaimerConfig) -> Self {
        Self { name: name.to_owned(), tool: ToolConfig::Reclaim(config) }
    }
}

impl DaemonSpec for GenerationsSpec {
    const KIND: Kind = Kind::Generations;
    const SECTION: &'static str = "generations";
    const SEVERAL: &'static str = "tools";

    fn tables(scenario: &Scenario) -> &[Self] {
        &scenario.generations
    }

    fn name(&self) -> &str {
        &self.name
    }

    fn check(&self, earlier: &[Self], scenario: &Scenario) -> Result<(), Misplaced> {
        self.tool.validate().map_err(|error| (error.key.into(), error.to_string()))?;
        let mut groups: Vec<String> = vec![TARGETS_ALL.to_owned()];
        groups.extend(scenario.cgroups.iter().map(|group| group.path.clone()));
        groups.extend((0..scenario.workloads.len()).map(|index| crate::assemble::group_path(scenario, index)));
        let groups: Vec<&str> = groups.iter().map(String::as_str).collect();
        for (nth, target) in self.tool.targets().iter().enumerate() {
            let place = KeyPath::from("targets").at(nth);
            let shares =
                |other: &&Self| other.tool.targets().iter().any(|one| covers(one, target) || covers(target, one));
            if let Some(other) = earlier.iter().find(shares) {
                let message = format!(
                    "`{target}` has `{}` already: two tools on a group age it twice, and four generations reach back half \
                     as far; give each its own groups (`reclaim` tells the working set, too)",
                    other.name
                );
                return Err((place, message));
            }
            if !groups.iter().any(|group| covers(target, group)) {
                let hint = did_you_mean(target, &groups);
                return Err((place, format!("there is no group `{target}`; groups: {}{hint}", groups.join(", "))));
            }
        }
        Ok(())
    }

    /// Tools without any of their groups are left out. If a metric needs it, their estimates are reported together with the ground truth.
    fn attach(site: &mut Site<'_>) -> Result<(), ScenarioError> {
        if !site.has_limits {
            return Ok(());
        }
        let mut any = false;
        for spec in &site.scenario.generations {
            let is_there = |target: &&String| site.groups.iter().any(|path| covers(target, path));
            let targets: Vec<String> = spec.tool.targets().iter().filter(is_there).cloned().collect();
            if !targets.is_empty() {
                let tool = spec.tool.clone().with_targets(targets);
                site.builder.generations(&spec.name, tool).map_err(site.error)?;
                any = true;
            }
        }
        if any && need_ground_truth(&site.scenario.metrics) {
            site.builder.ground_truth();
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use isotherm_core::generations::Swappiness;
    use isotherm_units::Duration;

    #[test]
    fn tables_are_read_and_written() {
        let text =
            "name = \"proactive\"\nmode = \"reclaim\"\ntargets = [\"/app\"]\nthreshold = \"10s\"\nswappiness = 100\n";
        let spec: GenerationsSpec = toml::from_str(text).expect("as in the docs");
        let ToolConfig::Reclaim(config) = &spec.tool else { panic!("{spec:?}") };
        assert_eq!((config.threshold, config.interval()), (Duration::from_secs(10), Duration::from_secs(5)));
        assert_eq!((config.swappiness, spec.tool.targets()), (Swappiness::Of(100), &["/app".to_owned()][..]));
        let written = toml::to_string(&spec).expect("plain");
        assert_eq!(toml::from_str::<GenerationsSpec>(&written).expect("as written"), spec);
        let plain: GenerationsSpec = toml::from_str("name = \"wss\"\nmode = \"estimate\"").expect("defaults");
        assert_eq!(plain, GenerationsSpec::estimate("wss", EstimatorConfig::default()));
        for wrong in
            ["name = \"x\"", "name = \"x\"\nmode = \"guess\"", "name = \"x\"\nmode = \"estimate\"\nthreshold = \"1s\""]
        {
            assert!(toml::from_str::<GenerationsSpec>(wrong).is_err(), "{wrong}");
        }
    }
}
