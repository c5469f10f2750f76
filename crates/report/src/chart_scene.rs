//! Charts laid out as scenes.
#![expect(clippy::cast_possible_truncation, reason = "a number of ticks, from a size of at most 8192 pixels")]

use crate::chart::{Chart, Emphasis, Reference, Series, SeriesKind, axis_title};
use crate::colour::Paint;
use crate::scale::Scale;
use crate::scene::{Anchor, Dash, PictureSize, Scene, Shape, Text, fit_text, room};

const TITLE: f64 = 16.0;
const LABEL: f64 = 12.5;
const TICK: f64 = 12.0;
const PADDING: f64 = 16.0;
/// Markers are drawn up to this many points a series; more would hide the line.
const MARKERS_MAX: usize = 40;

/// The plot: its place on the picture and its axes.
pub(crate) struct Plot {
    left: f64,
    top: f64,
    width: f64,
    height: f64,
    x: Scale,
    y: Scale,
}

impl Plot {
    fn right(&self) -> f64 {
        self.left + self.width
    }
    fn bottom(&self) -> f64 {
        self.top + self.height
    }
    fn at_x(&self, value: f64) -> Option<f64> {
        self.x.position(value).map(|position| self.left + position * self.width)
    }
    fn at_y(&self, value: f64) -> Option<f64> {
        self.y.position(value).map(|position| self.bottom() - position * self.height)
    }
    fn at(&self, point: (f64, f64)) -> Option<(f64, f64)> {
        Some((self.at_x(point.0)?, self.at_y(point.1)?))
    }
}

pub(crate) fn scene(chart: &Chart, size: PictureSize) -> Scene {
    let mut scene = Scene::new(size, description(chart));
    let header_bottom = header(&mut scene, chart);
    if chart.is_empty() {
        let (x, y) = (scene.width / 2.0, (header_bottom + scene.height) / 2.0);
        scene.text(x, y, "no data", LABEL, Anchor::Middle, Paint::Muted);
        return scene;
    }
    let plot = plot(chart, &scene, header_bottom);
    axes(&mut scene, chart, &plot);
    let mut inside = Vec::new();
    references(&mut inside, chart, &plot);
    series(&mut inside, chart, &plot);
    // A little room, so that lines and markers on the edge are not cut in half.
    let (x, y, width, height) = (plot.left - 5.0, plot.top - 5.0, plot.width + 10.0, plot.height + 10.0);
    scene.push(Shape::Clip { x, y, width, height, shapes: inside });
    labels(&mut scene, chart, &plot);
    scene
}

/// The points of each series in picture coordinates with the text of the hover read-out, thinned to distinguishable points.
pub(crate) fn hover_points(chart: &Chart, size: PictureSize) -> Vec<(f64, f64, String)> {
    if chart.is_empty() {
        return Vec::new();
    }
    let mut scratch = Scene::new(size, String::new());
    let header_bottom = header(&mut scratch, chart);
    let plot = plot(chart, &scratch, header_bottom);
    let mut points = Vec::new();
    for series in &chart.series {
        let all: Vec<(f64, f64)> = series.finite().collect();
        let stride = all.len().div_ceil(300).max(1);
        for (x, y) in all.iter().copied().step_by(stride) {
            if let Some((px, py)) = plot.at((x, y)) {
                let name =
                    chart.x.categories.iter().enumerate().find(|(i, _)| *i as f64 == x).map(|(_, name)| name.clone());
                let x_text = name.unwrap_or_else(|| chart.x.unit.approx(x));
                points.push((px, py, format!("{}: {} at {x_text}", series.name, chart.y.unit.approx(y))));
            }
        }
    }
    points
}

fn description(chart: &Chart) -> String {
    let names: Vec<&str> = chart.series.iter().map(|series| series.name.as_str()).take(12).collect();
    format!("{}: {} over {} for {}", chart.title, chart.y.name, chart.x.name, names.join(", "))
}

