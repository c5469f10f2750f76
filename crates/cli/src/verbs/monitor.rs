//! `isotherm monitor`: what a monitor finds in a replay, as a region record.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use isotherm_report::{Cell, Column, Table, Unit};
use isotherm_scenario::monitoring::{MonitorReport, watch};
use isotherm_trace::TraceError;
use isotherm_trace::region::{RecordFormat, RecordMeta, RegionStore, RegionWriter};
use serde::Serialize;

use crate::error::CliError;
use crate::format::{Format, FormatArg};
use crate::ui::Ui;

mod live;
pub(crate) mod settings;
pub(crate) mod source;

mod kdamonds;

use settings::SettingArgs;
use source::{Source, SourceArgs};

/// Watch which memory is used how often, and write it down as a region record: of a running process, group or machine, or of a replay
/// on the simulated machine.
///
/// Running processes are watched by DAMON, by the accessed-bit module or by clear_refs (--source). No other state of the machine is
/// changed, and it costs at most --max-cpu of one processor.
///
/// A trace is replayed with memory for everything, so that the record shows the program and not its shortage. The ending of the record's
/// name decides its format: .parquet is isotherm's own, .json is damo's. Flags also have damo's spellings.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(flatten)]
    source: SourceArgs,
    /// The region record to write.
    #[arg(long, short, value_name = "RECORD")]
    output: PathBuf,
    #[command(flatten)]
    live: live::LiveArgs,
    #[command(flatten)]
    settings: SettingArgs,
    #[command(flatten)]
    format: FormatArg,
}

const EXAMPLES: &str = "\
Examples:
  isotherm monitor traces/sqlite.parquet -o sqlite.regions.parquet
  isotherm monitor traces/redis.parquet -o redis.regions.parquet --sample 1ms --aggr 20ms --strategy ptp-aligned
  isotherm monitor traces/redis.parquet -o redis.json --config kdamonds.json
  isotherm monitor traces/gcc.parquet --process 1 -o cc1.regions.parquet
  isotherm monitor --pid 1234 --for 60s -o service.regions.parquet
  isotherm monitor --cgroup /system.slice/nginx.service --source damon -o nginx.regions.parquet
  isotherm monitor -o job.regions.parquet -- python3 job.py
  isotherm report heatmap sqlite.regions.parquet --bands-of traces/sqlite.parquet";

pub(crate) fn run(args: Args, ui: &Ui) -> Result<ExitCode, CliError> {
    refuse_ending(&args.output, args.live.is_given())?;
    if args.live.is_given() {
        args.source.refuse_given("a live target")?;
        return live::run(&args.live, &args.settings, args.source.seed(), &args.output, args.format, ui);
    }
    args.live.budget.refuse_length()?;
    let source = args.source.open(&args.settings, ui)?;
    let report = if RecordFormat::of(&args.output) == Some(RecordFormat::Json) {
        // damo's format is written from a whole record.
        let own = beside(&args.output);
        let report = record(&source, &own, ui);
        let written = report.and_then(|report| {
            let lost = RegionStore::open(&own)?.write(&args.output, RecordFormat::Json)?;
            lost.iter().for_each(|warning| ui.warn(warning));
            Ok(report)
        });
        let _ = std::fs::remove_file(&own);
        written?
    } else {
        record(&source, &args.output, ui)?
    };
    for (event, count) in &report.events {
        let times = if *count > 1 { format!(" ({count} times)") } else { String::new() };
        ui.say(format_args!("note: {event}{times}"));
    }
    ui.say(format_args!("wrote {}", args.output.display()));
    print(&report, args.format.format, ui)?;
    Ok(ExitCode::SUCCESS)
}

/// The name decides the format of the output, so a name without a known ending is taken for a slip.
fn refuse_ending(output: &Path, is_live: bool) -> Result<(), CliError> {
    match RecordFormat::of(output) {
        None if output.extension().is_some() => Err(CliError::usage(format!(
            "-o {}: a record has another ending; allowed: .parquet, .json, or none, which is .parquet",
            output.display()
        ))),
        Some(RecordFormat::Json) if is_live => Err(CliError::usage(format!(
            "-o {}: what runs is recorded as .parquet alone, torn off at any moment; `isotherm convert export` makes .json of it",
            output.display()
        ))),
        _ => Ok(()),
    }
}

/// Name for the unfinished file, in the same folder.
fn beside(output: &Path) -> PathBuf {
    let mut name = output.file_name().unwrap_or_default().to_owned();
    name.push(".part");
    output.with_file_name(name)
}

fn record(source: &Source, output: &Path, ui: &Ui) -> Result<MonitorReport, CliError> {
    let mut writer = RegionWriter::create(output, meta_of(source))?;
    let spinner = ui.spinner("monitoring: snapshots");
    let mut failed: Option<TraceError> = None;
    let watched = watch(&source.watch, &mut |snapshot| {
        spinner.inc(1);
        match writer.push(snapshot) {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => {
                failed = Some(error);
                ControlFlow::Break(())
            }
        }
    });
    spinner.finish_and_clear();
    let report = match (watched, failed) {
        (Ok(watched), None) => watched.monitor,
        (Ok(_), Some(error)) => return Err(error.into()),
        (Err(error), _) => {
            let _ = std::fs::remove_file(output);
            return Err(error.into());
        }
    };
    if writer.meta().snapshots == 0 {
        let _ = std::fs::remove_file(output);
        let aggr = source.watch.config().attributes.aggr_interval;
        let watched = Unit::Ns.approx(report.watched_ns as f64);
        return Err(CliError::failed(format!(
            "no snapshot: the run was watched for {watched}, an aggregation takes {aggr}; take a shorter --aggr"
        )));
    }
    if writer.meta().regions == 0 {
        let _ = std::fs::remove_file(output);
        return Err(nothing_monitored(&report));
    }
    writer.set_outcome(true)?;
    writer.finish()?;
    Ok(report)
}

