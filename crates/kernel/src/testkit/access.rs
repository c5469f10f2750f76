//! A thread that touches pages: it faults, waits and reclaims until the access succeeds.

use super::{AnyPolicy, Kit};
use crate::compaction::AllocateStep;
use crate::fault::{self, FaultOutcome, FaultState, Shortage};
use crate::mmu::{Need, SpaceId};
use crate::reclaim::Touches;
use crate::reclaim::driver::{Attempt, ReclaimStep};
use isotherm_units::access::Run;
use isotherm_units::{Instant, PageRange};

/// Shortages of one access after which memory is out: two pages may be needed at once (copy on write) where only one can be had.
const SHORTAGES_MAX: u32 = 500;

/// The cost of one access.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Trouble {
    pub waits: u32,
    pub memstalls: u32,
    pub shortages: u32,
    pub bad: bool,
}

/// Next action of a thread after a step of an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    Again,
    Over,
    OutOfMemory,
}

impl<P: AnyPolicy> Kit<P> {
    /// One access to a page: a hit, or a fault with all its work. `None`: memory ran out. Walks over page tables take the process for one
    /// that ran.
    pub fn access(&mut self, space: SpaceId, page: u64, need: Need) -> Option<Trouble> {
        self.memory.space_mut(space).used = u64::MAX;
        let mut trouble = Trouble::default();
        while !trouble.bad && !self.hits(space, page, need) {
            if !self.fault(space, page, need, &mut trouble) {
                return None;
            }
        }
        self.state.moved_on();
        self.after_step();
        Some(trouble)
    }

    pub fn write_all(&mut self, space: SpaceId, pages: PageRange) {
        for page in pages.start..pages.end {
            let trouble = self.access(space, page, Need::Write);
            assert!(trouble.is_some_and(|trouble| !trouble.bad), "page {page}: {trouble:?}");
        }
    }

    /// One call of a fault, and its result. `false`: memory ran out.
    pub fn fault(&mut self, space: SpaceId, page: u64, need: Need, trouble: &mut Trouble) -> bool {
        let outcome = fault::fault(&mut self.memory, self.policy.as_mut(), space, page, need, &mut self.state);
        self.after_step();
        self.help(outcome, trouble) != Next::OutOfMemory
    }

    /// Does an access that needs no fault.
    fn hits(&mut self, space: SpaceId, page: u64, need: Need) -> bool {
        let table = &mut self.memory.space_mut(space).table;
        let permits = |&dense: &_| table.is_present(dense) && (need == Need::Read || table.is_writable(dense));
        let Some(dense) = table.dense(page).filter(permits) else { return false };
        table.mark_touched(dense, need);
        if self.policy.as_ref().wanted_touches() != Touches::None {
            self.policy.as_mut().touched(&mut self.memory, space, &[Run::read(page, 1)]);
        }
        true
    }

    /// One call of `read()` or `write()`.
    pub fn call(&mut self, space: SpaceId, run: Run) -> Trouble {
        let (mut trouble, mut done) = (Trouble::default(), 0);
        loop {
            let rest = run.rest_after(done);
            let outcome =
                fault::descriptor(&mut self.memory, self.policy.as_mut(), space, rest, &mut done, &mut self.state);
            self.after_step();
            match self.help(outcome, &mut trouble) {
                Next::Again => {}
                Next::OutOfMemory => panic!("out of memory"),
                Next::Over => {
                    assert_eq!(done == run.pages, !trouble.bad);
                    return trouble;
                }
            }
        }
    }

    /// Does what an outcome asks for.
    fn help(&mut self, outcome: FaultOutcome, trouble: &mut Trouble) -> Next {
        match outcome {
            FaultOutcome::Done => return Next::Over,
            FaultOutcome::Migrating { until } => self.pass_time(until),
            FaultOutcome::Huge => self.make_huge(),
            FaultOutcome::Wait { until, memstall } => {
                trouble.waits += 1;
                trouble.memstalls += u32::from(memstall);
                self.pass_time(until);
            }
            FaultOutcome::Short(shortage) => {
                trouble.shortages += 1;
                if trouble.shortages == SHORTAGES_MAX || !self.relieve(shortage) {
                    let node = self.state.node;
                    self.state = FaultState::default();
                    self.state.node = node;
                    return Next::OutOfMemory;
                }
            }
            FaultOutcome::Bad { .. } => {
                trouble.bad = true;
                return Next::Over;
            }
        }
        Next::Again
    }

    fn make_huge(&mut self) {
        while self.state.is_allocating() {
            if let AllocateStep::Wait(until) = self.state.step_huge(&mut self.memory, self.policy.as_mut()) {
                self.pass_time(until);
            }
        }
    }

    /// Reclaims for the thread that was short of memory; returns whether a retry makes sense.
    fn relieve(&mut self, shortage: Shortage) -> bool {
        let attempt = match shortage {
            Shortage::Limit(cgroup) => Attempt::limit(cgroup, self.state.take_shortage_pages()),
            Shortage::Node(node) => Attempt::direct(node),
            Shortage::Bound(node) => Attempt::direct_on(node),
        };
        if self.run(attempt) != ReclaimStep::Failed || self.state.shortage_is_optional() {
            return true;
        }
        // Pages that are being read can go when they are there.
        let Some(at) = self.memory.io.next_completion() else { return false };
        self.pass_time(at);
        true
    }

    /// Steps an attempt to its end.
    pub fn run(&mut self, mut attempt: Attempt) -> ReclaimStep {
        for _ in 0..10_000 {
            let step = attempt.step(&mut self.memory, self.policy.as_mut());
            self.after_step();
            match step {
                ReclaimStep::Again => {}
                ReclaimStep::Wait(span) => {
                    self.run_daemons();
                    let until = self.memory.now + span;
                    self.pass_time(self.memory.io.next_completion().map_or(until, |at| at.min(until)));
                }
                over => return over,
            }
        }
        panic!("the attempt does not end: {attempt:?}");
    }

    /// The daemons of nodes that were woken do their work: there is no thread for them here.
    fn run_daemons(&mut self) {
        let nodes = self.memory.nodes.ids();
        let woken: Vec<_> = nodes.filter(|node| std::mem::take(&mut self.memory.kswapd_wanted[node.index()])).collect();
        for node in woken {
            self.run(Attempt::kswapd(node));
        }
    }

    pub fn pass_time(&mut self, until: Instant) {
        let now = self.memory.now.max(until);
        self.memory.now = now;
        fault::complete_io(&mut self.memory, self.policy.as_mut(), now);
        self.after_step();
    }

    /// Waits until no transfer is in flight.
    pub fn settle(&mut self) {
        while let Some(at) = self.memory.io.next_completion() {
            self.pass_time(at);
        }
    }
}
