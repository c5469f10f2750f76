//! `isotherm report explain`: what the schemes of a run did, and what stopped them; decisions of right-sizing.

mod limits;
pub(super) mod live;
mod places;

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::builder::PossibleValuesParser;
use isotherm_core::presets::{PRESETS, Preset};
use isotherm_core::schemes::{REASONS, SchemeReport};
use isotherm_report::{Cell, Column, Table, Unit};
use isotherm_scenario::monitoring::{ExplainedMonitor, ExplainedRun, MonitorReport, MonitorSpec, Replay};
use isotherm_scenario::{RunOptions, Scenario};
use isotherm_sim::machine::LimitsOutcome;
use isotherm_trace::TraceReader;
use isotherm_units::{Bytes, Duration};
use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};

use super::monitor::source::{is_scenario, replay_of};
use super::simulate;
use crate::error::CliError;
use crate::format::{Format, FormatArg};
use crate::live::daemon::AUDIT;
use crate::ui::Ui;

/// Say in words what the schemes of a run did, and what stopped them.
///
/// The run is played with all its monitors: of a scenario one variant with one workload and the first seed, or a trace with a preset on a
/// machine of its own. A saved result (`isotherm simulate --format json`) holds it already, and no run is played. Each region that a scheme
/// was shown is counted by its result. Meaning of the reasons: docs/mechanism/schemes.md.
///
/// With --live it reads the audit of the daemon: what each section did, what was refused, what was left alone, and why nothing happened.
///
/// For a scenario with `[[limits]]` it also shows the decisions on `memory.high`, with their reasons: docs/use/right-sizing.md. Saved
/// results do not hold them. CSV holds them if the run has no schemes.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// A scenario file, the name of a bundled scenario (`isotherm simulate --list`), a saved result, or a page trace.
    #[arg(
        value_name = "SCENARIO|RESULT|TRACE",
        required_unless_present = "live",
        default_value = "",
        hide_default_value = true
    )]
    source: String,
    /// Instead: report from the audit what the daemon (`isotherm daemon run`) did, and what kept it from doing more.
    #[arg(long, conflicts_with_all = ["source", "variant", "workload", "monitor", "preset", "memory", "scheme", "seed"])]
    live: bool,
    /// Live: the audit.
    #[arg(long, value_name = "FILE", default_value = AUDIT, requires = "live")]
    audit: PathBuf,
    /// Live: only events of the last DURATION.
    #[arg(long, value_name = "TIME", requires = "live")]
    since: Option<Duration>,
    /// Live: only this section, such as generations.cold.
    #[arg(long, value_name = "NAME", requires = "live")]
    section: Option<String>,
    /// Scenarios, results: which variant [default: the first].
    #[arg(long, value_name = "NAME")]
    variant: Option<String>,
    /// Scenarios, results: which workload [default: the first].
    #[arg(long, value_name = "NAME")]
    workload: Option<String>,
    /// Scenarios, results: only this monitor [default: all that have schemes].
    #[arg(long, value_name = "NAME")]
    monitor: Option<String>,
    /// Traces: the schemes, by the name of their preset.
    #[arg(long, value_name = "NAME", value_parser = PossibleValuesParser::new(PRESETS.iter().map(|entry| entry.name)))]
    preset: Option<String>,
    /// Traces: memory of the machine; swap comes in addition [default: 256GiB].
    #[arg(long, value_name = "SIZE")]
    memory: Option<Bytes>,
    /// Only the scheme of this number, from 0.
    #[arg(long, value_name = "N")]
    scheme: Option<usize>,
    /// Also report where: by target with its control group, and by range of addresses. As CSV these rows replace the sums.
    #[arg(long, conflicts_with = "live")]
    places: bool,
    /// Seed of chance [default: the scenario's; 1].
    #[arg(long, value_name = "SEED")]
    seed: Option<u64>,
    #[command(flatten)]
    format: FormatArg,
}

