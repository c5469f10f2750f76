//! Regions that a scheme is for: bounds on size, frequency and age (docs/spec/schemes.md#s2).

use super::outcomes::Reason;
use crate::OutOfRange;
use crate::monitor::{Attributes, HIT_BP, Region};
use isotherm_units::{Bytes, Duration, Ratio};
use serde::de::{Error as _, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;

/// Regions qualify when all three are within their bounds. All regions, by default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "kebab-case", deny_unknown_fields)]
pub struct AccessPattern {
    /// Length of the region in bytes.
    #[serde(alias = "sz", alias = "sz_bytes", alias = "sz-bytes")]
    pub size: Bounds<Bytes>,
    /// How many samples of the last aggregation interval found it used.
    #[serde(alias = "nr_accesses")]
    pub nr_accesses: Bounds<Frequency>,
    /// Time for which its frequency has stayed similar.
    pub age: Bounds<Age>,
}

/// A range of values from `min` to `max`, both included.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "kebab-case", deny_unknown_fields)]
pub struct Bounds<T: Default> {
    pub min: T,
    /// Largest value; left out: no limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max: Option<T>,
}

impl<T: Default> Default for Bounds<T> {
    fn default() -> Self {
        Self { min: T::default(), max: None }
    }
}

impl<T: Default> Bounds<T> {
    /// Bounds of `min` and more.
    pub fn from(min: T) -> Self {
        Self { min, max: None }
    }

    /// Bounds from `min` to `max`, both included.
    pub const fn new(min: T, max: T) -> Self {
        Self { min, max: Some(max) }
    }
}

/// A number of positive samples an aggregation, or their share, which keeps its meaning when intervals change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Frequency {
    /// A number of samples: `4` or `"4 samples"`.
    Samples(u32),
    /// That share of the samples of an aggregation, cut to a whole number: `"20%"`.
    Share(Ratio),
}

/// A number of aggregations, or a time, which keeps its meaning when intervals change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Age {
    /// A number of aggregations: `50` or `"50 aggrs"`.
    Aggregations(u32),
    /// As many aggregations as fit into a time: `"5s"`.
    Time(Duration),
}

impl Default for Frequency {
    fn default() -> Self {
        Self::Samples(0)
    }
}

impl Default for Age {
    fn default() -> Self {
        Self::Aggregations(0)
    }
}

impl Frequency {
    /// The bound as a number of samples under these attributes.
    pub fn samples(self, attributes: &Attributes) -> u32 {
        match self {
            Self::Samples(samples) => samples,
            Self::Share(share) => u32::try_from(share.of(u64::from(attributes.nr_accesses_max()))).unwrap_or(u32::MAX),
        }
    }
}

impl Age {
    /// The bound as a number of aggregations under these attributes.
    pub fn aggregations(self, attributes: &Attributes) -> u32 {
        match self {
            Self::Aggregations(aggregations) => aggregations,
            Self::Time(time) => u32::try_from(time.ns() / attributes.aggr_interval.ns().max(1)).unwrap_or(u32::MAX),
        }
    }
}

impl fmt::Display for Frequency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Samples(samples) => write!(f, "{samples} samples"),
            Self::Share(share) => share.fmt(f),
        }
    }
}

impl fmt::Display for Age {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Aggregations(aggregations) => write!(f, "{aggregations} aggrs"),
            Self::Time(time) => time.fmt(f),
        }
    }
}

impl Serialize for Frequency {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl Serialize for Age {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// A count as a number or with its unit, or text for another unit.
struct CountOr {
    unit: &'static [&'static str],
    expecting: &'static str,
}

enum Read {
    Count(u32),
    Text(String),
}

impl Visitor<'_> for CountOr {
    type Value = Read;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.expecting)
    }

    fn visit_u64<E: serde::de::Error>(self, count: u64) -> Result<Read, E> {
        let too_large = |_| E::custom(format!("{count} is too large; allowed: up to {}", u32::MAX));
        u32::try_from(count).map(Read::Count).map_err(too_large)
    }

    fn visit_i64<E: serde::de::Error>(self, count: i64) -> Result<Read, E> {
        match u64::try_from(count) {
            Ok(count) => self.visit_u64(count),
            Err(_) => Err(E::custom(format!("{count} is negative; allowed: {}", self.expecting))),
        }
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Read, E> {
        let digits = text.trim_end_matches(|c: char| !c.is_ascii_digit());
        let unit = text[digits.len()..].trim();
        if unit.is_empty() || self.unit.contains(&unit) {
            return digits
                .parse()
                .map(Read::Count)
                .map_err(|_| E::custom(format!("`{text}` is not {}", self.expecting)));
        }
        Ok(Read::Text(text.to_owned()))
    }
}

impl<'de> Deserialize<'de> for Frequency {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let count =
            CountOr { unit: &["samples", "sample"], expecting: "a number of samples or a share such as \"20%\"" };
        match deserializer.deserialize_any(count)? {
            Read::Count(count) => Ok(Self::Samples(count)),
            Read::Text(text) => text.parse().map(Self::Share).map_err(D::Error::custom),
        }
    }
}

impl<'de> Deserialize<'de> for Age {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let unit: &[&str] = &["aggrs", "aggr", "aggr_intervals", "aggregations"];
        let count = CountOr { unit, expecting: "a number of aggregations or a time such as \"5s\"" };
        match deserializer.deserialize_any(count)? {
            Read::Count(count) => Ok(Self::Aggregations(count)),
            Read::Text(text) => text.parse().map(Self::Time).map_err(D::Error::custom),
        }
    }
}

