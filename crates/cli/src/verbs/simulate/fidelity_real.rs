//! `isotherm simulate fidelity-compaction` and `fidelity-promotion`: a line for each figure of each case, in both worlds.

use isotherm_fidelity::beside::{Range, Row, compaction, promotion};
use isotherm_report::{Cell, Column, Table, Unit};

use super::beside::{Args, with_data};
use crate::error::CliError;
use crate::format::Format;
use crate::ui::Ui;

pub(super) fn compaction(args: &Args, ui: &Ui) -> Result<(), CliError> {
    let data = with_data(args, compaction::stored, &compaction::real_all, "fidelity-compaction", ui)?;
    let bar = ui.progress("simulating", data.boots.iter().map(|boot| boot.runs.len() as u64).sum());
    let rows = compaction::compare(&data, &compaction::CASES, &mut || bar.inc(1));
    bar.finish_and_clear();
    print(&data.command, &rows.map_err(super::fidelity::error)?, args, ui)
}

pub(super) fn promotion(args: &Args, ui: &Ui) -> Result<(), CliError> {
    let data = with_data(args, promotion::stored, &promotion::real_all, "fidelity-promotion", ui)?;
    let bar = ui.progress("simulating", data.boots.iter().map(|boot| boot.runs.len() as u64).sum());
    let rows = promotion::compare(&data, promotion::TIER_CASES, promotion::PASSES, &mut || bar.inc(1));
    bar.finish_and_clear();
    print(&data.command, &rows.map_err(super::fidelity::error)?, args, ui)
}

/// All rows, as programs and people read them.
pub(super) fn print(command: &str, rows: &[Row], args: &Args, ui: &Ui) -> Result<(), CliError> {
    if args.format.format == Format::Json {
        let json = serde_json::json!({ "command": command, "rows": rows });
        let json = serde_json::to_string_pretty(&json).map_err(CliError::failed)?;
        return ui.print(format_args!("{json}\n"));
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
    ui.print(crate::verbs::render(&table, args.format.format, ui))
}

/// Mean, least and most.
pub(super) fn range(range: Option<Range>) -> [Cell; 3] {
    [range.map(|range| range.mean), range.map(|range| range.low), range.map(|range| range.high)].map(Cell::from)
}
