//! `isotherm report mrc`.

use isotherm_report::traces;
use isotherm_trace::analysis::{self, Sampling};

use super::input::TraceArgs;
use super::output::{Outcome, PictureArgs, json_in_pages};
use crate::error::CliError;
use crate::format::FormatArg;
use crate::ui::Ui;

/// Draw the miss-ratio curve: the share of touches that miss in an exact-LRU memory of every size.
///
/// All sizes come from one pass. For more than 2^30 touches it samples the pages, and prints the error that sampling brings. Linux does not
/// do exact LRU and misses do not all cost the same: for runtimes see `isotherm advise`.
#[derive(clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    input: TraceArgs,
    /// Sample this part of the pages only, 1/2, 1/4, … to 1/65536; `off`: all of them, however long it takes; `auto`: all up to 2^30
    /// touches.
    #[arg(long, value_name = "RATE|off|auto", default_value = "auto")]
    sample: Sampling,
    #[command(flatten)]
    picture: PictureArgs,
    #[command(flatten)]
    format: FormatArg,
}

pub(super) fn run(args: &Args, ui: &Ui) -> Result<(), CliError> {
    let why = "it does not hold the order of accesses, which misses depend on. Take the page trace that was monitored";
    let mut trace = args.input.open(why, ui)?;
    let curve = trace.analyse(ui, 1, |reader| analysis::mrc_sampled(reader, args.sample))?;
    let meta = &trace.meta;
    let mut notes = traces::mrc_caveats(&curve);
    notes.extend(traces::caveats(meta));
    let drawing = traces::mrc_chart(&curve, meta);
    let outcome = Outcome {
        title: "Miss-ratio curve".into(),
        drawing: Some(&drawing),
        tables: vec![traces::mrc_table(&curve, meta)],
        csv: &|| traces::mrc_csv(&curve, meta),
        json: &|| json_in_pages(&curve, meta),
        notes,
    };
    outcome.put_out(&args.picture, args.format.format, ui)
}
