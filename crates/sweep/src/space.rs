//! Space files.

use crate::SweepError;
use isotherm_document::{Dialect, Misfit, parse_as, print_as};
use serde::{Deserialize, Serialize};
use std::path::Path;
use toml::{Table, Value};

/// A scenario and the keys that vary in it.
///
/// The points of a space are all combinations of `points` (a list), of the axes with `values` or `files` (a grid), and of the
/// draws (of the axes with `low` and `high`). Each point is run `repeats` times, with the same seeds everywhere.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Space {
    /// A scenario file, from the folder of the space on, or the name of a bundled scenario.
    pub scenario: String,
    /// Seed of the first repeat; the others follow. Points are drawn with it too. Default 1.
    #[serde(default = "one")]
    pub seed: u64,
    /// Runs of each point. Default 1.
    #[serde(default = "one_repeat")]
    pub repeats: u32,
    /// Metrics to keep. Default: the scenario's, else all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub metrics: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub axes: Vec<Axis>,
    /// How the axes with `low` and `high` are drawn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub draws: Option<Draws>,
    /// Points by hand: key by path = value.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub points: Vec<Table>,
}

/// A key that varies. It has `values`, or `files`, or `low` and `high`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Axis {
    /// Any key of the scenario by its path, as `machine.swappiness` or `workloads[0].load.path`.
    pub key: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub values: Option<Vec<Value>>,
    /// Files by pattern (`traces/*.parquet`), from the folder of the space on, in the order of their names.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub files: Option<String>,
    /// Least value: a number, or a number with a unit, as `"64 MiB"`. Between whole numbers, whole numbers are drawn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub low: Option<Value>,
    /// Largest value, in the unit of `low`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub high: Option<Value>,
    #[serde(default, skip_serializing_if = "is_linear")]
    pub scale: Scale,
}

/// Whether values are drawn evenly, or their logarithms.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Scale {
    #[default]
    Linear,
    Log,
}

/// Draws from the axes with `low` and `high`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Draws {
    #[serde(default)]
    pub method: Method,
    /// Number of draws, at least 1.
    pub points: u32,
}

/// How points are drawn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Method {
    /// Each axis is cut into as many equal parts as there are draws, and each part of each axis is drawn from once.
    #[default]
    LatinHypercube,
    /// Each draw by itself.
    Random,
}

fn one() -> u64 {
    1
}
fn one_repeat() -> u32 {
    1
}
#[expect(clippy::trivially_copy_pass_by_ref, reason = "as serde wants it")]
fn is_linear(scale: &Scale) -> bool {
    *scale == Scale::Linear
}

impl Space {
    /// A space around a scenario, in which no key varies.
    pub fn around(scenario: &str) -> Self {
        Self {
            scenario: scenario.to_owned(),
            seed: one(),
            repeats: one_repeat(),
            metrics: Vec::new(),
            axes: Vec::new(),
            draws: None,
            points: Vec::new(),
        }
    }

    /// Reads and checks a space file.
    ///
    /// # Errors
    /// The first thing wrong, with file, line and column.
    pub fn load(path: &Path) -> Result<Self, SweepError> {
        let read = std::fs::read(path).and_then(isotherm_trace::text_of);
        let text = read.map_err(|error| SweepError::io("read", path, error))?;
        Self::parse(&text, &path.display().to_string())
    }

    /// Reads and checks the text of a space file; `name` is for messages.
    ///
    /// # Errors
    /// As [`load`](Self::load).
    pub fn parse(text: &str, name: &str) -> Result<Self, SweepError> {
        Ok(parse_as(text, name, Dialect::default(), Self::check)?)
    }

