//! A calibration as a file.

use crate::{Host, Measured, prices};
use isotherm_kernel::prices::Prices;
use isotherm_linux::LiveError;
use isotherm_verify::VerifyError;
use serde::{Deserialize, Serialize};

/// Version of the form of the file.
pub const VERSION: u32 = 1;

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
    /// The prices that follow from it.
    pub fn prices(&self) -> Prices {
        prices(&self.measured, self.simulated_swapped_page_ns)
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
        if let Some(wrong) = this.measured.iter().find(|one| !(1..=1_000_000_000).contains(&one.ns) || one.samples == 0)
        {
            return Err(file(format!(
                "`{}` is {} ns of {} samples, which is no time",
                wrong.name, wrong.ns, wrong.samples
            )));
        }
        if this.simulated_swapped_page_ns == Some(0) {
            return Err(file("`simulated-swapped-page-ns` is 0, which is no time".to_owned()));
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
            measured: vec![one("syscall_ns", 150.0), one(SWAPPED_PAGE, 18_000.0)],
        }
    }

    #[test]
    fn a_file_comes_back_as_it_was() {
        let text = calibration().to_text();
        assert_eq!(Calibration::parse(&text).unwrap(), calibration());
        assert_eq!(Calibration::parse(&text).unwrap().prices().get("swap_in_fault_ns"), Some(2250));
    }

    #[test]
    fn damaged_and_foreign_files_are_refused() {
        let text = calibration().to_text();
        for end in 0..text.len() - 1 {
            // A file may be cut between two tables; what is left must be whole.
            if let Ok(left) = Calibration::parse(&text[..end]) {
                assert!(left.measured.len() < 2 || left == calibration(), "{end}");
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
        ] {
            assert!(text.contains(from), "{from}");
            let error = Calibration::parse(&text.replacen(from, to, 1)).unwrap_err().to_string();
            assert!(error.contains(words) || words == "12", "{to}: {error}");
            assert!(error.contains("isotherm calibrate"), "{error}");
        }
        for text in ["", "\u{0}", "[[measured]]", "version = 1"] {
            assert!(Calibration::parse(text).is_err(), "{text:?}");
        }
    }
}
