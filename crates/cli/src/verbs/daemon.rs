//! `isotherm daemon`: all verbs about the daemon.

use std::process::ExitCode;

use super::{check, reload, replay, run as start, status, stop, trial};
use crate::error::CliError;
use crate::ui::Ui;

mod explain;

/// Run the daemon, which applies a configuration while it runs, and ask it what it does.
///
/// Only one runs at a time. Its changes are journaled, and restored when it ends: docs/use/operate.md.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(subcommand)]
    verb: Verb,
}

const EXAMPLES: &str = "\
Examples:
  isotherm daemon check isotherm.toml
  sudo isotherm daemon run isotherm.toml
  isotherm daemon status
  sudo isotherm daemon explain --since 1h
  sudo isotherm daemon trial none isotherm.toml --yes
  sudo isotherm daemon stop";

isotherm_terminal::verbs! {
    Check => check,
    Run => start,
    Status => status,
    Explain => explain,
    Reload => reload,
    Stop => stop,
    Trial => trial,
    Replay => replay,
}

/// Runs the verb.
pub(crate) fn run(args: Args, ui: &Ui) -> Result<ExitCode, CliError> {
    args.verb.run(ui)
}
