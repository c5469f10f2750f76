//! `cargo xtask licences`: every dependency is under a licence on the list, and none has a known vulnerability.
//!
//! `deny.toml` is the list, and cargo-deny reads it. Where that is not installed, one line says how to get it, and nothing is
//! checked; with `ISOTHERM_REQUIRE_ALL=1`, as in CI, that fails. Its advisory database is fetched from the network: where that
//! cannot be reached, licences are checked all the same, and one line says what was not.

use std::process::Command;

use crate::{Findings, workspace};

/// Runs cargo-deny.
pub(crate) fn run() -> Findings {
    let has_deny = Command::new("cargo-deny").arg("--version").output().is_ok_and(|output| output.status.success());
    if !has_deny {
        return without_deny(std::env::var_os("ISOTHERM_REQUIRE_ALL").is_some_and(|value| value == "1"));
    }
    let mut findings = Findings::new();
    if let Err(text) = deny(&["licenses", "bans", "sources"]) {
        findings.push(format!("{text}\n`cargo deny check licenses bans sources` failed"));
    }
    match deny(&["advisories"]) {
        Ok(()) => {}
        Err(text) if database_missing(&text) => {
            println!("licences: advisories are not checked: the advisory database cannot be fetched from here");
        }
        Err(text) => findings.push(format!("{text}\n`cargo deny check advisories` failed")),
    }
    findings
}

fn deny(checks: &[&str]) -> Result<(), String> {
    let output = workspace::cargo().args(["deny", "--all-features", "check"]).args(checks).output();
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
    let text = "licences and advisories are not checked: cargo-deny is missing; `cargo install --locked cargo-deny`, or \
                `make test`, installs it";
    if is_required {
        return vec![format!("{text}; ISOTHERM_REQUIRE_ALL=1, so this is an error")];
    }
    println!("licences: {text}");
    Findings::new()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_cargo_deny_it_passes_but_where_all_is_required() {
        assert_eq!(without_deny(false), Findings::new());
        let findings = without_deny(true);
        assert!(findings.len() == 1 && findings[0].contains("`cargo install --locked cargo-deny`"), "{findings:?}");
    }

    #[test]
    fn a_database_that_cannot_be_fetched_is_no_advisory() {
        assert!(database_missing("error: failed to fetch advisory database https://github.com/RustSec/advisory-db"));
        assert!(!database_missing("error[vulnerability]: out of bounds in x"));
    }
}
