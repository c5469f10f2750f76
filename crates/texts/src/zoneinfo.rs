//! `/proc/zoneinfo`: each zone's pages and watermarks, and the counters of each zone and node.

use crate::line::{self, Words};
use crate::{Counters, TextError};
use isotherm_units::NodeId;
use std::collections::BTreeMap;

/// The contents of the file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ZoneInfo {
    /// Zones by node, then from low addresses to high, zones without memory included.
    pub zones: Vec<Zone>,
    /// Counters of each node (`nr_active_anon`), in pages.
    pub nodes: BTreeMap<NodeId, Counters>,
}

/// A zone. Sizes and watermarks are pages; numbers that a kernel does not print are 0: `boost`
/// before 5.0.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Zone {
    pub node: NodeId,
    /// `DMA32`, `Normal`, `Movable`.
    pub name: String,
    /// Free pages, without those on per-CPU lists.
    pub free: u64,
    /// Pages by which the watermarks are raised just now.
    pub boost: u64,
    /// Watermarks `min`, `low` and `high`, boost included.
    pub min: u64,
    pub low: u64,
    pub high: u64,
    /// Pages from the first page frame to the last, holes included.
    pub spanned: u64,
    /// Pages that are there: the weight of the zone's score. 0 in zones without memory.
    pub present: u64,
    /// Pages among them that the allocator manages; all pages if the kernel does not print the number.
    pub managed: u64,
    /// Pages kept back from requests that could use a higher zone, by that zone.
    pub protection: Vec<u64>,
    /// The zone's other counters (`nr_zone_active_anon`).
    pub counters: Counters,
}

/// List of names that the lines of a zone belong to.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    NodeStats,
    Zone,
    /// Lists of each CPU: skipped.
    Pagesets,
}

/// Parses the text. Lines of an unknown kind are skipped: new kernels add some.
///
/// # Errors
/// The first line that is wrong, or the missing part of a zone.
pub fn parse(text: &str) -> Result<ZoneInfo, TextError> {
    let mut nodes: BTreeMap<NodeId, Counters> = BTreeMap::new();
    let mut zones: Vec<Partial> = Vec::new();
    let mut part = Part::Zone;
    for (number, text) in line::lines(text)? {
        let mut words = Words::new(number, text);
        if text.starts_with("Node") {
            let (node, name) = (words.node()?, words.name("zone", false)?);
            if zones.iter().any(|other| other.zone.node == node && other.zone.name == name) {
                return Err(TextError::Twice { line: number, what: format!("node {}, zone {name}", node.0) });
            }
            let zone = Zone { node, name, ..Zone::default() };
            zones.push(Partial { zone, values: [None; KEYS.len()] });
            part = Part::Zone;
            continue;
        }
        let Some(zone) = zones.last_mut() else { return Err(words.unexpected("`Node N, zone NAME`")) };
        if words.takes(&["per-node", "stats"]) {
            part = Part::NodeStats;
        } else if words.takes(&["pagesets"]) {
            part = Part::Pagesets;
        } else if words.takes(&["pages"]) {
            part = Part::Zone;
        }
        match part {
            Part::Zone => zone.take(&mut words)?,
            Part::NodeStats => {
                if let Some((name, count)) = counter(&words) {
                    nodes.entry(zone.zone.node).or_default().insert(name, count);
                }
            }
            Part::Pagesets => {}
        }
    }
    if zones.is_empty() {
        return Err(TextError::Empty);
    }
    Ok(ZoneInfo { zones: zones.into_iter().map(Partial::finish).collect::<Result<_, _>>()?, nodes })
}

/// A name with a number, and nothing else.
fn counter<'a>(words: &Words<'a>) -> Option<(&'a str, u64)> {
    let [name, count] = words.exactly()?;
    Some((name, count.parse().ok()?))
}

/// Lines of a zone that have fields of their own.
const KEYS: [&str; 8] = ["free", "boost", "min", "low", "high", "present", "managed", "spanned"];

struct Partial {
    zone: Zone,
    values: [Option<u64>; KEYS.len()],
}

impl Partial {
    fn take(&mut self, words: &mut Words<'_>) -> Result<(), TextError> {
        if words.takes(&["protection:"]) {
            self.zone.protection = words.list()?;
        } else if let Some((name, count)) = counter(words).filter(|(name, _)| !KEYS.contains(name)) {
            self.zone.counters.insert(name, count);
        } else if let Some(key) = KEYS.iter().position(|key| words.takes(&[key])) {
            match words.numbers()? {
                (numbers, false) if numbers.len() == 1 => self.values[key] = Some(numbers[0]),
                _ => return Err(words.unexpected(format!("`{}` and one number", KEYS[key]))),
            }
        }
        Ok(())
    }

    fn finish(self) -> Result<Zone, TextError> {
        let [free, boost, min, low, high, present, managed, spanned] = self.values;
        let place = format!("node {}, zone {}", self.zone.node.0, self.zone.name);
        let need = |value: Option<u64>, key: &str| {
            value.ok_or_else(|| TextError::Missing { missing: format!("`{key}` of {place}") })
        };
        let present = need(present, "present")?;
        Ok(Zone {
            free: need(free, "pages free")?,
            boost: boost.unwrap_or(0),
            min: need(min, "min")?,
            low: need(low, "low")?,
            high: need(high, "high")?,
            spanned: spanned.unwrap_or(0),
            present,
            managed: managed.unwrap_or(present),
            ..self.zone
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "Node 0, zone      DMA\n  per-node stats\n      nr_inactive_anon 3362\n      nr_active_anon 436\n\
        \x20 pages free     3840\n        boost    1\n        min      16\n        low      20\n        high     24\n        promo    28\n\
        \x20       spanned  4095\n        present  3998\n        managed  3840\n        cma      0\n        protection: (0, 3154, 15891, 15891)\n\
        \x20     nr_free_pages 3840\n  pagesets\n    cpu: 0\n              count:    7\n              high:  99\n              high 98\n\
        \x20 node_unreclaimable:  0\n  start_pfn:           1\n\
        Node 1, zone   Normal\n  pages free     9\n        min      1\n        low      2\n        high     3\n        present  10\n";

    #[test]
    fn zones_and_nodes() {
        let found = parse(TEXT).unwrap();
        let [dma, normal] = found.zones.as_slice() else { panic!("two zones: {found:?}") };
        assert_eq!((dma.free, dma.boost, dma.min, dma.low, dma.high), (3840, 1, 16, 20, 24));
        assert_eq!((dma.spanned, dma.present, dma.managed), (4095, 3998, 3840));
        assert_eq!(found.nodes[&NodeId(0)].get("nr_active_anon"), Some(436));
        assert_eq!((dma.counters.get("nr_free_pages"), dma.counters.get("promo")), (Some(3840), Some(28)));
        assert_eq!((normal.node, normal.free, normal.boost), (NodeId(1), 9, 0));
        for text in [
            "",
            "garbage",
            "Node",
            "Node 0, zone",
            "Node x, zone DMA",
            "Node 0, zone DMA\n pages free x",
            "Node x, zone",
            "Node 0, zone\n  pages free",
        ] {
            assert!(parse(text).is_err() && parse(&format!("{text}\n")).is_err(), "{text}");
        }
    }
}
