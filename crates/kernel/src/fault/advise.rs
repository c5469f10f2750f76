//! `madvise`.

use super::release::{Recency, zap};
use super::window::{FileWindow, Planned, Window, begin_file_window, continue_window};
use super::{FaultState, huge, layout};
use crate::cgroup::CgroupId;
use crate::memory::{FileId, Flag, FrameId, Memory, PageOwner};
use crate::mmu::{DensePage, Entry, SpaceId, Vma};
use crate::reclaim::outcome::{Fate, put_back, take_out};
use crate::reclaim::{Hint, ReclaimPolicy, Reclaimer, Scan};
use isotherm_units::PageRange;
use isotherm_units::access::{Advice, Backing};
use std::collections::BTreeMap;

/// Carries out `advice` on the mapped parts of `range`.
pub fn advise(memory: &mut Memory, policy: &mut dyn ReclaimPolicy, space: SpaceId, range: PageRange, advice: Advice) {
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
            Advice::DontNeed => layout::zap_range(memory, policy, space, &vma, part),
            Advice::WillNeed => will_need(memory, policy, space, &vma, part),
            Advice::Free if vma.mapping.backing == Backing::Anonymous => lazy_free(memory, policy, space, part),
            Advice::Free => {}
            Advice::Cold => cold(memory, policy, space, part),
            Advice::PageOut => page_out(memory, policy, space, part),
        }
    }
}

/// Frames of `range` that only `space` maps, with their entries. A folio of several pages is left out unless `space` maps all of it in
/// `range`: kernels split it then.
fn own_frames(memory: &Memory, space: SpaceId, range: PageRange) -> Vec<(DensePage, FrameId)> {
    let table = &memory.space(space).table;
    let frames = table.present_in(range).filter_map(|dense| match table.entry(dense) {
        Entry::Frame(frame) => Some((dense, frame)),
        _ => None,
    });
    let alone =
        |&(_, frame): &(DensePage, FrameId)| memory.sole_mapper(frame).is_some() || memory.mappers(frame).len() == 1;
    let mut own: Vec<(DensePage, FrameId)> = frames.filter(alone).collect();
    if memory.frames.has_folios() {
        let mut found: BTreeMap<FrameId, u64> = BTreeMap::new();
        own.iter().for_each(|&(_, frame)| *found.entry(memory.frames.head(frame)).or_default() += 1);
        own.retain(|&(_, frame)| found[&memory.frames.head(frame)] == memory.frames.nr_pages(frame));
    }
    own
}

/// `MADV_FREE`: contents may go; slots go now.
fn lazy_free(memory: &mut Memory, policy: &mut dyn ReclaimPolicy, space: SpaceId, range: PageRange) {
    let swapped: Vec<DensePage> = memory.space(space).table.populated_in(range).collect();
    for dense in swapped {
        if let Entry::Swap(_) = memory.space(space).table.entry(dense) {
            zap(memory, policy, space, dense, Recency::Meant);
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
        if memory.frames.head(frame) == frame {
            policy.hint(memory, frame, Hint::Cold);
        }
    }
}

/// `MADV_PAGEOUT`: reclaims the pages now, as far as reclaim lets them go. Like the kernel's, it counts no scans.
fn page_out(memory: &mut Memory, policy: &mut dyn ReclaimPolicy, space: SpaceId, range: PageRange) {
    let mut scan = Scan::new(Reclaimer::Proactive, CgroupId::ROOT, range.len(), memory.config.swappiness);
    for (dense, frame) in own_frames(memory, space, range) {
        if !memory.frames.has(frame, Flag::OnList) {
            continue;
        }
        memory.space_mut(space).table.test_and_clear_young(dense);
        if take_out(memory, policy, frame, &mut scan) != Fate::Freed {
            put_back(memory, policy, frame);
        }
    }
    memory.update_hidden();
}

/// `MADV_WILLNEED`: begins to read, waits for nothing and does not reclaim.
fn will_need(memory: &mut Memory, policy: &mut dyn ReclaimPolicy, space: SpaceId, vma: &Vma, range: PageRange) {
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
        let window = FileWindow { file, pages, mark: None, large: None, cgroup };
        // A shortage ends it: no task waits for these pages.
        let _ended_early = begin_file_window(memory, policy, &mut state, window);
    }
}

