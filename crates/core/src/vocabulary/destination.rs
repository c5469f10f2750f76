//! Where migrating schemes move memory to (docs/spec/schemes.md#s10).

use super::NodeId;
use serde::{Deserialize, Serialize};

/// A node and its share among several.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Destination {
    /// Number of the NUMA node.
    #[serde(alias = "id")]
    pub nid: u32,
    /// Weight of this node: its share is this divided by the sum of all weights.
    pub weight: u32,
}

/// The number that decides where a folio of a process goes: pages of its size before it in the mapped file (for anonymous memory, in its
/// counterpart of a file) and in the mapping. `page_offset` is the offset of the start of the mapping, in base pages; `offset` is the
/// distance of the address from that start, in base pages; a folio has `2^order` base pages.
pub fn interleave_index(page_offset: u64, offset: u64, order: u32) -> u64 {
    (page_offset >> order).wrapping_add(offset >> order)
}

/// The node for that number: nodes take turns by weight, without chance. `None` where all weights are 0.
pub fn choose(destinations: &[Destination], interleave_index: u64) -> Option<NodeId> {
    let sum: u64 = destinations.iter().map(|destination| u64::from(destination.weight)).sum();
    let mut turn = interleave_index.checked_rem(sum)?;
    for destination in destinations {
        match turn.checked_sub(u64::from(destination.weight)) {
            Some(rest) => turn = rest,
            None => return Some(NodeId(destination.nid)),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn destinations(weights: [u32; 2]) -> [Destination; 2] {
        [Destination { nid: 0, weight: weights[0] }, Destination { nid: 1, weight: weights[1] }]
    }

    /// docs/spec/schemes.md#s15, examples 41 and 42.
    #[test]
    fn nodes_take_turns_by_weight() {
        let turns: Vec<Option<NodeId>> =
            (0..6).map(|page| choose(&destinations([2, 1]), interleave_index(0, page, 0))).collect();
        assert_eq!(turns, [0, 0, 1, 0, 0, 1].map(|nid| Some(NodeId(nid))), "example 41");
        let index = interleave_index(512, 512, 9);
        assert_eq!((index, choose(&destinations([3, 5]), index)), (2, Some(NodeId(0))), "example 42");
        assert_eq!(choose(&destinations([0, 0]), 1), None);
        assert_eq!(choose(&[], 1), None);
    }
}
