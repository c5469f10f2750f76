//! Requests of compaction designs: free blocks of zones, load of a node, and passes over a zone.

use super::MemoryHost;
use isotherm_core::host::{
    CompactEnd, CompactMode, CompactStep, Compacted, CompactionSignals, HostError, NodeId as CoreNode, ZoneId,
    ZoneState,
};
use isotherm_kernel::cgroup::CgroupId;
use isotherm_kernel::compaction::{CompactResult, Request, RunStep, Until, ZoneRun};
use isotherm_kernel::counters::Counter;
use isotherm_kernel::memory::buddy::MigrateType;
use isotherm_kernel::memory::{NodeId, Zone};
use isotherm_kernel::migrate::MigrateMode;
use isotherm_kernel::pressure::{Resource, Severity};
use isotherm_units::Duration;

const fn migrate_mode(mode: CompactMode) -> MigrateMode {
    match mode {
        CompactMode::SyncLight => MigrateMode::SyncLight,
        CompactMode::Sync => MigrateMode::Sync,
    }
}

/// Where a zone is.
type Place = (NodeId, usize);

impl MemoryHost<'_> {
    fn place(&self, id: ZoneId) -> Result<Place, HostError> {
        let place = self.memory.nodes.find(id.node.0).map(|node| (node, usize::from(id.zone)));
        place
            .filter(|&(node, zone)| zone < self.memory.nodes.get(node).zones.len())
            .ok_or_else(|| HostError::Failed(format!("there is no such zone: {id}")))
    }

    fn zone(&self, (node, zone): Place) -> &Zone {
        &self.memory.nodes.get(node).zones[zone]
    }

    /// Free blocks of all zones. Passes that are not over give back the pages that they hold.
    pub(super) fn report_zones(&mut self, out: &mut Vec<ZoneState>) {
        let nodes: Vec<NodeId> = self.memory.nodes.ids().collect();
        for node in nodes {
            for at in 0..self.memory.nodes.get(node).zones.len() {
                self.pause((node, at));
                let zone = self.zone((node, at));
                if zone.managed() > 0 {
                    let id = ZoneId {
                        node: CoreNode(u32::try_from(node.index()).expect("few nodes")),
                        zone: u8::try_from(at).expect("few zones"),
                    };
                    let (blocks, movable) = (zone.buddy().blocks(), zone.buddy().blocks_of(MigrateType::Movable));
                    let (present, marks) = (zone.managed(), zone.core_marks());
                    // No kernel knows what its page blocks hold without reading every page.
                    out.push(ZoneState { id, blocks, present, marks, movable: Some(movable), exact_yield: None });
                }
            }
        }
    }

    fn pause(&mut self, (node, zone): Place) {
        if let Some(mut run) = self.memory.nodes.take_stepped(node, zone) {
            run.pause(self.memory);
            self.memory.nodes.keep_stepped(node, zone, run);
        }
    }

    pub(super) fn signals(&mut self, node: CoreNode) -> Result<CompactionSignals, HostError> {
        let known = self.memory.nodes.find(node.0);
        let id = known.ok_or_else(|| HostError::Failed(format!("there is no node {}", node.0)))?;
        let is_running = self.memory.is_kswapd_running(id);
        let has_run = self.memory.take_kswapd_ran(id);
        let counters = &self.memory.counters;
        let average = self.pressure.sampled_average(CgroupId::ROOT, Resource::Cpu, Severity::Some);
        Ok(CompactionSignals {
            is_reclaiming: is_running,
            has_reclaimed: has_run && !is_running,
            huge_wanted: counters.get(Counter::ThpFaultAlloc)
                + counters.get(Counter::ThpFaultFallback)
                + self.memory.kernel.huge_wanted(),
            cpu_pressure_bp: u32::try_from(average.hundredths()[0]).unwrap_or(u32::MAX),
        })
    }

    /// A part of a pass over a zone.
    pub(super) fn compact_some(&mut self, step: &CompactStep) -> Result<Compacted, HostError> {
        let place = self.place(step.zone)?;
        let (node, zone) = place;
        let mode = migrate_mode(step.mode);
        let CompactStep { stop, counts_in_flight, stops_for_reclaim, .. } = *step;
        let until = Until::Level { stop, counts_in_flight, stops_for_reclaim };
        let kept = self.memory.nodes.take_stepped(node, zone);
        let mut run = match kept {
            Some(run) if !step.is_first => run,
            kept => {
                if let Some(mut run) = kept {
                    run.end(self.memory);
                }
                Box::new(ZoneRun::new(node, zone, Request::whole(mode, until)))
            }
        };
        run.set_until(until);
        let (before, began_ns) = (*run.work(), self.memory.ledger.peek());
        let end = loop {
            if let RunStep::Done(result) = run.step(self.memory, self.policy) {
                break Some(self.ended(result, node, stops_for_reclaim));
            }
            let (scanned, moved) =
                (run.work().scanned_migrate - before.scanned_migrate, run.work().moved - before.moved);
            if (scanned >= step.max_scanned || moved >= step.max_moved) && run.is_between_blocks() {
                break None;
            }
        };
        let work = *run.work();
        if end.is_none() {
            self.memory.nodes.keep_stepped(node, zone, run);
        }
        Ok(Compacted {
            end,
            pages_moved: work.moved - before.moved,
            scanned_migrate: work.scanned_migrate - before.scanned_migrate,
            scanned_free: work.scanned_free - before.scanned_free,
            blocks_freed: work.blocks_freed - before.blocks_freed,
            blocks_spoiled_unmovable: work.blocks_unmovable - before.blocks_unmovable,
            blocks_spoiled_pinned: work.blocks_pinned - before.blocks_pinned,
            cpu: Duration::from_ns(self.memory.ledger.peek() - began_ns),
            stalls: self.memory.migration.take_unreported(),
        })
    }

    fn ended(&self, result: CompactResult, node: NodeId, stops_for_reclaim: bool) -> CompactEnd {
        match result {
            CompactResult::Success => CompactEnd::Reached,
            CompactResult::PartialSkipped if stops_for_reclaim && self.memory.is_kswapd_running(node) => {
                CompactEnd::Reclaiming
            }
            CompactResult::Contended => CompactEnd::NoTargets,
            _ => CompactEnd::ScannersMet,
        }
    }
}
