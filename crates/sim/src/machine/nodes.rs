//! The nodes of a machine as written in a scenario: kinds of memory, who has processors, distances, tiering.

use super::config::{ConfigError, NODE_MAX, NODE_MIN};
use isotherm_kernel::costs::Costs;
use isotherm_kernel::memory::{
    CLASSES_MAX, DRAM_ADISTANCE, LOCAL_DISTANCE, NodeSetup, Performance, TieringSetup, UNKNOWN_ADISTANCE, adistance,
};
use isotherm_units::{Bytes, Duration};
use serde::{Deserialize, Serialize};

/// A kind of memory: presets of latency, bandwidth and processors, with their sources in the table of costs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MemoryKind {
    /// Attached to the processors: 100 ns, 200 GB/s.
    Dram,
    /// A device behind CXL, as fast as the published runs of abench make it: 175 ns, 25 GB/s. No processors, as all of CXL.
    CxlNear,
    /// 250 ns, 25 GB/s.
    Cxl,
    /// The slow end of real devices: 400 ns, 25 GB/s.
    CxlFar,
}

impl MemoryKind {
    /// All kinds, fastest first.
    pub const ALL: [Self; 4] = [Self::Dram, Self::CxlNear, Self::Cxl, Self::CxlFar];

    /// The name in scenarios.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Dram => "dram",
            Self::CxlNear => "cxl-near",
            Self::Cxl => "cxl",
            Self::CxlFar => "cxl-far",
        }
    }

    /// Latency without load.
    pub fn latency(self) -> Duration {
        let costs = Costs::default();
        Duration::from_ns(match self {
            Self::Dram => costs.dram_latency_ns(),
            Self::CxlNear => costs.cxl_near_latency_ns(),
            Self::Cxl => costs.cxl_latency_ns(),
            Self::CxlFar => costs.cxl_far_latency_ns(),
        })
    }

    /// Bytes a second.
    pub fn bandwidth(self) -> Bytes {
        let costs = Costs::default();
        let mb = if self == Self::Dram { costs.dram_bandwidth_mb_per_s() } else { costs.cxl_bandwidth_mb_per_s() };
        Bytes::new(mb * 1_000_000)
    }
}

/// One NUMA node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "RawNode")]
pub struct NodeConfig {
    /// Memory of the node, 4 MiB to 4 TiB.
    pub memory: Bytes,
    /// Kind of the memory, which gives the other keys their defaults.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kind: Option<MemoryKind>,
    /// Time of an access that misses the CPU caches. Default: the latency of the kind; 80 ns without a kind.
    pub latency: Duration,
    /// Bytes a second that it moves, `"25GB"`. Default: the bandwidth of the kind; without a kind, unlimited.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bandwidth: Option<Bytes>,
    /// Whether it has processors; a node without processors is slow memory. Default: only CXL has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpus: Option<bool>,
}

#[derive(Deserialize)]
#[serde(default, rename_all = "kebab-case", deny_unknown_fields)]
struct RawNode {
    memory: Bytes,
    kind: Option<MemoryKind>,
    latency: Option<Duration>,
    bandwidth: Option<Bytes>,
    cpus: Option<bool>,
}

impl Default for RawNode {
    fn default() -> Self {
        Self { memory: Bytes::from_gib(16), kind: None, latency: None, bandwidth: None, cpus: None }
    }
}

impl From<RawNode> for NodeConfig {
    fn from(raw: RawNode) -> Self {
        let latency = raw.latency.or_else(|| raw.kind.map(MemoryKind::latency));
        let RawNode { memory, kind, bandwidth, cpus, .. } = raw;
        Self { memory, kind, latency: latency.unwrap_or(Duration::from_ns(80)), bandwidth, cpus }
    }
}

impl Default for NodeConfig {
    fn default() -> Self {
        RawNode::default().into()
    }
}

impl NodeConfig {
    /// A node of this kind.
    pub fn of_kind(kind: MemoryKind, memory: Bytes) -> Self {
        RawNode { memory, kind: Some(kind), ..RawNode::default() }.into()
    }
    /// Whether the node has processors.
    pub fn has_cpus(&self) -> bool {
        self.cpus.unwrap_or(matches!(self.kind, None | Some(MemoryKind::Dram)))
    }
    /// Bytes a second, if the bandwidth is limited.
    pub fn bandwidth_per_s(&self) -> Option<Bytes> {
        self.bandwidth.or_else(|| self.kind.map(MemoryKind::bandwidth))
    }
}

