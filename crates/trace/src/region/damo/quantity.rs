//! Numbers as damo writes them: with thousands commas, units, several units in a row, `min`, `max`, as text or as number.
//!
//! Arithmetic is exact: `0.1 %` is exactly 1000 parts per million.

use serde::de::{Deserialize, Deserializer, Visitor};

/// Units, with their values in base units.
pub(crate) type Units = &'static [(&'static str, u64)];

/// Nanoseconds.
pub(crate) const TIME: Units = &[
    ("ns", 1),
    ("us", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("m", 60_000_000_000),
    ("h", 3_600_000_000_000),
    ("d", 86_400_000_000_000),
];
/// Bytes. damo treats `K`, `KB` and `KiB` as the same.
pub(crate) const SIZE: Units = &[
    ("B", 1),
    ("K", 1 << 10),
    ("KB", 1 << 10),
    ("KiB", 1 << 10),
    ("M", 1 << 20),
    ("MB", 1 << 20),
    ("MiB", 1 << 20),
    ("G", 1 << 30),
    ("GB", 1 << 30),
    ("GiB", 1 << 30),
    ("T", 1 << 40),
    ("TB", 1 << 40),
    ("TiB", 1 << 40),
    ("P", 1 << 50),
    ("PB", 1 << 50),
    ("PiB", 1 << 50),
    ("E", 1 << 60),
    ("EB", 1 << 60),
    ("EiB", 1 << 60),
];
/// Parts per million.
pub(crate) const RATIO: Units = &[("%", 10_000)];
/// Units of counts.
pub(crate) const COUNT: Units = &[("samples", 1), ("aggr_intervals", 1)];

/// A number in a file, as written.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) enum Scalar {
    #[default]
    Null,
    Whole(u64),
    Text(String),
}

impl Scalar {
    /// Value in base units; a number without a unit counts `plain` base units. `None` if it is null. Saturates at the largest `u64`, also
    /// for `max`.
    pub(crate) fn value(&self, units: Units, plain: u64) -> Result<Option<Quantity>, String> {
        match self {
            Self::Null => Ok(None),
            Self::Whole(value) => Ok(Some(Quantity { value: value.saturating_mul(plain), exact: true })),
            Self::Text(text) => parse(text, units, plain).map(Some),
        }
    }
}

/// A value in base units.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Quantity {
    pub(crate) value: u64,
    /// Whether rounding down to a whole number lost nothing.
    pub(crate) exact: bool,
}

/// Reads `text`; see [`Scalar::value`].
pub(crate) fn parse(text: &str, units: Units, plain: u64) -> Result<Quantity, String> {
    let wrong = || {
        let names: Vec<&str> = units.iter().map(|(name, _)| *name).collect();
        format!("`{}` is not a number, optionally with one of the units {}", shortened(text), names.join(", "))
    };
    let mut rest = text.trim();
    match rest {
        "max" => return Ok(Quantity { value: u64::MAX, exact: true }),
        "min" => return Ok(Quantity { value: 0, exact: true }),
        "" => return Err(wrong()),
        _ => {}
    }
    if rest.starts_with('-') {
        return Err(format!("`{}` is negative", shortened(text)));
    }
    let mut total = Quantity { value: 0, exact: true };
    let mut parts = 0;
    while !rest.is_empty() {
        let (number, after) = Decimal::split(rest).ok_or_else(wrong)?;
        let after = after.trim_start();
        let unit_len = after.find(|char: char| !char.is_ascii_alphabetic() && char != '%' && char != '_');
        let (unit, after) = after.split_at(unit_len.unwrap_or(after.len()));
        let factor = match unit {
            "" if parts == 0 && after.is_empty() => plain,
            unit => units.iter().find(|(name, _)| *name == unit).map(|(_, factor)| *factor).ok_or_else(wrong)?,
        };
        let part = number.times(factor);
        total = Quantity { value: total.value.saturating_add(part.value), exact: total.exact && part.exact };
        parts += 1;
        rest = after.trim_start();
    }
    Ok(total)
}

/// Shortened text for messages: files may contain anything.
pub(crate) fn shortened(text: &str) -> String {
    let mut short: String = text.chars().take(40).collect();
    if short.len() < text.len() {
        short.push('…');
    }
    short.escape_debug().to_string()
}

/// `digits` × 10^`exponent`.
#[derive(Clone, Copy)]
struct Decimal {
    digits: u128,
    exponent: i32,
    exact: bool,
}

impl Decimal {
    /// The number at the start of `text`, and what follows it.
    fn split(text: &str) -> Option<(Self, &str)> {
        let bytes = text.as_bytes();
        let mut number = Self { digits: 0, exponent: 0, exact: true };
        let (mut at, mut seen, mut fraction) = (0, false, false);
        while let Some(&byte) = bytes.get(at) {
            match byte {
                b'0'..=b'9' => {
                    seen = true;
                    number.push(byte - b'0', fraction);
                }
                b',' if seen && !fraction => {}
                b'.' if !fraction => fraction = true,
                _ => break,
            }
            at += 1;
        }
        if !seen {
            return None;
        }
        if let Some(len) = exponent_len(&bytes[at..]) {
            let power: i32 = text[at + 1..at + len].parse().ok().filter(|power| (-400..=400).contains(power))?;
            number.exponent += power;
            at += len;
        }
        Some((number, &text[at..]))
    }

    fn push(&mut self, digit: u8, fraction: bool) {
        match self.digits.checked_mul(10).and_then(|digits| digits.checked_add(u128::from(digit))) {
            Some(digits) => {
                self.digits = digits;
                self.exponent -= i32::from(fraction);
            }
            None => {
                // 38 digits are kept.
                self.exact &= digit == 0;
                self.exponent = self.exponent.saturating_add(i32::from(!fraction));
            }
        }
    }

