//! Finds the bundled recordings.

use std::path::{Path, PathBuf};

use isotherm_scenario::data_file;

use crate::error::CliError;

/// The folder that holds `traces/`.
///
/// # Errors
/// It is not found: exit code 3.
pub fn data_folder() -> Result<PathBuf, CliError> {
    let configured = std::env::var_os("ISOTHERM_DATA").map(PathBuf::from);
    let executable = std::env::current_exe().ok();
    let traces = data_file("traces", configured.as_deref(), executable.as_deref()).map_err(|tried| {
        let tried: Vec<String> = tried.iter().map(|path| path.display().to_string()).collect();
        CliError::host_cannot(format!(
            "the bundled recordings are not found (tried {}); set ISOTHERM_DATA to the folder that holds `traces`",
            tried.join(", ")
        ))
    })?;
    Ok(traces.parent().map_or_else(|| PathBuf::from("."), Path::to_path_buf))
}