/// Title, subtitle and legend; returns where they end.
fn header(scene: &mut Scene, chart: &Chart) -> f64 {
    let available = scene.width - 2.0 * PADDING;
    let mut y = PADDING;
    if !chart.title.is_empty() {
        let title = fit_text(&chart.title, TITLE, available * 0.95);
        let mut text = Text::new(PADDING, y + 6.0, title, TITLE, Anchor::Start, Paint::Ink);
        text.bold = true;
        scene.push(Shape::Text(text));
        y += 22.0;
    }
    if !chart.subtitle.is_empty() {
        scene.text(PADDING, y + 4.0, fit_text(&chart.subtitle, LABEL, available), LABEL, Anchor::Start, Paint::Muted);
        y += 20.0;
    }
    if chart.series.len() > 1 {
        y = legend(scene, chart, y + 2.0);
    }
    y
}

fn legend(scene: &mut Scene, chart: &Chart, top: f64) -> f64 {
    let (mut x, mut y) = (PADDING, top + 6.0);
    for (index, series) in chart.series.iter().enumerate() {
        let name = fit_text(&series.name, LABEL, scene.width - 2.0 * PADDING - 34.0);
        let width = 34.0 + room(&name, LABEL) + 16.0;
        if x + width > scene.width - PADDING && x > PADDING {
            (x, y) = (PADDING, y + 19.0);
        }
        // A legend must not push the plot off the picture.
        if y > scene.height * 0.4 {
            scene.text(x, y, format!("and {} more", chart.series.len() - index), LABEL, Anchor::Start, Paint::Muted);
            break;
        }
        let paint = Paint::Series(index);
        if series.kind == SeriesKind::Bars {
            scene.push(Shape::Rect { x, y: y - 5.5, width: 20.0, height: 11.0, fill: paint, opacity: 1.0 });
        } else {
            if series.kind != SeriesKind::Points {
                let points = vec![(x, y), (x + 26.0, y)];
                scene.push(Shape::Line { points, stroke: paint, width: line_width(series), dash: dash(index, series) });
            }
            if has_markers(series) {
                scene.push(marker(index, x + 13.0, y, paint));
            }
        }
        scene.text(x + 34.0, y, name, LABEL, Anchor::Start, Paint::Ink);
        x += width;
    }
    y + 12.0
}

fn plot(chart: &Chart, scene: &Scene, header_bottom: f64) -> Plot {
    let y_title_room = if chart.y.name.is_empty() { 8.0 } else { 26.0 };
    let top = header_bottom + y_title_room;
    let bottom_room = if chart.x.name.is_empty() { 30.0 } else { 50.0 };
    let height = (scene.height - top - bottom_room).max(20.0);
    let nr_y = ((height / 48.0) as usize).clamp(2, 10);
    let nr_x = ((scene.width / 110.0) as usize).clamp(2, 12);
    let (x, y) = chart.scales(nr_x, nr_y);
    let widest = y.ticks.iter().map(|tick| room(&tick.label, TICK)).fold(0.0, f64::max);
    let left = (PADDING + widest + 9.0).min(scene.width / 2.0);
    let last_half = x.ticks.last().map_or(0.0, |tick| room(&tick.label, TICK) / 2.0);
    let right_room = if chart.x.categories.is_empty() { PADDING.max(last_half + 4.0) } else { PADDING };
    let width = (scene.width - left - right_room).max(40.0);
    Plot { left, top, width, height, x, y }
}

