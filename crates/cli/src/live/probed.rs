//! Ways of monitoring, tried on our own child process.

use isotherm_linux::Root;
use isotherm_linux::doctor::{Child, Context, Finding, watchers};

use super::undo;

/// Starts the process for probes: this command, as `doctor --child`. `Err`: why it cannot be started.
pub(crate) fn child() -> Result<Child, String> {
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    Child::start(&program, &["doctor", "--child"]).map_err(|error| error.to_string())
}

/// Ways to monitor processes that work here, best first.
pub(crate) fn probed(root: &Root) -> Vec<Finding> {
    let child = child().ok();
    watchers(&Context { root, child: child.as_ref(), models: &[], undo })
}
