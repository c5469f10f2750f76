//! `MADV_COLLAPSE`: a huge page at once, in place of the mapped base pages.

use super::allocate::allocate_block;
use super::huge::{BLOCK_ORDER, BLOCK_PAGES, map_block};
use super::release::{Recency, zap};
use super::{FaultOutcome, FaultState, fault};
use crate::memory::{Flag, FrameId, Memory};
use crate::mmu::{DensePage, Entry, Need, SpaceId};
use crate::reclaim::ReclaimPolicy;
use isotherm_units::PageRange;
use isotherm_units::access::Backing;

/// Gives each whole block of `range` a huge page. `true` if each mapped part of the range holds such a block and all of them are huge now;
/// a block that fails does not keep the others from trying.
pub fn collapse(memory: &mut Memory, policy: &mut dyn ReclaimPolicy, space: SpaceId, range: PageRange) -> bool {
    let vmas = memory.space(space).vmas.iter().filter(|vma| vma.pages().overlaps(range));
    let parts: Vec<_> = vmas.map(|vma| (vma.mapping.backing, vma.pages().intersection(range))).collect();
    let mut all = !parts.is_empty();
    for (backing, part) in parts {
        let blocks = part.start.div_ceil(BLOCK_PAGES)..part.end / BLOCK_PAGES;
        all &= backing == Backing::Anonymous && !blocks.is_empty();
        for block in blocks.filter(|_| backing == Backing::Anonymous) {
            all &= collapse_block(memory, policy, space, block);
        }
    }
    all
}

/// Copies the pages of a block into a huge one. Fails if no page is resident, if pages are shared, in flight or have to be waited for, and
/// if there is no memory.
fn collapse_block(memory: &mut Memory, policy: &mut dyn ReclaimPolicy, space: SpaceId, block: u64) -> bool {
    memory.ledger.spend(memory.costs.scan_table_ns);
    if memory.space(space).huge_blocks.contains(&block) {
        return true;
    }
    let range = PageRange::at(block * BLOCK_PAGES, BLOCK_PAGES);
    if !swap_in(memory, policy, space, range) {
        return false;
    }
    let populated = memory.space(space).table.collect_populated(range);
    let frame_of = |&dense: &DensePage| memory.space(space).table.frame_of(dense);
    let frames: Vec<FrameId> = populated.iter().filter_map(frame_of).collect();
    let Some(&first) = frames.first() else { return false };
    if !frames.iter().all(|&frame| is_movable(memory, frame)) {
        return false;
    }
    let (cgroup, node) = (memory.space(space).cgroup, memory.nodes.of(first));
    let Some(new) = allocate_block(memory, cgroup, node, BLOCK_ORDER) else { return false };
    let nr_copied = frames.len() as u64;
    let filling = nr_copied * memory.costs.page_copy_ns + (BLOCK_PAGES - nr_copied) * memory.costs.page_zero_ns;
    memory.ledger.spend(filling + memory.costs.tlb_flush_ns);
    for dense in populated {
        zap(memory, policy, space, dense, Recency::Meant);
    }
    map_block(memory, policy, space, block, new);
    true
}

/// Brings in swapped-out pages. `false` if a page must be waited for, or has no room: reads go on without the caller.
fn swap_in(memory: &mut Memory, policy: &mut dyn ReclaimPolicy, space: SpaceId, range: PageRange) -> bool {
    for dense in memory.space(space).table.collect_populated(range) {
        let table = &memory.space(space).table;
        if let Entry::Swap(_) = table.entry(dense) {
            let page = table.page_of(dense);
            let mut state = FaultState::default();
            if fault(memory, policy, space, page, Need::Read, &mut state) != FaultOutcome::Done {
                return false;
            }
        }
    }
    true
}

fn is_movable(memory: &Memory, frame: FrameId) -> bool {
    let busy = [Flag::Reading, Flag::Writeback, Flag::Unevictable, Flag::FileOwned];
    !memory.frames.flags(frame).has_any(busy)
        && (memory.sole_mapper(frame).is_some() || memory.mappers(frame).len() == 1)
}
