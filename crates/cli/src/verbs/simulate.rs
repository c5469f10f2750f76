//! `isotherm simulate`: plays a scenario and prints what was measured.

mod tables;

pub(super) use tables::unit_of;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use isotherm_report::{Cell, Column, Table};
use isotherm_scenario::{
    BUNDLED, METRICS, RunOptions, Scenario, ScenarioError, ScenarioResult, side_by_side, unknown_metric,
};
use isotherm_terminal::{BarProgress, data_folder};

use crate::error::CliError;
use crate::format::{Format, FormatArg};
use crate::kernel::KernelArg;
use crate::ui::Ui;

/// Play a scenario on the simulated machine: every variant, every workload, every seed.
///
/// SCENARIO is a TOML file or the name of a bundled scenario. Results are the same for the same scenario and seed on any
/// machine and with any number of threads: without --kernel the kernel of this machine does not matter.
#[derive(clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Args {
    /// Scenario file, or the name of a bundled one (`--list`).
    #[arg(value_name = "SCENARIO", required_unless_present = "list")]
    scenario: Option<String>,
    /// List the bundled scenarios.
    #[arg(long)]
    list: bool,
    /// Threads to simulate with [default: one per processor].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: Option<u16>,
    /// Use this seed for the first repeat instead of the scenario's.
    #[arg(long, value_name = "SEED")]
    seed: Option<u64>,
    /// Run each variant so often instead of the scenario's `repeats`.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    repeats: Option<u32>,
    /// The release whose rules the simulated kernel follows: `6.12`, `7.2`, `host` for the one that runs here, or `all` side by
    /// side [default: the scenario's, else 7.2].
    #[arg(long, value_name = "RELEASE")]
    kernel: Option<KernelArg>,
    /// Show these metrics, whatever the width of the table; `all`: all that there are [default: as many as fit; in CSV and JSON all].
    #[arg(long, value_name = "METRIC", value_delimiter = ',')]
    metrics: Vec<String>,
    /// End with exit code 0 even if an expectation of the scenario is missed.
    #[arg(long)]
    allow_missed: bool,
    #[command(flatten)]
    format: FormatArg,
}

const AFTER_HELP: &str = "\
Examples:
  isotherm simulate policies
  isotherm simulate policies --format json --threads 1
  isotherm simulate compaction --repeats 1
  isotherm simulate policies --metrics runtime_ns,mean_bytes,psi_full_ns
  isotherm simulate policies --kernel all
  isotherm simulate my-service.toml --repeats 5
  isotherm simulate --list";

pub(crate) fn run(args: Args, ui: &Ui) -> Result<ExitCode, CliError> {
    let Some(name) = args.scenario.clone().filter(|_| !args.list) else { return list(args.format.format, ui) };
    let (mut scenario, base_dir) = find(&name, ui)?;
    if let (true, Some(flag)) = (!scenario.worlds.is_empty(), other_repeats(&args)) {
        return Err(CliError::usage(format!(
            "{flag}: the repeats of `{name}` are its {} worlds, each with a seed of its own; change `[[worlds]]` in its file",
            scenario.worlds.len()
        )));
    }
    scenario.seed = args.seed.unwrap_or(scenario.seed);
    scenario.repeats = args.repeats.unwrap_or(scenario.repeats);
    let asked = asked(&args.metrics)?;
    if let Some(asked) = asked.as_ref().filter(|_| !scenario.metrics.is_empty()) {
        let more = asked.iter().filter(|name| !scenario.metrics.contains(name)).cloned().collect::<Vec<_>>();
        scenario.metrics.extend(more);
    }
    let options = RunOptions { base_dir, place: name, threads: args.threads.map(usize::from) };
    let mut result = play(scenario, args.kernel, &options, ui)?;
    for row in &result.killed {
        ui.warn(format_args!(
            "{} under {}: killed for lack of memory in {} of {} runs; its figures are of what it did before",
            row.workload, row.variant, row.runs, row.of
        ));
    }
    if let Some(asked) = asked.as_ref().filter(|_| args.format.format != Format::Table) {
        result.rows.retain(|row| asked.contains(&row.metric));
        result.ratios.retain(|row| asked.contains(&row.metric));
    }
    print(&result, asked.as_deref(), args.format.format, ui)?;
    let missed = result.expectations.iter().filter(|row| !row.met).count();
    if missed > 0 && !args.allow_missed {
        let all = result.expectations.len();
        return Err(CliError::failed(format!(
            "{missed} of {all} expectations of the scenario are missed; --allow-missed makes that no failure"
        )));
    }
    Ok(ExitCode::SUCCESS)
}

/// The flag that asks for other repeats than the scenario's.
fn other_repeats(args: &Args) -> Option<&'static str> {
    let flags = [(args.repeats.is_some(), "--repeats"), (args.seed.is_some(), "--seed")];
    flags.into_iter().find(|(is_given, _)| *is_given).map(|(_, flag)| flag)
}

