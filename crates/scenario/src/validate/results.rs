//! Checks of the parts about results: metrics, averages, references, expectations.

use super::{Checked, Refused, did_you_mean};
use crate::expectations::ExpectationSpec;
use crate::metrics::{METRICS, metric_named};
use crate::{Reference, Scenario};
use isotherm_document::KeyPath;

fn metric_names() -> Vec<&'static str> {
    METRICS.iter().map(|metric| metric.name).collect()
}

fn workload_names(scenario: &Scenario) -> Vec<&str> {
    scenario.workloads.iter().map(|workload| workload.name.as_str()).collect()
}

/// Names that a row of results may have.
fn row_names(scenario: &Scenario) -> Vec<&str> {
    let averages = scenario.averages.iter().map(|average| average.name.as_str());
    workload_names(scenario).into_iter().chain(["system"]).chain(averages).collect()
}

/// Message for an unknown metric: with the nearest name, if one is similar.
pub fn unknown_metric(name: &str) -> String {
    let hint = did_you_mean(name, &metric_names());
    let hint = if hint.is_empty() { "; some are runtime_ns, major_faults, mean_bytes.".to_owned() } else { hint };
    format!("unknown metric `{name}`{hint} docs/use/report.md#results has all")
}

pub(super) fn metrics(scenario: &Scenario) -> Checked {
    for (index, name) in scenario.metrics.iter().enumerate() {
        if metric_named(name).is_none() {
            return Refused::err(KeyPath::from("metrics").at(index), unknown_metric(name));
        }
    }
    Ok(())
}

pub(super) fn averages(scenario: &Scenario) -> Checked {
    let known = workload_names(scenario);
    for (index, average) in scenario.averages.iter().enumerate() {
        let (name, place) = (&average.name, KeyPath::from("averages").at(index));
        let taken = name == "system" || known.contains(&name.as_str());
        if name.is_empty() || taken || scenario.averages[..index].iter().any(|earlier| earlier.name == *name) {
            let message = format!(
                "`{name}` cannot name an average; allowed: what names no workload, no other average, and is not `system`"
            );
            return Refused::err(place.key("name"), message);
        }
        for (at, workload) in average.workloads.iter().enumerate() {
            let place = place.clone().key("workloads").at(at);
            if !known.contains(&workload.as_str()) {
                let hint = did_you_mean(workload, &known);
                let known = known.join(", ");
                let message =
                    format!("average `{name}` names `{workload}`, which is no workload; workloads: {known}{hint}");
                return Refused::err(place, message);
            }
            if average.workloads[..at].contains(workload) {
                return Refused::err(place, format!("average `{name}` names `{workload}` twice; name it once"));
            }
        }
    }
    Ok(())
}

/// A reference without a possible row would never be shown.
pub(super) fn references(scenario: &Scenario, variants: &[&str]) -> Checked {
    let (workloads, metrics) = (row_names(scenario), metric_names());
    for (index, reference) in scenario.references.iter().enumerate() {
        let Reference { workload, variant, metric, value, low, high, against, .. } = reference;
        let fail = |key: &str, message: String| {
            let message = format!("reference of `{metric}` of `{workload}` under `{variant}`: {message}");
            Refused::err(KeyPath::from("references").at(index).join(key), message)
        };
        let named = [
            ("workload", "workload", Some(workload), &workloads[..]),
            ("variant", "variant", Some(variant), variants),
            ("metric", "metric", Some(metric), &metrics[..]),
            ("against", "variant", against.as_ref(), variants),
        ];
        for (key, what, name, known) in named {
            if let Some(name) = name.filter(|name| !known.contains(&name.as_str())) {
                return fail(key, format!("`{name}` is no {what}{}", did_you_mean(name, known)));
            }
        }
        match (value, low, high) {
            (None, None, None) => return fail("value", "give `value`, or `low` and `high`".to_owned()),
            (_, Some(_), None) => return fail("low", "`low` and `high` come together; give both".to_owned()),
            (_, None, Some(_)) => return fail("high", "`low` and `high` come together; give both".to_owned()),
            (_, Some(low), Some(high)) if low > high => {
                return fail("low", format!("`low` ({low}) is above `high` ({high})"));
            }
            (Some(value), Some(low), Some(high)) if !(low..=high).contains(&value) => {
                return fail("value", format!("`value` ({value}) lies outside of {low} to {high}"));
            }
            _ => {}
        }
    }
    Ok(())
}

/// An expectation without a possible row, or without bounds, would always be missed or met.
pub(super) fn expectations(scenario: &Scenario, variants: &[&str]) -> Checked {
    let (workloads, metrics) = (row_names(scenario), metric_names());
    for (index, expected) in scenario.expectations.iter().enumerate() {
        let ExpectationSpec { workload, variant, metric, against, at_least, at_most, .. } = expected;
        let fail = |key: &str, message: String| {
            let message = format!("expectation of `{metric}` of `{workload}` under `{variant}`: {message}");
            Refused::err(KeyPath::from("expectations").at(index).join(key), message)
        };
        let named = [
            ("workload", "workload", Some(workload), &workloads[..]),
            ("variant", "variant", Some(variant), variants),
            ("against", "variant", against.as_ref(), variants),
            ("metric", "metric", Some(metric), &metrics[..]),
        ];
        for (key, what, name, known) in named {
            if let Some(name) = name.filter(|name| !known.contains(&name.as_str())) {
                return fail(key, format!("`{name}` is no {what}{}", did_you_mean(name, known)));
            }
        }
        match (at_least, at_most) {
            (None, None) => return fail("at-least", "give `at-least`, `at-most` or both".to_owned()),
            (Some(least), Some(most)) if least > most => {
                return fail("at-least", format!("`at-least` ({least}) is above `at-most` ({most})"));
            }
            _ => {}
        }
    }
    Ok(())
}
