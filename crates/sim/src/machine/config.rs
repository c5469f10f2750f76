//! Configuration of the simulated machine: hardware and tunables, as written in a scenario's `[machine]` table.

use super::nodes::{self, NodeConfig, TieringConfig};
use isotherm_kernel::compaction::CompactionConfig;
use isotherm_kernel::memory::{FileSystem, KernelRelease};
use isotherm_kernel::mmu::MmuConfig;
use isotherm_kernel::prices::Prices;
use isotherm_kernel::reclaim::{MglruConfig, PolicySettings};
use isotherm_kernel::swap::DeviceConfig;
use isotherm_kernel::swap::device::{Compressor, DeviceKind};
use isotherm_kernel::tick::TickRate;
use isotherm_units::{Bytes, Duration, Ratio};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;

/// A machine. Every key may be left out; unknown keys are refused.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "kebab-case", deny_unknown_fields)]
pub struct MachineConfig {
    /// The release of Linux whose rules hold: `6.12` or `7.2`. Default 7.2.
    #[serde(skip_serializing_if = "KernelRelease::is_default")]
    pub kernel: KernelRelease,
    /// Whether counters of groups, by which the two lists are balanced, are added up every 2 s only and when a program reads them, as
    /// Linux does since 6.8. Default: at once.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub lazy_statistics: bool,
    /// Whether new pages wait in a batch of 31 before they are put on their lists, until it is full or a list is scanned, as in Linux; policy
    /// `classic`, one batch for all processors. Default: they are put there at once.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub lru_batches: bool,
    /// Whether code that a recording names epoch after epoch is used in between as well, whenever its thread reclaims: a processor fetches
    /// code at every moment. Default: used when it is named.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub code_in_use: bool,
    /// Whether files of programs are in memory when these are added, read by others and paid by no group of theirs, as far as there is
    /// room: as after a restart. Default: programs read them, and their groups pay.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub warm_files: bool,
    /// Prices of one host in nanoseconds, by the names of the table of costs with hyphens, as `isotherm calibrate` measures them. Default: the table's.
    #[serde(skip_serializing_if = "Prices::is_empty", serialize_with = "Prices::serialize_as_keys")]
    pub prices: Prices,
    /// Pages that each page counts for, 1 to 1024, if workloads are a sample of their memory (`isotherm convert sample`): costs of a page
    /// are multiplied by this number, and devices are slower by it. Default 1.
    #[serde(skip_serializing_if = "is_one")]
    pub sample: u32,
    /// Processors, 1..=256. Default 2.
    pub cpus: u32,
    /// NUMA nodes. Default: one of 16 GiB.
    pub nodes: Vec<NodeConfig>,
    /// Distance from each node (a row) to each, as in `nodeN/distance`: 10 to itself. Default: 20 to all others.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub distances: Vec<Vec<u8>>,
    /// How pages go between fast and slow nodes.
    #[serde(skip_serializing_if = "TieringConfig::is_default")]
    pub tiering: TieringConfig,
    /// Where anonymous pages go.
    pub swap: SwapConfig,
    /// The disk under files: `ram`, `nvme`, `ssd`, `disk`, or numbers. Default `nvme`.
    pub storage: DeviceConfig,
    /// The file system under files, `ext4` or `xfs`: the page cache holds folios of up to 2 MiB where that file system has them in the
    /// release (docs/spec/large-folios.md#f1); policies `classic` and `mglru`, one node, no sample. Default: single pages.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file_system: Option<FileSystem>,
    /// Latencies of storage and swap as a share of their models', 1 % to 10000 %. Devices that are memory have none. Default 100 %.
    #[serde(skip_serializing_if = "is_whole")]
    pub device_latency: Ratio,
    /// How readily anonymous pages are swapped rather than file pages dropped, 0..=200. Default 60.
    pub swappiness: u32,
    /// Swap readahead reads 2^this pages, 0..=5; 0 turns it off. Default 3.
    pub page_cluster: u32,
    /// Largest file readahead window, up to 16 MiB; 0 turns it off. Default 128 KiB.
    pub readahead: Bytes,
    /// Distance between watermarks in 1/10 000 of memory, 1..=3000. Default 10.
    pub watermark_scale_factor: u32,
    /// Overrides the computed `min_free_kbytes`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_free: Option<Bytes>,
    /// Whether transparent huge pages are on: raises the minimum of free memory.
    pub transparent_hugepages: bool,
    /// Page tables: levels, accessed bits above the leaf, translation caches.
    #[serde(skip_serializing_if = "MmuConfig::is_default")]
    pub mmu: MmuConfig,
    /// The Multi-Gen LRU, where that is the policy: which of its parts are there, `min_ttl`.
    #[serde(skip_serializing_if = "MglruConfig::is_default")]
    pub mglru: MglruConfig,
    /// Huge pages that have to be made.
    #[serde(skip_serializing_if = "CompactionConfig::is_default")]
    pub compaction: CompactionConfig,
    /// Ticks a second of the simulated kernel: 100, 250, 300 or 1000. Default 250.
    pub hz: u32,
    /// Longest time a thread runs while others wait for its CPU. Default 3 ms.
    pub time_slice: Duration,
    /// Shortest stretch that a thread runs before it sees the effects of other processors. Longer plays faster where many processors are
    /// busy, and is coarser: above the default, pages that are on their way to another frame for less than a step are not waited for.
    /// Default 50 us.
    #[serde(skip_serializing_if = "is_default_step")]
    pub step: Duration,
}

