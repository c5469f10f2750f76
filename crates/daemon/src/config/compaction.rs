//! `[[compaction]]`: compaction of a node ahead of demand (docs/mechanism/compaction.md#on-a-live-machine).

use super::check::{Contradiction, named, wrong};
use super::{Config, Engine};
use isotherm_core::compaction::{Budget, Design, Leeway};
use isotherm_core::host::NodeId;
use isotherm_units::Instant;
use serde::{Deserialize, Serialize};

/// A `[[compaction]]` table. Its keys are those of scenarios, together with `engine` and `enable`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct CompactionConfig {
    /// Name of the section in reports.
    pub name: String,
    /// Whether it may act. Default no: it decides, reports what it would do, and changes nothing.
    #[serde(default)]
    pub enable: bool,
    /// Who compacts. Default `auto`: kcompactd for `merged`, which is its own design, and isotherm for the others.
    #[serde(default)]
    pub engine: Engine,
    /// Number of the NUMA node that it compacts. Default 0. kcompactd's setting is one for all nodes, and takes none.
    #[serde(default)]
    pub node: u32,
    /// The design that decides when to compact and how far, with its keys, as in a scenario.
    #[serde(flatten)]
    pub design: Design,
}

impl CompactionConfig {
    /// Whether kcompactd does it, by `vm.compaction_proactiveness`.
    pub fn is_kernels(&self) -> bool {
        match self.engine {
            Engine::Kernel => true,
            Engine::Isotherm => false,
            Engine::Auto => matches!(self.design, Design::Merged(_)),
        }
    }

    fn check(&self, key: impl Fn(&str) -> String) -> Result<(), Contradiction> {
        self.design
            .start(NodeId(self.node), Instant::START)
            .map_err(|error| wrong(&key(&error.place), error.to_string()))?;
        let stall = |budget: &Budget| budget.stall.is_some();
        let (is_for_stalls, is_fixed) = match &self.design {
            Design::Merged(config) => (false, config.leeway != Leeway::default()),
            Design::Explicit(config) => (stall(&config.budget), false),
            Design::Controller(config) => (stall(&config.budget), false),
            Design::Rfc(_) => (false, false),
        };
        if is_for_stalls {
            let message = "no kernel tells how long tasks waited for pages on their way; allowed: pages, cpu, wall, fruitless-pages";
            return Err(wrong(&key("budget.stall"), message.to_owned()));
        }
        if !self.is_kernels() {
            return Ok(());
        }
        if !matches!(self.design, Design::Merged(_)) {
            let message = format!(
                "kcompactd has the design `merged` alone, and this is `{}`; leave `engine` out, or say engine = \"isotherm\"",
                self.design.name()
            );
            return Err(Contradiction { key: key("engine"), other: Some(key("design")), message });
        }
        if is_fixed {
            let message = "the distance of the marks is the kernel's own; leave it out".to_owned();
            return Err(wrong(&key("leeway"), message));
        }
        if self.node != 0 {
            let message =
                "vm.compaction_proactiveness is one for all nodes; leave it out, or say engine = \"isotherm\"";
            return Err(wrong(&key("node"), message.to_owned()));
        }
        Ok(())
    }
}

impl Config {
    pub(super) fn check_compaction(&self) -> Result<(), Contradiction> {
        let all = &self.compaction;
        for (nth, section) in all.iter().enumerate() {
            let key = |key: &str| format!("compaction[{nth}].{key}");
            let twin = all[..nth].iter().position(|other| other.name == section.name);
            named(&key("name"), &section.name, twin.map(|other| format!("compaction[{other}].name")))?;
            section.check(key)?;
            let is_same =
                |other: &CompactionConfig| other.node == section.node || other.is_kernels() || section.is_kernels();
            let Some(other) = all[..nth].iter().position(is_same) else { continue };
            let message = if all[other].is_kernels() && section.is_kernels() {
                "both set vm.compaction_proactiveness; leave one of them"
            } else if all[other].is_kernels() || section.is_kernels() {
                "kcompactd compacts every node, this one too, and two would undo each other's work; leave one of them"
            } else {
                "both compact the same node, and two would undo each other's work; leave one of them"
            };
            let other = Some(format!("compaction[{other}].name"));
            return Err(Contradiction { key: key("name"), other, message: message.to_owned() });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use isotherm_core::compaction::{ControllerConfig, ExplicitConfig, MergedConfig};
    use isotherm_units::Duration;

    fn section(name: &str, node: u32, design: Design) -> CompactionConfig {
        CompactionConfig { name: name.to_owned(), enable: true, engine: Engine::Auto, node, design }
    }

    fn refused(sections: Vec<CompactionConfig>) -> (String, Option<String>, String) {
        let config = Config { compaction: sections, ..Config::default() };
        let wrong = config.check().unwrap_err();
        (wrong.key, wrong.other, wrong.message)
    }

    #[test]
    fn what_makes_sense_is_fine() {
        let explicit = |name: &str, node| section(name, node, Design::Explicit(ExplicitConfig::default()));
        let config = |compaction| Config { compaction, ..Config::default() };
        assert_eq!(config(vec![explicit("a", 0), explicit("b", 1)]).check(), Ok(()));
        assert_eq!(config(vec![section("k", 0, Design::Merged(MergedConfig::default()))]).check(), Ok(()));
        assert_eq!((config(vec![explicit("a", 0)]).nr_sections(), config(vec![explicit("a", 0)]).nr_acting()), (1, 1));
        assert!(!config(vec![explicit("a", 0)]).observing().is_acting());
    }

    #[test]
    fn each_contradiction_names_its_key_and_the_other_side() {
        let explicit = |node| section("a", node, Design::Explicit(ExplicitConfig::default()));
        let merged = || section("k", 0, Design::Merged(MergedConfig::default()));
        let two = |first, second| {
            let (key, other, message) = refused(vec![first, second]);
            assert_eq!((&*key, other.as_deref()), ("compaction[1].name", Some("compaction[0].name")), "{message}");
            message
        };
        let second = || CompactionConfig { name: "b".to_owned(), ..explicit(0) };
        assert!(two(explicit(0), second()).contains("same node"));
        assert!(two(explicit(3), merged()).contains("kcompactd"));
        assert!(
            two(merged(), CompactionConfig { name: "l".to_owned(), ..merged() })
                .contains("vm.compaction_proactiveness")
        );
        assert!(two(explicit(0), explicit(1)).contains("twice"));
        let kernel = refused(vec![CompactionConfig { engine: Engine::Kernel, ..explicit(0) }]);
        assert_eq!((&*kernel.0, kernel.1.as_deref()), ("compaction[0].engine", Some("compaction[0].design")));
        assert_eq!(refused(vec![CompactionConfig { node: 1, ..merged() }]).0, "compaction[0].node");
        let leeway = MergedConfig { leeway: Leeway::Fixed, ..MergedConfig::default() };
        assert_eq!(refused(vec![section("k", 0, Design::Merged(leeway))]).0, "compaction[0].leeway");
        let budget = Budget { stall: Some(Duration::from_ms(1)), ..Budget::default() };
        let stall = Design::Controller(ControllerConfig { budget, ..ControllerConfig::default() });
        assert_eq!(refused(vec![section("c", 0, stall)]).0, "compaction[0].budget.stall");
        let high = Design::Explicit(ExplicitConfig { high: 101, ..ExplicitConfig::default() });
        assert_eq!(refused(vec![section("e", 0, high)]).0, "compaction[0].high");
    }
}