impl AccessPattern {
    /// Checks that no bound contradicts the other.
    pub(crate) fn validate(&self, attributes: &Attributes) -> Result<(), OutOfRange> {
        let Resolved { size, nr_accesses, age } = self.resolve(attributes);
        let refuse = |key: &str, max: String, min: String| {
            let place = format!("access-pattern.{key}.max");
            Err(OutOfRange::new(place, max, format!("{key}.min ({min}) and more")))
        };
        if size.0 > size.1 {
            return refuse("size", Bytes::new(size.1).to_string(), self.size.min.to_string());
        }
        if nr_accesses.0 > nr_accesses.1 {
            let max = self.nr_accesses.max.unwrap_or_default();
            return refuse("nr-accesses", max.to_string(), self.nr_accesses.min.to_string());
        }
        if age.0 > age.1 {
            return refuse("age", self.age.max.unwrap_or_default().to_string(), self.age.min.to_string());
        }
        Ok(())
    }

    /// The bounds in bytes, samples and aggregations.
    pub(crate) fn resolve(&self, attributes: &Attributes) -> Resolved {
        let samples = |frequency: Frequency| frequency.samples(attributes);
        let aggregations = |age: Age| age.aggregations(attributes);
        Resolved {
            size: (self.size.min.get(), self.size.max.map_or(u64::MAX, Bytes::get)),
            nr_accesses: (samples(self.nr_accesses.min), self.nr_accesses.max.map_or(u32::MAX, samples)),
            age: (aggregations(self.age.min), self.age.max.map_or(u32::MAX, aggregations)),
        }
    }
}

/// A pattern in the units of the monitor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Resolved {
    size: (u64, u64),
    nr_accesses: (u32, u32),
    age: (u32, u32),
}

impl Resolved {
    /// Why a region of `bytes` does not qualify. The frequency is the moving sum, so that schemes may run in the middle of an aggregation.
    pub(crate) fn misses(&self, region: &Region, bytes: u64) -> Option<Reason> {
        let nr_accesses = region.nr_accesses_bp / HIT_BP;
        match () {
            () if bytes < self.size.0 => Some(Reason::TooSmall),
            () if bytes > self.size.1 => Some(Reason::TooLarge),
            () if nr_accesses < self.nr_accesses.0 => Some(Reason::TooFewAccesses),
            () if nr_accesses > self.nr_accesses.1 => Some(Reason::TooManyAccesses),
            () if region.age < self.age.0 => Some(Reason::TooYoung),
            () if region.age > self.age.1 => Some(Reason::TooOld),
            () => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vocabulary::UnitRange;

    fn region(len: u64, nr_accesses_bp: u32, age: u32) -> Region {
        Region { range: UnitRange::new(0, len), nr_accesses_bp, age, ..Region::default() }
    }

    #[test]
    fn all_bounds_are_inclusive_and_counts_are_cut() {
        let pattern = AccessPattern {
            size: Bounds::new(Bytes::new(4096), Bytes::new(8192)),
            nr_accesses: Bounds::new(Frequency::Samples(1), Frequency::Samples(5)),
            age: Bounds::new(Age::Aggregations(10), Age::Aggregations(20)),
        };
        let resolved = pattern.resolve(&Attributes::default());
        let table = [
            (region(4096, 10_000, 10), None),
            (region(8192, 59_999, 20), None),
            (region(4095, 10_000, 10), Some(Reason::TooSmall)),
            (region(8193, 10_000, 10), Some(Reason::TooLarge)),
            (region(4096, 9_999, 10), Some(Reason::TooFewAccesses)),
            (region(4096, 60_000, 10), Some(Reason::TooManyAccesses)),
            (region(4096, 10_000, 9), Some(Reason::TooYoung)),
            (region(4096, 10_000, 21), Some(Reason::TooOld)),
        ];
        for (region, expected) in table {
            assert_eq!(resolved.misses(&region, region.len()), expected, "{region:?}");
        }
    }

    #[test]
    fn bounds_are_read_with_and_without_units() {
        let text = "size = { min = \"4KiB\" }\nnr_accesses = { min = 4, max = \"50%\" }\nage = { min = \"5s\", max = \"70 aggrs\" }";
        let read: AccessPattern = toml::from_str(text).expect("all spellings");
        let written = AccessPattern {
            size: Bounds::from(Bytes::from_kib(4)),
            nr_accesses: Bounds::new(Frequency::Samples(4), Frequency::Share(Ratio::from_percent(50))),
            age: Bounds::new(Age::Time(Duration::from_secs(5)), Age::Aggregations(70)),
        };
        assert_eq!(read, written);
        assert_eq!(toml::from_str::<AccessPattern>(&toml::to_string(&written).unwrap()).unwrap(), written);
        for bad in
            ["age = { min = -1 }", "age = { min = \"5 apples\" }", "nr-accesses = { min = \"many\" }", "sise = {}"]
        {
            assert!(toml::from_str::<AccessPattern>(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn contradictions_are_refused() {
        let pattern = AccessPattern {
            age: Bounds::new(Age::Time(Duration::from_secs(5)), Age::Aggregations(7)),
            ..AccessPattern::default()
        };
        let error = pattern.validate(&Attributes::default()).unwrap_err().to_string();
        assert_eq!(error, "`access-pattern.age.max` is 7 aggrs; allowed: age.min (5s) and more");
    }
}
