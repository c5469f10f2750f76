//! Advice from records of a running program: regions of a monitor, or generations of a cgroup.

use std::path::Path;
use std::process::ExitCode;
use std::str::FromStr;

use isotherm_advise::advice::platform::Platform;
use isotherm_advise::cold_memory::{Bounds, ColdAdvice, Goals, GroupRecord, Source, advise_group, advise_regions};
use isotherm_advise::{Effort, Sampling};
use isotherm_kernel::swap::DeviceConfig;
use isotherm_kernel::swap::device::DeviceKind;
use isotherm_linux::Root;
use isotherm_report::{Cell, Column, Table, Unit};
use isotherm_trace::group::{GroupReader, is_group_record};
use isotherm_trace::region::RegionStore;
use isotherm_trace::{TraceError, TraceReader};
use isotherm_units::{Bytes, Duration};

use super::machine::Machine;
use super::{Args, print_lines};
use crate::error::CliError;
use crate::format::Format;
use crate::live::{GroupWatch, LiveClock};
use crate::ui::Ui;

/// Refaults a second, as `50/s` on the command line.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct RefaultGoal(f64);

impl FromStr for RefaultGoal {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let number = text.strip_suffix("/s").and_then(|number| number.trim().parse::<f64>().ok());
        number
            .filter(|per_s| per_s.is_finite() && *per_s >= 0.0)
            .map(Self)
            .ok_or_else(|| format!("`{text}` is no rate of refaults; allowed: 0 and more a second, such as `50/s`"))
    }
}

/// A file that is no page trace.
pub(super) enum Record {
    Group(Box<GroupReader>),
    Regions(Box<RegionStore>),
}

