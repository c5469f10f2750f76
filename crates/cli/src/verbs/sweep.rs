//! `isotherm sweep`: many runs of a scenario, into a dataset.

use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

use isotherm_report::{Cell, Column, Table, Unit};
use isotherm_scenario::Scenario;
use isotherm_sweep::local::{Server, Swept, sweep};
use isotherm_sweep::{Dataset, Missing, Plan, PlanOptions, RUNS_MAX, Space, SweepError, nr_runs, serve};
use isotherm_terminal::BarProgress;

use crate::error::CliError;
use crate::format::{Format, FormatArg};
use crate::python;
use crate::ui::Ui;

/// Play a scenario at many points: traces, policies, sizes, parameters, seeds.
///
/// SPACE is a TOML file that names a scenario and the values that vary in it. Each run is a file of Parquet below --output, which pandas,
/// Polars and DuckDB read as one table. The same command resumes an ended sweep, and plays no run twice. A run that fails is a row with the
/// reason. Exit code 4: some runs failed, or it was ended.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  isotherm sweep space.toml -o runs --dry-run
  isotherm sweep space.toml -o runs
  isotherm sweep space.toml -o runs --processes 8 --retry-failed
  isotherm sweep space.toml -o runs --ray local
  isotherm sweep space.toml -o runs --ray ray://head:10001")]
pub(crate) struct Args {
    /// Space file.
    #[arg(value_name = "SPACE", required_unless_present = "serve")]
    space: Option<PathBuf>,
    /// Folder of the dataset; it is made.
    #[arg(short, long, value_name = "FOLDER", required_unless_present_any = ["serve", "dry_run"])]
    output: Option<PathBuf>,
    /// Show what would be played, and play nothing.
    #[arg(long)]
    dry_run: bool,
    /// Processes that play runs [default: one per processor].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024), conflicts_with = "ray")]
    processes: Option<u16>,
    /// Play on a Ray cluster: `local` starts one on this machine, `auto` joins the cluster that this machine is part of. Needs the Python
    /// package.
    #[arg(long, value_name = "ADDRESS")]
    ray: Option<String>,
    /// Play runs that failed before once more.
    #[arg(long)]
    retry_failed: bool,
    /// Ask before spaces of more runs are played, and refuse them if the question cannot be answered (no terminal).
    #[arg(long, value_name = "RUNS", default_value_t = 10_000)]
    limit: u64,
    /// Play runs that come on standard input: --processes starts processes with this flag.
    #[arg(long, hide = true, exclusive = true)]
    serve: bool,
    #[command(flatten)]
    format: FormatArg,
}

/// Names this build in datasets.
const BUILD: &str = concat!(env!("CARGO_PKG_VERSION"), " ", env!("ISOTHERM_COMMIT"));

pub(crate) fn run(args: Args, ui: &Ui) -> Result<ExitCode, CliError> {
    let Some(path) = args.space.as_deref().filter(|_| !args.serve) else {
        let served = serve(&mut io::stdin().lock(), &mut io::stdout().lock(), |_| {});
        return served.map(|()| ExitCode::SUCCESS).map_err(CliError::failed);
    };
    let space = Space::load(path).map_err(refused)?;
    let folder = path.parent().unwrap_or(Path::new(""));
    let limit = agreed_limit(&space, folder, &args, ui)?;
    if let Some(address) = &args.ray {
        return on_ray(&args, path, address, limit, ui);
    }
    let plan = planned(&space, path, limit, ui)?;
    let output = args.output.as_deref().filter(|_| !args.dry_run);
    let Some(folder) = output else { return told_only(&plan, &args, ui) };
    let mut dataset = Dataset::open(folder, &plan).map_err(refused)?;
    let missing = dataset.missing(&plan, args.retry_failed).map_err(refused)?;
    let program = std::env::current_exe().map_err(|error| CliError::failed(error).while_doing("cannot find itself"))?;
    let server = Server { program, arguments: vec!["sweep".into(), "--serve".into()] };
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    let processes = args.processes.map_or(processors, usize::from);
    let began = Instant::now();
    let bar = BarProgress::interruptible(ui, "sweeping");
    let swept = sweep(&plan, &mut dataset, &missing.runs, (&server, processes), &bar).map_err(refused);
    bar.finish();
    told(folder, &plan, &missing, &swept?, began.elapsed().as_secs_f64(), &args, ui)
}

/// Number of runs that may be planned: --limit, or more if the user agrees on a terminal.
fn agreed_limit(space: &Space, folder: &Path, args: &Args, ui: &Ui) -> Result<u64, CliError> {
    if args.dry_run {
        return Ok(RUNS_MAX);
    }
    let runs = nr_runs(space, folder).map_err(refused)?;
    if runs <= u128::from(args.limit) {
        return Ok(args.limit);
    }
    let Some(more) = u64::try_from(runs).ok().filter(|&runs| runs <= RUNS_MAX) else { return Ok(args.limit) };
    match ui.agrees(format_args!("The space has {runs} runs, more than {}. Play them?", args.limit)) {
        Some(true) => Ok(more),
        Some(false) | None => Ok(args.limit),
    }
}

