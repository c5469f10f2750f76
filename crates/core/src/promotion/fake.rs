//! A host for tests of promotion: spaces whose pages are kept one by one, on nodes that fill up, with failures on demand.

use super::{Bit, Flow, PageMarks, Promotion, ScanFilter, ScannedPage, Thread, TimeoutReport};
use crate::host::{
    AddressRange, Area, AreaKind, Capabilities, HostError, Level, MoveOrder, NodeId, NodeMemory, PageMove, Probe,
    ProbeResult, Probing, Scanned, Seen, TargetId, TierNode, Tiering, TieringCapabilities,
};
use isotherm_units::{Duration, Instant};
use std::collections::{BTreeMap, BTreeSet};

const PAGE: u64 = 4096;
/// Pages under one table of leaves.
const TABLE: u64 = 512;
const GIB_SHIFT: u32 = 30;

/// A folio, kept at its first page.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Folio {
    pub(crate) node: u32,
    pub(crate) pages: u32,
    pub(crate) accessed: bool,
    pub(crate) marks: PageMarks,
    /// The answer of a move in place of moving.
    pub(crate) refuses: Option<PageMove>,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Space {
    pub(crate) areas: Vec<Area>,
    pub(crate) folios: BTreeMap<u64, Folio>,
    /// Touched whenever time passes.
    pub(crate) hot: Vec<AddressRange>,
    /// All other pages are there as well, on that node, scanned before and never touched.
    pub(crate) background: Option<u32>,
    /// A writer holds its mappings.
    pub(crate) is_locked: bool,
    /// Entries of 1 GiB that were used since they were cleared.
    used_gib: BTreeSet<u64>,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Node {
    pub(crate) is_top_tier: bool,
    /// In pages, as all here.
    pub(crate) present: u64,
    pub(crate) used: u64,
    pub(crate) high: u64,
}

#[derive(Clone, Debug)]
pub(crate) struct World {
    pub(crate) spaces: BTreeMap<TargetId, Space>,
    pub(crate) nodes: Vec<Node>,
    pub(crate) lacks: fn(&mut TieringCapabilities),
    /// The highest level whose bits are meaningful: 2 for entries of 1 GiB.
    pub(crate) highest_level: Level,
    /// Calls that fail, by name.
    pub(crate) failing: Option<&'static str>,
    /// The space that exits when it is called so the next time.
    pub(crate) dies_in: Option<(&'static str, TargetId)>,
    /// Folios moved since the start, by the world's own count.
    pub(crate) moves: u64,
    /// Times that reclaim of a node was woken.
    pub(crate) wakes: u64,
    /// Pages shown to filters one by one or in bulk.
    pub(crate) shown: u64,
}

impl World {
    /// Node 0 is fast, node 1 slow, both large.
    pub(crate) fn new() -> Self {
        let node = |is_top_tier| Node { is_top_tier, present: 1 << 30, used: 0, high: 0 };
        Self {
            spaces: BTreeMap::new(),
            nodes: vec![node(true), node(false)],
            lacks: |_| {},
            highest_level: Level::LEAF,
            failing: None,
            dies_in: None,
            moves: 0,
            wakes: 0,
            shown: 0,
        }
    }

    /// A space with eligible areas of these bytes.
    pub(crate) fn map(&mut self, target: u32, areas: &[(u64, u64)]) -> &mut Space {
        let area = |&(start, end)| Area { range: AddressRange::new(start, end), kind: AreaKind::default() };
        let space = self.spaces.entry(TargetId(target)).or_default();
        space.areas = areas.iter().map(area).collect();
        space
    }

    pub(crate) fn space(&mut self, target: u32) -> &mut Space {
        self.spaces.get_mut(&TargetId(target)).expect("a space that was made")
    }

    /// Puts base pages of a range on a node.
    pub(crate) fn fill(&mut self, target: u32, start: u64, pages: u64, node: u32) {
        for page in 0..pages {
            self.put(target, start + page * PAGE, 1, node);
        }
    }

    /// Puts a folio on a node.
    pub(crate) fn put(&mut self, target: u32, address: u64, pages: u32, node: u32) {
        let folio = Folio { node, pages, accessed: false, marks: PageMarks::default(), refuses: None };
        let old = self.space(target).folios.insert(address / PAGE, folio);
        assert!(old.is_none(), "two folios at {address:#x}");
        self.nodes[node as usize].used += u64::from(pages);
    }

    /// Time passes: hot ranges are touched.
    pub(crate) fn run(&mut self) {
        for space in self.spaces.values_mut() {
            for hot in space.hot.clone() {
                space.used_gib.extend(hot.start >> GIB_SHIFT..hot.end.div_ceil(1 << GIB_SHIFT));
                for folio in space.folios.range_mut(hot.start / PAGE..hot.end / PAGE) {
                    folio.1.accessed = true;
                }
            }
        }
    }

    pub(crate) fn refuse_all(&mut self, target: u32, answer: PageMove) {
        self.space(target).folios.values_mut().for_each(|folio| folio.refuses = Some(answer));
    }

    pub(crate) fn end(&mut self, target: TargetId) {
        for folio in self.spaces.remove(&target).into_iter().flat_map(|space| space.folios.into_values()) {
            self.nodes[folio.node as usize].used -= u64::from(folio.pages);
        }
    }

    /// Each page is on one node, and the nodes' counts are their sums.
    pub(crate) fn check(&self) {
        let mut used = vec![0; self.nodes.len()];
        for space in self.spaces.values() {
            let mut end = 0;
            for (&page, folio) in &space.folios {
                assert!(page >= end, "folios overlap at page {page}");
                end = page + u64::from(folio.pages);
                used[folio.node as usize] += u64::from(folio.pages);
            }
        }
        for (node, used) in self.nodes.iter().zip(used) {
            assert_eq!(node.used, used, "pages on a node");
            assert!(node.used <= node.present, "a node is over-full");
        }
    }

    fn called(&mut self, call: &'static str, target: TargetId) -> Result<&mut Space, HostError> {
        if self.dies_in == Some((call, target)) {
            self.end(target);
        }
        if self.failing == Some(call) {
            return Err(HostError::Failed("as the test wants".to_owned()));
        }
        self.spaces.get_mut(&target).ok_or(HostError::Gone(target))
    }

    fn peek(
        &mut self,
        call: &'static str,
        target: TargetId,
        probes: &[Probe],
        results: &mut [ProbeResult],
    ) -> Result<(), HostError> {
        let space = self.called(call, target)?;
        let is_background = space.background.is_some();
        for (probe, result) in probes.iter().zip(results) {
            if probe.level > Level::LEAF {
                assert_eq!(probe.level, Level(2), "no other is kept");
                let entry = probe.address >> GIB_SHIFT;
                let is_used =
                    if call == "test" { space.used_gib.contains(&entry) } else { space.used_gib.remove(&entry) };
                *result = ProbeResult { seen: if is_used { Seen::Accessed } else { Seen::Idle }, level: probe.level };
                continue;
            }
            let page = probe.address / PAGE;
            let folio = space.folios.range_mut(..=page).next_back();
            let folio = folio.filter(|(first, folio)| *first + u64::from(folio.pages) > page);
            let seen = match folio {
                Some((_, folio)) if folio.accessed => {
                    folio.accessed = call == "test";
                    Seen::Accessed
                }
                Some(_) => Seen::Idle,
                None if is_background => Seen::Idle,
                None => Seen::NotMapped,
            };
            *result = ProbeResult { seen, level: Level::LEAF };
        }
        Ok(())
    }

    fn move_one(&mut self, target: TargetId, page: u64, order: &MoveOrder<'_>) -> PageMove {
        let nodes = &mut self.nodes;
        let space = self.spaces.get_mut(&target).expect("looked up by the caller");
        let below = space.folios.range_mut(..=page).next_back();
        let covering = below.filter(|(start, folio)| page - **start < u64::from(folio.pages));
        let Some((_, folio)) = covering else { return PageMove::NotPresent };
        let to = &nodes[order.to.0 as usize];
        let pages = u64::from(folio.pages);
        if folio.node == order.to.0 {
            return PageMove::SameNode;
        }
        if nodes[folio.node as usize].is_top_tier {
            return PageMove::TopTier;
        }
        if let Some(refusal) = folio.refuses {
            return refusal;
        }
        let free = to.present - to.used;
        if order.keeps_high_watermark && free <= to.high + pages {
            self.wakes += 1;
            return PageMove::BelowWatermark;
        }
        if free < pages {
            return PageMove::Full;
        }
        nodes[order.to.0 as usize].used += pages;
        nodes[folio.node as usize].used -= pages;
        folio.node = order.to.0;
        self.moves += 1;
        PageMove::Moved(folio.pages)
    }
}

/// Shows the pages of a range. `Some`: where the filter stopped it. Tables without any page are skipped.
fn show(space: &mut Space, range: AddressRange, filter: &mut ScanFilter, shown: &mut u64) -> Option<u64> {
    let (mut page, end) = (range.start / PAGE, range.end / PAGE);
    if let Some(node) = space.background {
        let listed: u64 = space.folios.range(page..end).map(|(_, folio)| u64::from(folio.pages)).sum();
        filter.see_idle(NodeId(node), end - page - listed);
        *shown += end - page;
        space.folios.range_mut(page..end).for_each(|(&page, folio)| see(page, folio, filter));
        return None;
    }
    while page < end {
        let (table, table_end) = (page / TABLE * TABLE, (page / TABLE + 1) * TABLE);
        if space.folios.range(table..table_end).next().is_none() {
            page = table_end;
            continue;
        }
        while page < table_end.min(end) {
            if let Some(folio) = space.folios.get_mut(&page) {
                see(page, folio, filter);
                *shown += u64::from(folio.pages);
                page += u64::from(folio.pages);
            } else if filter.hole() == Flow::Stop {
                return Some(page * PAGE);
            } else {
                page += 1;
            }
        }
    }
    None
}

fn see(page: u64, folio: &mut Folio, filter: &mut ScanFilter) {
    let seen = ScannedPage { pages: folio.pages, ..ScannedPage::new(page * PAGE, NodeId(folio.node), folio.accessed) };
    if filter.see(&seen, &mut folio.marks) == Bit::Clear {
        folio.accessed = false;
    }
}

impl Probing for World {
    fn capabilities(&self, _: TargetId) -> Capabilities {
        Capabilities { highest_level: self.highest_level, ..Capabilities::four_levels() }
    }

    fn clear(&mut self, target: TargetId, probes: &[Probe], results: &mut [ProbeResult]) -> Result<(), HostError> {
        self.peek("clear", target, probes, results)
    }

    fn test(&mut self, target: TargetId, probes: &[Probe], results: &mut [ProbeResult]) -> Result<(), HostError> {
        self.peek("test", target, probes, results)
    }
}

impl Tiering for World {
    fn tiering_capabilities(&self) -> TieringCapabilities {
        let tier = |(number, node): (u32, &Node)| TierNode {
            node: NodeId(number),
            is_top_tier: node.is_top_tier,
            has_memory: node.present > 0,
        };
        let mut capabilities = TieringCapabilities {
            nodes: (0..).zip(&self.nodes).map(tier).collect(),
            spaces: true,
            scan_accessed: true,
            page_nodes: true,
            node_memory: true,
            migrate: true,
            knows_active: true,
        };
        (self.lacks)(&mut capabilities);
        capabilities
    }

    fn spaces(&mut self, out: &mut Vec<TargetId>) -> Result<(), HostError> {
        out.extend(self.spaces.keys());
        Ok(())
    }

    fn areas(&mut self, target: TargetId, out: &mut Vec<Area>) -> Result<(), HostError> {
        let space = self.called("areas", target)?;
        if space.is_locked {
            return Err(HostError::Failed("its mappings are being changed".to_owned()));
        }
        out.extend_from_slice(&space.areas);
        Ok(())
    }

    fn scan_accessed(
        &mut self,
        target: TargetId,
        range: AddressRange,
        filter: &mut ScanFilter,
    ) -> Result<Scanned, HostError> {
        let mut shown = 0;
        let next = show(self.called("scan_accessed", target)?, range, filter, &mut shown).unwrap_or(range.end);
        self.shown += shown;
        Ok(Scanned { next, spent: Duration::from_ns(15 * shown) })
    }

    fn page_nodes(&mut self, target: TargetId, addresses: &[u64], out: &mut [Option<NodeId>]) -> Result<(), HostError> {
        let space = self.called("page_nodes", target)?;
        for (address, node) in addresses.iter().zip(out) {
            let page = address / PAGE;
            let below = space.folios.range(..=page).next_back();
            let folio = below.filter(|(start, folio)| page - **start < u64::from(folio.pages));
            *node = folio.map(|(_, folio)| NodeId(folio.node)).or(space.background.map(NodeId));
        }
        Ok(())
    }

    fn migrate(
        &mut self,
        target: TargetId,
        order: &MoveOrder<'_>,
        results: &mut [PageMove],
    ) -> Result<Duration, HostError> {
        self.called("migrate", target)?;
        for (address, result) in order.pages.iter().zip(results.iter_mut()) {
            *result = self.move_one(target, address / PAGE, order);
        }
        Ok(Duration::from_us(6).saturating_mul(results.len() as u64))
    }

    fn node_memory(&mut self, node: NodeId) -> Result<Option<NodeMemory>, HostError> {
        let of = |node: &Node| NodeMemory {
            present: node.present,
            free: node.present - node.used,
            high: node.high,
            promo: node.high,
        };
        Ok(self.nodes.get(node.0 as usize).filter(|node| node.present > 0).map(of))
    }
}

/// Runs both threads up to `until`, with no time for themselves. Memory is touched as often as the clock moves. `each` sees every
/// step.
pub(crate) fn drive(
    promotion: &mut Promotion,
    world: &mut World,
    from: Instant,
    until: Instant,
    mut each: impl FnMut(&Promotion, &mut World, Instant, TimeoutReport) -> bool,
) -> Instant {
    let mut now = from;
    world.run();
    while let Some((at, thread)) = promotion.next_timeout() {
        if at > until {
            break;
        }
        if at > now {
            now = at;
            world.run();
        }
        let step = promotion.handle_timeout(thread, now, world);
        if !each(promotion, world, now, step) {
            return now;
        }
        assert!(thread == Thread::Scan || promotion.config().mode() != super::Mode::V0, "v0 has one thread");
    }
    now.max(until)
}
