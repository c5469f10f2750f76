//! `isotherm report idle`.

use isotherm_report::records;

use super::at::AtArg;
use super::input::InputArgs;
use super::output::{Outcome, PictureArgs, json};
use crate::error::CliError;
use crate::format::FormatArg;
use crate::ui::Ui;

/// Draw how much memory of a region record has been idle for how long.
///
/// Idle time is the age of a region that was not found accessed. With --at all it is the mean over all snapshots.
#[derive(clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    input: InputArgs,
    #[command(flatten)]
    at: AtArg,
    #[command(flatten)]
    picture: PictureArgs,
    #[command(flatten)]
    format: FormatArg,
}

pub(super) fn run(args: &Args, ui: &Ui) -> Result<(), CliError> {
    let why = "idle times are what a monitor finds. Make a record of it: isotherm monitor TRACE -o R.parquet";
    let mut record = args.input.open_only_record(why, ui)?;
    let at = args.at.at();
    let idle = record.analyse(ui, |store, survey| records::idle(store, survey, at))?;
    let drawing = records::idle_chart(&idle, &record.store);
    let outcome = Outcome {
        title: "Memory by idle time".into(),
        drawing: Some(&drawing),
        tables: vec![records::idle_table(&idle)],
        csv: &|| records::idle_csv(&idle),
        json: &|| json(&idle),
        notes: record.caveats(),
    };
    outcome.put_out(&args.picture, args.format.format, ui)
}