    fn times(self, factor: u64) -> Quantity {
        let mut value = self.digits.saturating_mul(u128::from(factor));
        let mut exact = self.exact;
        if self.exponent >= 0 {
            let power = 10u128.checked_pow(self.exponent.unsigned_abs()).unwrap_or(u128::MAX);
            value = value.saturating_mul(power);
        } else {
            let power = 10u128.checked_pow(self.exponent.unsigned_abs());
            let rest = power.map_or(value, |power| value % power);
            exact &= rest == 0;
            value = power.map_or(0, |power| value / power);
        }
        Quantity { value: u64::try_from(value).unwrap_or(u64::MAX), exact }
    }
}

/// Length of the exponent at the start of `bytes`; a unit `E`, `EB`, `EiB` is no exponent.
fn exponent_len(bytes: &[u8]) -> Option<usize> {
    let sign = match bytes {
        [b'e' | b'E', b'+' | b'-', ..] => 2,
        [b'e' | b'E', ..] => 1,
        _ => return None,
    };
    let digits = bytes[sign..].iter().take_while(|byte| byte.is_ascii_digit()).count();
    (digits > 0).then_some(sign + digits)
}

impl<'de> Deserialize<'de> for Scalar {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ScalarVisitor)
    }
}

struct ScalarVisitor;

impl Visitor<'_> for ScalarVisitor {
    type Value = Scalar;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a number, a text with a number, or null")
    }
    fn visit_u64<E>(self, value: u64) -> Result<Scalar, E> {
        Ok(Scalar::Whole(value))
    }
    fn visit_i64<E>(self, value: i64) -> Result<Scalar, E> {
        Ok(u64::try_from(value).map_or_else(|_| Scalar::Text(value.to_string()), Scalar::Whole))
    }
    fn visit_f64<E>(self, value: f64) -> Result<Scalar, E> {
        Ok(Scalar::Text(value.to_string()))
    }
    fn visit_str<E>(self, text: &str) -> Result<Scalar, E> {
        Ok(plain(text).map_or_else(|| Scalar::Text(text.to_owned()), Scalar::Whole))
    }
    fn visit_unit<E>(self) -> Result<Scalar, E> {
        Ok(Scalar::Null)
    }
    fn visit_none<E>(self) -> Result<Scalar, E> {
        Ok(Scalar::Null)
    }
}

/// The common case: digits and commas only.
fn plain(text: &str) -> Option<u64> {
    let bytes = text.as_bytes();
    if !bytes.first()?.is_ascii_digit() {
        return None;
    }
    bytes.iter().filter(|&&byte| byte != b',').try_fold(0u64, |value, &byte| {
        let digit = byte.is_ascii_digit().then(|| byte - b'0')?;
        value.checked_mul(10)?.checked_add(u64::from(digit))
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn damo_s_spellings() {
        // The pitfalls of docs/spec/formats.md, each with the unit that a bare number would have.
        let table: [(&str, Units, u64, u64); 21] = [
            ("5 ms", TIME, 1000, 5_000_000),
            ("5ms", TIME, 1000, 5_000_000),
            ("150000", TIME, 1000, 150_000_000),
            ("1 s", TIME, 1000, 1_000_000_000),
            ("1 m 5 s 3 ns", TIME, 1, 65_000_000_003),
            ("2 m 3.500 s", TIME, 1, 123_500_000_000),
            ("0 ns", TIME, 1000, 0),
            ("max", TIME, 1000, u64::MAX),
            ("94,827,419,009,024", SIZE, 1, 94_827_419_009_024),
            ("100.000 MiB", SIZE, 1, 100 << 20),
            ("4K", SIZE, 1, 4096),
            ("2 E", SIZE, 1, 2 << 60),
            ("2EiB", SIZE, 1, 2 << 60),
            ("50 %", RATIO, 1000, 500_000),
            ("0.1 %", RATIO, 1000, 1000),
            ("400.000000", RATIO, 100, 40_000),
            ("18,446,744,073,709,551,615 %", RATIO, 10_000, u64::MAX),
            ("1.8446744073709552e+19", COUNT, 1, u64::MAX),
            ("1e3", COUNT, 1, 1000),
            ("7 samples", COUNT, 1, 7),
            ("1,000", COUNT, 1, 1000),
        ];
        for (text, units, plain, value) in table {
            assert_eq!(parse(text, units, plain), Ok(Quantity { value, exact: true }), "{text}");
        }
        assert_eq!(parse("1.5 ns", TIME, 1), Ok(Quantity { value: 1, exact: false }));
        assert_eq!(parse("1e-9", TIME, 1), Ok(Quantity { value: 0, exact: false }));
    }

    #[test]
    fn what_is_no_number_says_what_is_allowed() {
        for text in ["", " ", "ms", "5 parsecs", "5 6", "5 ms 6", ".", ",5", "1e999 s", "5..", "None", "5 ms,"] {
            let error = parse(text, TIME, 1).unwrap_err();
            assert!(error.contains("units ns, us"), "{text}: {error}");
        }
        assert!(parse("-1", COUNT, 1).unwrap_err().contains("negative"));
    }

    proptest! {
        #[test]
        fn any_text_is_survived(text in ".{0,40}") {
            let _ = parse(&text, TIME, 1000);
            let _ = parse(&text, SIZE, 1);
        }

        #[test]
        fn whole_numbers_are_exact(value in any::<u64>(), comma in any::<bool>()) {
            let mut text = value.to_string();
            if comma && text.len() > 3 {
                text.insert(text.len() - 3, ',');
            }
            prop_assert_eq!(parse(&text, SIZE, 1), Ok(Quantity { value, exact: true }));
            prop_assert_eq!(plain(&text), Some(value));
        }
    }
}
