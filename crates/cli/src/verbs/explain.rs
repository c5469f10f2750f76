//! `isotherm explain`: what the schemes of a run did, and what stopped them.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::builder::PossibleValuesParser;
use isotherm_core::presets::{PRESETS, Preset};
use isotherm_core::schemes::{REASONS, Scheme, SchemeReport, explain};
use isotherm_report::{Cell, Column, Table, Unit};
use isotherm_scenario::monitoring::{MonitorReport, MonitorSpec, Replay};
use isotherm_scenario::{RunOptions, Scenario};
use isotherm_trace::TraceReader;
use isotherm_units::Bytes;
use serde::Serialize;

use super::monitor::source::{is_scenario, replay_of};
use super::simulate;
use crate::error::CliError;
use crate::format::{Format, FormatArg};
use crate::ui::Ui;

/// Say in words what the schemes of a run did, and what stopped them.
///
/// The run is played with all its monitors: of a scenario one variant with one workload and the first seed, or a trace beside
/// a preset on a machine of its own. Each region that a scheme was shown is counted by what became of it.
/// What the reasons mean: docs/schemes.md.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// A scenario file, the name of a bundled scenario (`isotherm simulate --list`), or a page trace.
    #[arg(value_name = "SCENARIO|TRACE")]
    source: String,
    /// Scenarios: which variant [default: the first].
    #[arg(long, value_name = "NAME")]
    variant: Option<String>,
    /// Scenarios: which workload [default: the first].
    #[arg(long, value_name = "NAME")]
    workload: Option<String>,
    /// Scenarios: only this monitor [default: all that have schemes].
    #[arg(long, value_name = "NAME")]
    monitor: Option<String>,
    /// Traces: the schemes, by the name of their preset.
    #[arg(long, value_name = "NAME", value_parser = PossibleValuesParser::new(PRESETS.iter().map(|entry| entry.name)))]
    preset: Option<String>,
    /// Traces: memory of the machine, swap beside it [default: 256GiB].
    #[arg(long, value_name = "SIZE")]
    memory: Option<Bytes>,
    /// Only the scheme of this number, from 0.
    #[arg(long, value_name = "N")]
    scheme: Option<usize>,
    /// Seed of chance [default: the scenario's; 1].
    #[arg(long, value_name = "SEED")]
    seed: Option<u64>,
    #[command(flatten)]
    format: FormatArg,
}

const EXAMPLES: &str = "\
Examples:
  isotherm explain my-service.toml
  isotherm explain my-service.toml --variant tight --monitor kdamond --scheme 0
  isotherm explain my-service.toml --format json
  isotherm explain traces/sqlite.parquet --preset plrus-radical --memory 64MiB";

/// Runs the verb.
pub(crate) fn run(args: Args, ui: &Ui) -> Result<ExitCode, CliError> {
    let is_scenario = is_scenario(&args.source);
    let replay = if is_scenario { of_scenario(&args)? } else { of_trace(&args)? };
    let specs: Vec<MonitorSpec> = replay.monitors().into_iter().cloned().collect();
    check(&args, &replay, &specs)?;
    let spinner = ui.spinner("simulating");
    let played = replay.play();
    spinner.finish_and_clear();
    let (reports, _) = played.map_err(simulate::error)?;
    let is_wanted = |name: &str| args.monitor.as_ref().is_none_or(|wanted| wanted == name);
    let monitors: Vec<Explained<'_>> = (specs.iter().zip(&reports))
        .filter(|(spec, _)| is_wanted(&spec.name))
        .map(|(spec, report)| Explained::new(spec, report, args.scheme))
        .filter(|monitor| !monitor.schemes.is_empty())
        .collect();
    let (variant, workload) = match is_scenario {
        true => (Some(replay.variant()), Some(replay.workload())),
        false => (None, None),
    };
    print(&Document { source: &args.source, variant, workload, monitors: &monitors }, args.format.format, ui)?;
    Ok(ExitCode::SUCCESS)
}

