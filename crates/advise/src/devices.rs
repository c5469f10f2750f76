//! Effects of other devices on the answer.

use super::judge::Judge;
use super::player::Devices;
use isotherm_kernel::swap::DeviceConfig;
use isotherm_kernel::swap::device::DeviceKind;
use isotherm_scenario::ScenarioError;
use isotherm_units::Bytes;
use rayon::prelude::*;
use serde::Serialize;

/// Use of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum DeviceRole {
    /// The disk under files.
    Storage,
    /// The swap device, for anonymous pages.
    Swap,
}

/// The recommended configuration at the recommended size, on another device. One replay.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct OtherDevice {
    /// The exchanged device; the other device is that of the question.
    pub role: DeviceRole,
    pub device: DeviceConfig,
    /// Runtime against unlimited memory on the same devices, in millionths; absent when the program was killed.
    pub runtime_ratio_ppm: Option<u64>,
    /// Number of major faults; absent when the program was killed.
    pub major_faults: Option<u64>,
    /// Whether the runtime is within the slow-down asked for.
    pub is_fast_enough: bool,
}

const STORAGE: [DeviceKind; 3] = [DeviceKind::Nvme, DeviceKind::Ssd, DeviceKind::Disk];
const SWAP: [DeviceKind; 4] = [DeviceKind::Zram, DeviceKind::Nvme, DeviceKind::Ssd, DeviceKind::Disk];

/// Plays the configuration on every other kind of storage, and of swap.
pub(super) fn others(judge: &Judge<'_>, index: usize, size: Bytes) -> Result<Vec<OtherDevice>, ScenarioError> {
    let (storage, swap) = (judge.player.question.storage, judge.player.question.swap);
    let of =
        |role, kinds: &[DeviceKind]| kinds.iter().map(|&kind| (role, DeviceConfig::Kind(kind))).collect::<Vec<_>>();
    let wanted = of(DeviceRole::Storage, &STORAGE).into_iter().chain(of(DeviceRole::Swap, &SWAP));
    let wanted: Vec<(DeviceRole, DeviceConfig)> = wanted
        .filter(|&(role, device)| match role {
            DeviceRole::Storage => device != storage,
            DeviceRole::Swap => device != swap,
        })
        .collect();
    let played = wanted.par_iter().map(|&(role, device)| {
        let devices = match role {
            DeviceRole::Storage => Devices { storage: device, swap },
            DeviceRole::Swap => Devices { storage, swap: device },
        };
        let found = judge.player.elsewhere(index, size, devices)?;
        Ok(OtherDevice {
            role,
            device,
            runtime_ratio_ppm: found.map(|(ratio, _)| ratio),
            major_faults: found.map(|(_, faults)| faults),
            is_fast_enough: found.is_some_and(|(ratio, _)| ratio <= judge.allowed_ppm()),
        })
    });
    played.collect::<Vec<Result<_, ScenarioError>>>().into_iter().collect()
}
