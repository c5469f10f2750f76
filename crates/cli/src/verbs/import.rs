//! `isotherm convert import`: traces and records of other tools become page traces and region records.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::ValueEnum;
use clap::builder::{PossibleValue, PossibleValuesParser};
use isotherm_trace::Fraction;
use isotherm_trace::import::{self, IMPORTERS, IdUnit, ImportOptions, RequestClock, TimeUnit};
use isotherm_trace::region::RecordFormat;
use isotherm_units::{Bytes, Duration};

use super::region_files::{self, IntervalArgs};
use crate::error::CliError;
use crate::ui::Ui;

/// Turn a trace of another tool into a page trace, or a record of damo or the kernel into a region record.
///
/// Content and name decide the format unless --from does. Input compressed with zstd is decompressed on the way. No file is written if the
/// input is damaged; the message names the line or record.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The trace to read.
    #[arg(value_name = "FILE")]
    input: PathBuf,
    /// The page trace or region record to write (Parquet).
    #[arg(long, short, value_name = "OUTPUT")]
    output: PathBuf,
    /// Format of the input.
    #[arg(long, value_name = "FORMAT", value_parser = PossibleValuesParser::new(formats()))]
    from: Option<String>,
    /// Streams of references (lackey, drmemtrace): epoch in which a page is kept once.
    #[arg(long, value_name = "TIME", default_value = "1ms")]
    epoch: Duration,
    /// Streams of references (lackey, drmemtrace): CPU time of 1000 instructions.
    #[arg(long, value_name = "TIME", default_value = "500ns")]
    time_per_kinstructions: Duration,
    /// Streams of requests (oracle-general, lcs, csv, text): time from one request to the next.
    #[arg(long, value_name = "TIME", default_value = "1us")]
    time_per_request: Duration,
    /// Streams of requests: source of their time.
    #[arg(long, value_enum, value_name = "CLOCK", default_value_t)]
    clock: Clock,
    /// --clock file: unit of the file's times. Without it the unit is guessed, and a note names the guess.
    #[arg(long, value_enum, value_name = "UNIT")]
    time_unit: Option<TimeUnitName>,
    /// Streams of requests: meaning of their ids.
    #[arg(long, value_enum, value_name = "UNIT", default_value_t)]
    unit: Unit,
    /// Length of a sector.
    #[arg(long, value_name = "SIZE", default_value = "512")]
    sector_size: Bytes,
    /// csv with --split-objects: unit of the sizes.
    #[arg(long, value_enum, value_name = "UNIT", default_value_t)]
    size_unit: SizeUnit,
    /// text, csv: numbers without 0x are hexadecimal.
    #[arg(long)]
    hexadecimal: bool,
    /// csv: columns in libCacheSim's words; they count from 1. Without it the header line names isotherm's own columns.
    #[arg(long, value_name = "SPEC")]
    columns: Option<String>,
    /// oracle-general, lcs, csv: a request touches all pages of its object, by the object's size, not one page.
    #[arg(long)]
    split_objects: bool,
    #[command(flatten)]
    intervals: IntervalArgs,
}

const EXAMPLES: &str = "\
Examples:
  isotherm convert import lackey.log -o app.parquet
  isotherm convert import cluster52.oracleGeneral.zst -o cluster52.parquet
  isotherm convert import damon.data -o regions.parquet
  isotherm convert import trace-cmd.txt --sample 5ms --aggr 100ms -o regions.parquet
  isotherm convert import pages.txt --from text --unit addresses -o pages.parquet
  isotherm convert import cluster10.lcs.zst --split-objects -o cluster10.parquet
  isotherm convert import perf.txt -o samples.parquet
  isotherm convert import view.txt -o app.parquet
  isotherm convert import t.csv --columns time-col=1,obj-id-col=2,obj-size-col=3,delimiter=,,has-header=1 -o t.parquet
  isotherm convert import msr.csv --columns time-col=1,op-col=4,obj-id-col=5,obj-size-col=6 --unit addresses --split-objects \
    --clock file --time-unit 100ns -o msr.parquet
  isotherm convert import lbn.csv --columns obj-id-col=2,obj-size-col=3 --unit sectors --split-objects -o lbn.parquet

