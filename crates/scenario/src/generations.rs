//! Tools over generations in a scenario file, and how they get on its machines.

use crate::Scenario;
use isotherm_core::generations::{EstimatorConfig, ReclaimerConfig, ToolConfig, covers};
use isotherm_sim::machine::{MachineBuilder, SimError};
use serde::{Deserialize, Serialize};

/// A `[[generations]]` table: a daemon of user space over the generations of the Multi-Gen LRU (`docs/generations.md`). Under
/// another policy it finds nothing to read, says so, and changes nothing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GenerationsSpec {
    /// Name of the daemon in results.
    pub name: String,
    /// What it does, and how.
    #[serde(flatten)]
    pub tool: ToolConfig,
}

impl GenerationsSpec {
    /// Estimates as `config` says.
    pub fn estimate(name: &str, config: EstimatorConfig) -> Self {
        Self { name: name.to_owned(), tool: ToolConfig::Estimate(config) }
    }

    /// Evicts as `config` says.
    pub fn reclaim(name: &str, config: ReclaimerConfig) -> Self {
        Self { name: name.to_owned(), tool: ToolConfig::Reclaim(config) }
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
        let targets: Vec<String> = spec.tool.targets().iter().filter(is_there).cloned().collect();
        if !targets.is_empty() {
            builder.generations(&spec.name, spec.tool.clone().with_targets(targets))?;
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