/// The record at `path`; `None` for a page trace, and for any file whose fault the reader of page traces reports best.
pub(super) fn find(path: &Path) -> Result<Option<Record>, CliError> {
    if !matches!(TraceReader::open(path), Err(TraceError::WrongFormat { .. })) {
        return Ok(None);
    }
    if is_group_record(path) {
        return Ok(Some(Record::Group(Box::new(GroupReader::open(path)?))));
    }
    match RegionStore::open(path) {
        Ok(store) => Ok(Some(Record::Regions(Box::new(store)))),
        Err(TraceError::WrongFormat { .. }) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Watches a group, then advises on the samples.
pub(super) fn run_live(path: &str, args: &Args, ui: &Ui) -> Result<ExitCode, CliError> {
    let mut options = args.purpose.budget().options()?;
    if options.length.is_none() {
        options.length = Some(DEFAULT_LENGTH);
    }
    let folder =
        tempfile::tempdir().map_err(|error| CliError::failed(error).while_doing("cannot make a temporary folder"))?;
    let file = args.keep.clone().unwrap_or_else(|| folder.path().join("group.parquet"));
    let group = GroupWatch::open(&Root::default(), path)?;
    let length = options.length.unwrap_or(DEFAULT_LENGTH).approx();
    ui.say(format_args!("watching {path} for {length}; generations are made at each look, nothing else is changed"));
    let watched = group.record(&file, args.interval, options, &mut LiveClock::start()?, ui)?;
    ui.say(format_args!(
        "{} looks for {} of CPU time; ended: {}",
        watched.looks,
        watched.spent.approx(),
        watched.ended
    ));
    run(Record::Group(Box::new(GroupReader::open(&file)?)), args, ui)
}

/// Long enough to see memory that is used once in several minutes.
const DEFAULT_LENGTH: Duration = Duration::from_secs(600);

pub(super) fn run(record: Record, args: &Args, ui: &Ui) -> Result<ExitCode, CliError> {
    let refused = [
        (args.verify, "--verify"),
        (args.limits, "--limits"),
        (args.rows, "--rows"),
        (args.report.is_some(), "--report"),
        (args.config.is_some(), "--config"),
        (args.fast.is_some(), "--fast"),
        (args.window.from.is_some(), "--from"),
        (args.window.to.is_some(), "--to"),
        (args.effort != Effort::default(), "--effort"),
        (args.sample != Sampling::default(), "--sample"),
        (args.no_cache, "--no-cache"),
        (args.kernel.is_some(), "--kernel"),
        (args.memory.is_some(), "--memory"),
        (args.slowdown.is_some(), "--slowdown"),
        (args.latency.is_some(), "--latency"),
        (args.cpus.is_some(), "--cpus"),
        (args.threads.is_some(), "--threads"),
    ];
    if let Some((_, flag)) = refused.into_iter().find(|(given, _)| *given) {
        return Err(CliError::usage(format!(
            "{flag} is for page traces, which can be replayed; a record of regions or generations cannot"
        )));
    }
    let machine = Machine::of(args);
    machine.found.iter().for_each(|found| ui.say(found));
    let goals = Goals {
        refaults_per_s: args.goal.map_or(Goals::default().refaults_per_s, |goal| goal.0),
        pressure_some: args.pressure.unwrap_or(Goals::default().pressure_some),
        swap: kind(&machine.swap, "--swap")?,
        storage: kind(&machine.storage, "--storage")?,
    };
    let spinner = ui.spinner("reading the record");
    let mut platform = args.purpose.platform().cloned();
    let advice = match record {
        Record::Group(mut reader) => {
            let meta = reader.meta().clone();
            platform.get_or_insert_with(|| Platform::of_group(&meta.group));
            reader.read_all().map_err(Into::into).and_then(|looks| advise_group(&GroupRecord { meta, looks }, goals))
        }
        Record::Regions(mut store) => advise_regions(&mut store, goals),
    };
    spinner.finish_and_clear();
    let advice = advice.map_err(CliError::failed)?;
    match args.format.format {
        Format::Table => {
            for_people(&advice, ui)?;
            let limit = advice.recommendation.as_ref().map(|found| found.high_bytes);
            let has_swap = goals.swap != DeviceKind::None;
            let lines = limit.zip(platform).map(|(limit, platform)| platform.lines(limit, has_swap));
            print_lines(&lines.unwrap_or_default(), ui)?;
        }
        Format::Json => {
            let text = serde_json::to_string_pretty(&advice).map_err(CliError::failed)?;
            ui.print_data(format_args!("{text}\n"))?;
        }
        Format::Csv => ui.print_data(curve(&advice).to_csv())?,
    }
    Ok(ExitCode::SUCCESS)
}

/// Kind of the device: costs are known only of these kinds.
fn kind(device: &DeviceConfig, flag: &str) -> Result<DeviceKind, CliError> {
    device.kind().ok_or_else(|| {
        CliError::usage(format!("{flag}: for records a device by name is needed: ram, zram, nvme, ssd, disk, none"))
    })
}

fn for_people(advice: &ColdAdvice, ui: &Ui) -> Result<(), CliError> {
    for line in words(advice) {
        ui.print(format_args!("{line}\n"))?;
    }
    for table in [ages(advice), curve(advice)] {
        ui.print_styled(&crate::verbs::render(&table, Format::Table, ui).after_line().before_line())?;
    }
    for note in &advice.notes {
        ui.say(format_args!("note: {note}"));
    }
    Ok(())
}

fn words(advice: &ColdAdvice) -> Vec<String> {
    let size = |bytes: u64| Bytes::new(bytes).approx().to_string();
    let (what, looks) = match advice.source {
        Source::Generations => ("memory", "looks at generations"),
        Source::Regions => ("mapped addresses", "snapshots of regions"),
    };
    let observed = Duration::from_ns(advice.observed_ns);
    let mut lines = vec![format!(
        "{} {looks} over {}: at most {} of {what}",
        advice.looks,
        observed.approx(),
        size(advice.memory_peak_bytes)
    )];
    lines.push(match &advice.recommendation {
        Some(found) => {
            let Bounds { low, middle, high } = found.refaults_per_s;
            let pressure = found.pressure_some_ppm.high / 1e4;
            match advice.source {
                Source::Generations => format!(
                    "recommended memory.high: {}; predicted {middle:.1} refaults a second (between {low:.1} and {high:.1}), \
                     pressure at most {pressure:.3} %",
                    size(found.high_bytes)
                ),
                // Regions are samples, so unseen accesses leave no upper bound.
                Source::Regions => format!(
                    "recommended memory.high: {}; use that was seen would be {middle:.1} refaults a second (at least {low:.1}); rare \
                     use within regions that were found idle is not seen, and comes on top",
                    size(found.high_bytes)
                ),
            }
        }
        None => format!(
            "no limit is recommended: the evidence does not support that goals are kept with less than {}",
            size(advice.memory_peak_bytes)
        ),
    });
    if let Some(found) = advice.recommendation.filter(|found| found.middle_bytes < found.high_bytes) {
        lines.push(format!("{} may be enough, but the evidence does not support it", size(found.middle_bytes)));
    }
    lines.push(format!("nothing is known of limits below {}", size(advice.floor_bytes)));
    lines
}

fn rate_columns() -> [Column; 3] {
    ["refaults", "refaults at least", "refaults at most"].map(|name| Column::number(name, Unit::PerSecond))
}

fn rate_cells(rate: Bounds) -> [Cell; 3] {
    [rate.middle.into(), rate.low.into(), rate.high.into()]
}

fn ages(advice: &ColdAdvice) -> Table {
    let mut columns = vec![
        Column::text("memory"),
        Column::number("idle for", Unit::Ns),
        Column::number("at the end", Unit::Bytes),
        Column::number("mean", Unit::Bytes),
        Column::number("least", Unit::Bytes),
    ];
    columns.extend(rate_columns());
    let mut table = Table::new("Cold memory, and refaults if it were taken", columns);
    for row in &advice.ages {
        let mut cells = vec![
            Cell::from(row.kind),
            row.age_ns.into(),
            row.cold_last_bytes.into(),
            row.cold_mean_bytes.into(),
            row.cold_min_bytes.into(),
        ];
        cells.extend(rate_cells(row.refaults_per_s));
        table.push(cells);
    }
    table
}

fn curve(advice: &ColdAdvice) -> Table {
    let mut columns = vec![Column::number("memory", Unit::Bytes)];
    columns.extend(rate_columns());
    let mut table = Table::new("Refaults with a limit on memory", columns);
    for point in &advice.curve {
        let mut cells = vec![Cell::from(point.memory_bytes)];
        cells.extend(rate_cells(point.refaults_per_s));
        table.push(cells);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn goals_carry_their_unit() {
        assert_eq!("50/s".parse(), Ok(RefaultGoal(50.0)));
        assert_eq!("0.5 /s".parse(), Ok(RefaultGoal(0.5)));
        for wrong in ["", "50", "/s", "-1/s", "NaN/s", "inf/s", "50/min"] {
            assert!(wrong.parse::<RefaultGoal>().unwrap_err().contains("`50/s`"), "{wrong}");
        }
    }
}
