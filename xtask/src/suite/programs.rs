//! The test programs: built by one call of cargo for each workspace, and which cases each of them has.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::workspace;

/// Targets of one call of cargo: libraries (the Python package's too), programs, and every test program. Benches are not run here, and
/// `clippy` has compiled them.
///
/// Without `xtask`: it links the crates of procedural macros, which cargo would then build in another form for both, and with them
/// every package that derives something.
pub(super) const BUILD: &[&str] =
    &["build", "--locked", "--workspace", "--exclude", "xtask", "--lib", "--bins", "--tests", "--examples"];
const BUILD_XTASK: &[&str] = &["build", "--locked", "--package", "xtask", "--tests"];
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

/// Builds all of [`BUILD`], and of the lab if `with_lab`, and returns the test programs, sorted.
///
/// # Errors
/// The build fails.
pub(super) fn build(with_lab: bool) -> Result<Vec<Program>, String> {
    let mut artifacts = artifacts(&workspace::root(), BUILD)?;
    artifacts.extend(self::artifacts(&workspace::root(), BUILD_XTASK)?);
    if with_lab {
        artifacts.extend(self::artifacts(&workspace::lab(), BUILD_LAB)?);
    }
    let mut programs: Vec<Program> = artifacts.iter().filter(is_test).filter_map(program).collect();
    programs.sort_by(|one, other| (&one.package, one.kind, &one.path).cmp(&(&other.package, other.kind, &other.path)));
    Ok(programs)
}

/// Artifacts that cargo builds with `arguments`: a message each.
fn artifacts(workspace: &Path, arguments: &[&str]) -> Result<Vec<Value>, String> {
    let mut command = workspace::cargo_in(workspace);
    command.args(arguments).arg("--message-format=json-render-diagnostics");
    let output = command.stderr(Stdio::inherit()).output().map_err(|error| format!("cannot run cargo: {error}"))?;
    if !output.status.success() {
        return Err(format!("`cargo {}` failed in {}; see above", arguments.join(" "), workspace.display()));
    }
    let messages = String::from_utf8_lossy(&output.stdout);
    let messages = messages.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    Ok(messages.filter(|message| message["reason"] == "compiler-artifact").collect())
}

fn is_test(artifact: &&Value) -> bool {
    artifact["profile"]["test"] == true
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
