//! A host for tests of designs: page blocks by their contents, and a compaction that scans them block by block, like the kernel. The freed
//! pages follow from the blocks, never from a test's expectation.

use super::yields::predicted_yield;
use super::{FreeBlocks, HUGE_ORDER};
use crate::host::{CompactEnd, CompactStep, Compacted, CompactionSignals, Granularity, ZoneId, ZoneState};
use crate::host::{Compacting, HostError, NodeId};
use crate::vocabulary::{BlockUse, Marks};
use isotherm_units::Duration;

const BLOCK: u32 = 1 << HUGE_ORDER;

#[derive(Clone, Debug, Default)]
pub(crate) struct Zone {
    pub(crate) blocks: Vec<BlockUse>,
    pub(crate) marks: Marks,
    /// Index of the next block to scan for sources, and of the block last scanned for targets.
    scanners: (usize, usize),
}

/// Zones of one node, the numbers that the host reports about them, and the calls it got.
#[derive(Clone, Debug, Default)]
pub(crate) struct Machine {
    pub(crate) zones: Vec<Zone>,
    pub(crate) signals: CompactionSignals,
    pub(crate) tells_blocks: bool,
    pub(crate) hides_types: bool,
    pub(crate) refusal: Option<HostError>,
    pub(crate) steps: Vec<CompactStep>,
    pub(crate) checks: usize,
}

impl Zone {
    /// `sections` blocks, each with these numbers of movable and fixed pages.
    pub(crate) fn of(sections: usize, movable: u32, fixed: u32) -> Self {
        let block = BlockUse { movable, fixed, is_target: true };
        Self { blocks: vec![block; sections], ..Self::default() }
    }

    fn free(block: BlockUse) -> u64 {
        u64::from(BLOCK - block.movable - block.fixed)
    }

    /// Wholly free blocks are of the huge order, all other free pages are single.
    pub(crate) fn free_blocks(&self) -> FreeBlocks {
        let whole = self.blocks.iter().filter(|block| Self::free(**block) == u64::from(BLOCK)).count() as u64;
        let pages: u64 = self.blocks.iter().map(|block| Self::free(*block)).sum();
        let mut counts = [0; 11];
        counts[0] = pages - whole * u64::from(BLOCK);
        counts[HUGE_ORDER as usize] = whole;
        FreeBlocks::new(&counts).expect("small")
    }

    fn compact(&mut self, step: &CompactStep, is_reclaiming: bool) -> Compacted {
        if step.is_first {
            self.scanners = (0, self.blocks.len());
        }
        let mut done = Compacted::default();
        loop {
            done.end = match () {
                () if self.scanners.0 + 1 >= self.scanners.1 => Some(CompactEnd::ScannersMet),
                () if step.stops_for_reclaim && is_reclaiming => Some(CompactEnd::Reclaiming),
                () if step.stop.is_reached(&self.free_blocks(), 0) => Some(CompactEnd::Reached),
                () => None,
            };
            let is_limit = done.scanned_migrate >= step.max_scanned || done.pages_moved >= step.max_moved;
            if done.end.is_some() || is_limit {
                return done;
            }
            self.block(&mut done);
        }
    }

    /// Empties the next block as far as there is room above it.
    fn block(&mut self, done: &mut Compacted) {
        let source = self.scanners.0;
        done.scanned_migrate += u64::from(BLOCK);
        let was_used = self.blocks[source].movable + self.blocks[source].fixed > 0;
        while self.blocks[source].movable > 0 && self.scanners.1 > source + 1 {
            let target = &mut self.blocks[self.scanners.1 - 1];
            let room = if target.movable + target.fixed == 0 { 0 } else { BLOCK - target.movable - target.fixed };
            if room == 0 || !target.is_target {
                self.scanners.1 -= 1;
                done.scanned_free += u64::from(BLOCK);
                continue;
            }
            let moved = room.min(self.blocks[source].movable);
            self.blocks[self.scanners.1 - 1].movable += moved;
            self.blocks[source].movable -= moved;
            done.pages_moved += u64::from(moved);
            done.cpu = Duration::from_ns(done.cpu.ns() + 4500 * u64::from(moved));
            done.stalls.add(Duration::from_us(4 * u64::from(moved)));
        }
        let block = self.blocks[source];
        done.blocks_freed += u64::from(was_used && block.movable + block.fixed == 0);
        done.blocks_spoiled_unmovable += u64::from(block.fixed > 0);
        self.scanners.0 += 1;
    }
}

impl Compacting for Machine {
    fn compaction_granularity(&self) -> Option<Granularity> {
        Some(Granularity::Zone)
    }

    fn zones(&mut self, out: &mut Vec<ZoneState>) -> Result<(), HostError> {
        self.checks += 1;
        if let Some(refusal) = &self.refusal {
            return Err(refusal.clone());
        }
        out.extend((0..).zip(&self.zones).map(|(number, zone)| ZoneState {
            id: ZoneId { node: NodeId(0), zone: number },
            blocks: zone.free_blocks(),
            present: zone.blocks.len() as u64 * u64::from(BLOCK),
            marks: zone.marks,
            movable: (!self.hides_types).then(|| zone.free_blocks()),
            exact_yield: self.tells_blocks.then(|| predicted_yield(&zone.blocks, zone.marks.min)),
        }));
        Ok(())
    }

    fn compaction_signals(&mut self, _: NodeId) -> Result<CompactionSignals, HostError> {
        Ok(self.signals)
    }

    fn compact(&mut self, step: &CompactStep) -> Result<Compacted, HostError> {
        self.steps.push(*step);
        match &self.refusal {
            Some(refusal) => Err(refusal.clone()),
            None => Ok(self.zones[usize::from(step.zone.zone)].compact(step, self.signals.is_reclaiming)),
        }
    }
}
