//! The first and the last line, titles, and help.

use ratatui::layout::Rect;

use super::paint::{BOLD, Canvas, DIM, PLAIN, REVERSED, time};
use crate::{State, Tab};

const HELP: [(&str, &str); 13] = [
    ("j k, arrows", "choose the next or previous row"),
    ("PageUp PageDown Home End", "choose ten rows on, the first, the last"),
    ("s", "sort by hot, warm, cold, swapped memory or name"),
    ("/", "filter by name; Enter keeps the filter, Esc clears it"),
    ("1 to 5, Tab", "pane: heatmap, working set, ages, figures, nodes"),
    ("p, space", "pause; again: follow the newest frame"),
    ("left, right", "go back or forward in time"),
    ("+ -", "less or more time in a column"),
    ("Ctrl-L", "draw again"),
    ("Ctrl-Z", "suspend"),
    ("q, Ctrl-C", "quit"),
    ("hot, warm, cold", "accessed in at least 25 %, some, none of the checks"),
    ("-", "not measured"),
];

/// Hints of the last line, the most wanted first.
const KEYS: [&str; 9] =
    ["? help", "q quit", "j/k row", "s sort", "/ filter", "1-5 pane", "p pause", "←/→ time", "+/- zoom"];

/// Milliseconds are enough for the moment that is shown.
fn moment(at_ns: u64) -> String {
    match at_ns / 1_000_000 {
        0 => "0 s".to_owned(),
        ms => time(ms * 1_000_000),
    }
}

pub(super) fn header(state: &State, canvas: &mut Canvas<'_>, area: Rect) {
    let mut words = format!("isotherm top · {}", state.source);
    let at = state.frame().map_or_else(|| "no data yet".to_owned(), |frame| moment(frame.at_ns));
    words.push_str(&format!(" · {at}"));
    if state.view_ns.is_some() {
        words.push_str(" PAUSED");
    } else if state.ended {
        words.push_str(" END");
    }
    words.push_str(&format!(" · sort {}", state.sort.name()));
    if state.editing || !state.filter.is_empty() {
        words.push_str(&format!(" · filter /{}{}", state.filter, if state.editing { "_" } else { "" }));
    }
    let words = if canvas.look.unicode { words } else { words.replace(" · ", " | ") };
    canvas.text(area, (0, 0), &words, BOLD);
}

pub(super) fn footer(state: &State, canvas: &mut Canvas<'_>, area: Rect) {
    if state.editing {
        return canvas.text(area, (0, 0), "type a part of the name  Enter keep  Esc clear", DIM);
    }
    // Whole hints, as many as there is room for.
    let mut column = 0;
    for key in KEYS {
        let width = u16::try_from(key.chars().count()).unwrap_or(u16::MAX);
        if column + width > area.width {
            break;
        }
        canvas.text(area, (column, 0), key, DIM);
        column += width + 2;
    }
}

pub(super) fn tabs(state: &State, canvas: &mut Canvas<'_>, area: Rect) {
    let mut column = 0;
    for (number, tab) in (1..).zip(Tab::ALL) {
        // Brackets, because not every terminal, and no capture, shows reversed text.
        let (label, style) = match tab == state.tab {
            true => (format!("[{number} {}]", tab.name()), REVERSED),
            false => (format!(" {number} {} ", tab.name()), PLAIN),
        };
        canvas.text(area, (column, 0), &label, style);
        column += u16::try_from(label.len()).unwrap_or(0) + 1;
    }
}

pub(super) fn title(name: &str, canvas: &mut Canvas<'_>, area: Rect, current: bool) {
    let rule = "─".repeat(usize::from(area.width));
    canvas.text(area, (0, 0), &rule, DIM);
    canvas.text(area, (2, 0), &format!(" {name} "), if current { BOLD } else { PLAIN });
}

pub(super) fn help(canvas: &mut Canvas<'_>, area: Rect) {
    for (line, (keys, words)) in (0..).zip(HELP) {
        canvas.text(area, (1, line), keys, BOLD);
        canvas.text(area, (27, line), words, PLAIN);
    }
}
