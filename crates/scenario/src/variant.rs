//! Makes variants from a scenario: patches applied, the matrix expanded.

use crate::scope::Scope;
use crate::validate::Refused;
use crate::world::worlds_of;
use crate::{Scenario, ScenarioError, VariantSpec};
use isotherm_document::{KeyPath, culprit, from_value, to_table, with_suggestion};
use isotherm_kernel::reclaim::{AddedPolicies, POLICIES};
use isotherm_units::Amount;
use std::path::Path;

/// A variant ready to run: its name and the scenario it amounts to (without matrix and variants).
#[derive(Clone, Debug, PartialEq)]
pub struct Variant {
    pub name: String,
    pub scenario: Scenario,
    /// Workloads that it plays; empty: all.
    pub only: Vec<String>,
}

impl Variant {
    /// Whether the variant plays this workload.
    pub(crate) fn plays(&self, workload: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|only| only == workload)
    }
}

/// Keys that concern all variants together: in a patch they would be accepted and do nothing.
const OF_THE_WHOLE: &[&str] =
    &["name", "title", "run", "metrics", "matrix", "variants", "worlds", "averages", "references", "expectations"];

/// All variants, the matrix first. Without variants, the scenario itself is one, called `POLICY` or `POLICY@LIMIT`.
///
/// # Errors
/// A patch that does not give a scenario, or an unknown policy.
pub(crate) fn expand(scenario: &Scenario, policies: &AddedPolicies) -> Result<Vec<(Scope, Variant)>, Refused> {
    let base = Scenario { matrix: None, variants: Vec::new(), worlds: Vec::new(), ..scenario.clone() };
    let mut variants = Vec::new();
    for (at, name) in scenario.matrix.iter().flat_map(|matrix| matrix.policies.iter().enumerate()) {
        let policies: Vec<&str> =
            if name == "all" { POLICIES.iter().map(|entry| entry.name).collect() } else { vec![name] };
        for policy in policies {
            for (limit_at, &limit) in scenario.matrix.iter().flat_map(|matrix| matrix.limits.iter().enumerate()) {
                let scenario = Scenario { policy: policy.to_owned(), limit: Some(limit), ..base.clone() };
                let variant = Variant { name: name_of(policy, Some(limit)), scenario, only: Vec::new() };
                variants.push((Scope::Matrix { policy: at, limit: limit_at }, variant));
            }
        }
    }
    for (index, spec) in scenario.variants.iter().enumerate() {
        variants.push((Scope::Patch(index), patched(&base, index, spec)?));
    }
    if variants.is_empty() {
        let name = name_of(&base.policy, base.limit);
        variants.push((Scope::Whole, Variant { name, scenario: base, only: Vec::new() }));
    }
    for (index, (scope, Variant { name, scenario, .. })) in variants.iter().enumerate() {
        if let Err(error) = policies.check(&scenario.policy) {
            return Err(Refused::new("policy", error.to_string()).of(*scope));
        }
        if variants[..index].iter().any(|(_, earlier)| earlier.name == *name) {
            let path = match scope {
                Scope::Patch(index) => KeyPath::from("variants").at(*index).key("name"),
                _ => KeyPath::from("matrix"),
            };
            return Err(Refused::new(path, format!("two variants are called `{name}`; give each its own name")));
        }
    }
    Ok(variants)
}

/// All variants, with the files that their monitors name read from below `folder`. `place` is for messages.
///
/// # Errors
/// Errors of [`expand`], and of a file that cannot be taken over.
pub(crate) fn ready(
    scenario: &Scenario,
    place: &str,
    folder: &Path,
    policies: &AddedPolicies,
) -> Result<Vec<Variant>, ScenarioError> {
    let variants = expand(scenario, policies).map_err(|refused| ScenarioError::Meaning {
        place: format!("{place}: {}", refused.path),
        message: refused.message,
    })?;
    let mut variants: Vec<Variant> = variants.into_iter().map(|(_, variant)| variant).collect();
    for monitor in variants.iter_mut().flat_map(|variant| &mut variant.scenario.monitors) {
        let name = monitor.name.clone();
        monitor.resolve(folder).map_err(|message| ScenarioError::Monitor { monitor: name, message })?;
    }
    Ok(variants)
}

/// All variants in each of the scenario's worlds; in one, without any. A configuration that is named by its limit has the scenario's
/// limit in its name, regardless of the limit of the world.
///
/// # Errors
/// As [`ready`].
pub(crate) fn ready_in_worlds(
    scenario: &Scenario,
    place: &str,
    folder: &Path,
    policies: &AddedPolicies,
) -> Result<Vec<Vec<Variant>>, ScenarioError> {
    let names = ready(scenario, place, folder, policies)?;
    let mut worlds = Vec::new();
    for world in worlds_of(scenario) {
        let mut variants = ready(&world, place, folder, policies)?;
        for (variant, named) in variants.iter_mut().zip(&names) {
            variant.name.clone_from(&named.name);
        }
        worlds.push(variants);
    }
    Ok(worlds)
}

/// Variant number `index`: `base` with its patch.
fn patched(base: &Scenario, index: usize, spec: &VariantSpec) -> Result<Variant, Refused> {
    let place = KeyPath::from("variants").at(index).key("patch");
    let within = |message: &str| format!("variant `{}`: {message}", spec.name);
    if let Some(key) = OF_THE_WHOLE.iter().find(|key| spec.patch.contains_key(**key)) {
        let message = format!("a patch cannot change `{key}`; it is the scenario's as a whole");
        return Err(Refused::new(place.key(key), within(&message)));
    }
    let table = to_table(base).expect("scenario types are TOML tables");
    let apply = |patch: &toml::Table| {
        let mut table = table.clone();
        merge(&mut table, patch)?;
        from_value::<Scenario>(&toml::Value::Table(table)).map_err(|error| error.message().to_owned())
    };
    let refusal = |patch: &toml::Value| apply(patch.as_table()?).err();
    let scenario = apply(&spec.patch).map_err(|message| {
        let key = culprit(&toml::Value::Table(spec.patch.clone()), KeyPath::root(), &refusal);
        Refused::new(place.join(key), within(&with_suggestion(&message)))
    })?;
    Ok(Variant { name: spec.name.clone(), scenario, only: spec.only.clone() })
}

/// `classic@75%`.
pub fn name_of(policy: &str, limit: Option<Amount>) -> String {
    limit.map_or_else(|| policy.to_owned(), |limit| format!("{policy}@{limit}"))
}

/// Tables merge key by key; a table in place of a list of named tables changes its entries; everything else is replaced.
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
