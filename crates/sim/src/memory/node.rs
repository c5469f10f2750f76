//! NUMA nodes, their zones, free frames and watermarks.

use super::FrameId;
use super::watermarks::{Watermarks, ZoneWatermarks};
use isotherm_units::Pages;

/// Index of a NUMA node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(pub(crate) u8);

impl NodeId {
    /// As an index.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// How deep an allocation may go into the reserve of a zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mark {
    /// Fast path: free memory stays above the low watermark.
    Low,
    /// Slow path: above the min watermark.
    Min,
    /// Reclaimers and victims of the out-of-memory killer: everything.
    Nothing,
}

/// A zone: frames `first..first + managed` and the count of free ones.
#[derive(Debug)]
pub struct Zone {
    first: u32,
    managed: u32,
    /// Frames from here on were never used.
    unused_from: u32,
    /// Frames given back, last in first out.
    freed: Vec<u32>,
    /// Frames taken without identity: memory of compressed swap.
    hidden: u64,
    /// Watermarks in pages.
    pub marks: ZoneWatermarks,
}

impl Zone {
    fn new(first: u32, managed: u32, marks: ZoneWatermarks) -> Self {
        Self { first, managed, unused_from: first, freed: Vec::new(), hidden: 0, marks }
    }
    /// Frames of the zone.
    pub fn managed(&self) -> u64 {
        u64::from(self.managed)
    }
    /// Free pages.
    #[inline]
    pub fn free(&self) -> u64 {
        (u64::from(self.first + self.managed - self.unused_from) + self.freed.len() as u64).saturating_sub(self.hidden)
    }
    /// Pages that an allocation at `mark` leaves free.
    #[inline]
    fn keeps(&self, mark: Mark, is_highest: bool) -> u64 {
        let reserve = if is_highest { 0 } else { self.marks.lowmem_reserve };
        match mark {
            Mark::Low => self.marks.low + reserve,
            Mark::Min => self.marks.min + reserve,
            Mark::Nothing => 0,
        }
    }
    #[inline]
    fn take(&mut self) -> Option<FrameId> {
        if self.free() == 0 {
            return None;
        }
        let index = self.freed.pop().or_else(|| {
            let end = self.first + self.managed;
            (self.unused_from < end).then(|| {
                self.unused_from += 1;
                self.unused_from - 1
            })
        })?;
        Some(FrameId::new(index))
    }
}

/// A node: zones from low to high.
#[derive(Debug)]
pub struct Node {
    /// Zones, lowest addresses first. Allocation prefers the last.
    pub zones: Vec<Zone>,
    /// Latency of a memory access in ns.
    pub latency_ns: u64,
}

impl Node {
    /// Free pages of all zones.
    pub fn free(&self) -> u64 {
        self.zones.iter().map(Zone::free).sum()
    }
    /// Frames of all zones.
    pub fn managed(&self) -> u64 {
        self.zones.iter().map(Zone::managed).sum()
    }
    /// Whether some zone has more free pages than its high watermark: kswapd may sleep.
    pub fn is_balanced(&self) -> bool {
        self.zones.iter().any(|zone| zone.free() > zone.marks.high)
    }
    /// What a kswapd run aims to scan: the high watermarks, at least 32 pages a zone (spec classic-lru 7.4).
    pub fn kswapd_target(&self) -> u64 {
        self.zones.iter().map(|zone| zone.marks.high.max(32)).sum()
    }
    /// Sum of the min watermarks.
    pub fn min_marks(&self) -> u64 {
        self.zones.iter().map(|zone| zone.marks.min).sum()
    }
    /// Sum of the high watermarks.
    pub fn high_marks(&self) -> u64 {
        self.zones.iter().map(|zone| zone.marks.high).sum()
    }
}

/// All nodes. Node 0 owns the first frames.
#[derive(Debug)]
pub struct Nodes {
    nodes: Vec<Node>,
    /// Pages that compressed swap occupies.
    nr_hidden: u64,
}

