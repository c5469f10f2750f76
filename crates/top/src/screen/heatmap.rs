//! Addresses over time: the newest column at the right edge, low addresses at the bottom.

use isotherm_report::{ColourDepth, heat_colour};
use ratatui::layout::Rect;
use ratatui::style::Style;

use super::detail;
use super::paint::{Canvas, DIM, bytes, time};
use crate::{HeatRegion, RowKey, State};

/// A gap between regions larger than this share of the monitored memory is left out of the picture.
const FOLD_PARTS: u64 = 16;
/// Columns for the address of a line.
const LABEL_COLUMNS: u16 = 15;
const SHADES: [&str; 4] = ["░", "▒", "▓", "█"];
const ASCII_SHADES: [&str; 4] = [":", "=", "*", "#"];
const PAGE_BYTES: u64 = 4096;

/// Address ranges without large gaps, ascending.
struct Ranges(Vec<(u64, u64)>);

impl Ranges {
    fn of<'a>(all: impl Iterator<Item = &'a HeatRegion>) -> Self {
        let mut ranges: Vec<(u64, u64)> = all.map(|region| (region.start, region.end)).collect();
        ranges.sort_unstable();
        ranges = join(ranges, 0);
        let total = ranges.iter().map(|(start, end)| end - start).fold(0, u64::saturating_add);
        Self(join(ranges, total / FOLD_PARTS))
    }

    fn bytes(&self) -> u64 {
        self.0.iter().map(|(start, end)| end - start).fold(0, u64::saturating_add)
    }

    /// The address `offset` bytes above the lowest, gaps not counted.
    fn address(&self, mut offset: u64) -> u64 {
        for &(start, end) in &self.0 {
            if offset < end - start {
                return start + offset;
            }
            offset -= end - start;
        }
        self.0.last().map_or(0, |range| range.1)
    }
}

fn join(ranges: Vec<(u64, u64)>, gap: u64) -> Vec<(u64, u64)> {
    let mut joined: Vec<(u64, u64)> = Vec::new();
    for (start, end) in ranges.into_iter().filter(|(start, end)| start < end) {
        match joined.last_mut() {
            Some(last) if start.saturating_sub(last.1) <= gap => last.1 = last.1.max(end),
            _ => joined.push((start, end)),
        }
    }
    joined
}

pub(super) fn draw(state: &State, canvas: &mut Canvas<'_>, area: Rect) {
    let labels = if area.width >= 50 { LABEL_COLUMNS } else { 0 };
    let columns = area.width - labels;
    let lines = area.height.saturating_sub(1);
    let columns_of = columns_of(state, columns);
    let ranges = Ranges::of(columns_of.iter().flatten().flat_map(|regions| regions.iter()));
    let total = ranges.bytes();
    if total == 0 || lines == 0 {
        canvas.text(area, (1, 0), "-  the chosen row is not monitored at this time", DIM);
        detail::notes(state, canvas, area, 2);
        return;
    }
    let edge = |line: u64| u64::try_from(u128::from(total) * u128::from(line) / u128::from(lines)).unwrap_or(total);
    for line in 0..lines {
        let from_bottom = u64::from(lines - 1 - line);
        let (low, high) = (ranges.address(edge(from_bottom)), ranges.address(edge(from_bottom + 1).saturating_sub(1)));
        if labels > 0 && (line + 1 == lines || line % 4 == 0) {
            // Edges of lines fall inside pages: show the page's address.
            canvas.text(area, (0, line), &format!("{:#014x}", low / PAGE_BYTES * PAGE_BYTES), DIM);
        }
        for (column, regions) in (labels..).zip(&columns_of) {
            let Some(regions) = regions else { continue };
            cell(canvas, area, (column, line), access(regions, low, high.max(low)));
        }
    }
    let span = time(u64::from(columns).saturating_mul(state.column_ns()));
    let until = match (state.view_ns, state.frame()) {
        (Some(_), Some(frame)) => time(frame.at_ns),
        _ => "now".to_owned(),
    };
    let words = format!("{span} to {until}, {} a column, {} in all", time(state.column_ns()), bytes(Some(total)));
    canvas.text(area, (0, lines), &words, DIM);
    legend(canvas, area, (u16::try_from(words.chars().count()).unwrap_or(u16::MAX), lines));
}

/// Legend of shades and colours, at the right end of the line after the words, if there is room.
fn legend(canvas: &mut Canvas<'_>, area: Rect, (words, line): (u16, u16)) {
    const BEFORE: &str = "0 % ";
    const AFTER: &str = " 100 % of checks";
    let width = u16::try_from(BEFORE.len() + 1 + SHADES.len() + AFTER.len()).unwrap_or(u16::MAX);
    let Some(column) = area.width.checked_sub(width).filter(|&column| column >= words.saturating_add(2)) else {
        return;
    };
    canvas.text(area, (column, line), BEFORE, DIM);
    let first = column + u16::try_from(BEFORE.len()).unwrap_or(0);
    cell(canvas, area, (first, line), Some(0));
    for (shade, at) in (0u64..4).zip(first + 1..) {
        // The middle of each quarter.
        cell(canvas, area, (at, line), Some(125_000 + 250_000 * shade));
    }
    canvas.text(area, (first + 5, line), AFTER, DIM);
}

/// The chosen row's regions in each column of time; `None` where there is no frame.
fn columns_of(state: &State, columns: u16) -> Vec<Option<&[HeatRegion]>> {
    let (Some(chosen), Some(frame)) = (state.chosen, state.frame()) else { return Vec::new() };
    let column_ns = state.column_ns();
    (0..u64::from(columns)).rev().map(|back| regions_at(state, chosen, frame.at_ns, back * column_ns)).collect()
}

fn regions_at(state: &State, chosen: RowKey, now_ns: u64, back_ns: u64) -> Option<&[HeatRegion]> {
    let to_ns = now_ns.checked_sub(back_ns)?;
    let frame = state.history.within(to_ns.checked_sub(state.column_ns()), to_ns)?;
    Some(&frame.detail(chosen)?.regions)
}

/// The share of checks that found an access between `low` and `high`: the hottest region counts. `None`: nothing is monitored there
/// or the share is unknown.
fn access(regions: &[HeatRegion], low: u64, high: u64) -> Option<u64> {
    let first = regions.partition_point(|region| region.end <= low);
    let inside = regions[first..].iter().take_while(|region| region.start <= high);
    inside.filter_map(|region| region.access_ppm).max()
}

fn cell(canvas: &mut Canvas<'_>, area: Rect, place: (u16, u16), access_ppm: Option<u64>) {
    let Some(ppm) = access_ppm else { return };
    if ppm == 0 {
        canvas.text(area, place, if canvas.look.unicode { "·" } else { "." }, DIM);
        return;
    }
    if canvas.look.colour == ColourDepth::None {
        let shades = if canvas.look.unicode { SHADES } else { ASCII_SHADES };
        let shade = usize::try_from(ppm * 4 / 1_000_001).unwrap_or(3).min(3);
        canvas.text(area, place, shades[shade], Style::new());
    } else {
        let colour = canvas.colour(heat_colour(ppm as f64 / 1e6));
        canvas.text(area, place, " ", Style::new().bg(colour));
    }
}
