//! `isotherm advise`: how much memory a program needs, and under which set-up.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use isotherm_report::{Cell, Column, Table, Unit};
use isotherm_scenario::advise::{Advice, Question, advise};
use isotherm_sim::machine::Ending;
use isotherm_sim::swap::device::DeviceKind;
use isotherm_units::{Amount, Bytes, Ratio};

use super::simulate::{BarProgress, error};
use crate::error::CliError;
use crate::format::{Format, FormatArg};
use crate::ui::Ui;

mod page;

/// Find out how much memory a program needs, and under which set-up, with evidence.
///
/// Replays a recording under every page-replacement policy at several memory sizes on a simulated machine, shows what
/// each costs, and recommends the smallest memory that keeps the program within `--slowdown` of its speed with unlimited
/// memory. With `-- COMMAND` the program is recorded first.
#[derive(clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Args {
    /// A recording (see `isotherm record` and `isotherm import`).
    #[arg(value_name = "TRACE", required_unless_present = "command", conflicts_with = "command")]
    trace: Option<PathBuf>,
    /// Memory sizes to try: shares of peak memory, or sizes.
    #[arg(long, value_name = "SIZES", value_delimiter = ',', default_value = "40%,50%,60%,70%,80%,90%,100%")]
    memory: Vec<Amount>,
    /// Where anonymous pages go when memory is short.
    /// zram, nvme, ssd, disk or none.
    #[arg(long, value_name = "DEVICE", default_value_t = DeviceKind::Zram)]
    swap: DeviceKind,
    /// How much slower than with unlimited memory is still fine.
    #[arg(long, value_name = "RATIO", default_value = "5%")]
    slowdown: Ratio,
    /// Processors of the simulated machine.
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=256))]
    cpus: u32,
    /// Write a report as one HTML file.
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
    /// Write the recommended set-up as a scenario file that `isotherm simulate` takes.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Threads to simulate with [default: one per processor].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: Option<u16>,
    #[command(flatten)]
    format: FormatArg,
    /// Record this program first.
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<String>,
}

const AFTER_HELP: &str = "\
Examples:
  isotherm advise traces/sqlite.parquet
  isotherm advise traces/sqlite.parquet --swap nvme --slowdown 10% --report sqlite.html
  isotherm advise traces/sqlite.parquet --memory 50%,75%,200MiB --format json
  isotherm advise -- python3 -c \"print(sum(range(10**7)))\"";

