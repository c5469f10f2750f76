//! kcompactd: a node's daemon that compacts when it is asked to (docs/spec/compaction.md#s4-9).

use super::{CompactResult, Request, RunStep, ZoneRun};
use crate::cgroup::CgroupId;
use crate::counters::Counter;
use crate::memory::{Memory, NodeId};
use crate::reclaim::ReclaimPolicy;
use isotherm_core::compaction::Suitability;

/// The daemon's work on demand.
#[derive(Clone, Debug)]
pub struct Kcompactd {
    node: NodeId,
    /// The largest order asked for since the last run; 0: none.
    order: u32,
    run: Option<Demand>,
}

#[derive(Clone, Debug)]
struct Demand {
    order: u32,
    zone: usize,
    current: Option<Box<ZoneRun>>,
}

impl Kcompactd {
    /// The daemon of a node, with nothing to do.
    pub const fn new(node: NodeId) -> Self {
        Self { node, order: 0, run: None }
    }

    /// Asks for blocks of 2^`order` pages; requests that come together are one. Whether the daemon should be woken for the request: if not,
    /// the request is served when it wakes for another reason.
    pub fn ask(&mut self, memory: &Memory, order: u32) -> bool {
        self.order = self.order.max(order);
        self.order > 0 && self.is_suitable(memory, self.order)
    }

    /// Whether there is a request.
    pub const fn has_work(&self) -> bool {
        self.order > 0 || self.run.is_some()
    }

    fn is_suitable(&self, memory: &Memory, order: u32) -> bool {
        let zones = &memory.nodes.get(self.node).zones;
        zones.iter().any(|zone| zone.suitability(order, zone.marks.min, 0) == Suitability::Suitable)
    }

    /// Does the next batch; returns whether there is more to do.
    pub fn step(&mut self, memory: &mut Memory, policy: &mut dyn ReclaimPolicy) -> bool {
        let order = self.order;
        let demand = self.run.get_or_insert_with(|| {
            memory.count(Counter::CompactDaemonWake, CgroupId::ROOT, 1);
            Demand { order, zone: 0, current: None }
        });
        let mut run = match demand.current.take() {
            Some(run) => run,
            None => {
                let Some(run) = demand.next_zone(memory, self.node) else {
                    let done = demand.order;
                    self.run = None;
                    if self.order <= done {
                        self.order = 0;
                    }
                    return self.order > 0;
                };
                Box::new(run)
            }
        };
        match run.step(memory, policy) {
            RunStep::Again | RunStep::Throttled(_) => demand.current = Some(run),
            RunStep::Done(result) => {
                let order = demand.order;
                let zone = demand.zone - 1;
                match result {
                    CompactResult::Success => {
                        memory.nodes.zone_mut(self.node, zone).compaction.deferral.reset(order, false);
                    }
                    CompactResult::Complete | CompactResult::PartialSkipped => {
                        let Memory { nodes, frames, ledger, costs, .. } = memory;
                        let zone = nodes.zone_mut(self.node, zone);
                        if zone.drain(frames) > 0 {
                            ledger.spend(costs.drain_lists_ns);
                        }
                        zone.compaction.deferral.defer(order);
                    }
                    _ => {}
                }
            }
        }
        true
    }
}

impl Demand {
    fn next_zone(&mut self, memory: &mut Memory, node: NodeId) -> Option<ZoneRun> {
        while self.zone < memory.nodes.get(node).zones.len() {
            let at = self.zone;
            self.zone += 1;
            let zone = memory.nodes.zone_mut(node, at);
            if zone.compaction.deferral.is_deferred(self.order) {
                continue;
            }
            if zone.suitability(self.order, zone.marks.min, 0) == Suitability::Suitable {
                return Some(ZoneRun::new(node, at, Request::on_demand(self.order)));
            }
        }
        None
    }
}
