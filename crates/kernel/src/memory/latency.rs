//! How fast the memory under a frame is: nodes whose accesses cost the same form a class.
//!
//! Page tables keep a bit per page and slower class next to the present bit ([`PageTable`](crate::mmu::PageTable)), so that a
//! hit knows its cost without reading the frame. A machine whose nodes all cost the same has no classes and no such bits.

use super::FrameId;

/// Most classes of a machine: the fastest and three slower ones, a word of bits each. Four kinds of memory are more than
/// machines have; each further class would lengthen every hit on machines with tiers.
pub const CLASSES_MAX: usize = 4;

/// The classes of a machine with nodes of different latency.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LatencyClasses {
    /// First frame of each node and its class, ascending.
    nodes: Vec<(u32, u8)>,
    /// Latency of each class in ns without load, ascending.
    latencies_ns: Vec<u64>,
}

impl LatencyClasses {
    /// The classes of nodes given as `(first frame, latency in ns)`, ascending; `None` where all cost the same. Nodes with a true `is_own`
    /// share their class with no other node, even at equal latency: their latency changes with their load.
    ///
    /// # Panics
    /// More than [`CLASSES_MAX`] classes: configurations are checked before.
    pub fn new(nodes: &[(u32, u64)], is_own: impl Fn(usize) -> bool) -> Option<Self> {
        debug_assert!(nodes.windows(2).all(|pair| pair[0].0 <= pair[1].0), "nodes come in the order of their frames");
        let mut kinds: Vec<(u64, Option<usize>)> =
            nodes.iter().enumerate().map(|(index, &(_, ns))| (ns, is_own(index).then_some(index))).collect();
        let of_nodes = kinds.clone();
        kinds.sort_unstable();
        kinds.dedup();
        if kinds.len() < 2 && of_nodes.iter().all(|(_, own)| own.is_none()) {
            return None;
        }
        assert!(kinds.len() <= CLASSES_MAX, "{} kinds of memory; the machine's description was checked", kinds.len());
        let class = |kind| u8::try_from(kinds.iter().position(|other| other == kind).expect("from this list"));
        let classes = of_nodes.iter().map(|kind| class(kind).expect("few classes"));
        Some(Self {
            nodes: nodes.iter().map(|&(first, _)| first).zip(classes).collect(),
            latencies_ns: kinds.iter().map(|&(ns, _)| ns).collect(),
        })
    }

    /// How many there are: at least 1 and at most [`CLASSES_MAX`]; 1 only for a single node whose latency depends on its load.
    pub fn len(&self) -> usize {
        self.latencies_ns.len()
    }
    /// Never true.
    pub fn is_empty(&self) -> bool {
        self.latencies_ns.is_empty()
    }
    /// Latency without load of each class in ns, the fastest first.
    pub fn latencies_ns(&self) -> &[u64] {
        &self.latencies_ns
    }
    /// The class of the frame's node; 0 is the fastest.
    #[inline]
    pub fn of(&self, frame: FrameId) -> u8 {
        let after = self.nodes.partition_point(|&(first, _)| first <= frame.index_u32());
        debug_assert!(after > 0, "the first node owns the first frame");
        self.nodes[after - 1].1
    }
    /// The class of a node.
    pub fn of_node(&self, node: super::NodeId) -> u8 {
        self.nodes[node.index()].1
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::NodeId;

    #[test]
    fn nodes_of_equal_latency_are_one_class_and_the_fastest_comes_first() {
        assert_eq!(LatencyClasses::new(&[(0, 100), (64, 100)], |_| false), None);
        let classes = LatencyClasses::new(&[(0, 250), (64, 100), (128, 250), (192, 400)], |_| false).unwrap();
        assert_eq!((classes.len(), classes.latencies_ns()), (3, &[100, 250, 400][..]));
        let of = |frame| classes.of(FrameId::new(frame));
        assert_eq!([0, 63, 64, 127, 128, 192, 999].map(of), [1, 1, 0, 0, 1, 2, 2]);
        assert_eq!([0, 1, 2, 3].map(|node| classes.of_node(NodeId(node))), [1, 0, 1, 2]);
        let loaded = LatencyClasses::new(&[(0, 100), (64, 100)], |_| true).unwrap();
        assert_eq!((loaded.len(), loaded.of(FrameId::new(64))), (2, 1));
    }
}
