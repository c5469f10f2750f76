//! Charts in a terminal: braille dots where there is colour or one series, a letter for each series otherwise, lying bars.

use crate::chart::{Chart, Reference, Series, SeriesKind, axis_title};
use crate::colour::{Paint, Rgb};
use crate::scale::Scale;
use crate::terminal::{CharGrid, ColourDepth, Glyph, TermStyle, display_width, paint_text, truncate};
use isotherm_units::text::printable;

/// Marks of the series where neither colour nor braille can distinguish them.
const MARKS: [char; 7] = ['*', 'o', '+', 'x', '#', '%', '@'];

pub(crate) fn text(chart: &Chart, style: &TermStyle) -> String {
    let mut out = String::new();
    let width = style.width;
    let mut line = |text: &str, paint: Option<Paint>, bold: bool| {
        let text = truncate(&printable(text), width, style.unicode);
        if !text.is_empty() {
            out.push_str(&paint_text(style, &ascii_if(&text, style), paint, bold));
            out.push('\n');
        }
    };
    line(&chart.title, None, true);
    line(&chart.subtitle, Some(Paint::Muted), false);
    if chart.is_empty() {
        line("no data", Some(Paint::Muted), false);
        return out;
    }
    out.push_str(&legend(chart, style));
    if chart.series.iter().all(|series| series.kind == SeriesKind::Bars) {
        out.push_str(&bars(chart, style));
    } else {
        out.push_str(&plot(chart, style));
    }
    out
}

/// `text` without characters that an ASCII terminal lacks.
fn ascii_if(text: &str, style: &TermStyle) -> String {
    if style.unicode {
        return text.to_owned();
    }
    let mut grid = CharGrid::new(display_width(text), 1);
    grid.text(0, 0, text, None, false);
    grid.render(&TermStyle { colour: ColourDepth::None, ..*style }).trim_end_matches('\n').to_owned()
}

fn uses_braille(chart: &Chart, style: &TermStyle) -> bool {
    style.unicode && (style.colour != ColourDepth::None || chart.series.len() == 1)
}

fn legend(chart: &Chart, style: &TermStyle) -> String {
    if chart.series.len() < 2 {
        return String::new();
    }
    let is_bars = chart.series.iter().all(|series| series.kind == SeriesKind::Bars);
    let (mut out, mut used) = (String::new(), 0);
    for (index, series) in chart.series.iter().enumerate() {
        let swatch = match (uses_braille(chart, style), is_bars, style.unicode) {
            (_, true, true) => "█".to_owned(),
            (true, ..) => "━━".to_owned(),
            _ => MARKS[index % MARKS.len()].to_string(),
        };
        let name = ascii_if(&truncate(&printable(&series.name), style.width.saturating_sub(4), style.unicode), style);
        let width = display_width(&swatch) + 1 + display_width(&name);
        if used > 0 && used + 3 + width > style.width {
            out.push('\n');
            used = 0;
        }
        if used > 0 {
            out.push_str("   ");
            used += 3;
        }
        out.push_str(&paint_text(style, &swatch, Some(Paint::Series(index)), false));
        out.push(' ');
        out.push_str(&name);
        used += width;
    }
    out + "\n"
}

fn plot(chart: &Chart, style: &TermStyle) -> String {
    let height = style.height.saturating_sub(7).clamp(4, 60);
    let (x_scale, y_scale) = chart.scales((style.width / 14).clamp(2, 10), (height / 3).clamp(2, 8));
    let label_width = y_scale.ticks.iter().map(|tick| display_width(&tick.label)).max().unwrap_or(0);
    // Too narrow for labels: the curve alone.
    let label_width = if style.width < label_width + 16 { 0 } else { label_width };
    let left = label_width + 1;
    let width = style.width.saturating_sub(left + 1).clamp(1, 400);
    let mut grid = CharGrid::new((left + width + 1).min(style.width.max(2)), height + 4);
    let top = 1;

    grid.text(0, 0, &axis_title(&chart.y, &y_scale), Some(Paint::Muted), false);
    for line in 0..height {
        grid.text(label_width, top + line, "│", Some(Paint::Axis), false);
    }
    for tick in &y_scale.ticks {
        let Some(line) = row_of(&y_scale, tick.value, height) else { continue };
        if label_width > 0 {
            let column = label_width - display_width(&tick.label).min(label_width);
            grid.text(column, top + line, &tick.label, Some(Paint::Muted), false);
        }
        grid.text(label_width, top + line, "┤", Some(Paint::Axis), false);
    }
    let area = Area { left, top, width, height };
    references(&mut grid, chart, (&x_scale, &y_scale), area);
    for (index, series) in chart.series.iter().enumerate() {
        if uses_braille(chart, style) {
            braille(&mut grid, series, (&x_scale, &y_scale), area, Paint::Series(index).terminal());
        } else {
            marks(&mut grid, series, (&x_scale, &y_scale), area, MARKS[index % MARKS.len()]);
        }
    }
    for callout in &chart.callouts {
        if let (Some(column), Some(line)) = (column_of(&x_scale, callout.x, width), row_of(&y_scale, callout.y, height))
        {
            grid.text(left + column, top + line, "●", Some(Paint::Accent), true);
        }
    }
    x_axis(&mut grid, chart, &x_scale, area);
    let mut out = grid.render(style);
    out.truncate(out.trim_end_matches('\n').len());
    out.push('\n');
    out + &footnotes(chart, style)
}

