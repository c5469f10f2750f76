//! Making generations: when, and which address spaces are walked for it (docs/spec/mglru.md#s4-1 to #s4-3, #s4-5).

use super::Mglru;
use super::bloom::BloomFilter;
use super::generations::list_of;
use super::page::MIN_NR_GENS;
use super::walk::Walker;
use crate::cgroup::CgroupId;
use crate::memory::{Memory, NodeId};
use crate::mmu::SpaceId;
use crate::reclaim::{DEF_PRIORITY, LruvecId};

/// The history of an lruvec's walks over page tables.
#[derive(Clone, Debug, Default)]
pub(crate) struct Walk {
    /// By generation modulo two: filled by one walk and by look-arounds since, tested by the next walk. `None` lets all pass.
    pub(crate) filters: [Option<BloomFilter>; 2],
    /// Address spaces below this number were there when the last walk ended.
    known_spaces: usize,
    /// Sums over all walks.
    pub(super) stats: WalkStats,
}

/// Counts of walks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct WalkStats {
    /// Entries of 2 MiB that are no tables.
    pub leaf_total: u64,
    /// Huge pages among them that were young.
    pub leaf_young: u64,
    /// Tables that were scanned.
    pub nonleaf_found: u64,
    /// Tables among them with a young entry in every cache line, on average.
    pub nonleaf_added: u64,
}

/// Whether a walk relies on earlier walks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Effort {
    /// Skips spaces that did not run, tables that were not entered and tables that were not worth it last time.
    Heuristic,
    /// Scans everything.
    Forced,
}

/// Whether a new generation is needed before more can be evicted: with two left nothing can be evicted; with three it depends on pressure.
pub(crate) const fn is_due(max_seq: u64, min_evictable: u64, priority: u32) -> bool {
    if min_evictable + MIN_NR_GENS > max_seq {
        return true;
    }
    priority < DEF_PRIORITY && min_evictable + MIN_NR_GENS == max_seq
}

/// Address spaces by group, in the order in which they were made.
#[derive(Clone, Debug, Default)]
pub(super) struct SpaceLists {
    by_group: Vec<Vec<SpaceId>>,
    nr_known: usize,
}

impl SpaceLists {
    /// The living address spaces of a group.
    fn of(&mut self, memory: &Memory, cgroup: CgroupId) -> &[SpaceId] {
        debug_assert!(self.nr_known <= memory.spaces.len(), "dead spaces stay in the table");
        for index in self.nr_known..memory.spaces.len() {
            let group = memory.spaces[index].cgroup.index();
            if self.by_group.len() <= group {
                self.by_group.resize(group + 1, Vec::new());
            }
            self.by_group[group].push(SpaceId(u16::try_from(index).expect("at most 65 535 spaces")));
        }
        self.nr_known = memory.spaces.len();
        let Some(spaces) = self.by_group.get_mut(cgroup.index()) else { return &[] };
        spaces.retain(|&space| memory.space(space).alive);
        spaces
    }
}

impl Mglru {
    /// Makes a new generation, after a walk over the page tables of the group if walks are possible here.
    pub(super) fn age(&mut self, memory: &mut Memory, lruvec: LruvecId, swappiness: u32, effort: Effort) {
        let seq = self.generations.get(lruvec).max_seq;
        if self.can_walk(memory) {
            self.walk_group(memory, lruvec, swappiness, effort);
        }
        let is_made = self.generations.advance_max_seq(memory, lruvec, seq, swappiness);
        memory.reclaim.work.ageings += u64::from(is_made);
    }

    /// Without accessed bits set by the processor each cleared entry costs a fault at its next use: mass clearing would bring a burst of
    /// faults, so then only look-arounds clear some.
    pub(super) fn can_walk(&self, memory: &Memory) -> bool {
        self.config.features.walks && self.switches.has_walks() && memory.mmu.leaf_accessed
    }

    fn walk_group(&mut self, memory: &mut Memory, lruvec: LruvecId, swappiness: u32, effort: Effort) {
        let node_bit = usage_bit(memory.node_of(lruvec));
        let cgroup = memory.cgroup_of(lruvec);
        let mut walker = Walker::new(&self.generations, &self.config, self.switches, memory, lruvec, swappiness);
        let own = self.generations.get_mut(lruvec);
        let (seq, known_spaces) = (own.max_seq, own.walk.known_spaces);
        let mut filters = std::mem::take(&mut own.walk.filters);
        let next = list_of(seq + 1) % 2;
        let mut effort = effort;
        let mut is_first = true;
        for &id in self.spaces.of(memory, cgroup) {
            if id.index() >= known_spaces {
                effort = Effort::Forced;
            }
            let space = memory.space_mut(id);
            if effort == Effort::Heuristic && space.used & node_bit == 0 {
                continue;
            }
            space.used &= !node_bit;
            if std::mem::take(&mut is_first) {
                filters[next].get_or_insert_with(BloomFilter::new).clear();
            }
            walker.walk(memory, &mut self.generations.states, &mut filters, id, effort);
        }
        let own = self.generations.get_mut(lruvec);
        own.walk.filters = filters;
        own.walk.known_spaces = memory.spaces.len();
        debug_assert_eq!(own.max_seq, seq, "nobody makes a generation during a walk");
        walker.settle(own, memory);
    }
}

/// The bit of a node in [`AddressSpace::used`](crate::mmu::AddressSpace::used).
const fn usage_bit(node: NodeId) -> u64 {
    1 << (node.index() % 64)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// E6: when a generation is made.
    #[test]
    fn e6_should_age() {
        let table =
            [(6, 12, true), (6, 0, true), (5, 12, false), (5, 11, true), (5, 0, true), (4, 12, false), (4, 0, false)];
        for (min, priority, due) in table {
            assert_eq!(is_due(7, min, priority), due, "min {min} priority {priority}");
        }
    }
}