#[cfg(test)]
mod tests {
    use crate::counters::Counter::{PgFault, PgMajFault, PswpIn, PswpOut};
    use crate::memory::{FileId, Flag};
    use crate::mmu::{Entry, SpaceId};
    use crate::reclaim::Hint;
    use crate::swap::device::DeviceKind;
    use crate::testkit::Rig;
    use isotherm_units::PageRange;
    use isotherm_units::access::{Advice, FileKind, LayoutChange, Sharing};

    fn advise(rig: &mut Rig, space: SpaceId, start: u64, end: u64, advice: Advice) {
        rig.change(space, LayoutChange::Advise(PageRange::new(start, end), advice));
    }

    fn written(device: DeviceKind) -> (Rig, SpaceId) {
        let mut rig = Rig::new(device);
        let space = rig.anonymous(64);
        for page in 0..20 {
            rig.write(space, page);
        }
        rig.policy.hints.clear();
        (rig, space)
    }

    #[test]
    fn dont_need_drops_pages_and_slots_and_keeps_the_mapping() {
        let (mut rig, space) = written(DeviceKind::Nvme);
        (0..10).for_each(|page| rig.evict(space, page));
        advise(&mut rig, space, 0, 64, Advice::DontNeed);
        rig.assert_empty();
        rig.read(space, 3);
        assert_eq!((rig.entry(space, 3), rig.count(PgMajFault)), (Entry::Zero, 0), "zeroes again");
    }

    #[test]
    fn freed_pages_go_without_a_write_unless_they_were_written_again() {
        let (mut rig, space) = written(DeviceKind::Nvme);
        (0..5).for_each(|page| rig.evict(space, page));
        advise(&mut rig, space, 0, 20, Advice::Free);
        assert_eq!((rig.memory.slots.used(), rig.policy.hints.len()), (0, 15), "slots go at once");
        rig.write(space, 7);
        assert_eq!(rig.count(PgFault), 20, "a store needs no fault");
        let writes = rig.count(PswpOut);
        assert_eq!(rig.reclaim(64), 14);
        assert!(rig.frame(space, 7).is_some() && rig.has(space, 7, Flag::SwapBacked), "wanted after all");
        assert_eq!((rig.count(PswpOut) - writes, rig.entry(space, 8)), (0, Entry::None));
    }

    #[test]
    fn cold_pages_are_hinted_and_paged_out_ones_go() {
        let (mut rig, space) = written(DeviceKind::Zram);
        advise(&mut rig, space, 0, 4, Advice::Cold);
        assert_eq!(rig.policy.hints, [Hint::Cold; 4]);
        let dense = rig.dense(space, 2);
        assert!(!rig.memory.space(space).table.is_young(dense));
        advise(&mut rig, space, 4, 8, Advice::PageOut);
        assert_eq!((rig.memory.space(space).nr_swapped, rig.memory.space(space).nr_resident), (4, 16));
        let child = rig.fork(space);
        advise(&mut rig, space, 0, 20, Advice::PageOut);
        assert_eq!(rig.memory.space(space).nr_swapped, 4, "shared pages are not this process's to give");
        rig.exit(child);
    }

    #[test]
    fn will_need_reads_without_waiting() {
        let (mut rig, space) = written(DeviceKind::Nvme);
        (0..10).for_each(|page| rig.evict(space, page));
        advise(&mut rig, space, 0, 10, Advice::WillNeed);
        rig.settle();
        assert_eq!((rig.count(PswpIn), rig.memory.space(space).nr_resident), (10, 10));
        assert_eq!(rig.read(space, 3).waits, 0);
        rig.map_file(space, "data", 100, 200, Sharing::Shared, FileKind::Regular);
        advise(&mut rig, space, 110, 120, Advice::WillNeed);
        assert_eq!(rig.memory.files.get(FileId::from_index(0)).nr_cached, 10);
        rig.settle();
        rig.read(space, 115);
        assert_eq!(rig.count(PgMajFault), 0);
    }
}