fn axes(scene: &mut Scene, chart: &Chart, plot: &Plot) {
    for tick in &plot.y.ticks {
        let Some(y) = plot.at_y(tick.value).filter(|y| (plot.top - 1.0..=plot.bottom() + 1.0).contains(y)) else {
            continue;
        };
        scene.rule((plot.left, y), (plot.right(), y), Paint::Grid);
        scene.text(plot.left - 8.0, y, tick.label.clone(), TICK, Anchor::End, Paint::Muted);
    }
    let is_categories = !chart.x.categories.is_empty();
    let slot = plot.width / plot.x.ticks.len().max(1) as f64;
    let mut taken_until = f64::NEG_INFINITY;
    for tick in &plot.x.ticks {
        let Some(x) = plot.at_x(tick.value).filter(|x| (plot.left - 1.0..=plot.right() + 1.0).contains(x)) else {
            continue;
        };
        if !is_categories {
            scene.rule((x, plot.top), (x, plot.bottom()), Paint::Grid);
            scene.rule((x, plot.bottom()), (x, plot.bottom() + 5.0), Paint::Axis);
        }
        let label = if is_categories { fit_text(&tick.label, TICK, slot - 6.0) } else { tick.label.clone() };
        let half = room(&label, TICK) / 2.0;
        if x - half < taken_until + 6.0 {
            continue;
        }
        taken_until = x + half;
        scene.text(x, plot.bottom() + 15.0, label, TICK, Anchor::Middle, Paint::Muted);
    }
    scene.rule((plot.left, plot.bottom()), (plot.right(), plot.bottom()), Paint::Axis);
    if !chart.y.name.is_empty() {
        let title = fit_text(&axis_title(&chart.y, &plot.y), LABEL, scene.width - 2.0 * PADDING);
        scene.text(PADDING, plot.top - 18.0, title, LABEL, Anchor::Start, Paint::Muted);
    }
    if !chart.x.name.is_empty() {
        let title = fit_text(&axis_title(&chart.x, &plot.x), LABEL, plot.width);
        scene.text(plot.left + plot.width / 2.0, plot.bottom() + 36.0, title, LABEL, Anchor::Middle, Paint::Muted);
    }
}

fn references(out: &mut Vec<Shape>, chart: &Chart, plot: &Plot) {
    for reference in &chart.references {
        let ends = match reference {
            Reference::AtX { value, .. } => plot.at_x(*value).map(|x| [(x, plot.top), (x, plot.bottom())]),
            Reference::AtY { value, .. } => plot.at_y(*value).map(|y| [(plot.left, y), (plot.right(), y)]),
        };
        if let Some(ends) = ends {
            out.push(Shape::Line { points: ends.to_vec(), stroke: Paint::Accent, width: 1.2, dash: Dash::Dashes });
        }
    }
}

fn series(out: &mut Vec<Shape>, chart: &Chart, plot: &Plot) {
    let nr_bars = chart.series.iter().filter(|series| series.kind == SeriesKind::Bars).count();
    let mut bar = 0;
    // Emphasised series are painted last, on top; the colour follows the index in the legend.
    for emphasis in [Emphasis::Muted, Emphasis::Normal, Emphasis::Strong] {
        for (index, series) in chart.series.iter().enumerate().filter(|(_, series)| series.emphasis == emphasis) {
            let paint = Paint::Series(index);
            if series.kind == SeriesKind::Bars {
                let place = chart.series[..index].iter().filter(|s| s.kind == SeriesKind::Bars).count();
                bars(out, series, plot, (place, nr_bars), paint);
                bar += 1;
                continue;
            }
            band(out, series, plot, paint);
            let placed: Vec<(f64, f64)> = series.finite().filter_map(|point| plot.at(point)).collect();
            if series.kind != SeriesKind::Points {
                let points = thin(if series.kind == SeriesKind::Step { steps(&placed) } else { placed.clone() });
                out.push(Shape::Line { points, stroke: paint, width: line_width(series), dash: dash(index, series) });
            }
            if has_markers(series) || series.kind == SeriesKind::Points || placed.len() == 1 {
                out.extend(placed.iter().take(20_000).map(|(x, y)| marker(index, *x, *y, paint)));
            }
        }
    }
    debug_assert_eq!(bar, nr_bars, "every emphasis is drawn");
}

