//! One balancing run of a node's daemon (docs/spec/classic-lru.md#s7-4), and its treatment of boosted watermarks
//! (docs/spec/compaction.md#s2-5).

use super::walk::{self, Extent};
use super::{ReclaimStep, WRITEBACK_THROTTLE};
use crate::cgroup::CgroupId;
use crate::counters::Counter;
use crate::memory::buddy::BLOCK_ORDER;
use crate::memory::{Memory, NodeId, Zone};
use crate::reclaim::{DEF_PRIORITY, ReclaimPolicy, Scan};

/// State of a run.
#[derive(Clone, Debug)]
pub(super) struct Kswapd {
    node: NodeId,
    running: bool,
    /// Cache-trim mode was used in some walk that freed nothing.
    cache_trim_failed: bool,
    /// Boost of each zone when the run began.
    boosts: Vec<u64>,
    /// The part of their sum that is not reclaimed yet.
    boost_left: u64,
}

/// A run for a boost tries no harder than this: it frees only pages that need no writing.
const BOOST_PRIORITY: u32 = DEF_PRIORITY - 2;

impl Kswapd {
    pub(super) fn new(node: NodeId) -> Self {
        Self { node, running: false, cache_trim_failed: false, boosts: Vec::new(), boost_left: 0 }
    }

    pub(super) fn step(&mut self, scan: &mut Scan, memory: &mut Memory, policy: &mut dyn ReclaimPolicy) -> ReclaimStep {
        let node = self.node;
        if !self.running {
            self.running = true;
            *scan = Scan::new(scan.reclaimer, scan.root, 0, memory.config.swappiness);
            memory.count(Counter::PageOutRun, CgroupId::ROOT, 1);
            memory.ledger.spend(memory.costs.kswapd_wakeup_ns);
            self.boosts = memory.nodes.get(node).zones.iter().map(Zone::boost).collect();
            self.boost_left = self.boosts.iter().sum();
        }
        let is_balanced = memory.nodes.get(node).is_balanced();
        if !is_balanced && self.boost_left > 0 {
            // Memory is short: that comes first, and the freed pages count for the boost.
            self.boost_left = 0;
            scan.priority = DEF_PRIORITY;
        }
        debug_assert!(self.boost_left <= self.boosts.iter().sum(), "what is left of the boosts is a part of them");
        let is_for_boost = self.boost_left > 0;
        scan.may_swap = !is_for_boost;
        if is_balanced && !is_for_boost {
            *memory.reclaim.all_writeback(node) = false;
            return self.over(scan, memory, policy);
        }
        scan.nr_scanned = 0;
        scan.blocked = false;
        let before = scan.nr_reclaimed;
        let is_exact = policy.is_exact();
        if is_exact {
            scan.nr_to_reclaim = scan.nr_reclaimed + 1;
            walk::shrink_exactly(memory, policy, &[node], scan);
        } else {
            policy.age_node(memory, node, scan);
            scan.nr_to_reclaim = memory.nodes.get(node).kswapd_target();
            walk::shrink_node(memory, policy, node, scan, Extent::Full);
        }
        let reclaimed = scan.nr_reclaimed - before;
        if reclaimed > 0 {
            *memory.reclaim.failures(node) = 0;
        } else {
            self.cache_trim_failed |= scan.cache_trim_used;
        }
        if scan.blocked && reclaimed == 0 {
            return ReclaimStep::Again; // the attempt waits for the device before the next step
        }
        self.boost_left = self.boost_left.saturating_sub(reclaimed);
        if self.boost_left > 0 && reclaimed == 0 {
            // Nothing that could go without being written: it is not pressed.
            return self.over(scan, memory, policy);
        }
        let scanned_little = scan.nr_scanned < scan.nr_to_reclaim && !is_exact && !scan.blocked;
        let is_at_limit = is_for_boost && scan.priority == BOOST_PRIORITY;
        if scanned_little && !is_at_limit || reclaimed == 0 {
            debug_assert!(scan.priority > 0, "the run ends at priority 0");
            scan.priority -= 1;
        }
        if scan.priority == 0 {
            if scan.nr_reclaimed == 0 && !scan.cache_trim_disabled && self.cache_trim_failed {
                scan.cache_trim_disabled = true;
                scan.priority = DEF_PRIORITY;
                return ReclaimStep::Again;
            }
            if scan.nr_reclaimed == 0 {
                // Pages being written are pages about to be freed: that is not failure yet.
                if let Some(at) = memory.io.next_write_completion() {
                    scan.priority = DEF_PRIORITY;
                    return ReclaimStep::Wait(at.since(memory.now));
                }
                *memory.reclaim.failures(node) += 1;
            }
            return self.over(scan, memory, policy);
        }
        let taken = &scan.taken;
        if taken.writeback > 0 && taken.writeback == taken.pages {
            *memory.reclaim.all_writeback(node) = true;
        }
        if taken.immediate > 0 { ReclaimStep::Wait(WRITEBACK_THROTTLE) } else { ReclaimStep::Again }
    }

    fn over(&mut self, scan: &mut Scan, memory: &mut Memory, policy: &mut dyn ReclaimPolicy) -> ReclaimStep {
        debug_assert!(self.running, "only a run that began can end");
        policy.reclaim_ended(memory, Some(self.node), scan);
        self.running = false;
        self.boost_left = 0;
        if self.boosts.iter().any(|&boost| boost > 0) {
            for (zone, boost) in self.boosts.drain(..).enumerate() {
                memory.nodes.zone_mut(self.node, zone).lower_boost(boost);
            }
            // There is likely room now: page blocks are to be joined.
            let wanted = &mut memory.kcompactd_wanted[self.node.index()];
            *wanted = (*wanted).max(BLOCK_ORDER);
        }
        ReclaimStep::Done { reclaimed: scan.nr_reclaimed }
    }
}
