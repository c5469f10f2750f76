//! `isotherm simulate fidelity-compaction` and `fidelity-promotion`: a line for each figure of each case.

use isotherm_fidelity::beside::{Row, compaction, promotion};
use isotherm_report::{Cell, Column, Table, Unit};

use super::beside::{Args, with_data};
use crate::error::CliError;
use crate::format::Format;
use crate::ui::Ui;

pub(super) fn compaction(args: &Args, ui: &Ui) -> Result<(), CliError> {
    let data = with_data(args, compaction::stored, &compaction::real_all, "fidelity-compaction", ui)?;
    print(&data.command, &compaction::rows(&data).map_err(CliError::failed)?, args, ui)
}

pub(super) fn promotion(args: &Args, ui: &Ui) -> Result<(), CliError> {
    let data = with_data(args, promotion::stored, &promotion::real_all, "fidelity-promotion", ui)?;
    print(&data.command, &promotion::rows(&data), args, ui)
}

fn print(command: &str, rows: &[Row], args: &Args, ui: &Ui) -> Result<(), CliError> {
    if args.format.format == Format::Json {
        let json = serde_json::json!({ "command": command, "rows": rows });
        let json = serde_json::to_string_pretty(&json).map_err(CliError::failed)?;
        return ui.print(format_args!("{json}\n"));
    }
    let columns = ["case", "kernel", "metric"].map(Column::text).into_iter();
    let numbers = ["mean", "low", "high"].map(|name| Column::number(name, Unit::Count));
    let mut table = Table::new("", columns.chain(numbers).collect());
    for row in rows {
        table.push(vec![
            Cell::from(row.case.as_str()),
            Cell::from(row.kernel.as_str()),
            Cell::from(row.metric),
            Cell::from(row.real.mean),
            Cell::from(row.real.low),
            Cell::from(row.real.high),
        ]);
    }
    ui.print(crate::verbs::render(&table, args.format.format, ui))
}