fn bars(out: &mut Vec<Shape>, series: &Series, plot: &Plot, (place, nr_bars): (usize, usize), paint: Paint) {
    let Some(zero) = plot.at_y(0.0) else { return };
    let zero = zero.clamp(plot.top, plot.bottom());
    let xs: Vec<f64> = series.finite().filter_map(|point| plot.at_x(point.0)).collect();
    let closest = xs.windows(2).map(|pair| pair[1] - pair[0]).filter(|gap| *gap > 0.0).fold(f64::INFINITY, f64::min);
    let slots = plot.x.high - plot.x.low;
    let slot = closest.min(plot.width / slots.max(1.0)).min(plot.width);
    let width = (slot * 0.78 / nr_bars.max(1) as f64).clamp(0.5, 70.0);
    let first = -width * nr_bars as f64 / 2.0;
    for (i, point) in series.finite().enumerate() {
        let Some((x, y)) = plot.at(point) else { continue };
        let left = x + first + width * place as f64;
        let gap = if width > 4.0 { 1.0 } else { 0.0 };
        let (top, height) = (y.min(zero), (y - zero).abs());
        out.push(Shape::Rect { x: left, y: top, width: width - gap, height, fill: paint, opacity: 1.0 });
        if let Some((low, high)) = series.band.get(i).filter(|band| band.0.is_finite() && band.1.is_finite())
            && let (Some(low), Some(high)) = (plot.at_y(*low), plot.at_y(*high))
        {
            let middle = left + (width - gap) / 2.0;
            let whisker = (width / 4.0).min(5.0);
            for points in [
                vec![(middle, low), (middle, high)],
                vec![(middle - whisker, low), (middle + whisker, low)],
                vec![(middle - whisker, high), (middle + whisker, high)],
            ] {
                out.push(Shape::Line { points, stroke: Paint::Ink, width: 1.2, dash: Dash::Solid });
            }
        }
    }
}

fn band(out: &mut Vec<Shape>, series: &Series, plot: &Plot, paint: Paint) {
    let edges: Vec<((f64, f64), (f64, f64))> = series
        .points
        .iter()
        .zip(&series.band)
        .filter(|((x, _), (low, high))| x.is_finite() && low.is_finite() && high.is_finite())
        .filter_map(|((x, _), (low, high))| Some((plot.at((*x, *low))?, plot.at((*x, *high))?)))
        .collect();
    if edges.len() > 1 {
        let low = edges.iter().map(|edge| edge.0);
        let points = low.chain(edges.iter().rev().map(|edge| edge.1)).collect();
        out.push(Shape::Polygon { points, fill: paint, opacity: 0.18 });
    }
}

/// Text on the plot: references and callouts, above all lines and next to each other.
fn labels(scene: &mut Scene, chart: &Chart, plot: &Plot) {
    let mut taken: Vec<Patch> = Vec::new();
    for reference in &chart.references {
        match reference {
            Reference::AtX { value, label } => {
                let Some(x) = plot.at_x(*value).filter(|x| (plot.left..=plot.right()).contains(x)) else { continue };
                let patch = beside(plot, (x, plot.top + 10.0), 6.0, label);
                put(scene, plot, &mut taken, patch);
            }
            Reference::AtY { value, label } => {
                let Some(y) = plot.at_y(*value).filter(|y| (plot.top..=plot.bottom()).contains(y)) else { continue };
                let patch = along(chart, plot, y, &fit_text(label, TICK, plot.width * 0.6));
                put(scene, plot, &mut taken, patch);
            }
        }
    }
    for callout in &chart.callouts {
        let inside = |(x, y): &(f64, f64)| {
            (plot.left - 1.0..=plot.right() + 1.0).contains(x) && (plot.top - 1.0..=plot.bottom() + 1.0).contains(y)
        };
        let Some((x, y)) = plot.at((callout.x, callout.y)).filter(inside) else { continue };
        scene.push(Shape::Circle { x, y, radius: 7.5, fill: Paint::Accent });
        scene.push(Shape::Circle { x, y, radius: 5.0, fill: Paint::Background });
        scene.push(Shape::Circle { x, y, radius: 3.0, fill: Paint::Accent });
        let label_y = if y - plot.top < 60.0 { y + 24.0 } else { y - 40.0 };
        let (from, to) = if label_y > y { (y + 7.5, label_y - 8.0) } else { (y - 7.5, label_y + 8.0) };
        scene.rule((x, from), (x, to), Paint::Accent);
        let patch = beside(plot, (x, label_y), 0.0, &callout.label);
        put(scene, plot, &mut taken, patch);
    }
}

