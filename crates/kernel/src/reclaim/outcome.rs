//! The handling of a page that a policy has taken off its lists: the same under every policy (docs/spec/classic-lru.md#s3-4,
//! #s9-2).
//!
//! A policy calls [`divert`] first; pages that pass get the policy's own check for uses; pages that fail that check go to [`evict`]. Pages
//! that stay resident are returned with a [`Fate`] that names the kind of list.

use super::scan_balance::PageType;
use super::swap_out::swap_out;
use super::{Arrival, ReclaimPolicy, Reclaimer, Scan};
use crate::cgroup::{CgroupId, Limit};
use crate::counters::Counter;
use crate::memory::{CachePage, Flag, FolioMapper, FrameId, Memory, PageOwner, Written};
use crate::mmu::{DensePage, Entry, SpaceId};
use crate::swap::SlotId;

/// Where a page goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// The page is evicted; its frame is free.
    Freed,
    /// Stays; cold.
    Keep,
    /// Stays; hot. The policy calls [`activate`].
    Activate,
    /// The page is to be moved to a slower node with others.
    Demote,
}

/// The type of list that a page belongs on.
#[inline]
pub fn page_type(memory: &Memory, frame: FrameId) -> PageType {
    if memory.frames.is_file_lru(frame) { PageType::File } else { PageType::Anon }
}

/// A lazily freed page counts as a file page from now on. Returns whether that is new. A page on a list is subtracted from the counts
/// (`false`) with its old kind, and added (`true`) with its new kind.
pub(super) fn free_lazily(memory: &mut Memory, frame: FrameId, mut count: impl FnMut(&mut Memory, bool)) -> bool {
    if !memory.frames.has(frame, Flag::SwapBacked) || memory.frames.has(frame, Flag::FileOwned) {
        return false;
    }
    let is_listed = memory.frames.has(frame, Flag::OnList);
    if is_listed {
        count(memory, false);
    }
    memory.frames.clear(frame, Flag::SwapBacked);
    if is_listed {
        count(memory, true);
    }
    let cgroup = memory.frames.cgroup(frame);
    memory.count(Counter::PgLazyFree, cgroup, 1);
    true
}

/// Counts a page on a list, or off it.
pub(super) fn count_on(size: &mut u64, is_on: bool) {
    debug_assert!(is_on || *size > 0, "a listed page was counted");
    *size = if is_on { *size + 1 } else { *size - 1 };
}

/// Notes the kind of the page, and decides about pages that no policy can evict now: locked in memory, being read, being written. `None`:
/// the policy decides.
#[inline]
pub fn divert(memory: &mut Memory, frame: FrameId, scan: &mut Scan) -> Option<Fate> {
    debug_assert!(!memory.frames.has(frame, Flag::OnList), "a page is judged when it is off its list");
    // Mostly nothing is in the way.
    let flags = memory.frames.flags(frame);
    if flags.has(Flag::SwapBacked) && !flags.has_any([Flag::Reading, Flag::Writeback, Flag::Unevictable]) {
        scan.taken.pages += 1;
        return None;
    }
    let frames = &mut memory.frames;
    let is_file = frames.is_file_lru(frame);
    let is_writeback = frames.has(frame, Flag::Writeback);
    let pages = frames.nr_pages(frame);
    scan.taken.pages += pages;
    if is_file {
        // Only file pages hold reclaim up: anonymous ones are written by reclaim itself.
        let is_dirty = frames.has(frame, Flag::Dirty);
        let pages_if = |holds: bool| if holds { pages } else { 0 };
        scan.taken.file += pages;
        scan.taken.dirty += pages_if(is_dirty || is_writeback);
        scan.taken.dirty_unqueued += pages_if(is_dirty && !is_writeback);
        scan.taken.congested += pages_if(is_writeback && frames.has(frame, Flag::Reclaim));
    }
    if frames.has(frame, Flag::Reading) {
        return Some(Fate::Keep); // locked
    }
    if frames.has(frame, Flag::Unevictable) {
        return Some(Fate::Activate);
    }
    if is_writeback {
        let met_before = frames.has(frame, Flag::Reclaim);
        frames.set(frame, Flag::Reclaim);
        let node = memory.nodes.of(frame);
        if scan.reclaimer == Reclaimer::Kswapd && met_before && memory.reclaim.is_all_writeback(node) {
            scan.taken.immediate += pages;
        } else {
            scan.taken.writeback += pages;
        }
        return Some(Fate::Activate);
    }
    None
}

/// Evicts a page that is on no list: finds it a slot, unmaps it, has it written if it must be, and frees it if it is
/// clean. CPU time goes to [`Memory::ledger`].
#[inline]
pub fn evict<P: ReclaimPolicy + ?Sized>(memory: &mut Memory, policy: &mut P, frame: FrameId, scan: &mut Scan) -> Fate {
    let flags = memory.frames.flags(frame);
    debug_assert!(!flags.has(Flag::OnList), "still on a list");
    debug_assert!(
        !flags.has_any([Flag::Reading, Flag::Writeback, Flag::Unevictable]),
        "pages that cannot go were diverted"
    );
    swap_out(memory, policy, frame, scan).unwrap_or_else(|| evict_by_steps(memory, policy, frame, scan))
}

