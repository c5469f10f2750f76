//! NUMA nodes and their zones: where free pages are.

use super::buddy::MigrateType;
use super::watermarks::Watermarks;
use super::{FrameId, Frames, LatencyClasses, Mark, NodeSetup, Zone};
use crate::compaction::ZoneRun;
use std::sync::Arc;

/// Index of a NUMA node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(pub(crate) u8);

impl NodeId {
    /// The node with this number, from 0. Whether a machine has it, [`Nodes::find`] knows.
    pub const fn new(number: u8) -> Self {
        Self(number)
    }
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// Why there is no block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoBlock {
    /// Too little is free.
    Watermark,
    /// Enough is free, but in smaller blocks.
    Fragmented,
}

/// A node: zones from low to high.
#[derive(Clone, Debug)]
pub struct Node {
    /// Zones, lowest addresses first. Allocation prefers the last.
    pub zones: Vec<Zone>,
    /// Latency of a memory access in ns.
    pub latency_ns: u64,
    /// Bytes a second in 10^6; `None`: more than is ever used.
    pub bandwidth_mb_per_s: Option<u64>,
    /// Its daemon keeps free memory above the promo watermark, not only above the high watermark.
    pub promo_watermark: bool,
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
    /// Where reclaim of a zone stops.
    pub fn stop_mark(&self, zone: &Zone) -> u64 {
        if self.promo_watermark { zone.marks.promo } else { zone.marks.high }
    }
    /// Whether some zone has more free pages than where reclaim stops: kswapd may sleep.
    pub fn is_balanced(&self) -> bool {
        self.zones.iter().any(|zone| zone.free() > self.stop_mark(zone))
    }
    /// Whether `pages` more could be taken and some zone would keep more than its high watermark free.
    pub fn has_room_above_high(&self, pages: u64) -> bool {
        self.zones.iter().any(|zone| zone.free() > zone.marks.high + pages)
    }
    /// Pages that a kswapd run aims to scan: the high watermarks, at least 32 pages a zone (docs/spec/classic-lru.md#s7-4).
    pub fn kswapd_target(&self) -> u64 {
        self.zones.iter().map(|zone| zone.marks.high.max(32)).sum()
    }
    /// Pages by which the marks of its zones are boosted.
    pub fn boost(&self) -> u64 {
        self.zones.iter().map(Zone::boost).sum()
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
#[derive(Clone, Debug)]
pub struct Nodes {
    nodes: Vec<Node>,
    /// Pages that compressed swap occupies.
    nr_hidden: u64,
    /// Where nodes differ in latency.
    classes: Option<Arc<LatencyClasses>>,
}

impl Nodes {
    /// Lays out nodes; `marks` gives the watermarks of each zone in the same order.
    pub fn new(frames: &mut Frames, layout: &[NodeSetup], marks: &Watermarks) -> Self {
        let mut first = 0u32;
        let mut marks = marks.zones.iter().copied();
        let mut node = |setup: &NodeSetup| {
            let zones = setup.zones.iter().map(|size| {
                let managed = u32::try_from(size.get()).expect("the machine's size was checked");
                let zone = Zone::new(frames, first, managed, marks.next().expect("one set of marks a zone"));
                first += managed;
                zone
            });
            let NodeSetup { latency_ns, bandwidth_mb_per_s, .. } = *setup;
            Node { zones: zones.collect(), latency_ns, bandwidth_mb_per_s, promo_watermark: false }
        };
        let nodes: Vec<Node> = layout.iter().map(&mut node).collect();
        debug_assert!(first as usize <= frames.len(), "zones are made of the machine's frames");
        let firsts: Vec<(u32, u64)> = nodes.iter().map(|node| (node.zones[0].first, node.latency_ns)).collect();
        let classes = LatencyClasses::new(&firsts, |node| layout[node].loaded);
        Self { nodes, nr_hidden: 0, classes: classes.map(Arc::new) }
    }

    /// Kinds of memory that differ in latency; `None` where all cost the same.
    pub fn classes(&self) -> Option<&Arc<LatencyClasses>> {
        self.classes.as_ref()
    }

    /// The class of latency that a frame is in; 0 where all nodes cost the same.
    pub fn class_of(&self, frame: FrameId) -> usize {
        self.classes.as_ref().map_or(0, |classes| usize::from(classes.of(frame)))
    }

    /// Number of nodes.
    #[inline]
    pub fn len(&self) -> usize {
        self.nodes.len()
    }
    /// Whether there is none; never true in a machine.
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }
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
        if self.nodes.len() == 1 { NodeId(0) } else { self.search(frame) }
    }