/// The swap device.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "kebab-case", deny_unknown_fields)]
pub struct SwapConfig {
    /// Kind of the device, or its numbers. Default `zram`.
    pub device: DeviceConfig,
    /// Size of the device. Default: as large as memory (on zram: uncompressed bytes).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size: Option<Bytes>,
    /// zram only: how pages are compressed. Default `lzo-rle`, the kernel's.
    pub compressor: Compressor,
    /// zram only: how many times smaller the workload's pages become, 100 % to 10000 %. Default: the cost table's ratio
    /// of the compressor.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub compression_ratio: Option<Ratio>,
}

impl Default for MachineConfig {
    fn default() -> Self {
        Self {
            kernel: KernelRelease::default(),
            lazy_statistics: false,
            lru_batches: false,
            code_in_use: false,
            warm_files: false,
            prices: Prices::default(),
            sample: 1,
            cpus: 2,
            nodes: vec![NodeConfig::default()],
            distances: Vec::new(),
            tiering: TieringConfig::default(),
            swap: SwapConfig::default(),
            storage: DeviceKind::Nvme.into(),
            file_system: None,
            device_latency: Ratio::ONE,
            swappiness: 60,
            page_cluster: 3,
            readahead: Bytes::from_kib(128),
            watermark_scale_factor: 10,
            min_free: None,
            transparent_hugepages: false,
            mmu: MmuConfig::default(),
            mglru: MglruConfig::default(),
            compaction: CompactionConfig::default(),
            hz: 250,
            time_slice: Duration::from_ms(3),
            step: STEP,
        }
    }
}

impl Default for SwapConfig {
    fn default() -> Self {
        Self { device: DeviceKind::Zram.into(), size: None, compressor: Compressor::LzoRle, compression_ratio: None }
    }
}

/// A value that no machine can have.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{field}` is {got}; allowed: {allowed}")]
pub struct ConfigError {
    /// Path of the key inside `[machine]`.
    pub field: Box<str>,
    pub got: Box<str>,
    /// The allowed values.
    pub allowed: Cow<'static, str>,
}

