//! Numbers for goals and watermarks.

use super::{HostTarget, MemoryHost};
use isotherm_core::host::{AddressRange, Gauge, GaugeCapabilities, HostError, Metric, NodeId};
use isotherm_kernel::cgroup::CgroupId;
use isotherm_kernel::memory::NodeId as MemoryNode;
use isotherm_kernel::pressure::{Resource, Severity};
use isotherm_kernel::reclaim::ListSizes;
use isotherm_units::PAGE_SHIFT;

impl MemoryHost<'_> {
    /// Gauges that schemes on `target` can read.
    pub(super) fn gauges_for(&self, target: HostTarget) -> GaugeCapabilities {
        let mut metrics = vec![
            Metric::SomeMemPsiUs,
            Metric::NodeMemUsedBp,
            Metric::NodeMemFreeBp,
            Metric::NodeMemcgUsedBp,
            Metric::NodeMemcgFreeBp,
        ];
        if self.policy.knows_active() {
            metrics.extend([Metric::ActiveMemBp, Metric::InactiveMemBp]);
        }
        if target == HostTarget::Physical {
            metrics.push(Metric::NodeEligibleMemBp);
        }
        GaugeCapabilities { metrics, free_mem_rate: true }
    }

    /// One number; `None` if its object does not exist.
    pub(super) fn read_gauge(&self, gauge: Gauge) -> Result<Option<u64>, HostError> {
        let pages = match gauge {
            Gauge::StallSomeUs => {
                let stall = self.pressure.sampled_total(CgroupId::ROOT, Resource::Memory, Severity::Some);
                return Ok(Some(stall.ns() / 1000));
            }
            Gauge::TotalBytes(node) => self.of_nodes(node, isotherm_kernel::memory::Node::managed),
            Gauge::FreeBytes(node) => self.of_nodes(node, isotherm_kernel::memory::Node::free),
            Gauge::ActiveBytes | Gauge::InactiveBytes if !self.policy.knows_active() => {
                return Err(HostError::NotHere("this policy has no active and inactive pages"));
            }
            Gauge::ActiveBytes => Some(self.listed(|sizes| sizes.active_anon + sizes.active_file)),
            Gauge::InactiveBytes => Some(self.listed(|sizes| sizes.inactive_anon + sizes.inactive_file)),
            Gauge::MemcgBytes { node, memcg } => self.of_group(node, memcg),
            Gauge::RefaultBytes { memcg } => {
                self.group(memcg).map(|group| self.memory.cgroups.memory_stat(group).refaults())
            }
            Gauge::GroupBytes { memcg } => self.group(memcg).map(|group| self.memory.cgroups.get(group).usage),
            Gauge::GroupStallSomeUs { memcg } => {
                let stall = |group| self.pressure.sampled_total(group, Resource::Memory, Severity::Some);
                return Ok(self.group(memcg).map(|group| stall(group).ns() / 1000));
            }
            Gauge::GroupHighEvents { memcg } => {
                return Ok(self.group(memcg).map(|group| self.memory.cgroups.get(group).events.high));
            }
        };
        Ok(pages.map(|pages| pages << PAGE_SHIFT))
    }

    /// The group of this number.
    pub(super) fn group(&self, memcg: u64) -> Option<CgroupId> {
        self.memory.cgroups.ids().find(|group| group.index() as u64 == memcg)
    }

    fn of_nodes(&self, node: Option<NodeId>, pages: impl Fn(&isotherm_kernel::memory::Node) -> u64) -> Option<u64> {
        let nodes = &self.memory.nodes;
        match node {
            None => Some(nodes.iter().map(|(_, node)| pages(node)).sum()),
            Some(node) => self.node(node).map(|node| pages(nodes.get(node))),
        }
    }

    /// Pages on all lists of a kind.
    fn listed(&self, pages: impl Fn(&ListSizes) -> u64) -> u64 {
        let nodes = || self.memory.nodes.ids();
        let lruvecs = self.memory.cgroups.ids().flat_map(|group| nodes().map(move |node| (group, node)));
        lruvecs.map(|(group, node)| pages(&self.policy.sizes(self.memory.lruvec(group, node)))).sum()
    }

    /// Pages of a group and all below it on a node.
    fn of_group(&self, node: NodeId, memcg: u64) -> Option<u64> {
        let node = self.node(node)?;
        let group = self.group(memcg)?;
        let sizes = |group| self.policy.sizes(self.memory.lruvec(group, node));
        let pages =
            self.memory.cgroups.subtree(group).into_iter().map(|group| sizes(group).anon() + sizes(group).file());
        Some(pages.sum())
    }

    fn node(&self, node: NodeId) -> Option<MemoryNode> {
        self.memory.nodes.ids().find(|id| id.index() == node.0 as usize)
    }

    /// Adds up by node the pages on lists inside ranges of physical memory.
    pub(super) fn count_by_node(&mut self, ranges: &[AddressRange], out: &mut Vec<(NodeId, u64)>) {
        let mut bytes = vec![0; self.memory.nodes.len()];
        for &range in ranges {
            for frame in self.frames_in(range) {
                self.memory.ledger.spend(self.memory.costs.scheme_folio_ns());
                if self.is_listed(frame) {
                    let start = u64::from(frame.index_u32()) << PAGE_SHIFT;
                    let end = start + (1 << PAGE_SHIFT);
                    let part = AddressRange::new(start.max(range.start), end.min(range.end));
                    bytes[self.memory.nodes.of(frame).index()] += part.len();
                }
            }
        }
        out.extend((0..).map(NodeId).zip(bytes));
    }
}
