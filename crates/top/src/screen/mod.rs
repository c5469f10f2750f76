//! Turns a state into characters. The function is pure: the same state, size and look give the same screen.

mod detail;
mod frame;
mod heatmap;
mod list;
mod paint;

use isotherm_report::ColourDepth;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use crate::{State, Tab};
use paint::Canvas;

/// Capabilities of the terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Look {
    /// Colours.
    pub colour: ColourDepth,
    /// Whether characters beyond ASCII may be used.
    pub unicode: bool,
}

/// At this width and above all panes are shown at once.
const WIDE_COLUMNS: u16 = 140;
const WIDE_LINES: u16 = 36;
/// With fewer lines only the list is shown.
const PANE_LINES: u16 = 12;

/// Draws the state over the whole buffer. Any size is allowed, even none.
pub fn draw(state: &State, buffer: &mut Buffer, look: Look) {
    let area = buffer.area;
    let mut canvas = Canvas::new(buffer, look);
    if area.width > 0 && area.height > 0 {
        draw_panes(state, &mut canvas, area);
    }
    canvas.finish();
}

fn draw_panes(state: &State, canvas: &mut Canvas<'_>, area: Rect) {
    let line = |y| Rect { x: area.x, y: area.y + y, width: area.width, height: 1 };
    frame::header(state, canvas, line(0));
    if area.height < 2 {
        return;
    }
    frame::footer(state, canvas, line(area.height - 1));
    let body = Rect { y: area.y + 1, height: area.height - 2, ..area };
    if state.help {
        frame::help(canvas, body);
    } else if area.height < PANE_LINES {
        list::draw(state, canvas, body);
    } else if area.width >= WIDE_COLUMNS && area.height >= WIDE_LINES {
        all(state, canvas, body);
    } else {
        let rows = u16::try_from(state.rows().len()).unwrap_or(u16::MAX);
        let list_lines = (rows.saturating_add(1)).clamp(3, body.height * 2 / 5);
        let (list, below) = split_down(body, list_lines);
        list::draw(state, canvas, list);
        let (tabs, pane) = split_down(below, 1);
        frame::tabs(state, canvas, tabs);
        draw_tab(state, state.tab, canvas, pane);
    }
}

/// List and heatmap to the left, the other panes to the right.
fn all(state: &State, canvas: &mut Canvas<'_>, body: Rect) {
    let (left, right) = split_right(body, body.width * 3 / 5);
    let right = Rect { x: right.x + 1, width: right.width.saturating_sub(1), ..right };
    let rows = u16::try_from(state.rows().len()).unwrap_or(u16::MAX);
    let (list, map) = split_down(left, rows.saturating_add(2).clamp(5, body.height / 2));
    list::draw(state, canvas, list);
    titled(state, Tab::Heatmap, canvas, map);
    let quarter = right.height / 4;
    let (working_set, rest) = split_down(right, quarter);
    titled(state, Tab::WorkingSet, canvas, working_set);
    let (ages, rest) = split_down(rest, quarter);
    titled(state, Tab::Ages, canvas, ages);
    let (figures, nodes) = split_down(rest, quarter);
    titled(state, Tab::Figures, canvas, figures);
    titled(state, Tab::Nodes, canvas, nodes);
}

fn titled(state: &State, tab: Tab, canvas: &mut Canvas<'_>, area: Rect) {
    let (title, pane) = split_down(area, 1);
    frame::title(tab.name(), canvas, title, tab == state.tab);
    draw_tab(state, tab, canvas, pane);
}

fn draw_tab(state: &State, tab: Tab, canvas: &mut Canvas<'_>, area: Rect) {
    if area.width < 10 || area.height == 0 {
        return;
    }
    match tab {
        Tab::Heatmap => heatmap::draw(state, canvas, area),
        Tab::WorkingSet => detail::working_set(state, canvas, area),
        Tab::Ages => detail::ages(state, canvas, area),
        Tab::Figures => detail::figures(state, canvas, area),
        Tab::Nodes => detail::nodes(state, canvas, area),
    }
}

fn split_down(area: Rect, lines: u16) -> (Rect, Rect) {
    let lines = lines.min(area.height);
    (Rect { height: lines, ..area }, Rect { y: area.y + lines, height: area.height - lines, ..area })
}

fn split_right(area: Rect, columns: u16) -> (Rect, Rect) {
    let columns = columns.min(area.width);
    (Rect { width: columns, ..area }, Rect { x: area.x + columns, width: area.width - columns, ..area })
}
