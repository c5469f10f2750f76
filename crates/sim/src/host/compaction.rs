//! What designs of compaction ask: free blocks of zones, what page blocks hold, passes over a zone and moves of single pages.

use super::{MemoryHost, Wish};
use crate::cgroup::CgroupId;
use crate::compaction::{CompactResult, Request, RunStep, Until, ZoneRun};
use crate::counters::Counter;
use crate::memory::buddy::{BLOCK_ORDER, MigrateType};
use crate::memory::{Flag, FrameId, Memory, NodeId, Zone};
use crate::migrate::{MigrateMode, Move};
use crate::pressure::{Resource, Severity};
use isotherm_core::compaction::BlockUse;
use isotherm_core::host::{
    BlocksScan, CompactEnd, CompactMode, CompactStep, Compacted, CompactionSignals, HostError, MoveBatch,
    NodeId as CoreNode, PageBlock, PageContent, ZoneId, ZoneState,
};
use isotherm_units::Duration;

const BLOCK_PAGES: u32 = 1 << BLOCK_ORDER;

const fn migrate_mode(mode: CompactMode) -> MigrateMode {
    match mode {
        CompactMode::SyncLight => MigrateMode::SyncLight,
        CompactMode::Sync => MigrateMode::Sync,
    }
}

/// Where a zone is.
type Place = (NodeId, usize);

