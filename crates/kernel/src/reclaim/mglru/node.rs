//! Reclaim of a whole node: how hard to begin, which group in its turn, and the guard over young pages (docs/spec/mglru.md#s10 to #s12).

use super::Mglru;
use super::evict::Turn;
use super::generations::list_of;
use super::groups::{Draw, GroupQueue, Move, NR_BINS};
use crate::cgroup::CgroupId;
use crate::cgroup::protection::{Effective, Standing};
use crate::memory::{Memory, NodeId};
use crate::reclaim::driver::{count_low_events, effective_protection, prune_shadows};
use crate::reclaim::{DEF_PRIORITY, LruvecId, Reclaimer, Scan, Taken};
use isotherm_units::{Duration, Instant};

/// Targets from here on begin at a priority that fits them.
const LARGE_TARGET: u64 = 64;
/// The hardest priority to begin with: half of the default.
const HARDEST_START: u32 = DEF_PRIORITY / 2;

/// The first priority for a target of pages out of `reclaimable` inactive ones.
pub(super) fn initial_priority(reclaimable: u64, target: u64) -> u32 {
    if target < LARGE_TARGET {
        return DEF_PRIORITY;
    }
    let bits = |pages: u64| u64::BITS - pages.leading_zeros();
    let fitting = bits(reclaimable).saturating_sub(1 + bits(target - 1));
    fitting.clamp(HARDEST_START, DEF_PRIORITY)
}

/// Whether a generation made at `birth` is older than `ttl`.
pub(super) fn outlived(birth: Instant, ttl: Duration, now: Instant) -> bool {
    birth + ttl < now
}

impl Mglru {
    pub(super) fn is_offline(&self, lruvec: LruvecId) -> bool {
        let nr_nodes = self.groups.len();
        let queue = nr_nodes.checked_sub(1).map(|_| &self.groups[lruvec.index() % nr_nodes]);
        let group = |queue: &GroupQueue| {
            let id = u16::try_from(lruvec.index() / nr_nodes).expect("made from a group");
            queue.place(CgroupId(id)).is_some_and(|place| place.is_offline)
        };
        queue.is_some_and(group)
    }

    /// New groups since the last call join their queues, in the same bin on every node.
    pub(super) fn meet_groups(&mut self, memory: &Memory) {
        debug_assert!(self.groups.len() <= memory.nodes.len(), "nodes do not go away");
        self.groups.resize_with(memory.nodes.len(), GroupQueue::default);
        for group in memory.cgroups.ids().skip(self.groups[0].len()) {
            let bin = self.lot.bin();
            self.groups.iter_mut().for_each(|queue| queue.join(group, bin));
        }
    }

    /// A group was removed: its remaining pages go first.
    pub fn take_offline(&mut self, memory: &Memory, group: CgroupId) {
        self.meet_groups(memory);
        for queue in &mut self.groups {
            queue.take_offline(group, &mut self.lot);
        }
    }

    pub(super) fn rotate(&mut self, memory: &Memory, lruvec: LruvecId, to: Move) {
        self.meet_groups(memory);
        let queue = &mut self.groups[memory.node_of(lruvec).index()];
        queue.rotate(memory.cgroup_of(lruvec), to, &mut self.lot);
    }

    /// Global reclaim from a node: group after group, until enough is freed.
    pub(super) fn shrink_in_turn(&mut self, memory: &mut Memory, node: NodeId, scan: &mut Scan) {
        debug_assert!(scan.is_global(), "groups take turns where the whole machine is short of memory");
        self.insert_pending(memory);
        self.meet_groups(memory);
        self.set_initial_priority(memory, node, scan);
        // The daemon's target is for each of its steps.
        let is_kswapd = scan.reclaimer == Reclaimer::Kswapd;
        let before = if is_kswapd { std::mem::take(&mut scan.nr_reclaimed) } else { 0 };
        self.has_walk_context = is_kswapd || scan.reclaimer == Reclaimer::Proactive;
        let effective = effective_protection(memory, scan.root);
        let generation = self.groups[node.index()].seq();
        let first = self.lot.bin();
        for bin in (0..NR_BINS).map(|offset| (first + offset) % NR_BINS) {
            if self.shrink_bin(memory, node, (generation, bin), &effective, scan) {
                break;
            }
        }
        self.has_walk_context = false;
        scan.nr_reclaimed += before;
        scan.taken = Taken::default(); // no task is throttled by what was met
    }

