//! Moving pages between nodes: pages that may go, room on the node, and counters (docs/spec/promotion.md#s1-8, #s5-3).

use super::{HUGE_PAGES, MigrateMode, Move, Refusal};
use crate::counters::Counter;
use crate::memory::{Flag, FrameId, Mark, Memory, NodeId};
use crate::reclaim::ReclaimPolicy;
use isotherm_core::host::PageMove;
use std::collections::BTreeSet;

/// How pages are moved to a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeMove {
    pub to: NodeId,
    /// Folios that are unmapped together; at least 1.
    pub together: usize,
    /// None goes where the node would fall below its high watermark; then its daemon is woken.
    pub keeps_high_watermark: bool,
    /// Only pages go that are among the active.
    pub only_active: bool,
    /// Folios that several spaces map stay, and folios locked in memory.
    pub leaves_shared: bool,
    /// Pages on another node of the top tier stay.
    pub only_promotes: bool,
    /// Dirty pages of files stay, and code of files that several spaces map (`migrate_misplaced_folio_prepare`): so the scan
    /// daemon and hint faults request it, and schemes do not.
    pub leaves_dirty_and_code: bool,
}

impl NodeMove {
    /// All that can go, as many under one flush as the kernel allows.
    pub const fn freely(to: NodeId) -> Self {
        Self {
            to,
            together: 512,
            keeps_high_watermark: false,
            only_active: false,
            leaves_shared: false,
            only_promotes: false,
            leaves_dirty_and_code: false,
        }
    }
}

impl Memory {
    /// Moves folios to a node without waiting for locks or reclaim there, and gives the result of each. `None`: a page that is
    /// not there. `results` has the length of `folios`. CPU time goes to [`Memory::ledger`].
    ///
    /// Pages from a slow node to a node of the top tier are counted as `pgpromote_success` of that node, for any mover. Linux counts them
    /// only in the tiering mode of NUMA balancing.
    pub fn move_to_node(
        &mut self,
        policy: &mut dyn ReclaimPolicy,
        folios: &[Option<FrameId>],
        how: &NodeMove,
        results: &mut [PageMove],
    ) {
        assert_eq!(folios.len(), results.len(), "one result a folio");
        policy.insert_waiting(self);
        let together = how.together.max(1);
        for (folios, results) in folios.chunks(together).zip(results.chunks_mut(together)) {
            let (mut moves, mut indices): (Vec<Move>, Vec<usize>) = (Vec::new(), Vec::new());
            let mut going = BTreeSet::new();
            for (index, folio) in folios.iter().enumerate() {
                let first = folio.map(|frame| self.huge_page_of(frame).unwrap_or(frame));
                results[index] = match first {
                    None => PageMove::NotPresent,
                    // Isolated by this very batch.
                    Some(first) if going.contains(&first) => PageMove::Busy,
                    Some(first) => match self.find_room(policy, first, how) {
                        Ok((target, pages)) => {
                            moves.push((first, target));
                            indices.push(index);
                            going.insert(first);
                            PageMove::Moved(pages)
                        }
                        Err(why) => why,
                    },
                };
            }
            self.move_batch_to_node(policy, &moves, &indices, how.to, results);
        }
    }

    fn move_batch_to_node(
        &mut self,
        policy: &mut dyn ReclaimPolicy,
        moves: &[Move],
        indices: &[usize],
        to: NodeId,
        results: &mut [PageMove],
    ) {
        if moves.is_empty() {
            return;
        }
        let sources: Vec<NodeId> = moves.iter().map(|&(from, _)| self.nodes.of(from)).collect();
        let migrated = self.migrate_batch(policy, moves, MigrateMode::Async);
        for &(at, refusal) in &migrated.failed {
            let PageMove::Moved(pages) = results[indices[at]] else { unreachable!("was to be moved") };
            self.give_target(moves[at].1, pages.ilog2());
            results[indices[at]] = match refusal {
                Refusal::Pinned => PageMove::Pinned,
                Refusal::Writeback | Refusal::Reading | Refusal::TargetTaken => PageMove::Busy,
                Refusal::Isolated | Refusal::PartOfHuge | Refusal::Baseline => PageMove::NotPresent,
            };
        }
        for ((&index, from), &(_, target)) in indices.iter().zip(sources).zip(moves) {
            if let PageMove::Moved(pages) = results[index]
                && self.tiers.is_top(to)
                && !self.tiers.is_top(from)
            {
                let cgroup = self.frames.cgroup(target);
                self.count_on(Counter::PgPromoteSuccess, to, cgroup, u64::from(pages));
                let now = self.now;
                if let Some(ground_truth) = &mut self.ground_truth {
                    let part = |at: u32| FrameId::new(target.index_u32() + at);
                    (0..pages).for_each(|at| ground_truth.promoted(part(at), now));
                }
            }
        }
    }

