//! Checks of the machine, and of the nodes that workloads take memory of.

use super::{Checked, Refused};
use crate::Scenario;
use isotherm_document::KeyPath;

pub(super) fn machine(scenario: &Scenario) -> Checked {
    scenario
        .machine
        .validate()
        .map_err(|error| Refused::new(KeyPath::from("machine").join(&*error.field), format!("[machine] {error}")))
}

/// Workloads must take memory of existing nodes.
pub(super) fn nodes(scenario: &Scenario) -> Checked {
    let nodes = scenario.machine.nodes.len();
    for (index, workload) in scenario.workloads.iter().enumerate() {
        if let Some(node) = workload.node.filter(|node| *node >= nodes) {
            let name = &workload.name;
            let allowed = format!("0 to {}, the nodes of the machine", nodes - 1);
            let message = format!("workload `{name}`: `node` is {node}; allowed: {allowed}");
            return Refused::err(KeyPath::from("workloads").at(index).key("node"), message);
        }
    }
    Ok(())
}
