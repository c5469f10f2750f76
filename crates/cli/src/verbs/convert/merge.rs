//! `isotherm convert merge`.

use std::path::PathBuf;

use isotherm_trace::TraceReader;
use isotherm_trace::edit::merge;
use isotherm_trace::region::merge_records;

use super::{OutputArg, say_record, say_trace};
use crate::error::CliError;
use crate::ui::Ui;
use crate::verbs::region_files::{self, IntervalArgs};

/// Put several page traces, or several region records, into one.
///
/// Page traces become one trace with all their processes and threads, as if the programs had been started at the same time; their
/// page sizes and epochs must agree. The same file may be given twice. Region records become targets of one record; their
/// sampling and aggregation intervals must agree, and their clocks are taken to be the same.
#[derive(clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(super) struct Args {
    /// Two or more page traces, or two or more region records.
    #[arg(value_name = "FILE", required = true, num_args = 2..)]
    inputs: Vec<PathBuf>,
    #[command(flatten)]
    output: OutputArg,
    #[command(flatten)]
    intervals: IntervalArgs,
}

const AFTER_HELP: &str = "\
Examples:
  isotherm convert merge redis.parquet backup.parquet -o both.parquet
  isotherm convert merge worker.parquet worker.parquet worker.parquet -o three.parquet
  isotherm convert merge monday.data tuesday.data -o regions.parquet";

pub(super) fn run(args: &Args, ui: &Ui) -> Result<(), CliError> {
    let output = args.output.path()?;
    let records: Vec<bool> = args.inputs.iter().map(|input| region_files::is_record(input)).collect();
    let of = |is_record: bool| args.inputs.iter().zip(&records).find(|(_, record)| **record == is_record);
    if let (Some((record, _)), Some((trace, _))) = (of(true), of(false)) {
        // An unreadable file gives its own error here.
        TraceReader::open(trace)?;
        let (record, trace) = (record.display(), trace.display());
        return Err(CliError::usage(format!(
            "{record} is a region record and {trace} a page trace; merge one kind only"
        )));
    }
    if records.first() == Some(&true) {
        let options = args.intervals.options()?;
        let spinner = ui.spinner("merging snapshots");
        let merged = merge_records(&args.inputs, options, output, |snapshots| spinner.inc(snapshots));
        spinner.finish_and_clear();
        say_record(output, &merged?, &[], ui);
        return Ok(());
    }
    let mut rows = 0;
    for input in &args.inputs {
        rows += TraceReader::open(input)?.meta().rows;
        args.intervals.refuse_for_trace(input)?;
    }
    let bar = ui.progress("merging rows", rows);
    let merged = merge(&args.inputs, output, |rows| bar.inc(rows));
    bar.finish_and_clear();
    say_trace(output, &merged?, ui);
    Ok(())
}