/// A label and its place on the plot.
struct Patch {
    x: f64,
    y: f64,
    label: String,
    anchor: Anchor,
}

impl Patch {
    const HEIGHT: f64 = 16.0;

    /// Left and right edge.
    fn span(&self) -> (f64, f64) {
        let width = room(&self.label, TICK);
        let left = match self.anchor {
            Anchor::Start => self.x,
            Anchor::Middle => self.x - width / 2.0,
            Anchor::End => self.x - width,
        };
        (left - 3.0, left + width + 3.0)
    }

    fn meets(&self, other: &Self) -> bool {
        let (a, b) = (self.span(), other.span());
        a.0 < b.1 && b.0 < a.1 && (self.y - other.y).abs() < Self::HEIGHT
    }
}

/// A label above or below a level line, at its right or left end: where it covers least of the curves.
fn along(chart: &Chart, plot: &Plot, y: f64, label: &str) -> Patch {
    let above = (y - plot.top >= 18.0).then_some(y - 9.0);
    let below = (plot.bottom() - y >= 18.0).then_some(y + 10.0);
    let ends = [(plot.right() - 4.0, Anchor::End), (plot.left + 6.0, Anchor::Start)];
    let places = ends.into_iter().flat_map(|end| [above, below].into_iter().flatten().map(move |y| (end, y)));
    let patches = places.map(|((x, anchor), y)| Patch { x, y, label: label.to_owned(), anchor });
    let covered = |patch: &Patch| chart.series.iter().filter(|series| covers(patch, series, plot)).count();
    patches.min_by_key(covered).unwrap_or(Patch {
        x: plot.right() - 4.0,
        y,
        label: label.to_owned(),
        anchor: Anchor::End,
    })
}

/// Whether the series runs through the label.
fn covers(patch: &Patch, series: &Series, plot: &Plot) -> bool {
    let (left, right) = patch.span();
    let (top, bottom) = (patch.y - Patch::HEIGHT / 2.0 - 3.0, patch.y + Patch::HEIGHT / 2.0 + 3.0);
    let placed: Vec<(f64, f64)> = series.finite().filter_map(|point| plot.at(point)).collect();
    placed.windows(2).any(|pair| {
        let (from, to) = (pair[0], pair[1]);
        let beside = to.0 < left || from.0 > right;
        let at = |x: f64| {
            let share = if to.0 > from.0 { ((x - from.0) / (to.0 - from.0)).clamp(0.0, 1.0) } else { 0.0 };
            from.1 + (to.1 - from.1) * share
        };
        let (a, b) = if series.kind == SeriesKind::Step { (from.1, to.1) } else { (at(left), at(right)) };
        !beside && a.max(b) >= top && a.min(b) <= bottom
    })
}

/// A label to the right of a point, or to its left where there is more room.
fn beside(plot: &Plot, (x, y): (f64, f64), gap: f64, label: &str) -> Patch {
    let (right, left) = (plot.right() - x - gap, x - gap - plot.left);
    let wanted = room(label, TICK) + 6.0;
    if gap == 0.0 && right >= wanted / 2.0 && left >= wanted / 2.0 {
        return Patch { x, y, label: label.to_owned(), anchor: Anchor::Middle };
    }
    if right >= wanted || right >= left {
        Patch { x: x + gap, y, label: fit_text(label, TICK, right), anchor: Anchor::Start }
    } else {
        Patch { x: x - gap, y, label: fit_text(label, TICK, left), anchor: Anchor::End }
    }
}

