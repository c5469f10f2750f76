//! Rate of a sample.

use std::fmt;
use std::num::NonZeroU32;
use std::str::FromStr;

/// The coarsest sample: one group of pages in this number.
pub const SAMPLE_MAX: u32 = 1024;

/// One group of pages in n, with n from 2 to [`SAMPLE_MAX`]. Written `1/16`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SampleRate(NonZeroU32);

impl SampleRate {
    /// One group in `n`; `None` if `n` is not from 2 to [`SAMPLE_MAX`].
    pub fn one_in(n: u32) -> Option<Self> {
        NonZeroU32::new(n).filter(|_| (2..=SAMPLE_MAX).contains(&n)).map(Self)
    }

    /// Number of pages that one page of the sample counts for.
    pub fn get(self) -> u32 {
        self.0.get()
    }
}

impl fmt::Display for SampleRate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "1/{}", self.0)
    }
}

impl FromStr for SampleRate {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let n = text.trim().strip_prefix("1/").and_then(|n| n.parse().ok());
        n.and_then(Self::one_in).ok_or_else(|| format!("`{text}` is no sample; allowed: 1/2 to 1/{SAMPLE_MAX}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_written_as_fractions() {
        for text in ["1/2", "1/16", "1/1024"] {
            assert_eq!(text.parse::<SampleRate>().unwrap().to_string(), text);
        }
        for text in ["", "16", "1/1", "1/0", "1/1025", "2/16", "1/-2", "1/x", "6%", "1/99999999999"] {
            let error = text.parse::<SampleRate>().unwrap_err();
            assert!(error.contains("allowed: 1/2 to 1/1024"), "{error}");
        }
    }
}
