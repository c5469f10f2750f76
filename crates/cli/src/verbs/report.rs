//! `isotherm report`: what a page trace, a region record or the kernel's text tells, as pictures and tables. One file for each
//! view and one line in the table.

use std::path::Path;
use std::process::ExitCode;

use isotherm_report::Heatmap;
use isotherm_trace::analysis::{self, Heatmap as Matrix, HeatmapOptions};
use isotherm_trace::{TraceReader, TraceRows};

use crate::error::CliError;
use crate::ui::Ui;

mod access;
mod at;
mod compare;
mod fragmentation;
mod generations;
mod heatmap;
mod hot;
mod idle;
mod info;
mod input;
mod mrc;
mod output;
mod wss;

/// Show what a page trace or a region record tells: which memory was in use, when, how often; and how far free memory is
/// scattered.
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
  isotherm report generations traces/redis.parquet --interval 200ms
  isotherm report heatmap damon.data --from 10s --to 20s
  isotherm report wss traces/redis.parquet --from 25% --to 75% --mapping heap
  isotherm report access damon.data --at last --sort temperature
  isotherm report idle damon.data --at all --png idle.png
  isotherm report idle traces/redis.parquet --at 2s
  isotherm report compare before.regions.parquet after.regions.parquet
  isotherm report fragmentation /proc/buddyinfo

How to read the pictures: docs/pictures.md";

/// Makes the enum that clap parses and the call of each view from one table.
macro_rules! views {
    ($($variant:ident => $module:ident,)*) => {
        #[derive(clap::Subcommand)]
        enum What {
            $($variant($module::Args),)*
        }

        /// Runs the verb.
        pub(crate) fn run(args: Args, ui: &Ui) -> Result<ExitCode, CliError> {
            match args.what {
                $(What::$variant(args) => $module::run(&args, ui),)*
            }?;
            Ok(ExitCode::SUCCESS)
        }
    };
}

views! {
    Heatmap => heatmap,
    Wss => wss,
    Mrc => mrc,
    Hot => hot,
    Idle => idle,
    Access => access,
    Fragmentation => fragmentation,
    Generations => generations,
    Compare => compare,
    Info => info,
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
fn picture_matrix(reader: &mut impl TraceRows) -> isotherm_trace::Result<Matrix> {
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
