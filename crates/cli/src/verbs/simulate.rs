//! `isotherm simulate`: plays a scenario and prints what was measured.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use isotherm_report::{Cell, Column, Table, Unit};
use isotherm_scenario::{
    BUNDLED, METRICS, MetricUnit, ResultRow, RunOptions, Scenario, ScenarioError, ScenarioResult, side_by_side,
};
use isotherm_sim::memory::KernelRelease;
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
    #[command(flatten)]
    format: FormatArg,
}

const AFTER_HELP: &str = "\
Examples:
  isotherm simulate policies
  isotherm simulate policies --format json --threads 1
  isotherm simulate compaction --repeats 1
  isotherm simulate policies --kernel all
  isotherm simulate my-service.toml --repeats 5
  isotherm simulate --list";

pub(crate) fn run(args: Args, ui: &Ui) -> Result<ExitCode, CliError> {
    let Some(name) = args.scenario.filter(|_| !args.list) else { return list(args.format.format, ui) };
    let (mut scenario, base_dir) = find(&name, ui)?;
    scenario.seed = args.seed.unwrap_or(scenario.seed);
    scenario.repeats = args.repeats.unwrap_or(scenario.repeats);
    let options = RunOptions { base_dir, place: name, threads: args.threads.map(usize::from) };
    let result = play(scenario, args.kernel, &options, ui)?;
    print(&result, args.format.format, ui)?;
    Ok(ExitCode::SUCCESS)
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
    let (scenario, note) = isotherm_scenario::load_with_note(path)?;
    if let Some(note) = note {
        ui.warn(note);
    }
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    Ok((scenario, folder.to_path_buf()))
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

fn print(result: &ScenarioResult, format: Format, ui: &Ui) -> Result<(), CliError> {
    match format {
        Format::Json => {
            let json = serde_json::to_string_pretty(result).map_err(CliError::failed)?;
            ui.print(format_args!("{json}\n"))
        }
        Format::Csv => ui.print(long_table(result).to_csv()),
        Format::Table => {
            for workload in unique(result.rows.iter().map(|row| row.workload.as_str())) {
                let table = wide_table(result, workload);
                ui.print(format_args!("{}\n", super::render(&table, Format::Table, ui)))?;
            }
            let more = [values_versus_references(result), versus_references(result), expectations(result)];
            for table in more.into_iter().flatten() {
                ui.print(format_args!("{}\n", super::render(&table, Format::Table, ui)))?;
            }
            Ok(())
        }
    }
}

fn unique<'a>(names: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let mut seen = Vec::new();
    for name in names {
        if !seen.contains(&name) {
            seen.push(name);
        }
    }
    seen
}

/// A table for people: a line per variant, a column per metric, ± the half width of the interval where there is one.
fn wide_table(result: &ScenarioResult, workload: &str) -> Table {
    let rows: Vec<_> = result.rows.iter().filter(|row| row.workload == workload).collect();
    let metrics = unique(rows.iter().map(|row| row.metric.as_str()));
    let repeats = rows.iter().map(|row| row.n).max().unwrap_or(0);
    let mut columns = vec![Column::text("variant")];
    columns.extend(metrics.iter().map(|metric| {
        let unit = METRICS.iter().find(|known| known.name == *metric).map_or(Unit::Count, |known| unit_of(known.unit));
        let name = metric.trim_end_matches("_ns").trim_end_matches("_bytes").replace('_', " ");
        Column::number(name, unit)
    }));
    let mut table = Table::new(format!("{workload} (mean of {repeats}, rules of Linux {})", releases(&rows)), columns);
    for variant in unique(rows.iter().map(|row| row.variant.as_str())) {
        let mut cells = vec![Cell::from(variant)];
        for metric in &metrics {
            cells.push(result.row(workload, variant, metric).map(|row| row.mean).into());
        }
        table.push(cells);
    }
    table
}

/// The releases that rows were played by, the oldest first: `6.12 and 7.2`.
fn releases(rows: &[&ResultRow]) -> String {
    let releases: BTreeSet<KernelRelease> = rows.iter().map(|row| row.kernel).collect();
    releases.into_iter().map(KernelRelease::name).collect::<Vec<_>>().join(" and ")
}

