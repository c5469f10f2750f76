//! Nodes of the page cache that hold only shadows, and how many such nodes are kept (docs/spec/classic-lru.md#s5).
//!
//! The page cache of a file is a tree whose nodes have 64 slots. A node that holds shadows only is on a list of the lruvec that
//! made it, and reclaim prunes these lists like other caches of the kernel, the longest-listed nodes first (Linux 7.2,
//! `workingset_update_node`, `count_shadow_nodes`, `do_shrink_slab`).

use super::FileId;
use crate::reclaim::LruvecId;
use crate::reclaim::refault::shadow_nodes_max;
use isotherm_units::PAGE_SHIFT;
use std::collections::BTreeMap;

/// Bytes that a node takes of its group: the kernel's `radix_tree_node`, and the pointer next to it that names its owner.
const NODE_BYTES: u64 = 576 + 8;
/// Objects that are asked for at a time (`SHRINK_BATCH`).
const BATCH: u64 = 128;

/// A node of a file's page cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct CacheNode {
    /// Slots with pages.
    pub(super) nr_cached: u8,
    /// Slots with shadows.
    pub(super) nr_shadows: u8,
    /// The lruvec that made it, while that is there.
    owner: Option<LruvecId>,
    /// Place of the node in the owner's list, while it is on it.
    listed: Option<u64>,
}

/// Nodes of one lruvec.
#[derive(Clone, Debug, Default)]
struct Own {
    /// All nodes that it made.
    nr_nodes: u64,
    /// Nodes that only hold shadows, by the time when they became so: file, and index of the node.
    listed: BTreeMap<u64, (FileId, usize)>,
    /// Work that was put off, in nodes.
    deferred: u64,
}

/// Nodes of all lruvecs.
#[derive(Clone, Debug, Default)]
pub(super) struct ShadowNodes {
    by_lruvec: Vec<Own>,
    /// Nodes that were ever put on a list.
    last: u64,
}

impl ShadowNodes {
    fn own(&mut self, lruvec: LruvecId) -> &mut Own {
        if self.by_lruvec.len() <= lruvec.index() {
            self.by_lruvec.resize_with(lruvec.index() + 1, Own::default);
        }
        &mut self.by_lruvec[lruvec.index()]
    }

    /// A slot of a node changed. `maker` made the node if it was not there.
    #[inline]
    pub(super) fn update(&mut self, node: &mut CacheNode, place: (FileId, usize), maker: LruvecId) {
        debug_assert!(node.listed.is_none() || node.owner.is_some(), "a node on a list was made by somebody");
        // Mostly it had pages before, and has some now.
        if node.nr_cached > 0 && node.owner.is_some() && node.listed.is_none() {
            return;
        }
        let is_there = node.nr_cached > 0 || node.nr_shadows > 0;
        let next = self.last + 1;
        let own = self.own(node.owner.unwrap_or(maker));
        match (is_there, node.owner) {
            (true, None) => {
                own.nr_nodes += 1;
                node.owner = Some(maker);
            }
            (false, Some(_)) => {
                debug_assert!(own.nr_nodes > 0, "each node was counted when it was made");
                own.nr_nodes -= 1;
                node.owner = None;
            }
            _ => {}
        }
        match (is_there && node.nr_cached == 0, node.listed) {
            (true, None) => {
                own.listed.insert(next, place);
                node.listed = Some(next);
                self.last = next;
            }
            (false, Some(at)) => {
                debug_assert!(own.listed.contains_key(&at), "a node that leaves a list was on it");
                own.listed.remove(&at);
                node.listed = None;
            }
            _ => {}
        }
        debug_assert!(node.listed.is_none() || node.nr_cached == 0, "only nodes without pages wait to be pruned");
    }

