//! The memory of tests.

use crate::costs::Costs;
use crate::memory::watermarks::WatermarkConfig;
use crate::memory::{KernelRelease, MemoryConfig, MemorySetup, NodeSetup, TieringSetup};
use crate::swap::device::{DeviceKind, DeviceModel};
use isotherm_units::Pages;

/// Nodes of these numbers of frames, slow ones except the first; `slots` of swap on `swap`, files on NVMe, and the kernel's
/// defaults.
pub fn setup(nodes: &[u64], swap: DeviceKind, slots: u64) -> MemorySetup {
    let costs = Costs::default();
    let node = |(index, &frames)| match index {
        0 => NodeSetup::new(vec![Pages::new(frames)], 100),
        _ => NodeSetup::slow(vec![Pages::new(frames)], 250),
    };
    MemorySetup {
        nodes: nodes.iter().enumerate().map(node).collect(),
        tiering: TieringSetup::default(),
        watermarks: WatermarkConfig::default(),
        config: MemoryConfig {
            swappiness: 60,
            page_cluster: 3,
            readahead_pages: 32,
            hz: 250,
            release: KernelRelease::V7_2,
            lazy_statistics: false,
            lru_batches: false,
            file_system: None,
            sample_pages: 1,
        },
        costs,
        swap: (DeviceModel::preset(swap, &costs), Pages::new(slots)),
        storage: DeviceModel::preset(DeviceKind::Nvme, &costs),
    }
}

/// All of memory may be used.
pub(super) fn no_watermarks() -> WatermarkConfig {
    WatermarkConfig { scale_factor: 0, min_free_kib: Some(0), ..WatermarkConfig::default() }
}
