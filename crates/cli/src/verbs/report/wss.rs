//! `isotherm report wss`.

use isotherm_report::{records, traces};
use isotherm_trace::analysis;
use isotherm_units::Duration;

use super::input::{Input, InputArgs, Record, TraceInput};
use super::output::{Outcome, PictureArgs, json, json_in_pages};
use crate::error::CliError;
use crate::format::FormatArg;
use crate::ui::Ui;

/// Draw the working set over time and its percentiles.
///
/// For a page trace: the distinct memory that was touched in each window. For a region record: memory in regions that were found accessed
/// at least --min-accesses times in an aggregation. `damo report wss` counts the same, without the first 20 snapshots (--skip 20).
#[derive(clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    input: InputArgs,
    /// Page traces: length of a window [default: 100ms, rounded up to whole epochs].
    #[arg(long, value_name = "TIME")]
    window: Option<Duration>,
    /// Region records: accesses of a region that is part of the working set [default: 1].
    #[arg(long, value_name = "N", alias = "acc_thres")]
    min_accesses: Option<u32>,
    /// Region records: first snapshots of each target to leave out [default: 0].
    #[arg(long, value_name = "N", alias = "exclude_samples")]
    skip: Option<u64>,
    #[command(flatten)]
    picture: PictureArgs,
    #[command(flatten)]
    format: FormatArg,
}

pub(super) fn run(args: &Args, ui: &Ui) -> Result<(), CliError> {
    match args.input.open(ui)? {
        Input::Trace(mut trace) => of_trace(args, &mut trace, ui),
        Input::Record(mut record) => of_record(args, &mut record, ui),
    }
}

fn of_trace(args: &Args, trace: &mut TraceInput, ui: &Ui) -> Result<(), CliError> {
    for (given, flag) in [(args.min_accesses.is_some(), "--min-accesses"), (args.skip.is_some(), "--skip")] {
        if given {
            return Err(args.input.refuse("a page trace", &format!("{flag} is for region records")));
        }
    }
    let window_ns = args.window.map_or_else(|| usual_window_ns(trace.meta.epoch_ns), Duration::ns);
    let working_set = trace.analyse(ui, 1, |reader| analysis::wss(reader, window_ns))?;
    let meta = &trace.meta;
    let drawing = traces::wss_chart(&working_set, meta);
    let outcome = Outcome {
        title: "Working set".into(),
        drawing: Some(&drawing),
        tables: vec![traces::wss_table(&working_set, meta)],
        csv: &|| traces::wss_csv(&working_set, meta),
        json: &|| json_in_pages(&working_set, meta),
        notes: traces::caveats(meta),
    };
    outcome.put_out(&args.picture, args.format.format, ui)
}

fn of_record(args: &Args, record: &mut Record, ui: &Ui) -> Result<(), CliError> {
    if args.window.is_some() {
        let why = "its windows are the monitor's aggregations; --window is for page traces";
        return Err(args.input.refuse("a region record", why));
    }
    let (accesses_min, skip) = (args.min_accesses.unwrap_or(1), args.skip.unwrap_or(0));
    let working_set = record.analyse(ui, |store, survey| records::wss(store, survey, accesses_min, skip))?;
    let drawing = records::wss_chart(&working_set, &record.store);
    let outcome = Outcome {
        title: "Working set".into(),
        drawing: Some(&drawing),
        tables: vec![records::wss_table(&working_set)],
        csv: &|| records::wss_csv(&working_set),
        json: &|| json(&working_set),
        notes: record.caveats(),
    };
    outcome.put_out(&args.picture, args.format.format, ui)
}

/// Windows of whole epochs: other windows would alternately hold one epoch more or less.
pub(super) fn usual_window_ns(epoch_ns: u64) -> u64 {
    let usual_ns = Duration::from_ms(100).ns();
    usual_ns.checked_next_multiple_of(epoch_ns.max(1)).unwrap_or(epoch_ns)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_hold_whole_epochs() {
        for (epoch_ns, window_ns) in
            [(0, 100_000_000), (1_000_000, 100_000_000), (8_000_000, 104_000_000), (u64::MAX, u64::MAX)]
        {
            assert_eq!(usual_window_ns(epoch_ns), window_ns, "{epoch_ns}");
        }
    }
}