impl Nodes {
    /// Lays out nodes of `(zone sizes, latency in ns)`; `marks` gives the watermarks of each zone in the same order.
    pub fn new(layout: &[(Vec<Pages>, u64)], marks: &Watermarks) -> Self {
        let mut first = 0u32;
        let mut marks = marks.zones.iter().copied();
        let node = |(sizes, latency_ns): &(Vec<Pages>, u64)| {
            let zones = sizes.iter().map(|size| {
                let managed = u32::try_from(size.get()).expect("the machine's size was checked");
                let zone = Zone::new(first, managed, marks.next().expect("one set of marks a zone"));
                first += managed;
                zone
            });
            Node { zones: zones.collect(), latency_ns: *latency_ns }
        };
        Self { nodes: layout.iter().map(node).collect(), nr_hidden: 0 }
    }

    /// How many nodes.
    pub fn len(&self) -> usize {
        self.nodes.len()
    }
    /// Whether there is none; never true in a machine.
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }
    /// A node.
    pub fn get(&self, node: NodeId) -> &Node {
        &self.nodes[node.index()]
    }
    /// All nodes with their numbers.
    pub fn iter(&self) -> impl Iterator<Item = (NodeId, &Node)> {
        self.nodes.iter().enumerate().map(|(index, node)| (NodeId(u8::try_from(index).expect("few nodes")), node))
    }
    /// Node numbers.
    pub fn ids(&self) -> impl Iterator<Item = NodeId> + use<> {
        (0..u8::try_from(self.nodes.len()).expect("few nodes")).map(NodeId)
    }
    /// The node that owns the frame.
    #[inline]
    pub fn of(&self, frame: FrameId) -> NodeId {
        if self.nodes.len() == 1 {
            return NodeId(0);
        }
        let after = self.nodes.partition_point(|node| node.zones[0].first <= frame.index_u32());
        NodeId(u8::try_from(after - 1).expect("few nodes"))
    }

    /// Whether [`take`](Self::take) would find a frame.
    #[inline]
    pub fn has(&self, node: NodeId, mark: Mark) -> bool {
        let zones = &self.nodes[node.index()].zones;
        let highest = zones.len() - 1;
        zones.iter().enumerate().rev().any(|(index, zone)| zone.free() > zone.keeps(mark, index == highest))
    }

    /// Takes a free frame from `node`, if a zone has more than `mark` free. Higher zones first; a lower zone keeps its
    /// `lowmem_reserve` on top of the mark.
    #[inline]
    pub fn take(&mut self, node: NodeId, mark: Mark) -> Option<FrameId> {
        let zones = &mut self.nodes[node.index()].zones;
        let highest = zones.len() - 1;
        zones
            .iter_mut()
            .enumerate()
            .rev()
            .find_map(|(index, zone)| if zone.free() > zone.keeps(mark, index == highest) { zone.take() } else { None })
    }

    /// Gives a frame back.
    #[inline]
    pub fn give(&mut self, frame: FrameId) {
        let node = self.of(frame);
        let zones = &mut self.nodes[node.index()].zones;
        let zone = zones.iter_mut().rev().find(|zone| zone.first <= frame.index_u32());
        zone.expect("a frame of the node").freed.push(frame.index_u32());
    }

    /// Frames in use: neither free nor set aside for compressed swap.
    pub fn nr_used(&self) -> u64 {
        let zones = self.nodes.iter().flat_map(|node| &node.zones);
        zones.map(|zone| u64::from(zone.unused_from - zone.first) - zone.freed.len() as u64).sum()
    }
    /// Frames that were used and given back.
    pub fn given_back(&self) -> impl Iterator<Item = FrameId> + '_ {
        self.nodes.iter().flat_map(|node| &node.zones).flat_map(|zone| zone.freed.iter().copied().map(FrameId::new))
    }

    /// Sets how many pages compressed swap occupies; they are taken from the zone with the most free pages of node 0
    /// first and from other nodes after it.
    #[inline]
    pub fn set_hidden(&mut self, pages: u64) {
        // Mostly nothing changed, and the first zone holds all of it: it has room for that, for frames are only taken from
        // what is left.
        let first = self.nodes[0].zones.last().expect("a node has a zone");
        if first.hidden == pages && self.nr_hidden == pages {
            return;
        }
        self.nr_hidden = pages;
        let mut left = pages;
        for node in &mut self.nodes {
            for zone in node.zones.iter_mut().rev() {
                zone.hidden = 0;
                let share = left.min(zone.free());
                zone.hidden = share;
                left -= share;
            }
        }
    }
}
