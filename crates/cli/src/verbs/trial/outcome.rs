//! The result of a trial, as a table and as JSON, with what `isotherm advise` predicted next to it.

use std::path::Path;

use isotherm_daemon::trial::{Comparison, Design, TrialEnd, Trialled, Verdict};
use isotherm_report::{Align, Cell, Column, Table};
use isotherm_units::Bytes;
use serde::{Deserialize, Serialize};

use crate::error::CliError;

/// The fields of the JSON of `isotherm advise` that are used.
#[derive(Clone, Debug, Deserialize)]
struct Advice {
    unlimited_mean_bytes: Option<u64>,
    recommendation: Option<Recommendation>,
}

#[derive(Clone, Debug, Deserialize)]
struct Recommendation {
    candidate: String,
    memory_bytes: u64,
    runtime_ratio_ppm: Interval,
    major_faults: Interval,
}

#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
struct Interval {
    median: u64,
    low: u64,
    high: u64,
}

/// The prediction, for the configuration that follows the advice against unlimited memory.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Prediction {
    candidate: String,
    memory_bytes: u64,
    /// Mean charge without limits; absent where the advice does not say.
    unlimited_mean_bytes: Option<u64>,
    /// Run time relative to unlimited memory, in millionths.
    runtime_ratio_ppm: Interval,
    major_faults: Interval,
}

/// Reads the file that `isotherm advise --format json` wrote.
pub(super) fn prediction(path: &Path) -> Result<Prediction, CliError> {
    let named = |error: &dyn std::fmt::Display| {
        CliError::usage(format!(
            "{}: {error}; --advice takes what `isotherm advise TRACE --format json` prints for one release",
            path.display()
        ))
    };
    let text = std::fs::read_to_string(path).map_err(|error| named(&error))?;
    let advice: Advice = serde_json::from_str(&text).map_err(|error| named(&error))?;
    let Some(found) = advice.recommendation else { return Err(named(&"it recommends nothing")) };
    Ok(Prediction {
        candidate: found.candidate,
        memory_bytes: found.memory_bytes,
        unlimited_mean_bytes: advice.unlimited_mean_bytes,
        runtime_ratio_ppm: found.runtime_ratio_ppm,
        major_faults: found.major_faults,
    })
}

/// The JSON document.
#[derive(Debug, Serialize)]
pub(super) struct Outcome<'a> {
    pub(super) a: String,
    pub(super) b: String,
    pub(super) design: Design,
    pub(super) trial: &'a Trialled,
    pub(super) prediction: Option<&'a Prediction>,
}

/// A value with its unit, to four digits.
fn value(value: f64, unit: &str) -> String {
    match unit {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "rounded for people; casts saturate"
        )]
        "bytes" => {
            let sign = if value < 0.0 { "−" } else { "" };
            format!("{sign}{}", Bytes::new(value.abs().round() as u64).approx())
        }
        _ => {
            let digits = match value.abs() {
                large if large >= 1000.0 => 0,
                large if large >= 1.0 => 2,
                _ => 4,
            };
            format!("{value:.digits$} {unit}").trim_end().to_owned().replace('-', "−")
        }
    }
}

/// A difference: as a share of the mean under A where there is one.
fn difference(comparison: &Comparison, difference: f64, unit: &str) -> String {
    match comparison.share(difference) {
        Some(share) => format!("{:+.1} %", share * 100.0).replace('-', "−"),
        None => value(difference, unit),
    }
}

/// The sentence for people.
pub(super) fn sentence(design: &Design, trialled: &Trialled) -> String {
    let result = &trialled.metrics[trialled.deciding];
    let name = &result.metric.name;
    let Some(comparison) = &result.comparison else {
        return match &trialled.verdict {
            Verdict::Hurt { arm, why } => format!("{arm} hurt: {why}"),
            _ => "undecided: fewer than two pairs of blocks are whole".to_owned(),
        };
    };
    let share = |of| difference(comparison, of, &result.metric.unit);
    let interval =
        format!("{} ({} to {})", share(comparison.difference), share(comparison.low), share(comparison.high));
    let largest = share(comparison.largest());
    let largest = largest.trim_start_matches('+');
    match &trialled.verdict {
        Verdict::Better { arm } => format!("{arm} is better: {name} under B is {interval} of that under A"),
        Verdict::Alike => {
            format!("no difference: {name} under B is {interval} of that under A, none larger than {largest}")
        }
        Verdict::Undecided => format!(
            "undecided: {name} under B is {interval} of that under A; a difference up to {largest} is possible, {:.1} % was asked for",
            design.difference * 100.0
        ),
        Verdict::Hurt { arm, why } => {
            format!("{arm} hurt: {why}; until then {name} under B was {interval} of that under A")
        }
    }
}

/// Why the trial ended, for people.
pub(super) fn ending(trialled: &Trialled) -> String {
    let pairs = trialled.pairs;
    match &trialled.end {
        TrialEnd::Decided => format!("decided after {pairs} pairs"),
        TrialEnd::AllPairs => format!("all {pairs} pairs have run"),
        TrialEnd::Stopped => format!("stopped after {pairs} whole pairs"),
        TrialEnd::Hurt => format!("ended by the guard after {pairs} whole pairs"),
        TrialEnd::Failed { why } => format!("ended after {pairs} whole pairs: {why}"),
    }
}

/// A row for each metric.
pub(super) fn table(trialled: &Trialled, prediction: Option<&Prediction>) -> Table {
    let right = |name: &str| Column { align: Align::Right, ..Column::text(name) };
    let mut columns =
        vec![Column::text("metric"), right("A"), right("B"), right("B against A"), right("from"), right("to")];
    columns.push(right("pairs"));
    if prediction.is_some() {
        columns.push(right("predicted"));
    }
    let mut table = Table::new("", columns);
    for (index, result) in trialled.metrics.iter().enumerate() {
        let mark = if index == trialled.deciding { " (decides)" } else { "" };
        let mut row = vec![Cell::Text(format!("{}{mark}", result.metric.name))];
        match &result.comparison {
            Some(found) => {
                let unit = &result.metric.unit;
                row.extend([found.mean_a, found.mean_b].map(|mean| Cell::Text(value(mean, unit))));
                let all = [found.difference, found.low, found.high];
                row.extend(all.map(|of| Cell::Text(difference(found, of, unit))));
                row.push(Cell::Text(found.pairs.to_string()));
            }
            None => row.extend(vec![Cell::Missing; 6]),
        }
        if let Some(prediction) = prediction {
            row.push(match result.metric.name.as_str() {
                "memory" => Cell::Text(format!("at most {}", Bytes::new(prediction.memory_bytes).approx())),
                _ => Cell::Missing,
            });
        }
        table.push(row);
    }
    table
}

/// The prediction, in words.
pub(super) fn predicted(prediction: &Prediction) -> String {
    let Prediction { candidate, runtime_ratio_ppm: runtime, major_faults: faults, .. } = prediction;
    let percent = |ppm: u64| format!("{:+.1} %", ppm as f64 / 1e4 - 100.0).replace('-', "−");
    format!(
        "advise predicted for {candidate} with {}: runtime {} ({} to {}) against unlimited memory, {} major faults ({} to {}) in a whole run",
        Bytes::new(prediction.memory_bytes).approx(),
        percent(runtime.median),
        percent(runtime.low),
        percent(runtime.high),
        faults.median,
        faults.low,
        faults.high,
    )
}
