//! Compaction, recorded on a tape. Values that no live host reports (blocks, waits) are not
//! recorded.

use super::taped::{Refused, Taped};
use isotherm_core::compaction::FreeBlocks;
use isotherm_core::host::{
    CompactEnd, CompactStep, Compacted, Compacting, CompactionSignals, Granularity, HostError, NodeId, ZoneId,
    ZoneState,
};
use isotherm_core::vocabulary::Marks;
use isotherm_units::Duration;
use serde::{Deserialize, Serialize};

/// A zone, in the tape's format.
#[derive(Debug, Serialize, Deserialize)]
struct Zone {
    node: u32,
    zone: u8,
    blocks: Vec<u64>,
    present: u64,
    marks: [u64; 3],
    movable: Option<Vec<u64>>,
    exact_yield: Option<u64>,
}

impl Zone {
    fn of(zone: &ZoneState) -> Self {
        Self {
            node: zone.id.node.0,
            zone: zone.id.zone,
            blocks: zone.blocks.counts().to_vec(),
            present: zone.present,
            marks: [zone.marks.min, zone.marks.low, zone.marks.high],
            movable: zone.movable.map(|blocks| blocks.counts().to_vec()),
            exact_yield: zone.exact_yield,
        }
    }

    fn state(self) -> Result<ZoneState, Refused> {
        let blocks =
            |counts: &[u64]| FreeBlocks::new(counts).map_err(|error| Refused::of(HostError::Failed(error.to_string())));
        let [min, low, high] = self.marks;
        Ok(ZoneState {
            id: ZoneId { node: NodeId(self.node), zone: self.zone },
            blocks: blocks(&self.blocks)?,
            present: self.present,
            marks: Marks { min, low, high },
            movable: self.movable.as_deref().map(blocks).transpose()?,
            exact_yield: self.exact_yield,
        })
    }
}

/// Ends of a compaction, by their numbers on the tape.
const ENDS: [CompactEnd; 5] = [
    CompactEnd::Reached,
    CompactEnd::ScannersMet,
    CompactEnd::NoTargets,
    CompactEnd::Reclaiming,
    CompactEnd::Contended,
];
const GRANULARITIES: [Granularity; 3] = [Granularity::System, Granularity::Node, Granularity::Zone];

/// End, pages moved, pages scanned by each scanner, blocks freed, CPU time in nanoseconds.
type Done = (Option<usize>, [u64; 5]);

fn done(work: &Compacted) -> Done {
    let end = work.end.and_then(|end| ENDS.iter().position(|known| *known == end));
    let counts = [work.pages_moved, work.scanned_migrate, work.scanned_free, work.blocks_freed, work.cpu.ns()];
    (end, counts)
}

impl<H: Compacting> Compacting for Taped<'_, H> {
    fn compaction_granularity(&self) -> Option<Granularity> {
        let told = || {
            let granularity = self.inner.compaction_granularity()?;
            GRANULARITIES.iter().position(|known| *known == granularity)
        };
        let told: Option<usize> = self.tape.call("compaction-granularity", (), told, || None);
        told.and_then(|nth| GRANULARITIES.get(nth).copied())
    }

    fn zones(&mut self, out: &mut Vec<ZoneState>) -> Result<(), HostError> {
        let read = || {
            let mut zones = Vec::new();
            self.inner.zones(&mut zones).map_err(Refused::of)?;
            Ok(zones.iter().map(Zone::of).collect())
        };
        let zones: Result<Vec<Zone>, Refused> = self.tape.call("zones", (), read, Refused::over);
        let states = zones.and_then(|zones| zones.into_iter().map(Zone::state).collect::<Result<Vec<_>, _>>());
        out.extend(states.map_err(|error| error.error(&self.tape))?);
        Ok(())
    }

    fn compaction_signals(&mut self, node: NodeId) -> Result<CompactionSignals, HostError> {
        let read = || {
            let CompactionSignals { is_reclaiming, has_reclaimed, huge_wanted, cpu_pressure_bp } =
                self.inner.compaction_signals(node).map_err(Refused::of)?;
            Ok((is_reclaiming, has_reclaimed, huge_wanted, cpu_pressure_bp))
        };
        let told: Result<(bool, bool, u64, u32), Refused> =
            self.tape.call("compaction-signals", node.0, read, Refused::over);
        let (is_reclaiming, has_reclaimed, huge_wanted, cpu_pressure_bp) =
            told.map_err(|error| error.error(&self.tape))?;
        Ok(CompactionSignals { is_reclaiming, has_reclaimed, huge_wanted, cpu_pressure_bp })
    }

    fn compact(&mut self, step: &CompactStep) -> Result<Compacted, HostError> {
        let asked = format!("{step:?}");
        let work = || self.inner.compact(step).map(|work| done(&work)).map_err(Refused::of);
        let told: Result<Done, Refused> = self.tape.call("compact", asked, work, Refused::over);
        let (end, [pages_moved, scanned_migrate, scanned_free, blocks_freed, cpu]) =
            told.map_err(|error| error.error(&self.tape))?;
        Ok(Compacted {
            end: end.and_then(|nth| ENDS.get(nth).copied()),
            pages_moved,
            scanned_migrate,
            scanned_free,
            blocks_freed,
            cpu: Duration::from_ns(cpu),
            ..Compacted::default()
        })
    }

    fn cease(&mut self, node: NodeId) {
        let () = self.tape.call("cease", node.0, || self.inner.cease(node), || ());
    }
}