/// The long way, which every page can go.
#[inline(never)]
pub(super) fn evict_by_steps<P: ReclaimPolicy + ?Sized>(
    memory: &mut Memory,
    policy: &mut P,
    frame: FrameId,
    scan: &mut Scan,
) -> Fate {
    let flags = memory.frames.flags(frame);
    let is_swap_backed = flags.has(Flag::SwapBacked);
    let is_lazily_freed = !is_swap_backed && !flags.has(Flag::FileOwned);
    if is_swap_backed && !flags.has(Flag::SwapCache) {
        if !scan.may_swap {
            return Fate::Keep;
        }
        if !add_to_swap(memory, frame) {
            return Fate::Activate;
        }
    }
    if is_lazily_freed && (flags.has(Flag::Dirty) || is_mapped_dirty(memory, frame)) {
        memory.frames.set(frame, Flag::SwapBacked); // written since: wanted after all
        return Fate::Activate;
    }
    unmap(memory, frame, scan);
    debug_assert!(memory.sole_mapper(frame).is_none(), "no entry shows the page any more");
    if memory.frames.has(frame, Flag::Dirty) {
        let is_exact = policy.is_exact();
        if is_swap_backed {
            scan.taken.written += 1;
            if is_exact && !flags.has(Flag::ZeroFilled) {
                memory.submit_swap_write_detached(frame);
            } else if let Written::At(_) = memory.submit_swap_write(frame) {
                memory.frames.set(frame, Flag::Reclaim);
                return Fate::Keep;
            }
        } else if is_exact {
            if let PageOwner::File { file, page } = memory.frames.owner(frame) {
                memory.forget_dirty(file, page);
            }
            memory.submit_file_write_detached(frame);
        } else {
            memory.frames.set(frame, Flag::Reclaim);
            return Fate::Activate;
        }
    }
    let shadow = if is_lazily_freed { None } else { policy.shadow_of(memory, frame, scan.root) };
    if is_lazily_freed {
        let cgroup = memory.frames.cgroup(frame);
        memory.count(Counter::PgLazyFreed, cgroup, 1);
    }
    memory.frames.clear(frame, Flag::Isolated);
    memory.ledger.spend(memory.costs.free_page_ns);
    let had_slot = memory.frames.has(frame, Flag::SwapCache);
    memory.free_page(frame, shadow);
    if had_slot {
        memory.update_hidden();
    }
    Fate::Freed
}

/// Takes a page off its list and evicts it now, whether it was used or not (`MADV_PAGEOUT`, schemes). A page that is not freed is on no
/// list: [`put_back`].
pub fn take_out(memory: &mut Memory, policy: &mut dyn ReclaimPolicy, frame: FrameId, scan: &mut Scan) -> Fate {
    policy.removed(memory, frame);
    divert(memory, frame, scan).unwrap_or_else(|| evict(memory, policy, frame, scan))
}

/// Puts a page that was taken off its list on the list that its flags name.
pub fn put_back(memory: &mut Memory, policy: &mut dyn ReclaimPolicy, frame: FrameId) {
    let is_file = memory.frames.has(frame, Flag::FileOwned);
    let arrival = if is_file { Arrival::FileRead } else { Arrival::Anonymous };
    policy.added(memory, frame, arrival, None);
}

/// A page stays and counts as hot: marks and counts it, and gives its slot back if swap is getting full. Pages locked in memory
/// are only skipped.
pub fn activate(memory: &mut Memory, frame: FrameId) {
    debug_assert!(!memory.frames.has(frame, Flag::OnList), "a page is judged when it is off its list");
    if memory.frames.has(frame, Flag::Unevictable) {
        return;
    }
    let cgroup = memory.frames.cgroup(frame);
    if let Some(slot) = memory.frames.slot(frame) {
        let is_free_to_go = memory.slots.users(slot) == 0 && !memory.frames.has(frame, Flag::Writeback);
        if is_free_to_go && swap_is_full(memory, cgroup) {
            memory.leave_swap_cache(frame, None);
            memory.frames.set(frame, Flag::Dirty);
        }
    }
    memory.frames.set(frame, Flag::Active);
    memory.count(Counter::PgActivate, cgroup, memory.frames.nr_pages(frame));
}

/// Whether slots kept by resident pages should be given back: more than half is used of the device, or of the swap limit of the group or an
/// ancestor.
pub fn swap_is_full(memory: &Memory, cgroup: CgroupId) -> bool {
    if memory.slots.free() * 2 < memory.slots.total() {
        return true;
    }
    memory.cgroups.lineage(cgroup).any(|id| {
        let group = memory.cgroups.get(id);
        [group.swap_max, group.swap_high].into_iter().any(|limit| match limit {
            Limit::Unlimited => false,
            Limit::At(limit) => group.swap_usage * 2 >= limit.get(),
        })
    })
}

