//! When and how hard to reclaim: attempts as state machines that never block (docs/spec/classic-lru.md#s7).
//!
//! An [`Attempt`] is stepped by the reclaimer: a task that could not allocate or hit a limit, kswapd, the writer of `memory.reclaim`. A
//! step is one pass over the lists at one priority; its CPU time is in [`Memory::ledger`], and the answer is to go on, to wait, or that it
//! is over. The caller owns the clock and the stall accounting.
//!
//! Where Linux blocks inside a pass (a full device queue), the pass is cut short here and repeated after the wait.

mod direct;
mod kswapd;
#[cfg(test)]
mod tests;
mod walk;

pub use walk::Walks;
pub(super) use walk::{count_low_events, effective_protection, prune_shadows};

use super::{ReclaimPolicy, Reclaimer, SWAP_CLUSTER_MAX, Scan, Work};
use crate::cgroup::CgroupId;
use crate::memory::{Memory, NodeId};
use direct::{Direct, Persistence};
use isotherm_units::Duration;
use kswapd::Kswapd;

/// The next action after a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReclaimStep {
    /// Call again.
    Again,
    /// Throttled: call again after this span, or as soon as a write to a device completes, whichever comes first.
    Wait(Duration),
    Done {
        /// Pages freed by the whole attempt.
        reclaimed: u64,
    },
    /// Over: nothing could be reclaimed after all retries. The out-of-memory killer follows.
    Failed,
}

/// Failed runs of kswapd, or retries of a charge or an allocation, until it gives up (`MAX_RECLAIM_RETRIES`).
pub const MAX_RECLAIM_RETRIES: u32 = 16;
/// Sleep of kswapd among pages that are still being written (`VMSCAN_THROTTLE_WRITEBACK`).
const WRITEBACK_THROTTLE: Duration = Duration::from_ms(100);

/// The state of reclaim from attempt to attempt.
#[derive(Clone, Debug, Default)]
pub struct ReclaimState {
    /// Where walks over groups go on.
    pub walks: Walks,
    /// By node: runs of kswapd without a page since the last success.
    kswapd_failures: Vec<u32>,
    /// By node: the last walk of kswapd met only pages under write-back.
    all_writeback: Vec<bool>,
    /// By node: the daemon is running.
    pub(crate) kswapd_running: Vec<bool>,
    /// By node: the daemon has run since the last read of this flag.
    pub(crate) kswapd_ran: Vec<bool>,
    /// The daemon found only pages that were used too recently to be evicted: a process is to be killed.
    pub(crate) kill_wanted: bool,
    /// Work of the policy to find pages.
    pub work: Work,
}

impl ReclaimState {
    /// Whether the last walk of kswapd over the node met only pages being written.
    pub fn is_all_writeback(&self, node: NodeId) -> bool {
        self.all_writeback.get(node.index()).copied().unwrap_or(false)
    }
    /// Whether a process is to be killed since the last call: kswapd found only pages that were used too recently to be evicted.
    pub const fn take_kill_wanted(&mut self) -> bool {
        std::mem::replace(&mut self.kill_wanted, false)
    }
    fn failures(&mut self, node: NodeId) -> &mut u32 {
        at(&mut self.kswapd_failures, node)
    }
    fn all_writeback(&mut self, node: NodeId) -> &mut bool {
        at(&mut self.all_writeback, node)
    }
}

fn at<T: Default + Clone>(column: &mut Vec<T>, node: NodeId) -> &mut T {
    if column.len() <= node.index() {
        column.resize(node.index() + 1, T::default());
    }
    &mut column[node.index()]
}

impl Memory {
    /// Whether kswapd gave up on the node: 16 runs in a row freed nothing. It is not woken until some reclaim succeeds.
    pub fn is_hopeless(&self, node: NodeId) -> bool {
        self.reclaim.kswapd_failures.get(node.index()).is_some_and(|&failures| failures >= MAX_RECLAIM_RETRIES)
    }
}

/// One reclaim attempt.
#[derive(Clone, Debug)]
pub struct Attempt {
    scan: Scan,
    driver: Driver,
    /// Pages freed by runs before the current one.
    reclaimed_before: u64,
    /// Wait until the swap device takes writes again.
    blocked: bool,
}

#[derive(Clone, Debug)]
enum Driver {
    Direct(Direct),
    Kswapd(Kswapd),
}

