//! Memory tiers: which nodes are fast, in which order nodes help out, and where reclaim demotes to (docs/spec/promotion.md#s5-1).

use super::NodeId;
use isotherm_units::Pages;

/// Abstract distances of one tier: `adistance / CHUNK` is its number.
const CHUNK: u64 = 128;
/// Abstract distance of DRAM, and of every node with processors (`MEMTIER_ADISTANCE_DRAM`).
pub const DRAM_ADISTANCE: u64 = 4 * CHUNK + CHUNK / 2;
/// Abstract distance of memory about which nothing is known (`MEMTIER_DEFAULT_DAX_ADISTANCE`).
pub const UNKNOWN_ADISTANCE: u64 = 5 * DRAM_ADISTANCE;
/// Distance of a node to itself (`LOCAL_DISTANCE`).
pub const LOCAL_DISTANCE: u8 = 10;
/// Distance between nodes unless the machine says otherwise (`REMOTE_DISTANCE`).
pub const REMOTE_DISTANCE: u8 = 20;

/// Firmware data of a node: read plus write latency in ns, read plus write bandwidth in MB/s. Neither is 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Performance {
    /// ns, sum.
    pub latency_ns: u64,
    /// MB/s, sum.
    pub bandwidth_mb_per_s: u64,
}

/// The abstract distance of memory with this performance, relative to DRAM of that (`mt_perf_to_adistance`): integers, from left
/// to right.
pub const fn adistance(own: Performance, dram: Performance) -> u64 {
    DRAM_ADISTANCE * own.latency_ns / dram.latency_ns * dram.bandwidth_mb_per_s / own.bandwidth_mb_per_s
}

/// The tier of an abstract distance; lower is faster.
pub const fn tier_of(adistance: u64) -> u64 {
    adistance / CHUNK
}

/// A node, for [`Memory::assemble`](super::Memory::assemble).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeSetup {
    /// Sizes of its zones from low to high.
    pub zones: Vec<Pages>,
    /// Latency of an access in ns.
    pub latency_ns: u64,
    /// Bytes a second in 10^6; `None`: more than is ever used.
    pub bandwidth_mb_per_s: Option<u64>,
    /// Its latency grows with its load, so it is a latency class of its own.
    pub loaded: bool,
    /// It has processors.
    pub has_cpus: bool,
    /// Abstract distance of the node.
    pub adistance: u64,
}

impl NodeSetup {
    /// A node with processors.
    pub fn new(zones: Vec<Pages>, latency_ns: u64) -> Self {
        Self { zones, latency_ns, bandwidth_mb_per_s: None, loaded: false, has_cpus: true, adistance: DRAM_ADISTANCE }
    }
    /// One without.
    pub fn slow(zones: Vec<Pages>, latency_ns: u64) -> Self {
        Self { has_cpus: false, adistance: UNKNOWN_ADISTANCE, ..Self::new(zones, latency_ns) }
    }
}

/// Distances and tiers of a machine's nodes; all off by default.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TieringSetup {
    /// Distance from each node to each, [`LOCAL_DISTANCE`] to itself; empty: [`REMOTE_DISTANCE`] to all others.
    pub distances: Vec<Vec<u8>>,
    /// Reclaim moves pages to a lower tier rather than freeing them (`demotion_enabled`).
    pub demotion: bool,
    /// kswapd keeps free memory above the promo watermark, as in the tiering mode of NUMA balancing.
    pub promo_watermark: bool,
}

/// The tiers of a machine.
#[derive(Clone, Debug)]
pub struct Tiers {
    /// Reclaim moves pages to a lower tier rather than freeing them (`/sys/kernel/mm/numa/demotion_enabled`).
    pub demotion: bool,
    nodes: Vec<Standing>,
    /// Nodes with processors, ascending.
    cpu_nodes: Vec<NodeId>,
}

/// A node's place among the others.
#[derive(Clone, Debug)]
struct Standing {
    tier: u64,
    is_top: bool,
    /// The node itself first, then the others in fallback order.
    fallback: Vec<NodeId>,
    demotion: DemotionTargets,
    /// Demotions so far that had a choice.
    turn: usize,
}

