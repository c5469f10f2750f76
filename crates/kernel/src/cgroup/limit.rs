//! The values of the memory knobs.

use isotherm_units::{Bytes, Pages, UnitError};
use std::fmt;
use std::str::FromStr;

/// `memory.max`, `memory.high` and their swap twins, in pages. The kernel's word `max` is a variant, not a magic number.
///
/// Read from `max` or a size (`1.5GiB`), which is cut to whole pages as in the kernel; written in the same form.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Limit {
    /// `max`: no limit.
    #[default]
    Unlimited,
    /// A number of pages.
    At(Pages),
}

impl Limit {
    /// The limit in pages, `None` if there is none.
    pub const fn pages(self) -> Option<u64> {
        match self {
            Self::Unlimited => None,
            Self::At(pages) => Some(pages.get()),
        }
    }
    /// Pages that `usage` exceeds the limit by; 0 at or below it.
    pub const fn excess(self, usage: u64) -> u64 {
        match self {
            Self::Unlimited => 0,
            Self::At(pages) => usage.saturating_sub(pages.get()),
        }
    }
    /// Pages that may still be added to `usage`; `u64::MAX` without a limit.
    pub const fn margin(self, usage: u64) -> u64 {
        match self {
            Self::Unlimited => u64::MAX,
            Self::At(pages) => pages.get().saturating_sub(usage),
        }
    }
}

impl FromStr for Limit {
    type Err = UnitError;
    fn from_str(text: &str) -> Result<Self, UnitError> {
        if text.trim() == "max" {
            return Ok(Self::Unlimited);
        }
        text.parse::<Bytes>().map(|bytes| Self::At(bytes.pages_floor()))
    }
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unlimited => f.pad("max"),
            Self::At(pages) => pages.bytes().fmt(f),
        }
    }
}

impl serde::Serialize for Limit {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> serde::Deserialize<'de> for Limit {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = <std::borrow::Cow<'de, str>>::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_read_and_written() {
        let table = [
            ("max", Limit::Unlimited, "max"),
            ("1GiB", Limit::At(Pages::new(262_144)), "1GiB"),
            ("8191", Limit::At(Pages::new(1)), "4KiB"), // a tail below one page is cut off
            ("0", Limit::At(Pages::new(0)), "0B"),
        ];
        for (text, limit, printed) in table {
            assert_eq!(text.parse(), Ok(limit), "{text}");
            assert_eq!(limit.to_string(), printed);
        }
        assert!("most".parse::<Limit>().is_err());
    }

    #[test]
    fn excess_and_margin_never_wrap() {
        let limit = Limit::At(Pages::new(10));
        assert_eq!((limit.excess(12), limit.excess(10), limit.margin(7), limit.margin(12)), (2, 0, 3, 0));
        assert_eq!((Limit::Unlimited.excess(u64::MAX), Limit::Unlimited.margin(5)), (0, u64::MAX));
    }
}