const EXAMPLES: &str = "\
Examples:
  isotherm report explain my-service.toml
  isotherm report explain right-sizing --variant mglru
  isotherm report explain my-service.toml --variant tight --monitor kdamond --scheme 0
  isotherm report explain my-service.toml --places
  isotherm report explain my-service.toml --format json
  isotherm simulate my-service.toml --format json > result.json && isotherm report explain result.json --variant tight
  isotherm report explain traces/sqlite.parquet --preset plrus-radical --memory 64MiB
  sudo isotherm daemon explain --since 1h";

pub(crate) fn run(args: Args, ui: &Ui) -> Result<ExitCode, CliError> {
    if args.live {
        return live::run(&args.audit, args.since, args.section.as_deref(), args.format.format, ui);
    }
    let run = match (is_scenario(&args.source), is_json(Path::new(&args.source))) {
        (true, _) => played(&of_scenario(&args, ui)?, &args, ui)?,
        (false, true) => of_result(&args)?,
        (false, false) => {
            // A trace has neither variants nor workloads.
            let run = played(&of_trace(&args)?, &args, ui)?;
            Reported { variant: None, workload: None, ..run }
        }
    };
    let is_wanted = |name: &str| args.monitor.as_ref().is_none_or(|wanted| wanted == name);
    let only = |mut monitor: ExplainedMonitor| {
        monitor.schemes.retain(|scheme| args.scheme.is_none_or(|only| only == scheme.report.index));
        monitor
    };
    let monitors: Vec<ExplainedMonitor> = (run.monitors.into_iter())
        .filter(|monitor| is_wanted(&monitor.name))
        .map(only)
        .filter(|monitor| !monitor.schemes.is_empty())
        .collect();
    print(&Reported { monitors, ..run }, args.format.format, ui)?;
    Ok(ExitCode::SUCCESS)
}

/// Plays a run.
fn played<'a>(replay: &Replay, args: &'a Args, ui: &Ui) -> Result<Reported<'a>, CliError> {
    let specs: Vec<MonitorSpec> = replay.monitors().into_iter().cloned().collect();
    let place = format!("{}: variant `{}`", args.source, replay.variant());
    let names: Vec<(&str, usize)> = specs.iter().map(|spec| (spec.name.as_str(), spec.config.schemes.len())).collect();
    let asks_for_schemes = args.monitor.is_some() || args.scheme.is_some();
    let has_schemes = names.iter().any(|(_, nr_schemes)| *nr_schemes > 0);
    if asks_for_schemes || has_schemes || !replay.has_limits() {
        check(args, &place, &names)?;
    }
    let spinner = ui.spinner("simulating");
    let played = replay.play();
    spinner.finish_and_clear();
    let (reports, outcome) = played?;
    let places = |(spec, report): (&MonitorSpec, &MonitorReport)| {
        let targets = replay.target_names(spec);
        let is_wanted = |scheme: &&SchemeReport| {
            args.monitor.as_ref().is_none_or(|only| *only == report.name)
                && args.scheme.is_none_or(|only| only == scheme.index)
        };
        let of_scheme = |scheme: &SchemeReport| places::of(&report.name, scheme, &targets);
        report.schemes.iter().filter(is_wanted).flat_map(of_scheme).collect::<Vec<_>>()
    };
    let places = if args.places { specs.iter().zip(&reports).flat_map(places).collect() } else { Vec::new() };
    Ok(Reported {
        places,
        source: &args.source,
        variant: Some(replay.variant().to_owned()),
        workload: Some(replay.workload().to_owned()),
        monitors: specs.iter().zip(&reports).map(|(spec, report)| ExplainedMonitor::new(spec, report)).collect(),
        limits: if asks_for_schemes { Vec::new() } else { outcome.limits },
    })
}

/// Whether the file holds JSON, judged by its first character.
fn is_json(path: &Path) -> bool {
    let mut head = Vec::new();
    let read = File::open(path).and_then(|file| file.take(64).read_to_end(&mut head));
    let is_text =
        read.is_ok() && head.iter().find(|byte| !byte.is_ascii_whitespace()).is_some_and(|byte| b"{[".contains(byte));
    is_text || path.extension().is_some_and(|extension| extension == "json")
}