/// Where a node demotes to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DemotionTargets {
    /// Nearest nodes of the next lower tier; empty at the last tier. One of these nodes is tried first.
    pub preferred: Vec<NodeId>,
    /// All nodes of all lower tiers, nearest first.
    pub allowed: Vec<NodeId>,
}

impl Tiers {
    /// The tiers of these nodes.
    pub fn new(nodes: &[NodeSetup], setup: &TieringSetup) -> Self {
        debug_assert!(
            setup.distances.is_empty() || setup.distances.len() == nodes.len(),
            "the table has a row for each node"
        );
        let ids = || (0..u8::try_from(nodes.len()).expect("few nodes")).map(NodeId);
        let distance = |from: NodeId, to: NodeId| match setup.distances.get(from.index()) {
            Some(row) => row[to.index()],
            None if from == to => LOCAL_DISTANCE,
            None => REMOTE_DISTANCE,
        };
        let tier = |node: NodeId| tier_of(nodes[node.index()].adistance);
        let slowest_with_cpus = ids().filter(|&node| nodes[node.index()].has_cpus).map(tier).max();
        let nearest_of = |from: NodeId, mut left: Vec<NodeId>| {
            // Later nodes before earlier ones and nodes without processors before others, at a step of distance each
            // (`find_next_best_node`).
            left.sort_by_key(|&to| {
                let penalty = u32::from(to < from) + u32::from(nodes[to.index()].has_cpus);
                (u32::from(distance(from, to)) + penalty, to)
            });
            left
        };
        let standing = |node: NodeId| {
            let below = |other: &NodeId| tier(*other) > tier(node);
            let next = ids().filter(below).map(tier).min();
            let candidates = nearest_of(node, ids().filter(|&other| Some(tier(other)) == next).collect());
            let nearest = candidates.first().map(|&first| distance(node, first));
            let is_as_near = |&&other: &&NodeId| Some(distance(node, other)) == nearest;
            let others = nearest_of(node, ids().filter(|&other| other != node).collect());
            Standing {
                tier: tier(node),
                is_top: slowest_with_cpus.is_none_or(|slowest| tier(node) <= slowest),
                fallback: std::iter::once(node).chain(others).collect(),
                demotion: DemotionTargets {
                    preferred: candidates.iter().take_while(is_as_near).copied().collect(),
                    allowed: nearest_of(node, ids().filter(below).collect()),
                },
                turn: 0,
            }
        };
        Self {
            demotion: setup.demotion,
            nodes: ids().map(standing).collect(),
            cpu_nodes: ids().filter(|&node| nodes[node.index()].has_cpus).collect(),
        }
    }

