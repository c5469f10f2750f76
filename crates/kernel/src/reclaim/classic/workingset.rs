//! Shadows at eviction, refaults at return, and the costs they raise (docs/spec/classic-lru.md#s5 and #s6-2).

use super::Classic;
use crate::cgroup::CgroupId;
use crate::memory::{Flag, FrameId, Memory};
use crate::reclaim::LruvecId;
use crate::reclaim::outcome::page_type;
use crate::reclaim::refault::{Shadow, ShadowLayout, WorkingsetSizes, refault_counters};
use crate::reclaim::scan_balance::{Lru, PageType};

impl Classic {
    /// The shadow of a page that a reclaim from `root` evicts; ages the lruvec.
    #[inline(always)]
    pub(super) fn eviction(&mut self, memory: &mut Memory, frame: FrameId, root: CgroupId) -> u64 {
        let layout = self.layout(memory);
        let node = memory.nodes.of(frame);
        let evictor = memory.lruvec(root, node);
        let token = layout.token(memory.nonresident_age[evictor.index()]);
        memory.age_nonresident(evictor, memory.frames.nr_pages(frame));
        let workingset = memory.frames.has(frame, Flag::Workingset);
        layout.pack(Shadow { cgroup: root.0, node: node.0, workingset, token })
    }

    /// A page with a shadow is back: activates it if it would have stayed, had the other lists made room.
    #[inline(always)]
    pub(super) fn refault(&mut self, memory: &mut Memory, frame: FrameId, shadow: u64) {
        debug_assert!(
            !memory.frames.has(frame, Flag::OnList),
            "flags are set before a page is put on the list they name"
        );
        let page_type = page_type(memory, frame);
        let [refault, activate, restore] = refault_counters(page_type);
        let (cgroup, pages) = (memory.frames.cgroup(frame), memory.frames.nr_pages(frame));
        memory.count(refault, cgroup, pages);
        let shadow = self.layout(memory).unpack(shadow);
        if !self.is_recent(memory, &shadow, page_type) {
            return;
        }
        memory.frames.set(frame, Flag::Active);
        let own = memory.lruvec_of(frame);
        memory.age_nonresident(own, pages);
        self.for_lineage(memory, own, |history, _, _| history.activations[page_type as usize] += pages);
        memory.count(activate, cgroup, pages);
        if shadow.workingset {
            memory.frames.set(frame, Flag::Workingset);
            self.note_cost(memory, own, page_type, pages, 0);
            memory.count(restore, cgroup, pages);
        }
    }

    /// Accounts for the cost of reclaiming a type, in the lruvec and its ancestors.
    pub(super) fn note_cost(
        &mut self,
        memory: &Memory,
        lruvec: LruvecId,
        page_type: PageType,
        nr_io: u64,
        nr_rotated: u64,
    ) {
        self.for_lineage(memory, lruvec, |history, lists, lruvec| {
            history.cost.note(page_type, nr_io, nr_rotated, lists.subtree_pages(lruvec));
        });
    }

    #[inline(always)]
    fn is_recent(&self, memory: &Memory, shadow: &Shadow, page_type: PageType) -> bool {
        let cgroup = CgroupId(shadow.cgroup);
        if cgroup.index() >= memory.cgroups.len() || usize::from(shadow.node) >= memory.nodes.len() {
            return false;
        }
        let evictor = memory.lruvec(cgroup, crate::memory::NodeId(shadow.node));
        let layout = self.shadows.unwrap_or_else(|| shadow_layout(memory));
        let distance = layout.distance(shadow.token, memory.nonresident_age[evictor.index()]);
        let len = |lru| self.counted_len(memory, evictor, lru);
        let sizes = WorkingsetSizes {
            active_file: len(Lru::ActiveFile),
            inactive_file: len(Lru::InactiveFile),
            active_anon: len(Lru::ActiveAnon),
            inactive_anon: len(Lru::InactiveAnon),
            swap_available: memory.swap_available(cgroup) > 0,
        };
        sizes.is_recent(page_type, distance)
    }

    /// Calls `each` with the history of the lruvec and of all above it.
    #[inline]
    fn for_lineage(
        &mut self,
        memory: &Memory,
        lruvec: LruvecId,
        mut each: impl FnMut(&mut super::History, &super::Lists, LruvecId),
    ) {
        let node = memory.node_of(lruvec);
        for cgroup in memory.cgroups.lineage(memory.cgroup_of(lruvec)) {
            let lruvec = memory.lruvec(cgroup, node);
            each(&mut self.history[lruvec.index()], &self.lists, lruvec);
        }
    }

    fn layout(&mut self, memory: &Memory) -> ShadowLayout {
        *self.shadows.get_or_insert_with(|| shadow_layout(memory))
    }
}

/// Anonymous pages use the same layout: their word has fewer bits in Linux, which matters on machines beyond 2^22 pages
/// with 256 nodes only.
pub(in crate::reclaim) fn shadow_layout(memory: &Memory) -> ShadowLayout {
    let pages = memory.nodes.iter().map(|(_, node)| node.managed()).sum();
    let node_bits = usize::BITS - (memory.nodes.len() - 1).leading_zeros();
    ShadowLayout::new(pages, node_bits, 0)
}
