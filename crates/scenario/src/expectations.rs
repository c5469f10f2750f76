//! Expected results of a scenario, next to its results: they are only printed as met or missed.

use crate::result::ScenarioResult;
use serde::ser::SerializeMap;
use serde::{Deserialize, Serialize, Serializer};

/// Expected result of one row: an `[[expectations]]` table.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct ExpectationSpec {
    /// Workload of the row that it is about.
    pub workload: String,
    /// Variant of the row that it is about.
    pub variant: String,
    /// Metric of the row that it is about.
    pub metric: String,
    /// It is about the ratio to this variant. Left out: about the value itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub against: Option<String>,
    /// The smallest mean, or mean ratio, that meets it; `at_most` is the largest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_least: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_most: Option<f64>,
    /// Author of the expectation, or the place of publication.
    pub source: String,
}

/// An expectation, and whether it is met.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ExpectationRow {
    #[serde(flatten, serialize_with = "as_in_results")]
    pub expected: ExpectationSpec,
    /// The measured mean, or mean ratio; `None` if there is no such row.
    pub measured: Option<f64>,
    /// Whether the value is in range. Without a row the expectation is not met.
    pub met: bool,
    /// Both sides of its ratio are 0: there is no change, but this proves nothing about either side.
    pub of_nothing: bool,
}

/// Fields of results are written with `_`, keys of scenarios with `-`.
fn as_in_results<S: Serializer>(expected: &ExpectationSpec, serializer: S) -> Result<S::Ok, S::Error> {
    let ExpectationSpec { workload, variant, metric, against, at_least, at_most, source } = expected;
    let mut map = serializer.serialize_map(None)?;
    map.serialize_entry("workload", workload)?;
    map.serialize_entry("variant", variant)?;
    map.serialize_entry("metric", metric)?;
    if let Some(against) = against {
        map.serialize_entry("against", against)?;
    }
    if let Some(least) = at_least {
        map.serialize_entry("at_least", least)?;
    }
    if let Some(most) = at_most {
        map.serialize_entry("at_most", most)?;
    }
    map.serialize_entry("source", source)?;
    map.end()
}

/// All expectations next to the rows of a result.
pub(crate) fn judge(expectations: &[ExpectationSpec], result: &ScenarioResult) -> Vec<ExpectationRow> {
    let row = |expected: &ExpectationSpec| {
        let measured = measured(expected, result);
        let is_in_range = |value: f64| {
            expected.at_least.is_none_or(|least| value >= least) && expected.at_most.is_none_or(|most| value <= most)
        };
        let met = measured.is_some_and(is_in_range);
        ExpectationRow { expected: expected.clone(), measured, met, of_nothing: is_of_nothing(expected, result) }
    };
    expectations.iter().map(row).collect()
}

/// Whether both sides of a ratio are 0.
fn is_of_nothing(expected: &ExpectationSpec, result: &ScenarioResult) -> bool {
    let ExpectationSpec { workload, variant, metric, against, .. } = expected;
    let is_zero = |variant: &String| result.row(workload, variant, metric).is_some_and(|row| row.mean == 0.0);
    against.as_ref().is_some_and(|against| is_zero(variant) && is_zero(against))
}

/// The mean of the row, or of its ratio; if results have no ratio to that variant, the ratio of the two means.
fn measured(expected: &ExpectationSpec, result: &ScenarioResult) -> Option<f64> {
    let ExpectationSpec { workload, variant, metric, against, .. } = expected;
    let mean = |variant: &str| result.row(workload, variant, metric).map(|row| row.mean);
    let Some(against) = against else { return mean(variant) };
    let paired = result
        .ratios
        .iter()
        .find(|row| (&row.workload, &row.variant, &row.metric, &row.against) == (workload, variant, metric, against));
    if let Some(row) = paired {
        return Some(row.mean);
    }
    let (value, base) = (mean(variant)?, mean(against)?);
    // 0 against 0 is no change.
    Some(if value == base { 1.0 } else { value / base })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::result::ResultRow;
    use crate::stats::Summary;
    use isotherm_kernel::memory::KernelRelease;

    #[test]
    fn they_are_met_at_the_bound_and_not_without_a_row() {
        let summary = Summary::of(&[2.0, 4.0]).unwrap();
        let nothing = Summary::of(&[0.0]).unwrap();
        let row =
            |variant, metric, summary| ResultRow::new((("w", variant, metric), KernelRelease::V7_2), summary, None);
        let rows = vec![
            row("v", "m", summary),
            row("base", "m", Summary::of(&[6.0]).unwrap()),
            row("v", "zero", nothing),
            row("base", "zero", nothing),
        ];
        let result = ScenarioResult {
            scenario: "s".into(),
            rows,
            ratios: vec![],
            schemes: vec![],
            killed: vec![],
            expectations: vec![],
        };
        let expect = |metric: &str, at_least, at_most, against: Option<&str>| ExpectationSpec {
            workload: "w".into(),
            variant: "v".into(),
            metric: metric.into(),
            against: against.map(str::to_owned),
            at_least,
            at_most,
            source: "by hand".into(),
        };
        let table = [
            (expect("m", Some(3.0), None, None), true),
            (expect("m", Some(3.1), None, None), false),
            (expect("m", None, Some(3.0), None), true),
            (expect("m", Some(1.0), Some(2.9), None), false),
            (expect("x", Some(0.0), None, None), false),
            (expect("m", Some(0.0), None, Some("none")), false),
            (expect("m", Some(0.5), Some(0.5), Some("base")), true),
            (expect("zero", None, Some(1.0), Some("base")), true),
        ];
        let specs: Vec<ExpectationSpec> = table.iter().map(|(spec, _)| spec.clone()).collect();
        let judged = judge(&specs, &result);
        let met: Vec<bool> = judged.iter().map(|row| row.met).collect();
        assert_eq!(met, table.map(|(_, met)| met));
        let of_nothing: Vec<&str> =
            judged.iter().filter(|row| row.of_nothing).map(|row| row.expected.metric.as_str()).collect();
        assert_eq!(of_nothing, ["zero"], "no change, and nothing to change");
    }
}
