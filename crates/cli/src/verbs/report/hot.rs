//! `isotherm report hot`.

use std::path::PathBuf;

use isotherm_report::{records, traces};
use isotherm_trace::analysis;

use super::at::AtArg;
use super::input::{Input, InputArgs, Record, TraceInput};
use super::output::{Outcome, json, json_in_pages};
use crate::error::CliError;
use crate::format::FormatArg;
use crate::ui::Ui;

/// List the hottest memory, and of region records the coldest, too.
///
/// For a page trace: the mappings and ranges that take most of the touches. For a region record: ranges at one moment by access
/// temperature, which is the percentage of checks that found an access plus the age in seconds, or minus the age if no check found one;
/// neighbours that are alike are joined.
#[derive(clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    input: InputArgs,
    #[command(flatten)]
    at: AtArg,
    /// How many ranges to list.
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    ranges: u32,
    /// Write a page as one HTML file.
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    #[command(flatten)]
    format: FormatArg,
}

pub(super) fn run(args: &Args, ui: &Ui) -> Result<(), CliError> {
    match args.input.open(ui)? {
        Input::Trace(mut trace) => of_trace(args, &mut trace, ui),
        Input::Record(mut record) => of_record(args, &mut record, ui),
    }
}

fn of_trace(args: &Args, trace: &mut TraceInput, ui: &Ui) -> Result<(), CliError> {
    args.at.refuse_for_trace(&args.input)?;
    let hot = trace.analyse(ui, 1, |reader| analysis::hot(reader, args.ranges as usize))?;
    let meta = &trace.meta;
    let outcome = Outcome {
        title: format!("Hottest memory of {}", traces::subject(meta)),
        drawing: None,
        tables: traces::hot_tables(&hot, meta),
        csv: &|| traces::hot_csv(&hot, meta),
        json: &|| json_in_pages(&hot, meta),
        notes: traces::caveats(meta),
    };
    outcome.put_out_tables(args.html.as_deref(), args.format.format, ui)
}

fn of_record(args: &Args, record: &mut Record, ui: &Ui) -> Result<(), CliError> {
    let at = args.at.at();
    let hot = record.analyse(ui, |store, survey| records::hot(store, survey, at))?;
    let outcome = Outcome {
        title: format!("Hottest and coldest memory of {}", records::subject(&record.store)),
        drawing: None,
        tables: records::hot_tables(&hot, args.ranges as usize),
        csv: &|| records::hot_csv(&hot),
        json: &|| json(&hot),
        notes: record.caveats(),
    };
    outcome.put_out_tables(args.html.as_deref(), args.format.format, ui)
}
