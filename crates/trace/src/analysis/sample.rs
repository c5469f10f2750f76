//! The pages of a sample: a part of all pages, by a hash of the page's number.

use std::fmt::{self, Display};
use std::str::FromStr;

use isotherm_units::hash;
use serde::{Serialize, Serializer};

/// A sample rate of one page in n: n is a power of two from 2 to 65,536.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    shift: u32,
}

/// Whether an analysis may use a sample.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sampling {
    /// If all accesses would take more than about a minute.
    #[default]
    Auto,
    /// Never.
    Off,
    /// Always.
    Rate(Sample),
}

/// Most accesses that are analysed without a sample.
const EXACT_ACCESSES_MAX: u64 = 1 << 30;
const SHIFT_MAX: u32 = 16;

impl Sampling {
    /// The sample to take of `accesses` accesses; `None`: all of them.
    pub fn of(self, accesses: u64) -> Option<Sample> {
        match self {
            Self::Off => None,
            Self::Rate(sample) => Some(sample),
            Self::Auto => {
                let times = accesses.div_ceil(EXACT_ACCESSES_MAX).max(1);
                let shift = times.next_power_of_two().trailing_zeros().min(SHIFT_MAX);
                // A sample costs a hash for each access, so if one is needed, it is made small enough to pay off.
                (shift > 0).then_some(Sample { shift: (shift + 3).min(SHIFT_MAX) })
            }
        }
    }
}

impl Sample {
    /// Number of pages that each page of the sample represents.
    pub const fn one_in(self) -> u64 {
        1 << self.shift
    }

    /// `None`: the page is not in the sample. Otherwise a number, evenly spread over 16 bits, for dividing the sample into
    /// parts.
    #[inline]
    pub(crate) fn part(self, process: usize, page: u64) -> Option<usize> {
        let bits = hash::mix(page ^ (process as u64).wrapping_add(1).wrapping_mul(hash::GOLDEN));
        (bits >> (64 - self.shift) == 0).then(|| usize::try_from(bits & 0xffff).expect("16 bits"))
    }
}

impl Display for Sample {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "1/{}", self.one_in())
    }
}

impl Serialize for Sample {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl FromStr for Sampling {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("allowed: `auto`, `off`, or a rate 1/2, 1/4, 1/8, … to 1/{}", 1u32 << SHIFT_MAX);
        match text {
            "auto" => Ok(Self::Auto),
            "off" => Ok(Self::Off),
            rate => {
                let one_in: u32 = rate.strip_prefix("1/").and_then(|one_in| one_in.parse().ok()).ok_or_else(wrong)?;
                let fits = one_in.is_power_of_two() && (2..=1 << SHIFT_MAX).contains(&one_in);
                if fits { Ok(Self::Rate(Sample { shift: one_in.trailing_zeros() })) } else { Err(wrong()) }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_powers_of_two() {
        for (text, one_in) in [("1/2", 2), ("1/16", 16), ("1/65536", 65_536)] {
            let Ok(Sampling::Rate(sample)) = text.parse() else { panic!("{text}") };
            assert_eq!((sample.one_in(), sample.to_string()), (one_in, text.to_owned()));
        }
        assert_eq!(("auto".parse(), "off".parse()), (Ok(Sampling::Auto), Ok(Sampling::Off)));
        for text in ["", "1", "1/1", "1/3", "16", "1/131072", "0.1", "1/-2", "on"] {
            assert!(text.parse::<Sampling>().unwrap_err().contains("1/2, 1/4"), "{text}");
        }
    }

    #[test]
    fn a_sample_is_taken_only_of_what_is_too_much() {
        let one_in = |accesses| Sampling::Auto.of(accesses).map(Sample::one_in);
        assert_eq!((one_in(0), one_in(1_000_000_000), one_in(1 << 30)), (None, None, None));
        assert_eq!(
            (one_in((1 << 30) + 1), one_in(5_000_000_000), one_in(u64::MAX)),
            (Some(16), Some(64), Some(65_536))
        );
        assert_eq!(Sampling::Off.of(u64::MAX), None);
    }

    #[test]
    fn a_sample_holds_its_part_of_neighbours_and_of_strides() {
        let sample = Sample { shift: 4 };
        for stride in [1, 16, 512, 4096] {
            let held = (0..160_000).filter(|page| sample.part(3, page * stride).is_some()).count();
            assert!((9_600..10_400).contains(&held), "{held} of 160,000 with stride {stride}");
        }
        // The same page number in two processes means two pages.
        let differ = (0..1000).filter(|&page| sample.part(0, page).is_some() != sample.part(1, page).is_some()).count();
        assert!(differ > 60, "{differ}");
    }
}
