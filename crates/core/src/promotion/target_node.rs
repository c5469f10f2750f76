//! Node of the top tier to which the pages of a space go. Scans of accessed bits do not show which processor accessed; the node of the
//! space's other pages is the next best guess.

use crate::host::{NodeId, NodeMemory};
use crate::vocabulary::NodeTally;

/// How the node is chosen that a space's pages are promoted to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TargetRule {
    /// Always the node of the knob `target_node`.
    Fixed,
    /// The node of the top tier on which the last scan read most pages (patch version 1).
    MostScanned,
    /// That on which it found most accessed (the fourth).
    MostAccessed,
    /// The same, but nodes without room above their high watermark come last.
    MostAccessedWithRoom,
}

impl TargetRule {
    /// The node from the pages of a scan; `None` where it saw no page of the top tier: then the knob decides.
    pub(super) fn choose(self, seen: &[NodeTally]) -> Option<NodeId> {
        let weight = |tally: &NodeTally| match self {
            Self::Fixed => 0,
            Self::MostScanned => tally.scanned,
            Self::MostAccessed | Self::MostAccessedWithRoom => tally.accessed,
        };
        let top = seen.iter().filter(|tally| tally.is_top_tier && weight(tally) > 0);
        top.max_by_key(|tally| (weight(tally), std::cmp::Reverse(tally.node))).map(|tally| tally.node)
    }

    /// Whether the free memory of the nodes is to be asked before pages go to one.
    pub(super) fn asks_for_room(self) -> bool {
        self == Self::MostAccessedWithRoom
    }
}

/// The wished node if `pages` fit there above its high watermark, else the node of `others` with most room, else the wished one.
pub(super) fn with_room(
    wished: NodeId,
    others: &[NodeId],
    pages: u64,
    mut memory: impl FnMut(NodeId) -> Option<NodeMemory>,
) -> NodeId {
    let mut room = |node| memory(node).map_or(0, |memory| memory.free.saturating_sub(memory.high));
    if room(wished) > pages {
        return wished;
    }
    let best = others.iter().map(|&node| (room(node), std::cmp::Reverse(node))).max();
    best.filter(|(room, _)| *room > pages).map_or(wished, |(_, std::cmp::Reverse(node))| node)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tally(node: u32, is_top_tier: bool, scanned: u64, accessed: u64) -> NodeTally {
        NodeTally { node: NodeId(node), is_top_tier, scanned, accessed }
    }

    /// docs/spec/promotion.md#s2-1 and #s2-3.
    #[test]
    fn the_node_with_most_of_the_space_wins_and_the_lowest_among_equals() {
        let seen = [tally(0, true, 10, 9), tally(1, true, 30, 2), tally(2, true, 30, 9), tally(3, false, 99, 99)];
        let table = [
            (TargetRule::Fixed, None),
            (TargetRule::MostScanned, Some(NodeId(1))),
            (TargetRule::MostAccessed, Some(NodeId(0))),
            (TargetRule::MostAccessedWithRoom, Some(NodeId(0))),
        ];
        for (rule, node) in table {
            assert_eq!(rule.choose(&seen), node, "{rule:?}");
        }
        assert_eq!(TargetRule::MostScanned.choose(&[tally(0, true, 0, 0), tally(3, false, 5, 5)]), None);
    }

    #[test]
    fn a_node_without_room_is_passed_over_while_another_has_some() {
        let nodes = [NodeId(0), NodeId(1), NodeId(2)];
        let memory = |free: [u64; 3]| {
            move |NodeId(node)| {
                Some(NodeMemory { free: free[usize::try_from(node).unwrap()], high: 100, ..NodeMemory::default() })
            }
        };
        assert_eq!(with_room(NodeId(1), &nodes, 50, memory([900, 151, 900])), NodeId(1));
        assert_eq!(with_room(NodeId(1), &nodes, 50, memory([800, 150, 900])), NodeId(2), "above, not at");
        assert_eq!(with_room(NodeId(1), &nodes, 50, memory([900, 150, 900])), NodeId(0), "the lowest of equals");
        assert_eq!(with_room(NodeId(1), &nodes, 50, memory([150, 0, 10])), NodeId(1), "none has room");
    }
}
