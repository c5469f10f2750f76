//! `cargo xtask check`: everything that must hold before a commit, as CI runs it. All steps run; failures are listed last.
//!
//! `cargo xtask check --fast` is for between commits: what takes under two minutes on a built tree.

use std::process::Command;
use std::time::Instant;

use crate::{Findings, commits, licences, tidy, workspace};

/// Runs all steps, or the fast ones: these need no kernels, no network and no root.
pub(crate) fn run(arguments: &[String]) -> Findings {
    let is_fast = match arguments {
        [] => false,
        [fast] if fast == "--fast" => true,
        _ => return vec![format!("`{}` is no argument of check; allowed: --fast", arguments.join(" "))],
    };
    let mut findings = Findings::new();
    step("format", &mut findings, || cargo(&["fmt", "--all", "--check"], &[]));
    step("house rules", &mut findings, || tidy::run(&workspace::root()));
    step("commit subjects", &mut findings, || commits::run(&workspace::root()));
    step("lints", &mut findings, || {
        cargo(&["clippy", "--locked", "--workspace", "--all-targets", "--", "-D", "warnings"], &[])
    });
    if is_fast {
        step("unit tests", &mut findings, || {
            cargo(&["test", "--quiet", "--locked", "--workspace", "--lib", "--bins"], &[])
        });
        return findings;
    }
    step("licences", &mut findings, licences::run);
    step("documentation", &mut findings, || {
        cargo(
            &["doc", "--locked", "--workspace", "--no-deps", "--document-private-items"],
            &[("RUSTDOCFLAGS", RUSTDOC)],
        )
    });
    findings
}

/// Plays the runs of the digest test in a release build: the one of the Python package, whose wheel `make test` builds next.
pub(crate) fn digests() -> Findings {
    let packages = ["--package", "isotherm-scenario", "--package", "isotherm-python"];
    cargo(&[&["test", "--release", "--locked"], &packages[..], &["--test", "digests"]].concat(), &[])
}

/// Links to private items are allowed: these pages are for people who work on the code.
const RUSTDOC: &str = "-D warnings -A rustdoc::private-intra-doc-links";

fn step(name: &str, findings: &mut Findings, work: impl FnOnce() -> Findings) {
    let start = Instant::now();
    let found = work();
    let verdict = if found.is_empty() { "ok" } else { "FAILED" };
    println!("check: {name}: {verdict} ({:.0} s)", start.elapsed().as_secs_f64());
    findings.extend(found);
}

fn cargo(arguments: &[&str], environment: &[(&str, &str)]) -> Findings {
    let mut command: Command = workspace::cargo();
    command.args(arguments).envs(environment.iter().copied());
    let line = format!("cargo {}", arguments.join(" "));
    match command.status() {
        Ok(status) if status.success() => Vec::new(),
        Ok(_) => vec![format!("`{line}` failed; see above")],
        Err(error) => vec![format!("cannot run `{line}`: {error}")],
    }
}
