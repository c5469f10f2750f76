//! The costs of the parts of a move. Each kind of move has the model of its own specification.
//!
//! Within a node (compaction) it is docs/spec/compaction.md#s5, calibrated to the 14.6 µs a page of a published run of Linux 5.3
//! and checked by its example 26. The flush is one price, and a page is copied within one memory. From node to node (promotion,
//! demotion, schemes) it is docs/spec/promotion.md#s5-4 and its example 25. The flush grows with the processors that run the
//! owners, and the copy takes as long as the slowest of both memories and the copying processor. The two were calibrated to
//! different machines and kernels, and neither can be derived from the other. The requester makes no difference within either.

use super::Going;
use crate::costs::Costs;
use crate::memory::{Memory, NodeId};
use crate::mmu::SpaceId;
use isotherm_units::PAGE_BYTES;
use std::collections::BTreeSet;

/// Prices of one batch, in ns.
pub(super) struct Prices {
    /// Price for each page, and for each further try of a held page.
    pub(super) lock_ns: u64,
    /// Each mapping.
    pub(super) unmap_ns: u64,
    pub(super) remap_ns: u64,
    copy: Copying,
    /// The flush asks the processors that run the owners, and is not at one price.
    is_between_nodes: bool,
}

/// The price of copying.
enum Copying {
    /// Price of a base page by itself, and of each page of a huge page.
    AtPrice { page_ns: u64, huge_part_ns: u64 },
    /// Millions of bytes a second.
    AtRate { mb_per_s: u64 },
}

impl Prices {
    fn within_a_node(costs: &Costs) -> Self {
        Self {
            lock_ns: costs.migrate_lock_ns,
            unmap_ns: costs.migrate_unmap_ns,
            remap_ns: costs.migrate_remap_ns,
            copy: Copying::AtPrice { page_ns: costs.migrate_copy_ns, huge_part_ns: costs.page_copy_ns },
            is_between_nodes: false,
        }
    }

    fn between_nodes(costs: &Costs, mb_per_s: u64) -> Self {
        Self {
            lock_ns: costs.migrate_lock_ns,
            unmap_ns: costs.tier_unmap_ns,
            remap_ns: costs.tier_remap_ns,
            copy: Copying::AtRate { mb_per_s },
            is_between_nodes: true,
        }
    }

    /// Copying a folio of `pages` base pages, in ns.
    pub(super) fn copy_ns(&self, pages: u32) -> u64 {
        let pages = u64::from(pages);
        match self.copy {
            Copying::AtPrice { page_ns, .. } if pages == 1 => page_ns,
            Copying::AtPrice { huge_part_ns, .. } => pages * huge_part_ns,
            Copying::AtRate { mb_per_s } => (pages * PAGE_BYTES * 1000).div_ceil(mb_per_s),
        }
    }
}

impl Memory {
    /// Prices of a batch. The whole batch goes the same way: moves between nodes leave out pages that are there already.
    pub(super) fn prices_of(&self, batch: &[Going]) -> Prices {
        let Some(first) = batch.first() else { return Prices::within_a_node(&self.costs) };
        let [from, to] = [first.from, first.to].map(|frame| self.nodes.of(frame));
        if from == to {
            return Prices::within_a_node(&self.costs);
        }
        Prices::between_nodes(&self.costs, self.copy_mb_per_s(from, to))
    }

    /// Speed at which a processor copies from one node to another: the least of its own speed and the speeds of both nodes.
    fn copy_mb_per_s(&self, from: NodeId, to: NodeId) -> u64 {
        let of = |node| self.nodes.get(node).bandwidth_mb_per_s;
        [of(from), of(to)].into_iter().flatten().fold(self.costs.copy_core_mb_per_s, u64::min)
    }

    /// The flush of a batch that was mapped.
    pub(super) fn flush_for(&mut self, batch: &[Going], prices: &Prices) -> u64 {
        if !prices.is_between_nodes {
            return self.costs.migrate_flush_ns;
        }
        let owners: BTreeSet<SpaceId> =
            batch.iter().flat_map(|one| one.mappers.iter().map(|mapper| mapper.space)).collect();
        self.shoot_down(owners)
    }
}
