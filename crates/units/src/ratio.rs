//! Shares and rates as integers.

use crate::Bytes;
use crate::quantity::{Kind, UnitError, quantity_traits};

/// A ratio in millionths: `75%` is 750 000. May exceed one (`200%` of peak memory).
///
/// Read from `75%`, `7500bp` (basis points), `500000ppm` (parts per million); a bare `0.75` is read as a fraction. Finer than
/// one millionth is cut off.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ratio(pub(crate) u64);

const KIND: Kind = Kind {
    what: "a ratio",
    example: "`75%`",
    units: &[("ppm", 1), ("%", 10_000)],
    aliases: &[("bp", 100), ("permil", 1_000), ("percent", 10_000)],
    // `5` may mean 5 % or 500 %.
    bare: None,
};

quantity_traits!(Ratio, KIND, "a ratio such as \"75%\"");

impl Ratio {
    /// For sentences: tenths of a percent, `5.1%`.
    pub fn approx(self) -> String {
        let tenths = self.ppm().saturating_add(500) / 1000;
        if tenths == 0 && self.ppm() > 0 { "<0.1%".to_owned() } else { format!("{}.{}%", tenths / 10, tenths % 10) }
    }

    /// 0 %.
    pub const ZERO: Self = Self(0);
    /// 100 %.
    pub const ONE: Self = Self(1_000_000);
    /// A ratio of `percent` %; saturates.
    pub const fn from_percent(percent: u64) -> Self {
        Self(percent.saturating_mul(10_000))
    }
    /// A ratio of `ppm` millionths.
    pub const fn from_ppm(ppm: u64) -> Self {
        Self(ppm)
    }
    /// The ratio in millionths.
    pub const fn ppm(self) -> u64 {
        self.0
    }
    /// This share of `whole`, rounded down; saturates.
    pub fn of(self, whole: u64) -> u64 {
        let share = u128::from(whole) * u128::from(self.0) / 1_000_000;
        u64::try_from(share).unwrap_or(u64::MAX)
    }
}

/// An amount of memory as an absolute size (`200MiB`) or as a share of a size that is known later (`75%` of peak).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Amount {
    /// A number of bytes.
    Absolute(Bytes),
    /// A share of a whole that the context defines, such as peak memory.
    Share(Ratio),
}

impl Amount {
    /// This share of `whole`, in bytes.
    pub fn of(self, whole: Bytes) -> Bytes {
        match self {
            Self::Absolute(bytes) => bytes,
            Self::Share(ratio) => Bytes::new(ratio.of(whole.get())),
        }
    }
}

impl std::str::FromStr for Amount {
    type Err = UnitError;
    fn from_str(text: &str) -> Result<Self, UnitError> {
        if text.trim_end().ends_with('%') { text.parse().map(Self::Share) } else { text.parse().map(Self::Absolute) }
    }
}

impl std::fmt::Display for Amount {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Absolute(bytes) => bytes.fmt(f),
            Self::Share(Ratio(ppm)) => {
                // Always in percent, else it would be read back as a size.
                let (whole, rest) = (ppm / 10_000, ppm % 10_000);
                let text = if rest == 0 {
                    format!("{whole}%")
                } else {
                    format!("{whole}.{}%", format!("{rest:04}").trim_end_matches('0'))
                };
                f.pad(&text)
            }
        }
    }
}

impl serde::Serialize for Amount {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> serde::Deserialize<'de> for Amount {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = <std::borrow::Cow<'de, str>>::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn sentences_have_tenths_of_a_percent() {
        for (ppm, text) in [(0, "0.0%"), (1, "<0.1%"), (51_177, "5.1%"), (999_960, "100.0%"), (1_500_000, "150.0%")] {
            assert_eq!(Ratio::from_ppm(ppm).approx(), text);
        }
    }

    #[test]
    fn ratios_are_read_and_written() {
        let table = [
            ("75%", 750_000, "75%"),
            ("0", 0, "0ppm"),
            ("12.5%", 125_000, "12.5%"),
            ("7500bp", 750_000, "75%"),
            ("3ppm", 3, "3ppm"),
        ];
        for (text, ppm, printed) in table {
            let ratio: Ratio = text.parse().unwrap();
            assert_eq!((ratio.ppm(), ratio.to_string().as_str()), (ppm, printed), "{text}");
        }
        assert_eq!(Ratio::from_percent(75).of(1001), 750);
        for text in ["5", "0.75", "1"] {
            let refused = text.parse::<Ratio>().unwrap_err().to_string();
            assert_eq!(refused, format!("`{text}` has no unit; allowed: ppm, %, for example `75%`"));
        }
    }

    #[test]
    fn an_amount_is_a_share_or_a_size() {
        assert_eq!("50%".parse(), Ok(Amount::Share(Ratio::from_percent(50))));
        assert_eq!("50MiB".parse(), Ok(Amount::Absolute(Bytes::from_mib(50))));
        assert_eq!(Amount::Share(Ratio::from_percent(50)).of(Bytes::new(10)), Bytes::new(5));
    }

    proptest! {
        #[test]
        fn printing_then_parsing_gives_it_back(value: u64) {
            prop_assert_eq!(Ratio::from_ppm(value).to_string().parse::<Ratio>(), Ok(Ratio::from_ppm(value)));
            for amount in [Amount::Share(Ratio::from_ppm(value)), Amount::Absolute(Bytes::new(value))] {
                prop_assert_eq!(amount.to_string().parse::<Amount>(), Ok(amount));
            }
        }
    }
}
