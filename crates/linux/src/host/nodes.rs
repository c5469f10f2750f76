//! NUMA nodes, their tiers, and their free memory.

use crate::counters::zoneinfo;
use crate::{LiveError, Root, sys};
use isotherm_core::host::{NodeId, NodeMemory, TierNode};
use isotherm_texts::numbers;
use isotherm_texts::zoneinfo::Zone;
use isotherm_units::PAGE_BYTES;
use std::collections::{BTreeMap, BTreeSet};

const NODES: &str = "/sys/devices/system/node";
const TIERS: &str = "/sys/devices/virtual/memory_tiering";

/// All nodes, by number. A machine without NUMA has node 0. Without tiers, all nodes are in the top tier.
pub(super) fn nodes(root: &Root) -> Vec<TierNode> {
    let list = |file: &str| root.read(format!("{NODES}/{file}")).ok().and_then(|text| node_list(&text));
    let Some(online) = list("online") else {
        return vec![TierNode { node: NodeId(0), is_top_tier: true, has_memory: true }];
    };
    let (memory, processors) = (list("has_memory"), list("has_cpu").unwrap_or_default());
    let tiers = tiers(root);
    // As in the kernel: the slowest tier with processors, and those above it. Smaller numbers are faster.
    let slowest = tiers.iter().filter(|(_, nodes)| !nodes.is_disjoint(&processors)).map(|(&tier, _)| tier).max();
    let tier_of = |node: u32| tiers.iter().find(|(_, nodes)| nodes.contains(&node)).map(|(&tier, _)| tier);
    let is_top_tier = |node: u32| match (tier_of(node), slowest) {
        (Some(tier), Some(slowest)) => tier <= slowest,
        _ => true,
    };
    let has_memory = |node: u32| memory.as_ref().is_none_or(|memory| memory.contains(&node));
    online
        .iter()
        .map(|&node| TierNode { node: NodeId(node), is_top_tier: is_top_tier(node), has_memory: has_memory(node) })
        .collect()
}

/// The nodes of each memory tier, by its number.
fn tiers(root: &Root) -> BTreeMap<u32, BTreeSet<u32>> {
    let Ok(entries) = std::fs::read_dir(root.path(TIERS)) else { return BTreeMap::new() };
    let tier = |entry: std::fs::DirEntry| {
        let number = entry.file_name().to_str()?.strip_prefix("memory_tier")?.parse().ok()?;
        let text = std::fs::read_to_string(entry.path().join("nodelist")).ok()?;
        Some((number, node_list(&text)?))
    };
    entries.flatten().filter_map(tier).collect()
}

/// Parses `0-2,5`; `None` for text of another form.
fn node_list(text: &str) -> Option<BTreeSet<u32>> {
    numbers::list(text).ok().map(BTreeSet::from_iter)
}

/// Free memory of a node in pages of 4 KiB; `None` if it has none.
pub(super) fn node_memory(root: &Root, node: NodeId) -> Result<Option<NodeMemory>, LiveError> {
    let memory = memory_of(&zoneinfo::read(root)?.zones, node);
    let base_pages = |pages: u64| pages.saturating_mul((sys::page_bytes() / PAGE_BYTES).max(1));
    Ok(memory.map(|memory| NodeMemory {
        present: base_pages(memory.present),
        free: base_pages(memory.free),
        high: base_pages(memory.high),
        promo: base_pages(memory.promo),
    }))
}

/// The sum of a node's zones, in pages of the kernel.
fn memory_of(zones: &[Zone], node: NodeId) -> Option<NodeMemory> {
    let mut sum = NodeMemory::default();
    let mut has_promo = false;
    for zone in zones.iter().filter(|zone| zone.node == node) {
        sum.present = sum.present.saturating_add(zone.present);
        sum.free = sum.free.saturating_add(zone.free);
        sum.high = sum.high.saturating_add(zone.high);
        if let Some(promo) = zone.counters.get("promo") {
            has_promo = true;
            sum.promo = sum.promo.saturating_add(promo);
        }
    }
    if !has_promo {
        sum.promo = sum.high; // kernels before 5.18 have no such watermark
    }
    sum.free = sum.free.min(sum.present);
    (sum.present > 0).then_some(sum)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ZONEINFO: &str = "\
Node 0, zone      DMA
  per-node stats
      nr_inactive_anon 2258
  pages free     100
        boost    0
        min      16
        low      20
        high     24
        promo    28
        spanned  4095
        present  4000
        managed  3840
      nr_free_pages 100
  pagesets
    cpu: 0
              count: 0
              high:  13
Node 0, zone   Normal
  pages free     900
        min      30
        low      40
        high     50
        promo    60
        present  8000
Node 1, zone   Normal
  pages free     0
        min      5
        low      6
        high     7
        present  0
Node 2, zone  Movable
  pages free     40
        min      5
        low      6
        high     7
        present  50
";

    #[test]
    fn zones_of_a_node_are_added_up() {
        let read =
            |text: &str, node| isotherm_texts::zoneinfo::parse(text).map(|info| memory_of(&info.zones, NodeId(node)));
        let of = |node| read(ZONEINFO, node).unwrap();
        assert_eq!(of(0), Some(NodeMemory { present: 12000, free: 1000, high: 74, promo: 88 }));
        assert_eq!((of(1), of(3)), (None, None));
        assert_eq!(of(2), Some(NodeMemory { present: 50, free: 40, high: 7, promo: 7 }));
        for end in 0..ZONEINFO.len() {
            let read = read(&ZONEINFO[..end], 0);
            assert!(
                read.is_err() || read.is_ok_and(|memory| memory.is_none_or(|memory| memory.free <= memory.present))
            );
        }
    }

    #[test]
    fn lists_of_nodes() {
        let list = |text| node_list(text).map(|nodes| nodes.into_iter().collect::<Vec<_>>());
        assert_eq!(list("0-2,5\n"), Some(vec![0, 1, 2, 5]));
        assert_eq!(list("\n"), Some(vec![]));
        for wrong in ["a", "1-", "3-1", "0-4294967295", "-1", "0-1-2"] {
            assert_eq!(list(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn the_top_tier_is_that_of_processors_and_above() {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::below(folder.path());
        assert_eq!(nodes(&root).len(), 1, "without NUMA");
        let write = |path: String, text: &str| {
            let path = root.path(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        for (file, text) in [("online", "0-3\n"), ("has_memory", "0-2\n"), ("has_cpu", "0\n")] {
            write(format!("{NODES}/{file}"), text);
        }
        let top = |root: &Root| nodes(root).iter().map(|node| node.is_top_tier).collect::<Vec<_>>();
        assert_eq!(top(&root), [true; 4], "without tiers");
        for (tier, nodes) in [(4, "0\n"), (2, "2\n"), (225, "1\n")] {
            write(format!("{TIERS}/memory_tier{tier}/nodelist"), nodes);
        }
        write(format!("{TIERS}/power"), "");
        assert_eq!(top(&root), [true, false, true, true]);
        assert_eq!(nodes(&root).iter().map(|node| node.has_memory).collect::<Vec<_>>(), [true, true, true, false]);
    }
}
