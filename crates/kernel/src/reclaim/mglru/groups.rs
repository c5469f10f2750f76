//! Order in which reclaim of the whole machine visits groups: a list of lists of groups, old and young (docs/spec/mglru.md#s12).
//!
//! Groups that had to age, or gave no pages, go to the young generation; one call visits only the old one, and stops as soon as it has
//! enough. So each group pays in turn, and no call pays for walking over all groups.

use crate::cgroup::CgroupId;
use std::collections::VecDeque;

/// Generations of groups: the old, the young, and a third one that a late reader cannot take for either.
const NR_GENS: usize = 3;
/// Lists of a generation.
pub(super) const NR_BINS: usize = 8;

/// Where a group goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Move {
    /// To the end of the old generation: once more in this round.
    Tail,
    /// Put it at the front of the old generation: it is visited next.
    Old,
    /// Put it at the end of the young generation: it is not visited in this round.
    Young,
}

/// A group's place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    generation: u64,
    bin: usize,
    /// It was skipped once.
    pub(super) is_at_tail: bool,
    /// The group was removed; its remaining pages go first.
    pub(super) is_offline: bool,
}

/// Chooses a bin.
pub(super) trait Draw {
    fn bin(&mut self) -> usize;
}

/// The groups of one node.
#[derive(Clone, Debug, Default)]
pub(super) struct GroupQueue {
    seq: u64,
    lists: [[VecDeque<CgroupId>; NR_BINS]; NR_GENS],
    nr: [u64; NR_GENS],
    /// Places by group.
    places: Vec<Place>,
}

impl GroupQueue {
    /// Groups that are known.
    pub(super) fn len(&self) -> usize {
        self.places.len()
    }
    pub(super) fn place(&self, group: CgroupId) -> Option<&Place> {
        self.places.get(group.index())
    }
    /// The counter that grows when the old generation is used up.
    pub(super) const fn seq(&self) -> u64 {
        self.seq
    }

    /// A new group: to the end of the old generation. Groups come in the order of their numbers.
    pub(super) fn join(&mut self, group: CgroupId, bin: usize) {
        debug_assert_eq!(group.index(), self.places.len(), "groups come in order");
        let generation = self.seq;
        self.places.push(Place { generation, bin, is_at_tail: false, is_offline: false });
        self.lists[slot(generation)][bin].push_back(group);
        self.nr[slot(generation)] += 1;
    }

    /// Moves a group; the young generation becomes the old one when that one is empty.
    pub(super) fn rotate(&mut self, group: CgroupId, to: Move, draw: &mut impl Draw) {
        let from = self.places[group.index()];
        debug_assert!(
            from.generation == self.seq || from.generation == self.seq + 1,
            "a group is of the old generation or the young one"
        );
        let list = &mut self.lists[slot(from.generation)][from.bin];
        let at = list.iter().position(|&other| other == group).expect("where its place says");
        list.remove(at);
        debug_assert!(self.nr[slot(from.generation)] > 0, "a group that leaves a generation was counted");
        self.nr[slot(from.generation)] -= 1;
        let bin = draw.bin();
        let place = &mut self.places[group.index()];
        place.bin = bin;
        place.is_at_tail = to == Move::Tail;
        place.generation = match to {
            Move::Tail => from.generation,
            Move::Old => self.seq,
            Move::Young => self.seq + 1,
        };
        let to_slot = slot(place.generation);
        match to {
            Move::Tail | Move::Young => self.lists[to_slot][bin].push_back(group),
            Move::Old => self.lists[to_slot][bin].push_front(group),
        }
        self.nr[to_slot] += 1;
        if from.generation == self.seq && self.nr[slot(self.seq)] == 0 {
            self.seq += 1;
        }
    }

    /// The group's remaining pages go next.
    pub(super) fn take_offline(&mut self, group: CgroupId, draw: &mut impl Draw) {
        debug_assert!(!self.places[group.index()].is_offline, "a group is removed once");
        self.places[group.index()].is_offline = true;
        self.rotate(group, Move::Old, draw);
    }

    /// The first group of a bin of generation `generation`.
    pub(super) fn first(&self, generation: u64, bin: usize) -> Option<CgroupId> {
        self.lists[slot(generation)][bin].front().copied()
    }

    /// The group behind `group` in its list.
    pub(super) fn after(&self, group: CgroupId) -> Option<CgroupId> {
        let place = self.places[group.index()];
        let list = &self.lists[slot(place.generation)][place.bin];
        let at = list.iter().position(|&other| other == group)?;
        list.get(at + 1).copied()
    }

    /// Whether the group still belongs to `generation`.
    pub(super) fn is_of(&self, group: CgroupId, generation: u64) -> bool {
        self.places[group.index()].generation == generation
    }
}

#[expect(clippy::cast_possible_truncation, reason = "modulo three")]
const fn slot(generation: u64) -> usize {
    (generation % NR_GENS as u64) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Always(usize);
    impl Draw for Always {
        fn bin(&mut self) -> usize {
            self.0
        }
    }
    const A: CgroupId = CgroupId(0);
    const B: CgroupId = CgroupId(1);
    const C: CgroupId = CgroupId(2);
    const D: CgroupId = CgroupId(3);

    /// E19: rotation of groups.
    #[test]
    fn e19_memcg_lru() {
        let mut queue = GroupQueue::default();
        [A, B, C].into_iter().for_each(|group| queue.join(group, 5));
        for (group, seq) in [(A, 0), (B, 0), (C, 1)] {
            assert!(queue.is_of(group, 0));
            queue.rotate(group, Move::Young, &mut Always(2));
            assert_eq!((queue.seq, queue.is_of(group, 1)), (seq, true));
        }
        queue.join(D, 2);
        let order = |queue: &GroupQueue| -> Vec<CgroupId> {
            std::iter::successors(queue.first(1, 2), |&group| queue.after(group)).collect()
        };
        assert_eq!(order(&queue), [A, B, C, D], "a new group joins the old generation, at its end");
        queue.take_offline(C, &mut Always(2));
        assert_eq!(order(&queue), [C, A, B, D], "one that ended goes to the front");
        assert!(queue.place(C).unwrap().is_offline);
        queue.rotate(A, Move::Tail, &mut Always(2));
        assert_eq!((order(&queue), queue.seq), (vec![C, B, D, A], 1));
        assert!(queue.place(A).unwrap().is_at_tail && !queue.place(B).unwrap().is_at_tail);
        assert_eq!(queue.nr, [0, 4, 0]);
    }
}