    /// The number of the node's tier, as in `memory_tierN`.
    pub fn tier(&self, node: NodeId) -> u64 {
        self.nodes[node.index()].tier
    }
    /// Whether its tier is as fast as the slowest that has processors, or faster.
    pub fn is_top(&self, node: NodeId) -> bool {
        self.nodes[node.index()].is_top
    }
    /// The node and all others, in the order in which they help out.
    pub fn fallback(&self, node: NodeId) -> &[NodeId] {
        &self.nodes[node.index()].fallback
    }
    /// Where the node demotes to.
    pub fn demotion_targets(&self, node: NodeId) -> &DemotionTargets {
        &self.nodes[node.index()].demotion
    }
    /// Whether reclaim of the node may demote.
    pub fn can_demote(&self, node: NodeId) -> bool {
        self.demotion && !self.nodes[node.index()].demotion.allowed.is_empty()
    }
    /// The node that a batch of pages of `node` goes to: the preferred ones take turns. (The kernel draws one by chance.)
    pub fn next_demotion_node(&mut self, node: NodeId) -> Option<NodeId> {
        let standing = &mut self.nodes[node.index()];
        let preferred = &standing.demotion.preferred;
        let chosen = preferred.get(standing.turn.checked_rem(preferred.len())?).copied();
        standing.turn += 1;
        chosen
    }
    /// The node of processor number `cpu` of `nr_cpus`: processors are dealt to their nodes in rows of equal length.
    pub fn node_of_cpu(&self, cpu: usize, nr_cpus: usize) -> NodeId {
        debug_assert!(cpu < nr_cpus.max(1), "processors are numbered from 0");
        self.cpu_nodes.get(cpu * self.cpu_nodes.len() / nr_cpus.max(1)).copied().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// docs/spec/promotion.md#s7, oracle 24.
    #[test]
    fn oracle_24_abstract_distances_and_tiers() {
        let of = |latency_ns, bandwidth_mb_per_s| Performance { latency_ns, bandwidth_mb_per_s };
        let dram = of(200, 400_000);
        let table = [
            (of(500, 50_000), 11_520, 90),
            (of(260, 360_000), 831, 6),
            (of(220, 400_000), 633, 4),
            (of(224, 400_000), 645, 5),
        ];
        for (own, distance, tier) in table {
            assert_eq!((adistance(own, dram), tier_of(adistance(own, dram))), (distance, tier), "{own:?}");
        }
        assert_eq!((UNKNOWN_ADISTANCE, tier_of(UNKNOWN_ADISTANCE), tier_of(DRAM_ADISTANCE)), (2880, 22, 4));
    }

    fn node(has_cpus: bool, adistance: u64) -> NodeSetup {
        NodeSetup { has_cpus, adistance, ..NodeSetup::new(vec![Pages::new(1024)], 100) }
    }
    fn ids(nodes: &[u8]) -> Vec<NodeId> {
        nodes.iter().map(|&node| NodeId(node)).collect()
    }

    /// Two sockets with a slow node each, and a yet slower one behind both.
    #[test]
    fn pages_go_down_to_the_nearest_node_of_the_next_tier() {
        let nodes = [node(true, 576), node(true, 576), node(false, 2880), node(false, 2880), node(false, 5760)];
        let rows: [[u8; 5]; 5] = [
            [10, 21, 20, 40, 60],
            [21, 10, 40, 20, 60],
            [20, 40, 10, 50, 60],
            [40, 20, 50, 10, 60],
            [60, 60, 60, 60, 10],
        ];
        let distances = rows.iter().map(|row| row.to_vec()).collect();
        let tiers = Tiers::new(&nodes, &TieringSetup { distances, demotion: true, ..TieringSetup::default() });
        let targets = |node: u8| {
            let targets = tiers.demotion_targets(NodeId(node));
            (targets.preferred.clone(), targets.allowed.clone())
        };
        assert_eq!(targets(0), (ids(&[2]), ids(&[2, 3, 4])));
        assert_eq!(targets(1), (ids(&[3]), ids(&[3, 2, 4])));
        assert_eq!(targets(2), (ids(&[4]), ids(&[4])));
        assert_eq!(targets(4), (ids(&[]), ids(&[])), "the last tier");
        assert_eq!(tiers.fallback(NodeId(0)), ids(&[0, 2, 1, 3, 4]));
        assert_eq!([0, 1, 2, 4].map(|node| tiers.is_top(NodeId(node))), [true, true, false, false]);
        assert_eq!([0, 2, 4].map(|node| tiers.tier(NodeId(node))), [4, 22, 45]);
        assert_eq!((tiers.can_demote(NodeId(2)), tiers.can_demote(NodeId(4))), (true, false));
        assert_eq!([0, 1, 2, 3].map(|cpu| tiers.node_of_cpu(cpu, 4)), [0, 0, 1, 1].map(NodeId));
    }

    #[test]
    fn equally_near_nodes_are_all_preferred_and_processors_are_avoided() {
        let nodes = [node(true, 576), node(false, 2880), node(false, 2880)];
        let tiers = Tiers::new(&nodes, &TieringSetup::default());
        assert_eq!(tiers.demotion_targets(NodeId(0)).preferred, ids(&[1, 2]));
        assert!(!tiers.can_demote(NodeId(0)), "off by default");
        let nodes = [node(true, 576), node(true, 576), node(false, 2880)];
        let tiers = Tiers::new(&nodes, &TieringSetup::default());
        assert_eq!(tiers.fallback(NodeId(1)), ids(&[1, 2, 0]));
        // A slow node with processors makes everything above it the top tier.
        let nodes = [node(true, 576), node(true, 2880)];
        let tiers = Tiers::new(&nodes, &TieringSetup::default());
        assert!(tiers.is_top(NodeId(0)) && tiers.is_top(NodeId(1)));
    }
}
