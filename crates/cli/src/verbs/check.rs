//! `isotherm daemon check`: checks a live configuration, and shows what it would do.

use std::process::ExitCode;

use crate::error::CliError;
use crate::live::daemon::{Configuration, configuration, configuration_files};
use crate::ui::Ui;

/// Check a live configuration: unknown keys, values out of range, sections that contradict each other, groups that are protected.
///
/// Only the file and the files of `conf.d` next to it are read. Every error names file, line and column, where two tables disagree both.
/// Exit code 0: `isotherm daemon run` takes it.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  isotherm daemon check
  isotherm daemon check isotherm.toml")]
pub(crate) struct Args {
    #[command(flatten)]
    configuration: Configuration,
}

pub(crate) fn run(args: Args, ui: &Ui) -> Result<ExitCode, CliError> {
    let config = configuration(&args.configuration.file)?;
    let files = configuration_files(&args.configuration.file)?;
    let more = match files.len() {
        1 => String::new(),
        more => format!(" with {} files of conf.d", more - 1),
    };
    ui.print(format_args!(
        "{}{more}: fine; {} sections, {} of which may act\n",
        args.configuration.file.display(),
        config.nr_sections(),
        config.nr_acting(),
    ))?;
    Ok(ExitCode::SUCCESS)
}
