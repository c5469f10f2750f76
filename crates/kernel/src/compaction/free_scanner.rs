//! The scanner for targets: from the top of a zone down, free pages for others to move into (docs/spec/compaction.md#s4-3-2).

use super::{BLOCK_PAGES, CLUSTER, Request, ZoneRun};
use crate::cgroup::CgroupId;
use crate::counters::Counter;
use crate::memory::buddy::{BLOCK_ORDER, MAX_ORDER, MigrateType};
use crate::memory::{FrameId, Memory};
use crate::migrate::MigrateMode;
use std::collections::VecDeque;

/// Free blocks that a pass holds, by order: neither free nor in use.
#[derive(Clone, Debug, Default)]
pub(super) struct Private {
    lists: [VecDeque<u32>; MAX_ORDER as usize + 1],
    pages: u64,
}

impl Private {
    pub(super) const fn pages(&self) -> u64 {
        self.pages
    }

    fn add(&mut self, block: u32, order: u32) {
        self.lists[order as usize].push_back(block);
        self.pages += 1 << order;
    }

    /// A page is given back.
    pub(super) fn give(&mut self, block: u32, order: u32) {
        self.lists[order as usize].push_front(block);
        self.pages += 1 << order;
    }

    /// A page out of the smallest block; its lower half is kept, upper ones go to the heads of their lists.
    fn take(&mut self) -> Option<u32> {
        let mut order = self.lists.iter().position(|list| !list.is_empty())?;
        let block = self.lists[order].pop_front()?;
        while order > 0 {
            order -= 1;
            self.lists[order].push_front(block + (1 << order));
        }
        self.pages -= 1;
        Some(block)
    }

    /// Empties it: blocks with their orders.
    pub(super) fn take_all(&mut self) -> Vec<(u32, u32)> {
        self.pages = 0;
        (0..).zip(&mut self.lists).flat_map(|(order, list)| list.drain(..).map(move |block| (block, order))).collect()
    }
}

impl ZoneRun {
    /// Takes a page into which another one can be moved.
    pub(super) fn target(&mut self, memory: &mut Memory) -> Option<FrameId> {
        if self.private.pages == 0 {
            self.look_for_targets(memory);
        }
        self.private.take().map(FrameId::new)
    }

    fn has_enough(&self) -> bool {
        self.private.pages >= self.to_place
    }

    fn look_for_targets(&mut self, memory: &mut Memory) {
        self.fast_targets(memory);
        if self.private.pages > 0 {
            return;
        }
        let zone = self.zone(memory).range();
        let lowest = (self.migrate | (BLOCK_PAGES - 1)) + 1;
        let mut at = self.free;
        let mut block = (at & !(BLOCK_PAGES - 1)).max(zone.start);
        let mut stride = if self.request.mode == MigrateMode::Async { CLUSTER } else { 1 };
        while block >= lowest {
            let end = ((block & !(BLOCK_PAGES - 1)) + BLOCK_PAGES).min(zone.end);
            let below = block.saturating_sub(BLOCK_PAGES);
            if self.is_target(memory, block) && self.is_worth_a_look(memory, block) {
                let before = self.private.pages;
                at = self.take_from_block(memory, at, end, stride);
                if at == end {
                    self.exhausted(memory, block, below);
                }
                if self.has_enough() {
                    if at >= end {
                        at = below;
                    }
                    break;
                }
                if at < end {
                    break;
                }
                stride = if self.private.pages > before { 1 } else { (stride * 2).min(CLUSTER) };
            }
            block = below;
            at = below;
        }
        self.free = at;
    }

    /// The block was searched to its end.
    fn exhausted(&self, memory: &mut Memory, block: u32, below: u32) {
        let hints = &mut self.zone_mut(memory).compaction;
        hints.set_skip(block);
        hints.lower_free(below);
    }

    pub(super) fn is_worth_a_look(&self, memory: &Memory, block: u32) -> bool {
        self.request.ignores_skip || !self.zone(memory).compaction.is_skipped(block)
    }

    /// Whether pages may be moved into a page block: not into a block that is already a result, nor into one of another type.
    pub(super) fn is_target(&self, memory: &Memory, block: u32) -> bool {
        let buddy = self.zone(memory).buddy();
        let Request { order, ignores_type, .. } = self.request;
        let first = FrameId::new(block);
        if buddy.order_at(first).is_some_and(|free| free >= order.unwrap_or(BLOCK_ORDER)) {
            return false;
        }
        ignores_type || buddy.type_of(first) == MigrateType::Movable
    }

    /// Takes free blocks from `at` up to `end`, until there are enough. Where it stopped. Source: `isolate_freepages_block`.
    pub(super) fn take_from_block(&mut self, memory: &mut Memory, mut at: u32, end: u32, stride: u64) -> u32 {
        let stride = u32::try_from(stride).expect("at most 32");
        let mut taken = 0;
        while at < end {
            self.work.scanned_free += 1;
            let frame = FrameId::new(at);
            if let Some(order) = self.zone(memory).buddy().order_at(frame) {
                if !self.set_aside(memory, frame) {
                    break;
                }
                taken += 1 << order;
                self.work.scanned_free += (1 << order) - 1;
                if self.to_place <= self.private.pages {
                    at += 1 << order;
                    break;
                }
                at += (1 << order) - 1;
            } else if memory.huge_page_of(frame) == Some(frame) {
                self.work.scanned_free += u64::from(BLOCK_PAGES) - 1;
                at += BLOCK_PAGES - 1;
            }
            at = at.saturating_add(stride);
        }
        memory.count(Counter::CompactIsolated, CgroupId::ROOT, taken);
        at.min(end)
    }

    /// Takes one free block; `false` if the watermark is in the way.
    pub(super) fn set_aside(&mut self, memory: &mut Memory, block: FrameId) -> bool {
        let Memory { nodes, frames, .. } = memory;
        match nodes.zone_mut(self.node, self.zone).set_aside(frames, block) {
            Some(order) => {
                self.private.add(block.index_u32(), order);
                true
            }
            None => false,
        }
    }
}