    /// A target for a folio, and its base pages, if it may go.
    fn find_room(
        &mut self,
        policy: &dyn ReclaimPolicy,
        folio: FrameId,
        how: &NodeMove,
    ) -> Result<(FrameId, u32), PageMove> {
        let from = self.nodes.of(folio);
        let flags = self.frames.flags(folio);
        match () {
            () if from == how.to => return Err(PageMove::SameNode),
            () if how.only_promotes && self.tiers.is_top(from) && self.tiers.is_top(how.to) => {
                return Err(PageMove::TopTier);
            }
            () if !flags.has(Flag::OnList) => return Err(PageMove::NotPresent),
            () if how.leaves_shared && flags.has(Flag::Unevictable) => return Err(PageMove::Pinned),
            () if self.is_mapped_by_several(folio, how) => return Err(PageMove::Shared),
            () if how.leaves_dirty_and_code && self.frames.is_file_lru(folio) && flags.has(Flag::Dirty) => {
                return Err(PageMove::Dirty);
            }
            () if flags.has(Flag::Writeback) || flags.has(Flag::Reading) => return Err(PageMove::Busy),
            () if how.only_active && policy.knows_active() && !policy.is_active(self, folio) => {
                return Err(PageMove::NotActive);
            }
            () => {}
        }
        let is_huge = self.huge_page_of(folio).is_some();
        let pages = if is_huge { HUGE_PAGES } else { 1 };
        if how.keeps_high_watermark && !self.nodes.get(how.to).has_room_above_high(u64::from(pages)) {
            self.kswapd_wanted[how.to.index()] = true;
            return Err(PageMove::BelowWatermark);
        }
        // From this node only, and no deeper than other allocations may go.
        let target = match is_huge {
            true => self.take_huge_target(how.to, Mark::Min).ok(),
            false => self.take_target(how.to, Mark::Min),
        };
        target.map(|target| (target, pages)).ok_or(PageMove::Full)
    }

