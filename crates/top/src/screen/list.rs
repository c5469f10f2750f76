//! The list of groups and processes.

use ratatui::layout::Rect;

use super::paint::{BOLD, Canvas, DIM, PLAIN, REVERSED, bytes, ppm};
use crate::{GroupRow, State};

/// Columns of a figure, with the blank before it.
const FIGURE_COLUMNS: u16 = 11;

/// A column of the list.
#[derive(Clone, Copy)]
struct Figure {
    name: &'static str,
    value: fn(&GroupRow) -> Option<u64>,
    words: fn(Option<u64>) -> String,
    /// Whether it is left out where no row has it: some feeds never do.
    is_optional: bool,
}

const fn size(name: &'static str, value: fn(&GroupRow) -> Option<u64>) -> Figure {
    Figure { name, value, words: bytes, is_optional: false }
}

/// Figures from left to right; a narrow terminal leaves out those at the end.
const FIGURES: [Figure; 7] = [
    Figure { is_optional: true, ..size("RSS", |row| row.resident_bytes) },
    size("HOT", |row| row.hot_bytes),
    size("WARM", |row| row.warm_bytes),
    size("COLD", |row| row.cold_bytes),
    size("SWAP", |row| row.swapped_bytes),
    size("WORKING", GroupRow::working_set_bytes),
    Figure { name: "PRESSURE", value: |row| row.pressure_ppm, words: ppm, is_optional: true },
];

pub(super) fn draw(state: &State, canvas: &mut Canvas<'_>, area: Rect) {
    let rows = state.rows();
    let is_shown = |figure: &&Figure| !figure.is_optional || rows.iter().any(|row| (figure.value)(row).is_some());
    let room = usize::from(area.width.saturating_sub(16) / FIGURE_COLUMNS);
    let figures: Vec<&Figure> = FIGURES.iter().filter(is_shown).take(room).collect();
    let names = area.width - u16::try_from(figures.len()).unwrap_or(0) * FIGURE_COLUMNS;
    let place = |index: usize| names + u16::try_from(index).unwrap_or(0) * FIGURE_COLUMNS;
    canvas.text(area, (0, 0), "  NAME", BOLD);
    for (index, figure) in figures.iter().enumerate() {
        canvas.text(area, (place(index), 0), &format!("{:>10}", figure.name), BOLD);
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
        for (index, figure) in figures.iter().enumerate() {
            canvas.text(area, (place(index), line), &format!("{:>10}", (figure.words)((figure.value)(row))), PLAIN);
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
