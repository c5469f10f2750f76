//! `isotherm report heatmap`.

use isotherm_report::traces;
use isotherm_trace::analysis::{self, HeatmapOptions};

use super::output::{Outcome, PictureArgs, json_in_pages};
use super::{TraceArg, picture_matrix};
use crate::error::CliError;
use crate::format::{Format, FormatArg};
use crate::ui::Ui;

/// Draw which memory was touched when: time to the right, addresses upwards, colour for touches per page and second.
///
/// Address space that was never touched is folded away; ranges are named by their mapping. With --format json or csv,
/// --width and --height are the columns and rows of the matrix [default: 120 and 60].
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
    let format = args.format.format;
    let (matrix, meta) = args.trace.analyse(ui, |reader| match format {
        Format::Table => picture_matrix(reader),
        Format::Json | Format::Csv => {
            let (columns, rows) = (args.picture.width().unwrap_or(120), args.picture.height().unwrap_or(60));
            analysis::heatmap(reader, &HeatmapOptions { columns, rows, ..HeatmapOptions::default() })
        }
    })?;
    let drawing = traces::heatmap(&matrix, &meta);
    let mut notes = traces::heatmap_caveats(&matrix);
    notes.extend(traces::caveats(&meta));
    let outcome = Outcome {
        title: "Memory over time".into(),
        drawing: Some(&drawing),
        tables: Vec::new(),
        csv: &|| traces::heatmap_csv(&matrix, &meta),
        json: &|| json_in_pages(&matrix, &meta),
        notes,
    };
    outcome.put_out(&args.picture, format, ui)
}