/// Books one batch: pages examined and pages freed of a type, on behalf of `scan`, and the TLB flush that its unmaps need.
pub fn count_batch(memory: &mut Memory, scan: &Scan, cgroup: CgroupId, page_type: PageType, batch: Batch) {
    let (by_scanner, by_stealer) = match scan.reclaimer {
        Reclaimer::Kswapd => (Counter::PgScanKswapd, Counter::PgStealKswapd),
        Reclaimer::Direct | Reclaimer::Limit => (Counter::PgScanDirect, Counter::PgStealDirect),
        Reclaimer::Proactive => (Counter::PgScanProactive, Counter::PgStealProactive),
    };
    let (of_scanned, of_stolen) = match page_type {
        PageType::Anon => (Counter::PgScanAnon, Counter::PgStealAnon),
        PageType::File => (Counter::PgScanFile, Counter::PgStealFile),
    };
    let scanned = [by_scanner, of_scanned].map(|counter| (counter, batch.scanned));
    let stolen = [by_stealer, of_stolen].map(|counter| (counter, batch.reclaimed));
    memory.count_all(cgroup, scanned);
    memory.count_all(cgroup, stolen);
    if batch.unmapped > 0 {
        memory.ledger.spend(memory.costs.tlb_flush_ns);
    }
}

/// Pages of one batch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Batch {
    /// Examined.
    pub scanned: u64,
    /// Freed.
    pub reclaimed: u64,
    /// Page-table entries removed.
    pub unmapped: u64,
}

/// Gives the page a slot and makes it dirty, so that it will be written there. `false`: no swap, none left, or not for
/// this group.
fn add_to_swap(memory: &mut Memory, frame: FrameId) -> bool {
    debug_assert!(
        memory.frames.has(frame, Flag::SwapBacked) && memory.frames.slot(frame).is_none(),
        "a page that goes to swap gets one slot"
    );
    let cgroup = memory.frames.cgroup(frame);
    if !memory.cgroups.may_swap(cgroup) {
        return false;
    }
    let Some(slot) = memory.slots.take(frame, cgroup) else { return false };
    memory.cgroups.charge_swap(cgroup, 1);
    memory.frames.set_slot(frame, Some(slot));
    memory.frames.set(frame, Flag::Dirty);
    if let PageOwner::File { file, page } = memory.frames.owner(frame) {
        // Shared memory: the slot takes the page's place in the file and counts the file as its user.
        let lruvec = memory.lruvec_of(frame);
        memory.files.set_page(file, u64::from(page), CachePage::Swap(slot), lruvec);
        memory.slots.add_user(slot);
    }
    memory.ledger.spend(memory.costs.swap_out_page_ns);
    true
}

fn is_mapped_dirty(memory: &Memory, frame: FrameId) -> bool {
    let is_dirty = |space: SpaceId, page: DensePage| memory.space(space).table.is_dirty(page);
    memory.mappers(frame).into_iter().any(|mapper| is_dirty(mapper.space, mapper.page))
}

/// Removes all entries that map the page. Dirty bits of the entries go to the page; anonymous memory gets swap entries.
fn unmap(memory: &mut Memory, frame: FrameId, scan: &mut Scan) {
    let is_anonymous = !memory.frames.has(frame, Flag::FileOwned);
    let slot = memory.frames.slot(frame).filter(|_| is_anonymous);
    if let Some((space, page)) = memory.sole_mapper(frame) {
        unmap_one(memory, frame, space, page, slot);
        scan.taken.unmapped += 1;
        return;
    }
    if memory.frames.order(frame) > 0 {
        for FolioMapper { frame, mapper, .. } in memory.folio_mappers(frame) {
            unmap_one(memory, frame, mapper.space, mapper.page, None);
            scan.taken.unmapped += 1;
        }
        return;
    }
    for mapper in memory.mappers(frame) {
        unmap_one(memory, frame, mapper.space, mapper.page, slot);
        scan.taken.unmapped += 1;
    }
}

fn unmap_one(memory: &mut Memory, frame: FrameId, space: SpaceId, page: DensePage, slot: Option<SlotId>) {
    debug_assert_eq!(
        memory.space(space).table.entry(page),
        Entry::Frame(frame),
        "the reverse map leads to entries that show the page"
    );
    memory.ledger.spend(memory.costs.unmap_page_ns);
    memory.split_huge(space, page);
    let is_file = memory.frames.has(frame, Flag::FileOwned);
    match memory.space(space).table.is_dirty(page) {
        true if is_file => memory.dirty_file_page(frame),
        true => memory.frames.set(frame, Flag::Dirty),
        false => {}
    }
    let mapper = &mut memory.spaces[space.index()];
    debug_assert!(mapper.nr_resident > 0, "a mapped page is counted");
    mapper.nr_resident -= 1;
    match slot {
        Some(slot) => {
            mapper.table.set_absent(page, Entry::Swap(slot));
            mapper.nr_swapped += 1;
            memory.slots.add_user(slot);
        }
        None => mapper.table.set_absent(page, Entry::None),
    }
}
