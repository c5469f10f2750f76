//! Rules for `Cargo.toml`: lints are the workspace's, licences are ours, dependencies point downward.

use super::File;
use crate::Findings;

/// Which of our crates each crate may use. A crate that is not here gets a line when it is made.
const DOWNWARD: &[(&str, &[&str])] = &[
    ("crates/units", &[]),
    ("crates/testing", &[]),
    ("crates/core", &["units"]),
    ("crates/trace", &["units"]),
    ("crates/workload", &["units", "trace"]),
    ("crates/sim", &["units", "core"]),
    ("crates/report", &["units", "trace"]),
    ("crates/linux", &["units", "core"]),
    ("crates/recorder", &["units", "trace", "daemon"]),
    ("crates/daemon", &["units", "core"]),
    ("crates/top", &["units", "trace", "report"]),
    ("crates/scenario", &["units", "core", "trace", "workload", "sim"]),
    ("crates/answers", &["units", "trace", "sim", "scenario", "report"]),
    (
        "crates/cli",
        &[
            "units", "core", "trace", "workload", "sim", "scenario", "report", "answers", "sweep", "linux", "daemon",
            "recorder", "top", "terminal",
        ],
    ),
    ("crates/sweep", &["units", "trace", "workload", "scenario"]),
    ("crates/terminal", &["trace", "scenario", "report"]),
    ("lab/rig", &["units", "trace", "workload", "guest"]),
    ("lab/fidelity", &["units", "core", "trace", "workload", "sim", "rig", "guest"]),
    ("lab/guest", &[]),
    ("lab/cli", &["units", "trace", "sim", "workload", "scenario", "report", "terminal", "guest", "rig", "fidelity"]),
    (
        "fuzz",
        &["units", "core", "trace", "workload", "scenario", "linux", "daemon", "recorder", "top", "guest", "fidelity"],
    ),
    ("python", &["units", "trace", "workload", "sim", "scenario", "report", "answers", "sweep"]),
    ("xtask", &[]),
];

pub(super) fn check(files: &[File], findings: &mut Findings) {
    for file in files.iter().filter(|file| file.path != "Cargo.toml") {
        let Some(folder) = file.path.strip_suffix("/Cargo.toml") else { continue };
        check_one(folder, file, findings);
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
        // Tests and benches may look upward; programs may not.
        let Some(rest) = line.strip_prefix("isotherm-").filter(|_| section == "[dependencies]") else { continue };
        let used = rest.split(['.', ' ', '=']).next().unwrap_or("");
        if !allowed.contains(&used) {
            findings.push(file.at(index, &format!("{folder} may not depend on isotherm-{used}: downward only")));
        }
    }
}
