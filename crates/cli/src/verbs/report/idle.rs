//! `isotherm report idle`.

use isotherm_report::records::{self, At, IDLE_BOUNDS_NS};
use isotherm_report::traces;
use isotherm_trace::analysis::{self, IdleAt};

use super::at::AtArg;
use super::input::{Input, InputArgs, Record, TraceInput};
use super::output::{Outcome, PictureArgs, json, json_in_pages};
use crate::error::CliError;
use crate::format::FormatArg;
use crate::ui::Ui;

/// Draw how much memory has been idle for how long.
///
/// For a region record: idle time is the age of a region that was not found accessed. For a page trace: the exact time since the last
/// access of each page that is still mapped. `--at last` is the moment of the last access. With --at all it is the mean over all snapshots,
/// or over 100 moments of a page trace.
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

/// Moments of a page trace whose mean `--at all` shows.
const MOMENTS: u32 = 100;

pub(super) fn run(args: &Args, ui: &Ui) -> Result<(), CliError> {
    match args.input.open(ui)? {
        Input::Trace(mut trace) => of_trace(args, &mut trace, ui),
        Input::Record(mut record) => of_record(args, &mut record, ui),
    }
}

fn of_trace(args: &Args, trace: &mut TraceInput, ui: &Ui) -> Result<(), CliError> {
    let at = match args.at.at() {
        At::Last => IdleAt::LastAccess,
        At::Time(time_ns) => IdleAt::Time(time_ns),
        At::All => IdleAt::Spread(MOMENTS),
    };
    let moments = trace.analyse(ui, 2, |reader| analysis::idle(reader, at, IDLE_BOUNDS_NS))?;
    let meta = &trace.meta;
    let idle = traces::idle(&moments, meta.page_bytes);
    let drawing = records::idle_chart(&idle, traces::subject(meta));
    let outcome = Outcome {
        title: "Memory by idle time".into(),
        drawing: Some(&drawing),
        tables: vec![records::idle_table(&idle)],
        csv: &|| records::idle_csv(&idle),
        json: &|| json_in_pages(&idle, meta),
        notes: traces::caveats(meta),
    };
    outcome.put_out(&args.picture, args.format.format, ui)
}

fn of_record(args: &Args, record: &mut Record, ui: &Ui) -> Result<(), CliError> {
    let at = args.at.at();
    let idle = record.analyse(ui, |store, survey| records::idle(store, survey, at))?;
    let drawing = records::idle_chart(&idle, records::subject(&record.store));
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
