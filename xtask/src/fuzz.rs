//! `cargo xtask fuzz`: builds the harness and runs it. A debug build: it checks arithmetic.

use crate::{Findings, workspace};

pub(crate) fn run(words: &[String]) -> Findings {
    let status = workspace::cargo()
        .args(["run", "--quiet", "--locked", "--package", "isotherm-fuzz", "--"])
        .args(words)
        .current_dir(workspace::root())
        .status();
    match status {
        Ok(status) if status.success() => Vec::new(),
        Ok(_) => vec!["what it said above".to_owned()],
        Err(error) => vec![format!("cannot run cargo: {error}")],
    }
}