/// Runs the verb.
pub(crate) fn run(args: Args, ui: &Ui) -> Result<ExitCode, CliError> {
    let recorded = match &args.trace {
        Some(_) => None,
        None => Some(super::record::record_for_advice(&args.command, ui)?),
    };
    let trace = args.trace.clone().or_else(|| recorded.as_ref().map(|file| file.path().to_path_buf()));
    let trace = trace.expect("clap asks for a trace or a command");
    let name = match &args.trace {
        Some(path) => path.file_stem().map_or_else(|| "program".to_owned(), |stem| stem.to_string_lossy().into_owned()),
        None => program_name(&args.command[0]),
    };
    let question = Question {
        name,
        trace: std::path::absolute(&trace).unwrap_or(trace),
        memory: args.memory,
        swap: args.swap,
        slowdown: args.slowdown,
        cpus: args.cpus,
        threads: args.threads.map(usize::from),
    };
    let bar = BarProgress::new(ui, "replaying");
    let advice = advise(&question, &bar);
    bar.finish();
    let advice = advice.map_err(error)?;
    match args.format.format {
        Format::Table => print_for_people(&advice, ui)?,
        Format::Json => {
            let json = serde_json::to_string_pretty(&advice).map_err(CliError::failed)?;
            ui.print(format_args!("{json}\n"))?;
        }
        Format::Csv => ui.print(table(&advice).to_csv())?,
    }
    if let Some(path) = &args.report {
        let page = page::html(&advice, &question)?;
        write(path, &page)?;
        ui.say(format_args!("report: {}", path.display()));
    }
    if let Some(path) = &args.config {
        match &advice.config {
            Some(scenario) => {
                write(path, &isotherm_scenario::print(scenario))?;
                ui.say(format_args!("config: {0} (try: isotherm simulate {0})", path.display()));
            }
            None => ui.warn("no configuration is written, because no set-up that was tried is fast enough"),
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn program_name(command: &str) -> String {
    let name = Path::new(command).file_name();
    name.map_or_else(|| "program".to_owned(), |name| name.to_string_lossy().into_owned())
}

fn write(path: &Path, text: &str) -> Result<(), CliError> {
    std::fs::write(path, text).map_err(|error| CliError::failed(format!("cannot write {}: {error}", path.display())))
}

fn print_for_people(advice: &Advice, ui: &Ui) -> Result<(), CliError> {
    let runtime = isotherm_units::Duration::from_ns(advice.unlimited_runtime_ns).approx();
    ui.print(format_args!(
        "{}: peak memory {}, {} with unlimited memory, swap on {}\n\n",
        advice.program,
        Bytes::new(advice.peak_bytes).approx(),
        runtime,
        swap_name(advice.swap),
    ))?;
    ui.print(super::render(&table(advice), Format::Table, ui))?;
    ui.print(format_args!("\n{}\n\nWhat this does not know:\n", verdict(advice)))?;
    for unknown in &advice.unknowns {
        ui.print(format_args!("  - {unknown}\n"))?;
    }
    Ok(())
}

/// The answer in a sentence or two.
fn verdict(advice: &Advice) -> String {
    let allowed = percent(advice.slowdown_allowed_ppm);
    match &advice.recommendation {
        Some(best) => format!(
            "Recommendation: {} with memory.max = {} ({} of peak, {} less): {} slower than with unlimited memory \
             (allowed: {allowed}).",
            best.candidate,
            Bytes::new(best.memory_bytes).approx(),
            percent(best.memory_share_ppm),
            Bytes::new(best.saved_bytes).approx(),
            percent(best.runtime_ratio_ppm.saturating_sub(1_000_000)),
        ),
        None => format!(
            "No recommendation: no size that was tried keeps the program within {allowed} of its speed with unlimited \
             memory. Allow more with --slowdown, or try sizes above {} with --memory.",
            Bytes::new(advice.rows.iter().map(|row| row.memory_bytes).max().unwrap_or(advice.peak_bytes)).approx(),
        ),
    }
}

fn percent(ppm: u64) -> String {
    format!("{}.{} %", ppm / 10_000, ppm % 10_000 / 1_000)
}

fn swap_name(swap: DeviceKind) -> &'static str {
    match swap {
        DeviceKind::None => "nothing (no swap)",
        DeviceKind::Zram => "zram",
        DeviceKind::Nvme => "NVMe",
        DeviceKind::Ssd => "a SATA SSD",
        DeviceKind::Disk => "a disk",
    }
}

/// Every replay.
fn table(advice: &Advice) -> Table {
    let mut table = Table::new(
        "",
        vec![
            Column::text("set-up"),
            Column::number("memory", Unit::Bytes),
            Column::number("of peak", Unit::Ppm),
            Column::number("runtime", Unit::Ns),
            Column::number("slower by", Unit::Ppm),
            Column::number("major faults", Unit::Count),
            Column::number("faults to opt", Unit::Factor),
            Column::number("pressure some", Unit::Ppm),
            Column::number("reclaim cpu", Unit::Ns),
            Column::text("note"),
        ],
    );
    for row in &advice.rows {
        let recommended = advice
            .recommendation
            .as_ref()
            .is_some_and(|best| best.candidate == row.candidate && best.memory_bytes == row.memory_bytes);
        let note = match row.ending {
            Ending::Finished if recommended => "recommended",
            Ending::Finished if !row.runs_on_linux => "yardstick",
            Ending::Finished => "",
            Ending::OutOfMemory => "killed: out of memory",
            _ => "did not finish",
        };
        if recommended {
            table.highlight = Some(table.rows.len());
        }
        table.push(vec![
            Cell::from(row.candidate),
            row.memory_bytes.into(),
            row.memory_share_ppm.into(),
            row.runtime_ns.into(),
            row.runtime_ratio_ppm.map(|ratio| ratio.saturating_sub(1_000_000)).into(),
            row.major_faults.into(),
            row.faults_to_opt_ppm.map(|ppm| ppm as f64 / 1e6).into(),
            row.pressure_some_ppm.into(),
            row.reclaim_cpu_ns.into(),
            Cell::from(note),
        ]);
    }
    table
}
