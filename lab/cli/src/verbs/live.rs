//! `isotherm-lab live`: the command itself inside real kernels.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use isotherm_fidelity::FidelityError;
use isotherm_fidelity::versus::Rig;
use isotherm_fidelity::versus::live::{LiveRun, Product, WAYS, sparse_64g, watch};
use isotherm_fidelity::versus::live_advice::{WORKLOADS, advise};
use isotherm_fidelity::versus::live_record;
use isotherm_fidelity::versus::monitor::PATTERNS;
use isotherm_report::{Cell, Column, Table, Unit};
use isotherm_terminal::{CliError, Format, FormatArg, Ui, render};

use isotherm_guest::patterns::Pattern;

use super::rig;

/// Run `isotherm monitor` inside real kernels, each way of watching over each access pattern, and compare what it finds with what was
/// really used, page by page.
///
/// The command is built statically (`cargo xtask static`), the module for each kernel (`cargo xtask module`). All files of /proc and /sys
/// that can be set are read before and after each run: what the command left changed is a failure.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  isotherm-lab live
  isotherm-lab live --advice --seconds 60
  isotherm-lab live --record --kernel 7.2
  isotherm-lab live --kernel 7.2 --pattern hot-set,sparse-64g --way damon --boots 1")]
pub(crate) struct Args {
    /// Only these kernels [default: 6.12 and 7.2].
    #[arg(long, value_name = "KERNEL", value_delimiter = ',')]
    kernel: Vec<String>,
    /// Only these patterns.
    #[arg(long, value_name = "PATTERN", value_delimiter = ',')]
    pattern: Vec<String>,
    /// Only these ways of watching.
    #[arg(long, value_name = "WAY", value_delimiter = ';')]
    way: Vec<String>,
    /// Boots of each case.
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=100))]
    boots: u32,
    /// Instead: have `isotherm advise --cgroup` watch groups, set the memory.high that it recommends, and count refaults.
    #[arg(long, conflicts_with_all = ["way", "boots"])]
    advice: bool,
    /// Instead: have `isotherm record --cgroup` record the patterns, and compare with what was used.
    #[arg(long, conflicts_with_all = ["advice", "way", "boots"])]
    record: bool,
    /// How long each is watched, in seconds of the guest.
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u64).range(5..=600))]
    seconds: u64,
    /// The command [default: target/static/isotherm].
    #[arg(long, value_name = "FILE", default_value = "target/static/isotherm")]
    isotherm: PathBuf,
    #[command(flatten)]
    format: FormatArg,
}

/// The patterns, with one of a large space.
const NAMES: [&str; 6] = ["hot-set", "hot-sets", "moving", "scan", "zipf", "sparse"];
const LARGE: &str = "sparse-64g";

pub(crate) fn run(args: Args, ui: &Ui) -> Result<ExitCode, CliError> {
    let kernels = if args.kernel.is_empty() { vec!["6.12".to_owned(), "7.2".to_owned()] } else { args.kernel.clone() };
    let wanted = |name: &str, given: &[String]| given.is_empty() || given.iter().any(|one| one == name);
    let mut patterns: Vec<_> = PATTERNS
        .iter()
        .filter(|pattern| NAMES.contains(&pattern.name) && wanted(pattern.name, &args.pattern))
        .map(|pattern| (pattern.name, pattern.pattern()))
        .collect();
    if wanted(LARGE, &args.pattern) {
        patterns.push((LARGE, sparse_64g()));
    }
    let ways: Vec<_> = WAYS.iter().filter(|way| wanted(way.name, &args.way)).collect();
    if args.advice {
        return advice(&args, &kernels, ui);
    }
    if args.record {
        return record(&args, &kernels, &patterns, ui);
    }
    if patterns.is_empty() || ways.is_empty() {
        let known: Vec<&str> = WAYS.iter().map(|way| way.name).collect();
        return Err(CliError::usage(format!(
            "nothing is left to run; patterns: {}, {LARGE}; ways: {}",
            NAMES.join(", "),
            known.join("; ")
        )));
    }
    if !args.isotherm.is_file() {
        return Err(CliError::host_cannot(format!(
            "{} is not there: `cargo xtask static` builds it",
            args.isotherm.display()
        )));
    }
    let guest = rig::guest()?;
    let total = kernels.len() * patterns.len() * ways.len() * args.boots as usize;
    let bar = ui.progress("watching", total as u64);
    let mut runs = Vec::new();
    for name in rig::kernel_names(&kernels) {
        let entry = isotherm_rig::KernelEntry::named(&name).map_err(|error| CliError::usage(error.to_string()))?;
        let kernel = rig::kernel(entry.name, ui)?;
        let module = module_of(&kernel.release)?;
        let rig = Rig { kernel: (entry.name, &kernel), guest: &guest };
        let product = Product { isotherm: &args.isotherm, module: &module };
        for (pattern, way) in patterns.iter().flat_map(|pattern| ways.iter().map(move |way| (pattern, way))) {
            for _ in 0..args.boots {
                let run = watch(&rig, product, pattern.0, &pattern.1, way, args.seconds);
                bar.inc(1);
                match run {
                    Ok(run) => runs.push(run),
                    Err(FidelityError::Live(words)) => {
                        bar.suspend(|| ui.warn(format_args!("{}, {}, {}: {words}", entry.name, pattern.0, way.name)));
                    }
                    Err(error) => return Err(super::fidelity::error(error)),
                }
            }
        }
    }
    bar.finish_and_clear();
    print(&runs, args.format.format, ui)?;
    let changed: Vec<&String> = runs.iter().flat_map(|run| &run.knobs_changed).collect();
    if let Some(first) = changed.first() {
        return Err(CliError::failed(format!("{} knobs were left changed; the first: {first}", changed.len())));
    }
    if runs.len() < total {
        return Err(CliError::partial(format!("{} of {total} runs failed", total - runs.len())));
    }
    Ok(ExitCode::SUCCESS)
}

