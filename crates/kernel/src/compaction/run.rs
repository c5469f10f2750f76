//! One pass over a zone: the loop that lets both scanners work and moves the isolated pages (docs/spec/compaction.md#s4-3).

use super::free_scanner::Private;
use super::migrate_scanner::{Isolated, SeenBlock};
use super::{BLOCK_PAGES, CompactResult};
use crate::cgroup::CgroupId;
use crate::counters::Counter;
use crate::memory::buddy::{BLOCK_ORDER, MigrateType};
use crate::memory::{FrameId, Memory, NodeId, Zone};
use crate::migrate::{MigrateMode, Move};
use crate::reclaim::ReclaimPolicy;
use isotherm_core::compaction::Suitability;
use isotherm_core::host::Stop;
use isotherm_units::Instant;

/// When a pass has done enough.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Until {
    /// A request of the order would find a block.
    Page,
    /// A level is reached.
    Level {
        stop: Stop,
        /// Pages held for others to move into count as free.
        counts_in_flight: bool,
        /// kswapd ends it.
        stops_for_reclaim: bool,
    },
}

/// The request of a pass; made by [`direct`](Self::direct), [`on_demand`](Self::on_demand) and [`whole`](Self::whole).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "columns of the table in docs/spec/compaction.md#s4-2")]
pub struct Request {
    /// log2 of the pages wanted; `None`: no particular order (the kernel's order -1).
    pub order: Option<u32>,
    /// Type of the wanted pages.
    pub wanted: MigrateType,
    /// Events that the pass may wait for.
    pub mode: MigrateMode,
    /// From the ends of the zone, not from where the last pass stopped.
    pub whole_zone: bool,
    /// Scans page blocks again that were not worth it.
    pub ignores_skip: bool,
    /// Moves pages into page blocks of any type.
    pub ignores_type: bool,
    /// The pass runs in a thread that waits for the page.
    pub is_direct: bool,
    /// Condition that ends the pass.
    pub until: Until,
}

/// Result of a step of a pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunStep {
    /// Call again after its CPU time.
    Again,
    /// Too many pages are isolated: a thread sleeps until then, at most, kernel threads go on.
    Throttled(Instant),
    Done(CompactResult),
}

/// Work of a pass so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Work {
    /// Pages moved.
    pub moved: u64,
    /// Pages that could not be moved after all tries.
    pub failed: u64,
    /// Pages scanned for sources.
    pub scanned_migrate: u64,
    /// Pages scanned for targets.
    pub scanned_free: u64,
    /// Page blocks that became wholly free.
    pub blocks_freed: u64,
    /// Page blocks scanned that hold pages that never move.
    pub blocks_unmovable: u64,
    /// Blocks that stay in use because of pinned pages.
    pub blocks_pinned: u64,
}

/// A pass over a zone. Page numbers are frame numbers.
#[derive(Clone, Debug)]
pub struct ZoneRun {
    pub(super) node: NodeId,
    pub(super) zone: usize,
    pub(super) request: Request,
    pub(super) migrate: u32,
    pub(super) free: u32,
    pub(super) whole_zone: bool,
    pub(super) private: Private,
    /// Pages isolated that have no target yet.
    pub(super) to_place: u64,
    /// The rest of the page block goes in one batch.
    pub(super) finishes_block: bool,
    /// First page of the block of the last batch; 0: none.
    last_migrated: u32,
    /// The position for runs that may wait moves with the position for runs that may not.
    levels: bool,
    pub(super) fast: super::fast::FastSearch,
    pub(super) seen: SeenBlock,
    pub(super) work: Work,
    /// It was begun: positions are known.
    has_begun: bool,
}

impl ZoneRun {
    /// A pass over zone number `zone` of `node`.
    pub fn new(node: NodeId, zone: usize, request: Request) -> Self {
        Self {
            node,
            zone,
            request,
            migrate: 0,
            free: 0,
            whole_zone: request.whole_zone,
            private: Private::default(),
            to_place: 0,
            finishes_block: false,
            last_migrated: 0,
            levels: false,
            fast: super::fast::FastSearch::new(request.order),
            seen: SeenBlock::default(),
            work: Work::default(),
            has_begun: false,
        }
    }

    /// Work of the pass so far.
    pub const fn work(&self) -> &Work {
        &self.work
    }

    /// Pages that it holds for others to move into.
    pub fn in_flight(&self) -> u64 {
        self.private.pages()
    }

    /// Asks the pass for another level.
    pub const fn set_until(&mut self, until: Until) {
        self.request.until = until;
    }

