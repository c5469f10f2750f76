//! Fragmentation of zones, load of the machine, and compaction of a node by our own process.

use super::LiveHost;
use crate::counters::{buddyinfo, pagetypeinfo, pressure, vmstat, zoneinfo};
use crate::{LiveError, Root};
use isotherm_core::host::{
    CompactStep, Compacted, Compacting, CompactionSignals, Granularity, HostError, NodeId, ZoneId, ZoneState,
};
use isotherm_core::vocabulary::Marks;
use isotherm_texts::buddyinfo::ZoneBlocks;
use isotherm_texts::pagetypeinfo::PageTypes;
use std::time::{Duration, Instant};

/// Shortest time between two reads of migrate types: the kernel holds each zone's lock during the read.
const TYPES_KEPT: Duration = Duration::from_secs(10);

/// Free blocks by migrate type, if readable, and the time of reading.
pub(super) type Types = Option<(Instant, Option<PageTypes>)>;

impl Compacting for LiveHost {
    /// The kernel compacts a whole node, and has no target level.
    fn compaction_granularity(&self) -> Option<Granularity> {
        self.compactors.granularity(&self.root)
    }

    fn zones(&mut self, out: &mut Vec<ZoneState>) -> Result<(), HostError> {
        let types = match self.types.take() {
            Some((at, types)) if at.elapsed() < TYPES_KEPT => (at, types),
            _ => (Instant::now(), types(&self.root).map_err(failed)?),
        };
        let (_, types) = self.types.insert(types);
        out.extend(zones(&self.root, types.as_ref()).map_err(failed)?);
        Ok(())
    }

    /// Our own process writes to the node's file; this call only checks its progress, and ends it at the mark. The kernel's way is always
    /// [`CompactMode::Sync`](isotherm_core::host::CompactMode::Sync), `max_scanned` is ignored, and the time that tasks waited is unknown.
    /// Moved and scanned pages are counted over the whole machine while the call runs.
    fn compact(&mut self, step: &CompactStep) -> Result<Compacted, HostError> {
        const NEEDS: &str = "needs /sys/devices/system/node/nodeN/compact, and a program that writes to it";
        if self.compaction_granularity().is_none() {
            return Err(HostError::NotHere(NEEDS));
        }
        self.compactors.step(&self.root, step).map_err(|error| match error {
            error if error.is_missing() => HostError::NotHere(NEEDS),
            error => HostError::Failed(error.to_string()),
        })
    }

    fn cease(&mut self, node: NodeId) {
        self.compactors.cease(node);
    }

    /// `has_reclaimed` is always false: no file reports it for a node.
    fn compaction_signals(&mut self, node: NodeId) -> Result<CompactionSignals, HostError> {
        signals(&self.root, node).map_err(failed)
    }
}

fn failed(error: LiveError) -> HostError {
    match error {
        error if error.is_missing() => HostError::NotHere("needs /proc/buddyinfo, /proc/zoneinfo and /proc/vmstat"),
        error => HostError::Failed(error.to_string()),
    }
}

/// The zones that have memory, without free blocks by migrate type, for frequent readers.
///
/// # Errors
/// [`LiveError::Io`], [`LiveError::Strange`].
pub fn free_zones(root: &Root) -> Result<Vec<ZoneState>, LiveError> {
    zones(root, None)
}

/// Only root can read migrate types.
fn types(root: &Root) -> Result<Option<PageTypes>, LiveError> {
    match pagetypeinfo::read(root) {
        Err(error) if error.is_missing() || error.is_denied() => Ok(None),
        read => read.map(Some),
    }
}

/// The zones that have memory, by node, then by ascending address.
///
/// # Errors
/// [`LiveError::Io`], [`LiveError::Strange`].
fn zones(root: &Root, types: Option<&PageTypes>) -> Result<Vec<ZoneState>, LiveError> {
    let info = zoneinfo::read(root)?;
    let free = buddyinfo::read(root)?;
    let mut states: Vec<ZoneState> = Vec::new();
    for zone in info.zones.iter().filter(|zone| zone.present > 0) {
        let is_it = |row: &&ZoneBlocks| row.node == zone.node && row.zone == zone.name;
        let Some(row) = free.iter().find(is_it) else { continue };
        let before = states.iter().filter(|state| state.id.node == zone.node).count();
        let movable = types.and_then(|types| types.movable(zone.node, &zone.name));
        states.push(ZoneState {
            id: ZoneId { node: zone.node, zone: u8::try_from(before).unwrap_or(u8::MAX) },
            blocks: row.blocks,
            present: zone.present,
            marks: Marks { min: zone.min, low: zone.low, high: zone.high },
            // Types are older than counts, so for a moment one type can have more free pages than the whole zone.
            movable: movable.filter(|movable| movable.pages() <= row.blocks.pages()),
            exact_yield: None,
        });
    }
    states.sort_by_key(|state| state.id);
    Ok(states)
}

fn signals(root: &Root, node: NodeId) -> Result<CompactionSignals, LiveError> {
    let events = vmstat::read(root)?;
    let cpu_pressure_bp = match pressure::of_system(root, pressure::Resource::Cpu) {
        Ok(pressure) => pressure.some.avg10_bp,
        Err(LiveError::NotHere { .. }) => 0,
        Err(error) => return Err(error),
    };
    Ok(CompactionSignals {
        is_reclaiming: is_kswapd_working(root, node),
        has_reclaimed: false,
        huge_wanted: events.sum(&["thp_fault_alloc", "thp_fault_fallback"]).unwrap_or(0),
        cpu_pressure_bp,
    })
}

/// Whether the thread `kswapdN` runs or waits for a device. Found by its name: kernel threads have low PIDs, but not fixed ones.
pub(super) fn is_kswapd_working(root: &Root, node: NodeId) -> bool {
    let Ok(entries) = std::fs::read_dir(root.path("/proc")) else { return false };
    let named = format!("({})", format_args!("kswapd{}", node.0));
    let stats = entries.flatten().filter_map(|entry| {
        let pid: u32 = entry.file_name().to_str()?.parse().ok()?;
        root.read(format!("/proc/{pid}/stat")).ok()
    });
    // `PID (name) state parent …`; kernel threads are children of 2, so no other process can use this name.
    let is_it = |stat: &str| {
        let (_, rest) = stat.split_once(' ')?;
        let mut words = rest.strip_prefix(named.as_str())?.split_whitespace();
        let (state, parent) = (words.next()?, words.next()?);
        (parent == "2").then_some(matches!(state, "R" | "D"))
    };
    stats.filter_map(|stat| is_it(&stat)).next().unwrap_or(false)
}
