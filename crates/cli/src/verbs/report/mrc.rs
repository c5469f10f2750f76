//! `isotherm report mrc`.

use isotherm_report::traces;
use isotherm_trace::analysis;

use super::input::InputArgs;
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
    input: InputArgs,
    #[command(flatten)]
    picture: PictureArgs,
    #[command(flatten)]
    format: FormatArg,
}

pub(super) fn run(args: &Args, ui: &Ui) -> Result<(), CliError> {
    let why = "it does not hold the order of accesses, which misses depend on. Take the page trace that was monitored";
    let mut trace = args.input.open_only_trace(why, ui)?;
    let curve = trace.analyse(ui, analysis::mrc)?;
    let meta = &trace.meta;
    let drawing = traces::mrc_chart(&curve, meta);
    let outcome = Outcome {
        title: "Miss-ratio curve".into(),
        drawing: Some(&drawing),
        tables: vec![traces::mrc_table(&curve, meta)],
        csv: &|| traces::mrc_csv(&curve, meta),
        json: &|| json_in_pages(&curve, meta),
        notes: traces::caveats(meta),
    };
    outcome.put_out(&args.picture, args.format.format, ui)
}