    /// The groups of one bin. Whether enough is freed.
    fn shrink_bin(
        &mut self,
        memory: &mut Memory,
        node: NodeId,
        (generation, bin): (u64, usize),
        effective: &[Effective],
        scan: &mut Scan,
    ) -> bool {
        let mut next = self.groups[node.index()].first(generation, bin);
        while let Some(group) = next {
            if !self.groups[node.index()].is_of(group, generation) {
                return false;
            }
            let lruvec = memory.lruvec(group, node);
            let to = self.shrink_one(memory, lruvec, effective, scan);
            let is_enough = scan.blocked || self.is_enough(memory, lruvec, scan);
            // The next one is chosen before this one moves: one that goes to the end of this bin is met again.
            next = self.groups[node.index()].after(group);
            if let Some(to) = to {
                self.groups[node.index()].rotate(group, to, &mut self.lot);
            }
            if is_enough {
                return true;
            }
        }
        false
    }

    /// The turn of one group: where it goes afterwards.
    pub(super) fn shrink_one(
        &mut self,
        memory: &mut Memory,
        lruvec: LruvecId,
        effective: &[Effective],
        scan: &mut Scan,
    ) -> Option<Move> {
        debug_assert!(
            effective.is_empty() || effective.len() == memory.cgroups.len(),
            "protection is known of all groups or of none"
        );
        memory.ledger.spend(memory.costs.reclaim_group_ns);
        let group = memory.cgroup_of(lruvec);
        scan.effective = effective.get(group.index()).copied().unwrap_or_default();
        let place = *self.groups[memory.node_of(lruvec).index()].place(group).expect("met before");
        match scan.effective.standing(memory.cgroups.get(group).usage) {
            Standing::BelowMin => return Some(Move::Young),
            Standing::BelowLow if !place.is_at_tail => return Some(Move::Tail),
            Standing::BelowLow => count_low_events(memory, group),
            Standing::Unprotected => {}
        }
        let turn = self.shrink(memory, lruvec, scan);
        if !scan.blocked {
            prune_shadows(memory, self, lruvec, scan);
        }
        if turn == Turn::Rotate && !place.is_offline {
            return Some(Move::Young);
        }
        let swappiness = Self::effective_swappiness(memory, lruvec, scan);
        if turn == Turn::Stay && !place.is_offline && self.is_sizable(lruvec, swappiness, scan.priority) {
            return None;
        }
        Some(if place.is_at_tail { Move::Young } else { Move::Tail })
    }

    fn set_initial_priority(&self, memory: &Memory, node: NodeId, scan: &mut Scan) {
        if scan.priority != DEF_PRIORITY || scan.nr_to_reclaim < LARGE_TARGET {
            return;
        }
        let swaps = scan.may_swap && (memory.swap_available(scan.root) > 0 || memory.tiers.can_demote(node));
        let inactive = |group: CgroupId| {
            let sizes = self.generations.get(memory.lruvec(group, node)).sizes();
            sizes.inactive_file + if swaps { sizes.inactive_anon } else { 0 }
        };
        let reclaimable = memory.cgroups.ids().map(inactive).sum();
        scan.priority = initial_priority(reclaimable, scan.nr_to_reclaim);
    }

    /// Asks for a process to be killed rather than evict pages that were used a moment ago.
    pub(super) fn guard_young(&mut self, memory: &mut Memory, node: NodeId, scan: &Scan) {
        if self.config.min_ttl == Duration::ZERO {
            return;
        }
        let effective = effective_protection(memory, CgroupId::ROOT);
        let has_old_pages = |group: CgroupId| {
            let lruvec = memory.lruvec(group, node);
            let protection = effective.get(group.index()).copied().unwrap_or_default();
            let swappiness = Self::effective_swappiness(memory, lruvec, scan);
            let own = self.generations.get(lruvec);
            let birth = own.birth[list_of(own.min_evictable(swappiness))];
            protection.standing(memory.cgroups.get(group).usage) != Standing::BelowMin
                && self.is_sizable(lruvec, swappiness, scan.priority)
                && outlived(birth, self.config.min_ttl, memory.now)
        };
        if !memory.cgroups.ids().any(has_old_pages) {
            memory.reclaim.kill_wanted = true;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// E14: the first priority.
    #[test]
    fn e14_initial_priority() {
        let table = [
            (1_048_576, 12_000, 6),
            (1_000_000, 4096, 7),
            (1_000_000, 4097, 6),
            (2_000_000, 1024, 10),
            (262_144, 20_000, 6),
            (1_000_000, 32, 12),
            (1 << 26, 12_000, 12),
            (0, 64, 6),
        ];
        for (reclaimable, target, priority) in table {
            assert_eq!(initial_priority(reclaimable, target), priority, "{target} of {reclaimable}");
        }
    }

    /// E17: strictly older than the time to live.
    #[test]
    fn e17_min_ttl() {
        let ms = |ms: u64| Instant::START + Duration::from_ms(ms);
        let ttl = Duration::from_ms(1000);
        assert!(!outlived(ms(10_000), ttl, ms(11_000)) && outlived(ms(10_000), ttl, ms(11_001)));
    }
}
