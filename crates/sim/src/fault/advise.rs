//! `madvise`.

use super::window::{FileWindow, Planned, Window, begin_file_window, continue_window};
use super::{FaultState, huge, layout};
use crate::memory::{FileId, Flag, FrameId, Memory, PageOwner};
use crate::mmu::{DensePage, Entry, SpaceId, Vma};
use crate::reclaim::{Hint, ReclaimPolicy};
use isotherm_units::PageRange;
use isotherm_units::access::{Advice, Backing};

/// Carries out `advice` on the mapped parts of `range`.
pub(super) fn advise(
    memory: &mut Memory,
    policy: &mut dyn ReclaimPolicy,
    space: SpaceId,
    range: PageRange,
    advice: Advice,
) {
    if let Advice::Normal | Advice::Random | Advice::Sequential = advice {
        return memory.space_mut(space).vmas.set_order(range, advice);
    }
    let vmas: Vec<Vma> = memory.space(space).vmas.iter().filter(|vma| vma.pages().overlaps(range)).copied().collect();
    for vma in vmas {
        let part = vma.pages().intersection(range);
        if advice != Advice::WillNeed {
            huge::split_range(memory, space, part);
        }
        match advice {
            Advice::Normal | Advice::Random | Advice::Sequential => {}
            Advice::DontNeed => layout::zap_range(memory, policy, space, part),
            Advice::WillNeed => will_need(memory, policy, space, &vma, part),
            Advice::Free if vma.mapping.backing == Backing::Anonymous => lazy_free(memory, policy, space, part),
            Advice::Free => {}
            Advice::Cold => cold(memory, policy, space, part),
            Advice::PageOut => page_out(memory, policy, space, part),
        }
    }
}

/// Frames of `range` that only `space` maps, with their entries.
fn own_frames(memory: &Memory, space: SpaceId, range: PageRange) -> Vec<(DensePage, FrameId)> {
    let table = &memory.space(space).table;
    let frames = table.present_in(range).filter_map(|dense| match table.entry(dense) {
        Entry::Frame(frame) => Some((dense, frame)),
        _ => None,
    });
    let alone =
        |&(_, frame): &(DensePage, FrameId)| memory.sole_mapper(frame).is_some() || memory.mappers(frame).len() == 1;
    frames.filter(alone).collect()
}

/// `MADV_FREE`: contents may go; slots go now.
fn lazy_free(memory: &mut Memory, policy: &mut dyn ReclaimPolicy, space: SpaceId, range: PageRange) {
    let swapped: Vec<DensePage> = memory.space(space).table.populated_in(range).collect();
    for dense in swapped {
        if let Entry::Swap(_) = memory.space(space).table.entry(dense) {
            super::release::zap(memory, policy, space, dense);
        }
    }
    for (dense, frame) in own_frames(memory, space, range) {
        let busy = memory.frames.has(frame, Flag::Writeback);
        let slot_shared = memory.frames.slot(frame).is_some_and(|slot| memory.slots.users(slot) > 0);
        if memory.frames.has(frame, Flag::FileOwned) || memory.frames.has(frame, Flag::Shared) || busy || slot_shared {
            continue;
        }
        memory.leave_swap_cache(frame, None);
        memory.frames.clear(frame, Flag::Dirty);
        let writable = memory.space(space).table.is_writable(dense);
        let table = &mut memory.space_mut(space).table;
        table.set_present(dense, Entry::Frame(frame), writable, false, false);
        policy.hint(memory, frame, Hint::LazyFree);
    }
    memory.update_hidden();
}

/// `MADV_COLD`: forgets that the pages were used.
fn cold(memory: &mut Memory, policy: &mut dyn ReclaimPolicy, space: SpaceId, range: PageRange) {
    for (dense, frame) in own_frames(memory, space, range) {
        memory.space_mut(space).table.test_and_clear_young(dense);
        memory.frames.clear(frame, Flag::Referenced);
        memory.ledger.spend(memory.costs.pte_scan_ns);
        policy.hint(memory, frame, Hint::Cold);
    }
}

/// `MADV_PAGEOUT`: reclaims the pages now, as far as reclaim lets them go.
fn page_out(memory: &mut Memory, policy: &mut dyn ReclaimPolicy, space: SpaceId, range: PageRange) {
    cold(memory, policy, space, range);
}

/// `MADV_WILLNEED`: begins to read, waits for nothing and does not reclaim.
fn will_need(memory: &mut Memory, policy: &mut dyn ReclaimPolicy, space: SpaceId, vma: &Vma, range: PageRange) {
    if policy.is_exact() {
        return;
    }
    let mut state = FaultState::default();
    let mut slots = Vec::new();
    for dense in memory.space(space).table.populated_in(range) {
        if let Entry::Swap(slot) = memory.space(space).table.entry(dense) {
            slots.push(Planned { slot, owner: PageOwner::Anonymous { space, page: dense }, neighbour: true });
        }
    }
    slots.reverse();
    state.window = Some(Window::Swap(slots));
    if continue_window(memory, policy, &mut state).is_err() {
        return;
    }
    if let Backing::File { file, first_page, .. } = vma.mapping.backing {
        let file = FileId::from_index(file);
        if memory.is_shared_memory(vma) {
            return;
        }
        let pages = PageRange::at(first_page + (range.start - vma.pages().start), range.len());
        let cgroup = memory.space(space).cgroup;
        let window = FileWindow { file, pages, mark: None, cgroup };
        // A shortage ends it: nobody waits for these pages.
        let _ended_early = begin_file_window(memory, policy, &mut state, window);
    }
}
