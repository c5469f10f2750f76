//! Shadows: the data that an eviction leaves, and the findings when the page returns (docs/spec/mglru.md#s8).

use super::Mglru;
use super::baseline::Baseline;
use super::page::{MAX_NR_GENS, NR_TIERS, PageState, tier_of_refs};
use crate::cgroup::CgroupId;
use crate::memory::{Flag, FrameId, Memory, NodeId};
use crate::reclaim::classic::shadow_layout;
use crate::reclaim::outcome::page_type;
use crate::reclaim::refault::{Shadow, ShadowLayout, refault_counters};

/// Bits of a token that hold uses beyond the first.
pub(super) const REFS_BITS: u32 = 2;

/// The token of a page with `refs` uses that is evicted while `min_seq` is the oldest generation.
pub(crate) const fn token(min_seq: u64, refs: u64) -> u64 {
    min_seq << REFS_BITS | refs.saturating_sub(1)
}

/// Uses that a token holds: one at least.
pub(crate) const fn refs_of(token: u64) -> u64 {
    (token & ((1 << REFS_BITS) - 1)) + 1
}

/// Whether a page with this token would still be there if its generation had been spared. `bits`: of a token.
pub(crate) const fn is_recent(token: u64, max_seq: u64, bits: u32) -> bool {
    let mask = (1 << (bits - REFS_BITS)) - 1;
    (max_seq & mask).abs_diff(token >> REFS_BITS) < MAX_NR_GENS
}

impl Mglru {
    /// The shadow of a page that is being evicted; counts the eviction.
    #[inline]
    pub(super) fn evicted(&mut self, memory: &Memory, frame: FrameId) -> u64 {
        let (page_type, lruvec) = (page_type(memory, frame) as usize, memory.lruvec_of(frame));
        let state = self.generations.state(frame);
        let own = self.generations.get_mut(lruvec);
        let (baseline, refs) = (self.baseline, self.baseline.refs(state));
        own.history[page_type].evicted[baseline.tier(state)] += memory.frames.nr_pages(frame);
        let token = token(own.min_seq[page_type], refs);
        let (CgroupId(cgroup), NodeId(node)) = (memory.cgroup_of(lruvec), memory.node_of(lruvec));
        let workingset = match baseline {
            Baseline::V7_2 => state.is_workingset(),
            Baseline::V6_12 => refs > 0,
        };
        self.layout(memory).pack(Shadow { cgroup, node, workingset, token })
    }

    /// A page with a shadow is back, and is of no generation yet. Returns its state.
    #[inline]
    pub(super) fn refaulted(
        &mut self,
        memory: &mut Memory,
        frame: FrameId,
        shadow: u64,
        state: PageState,
    ) -> PageState {
        let layout = self.layout(memory);
        let shadow = layout.unpack(shadow);
        let lruvec = memory.lruvec_of(frame);
        let (cgroup, node) = (memory.cgroup_of(lruvec), memory.node_of(lruvec));
        if (CgroupId(shadow.cgroup), NodeId(shadow.node)) != (cgroup, node) {
            return state;
        }
        let page_type = page_type(memory, frame);
        let [refault, activate, restore] = refault_counters(page_type);
        let pages = memory.frames.nr_pages(frame);
        memory.count(refault, cgroup, pages);
        let own = self.generations.get_mut(lruvec);
        if !is_recent(shadow.token, own.max_seq, layout.token_bits()) {
            return state;
        }
        let refs = refs_of(shadow.token);
        let tier = if shadow.workingset { NR_TIERS - 1 } else { tier_of_refs(refs) };
        own.history[page_type as usize].refaulted[tier] += pages;
        if !shadow.workingset {
            return state.with_further_uses(refs - 1);
        }
        memory.frames.set(frame, Flag::Workingset);
        memory.count(restore, cgroup, pages);
        memory.count(activate, cgroup, if memory.recent_fault { pages } else { 0 });
        state.with_workingset()
    }

    pub(super) fn layout(&mut self, memory: &Memory) -> ShadowLayout {
        *self.shadows.get_or_insert_with(|| shadow_layout(memory))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// E10: how long a shadow lives, and what a token holds.
    #[test]
    fn e10_refault_recency() {
        let evicted = token(4, 3);
        assert_eq!((evicted, refs_of(evicted), tier_of_refs(refs_of(evicted))), (18, 3, 2));
        assert!(is_recent(evicted, 7, 46) && !is_recent(evicted, 8, 46));
        assert!(is_recent(token(4, 0), 4 + (1 << 20), 22), "both are cut to the width of a token");
        assert_eq!(refs_of(token(4, 0)), 1, "no use and one use look alike");
    }
}
