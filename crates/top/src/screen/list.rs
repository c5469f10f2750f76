//! The list of groups and processes.

use ratatui::layout::Rect;

use super::paint::{BOLD, Canvas, DIM, PLAIN, REVERSED, bytes};
use crate::{GroupRow, State};

/// Columns of a figure, with the blank before it.
const FIGURE_COLUMNS: u16 = 11;

type Figure = fn(&GroupRow) -> Option<u64>;

/// Figures from left to right; a narrow terminal leaves out those at the end.
const FIGURES: [(&str, Figure); 5] = [
    ("HOT", |row| row.hot_bytes),
    ("WARM", |row| row.warm_bytes),
    ("COLD", |row| row.cold_bytes),
    ("SWAP", |row| row.swapped_bytes),
    ("WORKING", GroupRow::working_set_bytes),
];

pub(super) fn draw(state: &State, canvas: &mut Canvas<'_>, area: Rect) {
    let rows = state.rows();
    let figures = usize::from(area.width.saturating_sub(16) / FIGURE_COLUMNS).min(FIGURES.len());
    let figures = &FIGURES[..figures];
    let names = area.width - u16::try_from(figures.len()).unwrap_or(0) * FIGURE_COLUMNS;
    let place = |index: usize| names + u16::try_from(index).unwrap_or(0) * FIGURE_COLUMNS;
    canvas.text(area, (0, 0), "  NAME", BOLD);
    for (index, (name, _)) in figures.iter().enumerate() {
        canvas.text(area, (place(index), 0), &format!("{name:>10}"), BOLD);
    }
    let lines = usize::from(area.height.saturating_sub(1));
    let digits = rows.iter().filter_map(|row| row.pid).max().map_or(0, |pid| pid.to_string().len());
    if rows.is_empty() {
        let words = match state.frame() {
            None => "waiting for the first snapshot",
            Some(_) if state.filter.is_empty() => "no groups or processes",
            Some(_) => "no name holds the filter; Esc clears it",
        };
        canvas.text(area, (2, 1), words, DIM);
    }
    let at = rows.iter().position(|row| Some(row.key) == state.chosen).unwrap_or(0);
    let top = at.saturating_sub(lines.saturating_sub(1));
    for (line, row) in (1..).zip(rows.iter().skip(top).take(lines)) {
        let chosen = Some(row.key) == state.chosen;
        let name = Rect { width: names.saturating_sub(1), ..area };
        canvas.text(name, (0, line), if chosen { "▸ " } else { "  " }, PLAIN);
        canvas.text(name, (2, line), &label(row, digits), PLAIN);
        for (index, (_, figure)) in figures.iter().enumerate() {
            canvas.text(area, (place(index), line), &format!("{:>10}", bytes(figure(row))), PLAIN);
        }
        if chosen {
            canvas.fill(Rect { y: area.y + line, height: 1, ..area }, REVERSED);
        }
    }
}

/// Process numbers have a column of their own, so that names are aligned.
fn label(row: &GroupRow, digits: usize) -> String {
    row.pid.map_or_else(|| row.name.clone(), |pid| format!("{pid:>digits$} {}", row.name))
}
