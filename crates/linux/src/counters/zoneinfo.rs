//! `/proc/zoneinfo`: each zone's pages and watermarks, and the counters of each node.

use super::{Counters, parsed, quoted};
use crate::{LiveError, Root};
use isotherm_core::host::NodeId;
use std::collections::BTreeMap;

/// What the file says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ZoneInfo {
    /// By node, then from low addresses to high, empty zones too.
    pub zones: Vec<Zone>,
    /// Counters of each node (`nr_active_anon`), in pages.
    pub nodes: BTreeMap<NodeId, Counters>,
}

/// A zone. Sizes are pages.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Zone {
    pub node: NodeId,
    /// `DMA32`, `Normal`, `Movable`.
    pub name: String,
    pub free: u64,
    /// Watermarks; the kernel writes them with the boost already in them.
    pub min: u64,
    pub low: u64,
    pub high: u64,
    /// What the watermarks are raised by just now, 5.0 and newer.
    pub boost: u64,
    /// From the first page frame to the last, holes included.
    pub spanned: u64,
    /// Pages that are there.
    pub present: u64,
    /// Of them, those that the kernel's allocator has.
    pub managed: u64,
    /// The zone's counters (`nr_zone_active_anon`).
    pub counters: Counters,
}

/// Reads it.
///
/// # Errors
/// [`LiveError::Io`], [`LiveError::Strange`].
pub fn read(root: &Root) -> Result<ZoneInfo, LiveError> {
    parsed(root, "/proc/zoneinfo", parse)
}

/// Which list of names the lines of a zone belong to.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    NodeStats,
    Zone,
    /// Lists of each CPU: passed over.
    Pagesets,
}

/// Parses the text of the file. Lines of a kind that is not known are passed over.
///
/// # Errors
/// The line that is not understood.
pub fn parse(text: &str) -> Result<ZoneInfo, String> {
    let mut found = ZoneInfo::default();
    let mut part = Part::Zone;
    for line in text.lines().filter(|line| !line.trim().is_empty()) {
        if line.starts_with("Node") {
            found.zones.push(zone(line).ok_or_else(|| quoted(line))?);
            part = Part::Zone;
            continue;
        }
        let zone = found.zones.last_mut().ok_or_else(|| quoted(line))?;
        let words: Vec<&str> = line.split_whitespace().collect();
        match *words.as_slice() {
            ["per-node", "stats"] => part = Part::NodeStats,
            ["pagesets"] => part = Part::Pagesets,
            ["pages", "free", count] => {
                part = Part::Zone;
                zone.free = count.parse().map_err(|_| quoted(line))?;
            }
            [name, count] if part != Part::Pagesets => {
                let Ok(count) = count.parse::<u64>() else { continue };
                match (part, name) {
                    (Part::NodeStats, _) => {
                        found.nodes.entry(zone.node).or_default().0.insert(name.to_owned(), count);
                    }
                    (_, "boost") => zone.boost = count,
                    (_, "min") => zone.min = count,
                    (_, "low") => zone.low = count,
                    (_, "high") => zone.high = count,
                    (_, "spanned") => zone.spanned = count,
                    (_, "present") => zone.present = count,
                    (_, "managed") => zone.managed = count,
                    _ => {
                        zone.counters.0.insert(name.to_owned(), count);
                    }
                }
            }
            _ => {}
        }
    }
    if found.zones.is_empty() { Err(quoted(text)) } else { Ok(found) }
}

fn zone(line: &str) -> Option<Zone> {
    let (node, name) = line.strip_prefix("Node")?.split_once(',')?;
    let name = name.trim_start().strip_prefix("zone")?.trim();
    let node = NodeId(node.trim().parse().ok()?);
    (!name.is_empty()).then(|| Zone { node, name: name.to_owned(), ..Zone::default() })
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "Node 0, zone      DMA\n  per-node stats\n      nr_inactive_anon 3362\n      nr_active_anon 436\n\
        \x20 pages free     3840\n        boost    1\n        min      16\n        low      20\n        high     24\n        promo    28\n\
        \x20       spanned  4095\n        present  3998\n        managed  3840\n        cma      0\n        protection: (0, 3154, 15891, 15891)\n\
        \x20     nr_free_pages 3840\n  pagesets\n    cpu: 0\n              count:    7\n              high:  99\n  node_unreclaimable:  0\n  start_pfn:           1\n\
        Node 1, zone   Normal\n  pages free     9\n        min      1\n";

    #[test]
    fn zones_and_nodes() {
        let found = parse(TEXT).unwrap();
        let [dma, normal] = found.zones.as_slice() else { panic!("two zones: {found:?}") };
        assert_eq!((dma.free, dma.boost, dma.min, dma.low, dma.high), (3840, 1, 16, 20, 24));
        assert_eq!((dma.spanned, dma.present, dma.managed), (4095, 3998, 3840));
        assert_eq!(found.nodes[&NodeId(0)].get("nr_active_anon"), Some(436));
        assert_eq!((dma.counters.get("nr_free_pages"), dma.counters.get("promo")), (Some(3840), Some(28)));
        assert_eq!((normal.node, normal.free, normal.high), (NodeId(1), 9, 0));
        for text in ["", "garbage", "Node", "Node 0, zone", "Node x, zone DMA", "Node 0, zone DMA\n pages free x\n"] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