/// Legend of the marks on the plot.
fn footnotes(chart: &Chart, style: &TermStyle) -> String {
    let mut out = String::new();
    let mut note = |text: String| {
        let text = ascii_if(&truncate(&printable(&text), style.width, style.unicode), style);
        out.push_str(&paint_text(style, &text, Some(Paint::Accent), false));
        out.push('\n');
    };
    for reference in &chart.references {
        match reference {
            Reference::AtX { value, label } => note(format!("┆ {label}: {}", chart.x.unit.approx(*value))),
            Reference::AtY { value, label } => note(format!("╌ {label}: {}", chart.y.unit.approx(*value))),
        }
    }
    for callout in &chart.callouts {
        let (x, y) = (chart.x.unit.approx(callout.x), chart.y.unit.approx(callout.y));
        note(format!("● {} ({y} at {x})", callout.label));
    }
    out
}

/// The plot's place on the grid, in characters.
#[derive(Clone, Copy)]
struct Area {
    left: usize,
    top: usize,
    width: usize,
    height: usize,
}

/// The cell of `value` among `cells`, if it is on the axis.
#[expect(clippy::cast_possible_truncation, reason = "a position in 0..=1 times a small size")]
fn cell_of(scale: &Scale, value: f64, cells: usize) -> Option<usize> {
    let position = scale.position(value).filter(|position| (-1e-9..=1.0 + 1e-9).contains(position))?;
    Some((position.clamp(0.0, 1.0) * (cells - 1) as f64).round() as usize)
}

fn column_of(scale: &Scale, value: f64, width: usize) -> Option<usize> {
    cell_of(scale, value, width)
}

fn row_of(scale: &Scale, value: f64, height: usize) -> Option<usize> {
    Some(height - 1 - cell_of(scale, value, height)?)
}

fn references(grid: &mut CharGrid, chart: &Chart, (x, y): (&Scale, &Scale), area: Area) {
    for reference in &chart.references {
        match reference {
            Reference::AtX { value, .. } => {
                if let Some(column) = column_of(x, *value, area.width) {
                    (0..area.height)
                        .for_each(|i| grid.text(area.left + column, area.top + i, "┆", Some(Paint::Accent), false));
                }
            }
            Reference::AtY { value, .. } => {
                if let Some(line) = row_of(y, *value, area.height) {
                    (0..area.width)
                        .for_each(|i| grid.text(area.left + i, area.top + line, "╌", Some(Paint::Accent), false));
                }
            }
        }
    }
}

/// Calls `dot` for every cell on the way of the series, on a grid of `columns` × `rows` counted from the top left.
fn trace(series: &Series, x: &Scale, y: &Scale, columns: usize, rows: usize, mut dot: impl FnMut(usize, usize)) {
    let mut before: Option<(usize, usize)> = None;
    for point in series.finite() {
        let (Some(column), Some(row)) = (cell_of(x, point.0, columns), row_of(y, point.1, rows)) else {
            before = None;
            continue;
        };
        match (before, series.kind) {
            (None, _) | (_, SeriesKind::Points | SeriesKind::Bars) => dot(column, row),
            (Some(from), SeriesKind::Line) => segment(from, (column, row), &mut dot),
            (Some(from), SeriesKind::Step) => {
                segment(from, (column, from.1), &mut dot);
                segment((column, from.1), (column, row), &mut dot);
            }
        }
        before = Some((column, row));
    }
}

