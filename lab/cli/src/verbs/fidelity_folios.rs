//! `isotherm-lab fidelity-folios`: the simulated machine versus real kernels with large folios.

mod tables;

use std::process::ExitCode;

use isotherm_fidelity::folios::{Folios, FoliosComparison, compare, nr_simulated};
use isotherm_fidelity::{KernelData, Workloads};
use isotherm_report::{Cell, Column, Table, Unit};
use isotherm_terminal::{CliError, Format, Ui, render};

use super::fidelity::{Chosen, error};

/// Compare the simulated machine with real kernels whose pages form large folios.
///
/// The same scripts are played on a file system that keeps pages single, on ext4, on XFS, and with anonymous folios of 64 KiB. The counters of
/// real kernels are stored; only the simulated machine plays again. Prints tables in Markdown.
#[derive(clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Args {
    /// Only these kinds of folios: single, ext4, xfs, 64KiB.
    #[arg(long, value_name = "KIND", value_delimiter = ',')]
    folios: Vec<String>,
    #[command(flatten)]
    chosen: Chosen,
}

const AFTER_HELP: &str = "\
Examples:
  isotherm-lab fidelity-folios
  isotherm-lab fidelity-folios --folios xfs --workload read-scan --format csv
  isotherm-lab fidelity-folios --refresh --folios xfs --kernel 6.12 --boots 2 --data runs

--refresh needs what `isotherm-lab rig` needs, and mkfs.xfs (package xfsprogs) for xfs. A cached kernel that
was fetched without the module of XFS is fetched again when its folder is removed.";

pub(crate) fn run(args: Args, ui: &Ui) -> Result<ExitCode, CliError> {
    let folios = Folios::named(&args.folios).map_err(error)?;
    let chosen = &args.chosen;
    let (selection, workloads) = chosen.built(&Workloads::bundled_of_folios(), ui)?;
    let all = chosen.folder("scenarios/folios")?;
    if let (Some(all), true) = (&all, chosen.refresh) {
        for of in &folios {
            let verb = format!("fidelity-folios --folios {}", of.name);
            let (workloads, folder) = (of.of(&workloads), of.folder(all));
            if workloads.is_empty() {
                continue;
            }
            chosen.refresh(&selection, &workloads, of, &verb, &KernelData::without_residency, &folder, ui)?;
        }
    }
    let load = |of: &&'static Folios| {
        let data = match &all {
            Some(all) => KernelData::load_all(&of.folder(all)),
            None => of.bundled(),
        };
        Ok((*of, data?))
    };
    let data = folios.iter().map(load).collect::<Result<Vec<_>, _>>().map_err(error)?;
    let bar = ui.progress("simulating", nr_simulated(&workloads, &selection, &folios));
    let compared = compare(&workloads, &selection, &data, &|| bar.inc(1));
    bar.finish_and_clear();
    let compared = compared.map_err(error)?;
    match chosen.format.format {
        Format::Json => {
            let json = serde_json::to_string_pretty(&compared).map_err(CliError::failed)?;
            ui.print_data(format_args!("{json}\n"))?;
        }
        Format::Csv => ui.print_styled(&render(&rows(&compared), Format::Csv, ui))?,
        Format::Table => ui.print(tables::all(&compared))?,
    }
    Ok(ExitCode::SUCCESS)
}

/// Every counter of every cell.
fn rows(compared: &FoliosComparison) -> Table {
    let texts = ["workload", "kernel", "policy", "folios", "limit", "metric"].map(Column::text).into_iter();
    let numbers = [
        ("real least", Unit::Count),
        ("real most", Unit::Count),
        ("simulated, single pages", Unit::Count),
        ("its error", Unit::Ppm),
        ("simulated, folios", Unit::Count),
        ("error", Unit::Ppm),
    ];
    let numbers = numbers.map(|(name, unit)| Column::number(name, unit));
    let mut table = Table::new("", texts.chain(numbers).collect());
    for row in &compared.rows {
        table.push(vec![
            Cell::from(row.workload.as_str()),
            Cell::from(row.kernel.as_str()),
            Cell::from(row.policy.as_str()),
            Cell::from(row.folios),
            Cell::from(format!("{} %", row.limit_percent)),
            Cell::from(row.metric),
            Cell::from(row.real_low),
            Cell::from(row.real_high),
            Cell::from(row.single),
            Cell::from(row.single_error.map(|share| share * 1e6)),
            Cell::from(row.simulated),
            Cell::from(row.error.map(|share| share * 1e6)),
        ]);
    }
    table
}
