//! How fragmented zones are and how busy the machine is. It only reads: nothing is compacted yet.

use super::LiveHost;
use crate::counters::{buddyinfo, pagetypeinfo, pressure, vmstat, zoneinfo};
use crate::{LiveError, Root};
use isotherm_core::host::{Compacting, CompactionSignals, HostError, NodeId, ZoneId, ZoneState};
use isotherm_core::vocabulary::Marks;

impl Compacting for LiveHost {
    fn zones(&mut self, out: &mut Vec<ZoneState>) -> Result<(), HostError> {
        out.extend(zones(&self.root).map_err(failed)?);
        Ok(())
    }

    /// `has_reclaimed` is always false: no file says it of a node.
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

/// The zones that have memory, by node, then from low addresses to high. Migrate types are known to root only.
///
/// # Errors
/// [`LiveError::Io`], [`LiveError::Strange`].
fn zones(root: &Root) -> Result<Vec<ZoneState>, LiveError> {
    let info = zoneinfo::read(root)?;
    let free = buddyinfo::read(root)?;
    let types = match pagetypeinfo::read(root) {
        Ok(types) => types,
        Err(error) if error.is_missing() || error.is_denied() => pagetypeinfo::PageTypes::default(),
        Err(error) => return Err(error),
    };
    let mut states: Vec<ZoneState> = Vec::new();
    for zone in info.zones.iter().filter(|zone| zone.present > 0) {
        let is_it = |row: &&buddyinfo::ZoneBlocks| row.node == zone.node && row.zone == zone.name;
        let Some(row) = free.iter().find(is_it) else { continue };
        let before = states.iter().filter(|state| state.id.node == zone.node).count();
        states.push(ZoneState {
            id: ZoneId { node: zone.node, zone: u8::try_from(before).unwrap_or(u8::MAX) },
            blocks: row.blocks,
            present: zone.present,
            marks: Marks { min: zone.min, low: zone.low, high: zone.high },
            movable: types.movable(zone.node, &zone.name),
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

/// Whether the thread `kswapdN` runs or waits for a device. Found by its name: kernel threads have low numbers, but not fixed ones.
fn is_kswapd_working(root: &Root, node: NodeId) -> bool {
    let Ok(entries) = std::fs::read_dir(root.path("/proc")) else { return false };
    let named = format!("({})", format_args!("kswapd{}", node.0));
    let stats = entries.flatten().filter_map(|entry| {
        let pid: u32 = entry.file_name().to_str()?.parse().ok()?;
        root.read(format!("/proc/{pid}/stat")).ok()
    });
    // `PID (name) state parent …`; kernel threads are children of 2, so no process can take this name for its own.
    let is_it = |stat: &str| {
        let (_, rest) = stat.split_once(' ')?;
        let mut words = rest.strip_prefix(named.as_str())?.split_whitespace();
        let (state, parent) = (words.next()?, words.next()?);
        (parent == "2").then_some(matches!(state, "R" | "D"))
    };
    stats.filter_map(|stat| is_it(&stat)).next().unwrap_or(false)
}
