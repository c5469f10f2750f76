//! Verbs that the Python package does: Ray and Optuna are libraries of Python.

use std::ffi::OsString;
use std::process::{Command, ExitCode, Stdio};

use crate::error::CliError;
use crate::ui::Ui;

/// Names the interpreter that has the package.
const PYTHON: &str = "ISOTHERM_PYTHON";

/// Runs a module of the package with arguments; its exit code is this program's. `needs` are modules that it cannot do without, `extra` is
/// what installs them.
///
/// # Errors
/// There is no Python, or it lacks the package or what it needs: with the command that installs it. Exit code 3.
pub(crate) fn run(
    module: &str,
    needs: &[&str],
    extra: &str,
    arguments: Vec<OsString>,
    ui: &Ui,
) -> Result<ExitCode, CliError> {
    let python = std::env::var_os(PYTHON).unwrap_or_else(|| "python3".into());
    let shown = python.display();
    let install = format!("{shown} -m pip install 'isotherm[{extra}]'; {PYTHON} names another interpreter");
    for needed in ["isotherm"].iter().chain(needs) {
        let import = Command::new(&python)
            .args(["-c", &format!("import {needed}")])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status();
        match import {
            Ok(status) if status.success() => {}
            Ok(_) => {
                return Err(CliError::host_cannot(format!(
                    "{shown} cannot import `{needed}`, which this needs; to install it: {install}"
                )));
            }
            Err(error) => {
                return Err(CliError::host_cannot(format!(
                    "cannot run {shown}: {error}; {PYTHON} names the interpreter"
                )));
            }
        }
    }
    let status = Command::new(&python)
        .args(["-m", module])
        .args(arguments)
        .args(ui.flags())
        .status()
        .map_err(|error| CliError::failed(error).while_doing(format!("cannot run {shown}")))?;
    match status.code().map(u8::try_from) {
        Some(Ok(0)) => Ok(ExitCode::SUCCESS),
        Some(Ok(code)) => Err(CliError::Reported(code)),
        _ => Err(CliError::failed(format!("{shown} ended with {status}"))),
    }
}
