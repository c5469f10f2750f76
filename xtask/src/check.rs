//! `cargo xtask check`: everything that must hold before a commit and needs no run of a test. All steps run; what is wrong is said at
//! once, and again at the end.
//!
//! `cargo xtask check --fast` is for between commits: lints and unit tests of the packages that the branch has changed, each built as
//! `cargo test --package` builds it, so that nothing is built twice.

use std::collections::BTreeMap;
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
        all(&mut step);
        step("documentation", &mut documentation);
    }
    findings
}

/// All steps that a run of tests has, too.
pub(crate) fn all(step: &mut Step<'_>) {
    style(step);
    step("licences", &mut licences::run);
    step("lints", &mut || {
        cargo(&["clippy", "--locked", "--workspace", "--keep-going", "--all-targets", "--", "-D", "warnings"], &[])
    });
}

/// Whether the documentation of all items builds, without a broken link.
pub(crate) fn documentation() -> Findings {
    let arguments = ["doc", "--locked", "--workspace", "--no-deps", "--document-private-items"];
    cargo(&arguments, &[("RUSTDOCFLAGS", RUSTDOC)])
}

/// What is seen without a compiler.
fn style(step: &mut Step<'_>) {
    step("format", &mut || cargo(&["fmt", "--all", "--check"], &[]));
    step("house rules", &mut || tidy::run(&workspace::root()));
    // A subject in the history is no fault of a tree: it is said, and nothing fails. The hook refuses it in time.
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
    for (package, targets) in &packages {
        println!("check: {package} …");
        step("lints", &mut || {
            cargo(&["clippy", "--locked", "--package", package, "--all-targets", "--", "-D", "warnings"], &[])
        });
        step("unit tests", &mut || {
            let test = ["test", "--quiet", "--no-fail-fast", "--locked", "--package", package];
            cargo(&[&test[..], targets].concat(), &[])
        });
    }
}

/// Packages with changed files, since the upstream branch, committed or not; and the targets of each that have unit tests. cargo refuses
/// `--lib` for a package without a library.
fn changed_packages() -> Result<BTreeMap<String, &'static [&'static str]>, String> {
    let metadata = workspace::metadata()?;
    let root = workspace::root();
    let files =
        commits::changed_files(&root).ok_or("git does not say what was changed here; `make check` checks all")?;
    let mut folders: Vec<(String, (String, &'static [&'static str]))> = workspace::packages(&metadata)
        .iter()
        .filter_map(|package| {
            let manifest = std::path::Path::new(package["manifest_path"].as_str()?).parent()?;
            let folder = manifest.strip_prefix(&root).ok()?.to_str()?;
            // Its cases are in Python.
            let has_cases = package["name"] != "isotherm-python";
            has_cases.then(|| {
                let name = package["name"].as_str().unwrap_or_default().to_owned();
                (format!("{folder}/"), (name, unit_targets(package)))
            })
        })
        .collect();
    // The longest folder that a file lies in is its package's.
    folders.sort_by_key(|(folder, _)| std::cmp::Reverse(folder.len()));
    let package =
        |file: &String| folders.iter().find(|(folder, _)| file.starts_with(folder)).map(|(_, package)| package.clone());
    Ok(files.iter().filter(|file| file.ends_with(".rs") || file.ends_with(".toml")).filter_map(package).collect())
}

fn unit_targets(package: &serde_json::Value) -> &'static [&'static str] {
    let targets = package["targets"].as_array().map(Vec::as_slice).unwrap_or_default();
    let has = |wanted: &str| targets.iter().any(|target| target["kind"][0] == wanted);
    // What else there is: cdylib, proc-macro.
    if !has("lib") && has("bin") { &["--bins"] } else { &["--lib", "--bins"] }
}

/// Plays the runs of the digest test in a release build.
pub(crate) fn digests() -> Findings {
    cargo(&["test", "--release", "--locked", "--package", "isotherm-scenario", "--test", "main", "digests::"], &[])
}

/// Links to private items are allowed: these pages are for people who work on the code.
const RUSTDOC: &str = "-D warnings -A rustdoc::private-intra-doc-links";

/// Runs cargo in the workspace.
pub(crate) fn cargo(arguments: &[&str], environment: &[(&str, &str)]) -> Findings {
    let mut command: Command = workspace::cargo();
    command.args(arguments).envs(environment.iter().copied());
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