    /// Whether several spaces map a folio, so that a single space may not move it.
    fn is_mapped_by_several(&self, folio: FrameId, how: &NodeMove) -> bool {
        let any = how.leaves_shared;
        let is_file = self.frames.has(folio, Flag::FileOwned);
        if !(is_file && (any || how.leaves_dirty_and_code) || any && self.frames.has(folio, Flag::Shared)) {
            return false;
        }
        let mappers = self.mappers(folio);
        mappers.len() > 1 && (any || mappers.iter().any(|mapper| mapper.executable))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::NodeSetup;
    use crate::mmu::SpaceId;
    use crate::swap::device::DeviceKind;
    use crate::testkit::Rig;
    use isotherm_units::access::{FileKind, Sharing};
    use isotherm_units::{PageRange, Pages};

    const FAST: NodeId = NodeId(0);
    const SLOW: NodeId = NodeId(1);

    /// 8 MiB of fast and 16 MiB of slow memory; touched pages go to the slow node.
    fn rig() -> Rig {
        let mut rig = Rig::with(DeviceKind::Nvme, 1000, |setup| {
            setup.nodes =
                vec![NodeSetup::new(vec![Pages::new(2048)], 100), NodeSetup::slow(vec![Pages::new(4096)], 250)];
        });
        rig.state.node = SLOW;
        rig
    }

    fn promote(rig: &mut Rig, space: SpaceId, pages: &[u64], how: NodeMove) -> Vec<PageMove> {
        let folios: Vec<Option<FrameId>> = pages.iter().map(|&page| rig.frame(space, page)).collect();
        let mut results = vec![PageMove::NotPresent; pages.len()];
        rig.memory.move_to_node(&mut rig.policy, &folios, &how, &mut results);
        rig.check();
        results
    }

    fn promoted(rig: &Rig, node: NodeId) -> u64 {
        rig.memory.node_counters[node.index()].get(Counter::PgPromoteSuccess)
    }

    #[test]
    fn pages_are_promoted_and_counted_and_what_stays_says_why() {
        let mut rig = rig();
        let space = rig.anonymous(64);
        rig.write_all(space, PageRange::new(0, 8));
        let pinned = rig.frame(space, 3).unwrap();
        rig.memory.frames.pin(pinned);
        let locked = rig.frame(space, 4).unwrap();
        rig.memory.frames.set(locked, Flag::Unevictable);
        let how = NodeMove { leaves_shared: true, ..NodeMove::freely(FAST) };
        let results = promote(&mut rig, space, &[0, 1, 3, 4, 60, 0], how);
        let moved = PageMove::Moved(1);
        assert_eq!(
            results,
            [moved, moved, PageMove::Pinned, PageMove::Pinned, PageMove::NotPresent, PageMove::Busy],
            "the last one is the first again, in the same batch"
        );
        assert_eq!(promote(&mut rig, space, &[0], how), [PageMove::SameNode]);
        assert_eq!((promoted(&rig, FAST), promoted(&rig, SLOW), rig.count(Counter::PgPromoteSuccess)), (2, 0, 2));
        assert_eq!(rig.memory.nodes.get(FAST).free(), 2046, "targets that were not used are back");
        // Down again: moved, and no promotion.
        assert_eq!(promote(&mut rig, space, &[0, 1], NodeMove::freely(SLOW)), [moved, moved]);
        assert_eq!((promoted(&rig, SLOW), rig.memory.nodes.get(FAST).free()), (0, 2048));
        rig.memory.frames.unpin(pinned);
        rig.memory.frames.clear(locked, Flag::Unevictable);
        rig.exit(space);
        rig.assert_empty();
    }

    #[test]
    fn shared_and_dirty_pages_stay_where_they_should() {
        let mut rig = rig();
        let parent = rig.anonymous(8);
        rig.write(parent, 1);
        let child = rig.fork(parent);
        let careful = NodeMove { leaves_shared: true, ..NodeMove::freely(FAST) };
        assert_eq!(promote(&mut rig, parent, &[1], careful), [PageMove::Shared]);
        assert_eq!(promote(&mut rig, parent, &[1], NodeMove::freely(FAST)), [PageMove::Moved(1)]);
        assert_eq!(rig.frame(parent, 1), rig.frame(child, 1));
        rig.map_file(parent, "data", 100, 16, Sharing::Shared, FileKind::Regular);
        rig.map_file(child, "data", 100, 16, Sharing::Shared, FileKind::Regular);
        rig.read(parent, 105);
        rig.read(child, 105);
        assert_eq!(promote(&mut rig, parent, &[105], careful), [PageMove::Shared]);
        let frame = rig.frame(parent, 105).unwrap();
        rig.memory.dirty_file_page(frame);
        let misplaced = NodeMove { leaves_dirty_and_code: true, ..NodeMove::freely(FAST) };
        assert_eq!(promote(&mut rig, parent, &[105], misplaced), [PageMove::Dirty]);
        assert_eq!(promote(&mut rig, parent, &[105], NodeMove::freely(FAST)), [PageMove::Moved(1)], "schemes ask less");
    }

    /// The scan daemon promotes; hint faults and schemes move pages between nodes of one tier as well.
    #[test]
    fn only_the_scan_daemon_leaves_what_is_on_another_fast_node() {
        let mut rig = Rig::with(DeviceKind::None, 0, |setup| {
            let fast = || NodeSetup::new(vec![Pages::new(2048)], 100);
            setup.nodes = vec![fast(), NodeSetup::slow(vec![Pages::new(2048)], 250), fast()];
        });
        let space = rig.anonymous(8);
        rig.write(space, 1);
        let other = NodeId(2);
        let daemon = NodeMove { only_promotes: true, ..NodeMove::freely(other) };
        assert_eq!(promote(&mut rig, space, &[1], daemon), [PageMove::TopTier]);
        assert_eq!(promote(&mut rig, space, &[1], NodeMove::freely(other)), [PageMove::Moved(1)]);
        assert_eq!((promoted(&rig, other), rig.memory.nodes.of(rig.frame(space, 1).unwrap())), (0, other));
    }

    /// docs/spec/promotion.md#s5-3: free memory above the high watermark after the move, or kswapd is woken and the move fails.
    #[test]
    fn the_gate_keeps_the_high_watermark_and_wakes_the_daemon() {
        let mut rig = rig();
        let space = rig.anonymous(4096);
        rig.write_all(space, PageRange::new(0, 2200));
        let high = rig.memory.nodes.get(FAST).high_marks();
        let room = 2048 - high - 1;
        let how = NodeMove { keeps_high_watermark: true, together: 64, ..NodeMove::freely(FAST) };
        let pages: Vec<u64> = (0..2200).collect();
        let results = promote(&mut rig, space, &pages, how);
        let nr = |what: PageMove, results: &[PageMove]| results.iter().filter(|&&result| result == what).count() as u64;
        assert_eq!(nr(PageMove::Moved(1), &results), room);
        assert_eq!(nr(PageMove::BelowWatermark, &results), 2200 - room);
        assert_eq!(
            (rig.memory.nodes.get(FAST).free(), rig.memory.kswapd_wanted.clone()),
            (high + 1, vec![true, false])
        );
        // Without the check only the reserve stops it.
        let min = rig.memory.nodes.get(FAST).min_marks();
        let results = promote(&mut rig, space, &pages, NodeMove::freely(FAST));
        assert_eq!(nr(PageMove::Moved(1), &results), high + 1 - min);
        assert!(nr(PageMove::Full, &results) > 0);
    }

    #[test]
    fn a_huge_page_goes_as_one_or_not_at_all() {
        let mut rig = rig();
        let space = rig.space();
        rig.map_huge(space, PageRange::new(0, 1024));
        rig.write(space, 7);
        rig.write(space, 700);
        assert_eq!(rig.memory.nodes.of(rig.frame(space, 511).unwrap()), SLOW);
        let how = NodeMove { keeps_high_watermark: true, ..NodeMove::freely(FAST) };
        assert_eq!(promote(&mut rig, space, &[9, 300], how), [PageMove::Moved(512), PageMove::Busy]);
        assert_eq!((promoted(&rig, FAST), rig.memory.nodes.get(FAST).free()), (512, 2048 - 512));
        assert_eq!(promote(&mut rig, space, &[600], NodeMove::freely(FAST)), [PageMove::Moved(512)]);
        rig.exit(space);
        rig.assert_empty();
    }
}
