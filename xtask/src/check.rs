//! `cargo xtask check`: everything that must hold before a commit and needs no run of a test. All steps run; findings are printed at
//! once, and again at the end.
//!
//! `cargo xtask check --fast` is for between commits: lints and unit tests of the packages that the branch has changed, each built as
//! `cargo test --package` builds it, so that nothing is built twice.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use crate::{Findings, commits, licences, tidy, workspace};

/// Called with a step's name and its work.
pub(crate) type Step<'a> = dyn FnMut(&'static str, &mut dyn FnMut() -> Findings) + 'a;

/// Runs all steps, or the fast ones: these need no kernels, no network and no root.
pub(crate) fn run(arguments: &[String]) -> Findings {
    let is_fast = match arguments {
        [] => false,
        [fast] if fast == "--fast" => true,
        _ => return vec![format!("`{}` is no argument of check; allowed: --fast", arguments.join(" "))],
    };
    let mut findings = Findings::new();
    let mut step = |name: &'static str, work: &mut dyn FnMut() -> Findings| {
        let start = Instant::now();
        let found = work();
        let verdict = if found.is_empty() { "ok" } else { "FAILED" };
        println!("check: {name}: {verdict} ({:.0} s)", start.elapsed().as_secs_f64());
        found.iter().for_each(|finding| println!("{finding}"));
        findings.extend(found);
    };
    if is_fast {
        style(&mut step);
        changed(&mut step);
    } else {
        before_build(&mut step);
        step("lints", &mut || lints(&workspace::root()));
        step("lints of the lab", &mut || lints(&workspace::lab()));
        step("documentation", &mut documentation);
    }
    findings
}

/// What a run of tests checks before it builds.
pub(crate) fn before_build(step: &mut Step<'_>) {
    style(step);
    step("licences", &mut licences::run);
}

/// Lints of what a run of tests does not build: benches, and the lab. It has them next to the cases, for they find little work for a second
/// processor.
pub(crate) fn lints_of_unbuilt() -> Findings {
    let benches = ["clippy", "--locked", "--workspace", "--keep-going", "--bench", "*", "--", "-D", "warnings"];
    lints(&workspace::lab()).into_iter().chain(cargo(&workspace::root(), &benches)).collect()
}

fn lints(workspace: &Path) -> Findings {
    cargo(workspace, &["clippy", "--locked", "--workspace", "--keep-going", "--all-targets", "--", "-D", "warnings"])
}

/// Whether the documentation of all items builds, without a broken link.
pub(crate) fn documentation() -> Findings {
    let document = |workspace: &PathBuf| {
        let mut command = workspace::cargo_in(workspace);
        command.args(["doc", "--locked", "--workspace", "--no-deps", "--document-private-items"]);
        run_cargo(command.env("RUSTDOCFLAGS", RUSTDOC))
    };
    both().iter().flat_map(document).collect()
}

/// Checks that need no compiler.
fn style(step: &mut Step<'_>) {
    step("format", &mut || {
        both().iter().flat_map(|workspace| cargo(workspace, &["fmt", "--all", "--check"])).collect()
    });
    step("house rules", &mut || tidy::run(&workspace::root()));
    // A subject in the history is no fault of a tree: it is printed, and nothing fails. The hook refuses it when it is written.
    commits::run(&workspace::root()).iter().for_each(|subject| println!("warning: {subject}"));
}

/// Lints and unit tests of the packages that the branch has changed.
fn changed(step: &mut Step<'_>) {
    let packages = match changed_packages() {
        Ok(packages) => packages,
        Err(error) => return step("packages", &mut || vec![error.clone()]),
    };
    if packages.is_empty() {
        println!("check: no package was changed since the upstream branch; `make check` lints all");
    }
    for Package { folder, workspace, name, targets } in &packages {
        println!("check: {folder} …");
        step("lints", &mut || {
            cargo(workspace, &["clippy", "--locked", "--package", name, "--all-targets", "--", "-D", "warnings"])
        });
        step("unit tests", &mut || {
            let test = ["test", "--quiet", "--no-fail-fast", "--locked", "--package", name];
            cargo(workspace, &[&test[..], targets].concat())
        });
    }
}

