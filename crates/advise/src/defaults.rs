//! Questions with their defaults, and names of their parts.

use super::{EFFORTS, Effort, Question, Sampling};
use isotherm_kernel::memory::KernelRelease;
use isotherm_kernel::prices::Prices;
use isotherm_kernel::swap::DeviceConfig;
use isotherm_kernel::swap::device::DeviceKind;
use isotherm_sim::machine::MachineConfig;
use isotherm_units::{Amount, Ratio};
use std::path::PathBuf;
use std::str::FromStr;

/// Shares of peak memory that are tried, percent.
const MEMORY_PERCENT: [u64; 7] = [40, 50, 60, 70, 80, 90, 100];

impl Question {
    /// How much slower than with unlimited memory is still fine.
    pub const USUAL_SLOWDOWN: Ratio = Ratio::from_percent(5);
    /// Processors of the simulated machine.
    pub const USUAL_CPUS: u32 = 4;

    /// The usual question about a recording: 40 to 100 % of peak memory, files on NVMe, swap in zram, and 5 % slower is still fine.
    pub fn usual(name: String, trace: PathBuf, kernels: Vec<KernelRelease>) -> Self {
        Self {
            name,
            trace,
            memory: MEMORY_PERCENT.map(|percent| Amount::Share(Ratio::from_percent(percent))).to_vec(),
            every_size: false,
            kernels,
            storage: DeviceKind::Nvme.into(),
            swap: DeviceKind::Zram.into(),
            readahead: MachineConfig::default().readahead,
            prices: Prices::default(),
            slowdown: Self::USUAL_SLOWDOWN,
            latency: None,
            policy: None,
            cpus: Self::USUAL_CPUS,
            limits: false,
            baselines: false,
            details: false,
            effort: Effort::Normal,
            sampling: Sampling::Auto,
            only_recorded: false,
            keep: None,
            threads: None,
        }
    }
}

impl FromStr for Effort {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let names: Vec<&str> = EFFORTS.iter().map(|(_, name)| *name).collect();
        let found = EFFORTS.iter().find(|(_, name)| *name == text);
        found.map(|(effort, _)| *effort).ok_or_else(|| format!("allowed: {}", names.join(", ")))
    }
}

impl FromStr for Sampling {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "auto" => Ok(Self::Auto),
            "off" => Ok(Self::Off),
            _ => {
                let (rate, sampling): (_, fn(_) -> _) = match text.strip_prefix("scout:") {
                    Some(rate) => (rate, Self::Scout),
                    None => (text, Self::Only),
                };
                rate.parse().map(sampling).map_err(|error: String| format!("{error}, scout:1/N, auto, off"))
            }
        }
    }
}

/// A device for files, by name.
///
/// # Errors
/// A message: it is no device, or none for files.
pub fn storage_named(text: &str) -> Result<DeviceConfig, String> {
    let device: DeviceConfig = text.parse().map_err(|error| format!("{error}"))?;
    match device.kind() {
        Some(kind @ (DeviceKind::None | DeviceKind::Zram)) => Err(format!(
            "files cannot lie on `{kind}`; as storage are allowed nvme, ssd, disk, ram, or numbers as in \
             `latency=4ms,bandwidth=30MiB/s,queue=1`"
        )),
        _ => Ok(device),
    }
}