    fn check(&self) -> Result<(), Misfit> {
        let misfit = |key: String, message: String| Err(Misfit { key, other: None, message });
        if !(1..=10_000).contains(&self.repeats) {
            return misfit("repeats".into(), format!("{}: allowed are 1 to 10000", self.repeats));
        }
        if let Some(unknown) = self.metrics.iter().position(|name| !is_metric(name)) {
            let message = isotherm_scenario::unknown_metric(&self.metrics[unknown]);
            return misfit(format!("metrics[{unknown}]"), message);
        }
        for (index, axis) in self.axes.iter().enumerate() {
            if let Err(message) = axis.check() {
                return misfit(format!("axes[{index}]"), message);
            }
            if self.axes[..index].iter().any(|earlier| earlier.key == axis.key) {
                let message = format!("`{}` is varied twice; give each key one axis", axis.key);
                return misfit(format!("axes[{index}].key"), message);
            }
        }
        let is_drawn = self.axes.iter().any(|axis| axis.low.is_some());
        match (is_drawn, self.draws) {
            (true, None) => {
                let message = "axes with `low` and `high` are drawn: say how often, as `draws = { points = 64 }`";
                misfit("axes".into(), message.into())
            }
            (false, Some(_)) => misfit("draws".into(), "there is no axis with `low` and `high` to draw from".into()),
            (true, Some(Draws { points: 0, .. })) => misfit("draws.points".into(), "0: allowed are 1 and more".into()),
            _ => match self.points.iter().position(Table::is_empty) {
                Some(empty) => misfit(format!("points[{empty}]"), "a point sets at least one key".into()),
                None => Ok(()),
            },
        }
    }

    /// The space as text that [`parse`](Self::parse) reads.
    pub fn to_toml(&self) -> String {
        print_as(self).expect("a space is a table")
    }
}

fn is_metric(name: &str) -> bool {
    isotherm_scenario::METRICS.iter().any(|metric| metric.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_space_is_read_and_written() {
        let text = r#"
            scenario = "policies"
            repeats = 3
            draws = { points = 8, method = "random" }
            points = [{ "machine.cpus" = 2 }, { "machine.cpus" = 4 }]
            [[axes]]
            key = "policy"
            values = ["classic", "mglru"]
            [[axes]]
            key = "machine.swappiness"
            low = 1
            high = 200
            scale = "log"
        "#;
        let space = Space::parse(text, "x").unwrap();
        assert_eq!((space.axes.len(), space.points.len(), space.seed), (2, 2, 1));
        assert_eq!(Space::parse(&space.to_toml(), "x").unwrap(), space);
        assert_eq!(Space::parse("scenario = 'a'", "x").unwrap(), Space::around("a"));
    }

    #[test]
    fn what_is_wrong_is_told_with_its_place() {
        let axis = |axis: &str| format!("scenario = 'a'\n[[axes]]\nkey = 'policy'\n{axis}");
        for (text, message) in [
            ("", "missing field `scenario`"),
            ("scenario = 'a'\nrepeats = 0", "x:2:1: 0: allowed are 1 to 10000"),
            ("scenario = 'a'\nrepeat = 2", "unknown field `repeat`"),
            ("scenario = 'a'\nmetrics = ['runtime']", "runtime_ns"),
            ("scenario = 'a'\ndraws = { points = 2 }", "there is no axis with `low` and `high`"),
            ("scenario = 'a'\npoints = [{}]", "a point sets at least one key"),
            (&axis(""), "an axis has `values`, or `files`, or `low` and `high`"),
            (&axis("values = []"), "`values` is empty"),
            (&axis("values = [1]\nfiles = '*'"), "an axis has `values`, or `files`, or `low` and `high`"),
            (&axis("low = 1"), "an axis has `values`, or `files`, or `low` and `high`"),
            (&axis("low = 1\nhigh = 2"), "say how often, as `draws = { points = 64 }`"),
            (&axis("low = 3\nhigh = 2"), "`low` is above `high`"),
            (&axis("low = 0\nhigh = 2\nscale = 'log'"), "on a log scale `low` is above 0"),
            (&axis("low = '1 MiB'\nhigh = '2 GiB'"), "units differ: `MiB` and `GiB`"),
            (&axis("low = true\nhigh = 2"), "a number, or a number with a unit"),
            (&axis("values = [1]\n[[axes]]\nkey = 'policy'\nvalues = [2]"), "`policy` is varied twice"),
        ] {
            let error = Space::parse(text, "x").unwrap_err().to_string();
            assert!(error.contains(message), "{text}\n{error}\n{message}");
        }
    }
}
