//! The configuration file.

use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use isotherm_daemon::config::Config;
use isotherm_scenario::{Misfit, parse_as};

use crate::error::CliError;

/// Where it lies, unless it is said.
const CONFIG: &str = "/etc/isotherm/isotherm.toml";

/// For `#[command(flatten)]`.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Configuration {
    /// The live configuration.
    #[arg(value_name = "CONFIG", default_value = CONFIG)]
    pub(crate) file: PathBuf,
}

/// Reads and checks it. One that lets something act must be root's alone to write, or whoever can write it could have the daemon act.
pub(crate) fn configuration(path: &Path) -> Result<Config, CliError> {
    let named = |error: std::io::Error| {
        let what = format!("cannot read {}", path.display());
        match error.kind() {
            std::io::ErrorKind::NotFound => CliError::usage(format!("{what}: there is no such file; name one: CONFIG")),
            _ => CliError::failed(error).while_doing(what),
        }
    };
    let data = std::fs::metadata(path).map_err(named)?;
    let text = std::fs::read_to_string(path).map_err(named)?;
    let check = |config: &Config| {
        config.check().map_err(|wrong| Misfit { key: wrong.key, other: wrong.other, message: wrong.message })
    };
    let config = parse_as(&text, &path.display().to_string(), check).map_err(CliError::usage)?;
    let own = rustix::process::geteuid().as_raw();
    let is_safe = data.mode() & 0o022 == 0 && (data.uid() == 0 || data.uid() == own);
    if config.is_acting() && !is_safe {
        return Err(CliError::usage(format!(
            "{} can be written by others, and has a section with enable = true; it must be root's, or yours, alone: chmod go-w {0}",
            path.display()
        )));
    }
    Ok(config)
}
