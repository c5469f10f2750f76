//! Shared parts of benches of memories: memory and a policy with one process, and a line of results.
//!
//! Tests have a kit for it (`testkit` of `isotherm-kernel`), which needs private items; benches use the public ones.

#![expect(clippy::print_stdout, reason = "a benchmark's output")]

use isotherm_kernel::cgroup::CgroupId;
use isotherm_kernel::costs::Costs;
use isotherm_kernel::fault;
use isotherm_kernel::memory::watermarks::WatermarkConfig;
use isotherm_kernel::memory::{KernelRelease, Memory, MemoryConfig, MemorySetup, NodeSetup, TieringSetup};
use isotherm_kernel::mmu::SpaceId;
use isotherm_kernel::reclaim::ReclaimPolicy;
use isotherm_kernel::swap::device::{DeviceKind, DeviceModel};
use isotherm_units::access::Mapping;
use isotherm_units::{PageRange, Pages};

/// Nodes without swap and readahead, with files on NVMe.
pub(crate) fn memory_setup(nodes: Vec<NodeSetup>) -> MemorySetup {
    let costs = Costs::default();
    MemorySetup {
        nodes,
        tiering: TieringSetup::default(),
        watermarks: WatermarkConfig::default(),
        config: MemoryConfig {
            swappiness: 60,
            page_cluster: 0,
            readahead_pages: 0,
            hz: 250,
            release: KernelRelease::V7_2,
            lazy_statistics: false,
            lru_batches: false,
            file_system: None,
            sample_pages: 1,
        },
        costs,
        swap: (DeviceModel::preset(DeviceKind::None, &costs), Pages::new(0)),
        storage: DeviceModel::preset(DeviceKind::Nvme, &costs),
    }
}

/// Memory whose root group `policy` knows, and a process with one anonymous mapping of `pages` from page 0 on.
pub(crate) fn assemble(setup: &MemorySetup, policy: &mut dyn ReclaimPolicy, pages: u64) -> (Memory, SpaceId) {
    let mut memory = Memory::assemble(setup).expect("preset devices");
    for node in memory.nodes.ids() {
        memory.nonresident_age.push(0);
        policy.add_lruvec(memory.lruvec(CgroupId::ROOT, node));
    }
    let space = fault::new_space(&mut memory, "bench", (0, 0), CgroupId::ROOT);
    fault::map(&mut memory, policy, space, Mapping::anonymous(PageRange::new(0, pages))).expect("it fits");
    (memory, space)
}

/// Prints a line: `name, unit, bar, value, pass`. A value passes up to its bar, and without one.
pub(crate) fn report(name: &str, unit: &str, bar: Option<f64>, value: f64) {
    let pass = bar.is_none_or(|bar| value <= bar);
    let bar = bar.map_or("null".to_owned(), |bar| bar.to_string());
    println!(r#"{{"name": "{name}", "unit": "{unit}", "bar": {bar}, "value": {value:.3}, "pass": {pass}}}"#);
}
