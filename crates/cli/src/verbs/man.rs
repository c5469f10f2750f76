//! `isotherm man`: manual pages.

use std::path::PathBuf;
use std::process::ExitCode;

use crate::error::CliError;
use crate::ui::Ui;

/// Write the manual pages: isotherm(1), and one for each verb.
///
/// `make install` puts them where man(1) looks for them.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The folder, which is made if it is not there.
    #[arg(value_name = "FOLDER")]
    folder: PathBuf,
}

const EXAMPLES: &str = "\
Examples:
  isotherm man man1 && man -l man1/isotherm-advise.1";

pub(crate) fn run(args: Args, ui: &Ui) -> Result<ExitCode, CliError> {
    let folder = args.folder;
    let failed =
        |error: std::io::Error| CliError::failed(error).while_doing(format!("cannot write {}", folder.display()));
    std::fs::create_dir_all(&folder).map_err(failed)?;
    clap_mangen::generate_to(crate::command_line().disable_help_subcommand(true), &folder).map_err(failed)?;
    ui.say(format_args!("manual pages: {}", folder.display()));
    Ok(ExitCode::SUCCESS)
}
