//! `isotherm report hot`.

use std::path::PathBuf;

use isotherm_report::traces;
use isotherm_trace::analysis;

use super::TraceArg;
use super::output::{Outcome, json_in_pages};
use crate::error::CliError;
use crate::format::FormatArg;
use crate::ui::Ui;

/// List the memory that takes most of the touches: by mapping, and the hottest ranges.
#[derive(clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    trace: TraceArg,
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
    let (hot, meta) = args.trace.analyse(ui, |reader| analysis::hot(reader, args.ranges as usize))?;
    let outcome = Outcome {
        title: format!("Hottest memory of {}", traces::subject(&meta)),
        drawing: None,
        tables: traces::hot_tables(&hot, &meta),
        csv: &|| traces::hot_csv(&hot, &meta),
        json: &|| json_in_pages(&hot, &meta),
        notes: traces::caveats(&meta),
    };
    outcome.put_out_tables(args.html.as_deref(), args.format.format, ui)
}
