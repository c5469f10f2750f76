//! Builds the memory from the description of a machine.

use super::MachineConfig;
use isotherm_kernel::costs::Costs;
use isotherm_kernel::memory::watermarks::WatermarkConfig;
use isotherm_kernel::memory::{MemoryConfig, MemorySetup};
use isotherm_kernel::swap::DeviceConfig;
use isotherm_kernel::swap::device::{DeviceKind, DeviceModel, ZramModel};

impl MachineConfig {
    /// The description of this machine's memory. One zone per node.
    pub(super) fn memory_setup(&self) -> MemorySetup {
        let pages = u64::from(self.sample);
        let costs = Costs::default().priced(&self.prices).of_sample(pages);
        let swap = match self.swap.device {
            DeviceConfig::Kind(DeviceKind::Zram) => {
                let ratio_permille = self.swap.compression_ratio.map(|ratio| ratio.ppm() / 1000);
                DeviceModel::Zram(ZramModel::new(self.swap.compressor, ratio_permille, &costs))
            }
            device => device.model(&costs),
        };
        MemorySetup {
            nodes: super::nodes::node_setups(&self.nodes, self.tiering),
            tiering: super::nodes::tiering_setup(&self.distances, self.tiering),
            watermarks: WatermarkConfig {
                scale_factor: u64::from(self.watermark_scale_factor),
                min_free_kib: self.min_free.map(|min| min.get() >> 10),
                huge_pages: self.transparent_hugepages,
                ..WatermarkConfig::default()
            },
            config: MemoryConfig {
                swappiness: self.swappiness,
                page_cluster: self.page_cluster,
                readahead_pages: self.readahead.pages_floor().get(),
                hz: u64::from(self.hz),
                release: self.kernel,
                lazy_statistics: self.lazy_statistics,
                lru_batches: self.lru_batches,
                file_system: self.file_system,
                sample_pages: pages,
            },
            costs,
            swap: (swap.with_latency(self.device_latency).of_sample(pages), self.swap_size().pages_floor()),
            storage: self.storage.model(&costs).with_latency(self.device_latency).of_sample(pages),
        }
    }
}
