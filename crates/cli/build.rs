//! Build information for `isotherm --version`: the commit, if the sources are a checkout, and the compiler. No date: the same sources
//! give the same bytes. Changes since the commit are not reported, because a build would not notice them.

use std::process::Command;

fn main() {
    // Sources unpacked inside another checkout do not belong to its commits. This script also serves the Python package, in another
    // folder.
    let here = std::env::current_dir().and_then(std::fs::canonicalize).ok();
    let own = here.as_deref().and_then(|here| here.ancestors().find(|folder| folder.join("Cargo.lock").is_file()));
    let top = said("git", &["rev-parse", "--show-toplevel"]).and_then(|top| std::fs::canonicalize(top).ok());
    let is_ours = own.is_some() && own == top.as_deref();
    let commit = said("git", &["rev-parse", "--short=12", "HEAD"]).filter(|_| is_ours);
    let commit = commit.unwrap_or_else(|| "unknown: not built from a checkout".to_owned());
    println!("cargo::rustc-env=ISOTHERM_COMMIT={commit}");
    let rustc = std::env::var("RUSTC").ok().and_then(|rustc| said(&rustc, &["--version"]));
    println!("cargo::rustc-env=ISOTHERM_RUSTC={}", rustc.as_deref().unwrap_or("rustc unknown"));
    for (name, from) in [("ISOTHERM_PROFILE", "PROFILE"), ("ISOTHERM_TARGET", "TARGET")] {
        println!("cargo::rustc-env={name}={}", std::env::var(from).unwrap_or_default());
    }
    // HEAD changes with each switch, and its log also with each commit. Missing files are not watched.
    for name in ["HEAD", "logs/HEAD"] {
        let path = said("git", &["rev-parse", "--path-format=absolute", "--git-path", name]);
        if let Some(path) = path.filter(|path| std::path::Path::new(path).exists()) {
            println!("cargo::rerun-if-changed={path}");
        }
    }
    for own in ["build.rs", "../crates/cli/build.rs"] {
        if std::path::Path::new(own).exists() {
            println!("cargo::rerun-if-changed={own}");
        }
    }
}

/// The single line that a command prints; `None` if it cannot run, or fails.
fn said(program: &str, arguments: &[&str]) -> Option<String> {
    let output = Command::new(program).args(arguments).output().ok()?;
    let line = String::from_utf8(output.stdout).ok()?.trim().to_owned();
    (output.status.success() && !line.is_empty() && !line.contains('\n')).then_some(line)
}