/// A package of one of the workspaces.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Package {
    /// Relative to the root of the checkout, with `/` at the end.
    folder: String,
    workspace: PathBuf,
    name: String,
    /// Targets with unit tests. cargo refuses `--lib` for a package without a library.
    targets: &'static [&'static str],
}

fn both() -> [PathBuf; 2] {
    [workspace::root(), workspace::lab()]
}

/// Packages with changed files, since the upstream branch, committed or not.
fn changed_packages() -> Result<BTreeSet<Package>, String> {
    let root = workspace::root();
    let files =
        commits::changed_files(&root).ok_or("git does not say what was changed here; `make check` checks all")?;
    let mut packages = Vec::new();
    for workspace in both() {
        let metadata = workspace::metadata(&workspace)?;
        // The cases of `isotherm-python` are in Python.
        let with_cases = workspace::packages(&metadata).iter().filter(|package| package["name"] != "isotherm-python");
        packages.extend(with_cases.filter_map(|package| {
            let folder = Path::new(package["manifest_path"].as_str()?).parent()?.strip_prefix(&root).ok()?;
            let name = package["name"].as_str()?.to_owned();
            let folder = format!("{}/", folder.to_str()?);
            Some(Package { folder, workspace: workspace.clone(), name, targets: unit_targets(package) })
        }));
    }
    // The longest folder that contains a file is its package's.
    packages.sort_by_key(|package| std::cmp::Reverse(package.folder.len()));
    let package = |file: &String| packages.iter().find(|package| file.starts_with(&package.folder)).cloned();
    Ok(files.iter().filter(|file| file.ends_with(".rs") || file.ends_with(".toml")).filter_map(package).collect())
}

fn unit_targets(package: &serde_json::Value) -> &'static [&'static str] {
    let targets = package["targets"].as_array().map(Vec::as_slice).unwrap_or_default();
    let has = |wanted: &str| targets.iter().any(|target| target["kind"][0] == wanted);
    // Other kinds: cdylib, proc-macro.
    if !has("lib") && has("bin") { &["--bins"] } else { &["--lib", "--bins"] }
}

/// Plays the runs of the digest test in a release build.
pub(crate) fn digests() -> Findings {
    let package = ["--package", "isotherm-scenario", "--test", "main", "digests::"];
    cargo(&workspace::root(), &[&["test", "--release", "--locked"][..], &package].concat())
}

/// Links to private items are allowed: these pages are for people who work on the code.
const RUSTDOC: &str = "-D warnings -A rustdoc::private-intra-doc-links";

/// Runs cargo in a workspace.
pub(crate) fn cargo(workspace: &Path, arguments: &[&str]) -> Findings {
    run_cargo(workspace::cargo_in(workspace).args(arguments))
}

pub(crate) fn run_cargo(command: &mut Command) -> Findings {
    let arguments: Vec<_> = command.get_args().map(|argument| argument.to_string_lossy()).collect();
    let line = format!("cargo {}", arguments.join(" "));
    match command.status() {
        Ok(status) if status.success() => Vec::new(),
        Ok(_) => vec![format!("`{line}` failed; see above")],
        Err(error) => vec![format!("cannot run `{line}`: {error}")],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_a_package_has_is_asked_of_cargo() {
        let package = |kinds: &[&str]| {
            let targets: Vec<_> = kinds.iter().map(|kind| serde_json::json!({ "kind": [kind] })).collect();
            serde_json::json!({ "targets": targets })
        };
        assert_eq!(unit_targets(&package(&["bin", "test"])), ["--bins"]);
        assert_eq!(unit_targets(&package(&["lib", "bin", "bench"])), ["--lib", "--bins"]);
        assert_eq!(unit_targets(&package(&["proc-macro"])), ["--lib", "--bins"]);
    }
}
