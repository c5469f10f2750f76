//! Virtual time: spans and points, in nanoseconds. The caller always brings the clock.

use crate::quantity::{Kind, approximate, quantity_traits};
use std::ops::{Add, AddAssign};

/// A span of time in nanoseconds.
///
/// Read from `5ms`, `1.5 s`, `2m`, `100us`; only zero may have no unit. Written exactly.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Duration(pub(crate) u64);

const UNITS: &[(&str, u64)] = &[
    ("ns", 1),
    ("us", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("m", 60_000_000_000),
    ("h", 3_600_000_000_000),
];

const KIND: Kind = Kind {
    what: "a time span",
    example: "`5ms`",
    units: UNITS,
    aliases: &[("µs", 1_000), ("min", 60_000_000_000), ("sec", 1_000_000_000), ("d", 86_400_000_000_000)],
    bare: None,
};

quantity_traits!(Duration, KIND, "a time span such as \"5ms\"");

impl Duration {
    /// A span of 0 ns.
    pub const ZERO: Self = Self(0);
    /// The longest span: longer than any run.
    pub const MAX: Self = Self(u64::MAX);
    /// A span of `ns` nanoseconds.
    pub const fn from_ns(ns: u64) -> Self {
        Self(ns)
    }
    /// A span of `us` microseconds; saturates.
    pub const fn from_us(us: u64) -> Self {
        Self(us.saturating_mul(1_000))
    }
    /// A span of `ms` milliseconds; saturates.
    pub const fn from_ms(ms: u64) -> Self {
        Self(ms.saturating_mul(1_000_000))
    }
    /// A span of `s` seconds; saturates.
    pub const fn from_secs(s: u64) -> Self {
        Self(s.saturating_mul(1_000_000_000))
    }
    /// The span in nanoseconds.
    pub const fn ns(self) -> u64 {
        self.0
    }
    /// The span times `n`; saturates.
    pub const fn saturating_mul(self, n: u64) -> Self {
        Self(self.0.saturating_mul(n))
    }
    /// The remainder after taking `other` away, at least zero.
    pub const fn saturating_sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }
    /// Three significant digits for people: `1.53 s`. Not meant to be read back.
    pub fn approx(self) -> String {
        approximate(UNITS, self.0)
    }
}

impl Add for Duration {
    type Output = Self;
    /// Saturates: 584 years of simulated time mean "never".
    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

impl AddAssign for Duration {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl std::iter::Sum for Duration {
    fn sum<I: Iterator<Item = Self>>(spans: I) -> Self {
        spans.fold(Self::ZERO, Add::add)
    }
}

/// A point in virtual time: nanoseconds since the run began. Two runs' instants cannot be compared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Instant(u64);

impl Instant {
    /// The beginning of the run: 0 ns.
    pub const START: Self = Self(0);
    /// Later than everything: the due time of a timer that is off.
    pub const NEVER: Self = Self(u64::MAX);
    /// The point `ns` nanoseconds after the beginning.
    pub const fn from_ns(ns: u64) -> Self {
        Self(ns)
    }
    /// Nanoseconds since the beginning of the run.
    pub const fn ns(self) -> u64 {
        self.0
    }
    /// The span from `earlier` to here; zero if `earlier` is later.
    pub const fn since(self, earlier: Self) -> Duration {
        Duration(self.0.saturating_sub(earlier.0))
    }
}

impl Add<Duration> for Instant {
    type Output = Self;
    fn add(self, span: Duration) -> Self {
        Self(self.0.saturating_add(span.0))
    }
}

impl AddAssign<Duration> for Instant {
    fn add_assign(&mut self, span: Duration) {
        *self = *self + span;
    }
}

impl std::fmt::Display for Instant {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        Duration(self.0).fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn spans_are_read_and_written() {
        let table = [
            ("5ms", 5_000_000, "5ms"),
            ("1.5 s", 1_500_000_000, "1.5s"),
            ("90s", 90_000_000_000, "1.5m"),
            ("100µs", 100_000, "100us"),
            ("0", 0, "0ns"),
        ];
        for (text, ns, printed) in table {
            let span: Duration = text.parse().unwrap();
            assert_eq!((span.ns(), span.to_string().as_str()), (ns, printed), "{text}");
        }
        assert!("5".parse::<Duration>().is_err(), "a bare number has no unit");
    }

    proptest! {
        #[test]
        fn printing_then_parsing_gives_the_span_back(ns: u64) {
            prop_assert_eq!(Duration::from_ns(ns).to_string().parse::<Duration>(), Ok(Duration::from_ns(ns)));
        }
    }
}
