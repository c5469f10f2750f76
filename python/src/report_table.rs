//! Tables of the report as columns: the same names and numbers as the command's `--format csv`.

use crate::arrow::{Columns, Table};
use isotherm_report::{Cell, Table as Report};
use pyo3::prelude::*;

/// Column by column: whole numbers, other numbers, flags, or words, whichever holds all its cells.
pub(crate) fn of(report: &Report) -> PyResult<Table> {
    let columns = report.columns.iter().enumerate().map(|(place, column)| (place, column.key()));
    columns.fold(Columns::default(), |table, (place, key)| add(table, &key, report, place)).table()
}

fn add(table: Columns, key: &str, report: &Report, place: usize) -> Columns {
    let cells = || report.rows.iter().map(|row| row.get(place).unwrap_or(&Cell::Missing));
    let is_number = report.columns[place].unit.is_some();
    let all = |fits: fn(&Cell) -> bool| cells().all(|cell| *cell == Cell::Missing || fits(cell));
    if all(|cell| matches!(cell, Cell::Bool(_))) && !is_number && !all(|_| false) {
        return table.flags(key, cells().map(|cell| if let Cell::Bool(flag) = cell { Some(*flag) } else { None }));
    }
    if is_number && all(|cell| matches!(cell, Cell::Int(_))) {
        return table.counts(key, cells().map(|cell| if let Cell::Int(count) = cell { Some(*count) } else { None }));
    }
    if is_number && all(|cell| matches!(cell, Cell::Int(_) | Cell::Float(_))) {
        #[expect(clippy::cast_precision_loss, reason = "a column of means and factors")]
        return table.numbers(
            key,
            cells().map(|cell| match cell {
                Cell::Int(count) => Some(*count as f64),
                Cell::Float(number) => Some(*number).filter(|number| number.is_finite()),
                _ => None,
            }),
        );
    }
    table.texts(
        key,
        cells().map(|cell| match cell {
            Cell::Text(text) => Some(text.clone()),
            Cell::Int(count) => Some(count.to_string()),
            Cell::Float(number) => Some(number.to_string()),
            Cell::Bool(flag) => Some(flag.to_string()),
            Cell::Missing => None,
        }),
    )
}
