//! The test programs: built by one call of cargo for each workspace, and which cases each of them has.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::{Findings, workspace};

/// Targets of one call of cargo. Without benches: compiling them takes a quarter of the build, and they are linted next to the cases.
///
/// Without `xtask`: it links the crates of procedural macros, which cargo would then build in another form for both, and with them
/// every package that derives something.
const BUILD: &[&str] =
    &["build", "--locked", "--workspace", "--exclude", "xtask", "--lib", "--bins", "--tests", "--examples"];
const BUILD_XTASK: &[&str] = &["build", "--locked", "--package", "xtask", "--all-targets"];
const BUILD_LAB: &[&str] = &["build", "--locked", "--workspace", "--lib", "--bins", "--tests"];

/// One program of cases.
pub(super) struct Program {
    /// Of cargo, without `isotherm-`.
    pub(super) package: String,
    /// `unit` for cases in the sources, `tests` for those below `tests/`.
    pub(super) kind: &'static str,
    pub(super) path: PathBuf,
    /// Cargo runs tests in the folder of their package.
    pub(super) folder: PathBuf,
    /// Of the lab, whose cases all run at night.
    pub(super) is_of_lab: bool,
}

/// One case of a program.
pub(super) struct Case {
    pub(super) name: String,
    /// It is marked `#[ignore = "nightly: …"]`, or of the lab.
    pub(super) is_nightly: bool,
}

/// What a build came to.
pub(super) struct Built {
    /// The test programs, sorted.
    pub(super) programs: Vec<Program>,
    /// What the compiler and its lints say of the workspace's packages.
    pub(super) lints: Findings,
}

/// Has cargo compile the workspace's packages with clippy's driver: a compiler that lints what it compiles. A stage of its own for lints
/// compiles everything twice.
pub(super) fn linted(command: &mut Command) -> &mut Command {
    command.env("RUSTC_WORKSPACE_WRAPPER", "clippy-driver")
}

/// Builds all of [`BUILD`], and of the lab if `with_lab`.
///
/// # Errors
/// The build fails. What the lints find fails no build, or the cases of all that depends on a package would wait for its style.
pub(super) fn build(with_lab: bool) -> Result<Built, String> {
    let mut messages = messages(&workspace::root(), BUILD)?;
    messages.extend(self::messages(&workspace::root(), BUILD_XTASK)?);
    if with_lab {
        messages.extend(self::messages(&workspace::lab(), BUILD_LAB)?);
    }
    let artifacts = messages.iter().filter(|message| message["reason"] == "compiler-artifact");
    let mut programs: Vec<Program> =
        artifacts.filter(|artifact| artifact["profile"]["test"] == true).filter_map(program).collect();
    programs.sort_by(|one, other| (&one.package, one.kind, &one.path).cmp(&(&other.package, other.kind, &other.path)));
    // A library is compiled twice, for its unit tests too, and says the same both times.
    let lints: BTreeSet<String> = messages.iter().filter_map(lint).collect();
    Ok(Built { programs, lints: lints.into_iter().collect() })
}

/// What cargo says while it builds with `arguments`. Errors of a build that fails are printed.
fn messages(workspace: &Path, arguments: &[&str]) -> Result<Vec<Value>, String> {
    let mut command = workspace::cargo_in(workspace);
    linted(&mut command).args(arguments).args(["--keep-going", "--message-format=json"]);
    let output = command.stderr(Stdio::inherit()).output().map_err(|error| format!("cannot run cargo: {error}"))?;
    let messages = String::from_utf8_lossy(&output.stdout);
    let messages: Vec<Value> = messages.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    if !output.status.success() {
        let lints: BTreeSet<String> = messages.iter().filter_map(lint).collect();
        lints.iter().for_each(|lint| eprintln!("{lint}"));
        return Err(format!("`cargo {}` failed in {}; see above", arguments.join(" "), workspace.display()));
    }
    Ok(messages)
}

/// What a message says of a place in the sources. Other messages of the compiler sum these up.
fn lint(message: &Value) -> Option<String> {
    let message = (message["reason"] == "compiler-message").then_some(&message["message"])?;
    let has_place = message["spans"].as_array().is_some_and(|spans| !spans.is_empty());
    (has_place && message["level"] != "note").then(|| message["rendered"].as_str().unwrap_or_default().to_owned())
}

fn program(artifact: &Value) -> Option<Program> {
    let path = PathBuf::from(artifact["executable"].as_str()?);
    let manifest = PathBuf::from(artifact["manifest_path"].as_str()?);
    let folder = manifest.parent()?.to_path_buf();
    // `path+file:///…/crates/sim#isotherm-sim@0.1.0`, or `…/xtask#0.1.0` where the folder has the package's name.
    let id = artifact["package_id"].as_str()?;
    let name = id.rsplit_once('#').map_or(id, |(_, end)| end).split('@').next()?;
    let name = if name.starts_with(|c: char| c.is_ascii_digit()) { folder.file_name()?.to_str()? } else { name };
    let kind = if artifact["target"]["kind"] == serde_json::json!(["test"]) { "tests" } else { "unit" };
    let is_of_lab = folder.starts_with(workspace::lab());
    Some(Program { package: name.trim_start_matches("isotherm-").to_owned(), kind, path, folder, is_of_lab })
}

impl Program {
    /// Its cases, as it lists them.
    pub(super) fn cases(&self) -> Result<Vec<Case>, String> {
        let nightly = self.listed(&["--ignored"])?;
        let is_nightly = |name: &String| self.is_of_lab || nightly.contains(name);
        let all = self.listed(&[])?;
        Ok(all.into_iter().map(|name| Case { is_nightly: is_nightly(&name), name }).collect())
    }

    fn listed(&self, more: &[&str]) -> Result<Vec<String>, String> {
        let mut command = self.command();
        let output = command.args(["--list", "--format", "terse"]).args(more).output();
        let output = output.map_err(|error| format!("cannot run {}: {error}", self.path.display()))?;
        if !output.status.success() {
            return Err(format!("{} does not list its cases", self.path.display()));
        }
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        Ok(text.lines().filter_map(|line| line.strip_suffix(": test")).map(str::to_owned).collect())
    }

    /// The command that runs it as cargo would.
    pub(super) fn command(&self) -> Command {
        let mut command = Command::new(&self.path);
        command.current_dir(&self.folder).env("CARGO_MANIFEST_DIR", &self.folder).stdin(Stdio::null());
        command
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_of_a_place_is_a_finding() {
        let message = |reason: &str, level: &str, spans: &[u8]| {
            serde_json::json!({
                "reason": reason, "message": { "level": level, "spans": spans, "rendered": format!("{level}: why\n") }
            })
        };
        assert_eq!(lint(&message("compiler-message", "warning", &[1])).as_deref(), Some("warning: why\n"));
        assert_eq!(lint(&message("compiler-message", "warning", &[])), None, "the sum of them");
        assert_eq!(lint(&message("compiler-artifact", "warning", &[1])), None);
        assert_eq!(lint(&message("compiler-message", "note", &[1])), None);
    }
}
