//! The values of one axis.

use crate::SweepError;
use crate::space::{Axis, Scale};
use std::path::{Path, PathBuf};
use toml::Value;

/// A number with its unit, as ends of an axis are.
struct End<'a> {
    number: f64,
    is_whole: bool,
    unit: &'a str,
}

impl Axis {
    /// Checks the axis. The error is a message.
    pub(crate) fn check(&self) -> Result<(), String> {
        match (&self.values, &self.files, &self.low, &self.high) {
            (Some(values), None, None, None) if values.is_empty() => Err("`values` is empty".into()),
            (Some(_), None, None, None) | (None, Some(_), None, None) => Ok(()),
            (None, None, Some(low), Some(high)) => {
                let (low, high) = (End::of(low)?, End::of(high)?);
                if low.unit != high.unit {
                    return Err(format!("units differ: `{}` and `{}`; write both in one", low.unit, high.unit));
                }
                if low.number > high.number {
                    return Err("`low` is above `high`".into());
                }
                if self.scale == Scale::Log && low.number <= 0.0 {
                    return Err("on a log scale `low` is above 0".into());
                }
                Ok(())
            }
            _ => Err("an axis has `values`, or `files`, or `low` and `high`".into()),
        }
    }

    /// The values of a grid; `None` if they are drawn. File patterns and names are relative to `folder`.
    pub(crate) fn listed(&self, folder: &Path) -> Result<Option<Vec<Value>>, SweepError> {
        if let Some(values) = &self.values {
            return Ok(Some(values.clone()));
        }
        let Some(pattern) = &self.files else { return Ok(None) };
        let found = files(pattern, folder)?;
        let shown = |file: PathBuf| file.strip_prefix(folder).map_or_else(|_| file.clone(), Path::to_path_buf);
        if found.is_empty() {
            let reason = format!("no file in {} is called so", folder.display());
            return Err(SweepError::Files { pattern: pattern.clone(), reason });
        }
        Ok(Some(found.into_iter().map(|file| Value::from(shown(file).display().to_string())).collect()))
    }

    /// The value at `place` (0 to 1) between `low` and `high`.
    pub(crate) fn at(&self, place: f64) -> Value {
        let ends = self.low.as_ref().zip(self.high.as_ref()).expect("only drawn axes are asked");
        let end = |value| End::of(value).expect("checked when it was read");
        let (low, high) = (end(ends.0), end(ends.1));
        let is_whole = low.is_whole && high.is_whole;
        // Each whole number has the same share.
        let (from, to) = if is_whole { (low.number - 0.5, high.number + 0.5) } else { (low.number, high.number) };
        let drawn = match self.scale {
            Scale::Linear => from + (to - from) * place,
            Scale::Log => (from.ln() + (to.ln() - from.ln()) * place).exp(),
        };
        if is_whole {
            #[expect(clippy::cast_possible_truncation, reason = "between two numbers of 64 bits")]
            let whole = drawn.round().clamp(low.number, high.number) as i64;
            if low.unit.is_empty() { Value::from(whole) } else { Value::from(format!("{whole} {}", low.unit)) }
        } else if low.unit.is_empty() {
            Value::from(drawn.clamp(low.number, high.number))
        } else {
            // As many digits as matter: sizes with a unit are read as decimal fractions.
            Value::from(format!("{:.3} {}", drawn.clamp(low.number, high.number), low.unit))
        }
    }
}

/// Files that match a pattern, by name.
fn files(pattern: &str, folder: &Path) -> Result<Vec<PathBuf>, SweepError> {
    let refused = |reason: String| SweepError::Files { pattern: pattern.to_owned(), reason };
    let escaped = glob::Pattern::escape(&folder.display().to_string());
    let whole = if Path::new(pattern).is_absolute() || folder.as_os_str().is_empty() {
        pattern.to_owned()
    } else {
        format!("{escaped}/{pattern}")
    };
    let mut found = Vec::new();
    for path in glob::glob(&whole).map_err(|error| refused(error.to_string()))? {
        let path = path.map_err(|error| refused(error.to_string()))?;
        if path.is_file() {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

impl<'a> End<'a> {
    fn of(value: &'a Value) -> Result<Self, String> {
        let wrong = || format!("{value}: an end is a number, or a number with a unit as in \"64 MiB\"");
        match value {
            Value::Integer(number) => Ok(Self { number: *number as f64, is_whole: true, unit: "" }),
            Value::Float(number) if number.is_finite() => Ok(Self { number: *number, is_whole: false, unit: "" }),
            Value::String(text) => {
                let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.' && c != '-').unwrap_or(text.len());
                let (number, unit) = text.split_at(digits);
                let parsed: f64 = number.parse().map_err(|_| wrong())?;
                Ok(Self { number: parsed, is_whole: !number.contains('.'), unit: unit.trim() })
            }
            _ => Err(wrong()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn axis(low: Value, high: Value, scale: Scale) -> Axis {
        Axis { key: "k".into(), values: None, files: None, low: Some(low), high: Some(high), scale }
    }

    #[test]
    fn whole_numbers_have_equal_shares() {
        let axis = axis(Value::from(0), Value::from(3), Scale::Linear);
        let mut counts = [0; 4];
        for nth in 0..400 {
            let Value::Integer(value) = axis.at((f64::from(nth) + 0.5) / 400.0) else { panic!("a whole number") };
            counts[usize::try_from(value).unwrap()] += 1;
        }
        assert_eq!(counts, [100; 4]);
    }

    #[test]
    fn units_and_scales_are_kept() {
        let log = axis(Value::from("1 MiB"), Value::from("100 MiB"), Scale::Log);
        assert_eq!([log.at(0.0), log.at(1.0)], ["1 MiB", "100 MiB"].map(Value::from));
        let Value::String(middle) = log.at(0.5) else { panic!("a text") };
        // The middle of 0.5 and 100.5 on a log scale is 7.09.
        assert_eq!(middle, "7 MiB");
        let share = axis(Value::from("10.0 %"), Value::from("20 %"), Scale::Linear);
        assert_eq!(share.at(0.25), Value::from("12.500 %"));
        assert_eq!(axis(Value::from(1.0), Value::from(2.0), Scale::Linear).at(0.5), Value::from(1.5));
    }

    #[test]
    fn files_come_by_name() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["b.parquet", "a.parquet", "a.txt"] {
            std::fs::write(folder.path().join(name), "").unwrap();
        }
        let of = |pattern: &str| {
            let files = Some(pattern.to_owned());
            Axis { key: "k".into(), values: None, files, low: None, high: None, scale: Scale::Linear }
        };
        let names = ["a.parquet", "b.parquet"].map(Value::from);
        assert_eq!(of("*.parquet").listed(folder.path()).unwrap(), Some(names.to_vec()));
        let error = of("*.csv").listed(folder.path()).unwrap_err().to_string();
        assert!(error.contains("\"*.csv\": no file in"), "{error}");
        let error = of("***").listed(folder.path()).unwrap_err().to_string();
        assert!(error.contains("***"), "{error}");
    }
}