/// How pages go between tiers: `[machine.tiering]`. All off by default, as in the kernel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "kebab-case", deny_unknown_fields)]
pub struct TieringConfig {
    /// Reclaim moves pages to the next lower tier rather than freeing them (`demotion_enabled`). Default no.
    pub demotion: bool,
    /// kswapd keeps free memory above the promo watermark, so that promotions find room: the tiering mode of NUMA balancing does this.
    /// Default no.
    pub promo_watermark: bool,
    /// Latency grows with the share `u` of a node's bandwidth in use: latency / (1 - min(u, 95 %)). Default no.
    pub loaded_latency: bool,
}

impl TieringConfig {
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// Setups of the nodes' memory; the configuration must be valid.
pub(super) fn node_setups(nodes: &[NodeConfig], tiering: TieringConfig) -> Vec<NodeSetup> {
    let dram = nodes.iter().find(|node| node.has_cpus());
    let setup = |node: &NodeConfig| NodeSetup {
        zones: vec![node.memory.pages_floor()],
        latency_ns: node.latency.ns(),
        bandwidth_mb_per_s: node.bandwidth_per_s().map(|bytes| bytes.get() / 1_000_000),
        loaded: tiering.loaded_latency && node.bandwidth_per_s().is_some(),
        has_cpus: node.has_cpus(),
        adistance: match dram {
            _ if node.has_cpus() => DRAM_ADISTANCE,
            Some(dram) => adistance_versus(node, dram),
            None => UNKNOWN_ADISTANCE,
        },
    };
    nodes.iter().map(setup).collect()
}

/// The abstract distance of a node without processors. Bandwidth counts where both are known.
fn adistance_versus(node: &NodeConfig, dram: &NodeConfig) -> u64 {
    let bandwidths = node.bandwidth_per_s().zip(dram.bandwidth_per_s());
    let (own, other) = bandwidths.map_or((1, 1), |(own, other)| (own.get() / 1_000_000, other.get() / 1_000_000));
    // Reads and writes alike: both sums have the factor two, which cancels except in what is cut off.
    let performance =
        |latency: Duration, mb: u64| Performance { latency_ns: 2 * latency.ns(), bandwidth_mb_per_s: 2 * mb };
    let distance = adistance(performance(node.latency, own), performance(dram.latency, other));
    // At the same latency it would count as fast; but the kernel's drivers add a node without processors as slow.
    distance.max(DRAM_ADISTANCE)
}

pub(super) fn tiering_setup(distances: &[Vec<u8>], tiering: TieringConfig) -> TieringSetup {
    let TieringConfig { demotion, promo_watermark, loaded_latency: _ } = tiering;
    TieringSetup { distances: distances.to_vec(), demotion, promo_watermark }
}

pub(super) fn check(nodes: &[NodeConfig], distances: &[Vec<u8>], tiering: TieringConfig) -> Result<(), ConfigError> {
    let check = |ok: bool, field: String, got: String, allowed: &'static str| {
        if ok { Ok(()) } else { Err(ConfigError::new(&field, got, allowed)) }
    };
    check((1..=16).contains(&nodes.len()), "nodes".to_owned(), format!("{} nodes", nodes.len()), "1 to 16 nodes")?;
    for (index, node) in nodes.iter().enumerate() {
        let field = |name: &str| format!("nodes[{index}].{name}");
        let size_ok = (NODE_MIN..=NODE_MAX).contains(&node.memory);
        check(size_ok, field("memory"), node.memory.to_string(), "4MiB to 4TiB")?;
        let latency_ok = (1..=100_000).contains(&node.latency.ns());
        check(latency_ok, field("latency"), node.latency.to_string(), "1ns to 100us")?;
        if let Some(bandwidth) = node.bandwidth {
            let ok = (1_000_000..=100_000_000_000_000).contains(&bandwidth.get());
            check(ok, field("bandwidth"), bandwidth.to_string(), "1MB to 100TB, in a second")?;
        }
    }
    let with_cpus = || nodes.iter().filter(|node| node.has_cpus());
    let fast = with_cpus().map(|node| node.latency).max();
    let allowed =
        "at least one node with processors, which is the fast memory: `cpus = true`, or a `kind` other than CXL";
    check(fast.is_some(), "nodes".to_owned(), "without a fast node".to_owned(), allowed)?;
    for (index, node) in nodes.iter().enumerate().filter(|(_, node)| !node.has_cpus()) {
        let ok = fast.is_none_or(|fast| node.latency >= fast);
        let field = format!("nodes[{index}].latency");
        check(
            ok,
            field,
            node.latency.to_string(),
            "the latency of the nodes with processors, or more, for one without",
        )?;
    }
    check_distances(nodes.len(), distances)?;
    let is_several = nodes.len() > 1;
    let has_slow = nodes.iter().any(|node| !node.has_cpus());
    let allowed = "false unless some node has no processors: without a slow node there is nowhere to demote to";
    check(!tiering.demotion || has_slow, "tiering.demotion".to_owned(), "true".to_owned(), allowed)?;
    let mut kinds: Vec<Duration> = nodes.iter().map(|node| node.latency).collect();
    kinds.sort_unstable();
    kinds.dedup();
    let nr_kinds = if tiering.loaded_latency { nodes.len() } else { kinds.len() };
    let got =
        if tiering.loaded_latency { format!("{nr_kinds} nodes") } else { format!("{nr_kinds} different latencies") };
    let allowed = "at most 4 different latencies, and at most 4 nodes with `tiering.loaded-latency`";
    check(nr_kinds <= CLASSES_MAX || !is_several, "nodes".to_owned(), got, allowed)?;
    let limited = nodes.iter().any(|node| node.bandwidth_per_s().is_some());
    let allowed = "false unless some node has a `bandwidth` or a `kind`";
    check(!tiering.loaded_latency || limited, "tiering.loaded-latency".to_owned(), "true".to_owned(), allowed)
}