lackey.log: valgrind --tool=lackey --trace-mem=yes --log-file=lackey.log CMD
perf.txt:   perf record -e page-faults -c 1 -d CMD, or perf mem record CMD; then
            perf script -F comm,pid,tid,time,event,addr,data_src > perf.txt
view.txt:   drrun -t drmemtrace -tool view -indir DIRECTORY 2> view.txt";

/// `--clock`.
#[derive(Clone, Copy, Debug, Default, ValueEnum)]
enum Clock {
    /// Requests follow each other evenly, --time-per-request apart.
    #[default]
    Even,
    /// The file's own clock, from its first request on; its unit: --time-unit.
    File,
}

/// `--time-unit`.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum TimeUnitName {
    /// Seconds.
    S,
    /// Milliseconds.
    Ms,
    /// Microseconds.
    Us,
    /// Nanoseconds.
    Ns,
    /// Ticks of Windows.
    #[value(name = "100ns")]
    Ticks,
}

impl TimeUnitName {
    fn unit(self) -> TimeUnit {
        match self {
            Self::S => TimeUnit::Seconds,
            Self::Ms => TimeUnit::Milliseconds,
            Self::Us => TimeUnit::Microseconds,
            Self::Ns => TimeUnit::Nanoseconds,
            Self::Ticks => TimeUnit::WindowsTicks,
        }
    }
}

/// `--unit`.
#[derive(Clone, Copy, Debug, Default, ValueEnum)]
enum Unit {
    /// Pages or objects; in text 0x… are addresses.
    #[default]
    ByLooks,
    /// Page numbers.
    Pages,
    /// Byte addresses.
    Addresses,
    /// Sectors of a block device, --sector-size each.
    Sectors,
}

/// `--size-unit`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum SizeUnit {
    /// Bytes.
    #[default]
    Bytes,
    /// Sectors, --sector-size each.
    Sectors,
}

/// Formats of region records with their help. The content of a file decides which of them it has.
const RECORDS: [(&str, &str); 3] = [
    ("json_compressed", "damo's default: its json in a zlib stream"),
    ("json", "damo's json: a list of records with snapshots"),
    ("perf_script", "damo's perf_script: damon_aggregated events as text"),
];

fn formats() -> Vec<PossibleValue> {
    let traces = IMPORTERS.iter().map(|importer| (importer.name, importer.about));
    traces.chain(RECORDS).map(|(name, about)| PossibleValue::new(name).help(about)).collect()
}

/// Reads the file and writes the trace.
pub(crate) fn run(args: Args, ui: &Ui) -> Result<ExitCode, CliError> {
    super::unfinished::remove_on_signal()?;
    let is_record = match &args.from {
        Some(format) => RECORDS.iter().any(|(name, _)| name == format),
        None => region_files::is_record(&args.input),
    };
    if is_record {
        let options = args.intervals.options()?;
        region_files::convert(&args.input, options, &args.output, RecordFormat::Parquet, ui)?;
        return Ok(ExitCode::SUCCESS);
    }
    args.intervals.refuse_for_trace(&args.input)?;
    let options = ImportOptions {
        epoch_ns: args.epoch.ns(),
        ns_per_instruction: Fraction { numerator: args.time_per_kinstructions.ns(), denominator: 1000 },
        ns_per_request: args.time_per_request.ns(),
        clock: match args.clock {
            Clock::Even => RequestClock::Even,
            Clock::File => RequestClock::File,
        },
        time_unit: args.time_unit.map(TimeUnitName::unit),
        unit: match args.unit {
            Unit::ByLooks => IdUnit::ByLooks,
            Unit::Pages => IdUnit::Pages,
            Unit::Addresses => IdUnit::Addresses,
            Unit::Sectors => IdUnit::Sectors,
        },
        sector_bytes: args.sector_size.get(),
        sizes_in_sectors: args.size_unit == SizeUnit::Sectors,
        radix: if args.hexadecimal { 16 } else { 10 },
        csv_columns: args.columns,
        split_objects: args.split_objects,
    };
    let spinner = ui.spinner("importing");
    let meta = import::import(args.from.as_deref(), &args.input, &args.output, &options);
    spinner.finish_and_clear();
    let meta = meta?;
    ui.say(format_args!("{}: {} rows, {} page accesses", args.output.display(), meta.rows, meta.accesses));
    for note in &meta.notes {
        ui.say(format_args!("note: {note}"));
    }
    Ok(ExitCode::SUCCESS)
}
