//! Tables of real kernels versus the simulated machine: their options, and the source of their data.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use isotherm_fidelity::versus::{FigureRow, OfKernel, Range, Rig, Stored};
use isotherm_fidelity::{FidelityError, Selection, Workloads, write_whole};
use isotherm_report::{Cell, Column, Table, Unit};
use isotherm_terminal::{CliError, Format, FormatArg, Ui, render};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::rig;

/// Shows results of real kernels, next to those of the simulated machine where there are any.
///
/// Real runs are stored; --refresh repeats them, which has the needs of `isotherm-lab rig`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Run the real kernels again instead of taking stored data.
    #[arg(long)]
    refresh: bool,
    /// With --refresh, only these kernels; a data file keeps its results of other kernels.
    #[arg(long, value_name = "KERNEL", value_delimiter = ',', requires = "refresh")]
    kernel: Vec<String>,
    /// A file of real data to compare with; with --refresh, where new data are written.
    #[arg(long, value_name = "FILE")]
    data: Option<PathBuf>,
    /// With --refresh, boots of each kernel.
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=100), requires = "refresh")]
    boots: u32,
    #[command(flatten)]
    pub(super) format: FormatArg,
}

/// Data that a table compares with: stored data, the data of a file, or new data.
pub(super) fn with_data<B: OfKernel + Serialize + DeserializeOwned>(
    args: &Args,
    stored: fn() -> Result<Stored<B>, FidelityError>,
    real: &dyn Fn(&Rig<'_>) -> Result<B, FidelityError>,
    table: &str,
    ui: &Ui,
) -> Result<Stored<B>, CliError> {
    if !args.refresh {
        let Some(path) = &args.data else { return stored().map_err(CliError::failed) };
        let data = read(path)?;
        if data.boots.is_empty() {
            let (place, table) = (path.display().to_string(), table.to_owned());
            return Err(super::fidelity::error(FidelityError::NoBoots { place, table }));
        }
        return Ok(data);
    }
    let selection = Selection { kernels: rig::kernel_names(&args.kernel), ..Selection::default() };
    selection.check(&Workloads::bundled()).map_err(super::fidelity::error)?;
    // A file that cannot be read is reported before anything is booted.
    let older = match &args.data {
        Some(path) if !args.kernel.is_empty() && path.exists() => Some(read(path)?),
        _ => None,
    };
    let boots = args.boots;
    let guest = rig::guest()?;
    let kernels: Vec<_> =
        selection.kernels().map(|name| rig::kernel(name, ui).map(|kernel| (name, kernel))).collect::<Result<_, _>>()?;
    let bar = ui.progress("booting", u64::from(boots) * kernels.len() as u64);
    let mut data = Stored { command: format!("isotherm-lab {table} --refresh --boots {boots}"), boots: Vec::new() };
    for (name, kernel) in kernels {
        for _ in 0..boots {
            data.boots.push(real(&Rig { kernel: (name, &kernel), guest: &guest }).map_err(super::fidelity::error)?);
            bar.inc(1);
        }
    }
    bar.finish_and_clear();
    if let Some(older) = older {
        data = older.with(data);
    }
    if let Some(path) = &args.data {
        let mut text = serde_json::to_string(&data).map_err(CliError::failed)?;
        // A line for each boot, so that diffs are readable.
        text = text.replace("{\"name\":", "\n{\"name\":") + "\n";
        write_whole(path, &text).map_err(CliError::failed)?;
    }
    Ok(data)
}

fn read<B: DeserializeOwned>(path: &Path) -> Result<Stored<B>, CliError> {
    let text =
        std::fs::read_to_string(path).map_err(|error| CliError::usage(format!("{}: {error}", path.display())))?;
    Stored::parse(&text, path).map_err(CliError::usage)
}

/// All rows, for programs or people.
pub(super) fn print(command: &str, rows: &[FigureRow], args: &Args, ui: &Ui) -> Result<ExitCode, CliError> {
    if args.format.format == Format::Json {
        let json = serde_json::json!({ "command": command, "rows": rows });
        let json = serde_json::to_string_pretty(&json).map_err(CliError::failed)?;
        ui.print_data(format_args!("{json}\n"))?;
        return Ok(ExitCode::SUCCESS);
    }
    let columns = ["case", "kernel", "metric"].map(Column::text).into_iter();
    let numbers = ["simulated", "simulated low", "simulated high", "real", "real low", "real high"];
    let columns = columns.chain(numbers.map(|name| Column::number(name, Unit::Count)));
    let mut table = Table::new("", columns.collect());
    for row in rows {
        let mut cells = vec![Cell::from(row.case.as_str()), Cell::from(row.kernel.as_str()), Cell::from(row.metric)];
        cells.extend(range(row.simulated));
        cells.extend(range(Some(row.real)));
        table.push(cells);
    }
    ui.print_styled(&render(&table, args.format.format, ui))?;
    Ok(ExitCode::SUCCESS)
}

/// Mean, least and most.
pub(super) fn range(range: Option<Range>) -> [Cell; 3] {
    [range.map(|range| range.mean), range.map(|range| range.low), range.map(|range| range.high)].map(Cell::from)
}