fn check_distances(nr_nodes: usize, distances: &[Vec<u8>]) -> Result<(), ConfigError> {
    let error = |field: String, got: String, allowed| Err(ConfigError::new(&field, got, allowed));
    if distances.is_empty() {
        return Ok(());
    }
    if distances.len() != nr_nodes || distances.iter().any(|row| row.len() != nr_nodes) {
        let got = format!("{} rows for {nr_nodes} nodes", distances.len());
        return error("distances".to_owned(), got, "a row for each node with a number for each node");
    }
    for (from, row) in distances.iter().enumerate() {
        for (to, &distance) in row.iter().enumerate() {
            let field = format!("distances[{from}][{to}]");
            if from == to && distance != LOCAL_DISTANCE {
                return error(field, distance.to_string(), "10, the distance of a node to itself");
            }
            if from != to && distance <= LOCAL_DISTANCE {
                return error(field, distance.to_string(), "11 to 255; 20 is what other nodes have by default");
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::MachineConfig;
    use super::*;
    use isotherm_kernel::memory::{NodeId, Tiers};

    fn two(fast: NodeConfig, slow: NodeConfig) -> MachineConfig {
        MachineConfig { nodes: vec![fast, slow], ..MachineConfig::default() }
    }
    fn node(kind: MemoryKind) -> NodeConfig {
        NodeConfig::of_kind(kind, Bytes::from_gib(1))
    }

    /// docs/spec/promotion.md#s6-3, the engine's presets.
    #[test]
    fn presets_are_those_of_section_6_3() {
        let table = [
            (MemoryKind::Dram, 100, 200_000, true),
            (MemoryKind::CxlNear, 175, 25_000, false),
            (MemoryKind::Cxl, 250, 25_000, false),
            (MemoryKind::CxlFar, 400, 25_000, false),
        ];
        for (kind, latency_ns, mb_per_s, has_cpus) in table {
            let [setup] = &node_setups(&[node(kind)], TieringConfig::default())[..] else { panic!("one node") };
            assert_eq!(
                (setup.latency_ns, setup.bandwidth_mb_per_s, setup.has_cpus),
                (latency_ns, Some(mb_per_s), has_cpus)
            );
            let text = format!("kind = \"{}\"\n", kind.name());
            assert_eq!(toml::from_str::<NodeConfig>(&text).unwrap().kind, Some(kind));
        }
        assert_eq!((NodeConfig::default().latency.ns(), NodeConfig::default().bandwidth_per_s()), (80, None));
        let setups = node_setups(&[node(MemoryKind::Dram), node(MemoryKind::Cxl)], TieringConfig::default());
        let tiers = Tiers::new(&setups, &TieringSetup::default());
        assert_eq!([0, 1].map(|node| tiers.tier(NodeId::new(node))), [4, 90], "576·500/200·400000/50000 = 11520");
        assert!(tiers.is_top(NodeId::new(0)) && !tiers.is_top(NodeId::new(1)));
    }

    #[test]
    fn a_node_is_read_as_it_was_written() {
        let text = "memory = \"1GiB\"\nkind = \"cxl\"\nlatency = \"300ns\"\nbandwidth = \"50GB\"\ncpus = true\n";
        let node: NodeConfig = toml::from_str(text).unwrap();
        assert_eq!(
            (node.latency.ns(), node.bandwidth_per_s(), node.has_cpus()),
            (300, Some(Bytes::new(50_000_000_000)), true)
        );
        assert_eq!(toml::from_str::<NodeConfig>(&toml::to_string(&node).unwrap()).unwrap(), node);
        assert!(toml::from_str::<NodeConfig>("speed = 1\n").unwrap_err().to_string().contains("unknown field `speed`"));
    }

    #[test]
    fn machines_that_make_no_sense_are_refused_in_words() {
        use MemoryKind::{Cxl, Dram};
        let slower = |latency| NodeConfig { latency: Duration::from_ns(latency), ..node(Cxl) };
        let mut four = two(node(Dram), node(Cxl));
        four.nodes.extend([300, 301, 302].map(slower));
        let mut loaded = two(node(Dram), node(Cxl));
        loaded.nodes.extend([node(Cxl), node(Cxl), node(Cxl)]);
        loaded.tiering.loaded_latency = true;
        let with = |change: fn(&mut MachineConfig)| {
            let mut config = two(node(Dram), node(Cxl));
            change(&mut config);
            config
        };
        let table = [
            (two(node(Cxl), node(Cxl)), "`nodes` is without a fast node; allowed: at least one node with processors"),
            (
                two(node(Dram), slower(90)),
                "`nodes[1].latency` is 90ns; allowed: the latency of the nodes with processors",
            ),
            (
                two(node(Dram), NodeConfig { memory: Bytes::ZERO, ..node(Cxl) }),
                "`nodes[1].memory` is 0B; allowed: 4MiB",
            ),
            (four, "`nodes` is 5 different latencies; allowed: at most 4"),
            (loaded, "`nodes` is 5 nodes; allowed: at most 4"),
            (
                with(|config| config.nodes[1].bandwidth = Some(Bytes::ZERO)),
                "`nodes[1].bandwidth` is 0B; allowed: 1MB to",
            ),
            (with(|config| config.distances = vec![vec![10, 20]]), "`distances` is 1 rows for 2 nodes"),
            (
                with(|config| config.distances = vec![vec![10, 20], vec![20, 11]]),
                "`distances[1][1]` is 11; allowed: 10",
            ),
            (
                with(|config| config.distances = vec![vec![10, 10], vec![20, 10]]),
                "`distances[0][1]` is 10; allowed: 11",
            ),
            (
                with(|config| {
                    config.nodes[1].cpus = Some(true);
                    config.tiering.demotion = true;
                }),
                "`tiering.demotion` is true; allowed: false unless some node has no processors",
            ),
            (
                with(|config| {
                    config.nodes = vec![NodeConfig::default()];
                    config.tiering.loaded_latency = true;
                }),
                "`tiering.loaded-latency` is true; allowed: false unless some node has a `bandwidth`",
            ),
        ];
        assert_eq!(two(node(Dram), node(Cxl)).validate(), Ok(()));
        for (config, expected) in table {
            let message = config.validate().unwrap_err().to_string();
            assert!(message.starts_with(expected), "{message}");
        }
    }
}
