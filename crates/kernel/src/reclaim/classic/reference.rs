//! Was a page used? The check at the cold tail (docs/spec/classic-lru.md#s3-3) and at the hot one (3.5).

use crate::cgroup::CgroupId;
use crate::memory::{Flag, FrameId, Mapper, Memory};
use crate::mmu::{DensePage, SpaceId};
use crate::reclaim::outcome::page_type;
use crate::reclaim::scan_balance::PageType;

/// The decision about a page at the cold tail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Move it to the hot list.
    Activate,
    /// Once more through the cold list.
    Keep,
    /// Goes.
    Reclaim,
}

/// Young entries of a page, cleared on the way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Young {
    /// Mappings through which it was used.
    pub(super) mappings: u32,
    /// One of the mappings holds code.
    pub(super) executable: bool,
}

/// The check at the cold tail.
#[inline]
pub(super) fn check(memory: &mut Memory, frame: FrameId, root: CgroupId) -> Verdict {
    let young = take_young(memory, frame, root);
    let is_code = young.executable && page_type(memory, frame) == PageType::File;
    verdict(memory, frame, young.mappings, is_code)
}

/// The decision about a page that was used through `nr_young` mappings, or as code of a file.
#[inline]
pub(super) fn verdict(memory: &mut Memory, frame: FrameId, nr_young: u32, is_code: bool) -> Verdict {
    let was_referenced = memory.frames.take(frame, Flag::Referenced);
    if nr_young == 0 {
        return Verdict::Reclaim; // an unmapped file page with `referenced` too: it had its turn
    }
    memory.frames.set(frame, Flag::Referenced);
    if was_referenced || nr_young > 1 || is_code { Verdict::Activate } else { Verdict::Keep }
}

/// Reads and clears the accessed bits of all entries that map the page. Skipped: processes outside the group
/// reclaimed from, and mappings whose access order is announced (there a use does not predict the next).
#[inline]
pub(super) fn take_young(memory: &mut Memory, frame: FrameId, root: CgroupId) -> Young {
    if let Some((space, page)) = memory.sole_mapper(frame) {
        return Young { mappings: u32::from(take_from(memory, frame, space, page, root)), executable: false };
    }
    if memory.frames.order(frame) > 0 {
        return take_young_of_folio(memory, frame, root);
    }
    let mut young = Young::default();
    for Mapper { space, page, executable } in memory.mappers(frame) {
        if take_from(memory, frame, space, page, root) {
            young.mappings += 1;
            young.executable |= executable;
        }
    }
    young
}

/// The same for a folio of several pages: a mapping counts once, however many of its entries are young (docs/spec/large-folios.md#f3-3).
/// The walk is paid once for each mapping, and a test for each further entry.
#[cold]
fn take_young_of_folio(memory: &mut Memory, head: FrameId, root: CgroupId) -> Young {
    let mut young = Young::default();
    let found = memory.folio_mappers(head);
    for entries in found.chunk_by(|one, other| one.mapping == other.mapping) {
        memory.reclaim.work.rmap_walks += 1;
        memory.ledger.spend(memory.costs.rmap_walk_ns + (entries.len() as u64 - 1) * memory.costs.pte_scan_ns);
        let Mapper { space, page, executable } = entries[0].mapper;
        let owner = &mut memory.spaces[space.index()];
        if owner.cgroup != root && !memory.cgroups.is_within(owner.cgroup, root) {
            continue;
        }
        let mut nr_cleared = 0;
        if owner.vmas.has_recency(|| owner.table.page_of(page)) {
            for entry in entries {
                if owner.table.is_young(entry.mapper.page) {
                    owner.table.clear_young(entry.mapper.page);
                    nr_cleared += 1;
                }
            }
        }
        memory.reclaim.work.entries_cleared += nr_cleared;
        if nr_cleared > 0 {
            memory.frames.met_use(head);
        }
        if memory.frames.take_young(head) || nr_cleared > 0 {
            young.mappings += 1;
            young.executable |= executable;
        }
    }
    young
}

/// Whether the page was used through this mapping.
fn take_from(memory: &mut Memory, frame: FrameId, space: SpaceId, page: DensePage, root: CgroupId) -> bool {
    memory.reclaim.work.rmap_walks += 1;
    memory.ledger.spend(memory.costs.rmap_walk_ns);
    let owner = &mut memory.spaces[space.index()];
    debug_assert!(owner.alive, "a dead space maps nothing");
    if owner.cgroup != root && !memory.cgroups.is_within(owner.cgroup, root) {
        return false;
    }
    let is_used = owner.table.is_young(page) && owner.vmas.has_recency(|| owner.table.page_of(page));
    if is_used {
        owner.table.clear_young(page);
        memory.frames.met_use(frame);
        memory.reclaim.work.entries_cleared += 1;
    }
    // A use that a monitor found and left counts for one mapping.
    memory.frames.take_young(frame) || is_used
}
