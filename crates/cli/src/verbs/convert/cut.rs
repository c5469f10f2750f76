//! `isotherm convert cut`.

use std::path::PathBuf;

use isotherm_trace::TraceReader;
use isotherm_trace::edit::Selection;
use isotherm_trace::region::{RecordSelection, RegionStore};

use super::OutputArg;
use super::filter::{write_record, write_trace};
use crate::error::CliError;
use crate::ui::Ui;
use crate::verbs::region_files::{self, IntervalArgs};
use crate::verbs::selection::WindowArgs;

/// Keep a window of time.
///
/// For a page trace the window is in trace time, as reports show it; its end is exclusive. Mappings that stand when it begins are mapped at
/// the start of the cut, threads that live then exist from the start, and a sleep that crosses an end keeps the part inside. CPU times
/// count from the begin. For a region record, whole snapshots are kept with their times; the end of a snapshot decides.
#[derive(clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(super) struct Args {
    /// A page trace or a region record, finished or not.
    #[arg(value_name = "FILE")]
    input: PathBuf,
    #[command(flatten)]
    output: OutputArg,
    #[command(flatten)]
    window: WindowArgs,
    #[command(flatten)]
    intervals: IntervalArgs,
}

const AFTER_HELP: &str = "\
Examples:
  isotherm convert cut app.parquet --from 2s --to 5s -o middle.parquet
  isotherm convert cut app.parquet --from 150ms -o rest.parquet
  isotherm convert cut app.parquet --to 50% -o half.parquet
  isotherm convert cut damon.data --from 10s --to 20s -o regions.parquet";

pub(super) fn run(args: &Args, ui: &Ui) -> Result<(), CliError> {
    let WindowArgs { from, to } = args.window;
    if from.is_none() && to.is_none() {
        return Err(CliError::usage("nothing to cut: say from when or up to when with --from, --to"));
    }
    let output = args.output.path()?;
    if region_files::is_record(&args.input) {
        let store = RegionStore::open_with(&args.input, args.intervals.options()?)?;
        return write_record(store, &RecordSelection { from, to, ..RecordSelection::default() }, output, ui);
    }
    let reader = TraceReader::open(&args.input)?;
    args.intervals.refuse_for_trace(&args.input)?;
    write_trace(reader, &Selection { from, to, ..Selection::default() }, output, ui)
}
