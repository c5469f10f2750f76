//! Requests of promotion between tiers to simulated memory: areas, scans of accessed bits, nodes of pages, moves.

use super::folios::{Folio, YoungBlocks};
use super::{HostTarget, MemoryHost};
use isotherm_core::host::{
    AddressRange, Area, AreaKind, Flow, HostError, MoveOrder, NodeId as HostNode, NodeMemory, Order, PageMarks,
    PageMove, ScanFilter, Scanned, ScannedPage, TargetId, TierNode, TieringCapabilities,
};
use isotherm_core::promotion::Bit;
use isotherm_core::schemes::{choose, interleave_index};
use isotherm_kernel::memory::{Flag, FrameId, Memory, NodeId};
use isotherm_kernel::migrate::NodeMove;
use isotherm_kernel::mmu::{DensePage, Entry, Level, SpaceId, Vma};
use isotherm_units::access::Backing;
use isotherm_units::{Duration, PAGE_SHIFT, PageRange};
use std::collections::BTreeMap;

/// Why pages of a baseline cannot be moved.
const BASELINE: &str = "page-exact baselines know pages by their frames, which a move would change";

impl MemoryHost<'_> {
    pub(super) fn offers_for_tiers(&self) -> TieringCapabilities {
        let node = |node: NodeId| TierNode {
            node: host_node(node),
            is_top_tier: self.memory.tiers.is_top(node),
            has_memory: true,
        };
        TieringCapabilities {
            nodes: self.memory.nodes.ids().map(node).collect(),
            spaces: true,
            scan_accessed: true,
            page_nodes: true,
            node_memory: true,
            migrate: !self.policy.is_exact(),
            knows_active: self.policy.knows_active(),
        }
    }

    /// Targets that are processes and live.
    pub(super) fn living_spaces(&self, out: &mut Vec<TargetId>) {
        let lives = |target: &HostTarget| match target {
            HostTarget::Space(space) => self.memory.space(*space).alive,
            HostTarget::Physical => false,
        };
        let targets = (0..).zip(self.targets);
        out.extend(targets.filter(|(_, target)| lives(target)).map(|(number, _)| TargetId(number)));
    }

    pub(super) fn areas_of(&mut self, space: SpaceId, out: &mut Vec<Area>) {
        let before = out.len();
        let owner = self.memory.space(space);
        let area = |vma: &Vma| {
            let pages = vma.pages();
            // Program text is mapped to be read; other file mappings may be written.
            let is_file = matches!(vma.mapping.backing, Backing::File { .. });
            let kind = AreaKind {
                is_read_only_file: is_file && vma.mapping.executable,
                is_bound: owner.is_bound,
                ..AreaKind::default()
            };
            Area { range: AddressRange::new(pages.start << PAGE_SHIFT, pages.end << PAGE_SHIFT), kind }
        };
        out.extend(owner.vmas.iter().map(area));
        let nr_read = (out.len() - before) as u64;
        self.memory.ledger.spend(nr_read * self.memory.costs.read_mapping_ns());
    }

    /// Shows the pages of a range to the filter, table by table.
    pub(super) fn scan_space(&mut self, space: SpaceId, range: AddressRange, filter: &mut ScanFilter) -> Scanned {
        let before = self.memory.ledger.peek();
        let pages = PageRange::new(range.start >> PAGE_SHIFT, range.end.div_ceil(1 << PAGE_SHIFT));
        let shift = Level::PMD.span_shift();
        let blocks = PageRange::new(pages.start >> shift, pages.end.div_ceil(Level::PMD.span_pages()));
        let mut next = range.end;
        let (mut block, mut present) = (blocks.start, Vec::with_capacity(512));
        while let Some(found) = self.memory.space(space).table.next_table(PageRange::new(block, blocks.end)) {
            block = found + 1;
            let within = PageRange::at(found << shift, Level::PMD.span_pages()).intersection(pages);
            if self.memory.space(space).huge_blocks.contains(&found) {
                if !filter.splits_huge() {
                    self.show_huge(space, found, filter);
                    continue;
                }
                let first = self.memory.space(space).table.dense(within.start).expect("in a table");
                self.memory.split_huge(space, first);
            }
            let stop = (filter.hole() == Flow::Stop).then(|| self.first_hole(space, within)).flatten();
            let shown = PageRange::new(within.start, stop.unwrap_or(within.end));
            present.clear();
            present.extend(self.memory.space(space).table.present_in(shown));
            self.memory.ledger.spend(shown.len() * self.memory.costs.pte_scan_ns());
            present.iter().for_each(|&dense| self.show(space, dense, filter));
            if let Some(stop) = stop {
                next = stop << PAGE_SHIFT;
                break;
            }
        }
        Scanned { next, spent: Duration::from_ns(self.memory.ledger.peek() - before) }
    }

    /// The first empty entry of the range; an entry of a swapped-out page is not empty.
    fn first_hole(&self, space: SpaceId, range: PageRange) -> Option<u64> {
        let table = &self.memory.space(space).table;
        (range.start..range.end).find(|&page| table.dense(page).is_none_or(|dense| table.entry(dense) == Entry::None))
    }

    fn show(&mut self, space: SpaceId, dense: DensePage, filter: &mut ScanFilter) {
        let memory = &mut *self.memory;
        let table = &memory.spaces[space.index()].table;
        let Some(frame) = table.frame_of(dense) else { return }; // the zero page belongs to no process
        let flags = memory.frames.flags(frame);
        let page = ScannedPage {
            address: table.page_of(dense) << PAGE_SHIFT,
            pages: 1,
            node: host_node(memory.nodes.of(frame)),
            accessed: table.is_young(dense),
            is_locked: flags.has(Flag::FileOwned) && flags.has(Flag::Reading),
            is_unmovable: flags.has(Flag::Unevictable) || !flags.has(Flag::OnList) || is_shared(memory, frame),
        };
        if see(memory, frame, &page, filter) == Bit::Clear {
            memory.spaces[space.index()].table.test_and_clear_young(dense);
        }
    }

    /// A block of 2 MiB under one entry: its first frame represents the folio.
    fn show_huge(&mut self, space: SpaceId, block: u64, filter: &mut ScanFilter) {
        let first = block << Level::PMD.span_shift();
        self.memory.ledger.spend(self.memory.costs.probe_huge_ns());
        let owner = self.memory.space(space);
        let Some(frame) = owner.table.frame_at(first) else { return };
        let page = ScannedPage {
            address: first << PAGE_SHIFT,
            pages: 512,
            node: host_node(self.memory.nodes.of(frame)),
            accessed: owner.table.is_entry_young(Level::PMD, first),
            is_locked: false,
            is_unmovable: !self.is_listed(frame) || self.memory.frames.has(frame, Flag::Unevictable),
        };
        if see(self.memory, frame, &page, filter) == Bit::Clear {
            self.memory.space_mut(space).table.take_entry_young(Level::PMD, first);
        }
    }

    pub(super) fn nodes_of(&mut self, space: SpaceId, addresses: &[u64], out: &mut [Option<HostNode>]) {
        assert_eq!(addresses.len(), out.len(), "one answer an address");
        let table = &self.memory.space(space).table;
        for (&address, node) in addresses.iter().zip(out) {
            *node = table.frame_at(address >> PAGE_SHIFT).map(|frame| host_node(self.memory.nodes.of(frame)));
        }
        self.memory.ledger.spend(addresses.len() as u64 * self.memory.costs.probe_ns());
    }

    pub(super) fn migrate_pages(
        &mut self,
        space: SpaceId,
        order: &MoveOrder<'_>,
        results: &mut [PageMove],
    ) -> Result<Duration, HostError> {
        assert_eq!(order.pages.len(), results.len(), "one result a page");
        let how = NodeMove {
            to: self.node_called(order.to)?,
            together: usize::try_from(order.together).unwrap_or(usize::MAX),
            keeps_high_watermark: order.keeps_high_watermark,
            only_active: order.only_active,
            leaves_shared: order.leaves_shared,
            only_promotes: order.only_promotes,
            leaves_dirty_and_code: true,
        };
        let mut spent = Duration::ZERO;
        let together = how.together.max(1);
        // Batch by batch: a part of a huge page that has moved is where the rest of it went.
        for (addresses, results) in order.pages.chunks(together).zip(results.chunks_mut(together)) {
            let table = &self.memory.space(space).table;
            let at = |address: &u64| table.frame_at(address >> PAGE_SHIFT);
            let folios: Vec<Option<FrameId>> = addresses.iter().map(at).collect();
            spent += self.move_folios(&folios, &how, results)?;
        }
        Ok(spent)
    }

    /// Moves folios to a node. The CPU time that it took.
    pub(super) fn move_folios(
        &mut self,
        folios: &[Option<FrameId>],
        how: &NodeMove,
        results: &mut [PageMove],
    ) -> Result<Duration, HostError> {
        if self.policy.is_exact() {
            return Err(HostError::NotHere(BASELINE));
        }
        let before = self.memory.ledger.peek();
        self.memory.move_to_node(self.policy, folios, how, results);
        Ok(Duration::from_ns(self.memory.ledger.peek() - before))
    }

    /// Moves the pages in these frames to a node, huge pages as a whole (`migrate_hot` and `migrate_cold` of physical memory). Bytes moved.
    pub(super) fn migrate_frames(&mut self, frames: &[FrameId], to: Option<HostNode>) -> Result<u64, HostError> {
        let to = to.ok_or_else(|| HostError::Failed("migration needs a target node (`target_nid`)".to_owned()))?;
        let mut folios: Vec<FrameId> = Vec::with_capacity(frames.len());
        for &frame in frames {
            let first = self.memory.huge_page_of(frame).unwrap_or(frame);
            if folios.last() != Some(&first) {
                folios.push(first);
            }
        }
        let folios: Vec<Option<FrameId>> = folios.into_iter().map(Some).collect();
        self.move_all(&folios, to)
    }

    /// Moves pages that a process maps to one node, or alternately to several (`migrate_hot` and `migrate_cold` of a process). Bytes moved.
    pub(super) fn migrate_range(
        &mut self,
        space: SpaceId,
        range: PageRange,
        order: &mut Order<'_>,
    ) -> Result<u64, HostError> {
        let mapped: Vec<DensePage> = self.memory.space(space).table.present_in(range).collect();
        let mut young = YoungBlocks::default();
        let mut by_node: BTreeMap<HostNode, Vec<Option<FrameId>>> = BTreeMap::new();
        let mut last = None;
        for dense in mapped {
            self.memory.ledger.spend(self.memory.costs.pte_scan_ns());
            let Some(frame) = self.memory.space(space).table.frame_of(dense) else { continue };
            let first = self.memory.huge_page_of(frame).unwrap_or(frame);
            if !self.is_listed(frame) || last == Some(first) {
                continue;
            }
            last = Some(first);
            self.memory.ledger.spend(self.memory.costs.scheme_folio_ns());
            let folio = Folio::of(self.memory, frame);
            if self.admit(order.filter, folio.bytes(), frame, &mut young)
                && let Some(to) = self.destination(space, dense, folio.block.is_some(), order)
            {
                by_node.entry(to).or_default().push(Some(first));
            }
        }
        let mut bytes = 0;
        for (to, folios) in by_node {
            bytes += self.move_all(&folios, to)?;
        }
        Ok(bytes)
    }

    /// Where a page of a process goes.
    fn destination(&self, space: SpaceId, dense: DensePage, is_huge: bool, order: &Order<'_>) -> Option<HostNode> {
        if order.destinations.is_empty() {
            return order.target_nid;
        }
        let owner = self.memory.space(space);
        let page = owner.table.page_of(dense);
        let vma = owner.vmas.find(page)?;
        let offset = match vma.mapping.backing {
            Backing::File { first_page, .. } => first_page,
            Backing::Anonymous => vma.pages().start, // its counterpart in anonymous memory
        };
        let folio_order = if is_huge { Level::PMD.span_shift() } else { 0 };
        choose(order.destinations, interleave_index(offset, page - vma.pages().start, folio_order))
    }

    fn move_all(&mut self, folios: &[Option<FrameId>], to: HostNode) -> Result<u64, HostError> {
        let how = NodeMove::freely(self.node_called(to)?);
        let mut results = vec![PageMove::NotPresent; folios.len()];
        self.move_folios(folios, &how, &mut results)?;
        let pages = |result: &PageMove| if let PageMove::Moved(pages) = *result { u64::from(pages) } else { 0 };
        Ok(results.iter().map(pages).sum::<u64>() << PAGE_SHIFT)
    }

    /// A node by the number that the core has for it.
    pub(super) fn node_called(&self, node: HostNode) -> Result<NodeId, HostError> {
        let found = self.memory.nodes.ids().find(|&id| host_node(id) == node);
        found.ok_or_else(|| HostError::Failed(format!("node {} is not on this machine", node.0)))
    }

    pub(super) fn memory_of(&self, node: HostNode) -> Option<NodeMemory> {
        let node = self.memory.nodes.get(self.node_called(node).ok()?);
        let promo = node.zones.iter().map(|zone| zone.marks.promo).sum();
        Some(NodeMemory { present: node.managed(), free: node.free(), high: node.high_marks(), promo })
    }
}

