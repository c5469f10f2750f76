//! `cargo xtask licences`: every dependency is under a licence on the list, and none has a known vulnerability.
//!
//! `deny.toml` is the list. cargo-deny checks all of it where it is installed. Its advisory database is fetched from the
//! network: where that cannot be reached, licences are checked all the same, and one line says what was not.

use std::process::Command;

use crate::{Findings, spdx, workspace};

/// Runs cargo-deny if there is one, and reads the licences from `cargo metadata` otherwise.
pub(crate) fn run() -> Findings {
    let has_deny = Command::new("cargo-deny").arg("--version").output().is_ok_and(|output| output.status.success());
    if !has_deny {
        println!("licences: advisories are not checked: no cargo-deny here (`cargo install cargo-deny --locked`)");
        return from_metadata().unwrap_or_else(|error| vec![error]);
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

fn from_metadata() -> Result<Findings, String> {
    let path = workspace::root().join("deny.toml");
    let text = std::fs::read_to_string(&path).map_err(|error| format!("cannot read deny.toml: {error}"))?;
    let list = AllowList::parse(&text)?;
    let metadata = workspace::metadata(true)?;
    let mut findings = Findings::new();
    for package in workspace::packages(&metadata) {
        let name = package["name"].as_str().unwrap_or("?");
        let version = package["version"].as_str().unwrap_or("?");
        let Some(licence) = package["license"].as_str() else {
            findings.push(format!("{name} {version} names no licence"));
            continue;
        };
        match spdx::is_met(licence, &|one| list.allows(name, one)) {
            Ok(true) => {}
            Ok(false) => {
                findings.push(format!("{name} {version} is under `{licence}`, which deny.toml does not allow"))
            }
            Err(error) => findings.push(format!("{name} {version}: {error}")),
        }
    }
    println!("licences: {} packages looked at", workspace::packages(&metadata).len());
    Ok(findings)
}

/// The part of `deny.toml` that says which licences are allowed: for all, and for single packages.
#[derive(Debug, Default, PartialEq, Eq)]
struct AllowList {
    all: Vec<String>,
    single: Vec<(String, String)>,
}

impl AllowList {
    /// Reads `allow = [ … ]` and the lines `{ name = "…", allow = ["…"] }` of `exceptions`, one a line.
    fn parse(text: &str) -> Result<Self, String> {
        let mut list = Self::default();
        let mut in_allow = false;
        for line in text.lines().map(|line| line.split('#').next().unwrap_or("").trim()) {
            let quoted: Vec<String> = line.split('"').skip(1).step_by(2).map(str::to_owned).collect();
            if line.starts_with("{ name = ") || line.starts_with("{ crate = ") {
                let (name, licences) = quoted.split_first().ok_or("deny.toml: an exception without a name")?;
                list.single.extend(licences.iter().map(|licence| (name.clone(), licence.clone())));
            } else if line.starts_with("allow = [") || in_allow {
                list.all.extend(quoted);
                in_allow = !line.contains(']');
            }
        }
        if list.all.is_empty() { Err("deny.toml allows no licence at all".into()) } else { Ok(list) }
    }

    fn allows(&self, package: &str, licence: &str) -> bool {
        self.all.iter().any(|one| one == licence)
            || self.single.iter().any(|(name, one)| name == package && one == licence)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_is_read_and_holds_for_whom_it_names() {
        let text = "[licenses]\nallow = [\n  \"MIT\", # why\n  \"Zlib\",\n]\nexceptions = [\n  \
                    { name = \"tracer\", allow = [\"GPL-2.0\"] },\n]\n[sources]\nallow-registry = [\"x\"]\n";
        let list = AllowList::parse(text).unwrap();
        assert_eq!(list.all, ["MIT", "Zlib"]);
        assert!(list.allows("any", "Zlib") && list.allows("tracer", "GPL-2.0") && !list.allows("any", "GPL-2.0"));
        assert!(AllowList::parse("[licenses]\n").is_err());
    }
}
