//! `isotherm simulate`: runs a scenario and prints the measurements.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use isotherm_answers::{Asked, results as tables};
use isotherm_report::{Cell, Column, Table};
use isotherm_scenario::{BUNDLED, Extensions, RunOptions, Scenario, ScenarioError, ScenarioResult};
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
    /// Run each variant this many times instead of the scenario's `repeats`.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    repeats: Option<u32>,
    /// The release whose rules the simulated kernel follows: `6.12`, `7.2`, `host` for the running one, or `all` side by side [default: the
    /// scenario's, else 7.2].
    #[arg(long, value_name = "RELEASE")]
    kernel: Option<KernelArg>,
    /// Show these metrics, even if the table gets too wide; `all`: every metric [default: as many as fit; in CSV and JSON all].
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
    let (scenario, base_dir) = find(&name, ui)?;
    let metrics = Asked::metrics_named(&args.metrics).map_err(|why| CliError::usage(format!("--metrics: {why}")))?;
    let kernels = args.kernel.map(KernelArg::resolve).transpose()?;
    let asked = Asked {
        seed: args.seed,
        repeats: args.repeats,
        metrics,
        kernels: kernels.as_ref().map(|kernels| kernels.releases.clone()),
    };
    if let Some(flag) = asked.against_worlds(&scenario) {
        return Err(CliError::usage(format!(
            "--{flag}: the repeats of `{name}` are its {} worlds, each with a seed of its own; change `[[worlds]]` in its file",
            scenario.worlds.len()
        )));
    }
    let options = RunOptions { base_dir, place: name, threads: args.threads.map(usize::from) };
    let bar = BarProgress::new(ui, "simulating");
    let result = asked.play(scenario, &options, &Extensions::default(), &bar);
    bar.finish();
    if let Some(kernels) = kernels {
        ui.say(kernels.why);
    }
    let mut result = result?;
    for row in &result.killed {
        ui.warn(format_args!(
            "{} under {}: killed for lack of memory in {} of {} runs; its figures are of what it did before",
            row.workload, row.variant, row.runs, row.of
        ));
    }
    if args.format.format != Format::Table {
        asked.only_asked(&mut result);
    }
    print(&result, asked.metrics.as_deref(), args.format.format, ui)?;
    let missed = result.expectations.iter().filter(|row| !row.met).count();
    if missed > 0 && !args.allow_missed {
        let all = result.expectations.len();
        return Err(CliError::failed(format!(
            "{missed} of {all} expectations of the scenario are missed; --allow-missed makes that no failure"
        )));
    }
    Ok(ExitCode::SUCCESS)
}

/// The scenario and the folder that its relative paths start from. Warns the user if the scenario spells its keys in the old way.
pub(crate) fn find(name: &str, ui: &Ui) -> Result<(Scenario, PathBuf), CliError> {
    if let Some(bundled) = BUNDLED.iter().find(|bundled| bundled.name == name) {
        let scenario = isotherm_scenario::parse(bundled.text, name)?;
        // A scenario without a recording needs no data folder.
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
            "{name} is a recording and no scenario: `isotherm advise {name}` plays it under all policies, `isotherm report explain {name} --preset \
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
    ui.print_styled(&super::render(&table, format, ui))?;
    Ok(ExitCode::SUCCESS)
}

fn print(result: &ScenarioResult, asked: Option<&[String]>, format: Format, ui: &Ui) -> Result<(), CliError> {
    match format {
        Format::Json => {
            let json = serde_json::to_string_pretty(result).map_err(CliError::failed)?;
            ui.print_data(format_args!("{json}\n"))
        }
        Format::Csv => ui.print_data(tables::of_programs(result).to_csv()),
        Format::Table => {
            let (of_workloads, most_left) = tables::of_workloads(result, asked);
            for table in of_workloads {
                ui.print_styled(&super::render(&table, Format::Table, ui).before_line())?;
            }
            if most_left > 0 {
                ui.say(format_args!(
                    "{most_left} more metrics: --metrics all, or some by name; --format csv and json have all"
                ));
            }
            for table in tables::versus_expected(result) {
                ui.print_styled(&super::render(&table, Format::Table, ui).before_line())?;
            }
            Ok(())
        }
    }
}