    fn search(&self, frame: FrameId) -> NodeId {
        let after = self.nodes.partition_point(|node| node.zones[0].first <= frame.index_u32());
        debug_assert!(after > 0, "node 0 owns the first frame");
        NodeId(u8::try_from(after - 1).expect("few nodes"))
    }

    /// Sets whether daemons keep free memory above the promo watermark (the tiering mode of NUMA balancing).
    pub fn set_promo_watermark(&mut self, wanted: bool) {
        self.nodes.iter_mut().for_each(|node| node.promo_watermark = wanted);
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
    pub fn take(&mut self, frames: &mut Frames, node: NodeId, mark: Mark) -> Option<FrameId> {
        if let Some(frame) = self.take_one_at_hand(node, mark) {
            return Some(frame);
        }
        let zones = &mut self.nodes[node.index()].zones;
        let highest = zones.len() - 1;
        zones.iter_mut().enumerate().rev().find_map(|(index, zone)| {
            if zone.free() > zone.keeps(mark, index == highest) { zone.take(frames) } else { None }
        })
    }

    /// The same, if the highest zone has one at hand.
    #[inline]
    pub fn take_one_at_hand(&mut self, node: NodeId, mark: Mark) -> Option<FrameId> {
        let zone = self.nodes[node.index()].zones.last_mut().expect("a node has a zone");
        if zone.free() > zone.keeps(mark, true) { zone.take_at_hand() } else { None }
    }

    /// How many frames, at most `most`, [`take`](Self::take) finds at hand in the highest zone.
    pub(crate) fn several_at_hand(&self, node: NodeId, mark: Mark, most: usize) -> usize {
        let zone = self.nodes[node.index()].zones.last().expect("a node has a zone");
        zone.several_at_hand(most, zone.keeps(mark, true))
    }

    /// Takes one of [`several_at_hand`](Self::several_at_hand).
    #[inline]
    pub(crate) fn take_at_hand(&mut self, node: NodeId) -> FrameId {
        let zone = self.nodes[node.index()].zones.last_mut().expect("a node has a zone");
        zone.take_at_hand().expect("it was counted")
    }

    /// Takes a free block of 2^`order` pages for movable memory, if a zone keeps more than `mark` free without it and has such
    /// a block. Higher zones first.
    ///
    /// # Errors
    /// The reason why there is none.
    pub fn take_block(
        &mut self,
        frames: &mut Frames,
        node: NodeId,
        order: u32,
        mark: Mark,
    ) -> Result<FrameId, NoBlock> {
        let zones = &mut self.nodes[node.index()].zones;
        let highest = zones.len() - 1;
        let mut why = NoBlock::Watermark;
        for (index, zone) in zones.iter_mut().enumerate().rev() {
            let left =
                zone.free_in_blocks().saturating_sub(1_u64.checked_shl(order).map_or(u64::MAX, |pages| pages - 1));
            if left > zone.keeps(mark, index == highest) {
                match zone.take_block(frames, order, MigrateType::Movable) {
                    Some(block) => return Ok(block),
                    None => why = NoBlock::Fragmented,
                }
            }
        }
        Err(why)
    }

    /// A zone of a node, by its number from the lowest addresses.
    pub(crate) fn zone_mut(&mut self, node: NodeId, zone: usize) -> &mut Zone {
        &mut self.nodes[node.index()].zones[zone]
    }

    /// The node with this number; `None`: there is none.
    pub fn find(&self, number: u32) -> Option<NodeId> {
        u8::try_from(number).ok().map(NodeId).filter(|node| node.index() < self.nodes.len())
    }

    /// Takes the unfinished pass of compaction over a zone, which is numbered from the lowest addresses.
    pub fn take_stepped(&mut self, node: NodeId, zone: usize) -> Option<Box<ZoneRun>> {
        self.zone_mut(node, zone).compaction.stepped.take()
    }

    /// Keeps a pass over a zone that goes on later, in place of the one kept before.
    pub fn keep_stepped(&mut self, node: NodeId, zone: usize, run: Box<ZoneRun>) {
        self.zone_mut(node, zone).compaction.stepped = Some(run);
    }

    /// Whether marks of a zone of node number `node` were raised since the last call.
    pub fn take_boosted_anew(&mut self, node: usize) -> bool {
        self.nodes[node].zones.iter_mut().filter_map(|zone| zone.take_boosted_anew().then_some(())).count() > 0
    }

    /// Gives a block back.
    pub fn give_block(&mut self, frames: &mut Frames, frame: FrameId, order: u32) {
        self.zone_of(frame).give_block(frames, frame, order);
    }

    /// Puts pages that are at hand on a node back among free blocks. How many there were.
    pub fn drain(&mut self, frames: &mut Frames, node: NodeId) -> usize {
        self.nodes[node.index()].zones.iter_mut().map(|zone| zone.drain(frames)).sum()
    }

    /// Gives a frame back.
    #[inline]
    pub fn give(&mut self, frames: &mut Frames, frame: FrameId) {
        self.zone_of(frame).give(frames, frame);
    }

    /// Up to `pages` frames are about to be given back by [`give`](Self::give); [`settle`](Self::settle) has to follow.
    pub fn expect(&mut self, pages: u64) {
        self.zones_mut().for_each(|zone| zone.expect(pages));
    }

    /// All frames of [`expect`](Self::expect) were given back: the collected frames become free blocks.
    pub fn settle(&mut self, frames: &mut Frames) {
        self.zones_mut().for_each(|zone| zone.settle(frames));
    }

    fn zones_mut(&mut self) -> impl Iterator<Item = &mut Zone> {
        self.nodes.iter_mut().flat_map(|node| &mut node.zones)
    }

    pub(crate) fn zone_of_mut(&mut self, frame: FrameId) -> &mut Zone {
        self.zone_of(frame)
    }

    #[inline]
    fn zone_of(&mut self, frame: FrameId) -> &mut Zone {
        let node = self.of(frame);
        let zones = &mut self.nodes[node.index()].zones;
        let at = zones.iter().rposition(|zone| zone.first <= frame.index_u32()).expect("a frame of the node");
        &mut zones[at]
    }

    /// The end of the free block in which a frame lies; `None`: it lies in none.
    pub fn free_until(&self, frame: FrameId) -> Option<u32> {
        let zones = &self.nodes[self.of(frame).index()].zones;
        let zone = zones.iter().rev().find(|zone| zone.first <= frame.index_u32())?;
        zone.buddy().free_until(frame)
    }

    fn zones(&self) -> impl Iterator<Item = &Zone> {
        self.nodes.iter().flat_map(|node| &node.zones)
    }

    /// Frames in use: neither free nor set aside for compressed swap.
    pub fn nr_used(&self) -> u64 {
        self.zones().map(Zone::used).sum()
    }

    /// Frames that were used and given back.
    pub fn given_back<'a>(&'a self, frames: &'a Frames) -> impl Iterator<Item = FrameId> + 'a {
        self.zones().flat_map(move |zone| zone.given_back(frames))
    }

    /// Sets how many pages compressed swap occupies; they are taken from the zone with the most free pages of node 0
    /// first and from other nodes after it.
    #[inline]
    pub fn set_hidden(&mut self, pages: u64) {
        // Mostly nothing changed, and the first zone holds all of it: it has room for that, as frames are only taken from the
        // rest.
        if self.nr_hidden != pages || self.nodes[0].zones.last().expect("a node has a zone").hidden != pages {
            self.spread_hidden(pages);
        }
    }

    fn spread_hidden(&mut self, pages: u64) {
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
        debug_assert!(
            self.nodes.iter().flat_map(|node| &node.zones).map(|zone| zone.hidden).sum::<u64>() + left == pages,
            "what is hidden lies in one zone each"
        );
    }
}
