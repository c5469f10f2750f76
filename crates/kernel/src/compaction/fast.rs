//! Short cuts through the lists of free blocks, instead of walks over all page blocks (docs/spec/compaction.md#s4-3).

use super::run::block_of;
use super::{BLOCK_PAGES, CLUSTER, ZoneRun};
use crate::cgroup::CgroupId;
use crate::counters::Counter;
use crate::memory::buddy::MigrateType;
use crate::memory::{FrameId, Memory};
use crate::migrate::MigrateMode;
use isotherm_core::compaction::COSTLY_ORDER;

/// The memory of searches of a pass.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct FastSearch {
    /// Searches without a hit since the last hit.
    pub(super) fails: u32,
    /// Position at which a linear walk for sources goes on after a search without a hit.
    start: Start,
    /// The order that the next search for targets begins with.
    order: u32,
}

#[derive(Clone, Copy, Debug, Default)]
enum Start {
    #[default]
    Unknown,
    /// The lowest page block that a search found.
    At(u32),
    Used,
}

impl FastSearch {
    pub(super) fn new(order: Option<u32>) -> Self {
        Self { order: order.map_or(0, |order| order.saturating_sub(1)), ..Self::default() }
    }

    /// Entries that a search may examine: halved by each failure. Source: `freelist_scan_limit`.
    pub(super) const fn limit(fails: u32) -> u64 {
        (CLUSTER >> if fails < 15 { fails } else { 15 }) + 1
    }

    /// The next order for targets, one after the other in a circle; `None` once round. Source: `next_search_order`.
    fn next_order(&mut self, order: u32, wanted: u32) -> Option<u32> {
        let next = order.checked_sub(1).unwrap_or(wanted - 1);
        if next == self.order {
            self.order = self.order.checked_sub(1).unwrap_or(wanted - 1);
            return None;
        }
        Some(next)
    }
}

impl ZoneRun {
    /// Where to scan for sources next: a page block that has a large free block already, so that there is less to move.
    /// Source: `fast_find_migrateblock`.
    pub(super) fn fast_source(&mut self, memory: &mut Memory) -> u32 {
        let first = self.zone(memory).first_frame();
        let is_inside = self.migrate != first && !self.migrate.is_multiple_of(BLOCK_PAGES);
        let order = match self.request.order {
            Some(order) if order > COSTLY_ORDER && !self.request.ignores_skip => order,
            _ => return self.migrate,
        };
        let is_foreign = self.request.is_direct && self.request.wanted != MigrateType::Movable && order < 9;
        if self.finishes_block || is_inside || is_foreign {
            return self.migrate;
        }
        let mut distance = self.free.saturating_sub(self.migrate) / 2;
        if self.migrate != first {
            distance /= 4;
        }
        let high = (self.migrate + distance) & !(BLOCK_PAGES - 1);
        let limit = FastSearch::limit(self.fast.fails);
        let mut nr_scanned = 0;
        let mut found = None;
        for order in (COSTLY_ORDER..order).rev() {
            if found.is_some() || nr_scanned >= limit {
                break;
            }
            let zone = self.zone(memory);
            let mut last = None;
            for block in zone.buddy().from_head(&memory.frames, order, MigrateType::Movable) {
                nr_scanned += 1;
                if nr_scanned > limit {
                    last = Some(block);
                    break;
                }
                let at = block.index_u32();
                if at < high && !zone.compaction.is_skipped(at) {
                    (found, last) = (Some(at), Some(block));
                    break;
                }
            }
            if let Some(last) = last {
                let Memory { nodes, frames, .. } = memory;
                let buddy = nodes.zone_mut(self.node, self.zone).buddy_mut();
                buddy.turn_to_tail(frames, order, MigrateType::Movable, last);
            }
        }
        self.work.scanned_migrate += nr_scanned;
        match found {
            Some(at) => {
                let block = at & !(BLOCK_PAGES - 1);
                self.fast.start = match self.fast.start {
                    Start::Unknown => Start::At(at),
                    Start::At(lowest) => Start::At(lowest.min(at)),
                    Start::Used => Start::Used,
                };
                self.fast.fails = 0;
                block.max(first)
            }
            None => {
                self.fast.fails += 1;
                if let Start::At(lowest) = self.fast.start {
                    self.fast.start = Start::Used;
                    self.migrate = (lowest & !(BLOCK_PAGES - 1)).max(first);
                }
                self.migrate
            }
        }
    }

