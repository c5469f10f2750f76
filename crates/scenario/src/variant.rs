//! From a scenario to its variants: patches applied, the matrix expanded.

use crate::parse::with_suggestion;
use crate::{Scenario, ScenarioError};
use isotherm_sim::reclaim::{POLICIES, policy_by_name};
use isotherm_units::Amount;
use std::path::Path;

/// A variant ready to run: its name and the scenario it amounts to (without matrix and variants).
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Variant {
    pub(crate) name: String,
    pub(crate) scenario: Scenario,
    /// Workloads that it plays; empty: all.
    pub(crate) only: Vec<String>,
}

impl Variant {
    /// Whether it plays this workload.
    pub(crate) fn plays(&self, workload: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|only| only == workload)
    }
}

/// Keys that say something of all variants together: in a patch they would be accepted and do nothing.
const OF_THE_WHOLE: &[&str] =
    &["name", "title", "run", "metrics", "matrix", "variants", "averages", "references", "expectations"];

/// All variants, the matrix first. Without any, the scenario itself is one, called `POLICY` or `POLICY@LIMIT`.
///
/// # Errors
/// A patch that does not give a scenario, or an unknown policy.
pub(crate) fn expand(scenario: &Scenario, place: &str) -> Result<Vec<Variant>, ScenarioError> {
    let base = Scenario { matrix: None, variants: Vec::new(), ..scenario.clone() };
    let mut variants = Vec::new();
    if let Some(matrix) = &scenario.matrix {
        let all: Vec<String> = POLICIES.iter().map(|entry| entry.name.to_owned()).collect();
        let policies =
            matrix.policies.iter().flat_map(|name| if name == "all" { all.clone() } else { vec![name.clone()] });
        for policy in policies {
            for &limit in &matrix.limits {
                let scenario = Scenario { policy: policy.clone(), limit: Some(limit), ..base.clone() };
                variants.push(Variant { name: name_of(&policy, Some(limit)), scenario, only: Vec::new() });
            }
        }
    }
    for spec in &scenario.variants {
        if let Some(key) = OF_THE_WHOLE.iter().find(|key| spec.patch.contains_key(**key)) {
            let message = format!("a patch cannot change `{key}`; it is the scenario's as a whole");
            return Err(ScenarioError::Meaning { place: format!("{place}: variant `{}`", spec.name), message });
        }
        let mut table = toml::Table::try_from(&base).expect("scenario types are TOML tables");
        let wrong = |message: String| ScenarioError::Meaning {
            place: format!("{place}: variant `{}`", spec.name),
            message: with_suggestion(&message),
        };
        merge(&mut table, &spec.patch).map_err(wrong)?;
        let patched: Scenario = table.try_into().map_err(|error: toml::de::Error| wrong(error.message().to_owned()))?;
        variants.push(Variant { name: spec.name.clone(), scenario: patched, only: spec.only.clone() });
    }
    if variants.is_empty() {
        let name = name_of(&base.policy, base.limit);
        variants.push(Variant { name, scenario: base, only: Vec::new() });
    }
    for variant in &variants {
        check_policy(&variant.scenario.policy, place)?;
    }
    for (index, variant) in variants.iter().enumerate() {
        if variants[..index].iter().any(|earlier| earlier.name == variant.name) {
            let message = format!("two variants are called `{}`; give each its own name", variant.name);
            return Err(ScenarioError::Meaning { place: place.to_owned(), message });
        }
    }
    Ok(variants)
}

/// All variants, with the files that their monitors name read from below `folder`.
///
/// # Errors
/// As [`expand`], and a file that cannot be taken over.
pub(crate) fn ready(scenario: &Scenario, place: &str, folder: &Path) -> Result<Vec<Variant>, ScenarioError> {
    let mut variants = expand(scenario, place)?;
    for monitor in variants.iter_mut().flat_map(|variant| &mut variant.scenario.monitors) {
        let name = monitor.name.clone();
        monitor.resolve(folder).map_err(|message| ScenarioError::Monitor { monitor: name, message })?;
    }
    Ok(variants)
}

/// `classic@75%`.
pub(crate) fn name_of(policy: &str, limit: Option<Amount>) -> String {
    limit.map_or_else(|| policy.to_owned(), |limit| format!("{policy}@{limit}"))
}

fn check_policy(name: &str, place: &str) -> Result<(), ScenarioError> {
    let known = policy_by_name(name).map(|_| ());
    known.map_err(|error| ScenarioError::Meaning { place: format!("{place}: policy"), message: error.to_string() })
}

/// Tables merge key by key; a table over a list of named tables changes these; everything else is replaced.
///
/// # Errors
/// A name that no table of a list has.
fn merge(base: &mut toml::Table, patch: &toml::Table) -> Result<(), String> {
    for (key, value) in patch {
        match (base.get_mut(key), value) {
            (Some(toml::Value::Table(base)), toml::Value::Table(patch)) => merge(base, patch)?,
            (Some(toml::Value::Array(list)), toml::Value::Table(patch)) => merge_list(key, list, patch)?,
            _ => {
                base.insert(key.clone(), value.clone());
            }
        }
    }
    Ok(())
}

fn merge_list(key: &str, list: &mut [toml::Value], patch: &toml::Table) -> Result<(), String> {
    let name_of = |entry: &toml::Value| {
        let entry = entry.as_table()?;
        ["name", "path"].iter().find_map(|key| entry.get(*key)?.as_str()).map(str::to_owned)
    };
    let names: Vec<Option<String>> = list.iter().map(name_of).collect();
    for (wanted, change) in patch {
        let is_meant = |name: &Option<String>| wanted == "*" || name.as_ref() == Some(wanted);
        if !names.iter().any(is_meant) {
            let known: Vec<String> = names.iter().flatten().map(|name| format!("`{name}`")).collect();
            return Err(format!(
                "unknown entry `{wanted}` of `{key}`, expected `*` for all, or one of {}",
                known.join(", ")
            ));
        }
        for (entry, _) in list.iter_mut().zip(&names).filter(|(_, name)| is_meant(name)) {
            match (entry, change) {
                (toml::Value::Table(entry), toml::Value::Table(change)) => merge(entry, change)?,
                (entry, change) => *entry = change.clone(),
            }
        }
    }
    Ok(())
}
