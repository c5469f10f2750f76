//! `isotherm export`: page traces become traces for other tools.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::builder::{PossibleValue, PossibleValuesParser};
use isotherm_trace::export::{self, EXPORTERS, ExportOptions};

use crate::error::CliError;
use crate::ui::Ui;

/// Turn a page trace into a trace for another tool.
///
/// The format is told by the ending of the output's name unless --to says it; a name that ends in .zst is compressed. The
/// output appears in one step, when all of it is written.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The page trace to read, finished or not.
    #[arg(value_name = "TRACE")]
    input: PathBuf,
    /// The file to write.
    #[arg(long, short, value_name = "FILE")]
    output: PathBuf,
    /// Format of the output.
    #[arg(long, value_name = "FORMAT", value_parser = PossibleValuesParser::new(formats()))]
    to: Option<String>,
    /// csv: one line for each access, in libCacheSim's columns, in place of one for each row of the trace.
    #[arg(long)]
    per_access: bool,
}

const EXAMPLES: &str = "\
Examples:
  isotherm export app.parquet -o app.oracleGeneral.zst
  isotherm export app.parquet -o app.csv --per-access
  isotherm export interrupted.arrow -o finished.parquet";

fn formats() -> Vec<PossibleValue> {
    EXPORTERS.iter().map(|exporter| PossibleValue::new(exporter.name).help(exporter.about)).collect()
}

/// Reads the trace and writes the file.
pub(crate) fn run(args: Args, ui: &Ui) -> Result<ExitCode, CliError> {
    let options = ExportOptions { per_access: args.per_access };
    let spinner = ui.spinner("exporting");
    let done = export::export(args.to.as_deref(), &args.input, &args.output, &options);
    spinner.finish_and_clear();
    done?;
    let bytes = std::fs::metadata(&args.output).map_or(0, |metadata| metadata.len());
    ui.say(format_args!("{}: {bytes} bytes", args.output.display()));
    Ok(ExitCode::SUCCESS)
}