impl Attempt {
    /// For a task that could not get a frame near `node`: 32 pages from anywhere, the node first. Runs again while nothing is freed
    /// although pages could be, 16 times; then [`ReclaimStep::Failed`].
    pub fn direct(node: NodeId) -> Self {
        let scan = Scan::new(Reclaimer::Direct, CgroupId::ROOT, SWAP_CLUSTER_MAX, 0);
        Self::of(scan, Driver::Direct(Direct::new(Some(node), Persistence::Allocation)))
    }

    /// The same for a task whose memory may only come from `node`: no other node is reclaimed from.
    pub fn direct_on(node: NodeId) -> Self {
        let scan = Scan::new(Reclaimer::Direct, CgroupId::ROOT, SWAP_CLUSTER_MAX, 0);
        Self::of(scan, Driver::Direct(Direct::new(Some(node), Persistence::Allocation).on_one_node()))
    }

    /// One run over all priorities for a task that wants several contiguous pages near `node` and has other means than reclaim. The task
    /// decides whether to try again. Never fails; may end with 0.
    pub fn direct_once(node: NodeId) -> Self {
        let scan = Scan::new(Reclaimer::Direct, CgroupId::ROOT, SWAP_CLUSTER_MAX, 0);
        Self::of(scan, Driver::Direct(Direct::new(Some(node), Persistence::Once)))
    }

    /// For a task that must charge `pages` to `cgroup`, which is at its `memory.max`: at least 32 pages from the group. Counts the event
    /// `max`, drains the pages charged ahead, tries 16 times; then [`ReclaimStep::Failed`].
    pub fn limit(cgroup: CgroupId, pages: u64) -> Self {
        let scan = Scan::new(Reclaimer::Limit, cgroup, pages.max(1), 0);
        Self::of(scan, Driver::Direct(Direct::new(None, Persistence::Charge { drained: false, pages: pages.max(1) })))
    }

    /// One run over all priorities for at least `pages` pages of `cgroup`, with at most 32 more per list: `memory.high`, and writers of a
    /// lowered limit, which count their own retries. Never fails; may end with 0.
    pub fn once(cgroup: CgroupId, pages: u64) -> Self {
        let scan = Scan::new(Reclaimer::Limit, cgroup, pages.max(1), 0);
        Self::of(scan, Driver::Direct(Direct::new(None, Persistence::Once)))
    }

    /// Like [`Attempt::once`] for `memory.reclaim`: counted as proactive. `swappiness`: 0..=200, or 201 for anonymous
    /// pages only.
    pub fn proactive(cgroup: CgroupId, pages: u64, swappiness: u32) -> Self {
        let scan = Scan::new(Reclaimer::Proactive, cgroup, pages.max(1), 0);
        Self::of(scan, Driver::Direct(Direct::new(None, Persistence::Asked { swappiness })))
    }

    /// One balancing run of the node's daemon. Ends when the node is balanced or all priorities are through; never fails,
    /// but see [`Memory::is_hopeless`].
    pub fn kswapd(node: NodeId) -> Self {
        let scan = Scan::new(Reclaimer::Kswapd, CgroupId::ROOT, 0, 0);
        Self::of(scan, Driver::Kswapd(Kswapd::new(node)))
    }

    fn of(scan: Scan, driver: Driver) -> Self {
        Self { scan, driver, reclaimed_before: 0, blocked: false }
    }

    /// Pages freed so far.
    pub fn reclaimed(&self) -> u64 {
        self.reclaimed_before + self.scan.nr_reclaimed
    }

    /// Does one pass. The caller has set [`Memory::now`].
    pub fn step(&mut self, memory: &mut Memory, policy: &mut dyn ReclaimPolicy) -> ReclaimStep {
        if self.blocked {
            let next = memory.io.next_write_completion().filter(|_| memory.io.swap_queue_is_full());
            if let Some(at) = next {
                return ReclaimStep::Wait(at.since(memory.now));
            }
            self.blocked = false;
        }
        match &mut self.driver {
            Driver::Direct(direct) => {
                let step = direct.step(&mut self.scan, &mut self.reclaimed_before, memory, policy);
                self.blocked = self.scan.blocked;
                step
            }
            Driver::Kswapd(kswapd) => {
                let step = kswapd.step(&mut self.scan, memory, policy);
                self.blocked = self.scan.blocked;
                step
            }
        }
    }
}
