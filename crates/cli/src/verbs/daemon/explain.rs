//! `isotherm daemon explain`: what the daemon did, and what limited it.

use std::path::PathBuf;
use std::process::ExitCode;

use isotherm_units::Duration;

use crate::error::CliError;
use crate::format::FormatArg;
use crate::live::daemon::AUDIT;
use crate::ui::Ui;
use crate::verbs::explain::live;

/// Report from the audit what each section of the daemon did, what was refused, what was left alone, and why nothing happened.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The audit.
    #[arg(long, value_name = "FILE", default_value = AUDIT)]
    audit: PathBuf,
    /// Only events of the last DURATION.
    #[arg(long, value_name = "TIME")]
    since: Option<Duration>,
    /// Only this section, such as generations.cold.
    #[arg(long, value_name = "NAME")]
    section: Option<String>,
    #[command(flatten)]
    format: FormatArg,
}

const EXAMPLES: &str = "\
Examples:
  sudo isotherm daemon explain --since 1h
  sudo isotherm daemon explain --section limits.web --format json";

pub(crate) fn run(args: Args, ui: &Ui) -> Result<ExitCode, CliError> {
    live::run(&args.audit, args.since, args.section.as_deref(), args.format.format, ui)
}