/// The runs of a space file.
fn planned(space: &Space, path: &Path, limit: u64, ui: &Ui) -> Result<Plan, CliError> {
    let folder = path.parent().unwrap_or(Path::new("")).to_path_buf();
    let (scenario, base_dir) = scenario_of(space, &folder, ui)?;
    let options = PlanOptions { folder, base_dir, runs_max: limit, build: BUILD.to_owned() };
    Plan::new(space, &scenario, &options).map_err(|error| refused(error).while_doing(path.display().to_string()))
}

/// The scenario of a space: a file next to it, or a bundled one.
fn scenario_of(space: &Space, folder: &Path, ui: &Ui) -> Result<(Scenario, PathBuf), CliError> {
    let beside = folder.join(&space.scenario);
    let name = if beside.is_file() { beside.display().to_string() } else { space.scenario.clone() };
    super::simulate::find(&name, ui)
}

fn refused(error: SweepError) -> CliError {
    match error {
        SweepError::Scenario(error) => (*error).into(),
        SweepError::Document(_)
        | SweepError::Files { .. }
        | SweepError::Key { .. }
        | SweepError::TooMany { .. }
        | SweepError::FarTooMany { .. } => CliError::usage(error),
        SweepError::OtherDataset { .. } => CliError::usage(error),
        other => CliError::failed(other),
    }
}

fn told_only(plan: &Plan, args: &Args, ui: &Ui) -> Result<ExitCode, CliError> {
    let touches: u64 = plan.runs.iter().map(|run| run.cost).sum();
    let mut table = Table::new("", vec![Column::text("what"), Column::text("value")]);
    table.push(vec![Cell::from("runs"), Cell::from(plan.runs.len().to_string())]);
    table.push(vec![Cell::from("predicted touches"), Cell::from(touches.to_string())]);
    table.push(vec![Cell::from("columns"), Cell::from(plan.column_names().collect::<Vec<_>>().join(", "))]);
    match args.format.format {
        Format::Json => {
            let columns: Vec<&str> = plan.column_names().collect();
            let json = serde_json::json!({ "runs": plan.runs.len(), "predicted_touches": touches, "columns": columns });
            ui.print_data(format_args!("{json:#}\n"))?;
        }
        format => ui.print_styled(&super::render(&table, format, ui))?,
    }
    Ok(ExitCode::SUCCESS)
}

fn told(
    folder: &Path,
    plan: &Plan,
    missing: &Missing,
    swept: &Swept,
    seconds: f64,
    args: &Args,
    ui: &Ui,
) -> Result<ExitCode, CliError> {
    let failed = missing.failed + swept.failed;
    let left = missing.runs.len() - swept.played;
    if missing.others > 0 {
        ui.warn(format_args!(
            "{} holds {} runs that the space does not have any more; they are left as they are",
            folder.display(),
            missing.others
        ));
    }
    let per_run = if swept.played > 0 { swept.seconds / swept.played as f64 } else { 0.0 };
    match args.format.format {
        Format::Json => {
            let json = serde_json::json!({
                "runs": plan.runs.len(), "played": swept.played, "done_before": missing.done, "failed": failed, "left": left,
                "seconds": seconds, "cpu_seconds": swept.seconds, "cpu_seconds_per_run": per_run,
                "processes_lost": swept.lost, "dataset": folder,
            });
            ui.print_data(format_args!("{json:#}\n"))?;
        }
        format => {
            let (count, time) = (|number: usize| Cell::from(number as u64), |seconds: f64| Cell::from(seconds * 1e9));
            let names =
                ["runs", "played", "done before", "failed", "left"].map(|name| Column::number(name, Unit::Count));
            let times = ["elapsed", "a run"].map(|name| Column::number(name, Unit::Ns));
            let mut table = Table::new("", names.into_iter().chain(times).collect());
            let counts = [plan.runs.len(), swept.played, missing.done, failed, left].map(count);
            table.push(counts.into_iter().chain([time(seconds), time(per_run)]).collect());
            ui.print_styled(&super::render(&table, format, ui))?;
        }
    }
    if swept.lost > 0 {
        ui.warn(format_args!("{} processes ended in the middle of a run; the runs were played again", swept.lost));
    }
    if left > 0 {
        return Err(CliError::partial(format!("{left} runs are left; the same command goes on with them")));
    }
    if failed > 0 {
        let message = format!(
            "{failed} of {} runs failed: the column `error` of {}/run=*/failed.parquet says why",
            plan.runs.len(),
            folder.display()
        );
        return Err(CliError::partial(message));
    }
    Ok(ExitCode::SUCCESS)
}

/// The same with the Python package, which runs it on Ray.
fn on_ray(args: &Args, space: &Path, address: &str, limit: u64, ui: &Ui) -> Result<ExitCode, CliError> {
    let mut arguments = vec![space.as_os_str().to_owned(), "--ray".into(), address.into()];
    if let Some(folder) = &args.output {
        arguments.extend(["--output".into(), folder.as_os_str().to_owned()]);
    }
    arguments.extend(["--limit".into(), limit.to_string().into()]);
    for (flag, is_given) in [("--dry-run", args.dry_run), ("--retry-failed", args.retry_failed)] {
        arguments.extend(is_given.then(|| flag.into()));
    }
    if args.format.format == Format::Json {
        arguments.push("--json".into());
    }
    python::run("isotherm.sweep", &["ray"], "sweep", arguments, ui)
}