/// Predicted and counted refaults of recommended limits.
fn advice(args: &Args, kernels: &[String], ui: &Ui) -> Result<ExitCode, CliError> {
    let guest = rig::guest()?;
    let bar = ui.progress("advising", (kernels.len() * WORKLOADS.len()) as u64);
    let mut runs = Vec::new();
    for name in rig::kernel_names(kernels) {
        let entry = isotherm_rig::KernelEntry::named(&name).map_err(|error| CliError::usage(error.to_string()))?;
        let kernel = rig::kernel(entry.name, ui)?;
        let module = module_of(&kernel.release)?;
        let rig = Rig { kernel: (entry.name, &kernel), guest: &guest };
        for workload in WORKLOADS
            .iter()
            .filter(|workload| args.pattern.is_empty() || args.pattern.iter().any(|name| name == workload.name))
        {
            let run = advise(&rig, Product { isotherm: &args.isotherm, module: &module }, workload, args.seconds);
            bar.inc(1);
            match run {
                Ok(run) => runs.push(run),
                Err(FidelityError::Live(words)) => bar.suspend(|| ui.warn(format_args!("{}: {words}", workload.name))),
                Err(error) => return Err(super::fidelity::error(error)),
            }
        }
    }
    bar.finish_and_clear();
    if args.format.format == Format::Json {
        let text = serde_json::to_string_pretty(&runs).map_err(CliError::failed)?;
        ui.print(format_args!("{text}\n"))?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut columns = ["workload", "kernel"].map(Column::text).to_vec();
    columns.extend([Column::number("peak", Unit::Bytes), Column::number("memory.high", Unit::Bytes)]);
    for name in ["predicted", "at least", "at most", "counted"] {
        columns.push(Column::number(name, Unit::PerSecond));
    }
    columns.push(Column::number("pressure", Unit::Ppm));
    let mut table = Table::new("refaults a second under the recommended memory.high", columns);
    for run in &runs {
        let predicted = |pick: fn((f64, f64, f64)) -> f64| Cell::from(run.predicted_per_s.map(pick));
        table.push(vec![
            Cell::from(run.workload.as_str()),
            Cell::from(run.kernel.as_str()),
            run.peak_bytes.into(),
            run.high_bytes.map_or(Cell::from(None::<f64>), Cell::from),
            predicted(|rate| rate.1),
            predicted(|rate| rate.0),
            predicted(|rate| rate.2),
            Cell::from(run.measured_per_s),
            Cell::from(run.pressure_some_percent.map(|percent| (percent * 1e4).round())),
        ]);
    }
    match args.format.format {
        Format::Csv => ui.print(table.to_csv())?,
        format => ui.print(render(&table, format, ui))?,
    }
    Ok(ExitCode::SUCCESS)
}

/// Traces of running processes beside the truth.
fn record(args: &Args, kernels: &[String], patterns: &[(&str, Pattern)], ui: &Ui) -> Result<ExitCode, CliError> {
    let guest = rig::guest()?;
    let patterns: Vec<_> = patterns.iter().filter(|(name, _)| *name != LARGE).collect();
    let bar = ui.progress("recording", (kernels.len() * patterns.len()) as u64);
    let mut runs = Vec::new();
    for name in rig::kernel_names(kernels) {
        let entry = isotherm_rig::KernelEntry::named(&name).map_err(|error| CliError::usage(error.to_string()))?;
        let kernel = rig::kernel(entry.name, ui)?;
        let module = module_of(&kernel.release)?;
        let rig = Rig { kernel: (entry.name, &kernel), guest: &guest };
        for (name, pattern) in &patterns {
            let product = Product { isotherm: &args.isotherm, module: &module };
            let run = live_record::record(&rig, product, name, pattern, args.seconds);
            bar.inc(1);
            match run {
                Ok(run) => runs.push(run),
                Err(FidelityError::Live(words)) => bar.suspend(|| ui.warn(format_args!("{name}: {words}"))),
                Err(error) => return Err(super::fidelity::error(error)),
            }
        }
    }
    bar.finish_and_clear();
    if args.format.format == Format::Json {
        let text = serde_json::to_string_pretty(&runs).map_err(CliError::failed)?;
        ui.print(format_args!("{text}\n"))?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut columns = ["pattern", "kernel"].map(Column::text).to_vec();
    columns.extend(["epochs", "pages recorded", "pages used"].map(|name| Column::number(name, Unit::Count)));
    columns.extend(["precision", "recall", "written"].map(|name| Column::number(name, Unit::Ppm)));
    let mut table = Table::new("isotherm record in real kernels", columns);
    for run in &runs {
        let share = |share: f64| Cell::from((share * 1e6).round());
        table.push(vec![
            Cell::from(run.pattern.as_str()),
            Cell::from(run.kernel.as_str()),
            Cell::Int(run.epochs),
            Cell::from(run.pages_recorded.round()),
            Cell::from(run.pages_true.round()),
            share(run.precision),
            share(run.recall),
            share(run.written),
        ]);
    }
    match args.format.format {
        Format::Csv => ui.print(table.to_csv())?,
        format => ui.print(render(&table, format, ui))?,
    }
    Ok(ExitCode::SUCCESS)
}

/// Where `cargo xtask module` puts it.
fn module_of(release: &str) -> Result<PathBuf, CliError> {
    let named = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let cache = named("ISOTHERM_CACHE")
        .or_else(|| named("XDG_CACHE_HOME").map(|folder| folder.join("isotherm")))
        .or_else(|| named("HOME").map(|folder| folder.join(".cache/isotherm")))
        .unwrap_or_default();
    let module = cache.join("modules").join(release).join("isotherm.ko");
    if Path::is_file(&module) {
        return Ok(module);
    }
    Err(CliError::host_cannot(format!("the module for Linux {release} is not built: `cargo xtask module`")))
}

fn print(runs: &[LiveRun], format: Format, ui: &Ui) -> Result<(), CliError> {
    if format == Format::Json {
        let text = serde_json::to_string_pretty(runs).map_err(CliError::failed)?;
        return ui.print(format_args!("{text}\n"));
    }
    let mut columns = ["pattern", "way", "kernel"].map(Column::text).to_vec();
    columns.extend([Column::number("boots", Unit::Count)]);
    for name in ["often: precision", "recall", "seen: precision", "recall ", "regions", "CPU share"] {
        columns.push(Column::number(name, if name == "regions" { Unit::Count } else { Unit::Ppm }));
    }
    let mut table = Table::new("isotherm monitor in real kernels; means over boots", columns);
    let mut seen: Vec<(&str, &str, &str)> = Vec::new();
    for run in runs {
        let case = (run.pattern.as_str(), run.way.as_str(), run.kernel.as_str());
        if seen.contains(&case) {
            continue;
        }
        seen.push(case);
        let of_case: Vec<&LiveRun> =
            runs.iter().filter(|run| (run.pattern.as_str(), run.way.as_str(), run.kernel.as_str()) == case).collect();
        let mean = |figure: &dyn Fn(&LiveRun) -> Option<f64>| {
            let figures: Vec<f64> = of_case.iter().filter_map(|run| figure(run)).collect();
            (!figures.is_empty()).then(|| figures.iter().sum::<f64>() / figures.len() as f64)
        };
        let share = |figure: Option<f64>| Cell::from(figure.map(|share| (share * 1e6).round()));
        let mut cells =
            vec![Cell::from(case.0), Cell::from(case.1), Cell::from(case.2), Cell::Int(of_case.len() as u64)];
        cells.push(share(mean(&|run| run.scores.often.precision)));
        cells.push(share(mean(&|run| run.scores.often.recall)));
        cells.push(share(mean(&|run| run.scores.seen.precision)));
        cells.push(share(mean(&|run| run.scores.seen.recall)));
        cells.push(Cell::from(mean(&|run| Some(run.scores.regions)).map(|regions| (regions * 10.0).round() / 10.0)));
        cells.push(Cell::from(mean(&|run| Some(run.cpu_share_ppm as f64)).map(f64::round)));
        table.push(cells);
    }
    match format {
        Format::Csv => ui.print(table.to_csv()),
        _ => ui.print(render(&table, format, ui)),
    }
}
