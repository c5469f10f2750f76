//! New address spaces.

use crate::cgroup::CgroupId;
use crate::memory::Memory;
use crate::mmu::{AddressSpace, PageTable, SpaceId, VmaList};
use std::collections::{BTreeMap, BTreeSet};

/// An empty address space whose pages `cgroup` pays for. `process` is program and process in it, as the machine numbers
/// them.
///
/// # Panics
/// After 65 535 spaces; see [`try_new_space`].
pub fn new_space(memory: &mut Memory, name: &str, process: (usize, usize), cgroup: CgroupId) -> SpaceId {
    try_new_space(memory, name, process, cgroup).expect("at most 65 535 address spaces in one run")
}

/// [`new_space`], or `None` when 65 535 spaces were made already.
pub fn try_new_space(memory: &mut Memory, name: &str, process: (usize, usize), cgroup: CgroupId) -> Option<SpaceId> {
    let id = u16::try_from(memory.spaces.len()).ok().filter(|&id| id < u16::MAX)?;
    memory.spaces.push(AddressSpace {
        name: name.to_owned(),
        process,
        cgroup,
        vmas: VmaList::default(),
        table: PageTable::of_kind(memory.mmu.table_kind()).with_classes(memory.nodes.classes().cloned()),
        family: Vec::new(),
        nr_resident: 0,
        nr_swapped: 0,
        is_bound: false,
        alive: true,
        open_files: BTreeMap::new(),
        swap_readahead: BTreeMap::new(),
        huge_blocks: BTreeSet::new(),
        used: 0,
        running_cpus: 0,
        shootdowns: 0,
    });
    Some(SpaceId(id))
}
