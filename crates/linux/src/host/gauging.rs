//! Gauges: pressure, memory of nodes, sizes of lists, and memory of cgroups.

use super::LiveHost;
use crate::cgroup::{Group, Hierarchy};
use crate::counters::{meminfo, memory_stat, nodes, pressure, vmstat};
use crate::{LiveError, Root};
use isotherm_core::host::{Gauge, GaugeCapabilities, Gauging, HostError, Metric, NodeId, TargetId};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};

impl Gauging for LiveHost {
    fn gauge_capabilities(&self, _target: TargetId) -> GaugeCapabilities {
        let mut metrics = Vec::new();
        if pressure::of_system(&self.root, pressure::Resource::Memory).is_ok() {
            metrics.push(Metric::SomeMemPsiUs);
        }
        let free_mem_rate = meminfo::read(&self.root).is_ok();
        if free_mem_rate {
            metrics.extend([Metric::NodeMemUsedBp, Metric::NodeMemFreeBp]);
        }
        if vmstat::read(&self.root).is_ok_and(|events| events.get("nr_active_anon").is_some()) {
            metrics.extend([Metric::ActiveMemBp, Metric::InactiveMemBp]);
        }
        if Hierarchy::find(&self.root).is_ok() {
            metrics.extend([Metric::NodeMemcgUsedBp, Metric::NodeMemcgFreeBp]);
        }
        GaugeCapabilities { metrics, free_mem_rate }
    }

    fn gauges(&mut self, gauges: &[Gauge], values: &mut [Option<u64>]) -> Result<(), HostError> {
        for (gauge, value) in gauges.iter().zip(values) {
            *value = read(&self.root, &self.groups, gauge).map_err(|error| match error {
                LiveError::NotHere { .. } => HostError::NotHere(NOT_HERE),
                error if error.is_missing() => HostError::NotHere(NOT_HERE),
                error => HostError::Failed(error.to_string()),
            })?;
        }
        Ok(())
    }

    fn memcg(&self, path: &str) -> Option<u64> {
        let group = Hierarchy::find(&self.root).ok()?.group(path).ok()?;
        Some(self.groups.keep(group))
    }
}

/// Groups that were asked for by path, by inode number. Looking for a number takes a walk over the whole tree, in which every user may
/// make groups.
#[derive(Debug, Default)]
pub(super) struct KnownGroups(Mutex<BTreeMap<u64, Group>>);

/// Most groups that are kept, and so the most that one daemon reads gauges of without walks.
const KNOWN_MAX: usize = 1 << 16;

impl KnownGroups {
    /// Keeps it, and returns its number.
    fn keep(&self, group: Group) -> u64 {
        let (number, mut known) = (group.number(), self.known());
        if known.len() >= KNOWN_MAX && !known.contains_key(&number) {
            known.retain(|_, group| group.is_there());
        }
        if known.len() < KNOWN_MAX {
            known.insert(number, group);
        }
        number
    }

    /// The group with this number; `None` if it was removed.
    fn numbered(&self, root: &Root, number: u64) -> Result<Option<Group>, LiveError> {
        let known = self.known().get(&number).cloned();
        match known {
            Some(group) if group.is_there() => Ok(Some(group)),
            Some(_) => {
                self.known().remove(&number);
                Ok(None)
            }
            None => {
                let found = Hierarchy::find(root)?.numbered(number);
                if let Some(group) = &found {
                    self.keep(group.clone());
                }
                Ok(found)
            }
        }
    }

    fn known(&self) -> MutexGuard<'_, BTreeMap<u64, Group>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

const NOT_HERE: &str = "this machine does not tell one of these numbers: PSI needs `psi=1`, groups need cgroup v2 with the memory controller";

/// Value of a gauge; `None` for a missing node or group.
fn read(root: &Root, groups: &KnownGroups, gauge: &Gauge) -> Result<Option<u64>, LiveError> {
    let lists =
        |names: &[&str]| Ok(vmstat::read(root)?.sum(names).map(|pages| pages.saturating_mul(crate::sys::page_bytes())));
    match *gauge {
        Gauge::StallSomeUs => Ok(Some(pressure::of_system(root, pressure::Resource::Memory)?.some.total_us)),
        Gauge::TotalBytes(node) => memory(root, node, "MemTotal"),
        Gauge::FreeBytes(node) => memory(root, node, "MemFree"),
        Gauge::ActiveBytes => lists(&["nr_active_anon", "nr_active_file"]),
        Gauge::InactiveBytes => lists(&["nr_inactive_anon", "nr_inactive_file"]),
        Gauge::MemcgBytes { node, memcg } => {
            let Some(folder) = folder_of(root, groups, memcg)? else { return Ok(None) };
            let kinds = memory_stat::read_by_node(root, &folder)?;
            let lists = ["inactive_anon", "active_anon", "inactive_file", "active_file", "unevictable"];
            let of_node = kinds.iter().filter(|(kind, _)| lists.contains(&kind.as_str())).flat_map(|(_, nodes)| nodes);
            let bytes = of_node.filter(|(number, _)| *number == node.0).map(|&(_, bytes)| bytes);
            Ok(bytes.reduce(u64::saturating_add))
        }
        Gauge::RefaultBytes { memcg } => {
            let Some(folder) = folder_of(root, groups, memcg)? else { return Ok(None) };
            let refaults = ["workingset_refault_anon", "workingset_refault_file"];
            let pages = memory_stat::read(root, &folder)?.sum(&refaults);
            Ok(pages.map(|pages| pages.saturating_mul(crate::sys::page_bytes())))
        }
        Gauge::GroupBytes { memcg } => {
            let Some(group) = groups.numbered(root, memcg)? else { return Ok(None) };
            group.current().map(|bytes| Some(bytes.get()))
        }
        Gauge::GroupStallSomeUs { memcg } => {
            let Some(folder) = folder_of(root, groups, memcg)? else { return Ok(None) };
            Ok(Some(pressure::of_group(root, &folder, pressure::Resource::Memory)?.some.total_us))
        }
        Gauge::GroupHighEvents { memcg } => {
            let Some(folder) = folder_of(root, groups, memcg)? else { return Ok(None) };
            Ok(memory_stat::read_events(root, &folder)?.get("high"))
        }
    }
}

fn memory(root: &Root, node: Option<NodeId>, name: &str) -> Result<Option<u64>, LiveError> {
    let Some(node) = node else { return Ok(meminfo::read(root)?.get(name)) };
    let nodes = nodes::read(root)?;
    Ok(nodes.iter().find(|other| other.id == node).and_then(|node| node.memory.get(name)))
}

/// The folder of the group with this inode number, below the root.
fn folder_of(root: &Root, groups: &KnownGroups, memcg: u64) -> Result<Option<PathBuf>, LiveError> {
    Ok(groups.numbered(root, memcg)?.map(|group| group.folder().to_owned()))
}
