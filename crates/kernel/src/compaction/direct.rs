//! Direct compaction: a thread that wants a block makes one itself, zone after zone (docs/spec/compaction.md#s4-2, #s4-6, #s4-7).

use super::{CompactResult, Request, RunStep, ZoneRun};
use crate::memory::buddy::MigrateType;
use crate::memory::{FrameId, Memory, NodeId};
use crate::migrate::MigrateMode;
use crate::reclaim::ReclaimPolicy;
use isotherm_units::Instant;

/// Effort of direct compaction; later values try harder.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Priority {
    /// Waits for nothing.
    Async,
    /// Waits for locks.
    SyncLight,
    /// Scans all of every zone; cached positions and skip hints are ignored. Not used for costly orders.
    Full,
}

/// A thread's own compaction.
#[derive(Clone, Debug)]
pub struct DirectCompaction {
    order: u32,
    wanted: MigrateType,
    priority: Priority,
    /// Zones that are not visited yet, the next one last.
    zones: Vec<(NodeId, usize)>,
    run: Option<ZoneRun>,
    best: CompactResult,
}

/// Result of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DirectStep {
    /// Call again after its CPU time.
    Again,
    /// Sleeps.
    Wait(Instant),
    /// Over: the best result of all zones, and the block if one was made and kept for the thread.
    Done(CompactResult, Option<FrameId>),
}

impl DirectCompaction {
    /// For a block of 2^`order` pages of a type, in zones in the order in which the allocator visits them.
    pub fn new(order: u32, wanted: MigrateType, priority: Priority, mut zones: Vec<(NodeId, usize)>) -> Self {
        zones.reverse();
        Self { order, wanted, priority, zones, run: None, best: CompactResult::Skipped }
    }

    /// Does the next batch.
    pub fn step(&mut self, memory: &mut Memory, policy: &mut dyn ReclaimPolicy) -> DirectStep {
        let mut run = match self.run.take() {
            Some(run) => run,
            None => match self.next_zone(memory) {
                Some(run) => run,
                None => return DirectStep::Done(self.best, None),
            },
        };
        let (node, zone) = (run.node, run.zone);
        memory.nodes.zone_mut(node, zone).buddy_mut().capture(self.order, self.wanted);
        let step = run.step(memory, policy);
        let zone = memory.nodes.zone_mut(node, zone);
        let got = zone.buddy_mut().captured();
        let result = match step {
            RunStep::Done(_) if got.is_some() => CompactResult::Success,
            RunStep::Done(result) => result,
            // Before waiting: the kept page is on no list, and would be lost.
            RunStep::Again | RunStep::Throttled(_) if got.is_some() => {
                run.end(memory);
                CompactResult::Success
            }
            RunStep::Again => {
                self.run = Some(run);
                return DirectStep::Again;
            }
            RunStep::Throttled(until) => {
                self.run = Some(run);
                return DirectStep::Wait(until);
            }
        };
        self.best = self.best.max(result);
        let deferral = &mut memory.nodes.zone_mut(run.node, run.zone).compaction.deferral;
        match result {
            CompactResult::Success => {
                deferral.reset(self.order, false);
                return DirectStep::Done(self.best, got);
            }
            CompactResult::Complete | CompactResult::PartialSkipped if self.priority != Priority::Async => {
                deferral.defer(self.order);
            }
            _ => {}
        }
        if self.zones.is_empty() { DirectStep::Done(self.best, None) } else { DirectStep::Again }
    }

    /// Gives up the work under way.
    pub fn cancel(&mut self, memory: &mut Memory) {
        if let Some(mut run) = self.run.take() {
            run.end(memory);
        }
    }

    fn next_zone(&mut self, memory: &mut Memory) -> Option<ZoneRun> {
        while let Some((node, zone)) = self.zones.pop() {
            let deferral = &mut memory.nodes.zone_mut(node, zone).compaction.deferral;
            if self.priority != Priority::Full && deferral.is_deferred(self.order) {
                self.best = self.best.max(CompactResult::Deferred);
                continue;
            }
            return Some(ZoneRun::new(node, zone, Request::direct(self.order, self.wanted, self.priority)));
        }
        None
    }
}

impl Priority {
    /// Mode of the passes at this priority.
    pub const fn mode(self) -> MigrateMode {
        match self {
            Self::Async => MigrateMode::Async,
            Self::SyncLight | Self::Full => MigrateMode::SyncLight,
        }
    }
}
