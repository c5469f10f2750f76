//! Tools over generations in a scenario file, and how they get on its machines.

use crate::Scenario;
use isotherm_core::generations::{EstimatorConfig, GenerationsError, ReclaimerConfig, covers};
use isotherm_sim::machine::{GenerationsTool, MachineBuilder, SimError};
use serde::{Deserialize, Serialize};

/// A `[[generations]]` table: a daemon of user space over the generations of the Multi-Gen LRU (`docs/generations.md`). Under
/// another policy it finds nothing to read, says so, and changes nothing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GenerationsSpec {
    /// Name of the daemon in results.
    pub name: String,
    /// What it does, and how.
    #[serde(flatten)]
    pub tool: GenerationsMode,
}

/// What a daemon does: `mode` and the keys that go with it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "mode", rename_all = "kebab-case")]
pub enum GenerationsMode {
    /// Estimates the working set.
    Estimate(EstimatorConfig),
    /// Evicts what is old before it is missed.
    Reclaim(ReclaimerConfig),
}

impl GenerationsSpec {
    /// Estimates as `config` says.
    pub fn estimate(name: &str, config: EstimatorConfig) -> Self {
        Self { name: name.to_owned(), tool: GenerationsMode::Estimate(config) }
    }

    /// Evicts as `config` says.
    pub fn reclaim(name: &str, config: ReclaimerConfig) -> Self {
        Self { name: name.to_owned(), tool: GenerationsMode::Reclaim(config) }
    }

    /// The groups that it is for.
    pub fn targets(&self) -> &[String] {
        match &self.tool {
            GenerationsMode::Estimate(config) => &config.targets,
            GenerationsMode::Reclaim(config) => &config.targets,
        }
    }

    pub(crate) fn validate(&self) -> Result<(), GenerationsError> {
        match &self.tool {
            GenerationsMode::Estimate(config) => config.validate(),
            GenerationsMode::Reclaim(config) => config.validate(),
        }
    }

    /// For the groups that there are.
    fn tool(&self, targets: Vec<String>) -> GenerationsTool {
        match self.tool.clone() {
            GenerationsMode::Estimate(config) => GenerationsTool::Estimate(EstimatorConfig { targets, ..config }),
            GenerationsMode::Reclaim(config) => GenerationsTool::Reclaim(ReclaimerConfig { targets, ..config }),
        }
    }
}

/// Puts the daemons on a machine with groups at `paths`; those none of whose groups is there are left out. With
/// `with_witness`, what they estimate is told together with the truth.
pub(crate) fn attach(
    builder: &mut MachineBuilder,
    scenario: &Scenario,
    paths: &[&str],
    with_witness: bool,
) -> Result<(), SimError> {
    let mut any = false;
    for spec in &scenario.generations {
        let is_there = |target: &&String| paths.iter().any(|path| covers(target, path));
        let targets: Vec<String> = spec.targets().iter().filter(is_there).cloned().collect();
        if !targets.is_empty() {
            builder.generations(&spec.name, spec.tool(targets))?;
            any = true;
        }
    }
    if any && with_witness {
        builder.witness();
    }
    Ok(())
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
        let GenerationsMode::Reclaim(config) = &spec.tool else { panic!("{spec:?}") };
        assert_eq!((config.threshold, config.interval()), (Duration::from_secs(10), Duration::from_secs(5)));
        assert_eq!((config.swappiness, spec.targets()), (Swappiness::Of(100), &["/app".to_owned()][..]));
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
