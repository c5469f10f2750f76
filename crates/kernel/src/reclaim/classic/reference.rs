//! Was a page used? The check at the cold tail (docs/spec/classic-lru.md#s3-3) and at the hot one (3.5).

use crate::cgroup::CgroupId;
use crate::memory::{Flag, FrameId, Mapper, Memory};
use crate::reclaim::outcome::page_type;
use crate::reclaim::scan_balance::PageType;
use isotherm_units::access::Advice;

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
pub(super) fn check(memory: &mut Memory, frame: FrameId, root: CgroupId) -> Verdict {
    let young = take_young(memory, frame, root);
    let was_referenced = memory.frames.take(frame, Flag::Referenced);
    if young.mappings == 0 {
        return Verdict::Reclaim; // an unmapped file page with `referenced` too: it had its turn
    }
    memory.frames.set(frame, Flag::Referenced);
    let is_code = young.executable && page_type(memory, frame) == PageType::File;
    if was_referenced || young.mappings > 1 || is_code { Verdict::Activate } else { Verdict::Keep }
}

/// Reads and clears the accessed bits of all entries that map the page. Skipped: processes outside the group
/// reclaimed from, and mappings whose access order is announced (there a use does not predict the next).
#[inline]
pub(super) fn take_young(memory: &mut Memory, frame: FrameId, root: CgroupId) -> Young {
    let mut young = Young::default();
    if let Some((space, page)) = memory.sole_mapper(frame) {
        take_from(memory, frame, Mapper { space, page, executable: false }, root, &mut young);
        return young;
    }
    for mapper in memory.mappers(frame) {
        take_from(memory, frame, mapper, root, &mut young);
    }
    young
}

#[inline]
fn take_from(memory: &mut Memory, frame: FrameId, mapper: Mapper, root: CgroupId, young: &mut Young) {
    debug_assert!(memory.space(mapper.space).alive, "a dead space maps nothing");
    memory.reclaim.work.rmap_walks += 1;
    memory.ledger.spend(memory.costs.rmap_walk_ns);
    let space = memory.space(mapper.space);
    if !memory.cgroups.is_within(space.cgroup, root) {
        return;
    }
    let order = || space.vmas.find(space.table.page_of(mapper.page)).map(|vma| vma.order);
    let is_used = space.table.is_young(mapper.page) && !matches!(order(), Some(Advice::Random | Advice::Sequential));
    if is_used {
        memory.space_mut(mapper.space).table.test_and_clear_young(mapper.page);
        memory.frames.met_use(frame);
        memory.reclaim.work.entries_cleared += 1;
    }
    // A use that a monitor found and left counts for one mapping.
    if !memory.frames.take_young(frame) && !is_used {
        return;
    }
    young.mappings += 1;
    young.executable |= mapper.executable;
}
