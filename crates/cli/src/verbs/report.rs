//! `isotherm report`: what a trace tells without replaying it, as pictures and tables. One file for each kind.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use isotherm_report::Heatmap;
use isotherm_trace::analysis::{self, Heatmap as Matrix, HeatmapOptions};
use isotherm_trace::{TraceMeta, TraceReader};

use crate::error::CliError;
use crate::ui::Ui;

mod heatmap;
mod hot;
mod info;
mod mrc;
mod output;
mod wss;

/// Show what a recording tells without replaying it: which memory was touched, when, how often.
#[derive(clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Args {
    #[command(subcommand)]
    what: What,
}

const AFTER_HELP: &str = "\
Examples:
  isotherm report info traces/sqlite.parquet
  isotherm report heatmap traces/sqlite.parquet
  isotherm report heatmap traces/sqlite.parquet --png heatmap.png --theme dark
  isotherm report wss traces/sqlite.parquet --window 100ms --html wss.html
  isotherm report mrc traces/sqlite.parquet --format csv

How to read the pictures: docs/pictures.md";

#[derive(clap::Subcommand)]
enum What {
    Heatmap(heatmap::Args),
    Wss(wss::Args),
    Mrc(mrc::Args),
    Hot(hot::Args),
    Info(info::Args),
}

/// Runs the verb.
pub(crate) fn run(args: Args, ui: &Ui) -> Result<ExitCode, CliError> {
    match args.what {
        What::Heatmap(args) => heatmap::run(&args, ui),
        What::Wss(args) => wss::run(&args, ui),
        What::Mrc(args) => mrc::run(&args, ui),
        What::Hot(args) => hot::run(&args, ui),
        What::Info(args) => info::run(&args, ui),
    }?;
    Ok(ExitCode::SUCCESS)
}

/// The recording to look at.
#[derive(Debug, clap::Args)]
struct TraceArg {
    /// A recording (see `isotherm record` and `isotherm import`), also one that is still being written.
    #[arg(value_name = "TRACE")]
    trace: PathBuf,
}

impl TraceArg {
    /// Opens it, runs `analysis` over it with a spinner; the result and what the trace says about itself.
    fn analyse<T>(
        &self,
        ui: &Ui,
        analysis: impl FnOnce(&mut TraceReader) -> isotherm_trace::Result<T>,
    ) -> Result<(T, TraceMeta), CliError> {
        let mut reader = TraceReader::open(&self.trace)?;
        let meta = reader.meta().clone();
        let spinner = ui.spinner("reading the trace");
        let result = analysis(&mut reader);
        spinner.finish_and_clear();
        Ok((result?, meta))
    }
}

/// Cells of a picture's matrix: columns as many as it has pixels; rows many more, or a heap that is scattered over a
/// thousand places would become few bands that are mostly holes.
const PICTURE_CELLS: HeatmapOptions = HeatmapOptions { columns: 800, rows: 4000, fold_pages: 2048 };

/// The heatmap of a trace, for reports that hold more than it.
pub(crate) fn trace_heatmap(trace: &Path) -> Result<Heatmap, CliError> {
    let mut reader = TraceReader::open(trace)?;
    let matrix = picture_matrix(&mut reader)?;
    Ok(isotherm_report::traces::heatmap(&matrix, reader.meta()))
}

/// The matrix for a picture. Its columns are whole epochs: narrower ones would be empty in turn, and stripes would be seen
/// that are not there.
fn picture_matrix(reader: &mut TraceReader) -> isotherm_trace::Result<Matrix> {
    let matrix = analysis::heatmap(reader, &PICTURE_CELLS)?;
    match whole_epochs(matrix.duration_ns, reader.meta().epoch_ns) {
        PICTURE_COLUMNS => Ok(matrix),
        columns => analysis::heatmap(reader, &HeatmapOptions { columns, ..PICTURE_CELLS }),
    }
}

const PICTURE_COLUMNS: u32 = PICTURE_CELLS.columns;

/// The most columns, up to a picture's, that are whole numbers of epochs long.
fn whole_epochs(duration_ns: u64, epoch_ns: u64) -> u32 {
    let Some(epochs) = duration_ns.checked_div(epoch_ns) else { return PICTURE_COLUMNS };
    let epochs_per_column = epochs.div_ceil(u64::from(PICTURE_COLUMNS)).max(1);
    u32::try_from(epochs / epochs_per_column).unwrap_or(PICTURE_COLUMNS).clamp(1, PICTURE_COLUMNS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_hold_whole_epochs() {
        // (duration, epoch, columns): no epochs; fewer epochs than columns; 2590 / 4 epochs a column; none at all.
        for (duration_ns, epoch_ns, columns) in
            [(5, 0, 800), (2_590, 10, 259), (2_590, 1, 647), (0, 10, 1), (1_600_000, 1, 800)]
        {
            assert_eq!(whole_epochs(duration_ns, epoch_ns), columns, "{duration_ns} / {epoch_ns}");
        }
    }
}
