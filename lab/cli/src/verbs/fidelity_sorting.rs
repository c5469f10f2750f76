//! `isotherm-lab fidelity-sorting`: LRU_SORT versus the kernel's.

use std::process::ExitCode;

use isotherm_fidelity::versus::FigureRow;
use isotherm_fidelity::versus::sorting::{SEEDS, SORT_WORKLOADS, compare, real_all, stored};
use isotherm_report::{Cell, Column, Table, Unit};
use isotherm_terminal::{CliError, Format, Ui, render};

pub(crate) use super::versus::Args;
use super::versus::{print, range, with_data};

pub(super) const AFTER_HELP: &str = "\
Examples:
  isotherm-lab fidelity-sorting
  isotherm-lab fidelity-sorting --format json
  isotherm-lab fidelity-sorting --refresh --kernel 6.12 --boots 5 --data sorting.json";

pub(crate) fn run(args: Args, ui: &Ui) -> Result<ExitCode, CliError> {
    let data = with_data(&args, stored, &real_all, "fidelity-sorting", ui)?;
    let bar = ui.progress("simulating", (SORT_WORKLOADS.len() * SEEDS.count()) as u64);
    let rows = compare(&data, SEEDS, &mut || bar.inc(1));
    bar.finish_and_clear();
    let rows = rows.map_err(super::fidelity::error)?;
    if args.format.format == Format::Table {
        ui.print_styled(&render(&faults(&rows), Format::Table, ui))?;
        return Ok(ExitCode::SUCCESS);
    }
    print(&data.command, &rows, &args, ui)
}

/// A line for each workload and kernel: major faults without and with LRU_SORT in both worlds, and their ratio.
fn faults(rows: &[FigureRow]) -> Table {
    let columns = ["workload", "kernel"].map(Column::text).into_iter();
    let counts = ["plain, ours", "plain, kernel's", "sorted, ours", "sorted, kernel's"];
    let columns = columns.chain(counts.map(|name| Column::number(name, Unit::Count)));
    let ratios = ["ratio, ours", "least", "most", "ratio, kernel's", "least ", "most "];
    let columns = columns.chain(ratios.map(|name| Column::number(name, Unit::Factor)));
    let mut table = Table::new("major faults under pressure; ratio: sorted by plain", columns.collect());
    for plain in rows.iter().filter(|row| row.metric == "major_faults_plain") {
        let same = |metric: &str| {
            let is_it = |row: &&FigureRow| row.case == plain.case && row.kernel == plain.kernel && row.metric == metric;
            rows.iter().find(is_it)
        };
        let mut cells = vec![Cell::from(plain.case.as_str()), Cell::from(plain.kernel.as_str())];
        for row in [Some(plain), same("major_faults_sorted")] {
            cells.push(Cell::from(row.and_then(|row| row.simulated).map(|range| range.mean)));
            cells.push(Cell::from(row.map(|row| row.real.mean)));
        }
        let ratio = same("major_faults_ratio");
        cells.extend(range(ratio.and_then(|row| row.simulated)));
        cells.extend(range(ratio.map(|row| row.real)));
        table.push(cells);
    }
    table
}
