//! NUMA nodes: their memory and CPUs, tiers, and targets of demotion.

use super::{Counters, meminfo, parsed};
use crate::{LiveError, Root};
use isotherm_core::host::NodeId;
use isotherm_texts::numbers;

const NODES: &str = "/sys/devices/system/node";
const TIERS: &str = "/sys/devices/virtual/memory_tiering";

/// An online node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    pub id: NodeId,
    /// `meminfo` of the node, in bytes. Empty for a node without memory that the kernel does not describe.
    pub memory: Counters,
    /// Numbers of its CPUs; empty for a node that only has memory.
    pub cpus: Vec<u32>,
    /// Distance to each online node, in their order; empty if not known. 10 is the distance to itself.
    pub distances: Vec<u32>,
}

/// Nodes of about the same speed.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Tier {
    /// The kernel's number: smaller is faster.
    pub rank: u32,
    pub nodes: Vec<NodeId>,
}

/// The online nodes, ascending. A kernel without NUMA has one node 0 with the memory of the whole system.
///
/// # Errors
/// [`LiveError::Io`], [`LiveError::Strange`].
pub fn read(root: &Root) -> Result<Vec<Node>, LiveError> {
    if !root.has(format!("{NODES}/online")) {
        let memory = meminfo::read(root)?;
        return Ok(vec![Node { id: NodeId(0), memory, cpus: Vec::new(), distances: Vec::new() }]);
    }
    let online = parsed(root, format!("{NODES}/online"), numbers::list)?;
    let node = |number: u32| {
        let folder = format!("{NODES}/node{number}");
        Ok(Node {
            id: NodeId(number),
            memory: optional(parsed(root, format!("{folder}/meminfo"), isotherm_texts::meminfo::parse))?
                .unwrap_or_default(),
            cpus: optional(parsed(root, format!("{folder}/cpulist"), numbers::list))?.unwrap_or_default(),
            distances: optional(parsed(root, format!("{folder}/distance"), numbers::row))?.unwrap_or_default(),
        })
    };
    online.into_iter().map(node).collect()
}

/// Memory tiers, fastest first; empty on kernels before 6.1.
///
/// # Errors
/// [`LiveError::Io`], [`LiveError::Strange`].
pub fn tiers(root: &Root) -> Result<Vec<Tier>, LiveError> {
    let mut tiers = Vec::new();
    let Ok(entries) = std::fs::read_dir(root.path(TIERS)) else { return Ok(tiers) };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let Some(rank) = name.to_str().and_then(|name| name.strip_prefix("memory_tier")?.parse().ok()) else {
            continue;
        };
        let list = format!("{TIERS}/memory_tier{rank}/nodelist");
        // Its name in 6.1.
        let list = if root.has(&list) { list } else { format!("{TIERS}/memory_tier{rank}/nodes") };
        let nodes = parsed(root, list, numbers::list)?.into_iter().map(NodeId).collect();
        tiers.push(Tier { rank, nodes });
    }
    tiers.sort_unstable();
    Ok(tiers)
}

/// Targets to which the kernel demotes pages of `from`: the nearest nodes of the next slower tier. Computed as the kernel does,
/// because no file has them. Empty for the slowest tier; all nodes of the next tier if distances are not known.
pub fn demotion_targets(nodes: &[Node], tiers: &[Tier], from: NodeId) -> Vec<NodeId> {
    let Some(at) = tiers.iter().position(|tier| tier.nodes.contains(&from)) else { return Vec::new() };
    let Some(next) = tiers.get(at + 1) else { return Vec::new() };
    let source = nodes.iter().find(|node| node.id == from);
    let distance = |to: NodeId| {
        let column = nodes.iter().position(|node| node.id == to)?;
        source?.distances.get(column).copied()
    };
    let nearest = next.nodes.iter().filter_map(|&to| distance(to)).min();
    next.nodes.iter().copied().filter(|&to| distance(to) == nearest || nearest.is_none()).collect()
}

/// `None` for a missing file.
fn optional<T>(read: Result<T, LiveError>) -> Result<Option<T>, LiveError> {
    match read {
        Ok(value) => Ok(Some(value)),
        Err(error) if error.is_missing() => Ok(None),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_go_to_the_nearest_node_of_the_next_tier() {
        let node = |number, distances: &[u32]| Node {
            id: NodeId(number),
            memory: Counters::default(),
            cpus: Vec::new(),
            distances: distances.to_vec(),
        };
        let nodes = [node(0, &[10, 20, 17, 28]), node(1, &[20, 10, 28, 17]), node(2, &[17, 28, 10, 28]), node(3, &[])];
        let tier = |rank, nodes: &[u32]| Tier { rank, nodes: nodes.iter().copied().map(NodeId).collect() };
        let tiers = [tier(4, &[0, 1]), tier(22, &[2, 3])];
        for (from, to) in [(0, vec![2]), (1, vec![3]), (2, vec![]), (9, vec![])] {
            let to: Vec<NodeId> = to.into_iter().map(NodeId).collect();
            assert_eq!(demotion_targets(&nodes, &tiers, NodeId(from)), to, "from {from}");
        }
    }
}
