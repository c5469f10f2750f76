//! Units of numbers, and their display.

/// Unit of a number. Values are always in the base unit named here; only printing changes the scale.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Unit {
    /// Bytes, shown in KiB, MiB, …
    Bytes,
    /// Nanoseconds, shown in µs, ms, s, …
    Ns,
    /// Millionths, shown in percent.
    Ppm,
    /// A factor, shown as `1.25×`.
    Factor,
    /// Things counted, shown as they are in tables and as k, M, G on axes.
    #[default]
    Count,
    /// Base pages of 4 KiB, shown as counts.
    Pages,
    /// Events per second.
    PerSecond,
    /// A virtual address, shown in hexadecimal.
    Address,
}

/// A display scale: numbers are divided by `divisor` and followed by `suffix`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Display {
    pub(crate) divisor: f64,
    pub(crate) suffix: &'static str,
}

const BYTES: &[(f64, &str)] = &[
    (1.0, "B"),
    (1024.0, "KiB"),
    (1_048_576.0, "MiB"),
    (1_073_741_824.0, "GiB"),
    (1_099_511_627_776.0, "TiB"),
    (1_125_899_906_842_624.0, "PiB"),
    (1_152_921_504_606_846_976.0, "EiB"),
];
/// Minutes and hours only when there are several: 90 s reads better than 1.5 min.
const TIMES: &[(f64, f64, &str)] = &[
    (0.0, 1.0, "ns"),
    (1e3, 1e3, "µs"),
    (1e6, 1e6, "ms"),
    (1e9, 1e9, "s"),
    (180e9, 60e9, "min"),
    (10_800e9, 3600e9, "h"),
    (259_200e9, 86_400e9, "d"),
];
const COUNTS: &[(f64, &str)] = &[(1.0, ""), (1e3, "k"), (1e6, "M"), (1e9, "G"), (1e12, "T"), (1e15, "P"), (1e18, "E")];

impl Unit {
    /// The ending of a field name in JSON and CSV: `_bytes`, `_ns`, … Empty where the name alone says it.
    pub const fn key_suffix(self) -> &'static str {
        match self {
            Self::Bytes => "_bytes",
            Self::Ns => "_ns",
            Self::Ppm => "_ppm",
            Self::Pages => "_pages",
            Self::PerSecond => "_per_s",
            Self::Factor | Self::Count | Self::Address => "",
        }
    }

    /// The scale that shows values up to `largest` with one to four digits before the point.
    pub(crate) fn display(self, largest: f64) -> Display {
        let pick = |steps: &[(f64, &'static str)]| {
            let &(divisor, suffix) = steps.iter().rev().find(|step| largest.abs() >= step.0).unwrap_or(&steps[0]);
            Display { divisor, suffix }
        };
        match self {
            Self::Bytes => pick(BYTES),
            Self::Ns => {
                let step = TIMES.iter().rev().find(|step| largest.abs() >= step.0).unwrap_or(&TIMES[0]);
                Display { divisor: step.1, suffix: step.2 }
            }
            Self::Ppm => Display { divisor: 1e4, suffix: "%" },
            Self::Factor => Display { divisor: 1.0, suffix: "×" },
            Self::Count | Self::Pages => {
                // Up to five digits are easier to read whole than with a prefix.
                if largest.abs() < 1e4 { Display { divisor: 1.0, suffix: "" } } else { pick(COUNTS) }
            }
            Self::PerSecond => {
                let counts = if largest.abs() < 1e4 { Display { divisor: 1.0, suffix: "" } } else { pick(COUNTS) };
                let suffix = match counts.suffix {
                    "k" => "k/s",
                    "M" => "M/s",
                    "G" => "G/s",
                    "T" => "T/s",
                    "P" => "P/s",
                    "E" => "E/s",
                    _ => "1/s",
                };
                Display { divisor: counts.divisor, suffix }
            }
            Self::Address => Display { divisor: 1.0, suffix: "" },
        }
    }

    /// `value` for people, three significant digits with its unit: `1.53 GiB`, `12.5 %`, `1.25×`.
    pub fn approx(self, value: f64) -> String {
        if !value.is_finite() {
            return "–".to_owned();
        }
        if self == Self::Address {
            return format!("{value:#x}", value = saturating_u64(value));
        }
        let display = self.display(value);
        let number = significant(value / display.divisor, 3);
        match display.suffix {
            "" => number,
            suffix @ ("×" | "k" | "M" | "G" | "T" | "P" | "E") => format!("{number}{suffix}"),
            suffix => format!("{number} {suffix}"),
        }
    }
}

/// `value` as a whole number, at least zero, at most `u64::MAX`.
#[expect(clippy::cast_possible_truncation, reason = "`as` from a float saturates, which is what is promised")]
pub(crate) fn saturating_u64(value: f64) -> u64 {
    value as u64
}

/// `value` with `digits` significant digits and no trailing zeros behind the point; whole digits are never dropped.
pub(crate) fn significant(value: f64, digits: i32) -> String {
    if value == 0.0 || !value.is_finite() {
        return "0".to_owned();
    }
    let magnitude = decimal_exponent(value);
    if magnitude < -6 {
        return format!("{value:.1e}");
    }
    let decimals = usize::try_from(digits - 1 - magnitude).unwrap_or(0);
    trim_zeros(format!("{value:.decimals$}"))
}

/// The power of ten of the first digit of `value`.
fn decimal_exponent(value: f64) -> i32 {
    let text = format!("{:e}", value.abs());
    text.split_once('e').and_then(|(_, exponent)| exponent.parse().ok()).unwrap_or(0)
}

pub(crate) fn trim_zeros(number: String) -> String {
    if number.contains('.') { number.trim_end_matches('0').trim_end_matches('.').to_owned() } else { number }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_read_as_people_write_them() {
        let table = [
            (Unit::Bytes, 1_645_000_000.0, "1.53 GiB"),
            (Unit::Bytes, 0.0, "0 B"),
            (Unit::Bytes, 1023.0, "1023 B"),
            (Unit::Ns, 90e9, "90 s"),
            (Unit::Ns, 600e9, "10 min"),
            (Unit::Ns, 1500.0, "1.5 µs"),
            (Unit::Ppm, 125_000.0, "12.5 %"),
            (Unit::Factor, 1.25, "1.25×"),
            (Unit::Count, 1234.0, "1234"),
            (Unit::Count, 1_234_567.0, "1.23M"),
            (Unit::PerSecond, 12_345.0, "12.3 k/s"),
            (Unit::Address, 4096.0, "0x1000"),
            (Unit::Bytes, f64::NAN, "–"),
            (Unit::Count, 18_446_744_073_709_551_615.0, "18.4E"),
        ];
        for (unit, value, text) in table {
            assert_eq!(unit.approx(value), text, "{unit:?} {value}");
        }
    }

    #[test]
    fn small_numbers_keep_their_digits() {
        assert_eq!(significant(0.001_234, 3), "0.00123");
        assert_eq!(significant(999.6, 3), "1000");
        assert_eq!(significant(1e-9, 3), "1.0e-9");
    }
}
