//! `isotherm report info`.

use std::path::PathBuf;

use isotherm_report::{group_info, group_info_table, records, traces};
use isotherm_trace::analysis;
use isotherm_trace::group::{GroupReader, is_group_record};

use super::input::{Input, InputArgs, Record, TraceInput};
use super::output::{Outcome, json};
use crate::error::CliError;
use crate::format::FormatArg;
use crate::ui::Ui;

/// Describe a file. Page trace: command, length, footprint, threads and mappings. Region record: how memory was monitored, and targets.
/// Group record: samples and counters.
#[derive(clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    input: InputArgs,
    /// Write a page as one HTML file.
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    #[command(flatten)]
    format: FormatArg,
}

pub(super) fn run(args: &Args, ui: &Ui) -> Result<(), CliError> {
    if is_group_record(args.input.file()) {
        return of_group(args, ui);
    }
    match args.input.open(ui)? {
        Input::Trace(mut trace) => of_trace(args, &mut trace, ui),
        Input::Record(mut record) => of_record(args, &mut record, ui),
    }
}

fn of_group(args: &Args, ui: &Ui) -> Result<(), CliError> {
    let info = group_info(&mut GroupReader::open(args.input.file())?)?;
    let outcome = Outcome {
        title: format!("Record of the group {}", info.group),
        drawing: None,
        tables: vec![group_info_table(&info)],
        csv: &|| group_info_table(&info),
        json: &|| json(&info),
        notes: info.notes.clone(),
    };
    outcome.put_out_tables(args.html.as_deref(), args.format.format, ui)
}

fn of_trace(args: &Args, trace: &mut TraceInput, ui: &Ui) -> Result<(), CliError> {
    let info = trace.analyse(ui, 1, |reader| analysis::info(reader))?;
    let meta = &trace.meta;
    let outcome = Outcome {
        title: format!("Recording of {}", traces::subject(meta)),
        drawing: None,
        tables: traces::info_tables(&info),
        csv: &|| traces::info_csv(&info),
        json: &|| json(&info),
        notes: traces::caveats(meta),
    };
    outcome.put_out_tables(args.html.as_deref(), args.format.format, ui)
}

fn of_record(args: &Args, record: &mut Record, ui: &Ui) -> Result<(), CliError> {
    let info = record.analyse(ui, records::info)?;
    let outcome = Outcome {
        title: format!("Record of {}", records::subject(&record.store)),
        drawing: None,
        tables: records::info_tables(&info),
        csv: &|| records::info_csv(&info),
        json: &|| json(&info),
        notes: record.caveats(),
    };
    outcome.put_out_tables(args.html.as_deref(), args.format.format, ui)
}
