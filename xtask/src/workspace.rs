//! The checkout: its root, its files, its packages.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

/// The folder of the workspace's `Cargo.toml`.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask lies in the workspace").to_path_buf()
}

/// The folder of the lab, which is a workspace of its own.
pub(crate) fn lab() -> PathBuf {
    root().join("lab")
}

/// Where cargo builds, for both workspaces.
pub(crate) fn target() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from)
}

/// All files of the checkout, as paths relative to `root`, sorted. Build products and version control are left out.
pub(crate) fn files(root: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![root.to_path_buf()];
    while let Some(folder) = folders.pop() {
        let Ok(entries) = std::fs::read_dir(&folder) else { continue };
        for entry in entries.flatten() {
            let name = entry.file_name();
            let name = name.to_string_lossy();
            let Ok(kind) = entry.file_type() else { continue };
            if kind.is_dir() {
                let skip = name.starts_with("target") || name == ".git" || name == "__pycache__" || name == ".venv";
                if !skip {
                    folders.push(entry.path());
                }
            } else if kind.is_file() && !name.ends_with(".profraw") {
                found.push(entry.path().strip_prefix(root).expect("below root").to_path_buf());
            }
        }
    }
    found.sort();
    found
}

/// `cargo metadata` of a workspace's own packages.
pub(crate) fn metadata(workspace: &Path) -> Result<Value, String> {
    read_metadata(workspace, &["--no-deps"])
}

/// `cargo metadata` of these and of all that they depend on.
pub(crate) fn dependencies(workspace: &Path) -> Result<Value, String> {
    read_metadata(workspace, &["--locked"])
}

fn read_metadata(workspace: &Path, more: &[&str]) -> Result<Value, String> {
    let mut command = cargo_in(workspace);
    command.args(["metadata", "--format-version", "1"]).args(more);
    let output = command.output().map_err(|error| format!("cannot run cargo metadata: {error}"))?;
    if !output.status.success() {
        return Err(format!("cargo metadata failed: {}", String::from_utf8_lossy(&output.stderr).trim()));
    }
    serde_json::from_slice(&output.stdout).map_err(|error| format!("cargo metadata printed no JSON: {error}"))
}

/// The packages of [`metadata`].
pub(crate) fn packages(metadata: &Value) -> &[Value] {
    metadata["packages"].as_array().map_or(&[], Vec::as_slice)
}

/// The cargo that runs us, in the product's workspace.
pub(crate) fn cargo() -> Command {
    cargo_in(&root())
}

/// The cargo that runs us, in one of the workspaces.
pub(crate) fn cargo_in(workspace: &Path) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(workspace).env("CARGO_TARGET_DIR", target());
    command
}