/// The refusal of a run in which no memory was ever sampled.
pub(crate) fn nothing_monitored(report: &MonitorReport) -> CliError {
    let events: Vec<&str> = report.events.iter().map(|(event, _)| event.as_str()).collect();
    let why = if events.is_empty() { "the target had no memory".to_owned() } else { events.join("; ") };
    CliError::failed(format!(
        "nothing was monitored: {why}. A program of few mappings can be watched with --ops fvaddr, with or without --ranges"
    ))
}

/// Metadata of the record, which include facts about the trace.
fn meta_of(source: &Source) -> RecordMeta {
    let mut meta = source.watch.record_meta();
    if let Some(trace) = &source.trace {
        meta.command.clone_from(&trace.command);
        if let (Some(target), Some(process)) = (meta.targets.first_mut(), trace.processes.get(source.process)) {
            target.pid = Some(process.pid).filter(|&pid| pid != 0);
            target.name = if process.name.is_empty() { source.name.clone() } else { process.name.clone() };
        }
        meta.notes = vec![format!("monitored in a simulated replay of `{}`", source.name)];
    }
    meta
}

/// One level of the page table.
#[derive(Clone, Copy, Debug, Serialize)]
struct LevelWork {
    level: usize,
    clears: u64,
    tests: u64,
    accessed: u64,
}

/// The work of a monitor by level, without levels that it never sampled.
fn levels(report: &MonitorReport) -> Vec<LevelWork> {
    let pairs = report.activity.clears.iter().zip(&report.activity.tests).enumerate();
    pairs
        .filter(|(_, (clears, tests))| **clears > 0 || tests.tests > 0)
        .map(|(level, (&clears, tests))| LevelWork { level, clears, tests: tests.tests, accessed: tests.accessed })
        .collect()
}

fn print(report: &MonitorReport, format: Format, ui: &Ui) -> Result<(), CliError> {
    let levels = levels(report);
    match format {
        Format::Json => {
            #[derive(Serialize)]
            struct Document<'a> {
                #[serde(flatten)]
                report: &'a MonitorReport,
                checks_per_second: f64,
                levels: &'a [LevelWork],
            }
            let document = Document { report, checks_per_second: report.checks_per_second(), levels: &levels };
            let text = serde_json::to_string_pretty(&document).map_err(CliError::failed)?;
            ui.print_data(format_args!("{text}\n"))
        }
        Format::Csv => ui.print_data(cost_table(report).to_csv()),
        Format::Table => {
            ui.print_styled(&crate::verbs::render(&cost_table(report), format, ui))?;
            let columns = vec![
                Column::number("level", Unit::Count),
                Column::number("bits cleared", Unit::Count),
                Column::number("bits tested", Unit::Count),
                Column::number("accessed", Unit::Count),
            ];
            let mut table = Table::new("work by level of the page table (0: pages)", columns);
            for work in levels {
                table.push(vec![
                    Cell::Int(work.level as u64),
                    work.clears.into(),
                    work.tests.into(),
                    work.accessed.into(),
                ]);
            }
            ui.print_styled(&crate::verbs::render(&table, format, ui).after_line())
        }
    }
}

/// One row: the work of a monitor and its costs.
pub(crate) fn cost_table(report: &MonitorReport) -> Table {
    let columns = vec![
        Column::number("watched", Unit::Ns),
        Column::number("snapshots", Unit::Count),
        Column::number("regions mean", Unit::Count),
        Column::number("checks", Unit::Count),
        Column::number("checks a second", Unit::PerSecond),
        Column::number("words scanned", Unit::Count),
        Column::number("wake-ups", Unit::Count),
        Column::number("flushes", Unit::Count),
        Column::number("CPU time", Unit::Ns),
        Column::number("CPU share", Unit::Ppm),
    ];
    let mut table = Table::new("monitor", columns);
    table.push(vec![
        report.watched_ns.into(),
        report.snapshots.into(),
        Cell::Float((report.regions_mean * 10.0).round() / 10.0),
        report.checks.into(),
        Cell::Float(report.checks_per_second().round()),
        report.scanned_words.into(),
        report.wakeups.into(),
        report.flushes.into(),
        report.cpu_ns.into(),
        Cell::Int(cpu_share_ppm(report)),
    ]);
    table
}

/// CPU time of the monitor as a share of one processor.
pub(crate) fn cpu_share_ppm(report: &MonitorReport) -> u64 {
    let share = u128::from(report.cpu_ns) * 1_000_000 / u128::from(report.watched_ns.max(1));
    u64::try_from(share).unwrap_or(u64::MAX)
}