fn segment(from: (usize, usize), to: (usize, usize), dot: &mut impl FnMut(usize, usize)) {
    let steps = from.0.abs_diff(to.0).max(from.1.abs_diff(to.1)).max(1);
    let between = |a: usize, b: usize, i: usize| {
        let moved = (a.abs_diff(b) * i + steps / 2) / steps;
        if b >= a { a + moved } else { a - moved }
    };
    (0..=steps).for_each(|i| dot(between(from.0, to.0, i), between(from.1, to.1, i)));
}

/// Two by four dots a character; the last series drawn gives the character its colour.
fn braille(grid: &mut CharGrid, series: &Series, (x, y): (&Scale, &Scale), area: Area, fore: Option<Rgb>) {
    const DOTS: [[u32; 2]; 4] = [[0x01, 0x08], [0x02, 0x10], [0x04, 0x20], [0x40, 0x80]];
    trace(series, x, y, area.width * 2, area.height * 4, |column, row| {
        let (cell, line) = (area.left + column / 2, area.top + row / 4);
        let dots = grid.get(cell, line).map(|glyph| u32::from(glyph.c)).filter(|c| (0x2800..0x2900).contains(c));
        let c = char::from_u32(dots.unwrap_or(0x2800) | DOTS[row % 4][column % 2]).unwrap_or(' ');
        grid.set(cell, line, Glyph { c, fore, back: None, bold: false });
    });
}

fn marks(grid: &mut CharGrid, series: &Series, (x, y): (&Scale, &Scale), area: Area, mark: char) {
    trace(series, x, y, area.width, area.height, |column, row| {
        let glyph = Glyph { c: mark, fore: None, back: None, bold: false };
        grid.set(area.left + column, area.top + row, glyph);
    });
}

fn x_axis(grid: &mut CharGrid, chart: &Chart, scale: &Scale, area: Area) {
    let line = area.top + area.height;
    grid.text(area.left - 1, line, "└", Some(Paint::Axis), false);
    (0..area.width).for_each(|i| grid.text(area.left + i, line, "─", Some(Paint::Axis), false));
    let mut taken_until = 0;
    for tick in &scale.ticks {
        let Some(column) = column_of(scale, tick.value, area.width) else { continue };
        grid.text(area.left + column, line, "┬", Some(Paint::Axis), false);
        let width = display_width(&tick.label);
        let start =
            (area.left + column).saturating_sub(width / 2).min((area.left + area.width + 1).saturating_sub(width));
        if start >= taken_until && width <= area.width {
            grid.text(start, line + 1, &tick.label, Some(Paint::Muted), false);
            taken_until = start + width + 2;
        }
    }
    let title = axis_title(&chart.x, scale);
    let start = area.left + (area.width.saturating_sub(display_width(&title))) / 2;
    grid.text(start, line + 2, &title, Some(Paint::Muted), false);
}

/// A lying bar for each value: name, bar, number. Values of different series at the same x are adjacent.
fn bars(chart: &Chart, style: &TermStyle) -> String {
    let (_, y_scale) = chart.scales(5, 5);
    let names = bar_names(chart);
    let numbers = chart.series.iter().flat_map(Series::finite).map(|point| chart.y.unit.approx(point.1));
    let numbers_width = numbers.map(|number| display_width(&number)).max().unwrap_or(0);
    let names_width = names.iter().map(|(_, name)| display_width(name)).max().unwrap_or(0).min(style.width / 3);
    let bar_width = style.width.saturating_sub(names_width + numbers_width + 3).clamp(1, 400);
    let mut out = String::new();
    let title = ascii_if(&truncate(&axis_title(&chart.y, &y_scale), style.width, style.unicode), style);
    if !title.is_empty() {
        out.push_str(&paint_text(style, &title, Some(Paint::Muted), false));
        out.push('\n');
    }
    let axis = if style.unicode { "│" } else { "|" };
    for (x, name) in &names {
        let mut name = ascii_if(&truncate(name, names_width, style.unicode), style);
        for (index, series) in chart.series.iter().enumerate() {
            let Some((_, y)) = series.finite().find(|point| point.0 == *x) else { continue };
            let padding = " ".repeat(names_width.saturating_sub(display_width(&name)));
            let share = y_scale.position(y).unwrap_or(0.0).clamp(0.0, 1.0);
            let bar = paint_text(style, &lying_bar(share, bar_width, style.unicode), Some(Paint::Series(index)), false);
            let number = ascii_if(&chart.y.unit.approx(y), style);
            out.push_str(&format!("{name}{padding} {axis}{bar} {number}\n"));
            name.clear();
        }
    }
    out
}

