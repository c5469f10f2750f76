//! Pages of files that other processes have read before a program begins.

use super::window::put_file_page;
use crate::cgroup::CgroupId;
use crate::memory::{CachePage, FileId, Mark, Memory, NodeId};
use crate::reclaim::{Arrival, ReclaimPolicy};

/// Puts the pages of `file` that are not in memory there, the first `pages` of them, paid by `cgroup`, without I/O and without cost. Ends
/// where no frame of `node` above the low watermark is free; returns the number of pages put.
pub fn cache_file(
    memory: &mut Memory,
    policy: &mut dyn ReclaimPolicy,
    (file, pages): (FileId, u64),
    cgroup: CgroupId,
    node: NodeId,
) -> u64 {
    let mut put = 0;
    for page in 0..pages {
        if matches!(memory.files.get(file).page(page), CachePage::Frame(_) | CachePage::Swap(_)) {
            continue;
        }
        let Some(frame) = memory.nodes.take(&mut memory.frames, node, Mark::Low) else { break };
        memory.cgroups.charge_exactly(cgroup, 1);
        put_file_page(memory, policy, frame, (file, page), cgroup, Arrival::FileRead);
        put += 1;
    }
    put
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::counters::Counter;
    use crate::reclaim::POLICIES;
    use crate::swap::device::DeviceKind;
    use crate::testkit::Testbed;

    #[test]
    fn who_maps_a_file_that_others_have_read_pays_nothing_for_it() {
        for entry in POLICIES.iter().filter(|entry| !entry.build().needs_future()) {
            let mut bed = Testbed::new(entry.build(), 64, DeviceKind::Zram, 64);
            let group = bed.group(CgroupId::ROOT, "g");
            let file = bed.file("code", 20);
            let space = bed.space(group, 1);
            bed.map_open_file(space, 100, file, 20, true);
            let put = cache_file(&mut bed.memory, bed.policy.as_mut(), (file, 20), CgroupId::ROOT, NodeId(0));
            let again = cache_file(&mut bed.memory, bed.policy.as_mut(), (file, 20), CgroupId::ROOT, NodeId(0));
            assert_eq!((put, again), (20, 0), "{}", entry.name);
            (100..120).for_each(|page| _ = bed.read(space, page));
            let usage = |id: CgroupId| bed.memory.cgroups.get(id).usage;
            assert_eq!((usage(group), usage(CgroupId::ROOT)), (0, 20), "{}", entry.name);
            assert_eq!(bed.count(Counter::PgMajFault), 0, "{}", entry.name);
            bed.check();
        }
    }

    #[test]
    fn it_ends_where_memory_ends() {
        let mut bed = Testbed::new(POLICIES[0].build(), 16, DeviceKind::Zram, 16);
        let file = bed.file("large", 40);
        let put = cache_file(&mut bed.memory, bed.policy.as_mut(), (file, 40), CgroupId::ROOT, NodeId(0));
        assert!((1..=16).contains(&put), "{put}");
    }
}