/// Ratios beside published ones; nothing without any.
fn versus_references(result: &ScenarioResult) -> Option<Table> {
    let columns = ["workload", "variant", "metric"].map(Column::text).into_iter();
    let numbers = ["ratio", "from", "to", "published", "from ", "to "].map(|name| Column::number(name, Unit::Factor));
    let columns = columns.chain(numbers).chain(["same sign", "overlap"].map(Column::text));
    let mut table = Table::new("ratios beside published ones (95 % intervals)", columns.collect());
    for row in result.ratios.iter().filter(|row| row.reference.is_some()) {
        let word = |said: Option<bool>| Cell::from(said.map_or("-", |yes| if yes { "yes" } else { "no" }));
        table.push(vec![
            Cell::from(row.workload.as_str()),
            Cell::from(format!("{} : {}", row.variant, row.against)),
            Cell::from(row.metric.as_str()),
            row.mean.into(),
            row.ci95_low.into(),
            row.ci95_high.into(),
            row.reference.into(),
            row.reference_low.into(),
            row.reference_high.into(),
            word(row.sign_agrees),
            word(row.overlaps),
        ]);
    }
    result.ratios.iter().any(|row| row.reference.is_some()).then_some(table)
}

/// Values beside published ones; nothing without any.
fn values_versus_references(result: &ScenarioResult) -> Option<Table> {
    let columns = ["workload", "variant", "metric"].map(Column::text).into_iter();
    let numbers = ["ours", "from", "to", "published"].map(|name| Column::number(name, Unit::Count));
    let mut table = Table::new("beside published values (95 % intervals)", columns.chain(numbers).collect());
    for row in result.rows.iter().filter(|row| row.reference.is_some()) {
        table.push(vec![
            Cell::from(row.workload.as_str()),
            Cell::from(row.variant.as_str()),
            Cell::from(row.metric.as_str()),
            row.mean.into(),
            row.ci95_low.into(),
            row.ci95_high.into(),
            row.reference.into(),
        ]);
    }
    result.rows.iter().any(|row| row.reference.is_some()).then_some(table)
}

/// What was expected, and whether it is met; nothing without any.
fn expectations(result: &ScenarioResult) -> Option<Table> {
    let columns = ["workload", "variant", "metric"].map(Column::text).into_iter();
    let numbers = ["measured", "at least", "at most"].map(|name| Column::number(name, Unit::Count));
    let columns = columns.chain(numbers).chain(["", "expected by"].map(Column::text));
    let mut table = Table::new("expectations", columns.collect());
    for row in &result.expectations {
        let expected = &row.expected;
        let against = expected.against.as_ref().map(|against| format!(" : {against}")).unwrap_or_default();
        table.push(vec![
            Cell::from(expected.workload.as_str()),
            Cell::from(format!("{}{against}", expected.variant)),
            Cell::from(expected.metric.as_str()),
            row.measured.into(),
            expected.at_least.into(),
            expected.at_most.into(),
            Cell::from(match (row.met, row.of_nothing) {
                (true, true) => "met, 0 on both sides",
                (true, false) => "met",
                (false, _) => "missed",
            }),
            Cell::from(expected.source.as_str()),
        ]);
    }
    (!result.expectations.is_empty()).then_some(table)
}

fn unit_of(unit: MetricUnit) -> Unit {
    match unit {
        MetricUnit::Nanoseconds => Unit::Ns,
        MetricUnit::Bytes => Unit::Bytes,
        MetricUnit::Pages => Unit::Pages,
        MetricUnit::Count => Unit::Count,
    }
}

/// A table for programs: a line per row of the result.
fn long_table(result: &ScenarioResult) -> Table {
    let columns = ["workload", "variant", "kernel", "metric"].map(Column::text).into_iter();
    let numbers = ["n", "mean", "stddev", "ci95_low", "ci95_high", "reference", "reference_low", "reference_high"];
    let columns = columns.chain(numbers.map(|name| Column::number(name, Unit::Count)));
    let mut table = Table::new("", columns.collect());
    for row in &result.rows {
        table.push(vec![
            Cell::from(row.workload.as_str()),
            Cell::from(row.variant.as_str()),
            Cell::from(row.kernel.name()),
            Cell::from(row.metric.as_str()),
            row.n.into(),
            row.mean.into(),
            row.stddev.into(),
            row.ci95_low.into(),
            row.ci95_high.into(),
            row.reference.into(),
            row.reference_low.into(),
            row.reference_high.into(),
        ]);
    }
    table
}
