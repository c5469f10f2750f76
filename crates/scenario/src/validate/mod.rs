//! Further conditions of a well-formed scenario, section by section. Checks name the key; the document knows its place.

mod events;
mod groups;
mod machine;
mod results;
pub use results::unknown_metric;

use crate::scope::Scope;
use crate::variant::{self, Variant};
use crate::{RunMode, Scenario, daemons, monitoring, world};
use isotherm_core::daemon::DAEMONS;
use isotherm_document::{KeyPath, nearest};
use isotherm_kernel::reclaim::AddedPolicies;
use isotherm_units::Duration;
use std::path::Path;

/// An invalid key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refused {
    /// The scenario or variant that the key is of.
    pub(crate) scope: Scope,
    pub(crate) path: KeyPath,
    /// The error, the allowed values and the way out.
    pub(crate) message: String,
}

pub(crate) type Checked = Result<(), Refused>;

impl Refused {
    /// A key of the scenario itself, or of each variant that sets it.
    pub(crate) fn new(path: impl Into<KeyPath>, message: impl Into<String>) -> Self {
        Self { scope: Scope::Whole, path: path.into(), message: message.into() }
    }

    /// Place of the same key in a variant.
    pub(crate) fn of(self, scope: Scope) -> Self {
        Self { scope, ..self }
    }

    fn err<T>(path: impl Into<KeyPath>, message: impl Into<String>) -> Result<T, Self> {
        Err(Self::new(path, message))
    }
}

/// Checks a scenario and all its variants. Relative paths of files that monitors name start at `folder`.
pub(crate) fn validate(scenario: &Scenario, folder: &Path, policies: &AddedPolicies) -> Checked {
    results::metrics(scenario)?;
    results::averages(scenario)?;
    for (nth, world) in scenario.worlds.iter().enumerate() {
        let own = Scenario { references: Vec::new(), expectations: Vec::new(), ..world.of(scenario, nth) };
        validate(&own, folder, policies).map_err(|refused| Refused {
            scope: Scope::Whole,
            path: KeyPath::from("worlds").at(nth),
            message: format!("world {}: {}", nth + 1, refused.message),
        })?;
    }
    let mut variants = variant::expand(scenario, policies)?;
    let names: Vec<String> = variants.iter().map(|(_, variant)| variant.name.clone()).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    results::references(scenario, &names)?;
    results::expectations(scenario, &names)?;
    let has_several = variants.len() > 1;
    for (scope, variant) in &mut variants {
        if !scenario.worlds.is_empty() {
            world::check_repeats(&variant.scenario).map_err(|refused| refused.of(*scope))?;
        }
        let checked = monitoring::files(&mut variant.scenario, folder).and_then(|()| check(&variant.scenario, *scope));
        checked.and_then(|()| only(variant, *scope)).map_err(|refused| {
            let message = refused.message;
            let message = if has_several { format!("variant `{}`: {message}", variant.name) } else { message };
            Refused { message, ..refused }
        })?;
    }
    let of_variants = variants.iter().map(|(scope, variant)| (*scope, &variant.scenario.against));
    for (scope, against) in std::iter::once((Scope::Whole, &scenario.against)).chain(of_variants) {
        if let Some(against) = against.as_deref().filter(|against| !names.contains(against)) {
            let message = format!("`against` names `{against}`, which is no variant; variants: {}", names.join(", "));
            return Err(Refused::new("against", message).of(scope));
        }
    }
    Ok(())
}

/// Checks one variant.
fn check(scenario: &Scenario, scope: Scope) -> Checked {
    if scenario.repeats == 0 {
        return Err(Refused::new("repeats", "`repeats` is 0; allowed: 1 or more").of(scope));
    }
    if scenario.until == Duration::ZERO {
        return Err(Refused::new("until", "`until` is 0, and nothing would run; allowed: 1ns or more").of(scope));
    }
    if scenario.workloads.is_empty() {
        let message = "there is no workload; add a `[[workloads]]` table";
        return Err(Refused::new("workloads", message).of(scope));
    }
    let sections = [machine::machine, machine::nodes, groups::cgroups, groups::workloads, groups::limits];
    let daemons = DAEMONS.iter().map(|&kind| daemons::entry(kind).check);
    let mut sections = sections.into_iter().chain(daemons).chain([events::events as fn(&Scenario) -> Checked]);
    sections.try_for_each(|section| section(scenario)).map_err(|refused| refused.of(scope))
}

/// Workloads that a variant plays.
fn only(variant: &Variant, scope: Scope) -> Checked {
    let Scope::Patch(index) = scope else { return Ok(()) };
    let place = KeyPath::from("variants").at(index).key("only");
    if !variant.only.is_empty() && variant.scenario.run == RunMode::Together {
        return Refused::err(place, "`only` needs `run = \"each\"`: together, workloads are one machine");
    }
    let known: Vec<&str> = variant.scenario.workloads.iter().map(|workload| workload.name.as_str()).collect();
    for (nth, name) in variant.only.iter().enumerate() {
        if !known.contains(&name.as_str()) {
            let message = format!("`only` names `{name}`, which is no workload{}", did_you_mean(name, &known));
            return Refused::err(place.at(nth), message);
        }
    }
    Ok(())
}

/// `; did you mean …?` if one of the names is like `wrong`.
pub(crate) fn did_you_mean(wrong: &str, names: &[&str]) -> String {
    nearest(wrong, names.iter().copied()).map(|near| format!("; did you mean `{near}`?")).unwrap_or_default()
}
