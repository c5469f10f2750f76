//! Filter between one of our own engines and the host: the engine samples its processes, and acts on them if
//! allowed.

use super::sums::Sums;
use crate::control_loop::gate::{Held, Permit};
use crate::control_loop::guard::Guard;
use crate::control_loop::line::Line;
use crate::control_loop::{AuditError, Log, LoopHost, System};
use isotherm_core::host::{
    Action, AddressRange, Applied, Applying, Area, Attribute, Capabilities, Gauge, GaugeCapabilities, Gauging,
    HostError, Mappings, MoveOrder, NodeId, NodeMemory, Order, PageMove, Probe, ProbeResult, Probing, ScanFilter,
    Scanned, SchemeCapabilities, TargetId, Tiering, TieringCapabilities,
};
use isotherm_units::{Duration, PAGE_BYTES};

/// Most bytes in one system call, so that no call takes long.
const PIECE: u64 = 16 << 20;
/// Memory is brought back only while this percentage of it stays free.
const HEADROOM_PERCENT: u64 = 5;

/// An engine's host.
pub(super) struct Gate<'a> {
    pub(super) host: &'a mut dyn LoopHost,
    pub(super) world: &'a mut dyn System,
    pub(super) log: &'a mut dyn Log,
    pub(super) permit: &'a Permit,
    pub(super) guard: &'a Guard,
    /// While this file is there, nothing acts.
    pub(super) kill_file: &'a str,
    pub(super) label: &'a str,
    /// Processes, and their names in lines.
    pub(super) targets: &'a std::collections::BTreeMap<TargetId, String>,
    /// Their groups.
    pub(super) paths: &'a std::collections::BTreeMap<TargetId, String>,
    pub(super) sums: &'a mut Sums,
    /// CPU time of the requests in this turn, as far as hosts report it.
    pub(super) spent: Duration,
    /// The audit cannot be written.
    pub(super) mute: Option<AuditError>,
}

impl Gate<'_> {
    /// Whether the section may act on a target now. Each action is logged before it is carried out.
    fn let_through(&mut self, target: TargetId, action: &'static str, write: String, bytes: u64) -> Result<(), Held> {
        let name = self.targets.get(&target).cloned().unwrap_or_default();
        let allowed = match self.permit.check() {
            Ok(()) if self.world.is_there(self.kill_file) => Err(Held::KillFile(self.kill_file.to_owned())),
            Ok(()) => self
                .paths
                .get(&target)
                .and_then(|path| self.guard.group(path))
                .map_or(Ok(()), |why| Err(Held::Withheld(why))),
            held => held,
        };
        if let Err(held) = allowed {
            let why = (held != Held::Observing).then(|| held.to_string());
            self.sums.held(target, action, write, bytes, why);
            return Err(held);
        }
        if self.sums.wants_asking(target, action) {
            let asks = Line::Asks { section: self.label.to_owned(), target: name, write: write.clone() };
            if let Err(why) = self.log.line(&asks) {
                self.mute = Some(why.clone());
                return Err(Held::NotLogged(why));
            }
            self.sums.asked_for(target, action);
        }
        self.sums.asked(target, action, write, bytes);
        Ok(())
    }

    /// Checks that there is room for memory that is brought back.
    fn has_room_for(&mut self, bytes: u64) -> Result<(), HostError> {
        let mut values = [None; 2];
        self.host.gauges(&[Gauge::FreeBytes(None), Gauge::TotalBytes(None)], &mut values)?;
        let [Some(free), Some(total)] = values else {
            return Err(HostError::Failed("how much memory is free is not known".to_owned()));
        };
        if free.saturating_sub(bytes) < total / 100 * HEADROOM_PERCENT {
            return Err(HostError::Failed(format!(
                "less than {HEADROOM_PERCENT} % of memory would stay free: nothing is brought back"
            )));
        }
        Ok(())
    }

    /// Carries out a piece of an order. Returns bytes treated, and bytes evicted, from counts before and
    /// afterwards.
    fn piece(
        &mut self,
        target: TargetId,
        order: &mut Order<'_>,
        range: AddressRange,
    ) -> Result<(Applied, u64), HostError> {
        let is_pageout = order.action == Action::Pageout;
        let before = if is_pageout { self.host.present_bytes(target, range)? } else { 0 };
        let mut part = Order {
            action: order.action,
            range,
            filter: &mut *order.filter,
            target_nid: order.target_nid,
            destinations: order.destinations,
            marks_accessed: order.marks_accessed,
            last_folio: &mut *order.last_folio,
        };
        let applied = self.host.apply(target, &mut part)?;
        let verified =
            if is_pageout { before.saturating_sub(self.host.present_bytes(target, range)?) } else { applied.bytes };
        Ok((applied, verified))
    }
}