    /// The nodes that reclaim of `lruvec` prunes at a priority, 0..=12. `pages`: on its lists, as far as the kernel counts them. The
    /// caller removes their shadows.
    pub(super) fn prune(&mut self, lruvec: LruvecId, pages: u64, priority: u32) -> Vec<(FileId, usize)> {
        debug_assert!(priority <= 12, "reclaim begins with priority 12 and goes down");
        let own = self.own(lruvec);
        debug_assert!(own.listed.len() as u64 <= own.nr_nodes, "nodes on the list are among those made");
        let in_slabs = (own.nr_nodes * NODE_BYTES) >> PAGE_SHIFT;
        let freeable = (own.listed.len() as u64).saturating_sub(shadow_nodes_max(pages + in_slabs));
        if freeable == 0 {
            return Vec::new();
        }
        // They cost nothing to make: half of them go, in whole batches, unless memory is so tight that all may.
        let (put_off, new) = (std::mem::take(&mut own.deferred), freeable / 2);
        let mut left = ((put_off >> priority) + new).min(2 * freeable);
        let mut scanned = 0;
        while left >= BATCH || left >= freeable {
            let batch = left.min(BATCH);
            left -= batch;
            scanned += batch;
        }
        own.deferred = (put_off + new).saturating_sub(scanned).min(2 * freeable);
        own.listed.values().take(usize::try_from(scanned).unwrap_or(usize::MAX)).copied().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reclaim::refault::SHADOWS_PER_NODE;

    const LRUVEC: LruvecId = LruvecId(1);

    /// This number of nodes of file 0, each with a shadow and no page.
    fn with_shadows(nr: usize) -> (ShadowNodes, Vec<CacheNode>) {
        let mut nodes = ShadowNodes::default();
        let mut tree = vec![CacheNode { nr_shadows: 1, ..CacheNode::default() }; nr];
        for (index, node) in tree.iter_mut().enumerate() {
            nodes.update(node, (FileId(0), index), LRUVEC);
        }
        (nodes, tree)
    }

    fn pruned(nodes: &mut ShadowNodes, tree: &mut [CacheNode], pages: u64, priority: u32) -> Vec<usize> {
        let gone = nodes.prune(LRUVEC, pages, priority);
        for &(file, index) in &gone {
            tree[index].nr_shadows = 0;
            nodes.update(&mut tree[index], (file, index), LRUVEC);
        }
        gone.into_iter().map(|(_, index)| index).collect()
    }

    #[test]
    fn an_eighth_of_the_pages_is_kept() {
        let (mut nodes, mut tree) = with_shadows(60);
        // 480 pages keep 60 nodes; the nodes themselves are 8 pages, which keep one more.
        assert_eq!(pruned(&mut nodes, &mut tree, 480, 0), []);
        assert_eq!(pruned(&mut nodes, &mut tree, 472, 0), []);
        // 464 pages and 8 keep 59. Half of one node too many is none, and nothing was put off.
        assert_eq!(pruned(&mut nodes, &mut tree, 464, 0), []);
        // Two too many: one is due, the other follows when the first was put off.
        assert_eq!(pruned(&mut nodes, &mut tree, 456, 0), []);
        assert_eq!(pruned(&mut nodes, &mut tree, 456, 0), [0, 1]);
    }

    #[test]
    fn few_nodes_go_only_when_memory_is_tight() {
        let (mut nodes, mut tree) = with_shadows(100);
        // 100 nodes are 14 pages, which keep one. 49 of 99 are due each time: less than a batch, and than all.
        for _ in 0..10 {
            assert_eq!(pruned(&mut nodes, &mut tree, 0, 12), []);
        }
        // 198 were put off, and no more. A quarter of them with what is due is less than all; half of them is enough.
        assert_eq!(pruned(&mut nodes, &mut tree, 0, 2), []);
        assert_eq!(pruned(&mut nodes, &mut tree, 0, 1).len(), 100);
    }

    #[test]
    fn many_nodes_go_in_batches_at_once_the_oldest_first() {
        let (mut nodes, mut tree) = with_shadows(600);
        // 600 nodes are 85 pages, which keep 10: half of 590 is two batches and 39 that are put off.
        let gone = pruned(&mut nodes, &mut tree, 0, 12);
        assert_eq!(gone, (0..256).collect::<Vec<_>>());
    }

    #[test]
    fn a_node_with_a_page_is_not_on_the_list() {
        let (mut nodes, mut tree) = with_shadows(3);
        tree[0].nr_cached = 1;
        nodes.update(&mut tree[0], (FileId(0), 0), LRUVEC);
        assert_eq!(nodes.own(LRUVEC).listed.values().map(|&(_, index)| index).collect::<Vec<_>>(), [1, 2]);
        tree[0].nr_cached = 0;
        nodes.update(&mut tree[0], (FileId(0), 0), LruvecId(2));
        assert_eq!(nodes.own(LRUVEC).listed.values().map(|&(_, index)| index).collect::<Vec<_>>(), [1, 2, 0]);
        tree[1].nr_shadows = 0;
        nodes.update(&mut tree[1], (FileId(0), 1), LRUVEC);
        assert_eq!((nodes.own(LRUVEC).nr_nodes, nodes.own(LRUVEC).listed.len(), tree[1]), (2, 2, CacheNode::default()));
        assert_eq!(SHADOWS_PER_NODE, 64, "slots are counted in bytes");
    }
}
