//! An attempt to reclaim at the limit: the runs over the priorities, and how often they are repeated
//! (docs/spec/classic-lru.md#s7-1, #s7-5). It is [`Attempt::limit`](crate::reclaim::driver::Attempt::limit) for one group on one node.

use super::account::Account;
use super::play::Policy;
use crate::reclaim::driver::MAX_RECLAIM_RETRIES;
use crate::reclaim::{DEF_PRIORITY, SWAP_CLUSTER_MAX};

/// A step of reclaim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    Again,
    /// The attempt is over.
    Done,
    /// All retries freed nothing.
    Failed,
}

/// One run over the priorities.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scan {
    pub(super) priority: u32,
    pub(super) nr_to_reclaim: u64,
    pub(super) nr_reclaimed: u64,
    /// Active pages should have been deactivated, but must not be.
    pub(super) skipped_deactivate: bool,
    pub(super) force_deactivate: bool,
}

/// An attempt: repeated runs.
#[derive(Clone, Copy, Debug)]
pub(super) struct Attempt {
    scan: Scan,
    is_running: bool,
    /// The walk over groups was partial, so that a fruitless run is repeated.
    is_partial: bool,
    has_drained: bool,
    /// Runs in a row that freed nothing.
    fruitless: u32,
}

impl Attempt {
    pub(super) const fn new() -> Self {
        let scan = Scan {
            priority: DEF_PRIORITY,
            nr_to_reclaim: 0,
            nr_reclaimed: 0,
            skipped_deactivate: false,
            force_deactivate: false,
        };
        Self { scan, is_running: false, is_partial: true, has_drained: false, fruitless: 0 }
    }

    /// Makes one pass over the lists at one priority.
    #[inline]
    pub(super) fn step<P: Policy>(&mut self, policy: &mut P, account: &mut Account) -> Step {
        if !self.is_running {
            let nr_to_reclaim = if P::IS_EXACT { 1 } else { SWAP_CLUSTER_MAX };
            *self = Self { is_running: true, is_partial: true, ..*self };
            self.scan = Scan { nr_to_reclaim, ..Self::new().scan };
            account.begin_reclaim();
        }
        account.spend(account.costs.reclaim_group_ns);
        policy.shrink(account, &mut self.scan);
        if P::IS_EXACT {
            self.scan.priority = 0; // there is nothing gentler or harsher
        }
        if self.scan.nr_reclaimed < self.scan.nr_to_reclaim && self.scan.priority > 0 {
            self.scan.priority -= 1;
            return Step::Again;
        }
        policy.reclaim_ended();
        if self.scan.nr_reclaimed > 0 { Step::Done } else { self.repeat(account) }
    }

    /// A run freed nothing.
    #[cold]
    fn repeat(&mut self, account: &mut Account) -> Step {
        if self.is_partial {
            self.is_partial = false;
        } else if self.scan.skipped_deactivate {
            self.scan.skipped_deactivate = false;
            self.scan.force_deactivate = true;
        } else {
            self.is_running = false;
            return self.persist(account);
        }
        self.scan.priority = DEF_PRIORITY;
        Step::Again
    }

    fn persist(&mut self, account: &mut Account) -> Step {
        if account.has_room() {
            return Step::Done;
        }
        if !self.has_drained {
            self.has_drained = true;
            account.drain_stock();
            return if account.has_room() { Step::Done } else { Step::Again };
        }
        if self.fruitless >= MAX_RECLAIM_RETRIES {
            return Step::Failed;
        }
        self.fruitless += 1;
        Step::Again
    }
}