/// The metrics asked for; `None`: none in particular.
fn asked(names: &[String]) -> Result<Option<Vec<String>>, CliError> {
    if names.iter().any(|name| name == "all") {
        return Ok(Some(METRICS.iter().map(|metric| metric.name.to_owned()).collect()));
    }
    let known: Vec<&str> = METRICS.iter().map(|metric| metric.name).collect();
    match names.iter().find(|name| !known.contains(&name.as_str())) {
        Some(unknown) => Err(CliError::usage(format!("--metrics: {}", unknown_metric(unknown)))),
        None => Ok((!names.is_empty()).then(|| names.to_vec())),
    }
}

/// Plays a scenario by its own releases, or by those asked for.
fn play(
    scenario: Scenario,
    kernel: Option<KernelArg>,
    options: &RunOptions,
    ui: &Ui,
) -> Result<ScenarioResult, CliError> {
    let kernels = kernel.map(KernelArg::resolve).transpose()?;
    let bar = BarProgress::new(ui, "simulating");
    let on = |scenario: &Scenario| isotherm_scenario::run(scenario, options, &bar);
    let result = match kernels.as_ref().map(|kernels| kernels.releases.as_slice()) {
        None => on(&scenario),
        Some(&[release]) => on(&scenario.on_kernel(release)),
        Some(releases) => {
            let of = |&release| on(&scenario.clone().on_kernel(release)).map(|result| (release, result));
            releases.iter().map(of).collect::<Result<_, _>>().map(side_by_side)
        }
    };
    bar.finish();
    if let Some(kernels) = kernels {
        ui.say(kernels.why);
    }
    Ok(result?)
}

/// The scenario and the folder that its relative paths start from. Of a file that spells its keys in the old way the user is told.
pub(crate) fn find(name: &str, ui: &Ui) -> Result<(Scenario, PathBuf), CliError> {
    if let Some(bundled) = BUNDLED.iter().find(|bundled| bundled.name == name) {
        let scenario = isotherm_scenario::parse(bundled.text, name)?;
        // One that plays no recording runs where there are none.
        let folder = if bundled.text.contains("traces/") { data_folder()? } else { PathBuf::from(".") };
        return Ok((scenario, folder));
    }
    let path = Path::new(name);
    if !path.exists() && path.extension().is_none() {
        let names: Vec<&str> = BUNDLED.iter().map(|bundled| bundled.name).collect();
        return Err(ScenarioError::NotFound { name: name.to_owned(), bundled: names.join(", ") }.into());
    }
    if is_recording(path) {
        return Err(CliError::usage(format!(
            "{name} is a recording and no scenario: `isotherm advise {name}` plays it under all policies, `isotherm explain {name} --preset \
             NAME` beside schemes; in a scenario it is a workload: load = {{ kind = \"trace\", path = \"{name}\" }}"
        )));
    }
    let (scenario, note) = isotherm_scenario::load_with_note(path)?;
    if let Some(note) = note {
        ui.warn(note);
    }
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    Ok((scenario, folder.to_path_buf()))
}

/// Whether a file is of Parquet, as page traces and region records are.
fn is_recording(path: &Path) -> bool {
    let mut head = [0; 4];
    let read = std::fs::File::open(path).and_then(|mut file| std::io::Read::read_exact(&mut file, &mut head));
    read.is_ok() && &head == b"PAR1"
}

fn list(format: Format, ui: &Ui) -> Result<ExitCode, CliError> {
    let mut table = Table::new("", vec![Column::text("name"), Column::text("title")]);
    for bundled in BUNDLED {
        let scenario = isotherm_scenario::parse(bundled.text, bundled.name)?;
        table.push(vec![Cell::from(bundled.name), Cell::from(scenario.title)]);
    }
    ui.print(super::render(&table, format, ui))?;
    Ok(ExitCode::SUCCESS)
}

fn print(result: &ScenarioResult, asked: Option<&[String]>, format: Format, ui: &Ui) -> Result<(), CliError> {
    match format {
        Format::Json => {
            let json = serde_json::to_string_pretty(result).map_err(CliError::failed)?;
            ui.print(format_args!("{json}\n"))
        }
        Format::Csv => ui.print(tables::of_programs(result).to_csv()),
        Format::Table => {
            let names = result.rows.iter().map(|row| row.workload.as_str());
            let mut most_left = 0;
            for workload in tables::unique(names.chain(result.ratios.iter().map(|row| row.workload.as_str()))) {
                let (tables, left) = tables::of_people(result, workload, asked);
                most_left = most_left.max(left);
                for table in tables {
                    ui.print(format_args!("{}\n", super::render(&table, Format::Table, ui)))?;
                }
            }
            if most_left > 0 {
                ui.say(format_args!(
                    "{most_left} more metrics: --metrics all, or some by name; --format csv and json have all"
                ));
            }
            let more = [
                tables::values_versus_references(result),
                tables::versus_references(result),
                tables::expectations(result),
            ];
            for table in more.into_iter().flatten() {
                ui.print(format_args!("{}\n", super::render(&table, Format::Table, ui)))?;
            }
            Ok(())
        }
    }
}
