//! `isotherm report mrc`.

use isotherm_report::traces;
use isotherm_trace::analysis;

use super::TraceArg;
use super::output::{Outcome, PictureArgs, json_in_pages};
use crate::error::CliError;
use crate::format::FormatArg;
use crate::ui::Ui;

/// Draw the miss-ratio curve: the share of touches that miss in an exact-LRU memory of every size.
///
/// All sizes come from one pass. Linux does not do exact LRU and misses do not all cost the same: for runtimes see
/// `isotherm advise`.
#[derive(clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    trace: TraceArg,
    #[command(flatten)]
    picture: PictureArgs,
    #[command(flatten)]
    format: FormatArg,
}

pub(super) fn run(args: &Args, ui: &Ui) -> Result<(), CliError> {
    let (curve, meta) = args.trace.analyse(ui, analysis::mrc)?;
    let drawing = traces::mrc_chart(&curve, &meta);
    let outcome = Outcome {
        title: "Miss-ratio curve".into(),
        drawing: Some(&drawing),
        tables: vec![traces::mrc_table(&curve, &meta)],
        csv: &|| traces::mrc_csv(&curve, &meta),
        json: &|| json_in_pages(&curve, &meta),
        notes: traces::caveats(&meta),
    };
    outcome.put_out(&args.picture, args.format.format, ui)
}