fn of_scenario(args: &Args) -> Result<Replay, CliError> {
    let refuse = |what: &str| Err(CliError::usage(format!("{} is a scenario: write {what} in it", args.source)));
    if args.preset.is_some() {
        return refuse("the preset of a `[[monitors]]` table");
    }
    if args.memory.is_some() {
        return refuse("the memory of its `[machine]`");
    }
    let (mut scenario, base_dir) = simulate::find(&args.source)?;
    scenario.seed = args.seed.unwrap_or(scenario.seed);
    replay(&scenario, base_dir, args)
}

fn of_trace(args: &Args) -> Result<Replay, CliError> {
    let path = Path::new(&args.source);
    for (given, flag) in [(&args.variant, "--variant"), (&args.workload, "--workload"), (&args.monitor, "--monitor")] {
        if given.is_some() {
            return Err(CliError::usage(format!("{} is no scenario: {flag} is for scenarios", path.display())));
        }
    }
    TraceReader::open(path)?;
    let Some(name) = &args.preset else {
        let names: Vec<&str> = PRESETS.iter().map(|entry| entry.name).collect();
        let message = format!("a trace has no schemes of its own; name some by --preset: {}", names.join(", "));
        return Err(CliError::usage(message));
    };
    let preset: Preset = name.parse().map_err(CliError::usage)?;
    let monitor = MonitorSpec::of_preset("kdamond.0", preset).map_err(CliError::usage)?;
    // Presets sort and reclaim the lists of the kernel's own policy.
    let mut scenario = Scenario { policy: "classic".to_owned(), ..replay_of(path, args.seed.unwrap_or(1), false) };
    if let (Some(memory), Some(node)) = (args.memory, scenario.machine.nodes.first_mut()) {
        node.memory = memory;
        scenario.machine.validate().map_err(|error| CliError::usage(format!("--memory: {error}")))?;
    }
    replay(&Scenario { monitors: vec![monitor], ..scenario }, PathBuf::from("."), args)
}

fn replay(scenario: &Scenario, base_dir: PathBuf, args: &Args) -> Result<Replay, CliError> {
    let options = RunOptions { base_dir, place: args.source.clone(), threads: None };
    let (variant, workload) = (args.variant.as_deref(), args.workload.as_deref());
    Replay::of_scenario(scenario, &options, variant, workload).map_err(simulate::error)
}

/// Whether there is what was asked for, before time is spent on the run.
fn check(args: &Args, replay: &Replay, specs: &[MonitorSpec]) -> Result<(), CliError> {
    let place = format!("{}: variant `{}`", args.source, replay.variant());
    let refuse = |message: String| Err(CliError::usage(message));
    let names: Vec<&str> = specs.iter().map(|spec| spec.name.as_str()).collect();
    if names.is_empty() {
        return refuse(format!("{place}: no monitor watches this run; add a `[[monitors]]` table with schemes"));
    }
    let wanted: Vec<&MonitorSpec> = match &args.monitor {
        None => specs.iter().collect(),
        Some(name) => specs.iter().filter(|spec| spec.name == *name).collect(),
    };
    if let (Some(name), true) = (&args.monitor, wanted.is_empty()) {
        let names = names.join(", ");
        return refuse(format!("{place}: there is no monitor `{name}` in this run; monitors: {names}"));
    }
    let wanted_names: Vec<String> = wanted.iter().map(|spec| format!("`{}`", spec.name)).collect();
    let wanted_names = wanted_names.join(", ");
    let most = wanted.iter().map(|spec| spec.config.schemes.len()).max().unwrap_or_default();
    match args.scheme {
        _ if most == 0 => refuse(format!(
            "{place}: no schemes in {wanted_names}, which only monitors; add `schemes` to its `config`, or take a preset"
        )),
        Some(scheme) if scheme >= most => {
            refuse(format!("--scheme is {scheme}; allowed: 0 to {}, the schemes of {wanted_names}", most - 1))
        }
        _ => Ok(()),
    }
}

/// A scheme, how it fared, and that in words.
#[derive(Serialize)]
struct ExplainedScheme<'a> {
    #[serde(flatten)]
    report: &'a SchemeReport,
    words: Vec<String>,
}

/// A monitor with those of its schemes that were asked for.
#[derive(Serialize)]
struct Explained<'a> {
    name: &'a str,
    watched_ns: u64,
    snapshots: u64,
    cpu_ns: u64,
    /// What the monitor itself found out of the ordinary.
    events: &'a [(String, u64)],
    schemes: Vec<ExplainedScheme<'a>>,
}