impl ConfigError {
    pub(crate) fn new(field: &str, got: impl std::fmt::Display, allowed: impl Into<Cow<'static, str>>) -> Self {
        Self { field: field.into(), got: got.to_string().into(), allowed: allowed.into() }
    }
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde wants a reference")]
fn is_one(pages: &u32) -> bool {
    *pages == 1
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde wants a reference")]
fn is_whole(share: &Ratio) -> bool {
    *share == Ratio::ONE
}

/// Default of [`MachineConfig::step`].
pub(super) const STEP: Duration = Duration::from_us(50);

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde wants a reference")]
fn is_default_step(step: &Duration) -> bool {
    *step == STEP
}

/// Least memory of a node: the kernel's own minimum reserve must fit several times.
pub(super) const NODE_MIN: Bytes = Bytes::from_mib(4);
pub(super) const NODE_MAX: Bytes = Bytes::from_gib(4096);

impl MachineConfig {
    /// All memory of the machine.
    pub fn memory(&self) -> Bytes {
        Bytes::new(self.nodes.iter().map(|node| node.memory.get()).fold(0, u64::saturating_add))
    }

    /// Size of the swap device.
    pub fn swap_size(&self) -> Bytes {
        match self.swap.device {
            DeviceConfig::Kind(DeviceKind::None) => Bytes::ZERO,
            _ => self.swap.size.unwrap_or_else(|| self.memory()),
        }
    }

    /// Settings of policies when they are made for this machine. The Multi-Gen LRU follows the machine's release unless
    /// `[machine.mglru] baseline` names another.
    pub fn policy_settings(&self) -> PolicySettings {
        let baseline = self.mglru.baseline.unwrap_or_else(|| self.kernel.into());
        PolicySettings { mglru: MglruConfig { baseline: Some(baseline), ..self.mglru } }
    }

    /// The kernel's tick; `hz` must be valid.
    pub fn tick_rate(&self) -> TickRate {
        TickRate::new(u64::from(self.hz)).unwrap_or_default()
    }

    /// Folios of several pages lie on one node, and their pages are all there.
    fn check_folios(&self) -> Result<(), ConfigError> {
        let Some(file_system) = self.file_system else { return Ok(()) };
        let refuse = |allowed| Err(ConfigError::new("file-system", file_system, allowed));
        match () {
            () if self.nodes.len() > 1 => refuse("absent on a machine of several nodes: folios of files do not move"),
            () if self.sample > 1 => {
                refuse("absent where `sample` is above 1: a sample has no pages that follow each other")
            }
            () => Ok(()),
        }
    }

    /// Checks every value.
    ///
    /// # Errors
    /// The first value out of range, with its place and the allowed values.
    pub fn validate(&self) -> Result<(), ConfigError> {
        let check = |ok: bool, field: &str, got: &dyn std::fmt::Display, allowed: &'static str| {
            if ok { Ok(()) } else { Err(ConfigError::new(field, got, allowed)) }
        };
        check((1..=256).contains(&self.cpus), "cpus", &self.cpus, "1 to 256")?;
        check((1..=1024).contains(&self.sample), "sample", &self.sample, "1 to 1024")?;
        nodes::check(&self.nodes, &self.distances, self.tiering)?;
        self.check_folios()?;
        check(self.memory() <= NODE_MAX, "nodes", &self.memory(), "at most 4TiB in all")?;
        check(self.swap_size().get() <= 4 << 40, "swap.size", &self.swap_size(), "at most 4TiB")?;
        let ratio = self.swap.compression_ratio.unwrap_or(Ratio::ONE);
        let ratio_ok = (Ratio::ONE..=Ratio::from_percent(10_000)).contains(&ratio);
        check(ratio_ok, "swap.compression-ratio", &ratio, "100% to 10000%")?;
        let is_disk = !matches!(self.storage.kind(), Some(DeviceKind::None | DeviceKind::Zram));
        let disks = "ram, nvme, ssd, disk, or numbers as in `latency=4ms,bandwidth=30MiB/s,queue=1`";
        check(is_disk, "storage", &self.storage, disks)?;
        let latency_ok = (Ratio::from_percent(1)..=Ratio::from_percent(10_000)).contains(&self.device_latency);
        check(latency_ok, "device-latency", &self.device_latency, "1% to 10000%")?;
        check(self.swappiness <= 200, "swappiness", &self.swappiness, "0 to 200")?;
        check(self.page_cluster <= 5, "page-cluster", &self.page_cluster, "0 to 5")?;
        check(self.readahead <= Bytes::from_mib(16), "readahead", &self.readahead, "0 to 16MiB")?;
        let scale = self.watermark_scale_factor;
        check((1..=3000).contains(&scale), "watermark-scale-factor", &scale, "1 to 3000")?;
        let min_free_ok = self.min_free.is_none_or(|min| min.get() <= self.memory().get() / 4);
        check(min_free_ok, "min-free", &self.min_free.unwrap_or_default(), "at most a quarter of memory")?;
        if let Some((field, got, allowed)) = self.mmu.first_error() {
            check(false, field, &got, allowed)?;
        }
        if let Some((field, got, allowed)) = self.mglru.first_error() {
            check(false, field, &got, allowed)?;
        }
        check([100, 250, 300, 1000].contains(&self.hz), "hz", &self.hz, "100, 250, 300 or 1000")?;
        let slice_ok = (100_000..=1_000_000_000).contains(&self.time_slice.ns());
        check(slice_ok, "time-slice", &self.time_slice, "100us to 1s")?;
        let step_ok = (1000..=10_000_000).contains(&self.step.ns());
        check(step_ok, "step", &self.step, "1us to 10ms")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_are_kinds_or_numbers() {
        let text = "storage = \"latency=4ms,bandwidth=30MiB/s,queue=1\"\n[swap]\ndevice = \"nvme\"";
        let config: MachineConfig = toml::from_str(text).unwrap();
        assert_eq!(config.validate(), Ok(()));
        assert_eq!(config.swap.device, DeviceKind::Nvme);
        let printed = toml::to_string(&config).unwrap();
        assert!(printed.contains("storage = \"latency=4ms,bandwidth=30MiB/s,queue=1\""), "{printed}");
        assert!(printed.contains("device = \"nvme\""), "{printed}");
        assert_eq!(toml::from_str::<MachineConfig>(&printed).unwrap(), config);
        let error = toml::from_str::<MachineConfig>("storage = \"nvm\"").unwrap_err().to_string();
        assert!(error.contains("`nvm` is no device; did you mean `nvme`?"), "{error}");
    }

    #[test]
    fn folios_are_refused_where_they_are_not_simulated() {
        let xfs: MachineConfig = toml::from_str("file-system = \"xfs\"").unwrap();
        assert_eq!((xfs.validate(), xfs.file_system), (Ok(()), Some(FileSystem::Xfs)));
        let refusal = |config: MachineConfig| config.validate().unwrap_err().to_string();
        let two = vec![NodeConfig::default(), NodeConfig::default()];
        let message = refusal(MachineConfig { nodes: two, ..xfs.clone() });
        assert_eq!(
            message,
            "`file-system` is xfs; allowed: absent on a machine of several nodes: folios of files do not move"
        );
        let message = refusal(MachineConfig { sample: 4, ..xfs });
        assert!(message.contains("`sample` is above 1"), "{message}");
    }

    #[test]
    fn the_default_machine_is_valid_and_errors_name_the_key() {
        assert_eq!(MachineConfig::default().validate(), Ok(()));
        let mut config = MachineConfig::default();
        config.nodes[0].memory = Bytes::from_kib(64);
        assert_eq!(config.validate().unwrap_err().to_string(), "`nodes[0].memory` is 64KiB; allowed: 4MiB to 4TiB");
        let config = MachineConfig { storage: DeviceKind::Zram.into(), ..MachineConfig::default() };
        assert!(
            config
                .validate()
                .unwrap_err()
                .to_string()
                .starts_with("`storage` is zram; allowed: ram, nvme, ssd, disk, or")
        );
        let config = MachineConfig { cpus: 0, ..MachineConfig::default() };
        assert_eq!(config.validate().unwrap_err().to_string(), "`cpus` is 0; allowed: 1 to 256");
    }
}
