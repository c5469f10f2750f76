//! Cost of one refault: from the table of costs of the simulated machine, for given devices.

use isotherm_kernel::costs::Costs;
use isotherm_kernel::swap::device::DeviceKind;
use serde::Serialize;

/// Time that a task waits for one refault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct StallRange {
    /// The fault and an unloaded device.
    pub low_ns: u64,
    /// Twice the slowest: requests that queue, and reclaim before the read.
    pub high_ns: u64,
}

impl StallRange {
    /// Stall of refaults with anonymous memory on `swap` and files on `storage`. It is not known beforehand which of the two a refault
    /// reads from.
    pub fn of(swap: DeviceKind, storage: DeviceKind) -> Self {
        let costs = Costs::default();
        let cost = |name: &str| costs.entry(name).map_or(0, |entry| entry.value);
        let read = |kind: DeviceKind| match kind {
            DeviceKind::None | DeviceKind::Ram => 0,
            DeviceKind::Zram => cost("lzo_rle_decompress_ns"),
            DeviceKind::Nvme => cost("nvme_read_latency_ns"),
            DeviceKind::Ssd => cost("ssd_read_latency_ns"),
            DeviceKind::Disk => cost("disk_read_latency_ns"),
        };
        let file_ns = cost("file_read_fault_ns") + read(storage);
        let anon_ns = cost("swap_in_fault_ns") + read(swap);
        let (low_ns, most_ns) = match swap {
            DeviceKind::None => (file_ns, file_ns),
            _ => (anon_ns.min(file_ns), anon_ns.max(file_ns)),
        };
        Self { low_ns, high_ns: 2 * most_ns }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slower_devices_cost_more() {
        let of = |swap| StallRange::of(swap, DeviceKind::Nvme);
        assert_eq!(of(DeviceKind::Zram), StallRange { low_ns: 3700, high_ns: 2 * 85_900 });
        assert_eq!(of(DeviceKind::None), StallRange { low_ns: 85_900, high_ns: 2 * 85_900 });
        assert_eq!(of(DeviceKind::Disk), StallRange { low_ns: 85_900, high_ns: 2 * 11_561_500 });
    }
}
