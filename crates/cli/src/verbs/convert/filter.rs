//! `isotherm convert filter`.

use std::path::{Path, PathBuf};

use isotherm_trace::edit::{Access, AddressRange, Selection, TracePart, write_part};
use isotherm_trace::region::{RecordSelection, RegionStore, write_selected};
use isotherm_trace::{TraceReader, TraceRows};

use super::{OutputArg, say_record, say_trace};
use crate::error::CliError;
use crate::ui::Ui;
use crate::verbs::region_files::{self, IntervalArgs};

/// Keep accesses by thread, process, address or mapping.
///
/// An access is kept if every kind of flag that is given keeps it. Rows are dropped, time is not: threads have the CPU time that they had.
/// With --process or --thread, processes are dropped that have no kept rows and started no kept process. For a region record, targets are
/// kept and regions are cut to the ranges.
#[derive(clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(super) struct Args {
    /// A page trace or a region record, finished or not.
    #[arg(value_name = "FILE")]
    input: PathBuf,
    #[command(flatten)]
    output: OutputArg,
    /// Pages or regions of these addresses: 0x7f3a00000000-0x7f3a10000000, 1GiB-2GiB.
    #[arg(long, value_name = "START-END", value_delimiter = ',')]
    range: Vec<AddressRange>,
    /// Page traces: threads by index, tid or name. A number is an index where there is one.
    #[arg(long, value_name = "THREAD", value_delimiter = ',')]
    thread: Vec<String>,
    /// Page traces: processes by index, pid or name.
    #[arg(long, value_name = "PROCESS", value_delimiter = ',')]
    process: Vec<String>,
    /// Page traces: mappings: heap, stack, anonymous, file, shared, image, or a part of the mapped file's path.
    #[arg(long, value_name = "TEXT")]
    mapping: Vec<String>,
    /// Page traces: only accesses that read.
    #[arg(long, conflicts_with = "writes")]
    reads: bool,
    /// Page traces: only accesses that write.
    #[arg(long)]
    writes: bool,
    /// Region records: targets by number, pid or name.
    #[arg(long, value_name = "TARGET", value_delimiter = ',')]
    target: Vec<String>,
    #[command(flatten)]
    intervals: IntervalArgs,
}

const AFTER_HELP: &str = "\
Examples:
  isotherm convert filter app.parquet --process redis-server -o redis.parquet
  isotherm convert filter app.parquet --mapping heap --mapping stack -o own.parquet
  isotherm convert filter app.parquet --mapping libc.so --reads -o libc.parquet
  isotherm convert filter app.parquet --range 0x7f3a00000000-0x7f3a40000000 -o range.parquet
  isotherm convert filter damon.data --target 0 --range 1GiB-2GiB -o regions.parquet

Indices, names and mappings: isotherm report info app.parquet";

pub(super) fn run(args: &Args, ui: &Ui) -> Result<(), CliError> {
    let output = args.output.path()?;
    let for_traces = [
        (!args.thread.is_empty(), "--thread"),
        (!args.process.is_empty(), "--process"),
        (!args.mapping.is_empty(), "--mapping"),
        (args.reads, "--reads"),
        (args.writes, "--writes"),
    ];
    let given = for_traces.into_iter().find(|(given, _)| *given).map(|(_, flag)| flag);
    if given.is_none() && args.range.is_empty() && args.target.is_empty() {
        return Err(CliError::usage("nothing to filter by: say what to keep, for example with --process or --range"));
    }
    let input = args.input.display();
    if region_files::is_record(&args.input) {
        if let Some(flag) = given {
            return Err(CliError::usage(format!("{input} is a region record: {flag} is for page traces")));
        }
        let store = RegionStore::open_with(&args.input, args.intervals.options()?)?;
        let (targets, ranges) = (args.target.clone(), args.range.clone());
        return write_record(store, &RecordSelection { targets, ranges, ..RecordSelection::default() }, output, ui);
    }
    let reader = TraceReader::open(&args.input)?;
    args.intervals.refuse_for_trace(&args.input)?;
    if !args.target.is_empty() {
        let what = "--target is for region records. For page traces: --process, --thread";
        return Err(CliError::usage(format!("{input} is a page trace: {what}")));
    }
    let selection = Selection {
        threads: args.thread.clone(),
        processes: args.process.clone(),
        ranges: args.range.clone(),
        mappings: args.mapping.clone(),
        access: args.reads.then_some(Access::Reads).or(args.writes.then_some(Access::Writes)),
        ..Selection::default()
    };
    write_trace(reader, &selection, output, ui)
}

/// Writes the selected part of a page trace, and returns a description of it.
pub(in crate::verbs) fn write_trace(
    reader: TraceReader,
    selection: &Selection,
    output: &Path,
    ui: &Ui,
) -> Result<(), CliError> {
    let spinner = ui.spinner("finding the part");
    let part = TracePart::new(reader, selection);
    spinner.finish_and_clear();
    let mut part = part?;
    let bar = ui.progress("writing rows", part.meta().rows);
    let written = write_part(&mut part, output, |rows| bar.inc(rows));
    bar.finish_and_clear();
    say_trace(output, &written?, ui);
    Ok(())
}

/// Writes the selected part of a region record, and returns a description of it.
pub(super) fn write_record(
    mut store: RegionStore,
    selection: &RecordSelection,
    output: &Path,
    ui: &Ui,
) -> Result<(), CliError> {
    let bar = ui.progress("reading snapshots", store.meta().snapshots);
    let written = write_selected(&mut store, selection, output, |snapshots| bar.inc(snapshots));
    bar.finish_and_clear();
    store.warnings().iter().for_each(|warning| ui.warn(warning));
    say_record(output, &written?, store.warnings(), ui);
    Ok(())
}
