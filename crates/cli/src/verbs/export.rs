//! `isotherm convert export`: page traces and region records become files for other tools.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::builder::{PossibleValue, PossibleValuesParser};
use isotherm_scenario::{RunOptions, damo};
use isotherm_trace::export::{self, EXPORTERS, ExportOptions};
use isotherm_trace::region::RecordFormat;
use isotherm_trace::region::kdamonds::write_kdamonds;

use super::monitor::source::is_scenario;
use super::region_files::{self, IntervalArgs};
use super::simulate;
use crate::error::CliError;
use crate::ui::Ui;

/// Turn a page trace into a trace for another tool, a region record into one of damo's, or a scenario's monitors and schemes into
/// damo's configuration.
///
/// The ending of the output's name decides the format unless --to does; a name that ends in .zst is compressed. The output appears in one
/// step, once all of it is written.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The page trace or region record to read, finished or not; or a scenario, with monitors for damo.
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
    /// Scenarios: the monitors of this variant [default: the first].
    #[arg(long, value_name = "NAME")]
    variant: Option<String>,
    /// Scenarios: only this monitor [default: all, a kernel thread each].
    #[arg(long, value_name = "NAME")]
    monitor: Option<String>,
    #[command(flatten)]
    intervals: IntervalArgs,
}

const EXAMPLES: &str = "\
Examples:
  isotherm convert export app.parquet -o app.oracleGeneral.zst
  isotherm convert export app.parquet -o app.csv --per-access
  isotherm convert export regions.parquet -o damon.json
  isotherm convert export interrupted.arrow -o finished.parquet
  isotherm convert export my-service.toml -o kdamonds.json
  isotherm convert export my-service.toml -o tight.json --variant tight --monitor kdamond";

/// The format of damo's records.
const JSON: &str = "json";
/// The format of damo's configurations.
const KDAMONDS: &str = "kdamonds";

fn formats() -> Vec<PossibleValue> {
    let traces = EXPORTERS.iter().map(|exporter| (exporter.name, exporter.about));
    let json = (JSON, "region records: damo's json, a list of records with snapshots");
    let kdamonds = (KDAMONDS, "scenarios: damo's configuration");
    traces.chain([json, kdamonds]).map(|(name, about)| PossibleValue::new(name).help(about)).collect()
}

/// Reads the trace and writes the file.
pub(crate) fn run(args: Args, ui: &Ui) -> Result<ExitCode, CliError> {
    super::unfinished::remove_on_signal()?;
    if is_scenario(&args.input.to_string_lossy()) {
        return export_monitors(&args, ui);
    }
    for (given, flag) in [(&args.variant, "--variant"), (&args.monitor, "--monitor")] {
        if given.is_some() {
            return Err(CliError::usage(format!("{flag} is for scenarios, which {} is not", args.input.display())));
        }
    }
    if args.to.as_deref() == Some(KDAMONDS) {
        let input = args.input.display();
        return Err(CliError::usage(format!("--to {KDAMONDS} is for scenarios with monitors, which {input} is not")));
    }
    if region_files::is_record(&args.input) {
        return export_record(&args, ui);
    }
    args.intervals.refuse_for_trace(&args.input)?;
    if args.to.as_deref() == Some(JSON) {
        let what = "a page trace has no regions. Make a record of it: isotherm monitor";
        return Err(CliError::usage(format!(
            "--to {JSON} is for region records, which {} is not: {what}",
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
        Some(name) => RecordFormat::named(name)
            .ok_or_else(|| CliError::usage(format!("--to {name} is for page traces; allowed: parquet, {JSON}")))?,
        None => RecordFormat::of(&args.output).ok_or_else(|| {
            let name = args.output.display();
            CliError::usage(format!("`{name}` does not say its format; use --to, or one of .parquet, .json"))
        })?,
    };
    region_files::convert(&args.input, args.intervals.options()?, &args.output, format, ui)?;
    Ok(ExitCode::SUCCESS)
}

/// Writes the monitors of a scenario as damo's configuration.
fn export_monitors(args: &Args, ui: &Ui) -> Result<ExitCode, CliError> {
    let source = args.input.to_string_lossy().into_owned();
    let refuse = |what: String| Err(CliError::usage(format!("{source} is a scenario: {what}")));
    if let Some(format) = args.to.as_deref().filter(|format| *format != KDAMONDS) {
        return refuse(format!("--to {format} is for page traces and region records; it becomes `{KDAMONDS}`"));
    }
    if let Some(flag) = args.intervals.given().or(args.per_access.then_some("--per-access")) {
        return refuse(format!("{flag} is for page traces and region records"));
    }
    if args.output.extension().is_none_or(|ending| ending != JSON) {
        let output = args.output.display();
        return refuse(format!("damo tells its configurations by their names: {output} must end in .json"));
    }
    let (scenario, base_dir) = simulate::find(&source, ui)?;
    let options = RunOptions { base_dir, place: source.clone(), threads: None };
    let exported = damo::export(&scenario, &options, args.variant.as_deref(), args.monitor.as_deref());
    let exported = exported?;
    write_kdamonds(&args.output, &exported.kdamonds)?;
    exported.notes.iter().for_each(|note| ui.warn(note));
    let nr_kdamonds = exported.kdamonds.kdamonds.len();
    ui.say(format_args!("{}: {nr_kdamonds} kernel threads", args.output.display()));
    Ok(ExitCode::SUCCESS)
}