impl<'a> Explained<'a> {
    fn new(spec: &MonitorSpec, report: &'a MonitorReport, only: Option<usize>) -> Self {
        let is_wanted = |index: usize| only.is_none_or(|only| only == index);
        let pairs = spec.config.schemes.iter().zip(&report.schemes).filter(|(_, report)| is_wanted(report.index));
        let explained =
            |(scheme, report): (&Scheme, &'a SchemeReport)| ExplainedScheme { words: explain(scheme, report), report };
        Self {
            name: &report.name,
            watched_ns: report.watched_ns,
            snapshots: report.snapshots,
            cpu_ns: report.cpu_ns,
            events: &report.events,
            schemes: pairs.map(explained).collect(),
        }
    }
}

#[derive(Serialize)]
struct Document<'a> {
    source: &'a str,
    variant: Option<&'a str>,
    workload: Option<&'a str>,
    monitors: &'a [Explained<'a>],
}

fn print(document: &Document<'_>, format: Format, ui: &Ui) -> Result<(), CliError> {
    match format {
        Format::Json => {
            let text = serde_json::to_string_pretty(document).map_err(CliError::failed)?;
            ui.print(format_args!("{text}\n"))
        }
        Format::Csv => ui.print(long_table(document.monitors).to_csv()),
        Format::Table => {
            let run: Vec<&str> = document.variant.into_iter().chain(document.workload).collect();
            let run = if run.is_empty() { String::new() } else { format!(" of {}", run.join(", ")) };
            for (index, monitor) in document.monitors.iter().enumerate() {
                let gap = if index > 0 { "\n" } else { "" };
                let watched = Unit::Ns.approx(monitor.watched_ns as f64);
                let snapshots = monitor.snapshots;
                ui.print(format_args!("{gap}{}: watched {watched}{run}, {snapshots} snapshots\n", monitor.name))?;
                for (event, count) in monitor.events {
                    let times = if *count > 1 { format!(" ({count} times)") } else { String::new() };
                    ui.print(format_args!("note: {event}{times}\n"))?;
                }
                for scheme in &monitor.schemes {
                    ui.print(format_args!("\n{}\n", scheme.words.join("\n")))?;
                    let counts = counts(scheme.report);
                    if !counts.rows.is_empty() {
                        ui.print(format_args!("\n{}", super::render(&counts, Format::Table, ui)))?;
                    }
                }
            }
            Ok(())
        }
    }
}

/// What became of the regions that a scheme was shown, for people: reasons that occurred.
fn counts(report: &SchemeReport) -> Table {
    let columns = vec![
        Column::text("what became of regions"),
        Column::number("regions", Unit::Count),
        Column::number("size", Unit::Bytes),
        Column::number("share", Unit::Ppm),
    ];
    let why = &report.all_passes;
    let shown = why.shown().bytes;
    let mut table = Table::new(format!("scheme {} in {} passes", report.index, why.passes), columns);
    for (reason, name) in REASONS {
        let tally = why.of(reason);
        if tally.regions > 0 {
            let ppm = u128::from(tally.bytes) * 1_000_000 / u128::from(shown.max(1));
            let ppm = u64::try_from(ppm).unwrap_or(u64::MAX);
            table.push(vec![name.replace('_', " ").into(), tally.regions.into(), tally.bytes.into(), Cell::Int(ppm)]);
        }
    }
    table
}

/// A line per monitor, scheme and reason, for programs.
fn long_table(monitors: &[Explained<'_>]) -> Table {
    let columns = vec![
        Column::text("monitor"),
        Column::number("scheme", Unit::Count),
        Column::text("action"),
        Column::text("reason"),
        Column::number("regions", Unit::Count),
        Column::number("bytes", Unit::Bytes),
    ];
    let mut table = Table::new("", columns);
    for monitor in monitors {
        for ExplainedScheme { report, .. } in &monitor.schemes {
            for (reason, name) in REASONS {
                let tally = report.all_passes.of(reason);
                table.push(vec![
                    monitor.name.into(),
                    Cell::Int(report.index as u64),
                    report.action.name().into(),
                    name.into(),
                    tally.regions.into(),
                    tally.bytes.into(),
                ]);
            }
        }
    }
    table
}
