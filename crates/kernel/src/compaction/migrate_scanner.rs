//! The scanner for sources: from the bottom of a zone up, pages that can be moved (docs/spec/compaction.md#s4-3-1).

use super::run::block_of;
use super::{BLOCK_PAGES, CLUSTER, Request, ZoneRun, too_many_isolated};
use crate::cgroup::CgroupId;
use crate::counters::Counter;
use crate::memory::buddy::{BLOCK_ORDER, MigrateType};
use crate::memory::{Flag, FrameId, Memory};
use crate::migrate::MigrateMode;
use crate::reclaim::ReclaimPolicy;
use isotherm_units::{Duration, Instant};

/// Sleep of a thread while too many pages are isolated (`VMSCAN_THROTTLE_ISOLATED`, HZ/50).
const ISOLATED_THROTTLE: Duration = Duration::from_ms(20);

/// The result of one visit to a page block.
#[derive(Clone, Debug)]
pub(super) enum Isolated {
    /// Pages to move.
    Pages(Vec<FrameId>),
    /// None here.
    Nothing,
    /// Too many are isolated, and the pass waits for nothing.
    Abort,
    /// Too many are isolated.
    Throttled(Instant),
}

/// The state of the current page block.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct SeenBlock {
    block: u32,
    unmovable: bool,
    pinned: bool,
}

/// A page as the scanner sees it.
#[derive(Clone)]
enum Candidate {
    /// Begins a free block of this order.
    Free(u32),
    /// A huge page.
    Huge,
    Movable,
    /// Kernel memory.
    Unmovable,
    /// Pinned.
    Pinned,
    /// The page is busy: being written, or on no list.
    Busy,
}

impl ZoneRun {
    /// Finds the next page block with sources and takes some. Source: `isolate_migratepages`.
    pub(super) fn isolate(&mut self, memory: &mut Memory, policy: &dyn ReclaimPolicy) -> Isolated {
        if let Some(wait) = self.throttle(memory, policy) {
            return wait;
        }
        let before = self.migrate;
        let mut low = self.fast_source(memory);
        let mut is_found = low != before && self.fast.fails == 0;
        let first = self.zone(memory).first_frame();
        let mut end = (low & !(BLOCK_PAGES - 1)) + BLOCK_PAGES;
        while end <= self.free {
            let is_start = low.is_multiple_of(BLOCK_PAGES) || low == first;
            if is_start && !is_found && !self.is_worth_a_look(memory, low) {
                // Scanned a moment ago.
            } else if !self.is_source(memory, low) {
                let mode = self.request.mode;
                self.zone_mut(memory).compaction.advance_migrate(end, mode);
            } else {
                let pages = self.isolate_block(memory, low, end);
                return if pages.is_empty() { Isolated::Nothing } else { Isolated::Pages(pages) };
            }
            is_found = false;
            (self.migrate, low) = (end, end);
            end += BLOCK_PAGES;
        }
        Isolated::Nothing
    }

    /// Others wait while too many pages are isolated.
    fn throttle(&self, memory: &Memory, policy: &dyn ReclaimPolicy) -> Option<Isolated> {
        let isolated = memory.migration.pages_in_flight(memory.now);
        if isolated == 0 {
            return None;
        }
        let root = policy.sizes(memory.lruvec(CgroupId::ROOT, self.node));
        let mut sizes = root;
        for id in memory.cgroups.ids().filter(|&id| id != CgroupId::ROOT) {
            let own = policy.sizes(memory.lruvec(id, self.node));
            sizes.inactive_anon += own.inactive_anon;
            sizes.inactive_file += own.inactive_file;
            sizes.active_anon += own.active_anon;
            sizes.active_file += own.active_file;
        }
        let (inactive, active) = (sizes.inactive_anon + sizes.inactive_file, sizes.active_anon + sizes.active_file);
        if !too_many_isolated(isolated, inactive, active, true) {
            return None;
        }
        Some(match (self.request.mode, self.request.is_direct) {
            (MigrateMode::Async, _) => Isolated::Abort,
            (_, true) => Isolated::Throttled(memory.now + ISOLATED_THROTTLE),
            (_, false) => return None,
        })
    }

    /// Whether pages of a block are worth moving. Source: `suitable_migration_source`.
    fn is_source(&self, memory: &Memory, frame: u32) -> bool {
        let at = FrameId::new(frame);
        if memory.huge_page_of(at) == Some(at) {
            return false;
        }
        let Request { mode, is_direct, wanted, order, .. } = self.request;
        if mode != MigrateMode::Async || !is_direct {
            return true;
        }
        let kind = self.zone(memory).buddy().type_of(at);
        if wanted == MigrateType::Movable || order.is_some_and(|order| order >= BLOCK_ORDER) {
            kind == MigrateType::Movable
        } else {
            kind == wanted
        }
    }