    /// Searches for targets high up in the zone. Source: `fast_isolate_freepages`.
    pub(super) fn fast_targets(&mut self, memory: &mut Memory) {
        let Some(wanted) = self.request.order.filter(|&order| order > 0) else { return };
        let mut limit = (FastSearch::limit(self.fast.fails) / 2).max(1);
        let hints = &self.zone(memory).compaction;
        let is_start = self.free >= hints.init_free;
        if is_start {
            limit = u64::from(BLOCK_PAGES) / 2;
        }
        let distance = self.free.saturating_sub(self.migrate);
        let low = (self.free - distance / 4) & !(BLOCK_PAGES - 1);
        let min = (self.free - distance / 2) & !(BLOCK_PAGES - 1);
        let mut highest = 0;
        let mut hit = None;
        let mut nr_scanned = 0;
        self.fast.order = self.fast.order.min(wanted - 1);
        let mut next = Some(self.fast.order);
        while let Some(order) = next {
            let search = self.search_list(memory, order, &mut limit, low, min, &mut highest);
            nr_scanned += search.scanned;
            let Some(block) = search.found else {
                next = self.fast.next_order(order, wanted);
                continue;
            };
            if search.is_preferred {
                self.fast.fails = 0;
                self.fast.order = order;
            }
            if !self.set_aside(memory, block) {
                break;
            }
            hit = Some(block);
            nr_scanned += (1 << order) - 1;
            memory.count(Counter::CompactIsolated, CgroupId::ROOT, 1 << order);
            break;
        }
        if hit.is_none() {
            self.fast.fails += 1;
            if is_start && highest > 0 {
                self.start_lower(memory, highest, min);
            }
        }
        if highest > 0 && highest >= self.zone(memory).compaction.cached_free() {
            let below = highest.saturating_sub(BLOCK_PAGES);
            self.zone_mut(memory).compaction.set_free(below);
        }
        self.work.scanned_free += nr_scanned;
        if let Some(hit) = hit {
            self.take_around(memory, hit.index_u32());
        }
    }

    /// The scan begins at the highest free block that was seen, or, for a thread that waits, in the middle.
    fn start_lower(&mut self, memory: &Memory, highest: u32, min: u32) {
        if highest >= min {
            self.free = highest;
        } else if self.request.is_direct && min > self.zone(memory).first_frame() {
            self.free = min;
        }
    }

    fn search_list(
        &self,
        memory: &mut Memory,
        order: u32,
        limit: &mut u64,
        low: u32,
        min: u32,
        highest: &mut u32,
    ) -> Search {
        let mut search = Search::default();
        let (mut high, mut last) = (None, None);
        let zone = self.zone(memory);
        for block in zone.buddy().from_tail(&memory.frames, order, MigrateType::Movable) {
            search.scanned += 1;
            last = Some(block);
            let at = block.index_u32();
            *highest = (*highest).max((at & !(BLOCK_PAGES - 1)).max(zone.first_frame()));
            if at >= low {
                search.found = Some(block);
                search.is_preferred = true;
                break;
            }
            if at >= min && high.is_none_or(|high: FrameId| at > high.index_u32()) {
                high = Some(block);
                *limit /= 2;
            }
            if search.scanned >= *limit {
                break;
            }
        }
        if search.found.is_none() {
            search.found = high;
        }
        if let Some(first) = search.found.or(last) {
            let Memory { nodes, frames, .. } = memory;
            let buddy = nodes.zone_mut(self.node, self.zone).buddy_mut();
            buddy.turn_to_head(frames, order, MigrateType::Movable, first);
        }
        if search.scanned >= *limit {
            *limit = (*limit / 2).max(1);
        }
        search
    }

    /// Takes more pages from the page block in which one was found. Source: `fast_isolate_around`.
    fn take_around(&mut self, memory: &mut Memory, at: u32) {
        let is_hurried = self.request.is_direct && self.request.mode == MigrateMode::Async;
        if self.private.pages() >= self.to_place || is_hurried {
            return;
        }
        let zone = self.zone(memory).range();
        let start = (block_of(at) * BLOCK_PAGES).max(zone.start);
        let end = (block_of(at) * BLOCK_PAGES + BLOCK_PAGES).min(zone.end);
        if self.take_from_block(memory, start, end, 1) == end {
            self.zone_mut(memory).compaction.set_skip(at);
        }
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct Search {
    found: Option<FrameId>,
    is_preferred: bool,
    scanned: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// docs/spec/compaction.md#s11, E24.
    #[test]
    fn e24_each_search_in_vain_halves_the_next() {
        let limits: Vec<u64> = (0..8).map(FastSearch::limit).collect();
        assert_eq!(limits, [33, 17, 9, 5, 3, 2, 1, 1]);
        let targets: Vec<u64> = limits.iter().map(|limit| (limit / 2).max(1)).collect();
        assert_eq!(targets[..7], [16, 8, 4, 2, 1, 1, 1]);
    }
}
