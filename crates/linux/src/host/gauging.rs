//! Gauges: pressure, memory of nodes, sizes of lists, and what cgroups use.

use super::LiveHost;
use crate::counters::{meminfo, memory_stat, nodes, pressure, vmstat};
use crate::{LiveError, Root};
use isotherm_core::host::{Gauge, GaugeCapabilities, Gauging, HostError, Metric, NodeId, TargetId};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

/// Where cgroup v2 is mounted: alone, and next to version 1.
const MOUNTS: [&str; 2] = ["/sys/fs/cgroup", "/sys/fs/cgroup/unified"];

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
        if groups(&self.root).is_some() {
            metrics.extend([Metric::NodeMemcgUsedBp, Metric::NodeMemcgFreeBp]);
        }
        GaugeCapabilities { metrics, free_mem_rate }
    }

    fn gauges(&mut self, gauges: &[Gauge], values: &mut [Option<u64>]) -> Result<(), HostError> {
        for (gauge, value) in gauges.iter().zip(values) {
            *value = read(&self.root, gauge).map_err(|error| match error {
                LiveError::NotHere { .. } => HostError::NotHere(NOT_HERE),
                error if error.is_missing() => HostError::NotHere(NOT_HERE),
                error => HostError::Failed(error.to_string()),
            })?;
        }
        Ok(())
    }

    fn memcg(&self, path: &str) -> Option<u64> {
        let path = Path::new(path.trim_start_matches('/'));
        // A path must not lead out of the hierarchy.
        let is_plain = path.components().all(|part| matches!(part, std::path::Component::Normal(_)));
        let folder = self.root.path(groups(&self.root)?).join(path);
        is_plain
            .then(|| std::fs::metadata(folder).ok())
            .flatten()
            .filter(std::fs::Metadata::is_dir)
            .map(|data| data.ino())
    }
}

const NOT_HERE: &str = "this machine does not tell one of these numbers: PSI needs `psi=1`, groups need cgroup v2 with the memory controller";

/// Where cgroup v2 with the memory controller is, from the root on.
fn groups(root: &Root) -> Option<&'static str> {
    MOUNTS.into_iter().find(|mount| {
        let controllers = root.read(format!("{mount}/cgroup.controllers"));
        controllers.is_ok_and(|text| text.split_whitespace().any(|name| name == "memory"))
    })
}

/// One number; `None` for a node or a group that is not there.
fn read(root: &Root, gauge: &Gauge) -> Result<Option<u64>, LiveError> {
    let lists =
        |names: &[&str]| Ok(vmstat::read(root)?.sum(names).map(|pages| pages.saturating_mul(crate::sys::page_bytes())));
    match *gauge {
        Gauge::StallSomeUs => Ok(Some(pressure::of_system(root, pressure::Resource::Memory)?.some.total_us)),
        Gauge::TotalBytes(node) => memory(root, node, "MemTotal"),
        Gauge::FreeBytes(node) => memory(root, node, "MemFree"),
        Gauge::ActiveBytes => lists(&["nr_active_anon", "nr_active_file"]),
        Gauge::InactiveBytes => lists(&["nr_inactive_anon", "nr_inactive_file"]),
        Gauge::MemcgBytes { node, memcg } => {
            let Some(folder) = folder_of(root, memcg)? else { return Ok(None) };
            let kinds = memory_stat::read_by_node(root, &folder)?;
            let lists = ["inactive_anon", "active_anon", "inactive_file", "active_file", "unevictable"];
            let of_node = kinds.iter().filter(|(kind, _)| lists.contains(&kind.as_str())).flat_map(|(_, nodes)| nodes);
            let bytes = of_node.filter(|(number, _)| *number == node.0).map(|&(_, bytes)| bytes);
            Ok(bytes.reduce(u64::saturating_add))
        }
        Gauge::RefaultBytes { memcg } => {
            let Some(folder) = folder_of(root, memcg)? else { return Ok(None) };
            let refaults = ["workingset_refault_anon", "workingset_refault_file"];
            let pages = memory_stat::read(root, &folder)?.sum(&refaults);
            Ok(pages.map(|pages| pages.saturating_mul(crate::sys::page_bytes())))
        }
    }
}

fn memory(root: &Root, node: Option<NodeId>, name: &str) -> Result<Option<u64>, LiveError> {
    let Some(node) = node else { return Ok(meminfo::read(root)?.get(name)) };
    let nodes = nodes::read(root)?;
    Ok(nodes.iter().find(|other| other.id == node).and_then(|node| node.memory.get(name)))
}

/// The folder of the group with this inode number, from the root on. The tree is gone through: numbers cannot be looked up.
fn folder_of(root: &Root, memcg: u64) -> Result<Option<PathBuf>, LiveError> {
    const GROUPS_MAX: usize = 1 << 16;
    let Some(mount) = groups(root) else {
        return Err(LiveError::NotHere { what: "memory of a cgroup", needs: NOT_HERE.to_owned() });
    };
    let mut open = vec![PathBuf::from(mount)];
    for _ in 0..GROUPS_MAX {
        let Some(folder) = open.pop() else { break };
        // A group may go while others are looked at.
        let Ok(data) = std::fs::metadata(root.path(&folder)) else { continue };
        if data.ino() == memcg {
            return Ok(Some(folder));
        }
        let Ok(entries) = std::fs::read_dir(root.path(&folder)) else { continue };
        let folders = entries.flatten().filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
        open.extend(folders.map(|entry| folder.join(entry.file_name())));
    }
    Ok(None)
}
