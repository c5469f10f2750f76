//! `isotherm report info`.

use std::path::PathBuf;

use isotherm_report::traces;
use isotherm_trace::analysis;

use super::TraceArg;
use super::output::{Outcome, json};
use crate::error::CliError;
use crate::format::FormatArg;
use crate::ui::Ui;

/// Say what is in a recording: command, length, footprint, threads, mappings.
#[derive(clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    trace: TraceArg,
    /// Write a page as one HTML file.
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    #[command(flatten)]
    format: FormatArg,
}

pub(super) fn run(args: &Args, ui: &Ui) -> Result<(), CliError> {
    let (info, meta) = args.trace.analyse(ui, analysis::info)?;
    let outcome = Outcome {
        title: format!("Recording of {}", traces::subject(&meta)),
        drawing: None,
        tables: traces::info_tables(&info),
        csv: &|| traces::info_csv(&info),
        json: &|| json(&info),
        notes: traces::caveats(&meta),
    };
    outcome.put_out_tables(args.html.as_deref(), args.format.format, ui)
}
