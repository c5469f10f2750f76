//! `isotherm tune`: settings that are better than the defaults, by the Python package.

use std::ffi::OsString;
use std::process::ExitCode;

use crate::error::CliError;
use crate::python;
use crate::ui::Ui;

/// Find settings that are better than the defaults, judged on seeds that they were not tuned on.
///
/// Tries settings of policies, schemes, monitors, generations, right-sizing, tiers, compaction and memory size on recordings or scenarios.
/// Done by the Python package with Optuna: `pip install 'isotherm[tune]'`. All flags: `isotherm tune -- --help`, and docs/use/tune.md. Exit
/// code 4: it was ended early, and the results so far are reported.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  isotherm tune traces/gcc.parquet --objective memory --constraint 'runtime <= 2 %' --trials 100
  isotherm tune traces/gcc.parquet --objective memory --report gcc.html --config gcc.toml
  isotherm tune traces/redis.parquet traces/gcc.parquet --robust worst
  isotherm tune my-service.toml --objective runtime --vary machine.swappiness=0..200")]
pub(crate) struct Args {
    /// Recordings, scenario files or bundled scenarios, and flags of the package.
    #[arg(value_name = "CASE|FLAG", required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<OsString>,
}

pub(crate) fn run(args: Args, ui: &Ui) -> Result<ExitCode, CliError> {
    python::run("isotherm.tune", &["optuna"], "tune", args.arguments, ui)
}
