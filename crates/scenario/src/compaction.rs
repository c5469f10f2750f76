//! Proactive compaction in a scenario file, and how it is attached to its machines.

use crate::daemons::{DaemonSpec, Misplaced, Site};
use crate::{Scenario, ScenarioError};
use isotherm_core::OutOfRange;
use isotherm_core::compaction::Design;
use isotherm_core::daemon::Kind;
use isotherm_document::KeyPath;
use isotherm_sim::machine::SimError;
use serde::{Deserialize, Serialize};

/// A `[[compaction]]` table: a daemon that compacts a node by a design (`docs/mechanism/compaction.md`). `design` and the keys that go with
/// it; unknown keys are refused.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CompactionSpec {
    /// Name of the daemon in results.
    pub name: String,
    /// Number of the NUMA node that it compacts. Default 0.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub node: u32,
    /// The design that decides when to compact and how far, with its keys.
    #[serde(flatten)]
    pub design: Design,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature that serde asks for")]
const fn is_zero(node: &u32) -> bool {
    *node == 0
}

impl CompactionSpec {
    /// A daemon of this design on node 0.
    pub fn new(name: &str, design: Design) -> Self {
        Self { name: name.to_owned(), node: 0, design }
    }
}

impl DaemonSpec for CompactionSpec {
    const KIND: Kind = Kind::Compaction;
    const SECTION: &'static str = "compaction";
    const SEVERAL: &'static str = "daemons";

    fn tables(scenario: &Scenario) -> &[Self] {
        &scenario.compaction
    }

    fn name(&self) -> &str {
        &self.name
    }

    fn check(&self, earlier: &[Self], scenario: &Scenario) -> Result<(), Misplaced> {
        if let Some(other) = earlier.iter().find(|other| other.node == self.node) {
            let (node, other) = (self.node, &other.name);
            return Err((
                "node".into(),
                format!("node {node} has `{other}` already; two would undo each other's work"),
            ));
        }
        // Errors of the machine itself are reported with their own place.
        if scenario.machine.validate().is_err() {
            return Ok(());
        }
        scenario.machine.check_compaction(&self.name, &self.design, self.node).map_err(|refused| match refused {
            SimError::Daemon { source, .. } => {
                let place = match source.downcast_ref() {
                    Some(OutOfRange { place, .. }) => place.as_str().into(),
                    None => KeyPath::root(),
                };
                (place, source.to_string())
            }
            other => (KeyPath::root(), other.to_string()),
        })
    }

    fn attach(site: &mut Site<'_>) -> Result<(), ScenarioError> {
        if !site.has_limits {
            return Ok(());
        }
        let attach = |spec: &Self| site.builder.compaction(&spec.name, &spec.design, spec.node);
        site.scenario.compaction.iter().try_for_each(attach).map_err(site.error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use isotherm_core::compaction::DESIGNS;

    #[test]
    fn tables_are_read_and_written() {
        let text = "name = \"kcompactd\"\ndesign = \"merged\"\nproactiveness = 60\n";
        let spec: CompactionSpec = toml::from_str(text).expect("as in the docs");
        assert_eq!((spec.node, spec.design.name()), (0, "merged"));
        for entry in DESIGNS {
            let spec = CompactionSpec { node: 3, ..CompactionSpec::new(entry.name, (entry.make)()) };
            let written = toml::to_string(&spec).expect("plain");
            assert_eq!(toml::from_str::<CompactionSpec>(&written).expect("as written"), spec);
        }
        for wrong in [
            "name = \"x\"",
            "name = \"x\"\ndesign = \"guess\"",
            "name = \"x\"\ndesign = \"merged\"\nhigh = 3",
            "name = \"x\"\ndesign = \"merged\"\nproactiveness = 101",
        ] {
            assert!(toml::from_str::<CompactionSpec>(wrong).is_err(), "{wrong}");
        }
    }

    /// Bad input is refused when the file is read: the message has the place, the error and the allowed values.
    #[test]
    fn what_makes_no_sense_is_refused_with_its_place() {
        let refused = |compaction: &str| {
            let text = format!(
                "name = \"x\"\n[machine]\nnodes = [{{ memory = \"64MiB\" }}]\n[[workloads]]\nname = \"w\"\n\
                 load = {{ kind = \"idle\" }}\n[[compaction]]\nname = \"d\"\n{compaction}"
            );
            crate::parse(&text, "t").map(|_| ()).map_err(|error| error.to_string())
        };
        let table = [
            (
                "design = \"explicit\"\norder = 11",
                "t:10:1: compaction `d`: `order` is 11; allowed: 1 to 10, the largest here",
            ),
            (
                "design = \"explicit\"\norder = 0",
                "t:10:1: compaction `d`: `order` is 0; allowed: 1 to the largest of the zone",
            ),
            (
                "design = \"explicit\"\nhigh = 20\nlow = 21",
                "t:11:1: compaction `d`: `low` is 21; allowed: 0 to `high` (20)",
            ),
            (
                "design = \"explicit\"\nzone = 1",
                "t:10:1: compaction `d`: `zone` is 1; allowed: 0, the only one of the node",
            ),
            ("design = \"merged\"\nnode = 1", "t:10:1: compaction `d`: `node` is 1; allowed: 0, the only one"),
            (
                "design = \"controller\"\nkeep = 33",
                "t:10:1: compaction `d`: `keep` is 33; allowed: up to 32, all memory of the node",
            ),
            (
                "design = \"controller\"\ninterval = \"0s\"",
                "t:10:1: compaction `d`: `interval` is 0ns; allowed: 1ms and more",
            ),
            ("design = \"heat\"", "unknown variant `heat`, expected one of `rfc`, `explicit`, `merged`, `controller`"),
            (
                "design = \"rfc\"\norders = { \"0\" = { low = 1, high = 2 } }",
                "t:10:1: compaction `d`: `orders` is \"0\"; allowed",
            ),
            ("design = \"controller\"\n[[compaction]]\nname = \"d\"\ndesign = \"rfc\"", "two daemons have this name"),
            ("design = \"controller\"\n[[compaction]]\nname = \"e\"\ndesign = \"rfc\"", "node 0 has `d` already"),
            ("design = \"controller\"\nkep = 3", "unknown field `kep`"),
        ];
        for (compaction, expected) in table {
            let said = refused(compaction).expect_err(compaction);
            assert!(said.contains(expected), "{compaction}\n{said}");
        }
        assert_eq!(refused("design = \"controller\"\nkeep = 32\nbudget = { pages = 0 }"), Ok(()), "it will say so");
    }
}