/// Writes a label on a pale patch of background, to be read over lines; lower where another label is in the way.
fn put(scene: &mut Scene, plot: &Plot, taken: &mut Vec<Patch>, mut patch: Patch) {
    if patch.label.is_empty() {
        return;
    }
    while taken.iter().any(|other| patch.meets(other)) && patch.y + Patch::HEIGHT < plot.bottom() {
        patch.y += Patch::HEIGHT + 1.0;
    }
    let (left, right) = patch.span();
    scene.push(Shape::Rect {
        x: left,
        y: patch.y - Patch::HEIGHT / 2.0,
        width: right - left,
        height: Patch::HEIGHT,
        fill: Paint::Background,
        opacity: 0.82,
    });
    scene.text(patch.x, patch.y, patch.label.clone(), TICK, patch.anchor, Paint::Accent);
    taken.push(patch);
}

pub(crate) fn line_width(series: &Series) -> f64 {
    match series.emphasis {
        Emphasis::Muted => 1.4,
        Emphasis::Normal => 1.9,
        Emphasis::Strong => 2.8,
    }
}

/// Dashes distinguish series without colour; on lines of many points they would be noise.
pub(crate) fn dash(index: usize, series: &Series) -> Dash {
    match index % 4 {
        _ if series.points.len() > 150 => Dash::Solid,
        0 => Dash::Solid,
        1 => Dash::Dashes,
        2 => Dash::Mixed,
        _ => Dash::Dots,
    }
}

fn has_markers(series: &Series) -> bool {
    series.kind == SeriesKind::Points || (series.kind == SeriesKind::Line && series.points.len() <= MARKERS_MAX)
}

/// The mark of the n-th series: shapes distinguish series without colour.
fn marker(index: usize, x: f64, y: f64, fill: Paint) -> Shape {
    let polygon = |points: &[(f64, f64)]| Shape::Polygon {
        points: points.iter().map(|(dx, dy)| (x + dx, y + dy)).collect(),
        fill,
        opacity: 1.0,
    };
    match index % 5 {
        0 => Shape::Circle { x, y, radius: 3.6, fill },
        1 => polygon(&[(-3.4, -3.4), (3.4, -3.4), (3.4, 3.4), (-3.4, 3.4)]),
        2 => polygon(&[(0.0, -4.6), (4.4, 3.4), (-4.4, 3.4)]),
        3 => polygon(&[(0.0, -4.8), (4.8, 0.0), (0.0, 4.8), (-4.8, 0.0)]),
        _ => polygon(&[(0.0, 4.6), (4.4, -3.4), (-4.4, -3.4)]),
    }
}

fn steps(points: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let mut out = Vec::with_capacity(points.len() * 2);
    for (i, point) in points.iter().enumerate() {
        if i > 0 {
            out.push((point.0, points[i - 1].1));
        }
        out.push(*point);
    }
    out
}

