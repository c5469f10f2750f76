//! The state of a page moves: references to a frame become references to another one.

use super::shows;
use crate::memory::{CachePage, Flag, FrameId, Mapper, Memory, PageOwner};
use crate::reclaim::ReclaimPolicy;

impl Memory {
    /// Moves `pages` base pages that `mappers` show, and gives their old frames back.
    pub(super) fn relocate(
        &mut self,
        policy: &mut dyn ReclaimPolicy,
        from: FrameId,
        to: FrameId,
        pages: u32,
        mappers: &[Mapper],
    ) {
        let nodes = [from, to].map(|frame| self.nodes.of(frame));
        if nodes[0] != nodes[1] {
            self.node_moves[nodes[1].index()][0] += u64::from(pages);
            self.node_moves[nodes[0].index()][1] += u64::from(pages);
        }
        let part = |first: FrameId, at: u32| FrameId::new(first.index_u32() + at);
        for at in 0..pages {
            let moved = |mapper: &Mapper| Mapper {
                page: mapper.page.checked_add(at).expect("a huge page lies in one chunk"),
                ..*mapper
            };
            self.relocate_one(policy, part(from, at), part(to, at), mappers.iter().map(moved));
        }
        // Not through the pages at hand: frames that migration empties are meant to be joined.
        let Self { nodes, frames, .. } = self;
        if from.index_u32().is_multiple_of(pages) {
            nodes.give_block(frames, from, pages.ilog2());
        } else {
            (0..pages).for_each(|at| nodes.give_block(frames, part(from, at), 0));
        }
    }

    fn relocate_one(
        &mut self,
        policy: &mut dyn ReclaimPolicy,
        from: FrameId,
        to: FrameId,
        mappers: impl Iterator<Item = Mapper>,
    ) {
        if self.frames.has(from, Flag::OnList) {
            policy.removed(self, from);
        }
        if let Some(ground_truth) = &mut self.ground_truth {
            ground_truth.relocate(from, to, self.frames.cgroup(to));
        }
        self.frames.relocate(from, to);
        for mapper in mappers {
            debug_assert!(shows(self, mapper.space, mapper.page, from), "a mapper");
            self.space_mut(mapper.space).table.replace_frame(mapper.page, to);
        }
        match self.frames.slot(to) {
            // A page of shared memory in the swap cache has left the page cache.
            Some(slot) => self.slots.set_cached(slot, to),
            None => {
                if let PageOwner::File { file, page } = self.frames.owner(to) {
                    let lruvec = self.lruvec_of(to);
                    self.files.set_page(file, u64::from(page), CachePage::Frame(to), lruvec);
                }
            }
        }
        policy.put_back(self, from, to);
        debug_assert!(self.frames.has(to, Flag::OnList), "put back");
    }
}