/// The fields of a result that are read; the others may differ from version to version.
#[derive(Deserialize)]
struct SavedResult {
    scenario: String,
    #[serde(rename = "rows")]
    _rows: Vec<IgnoredAny>,
    #[serde(default)]
    schemes: Vec<ExplainedRun>,
}

/// Longest result that is read: a run with two schemes takes some 5 KiB.
const RESULT_BYTES_MAX: u64 = 256 << 20;

/// The contents of a result of `isotherm simulate --format json`.
fn of_result(args: &Args) -> Result<Reported<'_>, CliError> {
    let source = &args.source;
    let given =
        [("--preset", args.preset.is_some()), ("--memory", args.memory.is_some()), ("--seed", args.seed.is_some())];
    if args.places {
        return Err(CliError::usage(format!(
            "{source} is a result, which does not hold places: name the scenario instead"
        )));
    }
    if let Some((flag, _)) = given.iter().find(|(_, is_given)| *is_given) {
        return Err(CliError::usage(format!("{source} is a result, which was played before: leave {flag} out")));
    }
    let failed = |what: String| CliError::failed(format!("{source}: {what}"));
    let mut text = String::new();
    let file = File::open(source).map_err(|error| failed(format!("cannot read it: {error}")))?;
    let read = file.take(RESULT_BYTES_MAX + 1).read_to_string(&mut text);
    read.map_err(|error| failed(format!("cannot read it: {error}")))?;
    if text.len() as u64 > RESULT_BYTES_MAX {
        return Err(failed(format!("it is longer than a result can be ({})", Bytes::new(RESULT_BYTES_MAX))));
    }
    let result: SavedResult = serde_json::from_str(&text).map_err(|error| {
        let what = if error.is_eof() { "it is cut off".to_owned() } else { error.to_string() };
        failed(format!("it is no result of `isotherm simulate --format json`: {what}"))
    })?;
    let refuse = |message: String| Err(CliError::usage(format!("{source}: {message}")));
    if result.schemes.is_empty() {
        return refuse(format!(
            "its scenario `{}` has no monitor with schemes, so that there is nothing to tell",
            result.scenario
        ));
    }
    let is_asked = |asked: &Option<String>, name: &String| asked.as_ref().is_none_or(|asked| asked == name);
    let run = result
        .schemes
        .iter()
        .find(|run| is_asked(&args.variant, &run.variant) && is_asked(&args.workload, &run.workload));
    let Some(run) = run.cloned() else {
        let runs: Vec<String> = result.schemes.iter().map(|run| format!("{}, {}", run.variant, run.workload)).collect();
        return refuse(format!("no such run with schemes is in it; variant and workload: {}", runs.join("; ")));
    };
    let place = format!("{source}: variant `{}`", run.variant);
    let names: Vec<(&str, usize)> =
        run.monitors.iter().map(|monitor| (monitor.name.as_str(), monitor.schemes.len())).collect();
    check(args, &place, &names)?;
    let (variant, workload) = (Some(run.variant), Some(run.workload));
    Ok(Reported { source, variant, workload, monitors: run.monitors, limits: Vec::new(), places: Vec::new() })
}

fn of_scenario(args: &Args, ui: &Ui) -> Result<Replay, CliError> {
    let refuse = |what: &str| Err(CliError::usage(format!("{} is a scenario: write {what} in it", args.source)));
    if args.preset.is_some() {
        return refuse("the preset of a `[[monitors]]` table");
    }
    if args.memory.is_some() {
        return refuse("the memory of its `[machine]`");
    }
    let (mut scenario, base_dir) = simulate::find(&args.source, ui)?;
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
    // Presets sort and reclaim lists of the kernel's own policy.
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
    Ok(Replay::of_scenario(scenario, &options, variant, workload)?)
}

