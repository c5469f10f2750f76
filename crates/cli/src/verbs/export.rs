//! `isotherm export`: page traces and region records become files for other tools.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::builder::{PossibleValue, PossibleValuesParser};
use isotherm_trace::export::{self, EXPORTERS, ExportOptions};
use isotherm_trace::region::{RECORD_FORMATS, record_format, record_format_of};

use super::region_files::{self, IntervalArgs};
use crate::error::CliError;
use crate::ui::Ui;

/// Turn a page trace into a trace for another tool, or a region record into one of damo's.
///
/// The format is told by the ending of the output's name unless --to says it; a name that ends in .zst is compressed. The
/// output appears in one step, when all of it is written.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The page trace or region record to read, finished or not.
    #[arg(value_name = "INPUT")]
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
    #[command(flatten)]
    intervals: IntervalArgs,
}

const EXAMPLES: &str = "\
Examples:
  isotherm export app.parquet -o app.oracleGeneral.zst
  isotherm export app.parquet -o app.csv --per-access
  isotherm export regions.parquet -o damon.data
  isotherm export regions.parquet -o damon.txt --to perf_script
  isotherm export interrupted.arrow -o finished.parquet";

fn formats() -> Vec<PossibleValue> {
    let traces = EXPORTERS.iter().map(|exporter| PossibleValue::new(exporter.name).help(exporter.about));
    traces.chain(region_files::formats()).collect()
}

/// Reads the trace and writes the file.
pub(crate) fn run(args: Args, ui: &Ui) -> Result<ExitCode, CliError> {
    if region_files::is_record(&args.input) {
        return export_record(&args, ui);
    }
    if let Some(flag) = args.intervals.given() {
        return Err(CliError::usage(format!("{flag} is for region records, which {} is not", args.input.display())));
    }
    if let Some(format) = args.to.as_deref().filter(|format| region_files::is_format(format)) {
        let what = "a page trace has no regions. Make a record of it: isotherm monitor";
        return Err(CliError::usage(format!(
            "--to {format} is for region records, which {} is not: {what}",
            args.input.display()
        )));
    }
    let options = ExportOptions { per_access: args.per_access };
    let spinner = ui.spinner("exporting");
    let done = export::export(args.to.as_deref(), &args.input, &args.output, &options);
    spinner.finish_and_clear();
    done?;
    let bytes = std::fs::metadata(&args.output).map_or(0, |metadata| metadata.len());
    ui.say(format_args!("{}: {bytes} bytes", args.output.display()));
    Ok(ExitCode::SUCCESS)
}

fn export_record(args: &Args, ui: &Ui) -> Result<ExitCode, CliError> {
    if args.per_access {
        let what = "--per-access is for page traces";
        return Err(CliError::usage(format!("{} is a region record: {what}", args.input.display())));
    }
    let format = match &args.to {
        Some(name) => record_format(name)?,
        None => record_format_of(&args.output).ok_or_else(|| {
            let endings: Vec<&str> = RECORD_FORMATS.iter().flat_map(|format| format.endings).copied().collect();
            let name = args.output.display();
            CliError::usage(format!("`{name}` does not say its format; use --to, or one of {}", endings.join(", ")))
        })?,
    };
    region_files::convert(&args.input, args.intervals.options()?, &args.output, format, ui)?;
    Ok(ExitCode::SUCCESS)
}
