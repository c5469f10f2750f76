//! `isotherm report wss`.

use isotherm_report::traces;
use isotherm_trace::analysis;
use isotherm_units::Duration;

use super::TraceArg;
use super::output::{Outcome, PictureArgs, json};
use crate::error::CliError;
use crate::format::FormatArg;
use crate::ui::Ui;

/// Draw the working set over time: how much different memory was touched in each window, and its percentiles.
#[derive(clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    trace: TraceArg,
    /// Length of a window.
    #[arg(long, value_name = "TIME", default_value = "100ms")]
    window: Duration,
    #[command(flatten)]
    picture: PictureArgs,
    #[command(flatten)]
    format: FormatArg,
}

pub(super) fn run(args: &Args, ui: &Ui) -> Result<(), CliError> {
    let (working_set, meta) = args.trace.analyse(ui, |reader| analysis::wss(reader, args.window.ns()))?;
    let drawing = traces::wss_chart(&working_set, &meta);
    let outcome = Outcome {
        title: "Working set".into(),
        drawing: Some(&drawing),
        tables: vec![traces::wss_table(&working_set, &meta)],
        csv: &|| traces::wss_csv(&working_set, &meta),
        json: &|| json(&working_set, &meta),
        notes: traces::caveats(&meta),
    };
    outcome.put_out(&args.picture, args.format.format, ui)
}
