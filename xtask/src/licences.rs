//! `cargo xtask licences`: every dependency comes from the registry, under a licence on the list of `deny.toml`.
//!
//! A change can break this. Advisories appear without a change of ours: [`advisories`] asks cargo-deny about them in the nightly run, and
//! checks the dependencies against all of `deny.toml`.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use serde_json::Value;
use spdx::{Expression, Licensee, ParseMode};

use crate::{Findings, workspace};

const LIST: &str = "deny.toml";
const REGISTRY: &str = "registry+https://github.com/rust-lang/crates.io-index";
/// As `scripts/install-test-needs` installs it for the nightly run.
const DENY: &str = "`cargo install --locked cargo-deny@0.20.2`";

/// Licences and sources of all dependencies.
pub(crate) fn run() -> Findings {
    let list = match std::fs::read_to_string(workspace::root().join(LIST)) {
        Ok(list) => list,
        Err(error) => return vec![format!("{LIST}: {error}")],
    };
    let allowed = match allowed(&list) {
        Ok(allowed) => allowed,
        Err(error) => return vec![error],
    };
    let of = |workspace: &Path| match workspace::dependencies(workspace) {
        Ok(metadata) => workspace::packages(&metadata).iter().filter_map(|package| judge(package, &allowed)).collect(),
        Err(error) => vec![error],
    };
    // A dependency of both is reported once.
    let findings: BTreeSet<String> = [workspace::root(), workspace::lab()].iter().flat_map(|one| of(one)).collect();
    findings.into_iter().collect()
}

/// `licenses.allow`.
fn allowed(list: &str) -> Result<Vec<Licensee>, String> {
    let table: toml::Table = list.parse().map_err(|error| format!("{LIST}: {error}"))?;
    let names = table.get("licenses").and_then(|table| table.get("allow")).and_then(toml::Value::as_array);
    let names = names.ok_or_else(|| format!("{LIST}: no list `licenses.allow`"))?;
    let licensee = |name: &toml::Value| {
        let name = name.as_str().unwrap_or_default();
        Licensee::parse(name).map_err(|error| format!("{LIST}: `{name}` is no licence: {error}"))
    };
    names.iter().map(licensee).collect()
}

/// The violation of a package of `cargo metadata`. Our own have no source; `tidy` checks their licences.
fn judge(package: &Value, allowed: &[Licensee]) -> Option<String> {
    let source = package["source"].as_str()?;
    let name = format!("{} {}", package["name"].as_str()?, package["version"].as_str()?);
    if source != REGISTRY {
        return Some(format!("{name} comes from {source}; only the registry is allowed"));
    }
    let Some(licence) = package["license"].as_str() else {
        return Some(format!("{name} names no licence"));
    };
    let expression = match Expression::parse_mode(licence, ParseMode::LAX) {
        Ok(expression) => expression,
        Err(error) => return Some(format!("{name}: the licence `{licence}` cannot be read: {}", error.reason)),
    };
    let is_allowed = expression.evaluate(|needed| allowed.iter().any(|licensee| licensee.satisfies(needed)));
    (!is_allowed).then(|| format!("{name} is under `{licence}`, which is not on the list of {LIST}"))
}

/// Known vulnerabilities, and all of `deny.toml`, by cargo-deny. If it is not installed, one line says how to get it, and nothing is
/// checked; with `ISOTHERM_REQUIRE_ALL=1` that fails. Its database comes from the network: if that is not reachable, one line says so.
pub(crate) fn advisories() -> Findings {
    let has_deny = Command::new("cargo-deny").arg("--version").output().is_ok_and(|output| output.status.success());
    if !has_deny {
        return without_deny(std::env::var_os("ISOTHERM_REQUIRE_ALL").is_some_and(|value| value == "1"));
    }
    [workspace::root(), workspace::lab()].iter().flat_map(|workspace| advisories_of(workspace)).collect()
}

fn advisories_of(workspace: &Path) -> Findings {
    let mut findings = Findings::new();
    if let Err(text) = deny(workspace, &["licenses", "bans", "sources"]) {
        findings.push(format!("{text}\n`cargo deny check licenses bans sources` failed in {}", workspace.display()));
    }
    match deny(workspace, &["advisories"]) {
        Ok(()) => {}
        Err(text) if database_missing(&text) => {
            println!("licences: advisories are not checked: the advisory database cannot be fetched from here");
        }
        Err(text) => findings.push(format!("{text}\n`cargo deny check advisories` failed in {}", workspace.display())),
    }
    findings
}

fn deny(workspace: &Path, checks: &[&str]) -> Result<(), String> {
    let list = workspace::root().join(LIST);
    let mut command = workspace::cargo_in(workspace);
    let output = command.args(["deny", "--all-features", "--config"]).arg(list).arg("check").args(checks).output();
    match output {
        Ok(output) if output.status.success() => Ok(()),
        Ok(output) => Err(String::from_utf8_lossy(&output.stderr).into_owned()),
        Err(error) => Err(format!("cannot run cargo deny: {error}")),
    }
}

fn database_missing(text: &str) -> bool {
    ["failed to fetch advisory database", "failed to clone", "failed to load advisory database", "unable to fetch"]
        .iter()
        .any(|phrase| text.contains(phrase))
}

fn without_deny(is_required: bool) -> Findings {
    let text = format!("advisories are not checked: cargo-deny is missing; {DENY}, or `make nightly`, installs it");
    if is_required {
        return vec![format!("{text}; ISOTHERM_REQUIRE_ALL=1, so this is an error")];
    }
    println!("licences: {text}");
    Findings::new()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(source: &str, licence: &str) -> Option<String> {
        let allowed = allowed("[licenses]\nallow = [\"MIT\", \"Apache-2.0 WITH LLVM-exception\"]").unwrap();
        let package = serde_json::json!({ "name": "p", "version": "1.0.0", "source": source, "license": licence });
        judge(&package, &allowed)
    }

    #[test]
    fn what_is_not_on_the_list_is_named() {
        for licence in ["MIT", "MIT OR GPL-3.0-only", "GPL-2.0/MIT", "MIT AND Apache-2.0 WITH LLVM-exception"] {
            assert_eq!(found(REGISTRY, licence), None, "{licence}");
        }
        for (licence, part) in [
            ("GPL-3.0-only", "p 1.0.0 is under `GPL-3.0-only`, which is not on the list"),
            ("MIT AND Apache-2.0", "not on the list"),
            ("none of them", "cannot be read"),
            ("", "cannot be read"),
        ] {
            let why = found(REGISTRY, licence).unwrap();
            assert!(why.contains(part), "{why}");
        }
        assert!(found("git+https://example.org/p", "MIT").unwrap().contains("only the registry is allowed"));
    }

    #[test]
    fn the_list_itself_is_checked() {
        for (list, part) in
            [("x", "deny.toml"), ("", "no list"), ("[licenses]\nallow = [\"MYT\"]", "`MYT` is no licence")]
        {
            let error = allowed(list).unwrap_err();
            assert!(error.contains(part), "{error}");
        }
    }

    #[test]
    fn without_cargo_deny_it_passes_but_where_all_is_required() {
        assert_eq!(without_deny(false), Findings::new());
        let findings = without_deny(true);
        assert!(findings.len() == 1 && findings[0].contains("`make nightly`"), "{findings:?}");
    }

    #[test]
    fn a_database_that_cannot_be_fetched_is_no_advisory() {
        assert!(database_missing("error: failed to fetch advisory database https://github.com/RustSec/advisory-db"));
        assert!(!database_missing("error[vulnerability]: out of bounds in x"));
    }
}
