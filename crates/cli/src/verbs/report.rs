//! `isotherm report`: what a trace tells without replaying it, as pictures and tables. One file for each kind.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use isotherm_report::Heatmap;
use isotherm_trace::analysis::HeatmapOptions;
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

/// Cells of a picture's matrix: more than it has pixels to show bands in would be wasted.
const PICTURE_CELLS: HeatmapOptions = HeatmapOptions { columns: 800, rows: 500, fold_pages: 2048 };

/// The heatmap of a trace, for reports that hold more than it.
pub(crate) fn trace_heatmap(trace: &Path) -> Result<Heatmap, CliError> {
    let mut reader = TraceReader::open(trace)?;
    let meta = reader.meta().clone();
    let matrix = isotherm_trace::analysis::heatmap(&mut reader, &PICTURE_CELLS)?;
    Ok(isotherm_report::traces::heatmap(&matrix, &meta))
}
