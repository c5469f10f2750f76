//! State of a zone that compaction keeps from run to run: where scanners stopped, page blocks that are not worth another scan, failures
//! (docs/spec/compaction.md#s4-4, #s4-6).

use super::{BLOCK_PAGES, ZoneRun};
use crate::memory::buddy::{BLOCK_ORDER, Buddy, MigrateType};
use crate::memory::{Flag, FrameId, Frames};
use crate::migrate::MigrateMode;
use isotherm_core::compaction::Deferral;

#[derive(Clone, Debug)]
pub struct ZoneCompaction {
    first: u32,
    end: u32,
    /// A bit per page block; none before the first is set.
    skip: Vec<u64>,
    /// Where the scanner for sources goes on: for runs that wait for nothing, and for the others.
    cached_migrate: [u32; 2],
    /// Where the scanner for targets goes on.
    cached_free: u32,
    /// Positions where scanners went on after hints were forgotten.
    pub(super) init_migrate: u32,
    pub(super) init_free: u32,
    /// Hints are to be forgotten when kswapd goes to sleep.
    pub(super) flush_wanted: bool,
    /// Failed attempts.
    pub deferral: Deferral,
    /// A pass of a design that is not over.
    pub(crate) stepped: Option<Box<ZoneRun>>,
}

impl ZoneCompaction {
    pub(crate) fn new(first: u32, end: u32) -> Self {
        Self {
            first,
            end,
            skip: Vec::new(),
            cached_migrate: [0; 2],
            cached_free: 0,
            init_migrate: 0,
            init_free: 0,
            flush_wanted: false,
            deferral: Deferral::default(),
            stepped: None,
        }
    }

    fn bit(&self, frame: u32) -> (usize, u64) {
        let block = (frame >> BLOCK_ORDER) - (self.first >> BLOCK_ORDER);
        ((block / 64) as usize, 1 << (block % 64))
    }

    /// Whether the page block around a frame is not worth a scan.
    pub(super) fn is_skipped(&self, frame: u32) -> bool {
        let (word, bit) = self.bit(frame);
        self.skip.get(word).is_some_and(|word| word & bit != 0)
    }

    /// Marks the page block around a frame; returns whether it was marked before.
    pub(super) fn set_skip(&mut self, frame: u32) -> bool {
        if self.skip.is_empty() {
            let blocks = (self.end.div_ceil(BLOCK_PAGES) - (self.first >> BLOCK_ORDER)) as usize;
            self.skip = vec![0; blocks.div_ceil(64)];
        }
        let (word, bit) = self.bit(frame);
        let was = self.skip[word] & bit != 0;
        self.skip[word] |= bit;
        was
    }

    /// The last page block: where the scanner for targets begins.
    pub(super) const fn last_block(&self) -> u32 {
        (self.end - 1) & !(BLOCK_PAGES - 1)
    }

    /// Where scanners go on. Positions outside of the zone are corrected.
    pub(super) fn positions(&mut self, mode: MigrateMode) -> (u32, u32) {
        let zone = self.first..self.end;
        if !zone.contains(&self.cached_free) {
            self.cached_free = self.last_block();
        }
        if !zone.contains(&self.cached_migrate[is_sync(mode)]) {
            self.cached_migrate = [self.first; 2];
        }
        (self.cached_migrate[is_sync(mode)], self.cached_free)
    }

    /// Whether both positions for sources are the same.
    pub(super) fn is_level(&self) -> bool {
        self.cached_migrate[0] == self.cached_migrate[1]
    }
    /// The other runs go on at the position of the runs that wait for nothing.
    pub(super) fn level(&mut self) {
        self.cached_migrate[1] = self.cached_migrate[0];
    }

    /// Sources were searched up to `to`.
    pub(super) fn advance_migrate(&mut self, to: u32, mode: MigrateMode) {
        self.cached_migrate[0] = self.cached_migrate[0].max(to);
        if mode != MigrateMode::Async {
            self.cached_migrate[1] = self.cached_migrate[1].max(to);
        }
    }

    /// Targets were searched down to the page block at `to`.
    pub(super) fn lower_free(&mut self, to: u32) {
        self.cached_free = self.cached_free.min(to);
    }
    /// Free pages were given back at `block`, or were found there.
    pub(super) fn raise_free(&mut self, block: u32) {
        self.cached_free = self.cached_free.max(block);
    }
    pub(super) const fn cached_free(&self) -> u32 {
        self.cached_free
    }
    pub(super) fn set_free(&mut self, block: u32) {
        self.cached_free = block;
    }

    /// The scanners met: the next run begins at the ends.
    pub(super) fn restart(&mut self) {
        self.cached_migrate = [self.first; 2];
        self.cached_free = self.last_block();
    }

    /// Forgets hints if a run asked for that. Hints go for page blocks with a page on a list or, if pages may move there, a free one; every
    /// eighth page is read. Runs go on at the outermost of these blocks. Source: `__reset_isolation_suitable`.
    pub(crate) fn flush_hints(&mut self, buddy: &Buddy, frames: &Frames) {
        if !std::mem::take(&mut self.flush_wanted) {
            return;
        }
        let (mut source, mut target) = (None, None);
        let mut block = self.first & !(BLOCK_PAGES - 1);
        while block < self.end {
            let at = |from: u32| (from.max(self.first)..(block + BLOCK_PAGES).min(self.end)).step_by(8);
            let is_source = at(block).any(|frame| frames.has(FrameId::new(frame), Flag::OnList));
            let is_movable = buddy.type_of(FrameId::new(block.max(self.first))) == MigrateType::Movable;
            let is_target = is_movable && at(block).any(|frame| buddy.is_free(FrameId::new(frame)));
            if is_source || is_target {
                if !self.skip.is_empty() {
                    let (word, bit) = self.bit(block.max(self.first));
                    self.skip[word] &= !bit;
                }
                if is_source {
                    source.get_or_insert(block.max(self.first));
                }
                if is_target {
                    target = Some(block.max(self.first));
                }
            }
            block += BLOCK_PAGES;
        }
        self.restart();
        if let (Some(source), Some(target)) = (source, target)
            && source < target
        {
            self.init_migrate = source;
            self.init_free = target;
            self.cached_migrate = [source; 2];
            self.cached_free = target;
        }
    }
}

const fn is_sync(mode: MigrateMode) -> usize {
    match mode {
        MigrateMode::Async => 0,
        MigrateMode::SyncLight | MigrateMode::Sync => 1,
    }
}