/// Position and name of each bar: the categories, or every x in order.
fn bar_names(chart: &Chart) -> Vec<(f64, String)> {
    if !chart.x.categories.is_empty() {
        return chart
            .x
            .categories
            .iter()
            .enumerate()
            .map(|(i, name)| (i as f64, printable(name).into_owned()))
            .collect();
    }
    let mut xs: Vec<f64> = chart.series.iter().flat_map(Series::finite).map(|point| point.0).collect();
    xs.sort_by(f64::total_cmp);
    xs.dedup();
    xs.into_iter().map(|x| (x, chart.x.unit.approx(x))).collect()
}

#[expect(clippy::cast_possible_truncation, reason = "a share of a small width")]
fn lying_bar(share: f64, width: usize, unicode: bool) -> String {
    const EIGHTHS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
    let eighths = (share * width as f64 * 8.0).round() as usize;
    if unicode { "█".repeat(eighths / 8) + EIGHTHS[eighths % 8] } else { "#".repeat((eighths + 4) / 8) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chart::tests::{advise_chart, degenerate_charts};
    use crate::{Axis, Unit};

    #[test]
    fn one_series_in_braille() {
        let chart = Chart {
            title: "miss ratio".into(),
            x: Axis::new("memory", Unit::Bytes),
            y: Axis::new("misses", Unit::Ppm),
            series: vec![Series::line("lru", vec![(0.0, 1e6), (4_194_304.0, 2e5), (8_388_608.0, 0.0)])],
            ..Chart::default()
        };
        insta::assert_snapshot!(chart.to_text(&TermStyle { height: 16, ..TermStyle::plain(50) }), @r#"
        miss ratio
        misses [%]
        100┤⠑⠢⢄
           │   ⠉⠢⢄⡀
           │      ⠈⠒⢄⡀
           │         ⠈⠑⠤⡀
         50┤            ⠈⠑⠢⣀
           │                ⠑⠢⢄
           │                   ⠉⠢⢄⡀
           │                      ⠈⠉⠑⠒⠒⠢⠤⠤⢄⣀⣀⡀
          0┤                                 ⠈⠉⠉⠉⠒⠒⠒⠤⠤⠤⣀⣀
           └┬───────────────────────────┬────────────────
            0                           5
                            memory [MiB]
        "#);
    }

    #[test]
    fn several_series_without_colour() {
        let style = TermStyle { unicode: false, height: 18, ..TermStyle::plain(60) };
        let text = advise_chart().to_text(&style);
        assert!(text.is_ascii(), "{text}");
        insta::assert_snapshot!(text, @r#"
        Runtime against memory
        sqlite3 index.db, swap on zram, 5 repeats
        * classic   o lru   + opt
        runtime against unlimited memory [x]
        4+
         |
         |
        3+
         |**
         |ooo***
         |   oooo**
        2+       ooooo*
         |+++++++     oooooo***
         |       ++++++++++++++oooo**********
        1+---------------------+++++++++++++++++++++*++++++++++++++
         +---------+-----------------------+----------------------+
                  100                     150                    200
                             memory limit [MiB]
        - 5 % slower: 1.05x
        * recommended: 170 MiB (1.04x at 170 MiB)
        "#);
    }

    #[test]
    fn bars_lie() {
        let chart = Chart {
            y: Axis::new("major faults", Unit::Count),
            x: Axis::categories("workload", vec!["sqlite".into(), "gcc".into()]),
            series: vec![Series::bars("classic", &[100.0, 50.0]), Series::bars("opt", &[25.0, 0.0])],
            ..Chart::default()
        };
        insta::assert_snapshot!(chart.to_text(&TermStyle::plain(40)), @r#"
        █ classic   █ opt
        major faults
        sqlite │████████████████████████████ 100
               │███████ 25
        gcc    │██████████████ 50
               │ 0
        "#);
    }

    #[test]
    fn degenerate_charts_are_drawn() {
        for colour in [ColourDepth::None, ColourDepth::Xterm256, ColourDepth::TrueColour] {
            for (width, height) in [(0, 0), (1, 1), (20, 5), (120, 40)] {
                for unicode in [true, false] {
                    let style = TermStyle { colour, unicode, width, height };
                    for (name, chart) in degenerate_charts() {
                        let text = chart.to_text(&style);
                        assert!(!text.contains("NaN"), "{name}");
                        let plain = colour == ColourDepth::None && width >= 20;
                        assert!(!plain || text.lines().all(|line| line.chars().count() <= width), "{name}\n{text}");
                    }
                }
            }
        }
    }
}