/// Shows a folio with its marks, and keeps the new marks.
fn see(memory: &mut Memory, frame: FrameId, page: &ScannedPage, filter: &mut ScanFilter) -> Bit {
    let frames = &mut memory.frames;
    let was = PageMarks {
        idle: frames.is_idle(frame),
        young: frames.is_left_young(frame),
        referenced: frames.has(frame, Flag::Referenced),
    };
    let mut marks = was;
    let bit = filter.see(page, &mut marks);
    match (was.idle, marks.idle) {
        (false, true) => frames.mark_idle(frame),
        (true, false) => frames.met_use(frame),
        _ => {}
    }
    match (was.young, marks.young) {
        (false, true) => frames.leave_young(frame),
        (true, false) => drop(frames.take_young(frame)),
        _ => {}
    }
    match (was.referenced, marks.referenced) {
        (false, true) => frames.set(frame, Flag::Referenced),
        (true, false) => frames.clear(frame, Flag::Referenced),
        _ => {}
    }
    bit
}

/// Whether several spaces map a page.
fn is_shared(memory: &Memory, frame: FrameId) -> bool {
    let flags = memory.frames.flags(frame);
    (flags.has(Flag::Shared) || flags.has(Flag::FileOwned)) && memory.mappers(frame).len() > 1
}

pub(super) fn host_node(node: NodeId) -> HostNode {
    HostNode(u32::try_from(node.index()).expect("few nodes"))
}
