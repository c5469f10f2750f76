//! Decimal numbers with a unit, read and written exactly: the one parser behind [`Bytes`](crate::Bytes),
//! [`Duration`](crate::Duration) and [`Ratio`](crate::Ratio).

/// Why a quantity could not be read. The text names the offending input and the allowed values.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UnitError {
    /// No digits where a number should start.
    #[error("`{text}` is not {what}: expected a number with a unit, for example {example}")]
    NotANumber {
        text: String,
        /// The kind of quantity, with its article.
        what: &'static str,
        /// A well-formed value, to show in the message.
        example: &'static str,
    },
    /// The number is fine, its unit is not known.
    #[error("`{text}` has the unknown unit `{unit}`; allowed: {allowed}")]
    UnknownUnit {
        text: String,
        /// The text after the number, which is not a known unit.
        unit: String,
        /// All known units, smallest first.
        allowed: String,
    },
    /// The number has no unit, and could mean several things.
    #[error("`{text}` has no unit; allowed: {allowed}, for example {example}")]
    NoUnit {
        text: String,
        /// All known units, smallest first.
        allowed: String,
        /// A well-formed value, to show in the message.
        example: &'static str,
    },
    /// The value does not fit 64 bits in base units.
    #[error("`{text}` is too large for {what}")]
    TooLarge {
        text: String,
        /// The kind of quantity, with its article.
        what: &'static str,
    },
}

/// One kind of quantity: its words for messages and its units, smallest first, each with its size in base units.
pub(crate) struct Kind {
    pub(crate) what: &'static str,
    pub(crate) example: &'static str,
    /// `(suffix, base units)`. The first is what [`print`](Kind::print) falls back to.
    pub(crate) units: &'static [(&'static str, u64)],
    /// Further spellings that are read but never written.
    pub(crate) aliases: &'static [(&'static str, u64)],
    /// Unit of a bare number; `None` refuses bare numbers other than 0.
    pub(crate) bare: Option<u64>,
}

impl Kind {
    /// Reads `text` as `number unit`, both exact. A fraction finer than one base unit is cut off.
    ///
    /// Commas and underscores between digits are accepted, as other tools of the field write them.
    pub(crate) fn parse(&self, text: &str) -> Result<u64, UnitError> {
        let trimmed = text.trim();
        let number_end =
            trimmed.find(|c: char| !(c.is_ascii_digit() || matches!(c, '.' | ',' | '_'))).unwrap_or(trimmed.len());
        let (number, unit) = trimmed.split_at(number_end);
        let unit = unit.trim();
        let not_a_number = || UnitError::NotANumber { text: text.to_owned(), what: self.what, example: self.example };
        let too_large = || UnitError::TooLarge { text: text.to_owned(), what: self.what };

        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        if !number.starts_with(|c: char| c.is_ascii_digit()) || !fraction.chars().all(|c| c.is_ascii_digit()) {
            return Err(not_a_number());
        }
        let mut value: u128 = 0;
        for digit in whole.chars().filter_map(|c| c.to_digit(10)) {
            value = value * 10 + u128::from(digit);
            if value > u128::from(u64::MAX) {
                return Err(too_large());
            }
        }
        let scale = self.unit_of(unit, value == 0 && fraction.chars().all(|c| c == '0')).ok_or_else(|| {
            let names: Vec<&str> = self.units.iter().map(|(name, _)| *name).collect();
            let (text, allowed) = (text.to_owned(), names.join(", "));
            match unit {
                "" => UnitError::NoUnit { text, allowed, example: self.example },
                _ => UnitError::UnknownUnit { text, unit: unit.to_owned(), allowed },
            }
        })?;
        let mut base = value * u128::from(scale);
        // Twenty digits reach below one base unit of every kind; more cannot change the result.
        let (mut numerator, mut denominator) = (0u128, 1u128);
        for digit in fraction.chars().take(18).filter_map(|c| c.to_digit(10)) {
            numerator = numerator * 10 + u128::from(digit);
            denominator *= 10;
        }
        base += numerator * u128::from(scale) / denominator;
        u64::try_from(base).map_err(|_| too_large())
    }

    fn unit_of(&self, unit: &str, is_zero: bool) -> Option<u64> {
        if unit.is_empty() {
            return self.bare.or(is_zero.then_some(1));
        }
        let known = self.units.iter().chain(self.aliases);
        let exact = known.clone().find(|(name, _)| *name == unit);
        exact.or_else(|| known.clone().find(|(name, _)| name.eq_ignore_ascii_case(unit))).map(|&(_, scale)| scale)
    }

    /// Writes `value` exactly, in the largest unit that needs at most three decimals: `1.5GiB`, `1000B`.
    pub(crate) fn print(&self, value: u64, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for &(name, scale) in self.units.iter().rev() {
            if value < scale {
                continue;
            }
            let thousandths = u128::from(value) * 1000;
            if thousandths.is_multiple_of(u128::from(scale)) {
                return f.pad(&decimal(thousandths / u128::from(scale), name));
            }
        }
        let (name, scale) = self.units[0];
        f.pad(&format!("{}{name}", value / scale.max(1)))
    }
}

/// `thousandths` as a decimal number without trailing zeros, then `suffix`.
fn decimal(thousandths: u128, suffix: &str) -> String {
    let (whole, rest) = (thousandths / 1000, thousandths % 1000);
    if rest == 0 {
        return format!("{whole}{suffix}");
    }
    let digits = format!("{rest:03}");
    format!("{whole}.{}{suffix}", digits.trim_end_matches('0'))
}

/// `value` rounded to three significant digits in the largest unit not above it, for people: `1.53 GiB`.
pub(crate) fn approximate(units: &[(&str, u64)], value: u64) -> String {
    let &(name, scale) = units.iter().rev().find(|(_, scale)| value >= *scale).unwrap_or(&units[0]);
    let whole = value / scale;
    let decimals = match whole {
        _ if scale == 1 => 0,
        0..=9 => 2,
        10..=99 => 1,
        _ => 0,
    };
    let shift = 10u128.pow(decimals);
    let rounded = (u128::from(value) * shift + u128::from(scale / 2)) / u128::from(scale);
    let (whole, rest) = (rounded / shift, rounded % shift);
    match decimals {
        0 => format!("{whole} {name}"),
        _ => format!("{whole}.{rest:0width$} {name}", width = decimals as usize),
    }
}

/// Implements the common part of every quantity: `FromStr`, `Display`, serde as text (numbers are read as base
/// units).
macro_rules! quantity_traits {
    ($type:ty, $kind:expr, $expecting:literal) => {
        impl std::str::FromStr for $type {
            type Err = $crate::UnitError;
            fn from_str(text: &str) -> Result<Self, Self::Err> {
                $kind.parse(text).map(Self)
            }
        }
        impl std::fmt::Display for $type {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                $kind.print(self.0, f)
            }
        }
        impl serde::Serialize for $type {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }
        impl<'de> serde::Deserialize<'de> for $type {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                struct Visitor;
                impl serde::de::Visitor<'_> for Visitor {
                    type Value = $type;
                    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                        f.write_str($expecting)
                    }
                    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<$type, E> {
                        text.parse().map_err(E::custom)
                    }
                }
                deserializer.deserialize_str(Visitor)
            }
        }
    };
}
pub(crate) use quantity_traits;
