//! `isotherm simulate fidelity-sorting`: LRU_SORT beside the kernel's.

use isotherm_fidelity::beside::Row;
use isotherm_fidelity::beside::sorting::{SEEDS, SORT_WORKLOADS, compare, real_all, stored};
use isotherm_report::{Cell, Column, Table, Unit};

use super::beside::{Args, with_data};
use super::fidelity_real::{print, range};
use crate::error::CliError;
use crate::format::Format;
use crate::ui::Ui;

pub(super) fn run(args: &Args, ui: &Ui) -> Result<(), CliError> {
    let data = with_data(args, stored, &real_all, "fidelity-sorting", ui)?;
    let bar = ui.progress("simulating", (SORT_WORKLOADS.len() * SEEDS.count()) as u64);
    let rows = compare(&data, SEEDS, &mut || bar.inc(1));
    bar.finish_and_clear();
    let rows = rows.map_err(super::fidelity::error)?;
    if args.format.format == Format::Table {
        return ui.print(crate::verbs::render(&faults(&rows), Format::Table, ui));
    }
    print(&data.command, &rows, args, ui)
}

/// A line for each workload and kernel: major faults without and with LRU_SORT in both worlds, and what it makes of them.
fn faults(rows: &[Row]) -> Table {
    let columns = ["workload", "kernel"].map(Column::text).into_iter();
    let counts = ["plain, ours", "plain, kernel's", "sorted, ours", "sorted, kernel's"];
    let columns = columns.chain(counts.map(|name| Column::number(name, Unit::Count)));
    let ratios = ["ratio, ours", "least", "most", "ratio, kernel's", "least ", "most "];
    let columns = columns.chain(ratios.map(|name| Column::number(name, Unit::Factor)));
    let mut table = Table::new("major faults under pressure; ratio: sorted by plain", columns.collect());
    for plain in rows.iter().filter(|row| row.metric == "major_faults_plain") {
        let same = |metric: &str| {
            let is_it = |row: &&Row| row.case == plain.case && row.kernel == plain.kernel && row.metric == metric;
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