    fn candidate(&self, memory: &Memory, frame: FrameId) -> Candidate {
        let buddy = self.zone(memory).buddy();
        if let Some(order) = buddy.order_at(frame) {
            return Candidate::Free(order);
        }
        let flags = memory.frames.flags(frame);
        if !flags.has(Flag::OnList) {
            return if buddy.is_fixed(frame) { Candidate::Unmovable } else { Candidate::Busy };
        }
        if memory.huge_page_of(frame) == Some(frame) {
            return Candidate::Huge;
        }
        match () {
            // Kernels move these too; this machine does not.
            () if memory.frames.order(frame) > 0 => Candidate::Busy,
            // An anonymous page with more references than mappings is not even tried; one of a file is.
            () if memory.frames.is_pinned(frame) && !flags.has_any([Flag::FileOwned, Flag::SwapCache]) => {
                Candidate::Pinned
            }
            () if flags.has(Flag::Unevictable) && memory.compaction.keeps_unevictable => Candidate::Pinned,
            () if flags.has(Flag::Writeback) && self.request.mode != MigrateMode::Sync => Candidate::Busy,
            () => Candidate::Movable,
        }
    }

    /// Takes pages between `low` and `end`, which lie in one page block. Source: `isolate_migratepages_block`.
    fn isolate_block(&mut self, memory: &mut Memory, mut low: u32, end: u32) -> Vec<FrameId> {
        let order = self.request.order;
        let skips_on_failure = self.request.is_direct && self.request.mode == MigrateMode::Async && order.is_some();
        let window = order.map_or(BLOCK_PAGES, |order| 1 << order);
        let mut next_window = (low & !(window - 1)) + window;
        let is_whole = low.is_multiple_of(BLOCK_PAGES) || low == self.zone(memory).first_frame();
        if self.seen.block != block_of(low) {
            self.seen = SeenBlock { block: block_of(low), ..SeenBlock::default() };
        }
        let mut pages = Vec::new();
        let mut is_marked = false;
        while low < end {
            if skips_on_failure && low >= next_window {
                if !pages.is_empty() {
                    break;
                }
                next_window = (low & !(window - 1)) + window;
            }
            self.work.scanned_migrate += 1;
            let frame = FrameId::new(low);
            let jump = match self.candidate(memory, frame) {
                Candidate::Free(order) => {
                    let beyond = (1 << order) - 1;
                    self.work.scanned_migrate += u64::from(beyond);
                    low += beyond + 1;
                    continue;
                }
                Candidate::Movable => {
                    if memory.frames.is_pinned(frame) {
                        self.seen.pinned = true;
                    }
                    if !std::mem::replace(&mut is_marked, true) && is_whole && !self.request.ignores_skip {
                        // The first run to mark the block has it to itself.
                        let was = self.zone_mut(memory).compaction.set_skip(low);
                        if was && !self.finishes_block {
                            low = end;
                            break;
                        }
                    }
                    pages.push(frame);
                    low += 1;
                    if pages.len() as u64 >= CLUSTER && !self.finishes_block {
                        break;
                    }
                    continue;
                }
                Candidate::Huge => BLOCK_PAGES - 1,
                Candidate::Unmovable => {
                    self.seen.unmovable = true;
                    0
                }
                Candidate::Pinned => {
                    self.seen.pinned = true;
                    0
                }
                Candidate::Busy => 0,
            };
            self.work.scanned_migrate += u64::from(jump);
            low += jump;
            if skips_on_failure {
                // One page that stays makes all others of the window not worth moving.
                pages.clear();
                if low < next_window {
                    low = next_window - 1;
                    next_window += window;
                }
            }
            low += 1;
        }
        low = low.min(end);
        if low == end {
            self.work.blocks_unmovable += u64::from(self.seen.unmovable);
            self.work.blocks_pinned += u64::from(self.seen.pinned && !self.seen.unmovable);
            if pages.is_empty() || self.finishes_block {
                let mode = self.request.mode;
                let hints = &mut self.zone_mut(memory).compaction;
                if !is_marked && is_whole {
                    hints.set_skip(end - 1);
                }
                hints.advance_migrate(end, mode);
            }
        }
        memory.count(Counter::CompactIsolated, CgroupId::ROOT, pages.len() as u64);
        self.migrate = low;
        pages
    }
}
