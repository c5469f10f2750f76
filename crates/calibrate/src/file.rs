//! A calibration as a file.

use crate::{Host, Measured, Storage, prices};
use isotherm_kernel::prices::Prices;
use isotherm_linux::LiveError;
use isotherm_verify::VerifyError;
use serde::{Deserialize, Serialize};
use std::ops::RangeInclusive;

/// Version of the form of the file.
pub const VERSION: u32 = 1;
/// Times that a file may have: to a second.
const TIMES_NS: RangeInclusive<u64> = 1..=1_000_000_000;

/// Prices of a machine and where they come from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Calibration {
    pub version: u32,
    /// Seconds since 1970.
    pub made_at: u64,
    /// What a page that is swapped out and in again costs in simulation, with the prices of the table; absent where none was measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub simulated_swapped_page_ns: Option<u64>,
    pub host: Host,
    /// The disk under files; absent where it was not measured, and in files of earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub storage: Option<Storage>,
    #[serde(default)]
    pub measured: Vec<Measured>,
}

/// Why there is no calibration.
#[derive(Debug, thiserror::Error)]
pub enum CalibrationError {
    #[error(transparent)]
    Live(#[from] LiveError),
    #[error(transparent)]
    Verify(#[from] VerifyError),
    /// The probe of swap failed each time.
    #[error("the probe of swap did not end: {0}")]
    Probe(String),
    #[error("no page went to swap: there is too little of it, or it is too slow")]
    NoFaults,
    #[error("the simulated probe failed: {0}")]
    Simulated(String),
    /// A file is none of ours, or damaged.
    #[error("{0}")]
    File(String),
}

impl Calibration {
    /// The prices that follow from it. `with_disk`: that of a request to the disk that was measured, too.
    pub fn prices(&self, with_disk: bool) -> Prices {
        let of_disk = self.storage.iter().filter(|_| with_disk).flat_map(|storage| &storage.measured);
        let measured: Vec<Measured> = self.measured.iter().chain(of_disk).cloned().collect();
        prices(&measured, self.simulated_swapped_page_ns)
    }

    /// Its text.
    pub fn to_text(&self) -> String {
        let text = toml::to_string(self).unwrap_or_default();
        format!("# Prices of one machine, measured by `isotherm calibrate`. Another machine has others.\n{text}")
    }

    /// Reads its text.
    ///
    /// # Errors
    /// [`CalibrationError::File`] with the place.
    pub fn parse(text: &str) -> Result<Self, CalibrationError> {
        let file = |what: String| CalibrationError::File(format!("{what}; `isotherm calibrate` writes such a file"));
        let this: Self = toml::from_str(text).map_err(|error| file(error.to_string().trim_end().to_owned()))?;
        if this.version != VERSION {
            return Err(file(format!("it is of version {}, and {VERSION} is known", this.version)));
        }
        let of_storage = this.storage.iter().flat_map(|storage| &storage.measured);
        for Measured { name, ns, samples, .. } in this.measured.iter().chain(of_storage) {
            if !TIMES_NS.contains(ns) || *samples == 0 {
                let (least, most) = (TIMES_NS.start(), TIMES_NS.end());
                return Err(file(format!(
                    "`{name}` is {ns} ns of {samples} samples, which is no time; allowed: {least} to {most} ns of 1 sample and more"
                )));
            }
        }
        if let Some(kind) = this.storage.as_ref().and_then(|storage| storage.device.kind()) {
            return Err(file(format!(
                "`storage.device` is `{kind}`; allowed: numbers as in `latency=4ms,bandwidth=30MiB/s,queue=1`"
            )));
        }
        if this.simulated_swapped_page_ns.is_some_and(|ns| !TIMES_NS.contains(&ns)) {
            let (least, most) = (TIMES_NS.start(), TIMES_NS.end());
            let ns = this.simulated_swapped_page_ns.unwrap_or_default();
            return Err(file(format!(
                "`simulated-swapped-page-ns` is {ns}, which is no time; allowed: {least} to {most} ns"
            )));
        }
        Ok(this)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::price::SWAPPED_PAGE;

    fn calibration() -> Calibration {
        let host = Host {
            machine: "0123456789abcdef".to_owned(),
            kernel: "6.18.0".to_owned(),
            processor: "A \"processor\"".to_owned(),
            policy: "classic".to_owned(),
        };
        let one = |name: &str, ns: f64| Measured::of(name, "how", &[ns, ns + 1.0, ns + 2.0]).unwrap();
        Calibration {
            version: VERSION,
            made_at: 1_700_000_000,
            simulated_swapped_page_ns: Some(12_000),
            host,
            storage: Some(Storage {
                folder: "/srv \"x\"".to_owned(),
                disk: Some("vda".to_owned()),
                device: "latency=95us,bandwidth=900MiB/s,queue=16".parse().unwrap(),
                measured: vec![one("read_4kib_ns", 97_000.0), one("block_submit_ns", 4_000.0)],
            }),
            measured: vec![one("syscall_ns", 150.0), one(SWAPPED_PAGE, 18_000.0)],
        }
    }

    #[test]
    fn a_file_comes_back_as_it_was() {
        let text = calibration().to_text();
        assert_eq!(Calibration::parse(&text).unwrap(), calibration());
        let submit_ns = |with_disk| calibration().prices(with_disk).get("block_submit_ns");
        assert_eq!((submit_ns(true), submit_ns(false)), (Some(4001), None), "files may lie on another disk");
        assert_eq!(Calibration::parse(&text).unwrap().prices(false).get("swap_in_fault_ns"), Some(2250));
    }

    #[test]
    fn damaged_and_foreign_files_are_refused() {
        let text = calibration().to_text();
        for end in 0..text.len() - 1 {
            // A file may be cut between two tables; what is left must be whole.
            if let Ok(left) = Calibration::parse(&text[..end]) {
                assert!(left.measured.len() < 2 || left == calibration(), "{end}");
                let storage = calibration().storage.map(|storage| storage.device);
                assert!(left.storage.is_none_or(|left| Some(left.device) == storage), "{end}");
            }
        }
        for (from, to, words) in [
            ("version = 1", "version = 9", "version 9"),
            ("ns = 151", "ns = 0", "no time"),
            ("ns = 151", "ns = 99999999999", "no time"),
            ("samples = 3", "samples = 0", "no time"),
            ("made-at", "made-after", "made-after"),
            ("= 12000", "= 0", "no time"),
            ("= 12000", "= -1", "12"),
            ("= 12000", "= 9000000000", "1 to 1000000000 ns"),
            ("ns = 97001", "ns = 0", "`read_4kib_ns` is 0 ns"),
            ("latency=95us", "latency=0us", "allowed: a time from 1us to 10s"),
            ("latency=95us", "latency=99999999999s", "allowed: a time from 1us to 10s"),
            ("900MiB/s", "0MiB/s", "allowed: a size a second from 64KiB/s"),
            ("queue=16", "queue=0", "a whole number from 1 to 1024"),
            ("latency=95us,bandwidth=900MiB/s,queue=16", "nvme", "`storage.device` is `nvme`"),
            ("latency=95us,bandwidth=900MiB/s,queue=16", "", "device"),
            ("device = ", "devise = ", "devise"),
        ] {
            assert!(text.contains(from), "{from}");
            let error = Calibration::parse(&text.replacen(from, to, 1)).unwrap_err().to_string();
            assert!(error.contains(words) || words == "12", "{to}: {error}");
            assert!(error.contains("isotherm calibrate"), "{error}");
        }
        let huge = format!("{text}\nmore = \"{}\"", "x".repeat(1 << 20));
        for text in ["", "\u{0}", "[[measured]]", "version = 1", "[storage]", huge.as_str()] {
            assert!(Calibration::parse(text).is_err(), "{}", text.len());
        }
    }

    #[test]
    fn files_without_a_disk_are_read_and_written() {
        let earlier = Calibration { storage: None, ..calibration() };
        let text = earlier.to_text();
        assert!(!text.contains("storage"), "versions before that table read it");
        assert_eq!(Calibration::parse(&text).unwrap(), earlier);
    }
}