    pub(super) fn zone<'a>(&self, memory: &'a Memory) -> &'a Zone {
        &memory.nodes.get(self.node).zones[self.zone]
    }
    pub(super) fn zone_mut<'a>(&self, memory: &'a mut Memory) -> &'a mut Zone {
        memory.nodes.zone_mut(self.node, self.zone)
    }

    /// Does the next batch. CPU time is charged to [`Memory::ledger`].
    pub fn step(&mut self, memory: &mut Memory, policy: &mut dyn ReclaimPolicy) -> RunStep {
        if !std::mem::replace(&mut self.has_begun, true)
            && let Some(result) = self.begin(memory)
        {
            return RunStep::Done(result);
        }
        let before = self.work;
        let step = self.iterate(memory, policy);
        let (migrate, free) =
            (self.work.scanned_migrate - before.scanned_migrate, self.work.scanned_free - before.scanned_free);
        memory.ledger.spend((migrate + free) * memory.costs.compact_scan_page_ns);
        memory.count(Counter::CompactMigrateScanned, CgroupId::ROOT, migrate);
        memory.count(Counter::CompactFreeScanned, CgroupId::ROOT, free);
        if !self.request.is_direct {
            memory.count(Counter::CompactDaemonMigrateScanned, CgroupId::ROOT, migrate);
            memory.count(Counter::CompactDaemonFreeScanned, CgroupId::ROOT, free);
        }
        if matches!(step, RunStep::Done(_)) {
            self.end(memory);
        }
        step
    }

    /// Is it worth it, and from where? The result if it is over at once.
    fn begin(&mut self, memory: &mut Memory) -> Option<CompactResult> {
        let zone = self.zone(memory);
        if zone.range().is_empty() {
            return Some(CompactResult::Skipped);
        }
        if let Some(order) = self.request.order {
            let reserve = memory.nodes.get(self.node).reserve(self.zone);
            match zone.suitability(order, zone.marks.min, reserve) {
                Suitability::Met => return Some(CompactResult::Success),
                Suitability::TooFull => return Some(CompactResult::Skipped),
                Suitability::NotFragmented => return Some(CompactResult::NotSuitable),
                Suitability::Suitable => {}
            }
            if zone.compaction.deferral.is_restarting(order) {
                memory.flush_compaction_hints(self.node, self.zone);
            }
        }
        let Request { whole_zone, mode, .. } = self.request;
        let zone = memory.nodes.zone_mut(self.node, self.zone);
        let first = zone.first_frame();
        let hints = &mut zone.compaction;
        if whole_zone {
            (self.migrate, self.free) = (first, hints.last_block());
        } else {
            (self.migrate, self.free) = hints.positions(mode);
            self.whole_zone |= self.migrate <= hints.init_migrate;
        }
        self.levels = mode == MigrateMode::Async && hints.is_level();
        None
    }

    fn iterate(&mut self, memory: &mut Memory, policy: &mut dyn ReclaimPolicy) -> RunStep {
        if let Some(result) = self.finished(memory) {
            return RunStep::Done(result);
        }
        self.finishes_block = block_of(self.last_migrated) == block_of(self.migrate);
        let mut rescans = false;
        loop {
            let sources = match self.isolate(memory, policy) {
                Isolated::Abort => return RunStep::Done(CompactResult::Contended),
                Isolated::Throttled(until) => return RunStep::Throttled(until),
                Isolated::Nothing => {
                    if self.levels {
                        self.zone_mut(memory).compaction.level();
                    }
                    break;
                }
                Isolated::Pages(pages) => pages,
            };
            self.levels = false;
            let first = self.zone(memory).first_frame();
            self.last_migrated = first.max((self.migrate - 1) & !(BLOCK_PAGES - 1));
            let moved = self.migrate(memory, policy, &sources);
            if moved == Moved::NoTargets && !self.have_met() {
                return RunStep::Done(CompactResult::Contended);
            }
            let Request { mode, ignores_skip, order, .. } = self.request;
            let is_inside = !self.migrate.is_multiple_of(BLOCK_PAGES);
            if moved != Moved::All
                && mode != MigrateMode::Sync
                && is_inside
                && !ignores_skip
                && !self.finishes_block
                && !rescans
            {
                rescans = true;
                self.finishes_block = true;
                if order == Some(BLOCK_ORDER) {
                    self.last_migrated = 0;
                }
                continue;
            }
            break;
        }
        if self.zone(memory).buddy().has_captured() {
            return RunStep::Done(CompactResult::Success);
        }
        if let Some(order) = self.request.order
            && self.last_migrated > 0
            && self.last_migrated < self.migrate >> order << order
        {
            policy.insert_waiting(memory);
            let Memory { nodes, frames, ledger, costs, .. } = memory;
            if nodes.zone_mut(self.node, self.zone).drain(frames) > 0 {
                ledger.spend(costs.drain_lists_ns);
            }
            self.last_migrated = 0;
        }
        RunStep::Again
    }

    /// Moves the isolated pages, as far as there are targets.
    fn migrate(&mut self, memory: &mut Memory, policy: &mut dyn ReclaimPolicy, sources: &[FrameId]) -> Moved {
        self.to_place = sources.len() as u64;
        let mut moves: Vec<Move> = Vec::with_capacity(sources.len());
        for &from in sources {
            let Some(to) = self.target(memory) else { break };
            self.to_place -= 1;
            moves.push((from, to));
        }
        self.to_place = 0;
        let migrated = memory.migrate_batch(policy, &moves, self.request.mode);
        self.zone_mut(memory).use_aside(migrated.pages);
        for &(at, _) in &migrated.failed {
            self.private.give(moves[at].1.index_u32(), 0);
        }
        self.work.moved += migrated.pages;
        self.work.failed += migrated.failed.len() as u64;
        let mut block = None;
        for from in sources {
            if block.replace(block_of(from.index_u32())) != Some(block_of(from.index_u32()))
                && self.zone(memory).buddy().is_block_free(*from)
            {
                self.work.blocks_freed += 1;
            }
        }
        match () {
            () if moves.len() < sources.len() => Moved::NoTargets,
            () if !migrated.failed.is_empty() => Moved::Some,
            () => Moved::All,
        }
    }

    pub(super) const fn have_met(&self) -> bool {
        block_of(self.free) <= block_of(self.migrate)
    }

    /// The result, if the pass is over. Source: `__compact_finished`.
    fn finished(&mut self, memory: &mut Memory) -> Option<CompactResult> {
        if self.have_met() {
            let is_direct = self.request.is_direct;
            let hints = &mut self.zone_mut(memory).compaction;
            hints.restart();
            hints.flush_wanted |= is_direct;
            return Some(if self.whole_zone { CompactResult::Complete } else { CompactResult::PartialSkipped });
        }
        let buddy = self.zone(memory).buddy();
        match (self.request.until, self.request.order) {
            (Until::Level { stops_for_reclaim: true, .. }, _) if memory.is_kswapd_running(self.node) => {
                Some(CompactResult::PartialSkipped)
            }
            (Until::Level { stop, counts_in_flight, .. }, _) => {
                let in_flight = if counts_in_flight { self.in_flight() } else { 0 };
                stop.is_reached(&buddy.blocks(), in_flight).then_some(CompactResult::Success)
            }
            // A page block is always finished.
            (Until::Page, _) if !self.migrate.is_multiple_of(BLOCK_PAGES) => None,
            (Until::Page, order) => {
                let order = order.unwrap_or(BLOCK_ORDER);
                buddy.serves(order, self.request.wanted).then_some(CompactResult::Success)
            }
        }
    }

    /// Whether the scanner is at the beginning of a page block.
    pub fn is_between_blocks(&self) -> bool {
        self.migrate.is_multiple_of(BLOCK_PAGES)
    }

    /// Gives back the pages it holds, and scans there again when it goes on.
    pub fn pause(&mut self, memory: &mut Memory) {
        let Memory { nodes, frames, .. } = memory;
        let zone = nodes.zone_mut(self.node, self.zone);
        for (block, order) in self.private.take_all() {
            self.free = self.free.max(block & !(BLOCK_PAGES - 1));
            zone.give_aside(frames, FrameId::new(block), order);
        }
    }

    /// Gives back the pages that it holds. Must be called if the pass is given up before it is over.
    pub fn end(&mut self, memory: &mut Memory) {
        let mut highest = None;
        let Memory { nodes, frames, .. } = memory;
        let zone = nodes.zone_mut(self.node, self.zone);
        for (block, order) in self.private.take_all() {
            highest = highest.max(Some(block));
            zone.give_aside(frames, FrameId::new(block), order);
        }
        if let Some(highest) = highest {
            zone.compaction.raise_free(highest & !(BLOCK_PAGES - 1));
        }
    }
}

/// How a batch went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Moved {
    All,
    Some,
    NoTargets,
}

pub(super) const fn block_of(frame: u32) -> u32 {
    frame >> BLOCK_ORDER
}

impl Zone {
    pub(super) fn first_frame(&self) -> u32 {
        self.range().start
    }
}

impl Memory {
    /// Forgets which page blocks of a zone are not worth a scan, if a run asked for that.
    pub fn flush_compaction_hints(&mut self, node: NodeId, zone: usize) {
        let Self { nodes, frames, .. } = self;
        nodes.zone_mut(node, zone).flush_hints(frames);
    }
}
