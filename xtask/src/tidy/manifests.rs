//! Rules for `Cargo.toml`: lints are the workspace's, licences are ours, dependencies point downward.

use super::File;
use crate::Findings;

/// Which of our crates each crate may use. A new crate gets a line here.
const DOWNWARD: &[(&str, &[&str])] = &[
    ("crates/units", &[]),
    ("crates/testing", &[]),
    ("crates/core", &["units"]),
    ("crates/texts", &["units"]),
    ("crates/document", &[]),
    ("crates/trace", &["units"]),
    ("crates/workload", &["units", "trace"]),
    ("crates/kernel", &["units", "core", "texts"]),
    ("crates/sim", &["units", "core", "kernel"]),
    ("crates/report", &["units", "trace"]),
    ("crates/linux", &["units", "core", "texts"]),
    ("crates/recorder", &["units", "trace"]),
    ("crates/daemon", &["units", "core", "texts"]),
    ("crates/top", &["units", "trace", "report"]),
    ("crates/scenario", &["units", "core", "document", "trace", "workload", "kernel", "sim"]),
    ("crates/answers", &["units", "kernel", "scenario", "report"]),
    ("crates/advise", &["units", "core", "document", "trace", "workload", "kernel", "sim", "scenario", "report"]),
    (
        "crates/cli",
        &[
            "units",
            "core",
            "document",
            "texts",
            "trace",
            "workload",
            "kernel",
            "sim",
            "scenario",
            "report",
            "answers",
            "advise",
            "verify",
            "calibrate",
            "sweep",
            "linux",
            "daemon",
            "recorder",
            "top",
            "terminal",
        ],
    ),
    ("crates/calibrate", &["units", "texts", "kernel", "sim", "linux", "verify"]),
    ("crates/verify", &["units", "linux", "report", "scenario"]),
    ("crates/sweep", &["units", "document", "trace", "workload", "scenario"]),
    ("crates/terminal", &["units", "trace", "scenario", "report"]),
    ("lab/rig", &["units", "trace", "workload", "guest"]),
    ("lab/fidelity", &["units", "core", "texts", "trace", "workload", "kernel", "sim", "rig", "guest"]),
    ("lab/guest", &["texts"]),
    (
        "lab/cli",
        &[
            "units", "trace", "kernel", "sim", "workload", "scenario", "advise", "report", "terminal", "guest", "rig",
            "fidelity", "linux", "verify",
        ],
    ),
    (
        "fuzz",
        &["units", "core", "document", "texts", "trace", "workload", "scenario", "linux", "daemon", "recorder", "top"],
    ),
    (
        "python",
        &["units", "document", "trace", "workload", "kernel", "scenario", "report", "answers", "advise", "sweep"],
    ),
    ("xtask", &[]),
];

const WORKSPACES: [&str; 2] = ["Cargo.toml", "lab/Cargo.toml"];

/// Settings of both workspaces in which the lab differs: another version of a dependency, another lint or profile would build
/// packages twice, and test another build than the one used.
fn differences(product: &str, lab: &str) -> Findings {
    let (product, lab): (toml::Table, toml::Table) = match (product.parse(), lab.parse()) {
        (Ok(product), Ok(lab)) => (product, lab),
        (Err(error), _) | (_, Err(error)) => return vec![format!("Cargo.toml or lab/Cargo.toml: {error}")],
    };
    let mut findings = Findings::new();
    let tables = [
        ["workspace", "package"].as_slice(),
        &["workspace", "dependencies"],
        &["workspace", "lints", "rust"],
        &["workspace", "lints", "clippy"],
        &["profile", "dev"],
        &["profile", "dev", "package"],
        &["profile", "release"],
        &["profile", "release", "package"],
    ];
    for names in tables {
        let (ours, theirs) = (table_at(&product, names), table_at(&lab, names));
        for (key, value) in theirs.into_iter().flatten() {
            let known = ours.and_then(|table| table.get(key));
            // Paths lead to the same place from another folder; tables below have a line of their own.
            let is_compared = value.get("path").is_none() && key != "package";
            if is_compared && known.is_some_and(|known| known != value) {
                findings.push(format!("lab/Cargo.toml: `{key}` of [{}] differs from Cargo.toml's", names.join(".")));
            }
        }
    }
    findings
}

fn table_at<'t>(table: &'t toml::Table, names: &[&str]) -> Option<&'t toml::Table> {
    names.iter().try_fold(table, |table, name| table.get(*name)?.as_table())
}

pub(super) fn check(files: &[File], findings: &mut Findings) {
    for file in files.iter().filter(|file| !WORKSPACES.contains(&file.path.as_str())) {
        let Some(folder) = file.path.strip_suffix("/Cargo.toml") else { continue };
        check_one(folder, file, findings);
    }
    if let [Some(product), Some(lab)] = WORKSPACES.map(|path| files.iter().find(|file| file.path == path)) {
        findings.extend(differences(&product.text, &lab.text));
    }
    for licence in ["LICENSE-MIT", "LICENSE-APACHE", "recorder/valgrind/LICENSE"] {
        if files.iter().any(|file| file.path == "Cargo.toml") && !crate::workspace::root().join(licence).is_file() {
            findings.push(format!("{licence}: the licence's text is missing"));
        }
    }
}

fn check_one(folder: &str, file: &File, findings: &mut Findings) {
    if !file.text.contains("[lints]\nworkspace = true") {
        findings.push(format!("{}: does not take the workspace's lints (`[lints]` `workspace = true`)", file.path));
    }
    if !file.text.lines().any(|line| line == "license.workspace = true") {
        findings.push(format!("{}: the licence must be `license.workspace = true`", file.path));
    }
    let Some((_, allowed)) = DOWNWARD.iter().find(|(name, _)| *name == folder) else {
        findings.push(format!("{}: say in xtask/src/tidy/manifests.rs which of our crates it may use", file.path));
        return;
    };
    let mut section = "";
    for (index, line) in file.text.lines().enumerate() {
        if line.starts_with('[') {
            section = line;
        }
        // Tests and benches may depend upward; programs may not.
        let Some(rest) = line.strip_prefix("isotherm-").filter(|_| section == "[dependencies]") else { continue };
        let used = rest.split(['.', ' ', '=']).next().unwrap_or("");
        if !allowed.contains(&used) {
            findings.push(file.at(index, &format!("{folder} may not depend on isotherm-{used}: downward only")));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_lab_pins_otherwise_is_named() {
        let product = "[workspace.dependencies]\na = \"=1\"\nb = { path = \"b\" }\n[profile.dev.package]\nc = { opt-level = 1 }\n";
        let same = product.replace("path = \"b\"", "path = \"../b\"") + "d = { opt-level = 3 }\n";
        assert_eq!(differences(product, &same), Findings::new());
        let other = same.replace("=1", "=2").replace("opt-level = 1", "opt-level = 2");
        let found = differences(product, &other);
        assert!(found.len() == 2 && found[0].contains("`a` of [workspace.dependencies]"), "{found:?}");
        assert!(found[1].contains("`c` of [profile.dev.package]"), "{found:?}");
        assert_eq!(differences(product, "[").len(), 1);
    }
}
