//! `isotherm daemon reload`: makes the daemon read its configuration again.

use std::path::PathBuf;
use std::process::ExitCode;

use crate::error::CliError;
use crate::live::daemon::{RUN, Running, configuration, told};
use crate::ui::Ui;

/// Have the daemon read its configuration again.
///
/// The file is checked first: errors in it are reported here, and the daemon goes on as before. Sections that did not change keep their
/// state.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  sudo isotherm daemon reload")]
pub(crate) struct Args {
    /// Folder of the lock and the state.
    #[arg(long, value_name = "DIR", default_value = RUN)]
    run_dir: PathBuf,
}

pub(crate) fn run(args: Args, ui: &Ui) -> Result<ExitCode, CliError> {
    let daemon = Running::find(&args.run_dir)?;
    let (_, told) = told(&args.run_dir, &daemon)?;
    configuration(&told.configuration)?;
    daemon.signal(rustix::process::Signal::HUP)?;
    ui.say(format_args!("the daemon (process {}) reads {} anew", daemon.pid(), told.configuration.display()));
    Ok(ExitCode::SUCCESS)
}