impl MemoryHost<'_> {
    fn place(&self, id: ZoneId) -> Result<Place, HostError> {
        let node = u8::try_from(id.node.0).ok().map(NodeId).filter(|node| node.index() < self.memory.nodes.len());
        let place = node.map(|node| (node, usize::from(id.zone)));
        place
            .filter(|&(node, zone)| zone < self.memory.nodes.get(node).zones.len())
            .ok_or_else(|| HostError::Failed(format!("there is no such zone: {id}")))
    }

    fn zone(&self, (node, zone): Place) -> &Zone {
        &self.memory.nodes.get(node).zones[zone]
    }

    /// Free blocks of all zones. Passes that are not over give back what they hold.
    pub(super) fn report_zones(&mut self, out: &mut Vec<ZoneState>) {
        let nodes: Vec<NodeId> = self.memory.nodes.ids().collect();
        for node in nodes {
            for at in 0..self.memory.nodes.get(node).zones.len() {
                self.pause((node, at));
                let zone = self.zone((node, at));
                if zone.managed() > 0 {
                    let id = ZoneId { node: CoreNode(u32::from(node.0)), zone: u8::try_from(at).expect("few zones") };
                    let (blocks, movable) = (zone.buddy().blocks(), zone.buddy().blocks_of(MigrateType::Movable));
                    let (present, marks) = (zone.managed(), zone.core_marks());
                    // No kernel knows what its page blocks hold without looking at every page.
                    out.push(ZoneState { id, blocks, present, marks, movable: Some(movable), exact_yield: None });
                }
            }
        }
    }

    fn pause(&mut self, (node, zone): Place) {
        if let Some(mut run) = self.memory.nodes.zone_mut(node, zone).compaction.stepped.take() {
            run.pause(self.memory);
            self.memory.nodes.zone_mut(node, zone).compaction.stepped = Some(run);
        }
    }

    pub(super) fn signals(&mut self, node: CoreNode) -> Result<CompactionSignals, HostError> {
        let known = u8::try_from(node.0).ok().map(NodeId).filter(|node| node.index() < self.memory.nodes.len());
        let id = known.ok_or_else(|| HostError::Failed(format!("there is no node {}", node.0)))?;
        let is_running = self.memory.is_kswapd_running(id);
        let reclaim = &mut self.memory.reclaim;
        let has_run = reclaim.kswapd_ran.get_mut(id.index()).is_some_and(std::mem::take);
        let counters = &self.memory.counters;
        let average = self.pressure.sampled_average(CgroupId::ROOT, Resource::Cpu, Severity::Some);
        Ok(CompactionSignals {
            is_reclaiming: is_running,
            has_reclaimed: has_run && !is_running,
            huge_wanted: counters.get(Counter::ThpFaultAlloc)
                + counters.get(Counter::ThpFaultFallback)
                + self.memory.kernel.huge_wanted(),
            cpu_pressure_bp: u32::try_from(average.hundredths()[0]).unwrap_or(u32::MAX),
        })
    }

    /// Some of a pass over a zone.
    pub(super) fn compact_some(&mut self, step: &CompactStep) -> Result<Compacted, HostError> {
        let place = self.place(step.zone)?;
        let (node, zone) = place;
        let mode = migrate_mode(step.mode);
        let CompactStep { stop, counts_in_flight, stops_for_reclaim, .. } = *step;
        let until = Until::Level { stop, counts_in_flight, stops_for_reclaim };
        let kept = self.memory.nodes.zone_mut(node, zone).compaction.stepped.take();
        let mut run = match kept {
            Some(run) if !step.is_first => run,
            kept => {
                if let Some(mut run) = kept {
                    run.end(self.memory);
                }
                Box::new(ZoneRun::new(node, zone, Request::whole(mode, until)))
            }
        };
        run.set_until(until);
        let (before, began_ns) = (*run.work(), self.memory.ledger.peek());
        let end = loop {
            if let RunStep::Done(result) = run.step(self.memory, self.policy) {
                break Some(self.ended(result, node, stops_for_reclaim));
            }
            let (scanned, moved) =
                (run.work().scanned_migrate - before.scanned_migrate, run.work().moved - before.moved);
            if (scanned >= step.max_scanned || moved >= step.max_moved) && run.is_between_blocks() {
                break None;
            }
        };
        let work = *run.work();
        if end.is_none() {
            self.memory.nodes.zone_mut(node, zone).compaction.stepped = Some(run);
        }
        Ok(Compacted {
            end,
            pages_moved: work.moved - before.moved,
            scanned_migrate: work.scanned_migrate - before.scanned_migrate,
            scanned_free: work.scanned_free - before.scanned_free,
            blocks_freed: work.blocks_freed - before.blocks_freed,
            blocks_spoiled_unmovable: work.blocks_unmovable - before.blocks_unmovable,
            blocks_spoiled_pinned: work.blocks_pinned - before.blocks_pinned,
            cpu: Duration::from_ns(self.memory.ledger.peek() - began_ns),
            stalls: self.memory.migration.take_unreported(),
            ..Compacted::default()
        })
    }

    fn ended(&self, result: CompactResult, node: NodeId, stops_for_reclaim: bool) -> CompactEnd {
        match result {
            CompactResult::Success => CompactEnd::Reached,
            CompactResult::PartialSkipped if stops_for_reclaim && self.memory.is_kswapd_running(node) => {
                CompactEnd::Reclaiming
            }
            CompactResult::Contended => CompactEnd::NoTargets,
            _ => CompactEnd::ScannersMet,
        }
    }

    /// What all page blocks of a zone hold, with samples of accessed bits.
    pub(super) fn scan_blocks(&mut self, check: &BlocksScan, out: &mut Vec<PageBlock>) -> Result<(), HostError> {
        let place = self.place(check.zone)?;
        let range = self.zone(place).range();
        let mut movable = Vec::new();
        for number in 0..blocks_of(&range) {
            movable.clear();
            let frames = frames_of(&range, number);
            let nr_frames = u64::from(frames.end - frames.start);
            let mut fixed = BLOCK_PAGES - (frames.end - frames.start);
            let mut at = frames.start;
            while at < frames.end {
                let frame = FrameId::new(at);
                match self.result(place, frame) {
                    ProbeResult::Free(pages) => at += pages,
                    ProbeResult::AtHand => at += 1,
                    ProbeResult::Fixed => {
                        fixed += 1;
                        at += 1;
                    }
                    ProbeResult::Movable => {
                        movable.push(frame);
                        at += 1;
                    }
                }
            }
            self.memory.ledger.spend(nr_frames * self.memory.costs.compact_scan_page_ns);
            let (sampled, accessed) = self.sample(&movable, check);
            let is_target = self.zone(place).buddy().type_of(FrameId::new(frames.start)) == MigrateType::Movable;
            let movable = u32::try_from(movable.len()).expect("of one block");
            out.push(PageBlock { number, usage: BlockUse { movable, fixed, is_target }, sampled, accessed });
        }
        Ok(())
    }

    /// Reads and clears accessed bits of evenly spaced pages: how many, and how many were set.
    fn sample(&mut self, pages: &[FrameId], check: &BlocksScan) -> (u32, u32) {
        let (Ok(len), wanted) = (u32::try_from(pages.len()), check.samples) else { return (0, 0) };
        let sampled = wanted.min(len);
        let mut accessed = 0;
        for sample in 0..sampled {
            let at = (u64::from(sample) * u64::from(len) / u64::from(sampled) + u64::from(check.turn)) % u64::from(len);
            let frame = pages[usize::try_from(at).expect("of one block")];
            accessed += u32::from(self.take_accessed(frame));
        }
        (sampled, accessed)
    }

    fn take_accessed(&mut self, frame: FrameId) -> bool {
        self.probe_leaf(Wish::Clear, u64::from(frame.index_u32())) == isotherm_core::host::Seen::Accessed
    }

    fn is_accessed(&mut self, frame: FrameId) -> bool {
        self.probe_leaf(Wish::Test, u64::from(frame.index_u32())) == isotherm_core::host::Seen::Accessed
    }

    fn result(&self, place: Place, frame: FrameId) -> ProbeResult {
        let buddy = self.zone(place).buddy();
        let (memory, flags) = (&*self.memory, self.memory.frames.flags(frame));
        if !flags.has(Flag::OnList) {
            return match buddy.order_at(frame) {
                Some(order) => ProbeResult::Free(1 << order.min(BLOCK_ORDER)),
                None if buddy.is_free(frame) => ProbeResult::Free(1),
                None if flags.has(Flag::Isolated) || memory.is_kernels(frame) => ProbeResult::Fixed,
                None => ProbeResult::AtHand,
            };
        }
        match () {
            () if flags.has_any([Flag::Writeback, Flag::Reading]) || memory.frames.is_pinned(frame) => {
                ProbeResult::Fixed
            }
            () if flags.has(Flag::Unevictable) && memory.compaction.keeps_unevictable => ProbeResult::Fixed,
            () if memory.huge_page_of(frame).is_some() => ProbeResult::Fixed,
            () => ProbeResult::Movable,
        }
    }

    /// The pages of one block.
    pub(super) fn look_at_pages(
        &mut self,
        zone: ZoneId,
        block: u32,
        clears: bool,
        out: &mut Vec<PageContent>,
    ) -> Result<(), HostError> {
        let place = self.place(zone)?;
        for frame in self.frames_of_block(place, block)? {
            let frame = FrameId::new(frame);
            self.memory.ledger.spend(self.memory.costs.compact_scan_page_ns);
            // Also the later pages of free blocks, one by one.
            out.push(match self.result(place, frame) {
                ProbeResult::Free(_) | ProbeResult::AtHand => PageContent::Free,
                ProbeResult::Fixed => PageContent::Fixed,
                ProbeResult::Movable if clears => PageContent::Movable { accessed: self.take_accessed(frame) },
                ProbeResult::Movable => PageContent::Movable { accessed: self.is_accessed(frame) },
            });
        }
        Ok(())
    }

    fn frames_of_block(&self, place: Place, block: u32) -> Result<std::ops::Range<u32>, HostError> {
        let range = self.zone(place).range();
        if block >= blocks_of(&range) {
            return Err(HostError::Failed(format!(
                "there is no page block {block}; the zone has {}",
                blocks_of(&range)
            )));
        }
        Ok(frames_of(&range, block))
    }

    /// Moves some pages of a block into others.
    pub(super) fn move_some(&mut self, batch: &MoveBatch<'_>) -> Result<Compacted, HostError> {
        let place = self.place(batch.zone)?;
        let frames = self.frames_of_block(place, batch.block)?;
        if batch.targets.contains(&batch.block) {
            return Err(HostError::Failed(format!("page block {} is to be emptied and filled", batch.block)));
        }
        let targets: Vec<std::ops::Range<u32>> =
            batch.targets.iter().map(|&block| self.frames_of_block(place, block)).collect::<Result<_, _>>()?;
        let began_ns = self.memory.ledger.peek();
        let mut done = Compacted { scanned_migrate: batch.pages.len() as u64, ..Compacted::default() };
        let mut sources = Vec::with_capacity(batch.pages.len());
        for &page in batch.pages {
            let Some(at) = frames.start.checked_add(page).filter(|at| page < BLOCK_PAGES && *at < frames.end) else {
                continue;
            };
            let frame = FrameId::new(at);
            let is_movable = matches!(self.result(place, frame), ProbeResult::Movable);
            if is_movable && !(batch.spares_accessed && self.is_accessed(frame)) {
                sources.push(frame);
            }
        }
        let mut held = self.hold_targets(place, &targets, sources.len() as u64, &mut done);
        let mut moves: Vec<Move> = Vec::with_capacity(sources.len());
        for &from in &sources {
            let Some(to) = held.pop() else { break };
            moves.push((from, to));
        }
        if moves.len() < sources.len() {
            done.end = Some(CompactEnd::NoTargets);
        }
        let (scanned, costs) = (done.scanned_migrate + done.scanned_free, &self.memory.costs);
        self.memory.ledger.spend(scanned * costs.compact_scan_page_ns);
        let was_free = self.zone(place).buddy().is_block_free(FrameId::new(frames.start));
        let migrated = self.memory.migrate_batch(self.policy, &moves, migrate_mode(batch.mode));
        let Memory { nodes, frames: table, .. } = &mut *self.memory;
        let zone = nodes.zone_mut(place.0, place.1);
        zone.use_aside(migrated.pages);
        let unused = migrated.failed.iter().map(|&(at, _)| moves[at].1).chain(held);
        unused.for_each(|frame| zone.give_aside(table, frame, 0));
        done.pages_moved = migrated.pages;
        let is_free = self.zone(place).buddy().is_block_free(FrameId::new(frames.start));
        done.blocks_freed = u64::from(is_free && !was_free);
        done.cpu = Duration::from_ns(self.memory.ledger.peek() - began_ns);
        done.stalls = self.memory.migration.take_unreported();
        Ok(done)
    }

    /// Free pages of these blocks, the first ones last; wholly free blocks are passed over.
    fn hold_targets(
        &mut self,
        (node, at): Place,
        blocks: &[std::ops::Range<u32>],
        wanted: u64,
        done: &mut Compacted,
    ) -> Vec<FrameId> {
        let mut held = Vec::new();
        let Memory { nodes, frames, .. } = &mut *self.memory;
        let zone = nodes.zone_mut(node, at);
        'blocks: for block in blocks {
            if zone.buddy().is_block_free(FrameId::new(block.start)) {
                continue;
            }
            let mut page = block.start;
            while page < block.end {
                if held.len() as u64 >= wanted {
                    break 'blocks;
                }
                done.scanned_free += 1;
                let Some(order) = zone.set_aside(frames, FrameId::new(page)) else {
                    if zone.buddy().order_at(FrameId::new(page)).is_some() {
                        break 'blocks; // the watermark is in the way
                    }
                    page += 1;
                    continue;
                };
                held.extend((page..page + (1 << order)).map(FrameId::new));
                page += 1 << order;
            }
        }
        held.reverse();
        held
    }
}

/// A page as a look at its block sees it.
enum ProbeResult {
    /// Begins so many free ones.
    Free(u32),
    /// Free, but in no block.
    AtHand,
    Fixed,
    Movable,
}

fn blocks_of(range: &std::ops::Range<u32>) -> u32 {
    if range.is_empty() { 0 } else { ((range.end - 1) >> BLOCK_ORDER) - (range.start >> BLOCK_ORDER) + 1 }
}

/// The frames of a page block of a zone.
fn frames_of(range: &std::ops::Range<u32>, number: u32) -> std::ops::Range<u32> {
    let first = ((range.start >> BLOCK_ORDER) + number) << BLOCK_ORDER;
    first.max(range.start)..(first + BLOCK_PAGES).min(range.end)
}
