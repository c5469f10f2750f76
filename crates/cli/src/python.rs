//! Verbs that the Python package implements: Ray and Optuna are Python libraries.

use std::ffi::OsString;
use std::process::{Command, ExitCode, Stdio};

use crate::error::CliError;
use crate::ui::Ui;

/// Environment variable with the interpreter that has the package.
const PYTHON: &str = "ISOTHERM_PYTHON";

/// Runs a module of the package with arguments, and takes over its exit code. `needs` are modules that it requires, `extra` installs them.
///
/// # Errors
/// Python, the package or its requirements are missing, with the command that installs them. Exit code 3.
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
    // Found, but not imported: an import takes seconds.
    let look = "import importlib.util as u, sys; print(*[m for m in sys.argv[1:] if u.find_spec(m) is None])";
    let looked = Command::new(&python).args(["-c", look, "isotherm"]).args(needs).stdin(Stdio::null()).output();
    let looked = looked.map_err(|error| {
        CliError::host_cannot(format!("cannot run {shown}: {error}; {PYTHON} names the interpreter"))
    })?;
    if !looked.status.success() {
        let said = String::from_utf8_lossy(&looked.stderr);
        let last = said.lines().last().unwrap_or_default();
        return Err(CliError::host_cannot(format!(
            "{shown} ends with {}: {last}; {PYTHON} names the interpreter",
            looked.status
        )));
    }
    if let Some(missing) = String::from_utf8_lossy(&looked.stdout).split_whitespace().next() {
        return Err(CliError::host_cannot(format!("{shown} has no module `{missing}`; to install it: {install}")));
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