/// Keeps of every half pixel column the first, lowest, highest and last point: the line is drawn the same, the file is small.
fn thin(points: Vec<(f64, f64)>) -> Vec<(f64, f64)> {
    if points.len() < 2000 {
        return points;
    }
    let mut out: Vec<(f64, f64)> = Vec::new();
    for column in points.chunk_by(|a, b| (a.0 * 2.0).floor() == (b.0 * 2.0).floor()) {
        let extreme = |better: fn(f64, f64) -> bool| {
            (1..column.len()).fold(0, |best, i| if better(column[i].1, column[best].1) { i } else { best })
        };
        let mut kept = [0, extreme(|a, b| a < b), extreme(|a, b| a > b), column.len() - 1];
        kept.sort_unstable();
        for (i, &index) in kept.iter().enumerate() {
            if i == 0 || kept[i - 1] != index {
                out.push(column[index]);
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chart::tests::{advise_chart, degenerate_charts};

    #[test]
    fn svg_of_a_small_chart() {
        let chart = Chart {
            title: "Runtime <1>".into(),
            x: crate::Axis::new("memory", crate::Unit::Bytes),
            y: crate::Axis::new("share", crate::Unit::Ppm),
            series: vec![Series::line("a", vec![(0.0, 0.0), (4096.0, 1e6)])],
            ..Chart::default()
        };
        let svg = chart.picture(PictureSize { width: 240, height: 160 }).to_inline_svg();
        insta::assert_snapshot!(svg, @r#"
        <svg class="pic" viewBox="0 0 240 160" width="240" height="160" role="img">
        <title>Runtime &lt;1&gt;: share over memory for a</title>
        <text class="f-ink" x="16" y="27.44" font-size="16" font-weight="600">Runtime &lt;1&gt;</text>
        <polyline class="s-grid" stroke-width="1" points="48.18,110 224,110"/>
        <text class="f-muted" x="40.18" y="114.08" font-size="12" text-anchor="end">0</text>
        <polyline class="s-grid" stroke-width="1" points="48.18,87 224,87"/>
        <text class="f-muted" x="40.18" y="91.08" font-size="12" text-anchor="end">50</text>
        <polyline class="s-grid" stroke-width="1" points="48.18,64 224,64"/>
        <text class="f-muted" x="40.18" y="68.08" font-size="12" text-anchor="end">100</text>
        <polyline class="s-grid" stroke-width="1" points="48.18,64 48.18,110"/>
        <polyline class="s-axis" stroke-width="1" points="48.18,110 48.18,115"/>
        <text class="f-muted" x="48.18" y="129.08" font-size="12" text-anchor="middle">0</text>
        <polyline class="s-grid" stroke-width="1" points="136.09,64 136.09,110"/>
        <polyline class="s-axis" stroke-width="1" points="136.09,110 136.09,115"/>
        <text class="f-muted" x="136.09" y="129.08" font-size="12" text-anchor="middle">2</text>
        <polyline class="s-grid" stroke-width="1" points="224,64 224,110"/>
        <polyline class="s-axis" stroke-width="1" points="224,110 224,115"/>
        <text class="f-muted" x="224" y="129.08" font-size="12" text-anchor="middle">4</text>
        <polyline class="s-axis" stroke-width="1" points="48.18,110 224,110"/>
        <text class="f-muted" x="16" y="50.25" font-size="12.5">share [%]</text>
        <text class="f-muted" x="136.09" y="150.25" font-size="12.5" text-anchor="middle">memory [KiB]</text>
        <svg x="43.18" y="59" width="185.82" height="56" viewBox="43.18 59 185.82 56">
        <polyline class="s-c0" stroke-width="1.9" points="48.18,110 224,64"/>
        <circle class="f-c0" cx="48.18" cy="110" r="3.6"/>
        <circle class="f-c0" cx="224" cy="64" r="3.6"/>
        </svg>
        </svg>
        "#);
    }

    #[test]
    fn every_label_of_the_advise_chart_is_there() {
        let svg = advise_chart().picture(PictureSize::default()).to_svg();
        for text in [
            "Runtime against memory",
            "classic",
            "lru",
            "opt",
            "memory limit [MiB]",
            "5 % slower",
            "recommended: 170 MiB",
        ] {
            assert!(svg.contains(text), "{text}");
        }
        assert!(svg.contains("polygon"), "the confidence band");
    }

    #[test]
    fn degenerate_charts_are_drawn() {
        for size in [PictureSize { width: 0, height: 0 }, PictureSize { width: 640, height: 300 }] {
            for (name, chart) in degenerate_charts() {
                let picture = chart.picture(size);
                let svg = picture.to_svg();
                assert!(!svg.contains("NaN") && !svg.contains("inf"), "{name}: {svg}");
                assert!(svg.len() < 400_000, "{name}: {} bytes", svg.len());
                assert!(hover_points(&chart, size).len() <= 700, "{name}");
            }
        }
    }

    #[test]
    fn thinning_keeps_peaks() {
        let points: Vec<(f64, f64)> =
            (0..10_000).map(|i| (f64::from(i) / 100.0, if i == 5000 { 99.0 } else { f64::from(i % 3) })).collect();
        let thinned = thin(points);
        assert!(thinned.len() < 1000 && thinned.contains(&(50.0, 99.0)), "{}", thinned.len());
    }
}
