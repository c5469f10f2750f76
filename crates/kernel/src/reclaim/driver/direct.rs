//! Reclaim by a task that needs memory: one run over the priorities (docs/spec/classic-lru.md#s7-1), and how often it is
//! repeated (7.2 for allocations, 7.5 for charges).

use super::walk::{self, Extent};
use super::{MAX_RECLAIM_RETRIES, ReclaimStep};
use crate::cgroup::CgroupId;
use crate::counters::Counter;
use crate::memory::{Memory, Node, NodeId};
use crate::reclaim::{DEF_PRIORITY, ReclaimPolicy, SWAP_CLUSTER_MAX, Scan};
use isotherm_units::Duration;
use smallvec::SmallVec;

/// The next action after a run without success.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Persistence {
    /// An allocation: again, while it could help.
    Allocation,
    /// A charge of `pages` at `memory.max`: again, 16 times.
    Charge {
        /// Whether the stocks of the group were given back.
        drained: bool,
        /// Pages that must fit.
        pages: u64,
    },
    /// The caller decides.
    Once,
    /// The caller decides, and gives its own swappiness.
    Asked {
        /// 0..=201.
        swappiness: u32,
    },
}

/// State of repeated runs.
#[derive(Clone, Debug)]
pub(super) struct Direct {
    /// Tried first.
    preferred: Option<NodeId>,
    /// No other node will do.
    on_one_node: bool,
    persistence: Persistence,
    extent: Extent,
    /// The current run has begun.
    running: bool,
    /// Runs in a row that freed nothing.
    fruitless: u32,
    /// Has waited for kswapd already.
    throttled: bool,
}

/// Time between checks, by a task that waits for kswapd, whether the node has recovered. (In Linux kswapd wakes it.)
const KSWAPD_POLL: Duration = Duration::from_ms(1);

impl Direct {
    pub(super) fn new(preferred: Option<NodeId>, persistence: Persistence) -> Self {
        Self {
            preferred,
            on_one_node: false,
            persistence,
            extent: Extent::Partial,
            running: false,
            fruitless: 0,
            throttled: false,
        }
    }

    pub(super) fn on_one_node(self) -> Self {
        Self { on_one_node: true, ..self }
    }

    /// The nodes to reclaim from: all nodes, the preferred one first and the others in fallback order.
    fn nodes(&self, memory: &Memory) -> SmallVec<[NodeId; 4]> {
        match self.preferred {
            Some(node) if self.on_one_node => SmallVec::from_slice(&[node]),
            Some(node) => SmallVec::from_slice(memory.tiers.fallback(node)),
            None => memory.nodes.ids().collect(),
        }
    }

    pub(super) fn step(
        &mut self,
        scan: &mut Scan,
        reclaimed_before: &mut u64,
        memory: &mut Memory,
        policy: &mut dyn ReclaimPolicy,
    ) -> ReclaimStep {
        debug_assert!(scan.priority <= DEF_PRIORITY, "reclaim begins with the gentlest priority");
        let is_exact = policy.is_exact();
        if !self.running {
            if !is_exact && self.waits_for_kswapd(memory) {
                return ReclaimStep::Wait(KSWAPD_POLL);
            }
            self.begin(scan, reclaimed_before, memory, is_exact);
        }
        scan.nr_scanned = 0;
        scan.blocked = false;
        if is_exact {
            if memory.nodes.len() == 1 {
                walk::shrink_exactly(memory, policy, &[NodeId::default()], scan);
            } else {
                let nodes = self.nodes(memory);
                walk::shrink_exactly(memory, policy, &nodes, scan);
            }
            scan.priority = 0; // there is nothing gentler or harsher
        } else {
            for node in self.nodes(memory) {
                walk::shrink_node(memory, policy, node, scan, self.extent);
                self.lift_hopelessness(memory, node);
            }
        }
        let enough = scan.nr_reclaimed >= scan.nr_to_reclaim;
        if scan.blocked && !enough {
            return ReclaimStep::Again; // the attempt waits for the device before the next step
        }
        if !enough && scan.priority > 0 {
            let throttle = self.throttle(scan, memory, self.preferred.unwrap_or_default());
            scan.priority -= 1;
            return throttle.map_or(ReclaimStep::Again, ReclaimStep::Wait);
        }
        policy.reclaim_ended(memory, None, scan);
        self.run_ended(scan, reclaimed_before, memory)
    }

    fn begin(&mut self, scan: &mut Scan, reclaimed_before: &mut u64, memory: &mut Memory, is_exact: bool) {
        debug_assert!(scan.nr_to_reclaim > 0, "somebody wants pages");
        self.running = true;
        self.extent = Extent::Partial;
        *reclaimed_before += scan.nr_reclaimed;
        let wanted = match self.persistence {
            _ if is_exact => scan.nr_to_reclaim,
            Persistence::Allocation => SWAP_CLUSTER_MAX,
            Persistence::Charge { .. } | Persistence::Once | Persistence::Asked { .. } => {
                scan.nr_to_reclaim.max(SWAP_CLUSTER_MAX)
            }
        };
        let wanted = if is_exact && self.persistence == Persistence::Allocation { 1 } else { wanted };
        let swappiness = match self.persistence {
            Persistence::Asked { swappiness } => swappiness,
            _ => memory.config.swappiness,
        };
        *scan = Scan::new(scan.reclaimer, scan.root, wanted, swappiness);
        memory.ledger.spend(memory.costs.direct_reclaim_entry_ns);
        match self.persistence {
            Persistence::Allocation => memory.count(Counter::AllocStall, CgroupId::ROOT, 1),
            Persistence::Charge { pages, .. } if memory.cgroups.over_limit(scan.root, pages).is_some() => {
                memory.cgroups.for_lineage(scan.root, |group| group.events.max += 1);
            }
            Persistence::Charge { .. } | Persistence::Once | Persistence::Asked { .. } => {}
        }
    }