impl Applying for Gate<'_> {
    fn scheme_capabilities(&self, target: TargetId) -> SchemeCapabilities {
        self.host.scheme_capabilities(target)
    }

    fn apply(&mut self, target: TargetId, order: &mut Order<'_>) -> Result<Applied, HostError> {
        if order.action == Action::Stat {
            return self.host.apply(target, order);
        }
        let (name, range) = (order.action.name(), order.range);
        let write = format!("{name} {:#x} to {:#x}", range.start, range.end);
        self.let_through(target, name, write, range.len())?;
        if order.action == Action::Willneed
            && let Err(error) = self.has_room_for(range.len())
        {
            self.sums.failed(target, name, &error.to_string());
            return Err(error);
        }
        let mut all = Applied::default();
        let mut start = range.start;
        while start < range.end && !self.world.has_to_end() {
            let piece = AddressRange::new(start, range.end.min((start / PIECE + 1).saturating_mul(PIECE)));
            match self.piece(target, order, piece) {
                Ok((applied, verified)) => {
                    self.sums.did(target, name, verified);
                    all.bytes += applied.bytes;
                    all.spent += applied.spent;
                }
                Err(error) => {
                    self.sums.failed(target, name, &error.to_string());
                    if all.bytes == 0 {
                        return Err(error);
                    }
                    break;
                }
            }
            start = piece.end;
        }
        self.spent += all.spent;
        Ok(all)
    }
}

impl Tiering for Gate<'_> {
    fn tiering_capabilities(&self) -> TieringCapabilities {
        self.host.tiering_capabilities()
    }

    fn areas(&mut self, target: TargetId, out: &mut Vec<Area>) -> Result<(), HostError> {
        self.host.areas(target, out)
    }

    fn scan_accessed(
        &mut self,
        target: TargetId,
        range: AddressRange,
        filter: &mut ScanFilter,
    ) -> Result<Scanned, HostError> {
        let scanned = self.host.scan_accessed(target, range, filter)?;
        self.spent += scanned.spent;
        Ok(scanned)
    }

    fn page_nodes(&mut self, target: TargetId, addresses: &[u64], out: &mut [Option<NodeId>]) -> Result<(), HostError> {
        self.host.page_nodes(target, addresses, out)
    }

    fn migrate(
        &mut self,
        target: TargetId,
        order: &MoveOrder<'_>,
        results: &mut [PageMove],
    ) -> Result<Duration, HostError> {
        const PROMOTE: &str = "promote";
        let bytes = order.pages.len() as u64 * PAGE_BYTES;
        let first = order.pages.first().copied().unwrap_or(0);
        let write = format!("move_pages of {} to node {}, the first at {first:#x}", order.pages.len(), order.to.0);
        self.let_through(target, PROMOTE, write, bytes)?;
        let spent = self.host.migrate(target, order, results).inspect_err(|error| {
            self.sums.failed(target, PROMOTE, &error.to_string());
        })?;
        let moved = |result: &PageMove| if let PageMove::Moved(pages) = result { u64::from(*pages) } else { 0 };
        let nr_moved = results.iter().map(moved).sum::<u64>();
        self.sums.did(target, PROMOTE, nr_moved * PAGE_BYTES);
        if nr_moved == 0
            && let Some(first) = results.first()
        {
            self.sums.failed(target, PROMOTE, &format!("no page moved, the first because {}", why_not(*first)));
        }
        self.spent += spent;
        Ok(spent)
    }

    fn node_memory(&mut self, node: NodeId) -> Result<Option<NodeMemory>, HostError> {
        self.host.node_memory(node)
    }
}

impl Probing for Gate<'_> {
    fn capabilities(&self, target: TargetId) -> Capabilities {
        self.host.capabilities(target)
    }

    fn clear(&mut self, target: TargetId, probes: &[Probe], results: &mut [ProbeResult]) -> Result<(), HostError> {
        self.host.clear(target, probes, results)
    }

    fn test(&mut self, target: TargetId, probes: &[Probe], results: &mut [ProbeResult]) -> Result<(), HostError> {
        self.host.test(target, probes, results)
    }

    fn scan_children(&mut self, target: TargetId, parent: Probe, out: &mut Vec<u64>) -> Result<(), HostError> {
        self.host.scan_children(target, parent, out)
    }

    fn flush(&mut self, target: TargetId) -> Result<(), HostError> {
        self.host.flush(target)
    }

    fn has_attribute(
        &mut self,
        target: TargetId,
        attribute: Attribute,
        addresses: &[u64],
        out: &mut [Option<bool>],
    ) -> Result<(), HostError> {
        self.host.has_attribute(target, attribute, addresses, out)
    }
}

impl Mappings for Gate<'_> {
    fn mappings(&mut self, target: TargetId, out: &mut Vec<AddressRange>) -> Result<(), HostError> {
        self.host.mappings(target, out)
    }
}

impl Gauging for Gate<'_> {
    fn gauge_capabilities(&self, target: TargetId) -> GaugeCapabilities {
        self.host.gauge_capabilities(target)
    }

    fn gauges(&mut self, gauges: &[Gauge], values: &mut [Option<u64>]) -> Result<(), HostError> {
        self.host.gauges(gauges, values)
    }

    fn memcg(&self, path: &str) -> Option<u64> {
        self.host.memcg(path)
    }
}

/// Text of a result.
const fn why_not(result: PageMove) -> &'static str {
    match result {
        PageMove::Moved(_) => "it moved",
        PageMove::SameNode | PageMove::TopTier => "it is on fast memory already",
        PageMove::NotPresent => "there is no page any more",
        PageMove::Busy => "it is locked, being written, or not on a list",
        PageMove::Pinned => "others hold it in its place",
        PageMove::Shared => "other processes map it too",
        PageMove::Dirty => "it belongs to a file, and was written",
        PageMove::NotActive => "it is not among the active ones",
        PageMove::Full => "the fast node has no free memory",
        PageMove::BelowWatermark => "the fast node would fall below its high watermark",
    }
}