/// Checks, before time is spent on a run, that the requested monitor and scheme exist. `monitors`: names, and how many schemes each has.
fn check(args: &Args, place: &str, monitors: &[(&str, usize)]) -> Result<(), CliError> {
    let refuse = |message: String| Err(CliError::usage(message));
    let names: Vec<&str> = monitors.iter().map(|(name, _)| *name).collect();
    if names.is_empty() {
        return refuse(format!("{place}: no monitor watches this run; add a `[[monitors]]` table with schemes"));
    }
    let wanted: Vec<&(&str, usize)> =
        monitors.iter().filter(|(name, _)| args.monitor.as_ref().is_none_or(|wanted| wanted == name)).collect();
    if let (Some(name), true) = (&args.monitor, wanted.is_empty()) {
        let names = names.join(", ");
        return refuse(format!("{place}: there is no monitor `{name}` in this run; monitors: {names}"));
    }
    let wanted_names: Vec<String> = wanted.iter().map(|(name, _)| format!("`{name}`")).collect();
    let wanted_names = wanted_names.join(", ");
    let most = wanted.iter().map(|(_, nr_schemes)| *nr_schemes).max().unwrap_or_default();
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

/// A run in the form of its JSON.
#[derive(Serialize)]
struct Reported<'a> {
    source: &'a str,
    variant: Option<String>,
    workload: Option<String>,
    monitors: Vec<ExplainedMonitor>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    limits: Vec<LimitsOutcome>,
    /// Places, if they were asked for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    places: Vec<places::Place>,
}

fn print(document: &Reported<'_>, format: Format, ui: &Ui) -> Result<(), CliError> {
    match format {
        Format::Json => {
            let text = serde_json::to_string_pretty(document).map_err(CliError::failed)?;
            ui.print_data(format_args!("{text}\n"))
        }
        Format::Csv if document.monitors.is_empty() => ui.print_data(limits::long_table(&document.limits).to_csv()),
        Format::Csv if !document.places.is_empty() => ui.print_data(places::long_table(&document.places).to_csv()),
        Format::Csv => ui.print_data(long_table(&document.monitors).to_csv()),
        Format::Table => {
            let run: Vec<&str> = document.variant.iter().chain(&document.workload).map(String::as_str).collect();
            let run = if run.is_empty() { String::new() } else { format!(" of {}", run.join(", ")) };
            for (index, monitor) in document.monitors.iter().enumerate() {
                let gap = if index > 0 { "\n" } else { "" };
                let watched = Unit::Ns.approx(monitor.watched_ns as f64);
                let snapshots = monitor.snapshots;
                ui.print(format_args!("{gap}{}: watched {watched}{run}, {snapshots} snapshots\n", monitor.name))?;
                for (event, count) in &monitor.events {
                    let times = if *count > 1 { format!(" ({count} times)") } else { String::new() };
                    ui.print(format_args!("note: {event}{times}\n"))?;
                }
                for scheme in &monitor.schemes {
                    ui.print(format_args!("\n{}\n", scheme.words.join("\n")))?;
                    let counts = counts(&scheme.report);
                    if !counts.rows.is_empty() {
                        ui.print_styled(&super::render(&counts, Format::Table, ui).after_line())?;
                    }
                    let index = scheme.report.index;
                    let where_it_was =
                        places::shown(document.places.iter().filter(|place| place.is_of(&monitor.name, index)));
                    if !where_it_was.rows.is_empty() {
                        ui.print_styled(&super::render(&where_it_was, Format::Table, ui).after_line())?;
                    }
                }
            }
            limits::print(&document.limits, ui)
        }
    }
}

/// Results of the regions that a scheme was shown, for people: only reasons that occurred.
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
fn long_table(monitors: &[ExplainedMonitor]) -> Table {
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
        for report in monitor.schemes.iter().map(|scheme| &scheme.report) {
            for (reason, name) in REASONS {
                let tally = report.all_passes.of(reason);
                table.push(vec![
                    monitor.name.as_str().into(),
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