    /// Before an allocation reclaims: with less than half of the min watermarks free it is kswapd's turn, as the rest is for tasks that
    /// free memory. There is no wait on a hopeless node.
    fn waits_for_kswapd(&mut self, memory: &mut Memory) -> bool {
        let Some(node) = self.preferred else { return false };
        let reserve = memory.nodes.get(node).min_marks();
        if reserve == 0 || memory.nodes.get(node).free() > reserve / 2 || memory.is_hopeless(node) {
            return false;
        }
        if !std::mem::replace(&mut self.throttled, true) {
            memory.count(Counter::PgScanDirectThrottle, CgroupId::ROOT, 1);
        }
        memory.kswapd_wanted[node.index()] = true;
        true
    }

    /// Direct reclaim that balanced a node lets its daemon try again.
    fn lift_hopelessness(&self, memory: &mut Memory, node: NodeId) {
        if self.persistence == Persistence::Allocation && memory.nodes.get(node).is_balanced() {
            *memory.reclaim.failures(node) = 0;
        }
    }

    /// A sleep of one tick when reclaim goes round faster than devices write (docs/spec/classic-lru.md#s7-1).
    fn throttle(&self, scan: &Scan, memory: &Memory, node: NodeId) -> Option<Duration> {
        debug_assert!(memory.config.hz > 0, "a tick has a length");
        let no_progress = scan.is_global() && scan.priority == 1 && scan.nr_reclaimed == 0;
        let taken = &scan.taken;
        let is_congested = taken.dirty > 0 && taken.dirty == taken.congested;
        if !no_progress && !is_congested {
            return None;
        }
        let pending = memory.io.writes_in_flight() + memory.flusher.nr_dirty();
        let is_pointless = memory.is_hopeless(node) || 2 * pending <= walk::reclaimable(memory, scan.root);
        (!is_pointless).then(|| Duration::from_ns(1_000_000_000 / memory.config.hz))
    }

    /// All priorities are done: the attempt succeeded, makes another run with one rule less, or failed.
    fn run_ended(&mut self, scan: &mut Scan, reclaimed_before: &u64, memory: &mut Memory) -> ReclaimStep {
        debug_assert!(
            scan.priority == 0 || scan.nr_reclaimed >= scan.nr_to_reclaim,
            "all priorities are through, or the goal is met"
        );
        let done = ReclaimStep::Done { reclaimed: reclaimed_before + scan.nr_reclaimed };
        if scan.nr_reclaimed > 0 {
            return done;
        }
        if self.extent == Extent::Partial {
            self.extent = Extent::Full;
        } else if scan.skipped_deactivate {
            scan.skipped_deactivate = false;
            scan.force_deactivate = true;
        } else if scan.low_skipped {
            scan.low_skipped = false;
            scan.force_deactivate = false;
            scan.low_reclaim = true;
        } else {
            self.running = false;
            return self.persist(done, scan, memory);
        }
        scan.priority = DEF_PRIORITY;
        if self.persistence == Persistence::Allocation {
            memory.count(Counter::AllocStall, CgroupId::ROOT, 1);
        }
        ReclaimStep::Again
    }

    /// A whole run freed nothing.
    fn persist(&mut self, done: ReclaimStep, scan: &Scan, memory: &mut Memory) -> ReclaimStep {
        debug_assert!(
            scan.nr_reclaimed == 0 && self.fruitless <= MAX_RECLAIM_RETRIES,
            "only runs that freed nothing are counted, up to the last try"
        );
        match &mut self.persistence {
            Persistence::Once | Persistence::Asked { .. } => return done,
            Persistence::Charge { drained, pages } => {
                let fits = |memory: &Memory, pages| memory.cgroups.over_limit(scan.root, pages).is_none();
                if fits(memory, *pages) {
                    return done;
                }
                if !*drained {
                    *drained = true;
                    memory.cgroups.drain_stock(scan.root);
                    return if fits(memory, *pages) { done } else { ReclaimStep::Again };
                }
            }
            Persistence::Allocation => {
                let nodes = self.nodes(memory);
                let sum = |of: fn(&Node) -> u64| nodes.iter().map(|&node| of(memory.nodes.get(node))).sum::<u64>();
                let (free, min) = (sum(Node::free), sum(Node::min_marks));
                if free + walk::reclaimable(memory, CgroupId::ROOT) <= min {
                    self.fruitless = MAX_RECLAIM_RETRIES;
                }
            }
        }
        // Pages being written are pages about to be freed: no process is killed before that.
        if let Some(at) = memory.io.next_write_completion() {
            return ReclaimStep::Wait(at.since(memory.now));
        }
        if self.fruitless >= MAX_RECLAIM_RETRIES {
            return ReclaimStep::Failed;
        }
        self.fruitless += 1;
        ReclaimStep::Again
    }
}
