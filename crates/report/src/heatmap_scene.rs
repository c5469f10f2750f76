//! Heatmaps laid out as scenes.
#![expect(clippy::cast_possible_truncation, reason = "sizes of a picture that is at most 8192 pixels wide and high")]

use crate::colour::{Paint, UNTOUCHED};
use crate::heatmap::{HeatScale, Heatmap, Measure, Strip};
use crate::scale::{End, Scale, ScaleKind};
use crate::scene::{Anchor, Dash, PictureSize, Scene, Shape, TAIL_GAP, Text, fit_text, room};
use crate::unit::Unit;

const TITLE: f64 = 16.0;
pub(crate) const LABEL: f64 = 12.5;
pub(crate) const TICK: f64 = 11.5;
pub(crate) const PADDING: f64 = 16.0;
/// Pixels between two strips: room for the mark of a fold.
pub(crate) const GAP: usize = 9;
/// A strip with a label of its own.
pub(crate) const LABEL_HEIGHT: f64 = 15.0;

pub(crate) fn scene(map: &Heatmap, size: PictureSize) -> Scene {
    let labels: Vec<&str> = map.bands.iter().map(|band| band.label.as_str()).take(20).collect();
    let description =
        format!("{}: {} by time and address in {}", map.title, map.measure.description(), labels.join(", "));
    let mut scene = Scene::new(size, description);
    let header_bottom = header(&mut scene, &map.title, &map.subtitle);
    if map.is_empty() {
        let (x, y) = (scene.width / 2.0, (header_bottom + scene.height) / 2.0);
        scene.text(x, y, "no data", LABEL, Anchor::Middle, Paint::Muted);
        return scene;
    }
    let top = header_bottom + 50.0;
    let height = (scene.height - top - 50.0).max(16.0).floor();
    let strips = map.fit(height as usize, GAP, LABEL_HEIGHT as usize);
    let address_room = strips.iter().map(|strip| room(&address(strip.start), TICK)).fold(0.0, f64::max);
    let label_room =
        strips.iter().map(|strip| room(&strip_label(strip), LABEL)).fold(0.0, f64::max).min(scene.width * 0.24);
    let left = (PADDING + address_room + 8.0).round();
    let width = (scene.width - left - label_room - 10.0 - PADDING).max(40.0).floor();

    let densities = map.densities(&strips, cell_columns(map, width));
    let scale = HeatScale::of(&densities, map.measure);
    cells(&mut scene, map, &strips, &densities, scale, (left, top, width));
    strip_marks(&mut scene, &strips, (left, top, width), Marks { addresses: true, label_room });
    time_axis(&mut scene, map, (left, top + height, width));
    legend(&mut scene, (scale, map.measure), left, header_bottom + 12.0, width);
    scene
}

/// The cells of all strips, each strip with a hairline around it.
pub(crate) fn cells(
    scene: &mut Scene,
    map: &Heatmap,
    strips: &[Strip],
    densities: &[Vec<f64>],
    scale: Option<HeatScale>,
    (left, top, width): (f64, f64, f64),
) {
    let columns = cell_columns(map, width);
    for (strip, densities) in strips.iter().zip(densities) {
        let levels = densities.iter().map(|density| scale.map_or(0, |scale| scale.level(*density))).collect();
        let (y, height) = (top + strip.top as f64, strip.rows as f64);
        scene.push(Shape::Cells { x: left, y, width, height, columns, rows: strip.rows, levels });
        outline(scene, (left, y, width, height), Paint::Grid);
    }
}

/// A cell for every pixel at most, and no more cells than bins would fill evenly.
pub(crate) fn cell_columns(map: &Heatmap, width: f64) -> usize {
    if map.columns as f64 > width { width as usize } else { map.columns }
}

/// Draws title and subtitle; returns their lower end.
pub(crate) fn header(scene: &mut Scene, title: &str, subtitle: &str) -> f64 {
    let available = scene.width - 2.0 * PADDING;
    let mut y = PADDING;
    if !title.is_empty() {
        let title = fit_text(title, TITLE, available * 0.95);
        let mut text = Text::new(PADDING, y + 6.0, title, TITLE, Anchor::Start, Paint::Ink);
        text.bold = true;
        scene.push(Shape::Text(text));
        y += 22.0;
    }
    if !subtitle.is_empty() {
        scene.text(PADDING, y + 4.0, fit_text(subtitle, LABEL, available), LABEL, Anchor::Start, Paint::Muted);
        y += 20.0;
    }
    y
}

pub(crate) fn address(value: u64) -> String {
    format!("{value:#x}")
}

pub(crate) fn strip_label(strip: &Strip) -> String {
    format!("{} — {}", strip.label, strip.size())
}

/// Labels next to the strips.
pub(crate) struct Marks {
    /// First addresses, to the left.
    pub(crate) addresses: bool,
    /// Pixels for names and sizes, to the right; 0: none.
    pub(crate) label_room: f64,
}

/// Names and sizes to the right, first addresses to the left, a mark where addresses are left out.
pub(crate) fn strip_marks(scene: &mut Scene, strips: &[Strip], (left, top, width): (f64, f64, f64), marks: Marks) {
    let label_room = marks.label_room;
    let (mut label_free_from, mut address_free_from) = (f64::NEG_INFINITY, f64::NEG_INFINITY);
    for (i, strip) in strips.iter().enumerate() {
        let (strip_top, strip_bottom) = (top + strip.top as f64, top + (strip.top + strip.rows) as f64);
        let middle = f64::midpoint(strip_top, strip_bottom);
        if label_room > 0.0 && middle - 7.0 >= label_free_from {
            let size = strip.size();
            let name = fit_text(&strip.label, LABEL, label_room - room(&size, LABEL) - TAIL_GAP);
            let mut text = Text::new(left + width + 10.0, middle, name, LABEL, Anchor::Start, Paint::Ink);
            text.tail = size;
            scene.push(Shape::Text(text));
            label_free_from = middle + 8.0;
        }
        // The lowest address is at the foot of its strip.
        let foot = strip_bottom - 5.0;
        if marks.addresses && foot - 7.0 >= address_free_from {
            scene.text(left - 8.0, foot, address(strip.start), TICK, Anchor::End, Paint::Muted);
            address_free_from = foot + 7.0;
        }
        let folded = strips.get(i + 1).is_some_and(|below| strip.folded_bytes(below).is_some());
        if folded {
            let y = strip_bottom + GAP as f64 / 2.0;
            let points = (0..).map(|i| f64::from(i) * 6.0).take_while(|x| *x <= width);
            let points =
                points.enumerate().map(|(i, x)| (left + x, if i % 2 == 0 { y - 1.7 } else { y + 1.7 })).collect();
            scene.push(Shape::Line { points, stroke: Paint::Axis, width: 1.0, dash: Dash::Solid });
        }
    }
}

pub(crate) fn time_axis(scene: &mut Scene, map: &Heatmap, (left, bottom, width): (f64, f64, f64)) {
    let nr_ticks = ((width / 90.0) as usize).clamp(2, 14);
    let (start, end) = (map.start_ns as f64, map.end_ns.max(map.start_ns.saturating_add(1)) as f64);
    let scale = Scale::new(ScaleKind::Linear, Unit::Ns, start, end, nr_ticks, [End::Fixed; 2]);
    scene.rule((left, bottom + 3.0), (left + width, bottom + 3.0), Paint::Axis);
    let mut free_from = f64::NEG_INFINITY;
    for tick in &scale.ticks {
        let Some(position) = scale.position(tick.value).filter(|p| (-0.001..=1.001).contains(p)) else { continue };
        let x = left + position * width;
        let half = room(&tick.label, TICK) / 2.0;
        scene.rule((x, bottom + 3.0), (x, bottom + 8.0), Paint::Axis);
        if x - half >= free_from {
            scene.text(x, bottom + 17.0, tick.label.clone(), TICK, Anchor::Middle, Paint::Muted);
            free_from = x + half + 6.0;
        }
    }
    let title = format!("time [{}]", scale.suffix);
    scene.text(left + width / 2.0, bottom + 36.0, title, LABEL, Anchor::Middle, Paint::Muted);
}

/// The colour bar: untouched, then cold to hot with a tick at each power of ten.
pub(crate) fn legend(
    scene: &mut Scene,
    (scale, measure): (Option<HeatScale>, Measure),
    left: f64,
    y: f64,
    available: f64,
) {
    let (top, height, fill) = (y - 6.0, 12.0, Paint::Fixed(UNTOUCHED));
    scene.push(Shape::Rect { x: left, y: top, width: 16.0, height, fill, opacity: 1.0 });
    outline(scene, (left, y - 6.0, 16.0, 12.0), Paint::Axis);
    scene.text(left + 22.0, y, measure.absent(), TICK, Anchor::Start, Paint::Muted);
    let Some(scale) = scale else { return };
    let x = left + 22.0 + room(measure.absent(), TICK) + 20.0;
    let bar = (available * 0.36).clamp(40.0, 280.0);
    let levels: Vec<u8> = if scale.is_single() { vec![255] } else { (1..=255).collect() };
    scene.push(Shape::Cells { x, y: top, width: bar, height, columns: levels.len(), rows: 1, levels });
    let mut free_from = f64::NEG_INFINITY;
    for (position, label) in scale.ticks() {
        let (at, half) = (x + position * bar, room(&label, TICK) / 2.0);
        if at - half >= free_from {
            scene.rule((at, y + 6.0), (at, y + 10.0), Paint::Axis);
            scene.text(at, y + 18.0, label, TICK, Anchor::Middle, Paint::Muted);
            free_from = at + half + 6.0;
        }
    }
    let words = fit_text(&format!("{} (log scale)", measure.words()), TICK, scene.width - x - bar - 14.0);
    scene.text(x + bar + 10.0, y, words, TICK, Anchor::Start, Paint::Muted);
}

/// A hairline around a rectangle (left, top, width, height).
fn outline(scene: &mut Scene, (x, y, width, height): (f64, f64, f64, f64), stroke: Paint) {
    let corners = [(x, y), (x + width, y), (x + width, y + height), (x, y + height), (x, y)];
    corners.windows(2).for_each(|pair| scene.rule(pair[0], pair[1], stroke));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cells::cells_png;
    use crate::cells::tests::decode;
    use crate::colour::heat_colour;
    use crate::heatmap::tests::{degenerate_heatmaps, phases, small};

    #[test]
    fn cells_have_their_colours() {
        let scene = scene(&small(), PictureSize { width: 400, height: 300 });
        let Some(Shape::Cells { columns, rows, levels, .. }) =
            scene.shapes.iter().find(|s| matches!(s, Shape::Cells { .. }))
        else {
            panic!("no cells: {scene:?}");
        };
        // The stack: touched in the first second (100 of 1–1000: two thirds up the scale), not in the second.
        let level = HeatScale { coldest: 1.0, hottest: 1000.0 }.level(100.0);
        let row = &decode(&cells_png(*columns, *rows, levels))[rows / 2];
        assert_eq!((row[columns / 4], row[columns * 3 / 4]), (heat_colour(f64::from(level - 1) / 254.0), UNTOUCHED));
    }

    #[test]
    fn bands_are_named_and_gaps_marked() {
        let svg = phases().picture(PictureSize { width: 960, height: 600 }).to_svg();
        for text in ["heap", "195 MiB", "stack", "libc.so.6", "0x555555554000", "time [s]", "not touched", "log scale"]
        {
            assert!(svg.contains(text), "{text}");
        }
        assert_eq!(svg.matches("<image").count(), 8, "seven bands and the colour bar");
    }

    #[test]
    fn svg_of_a_small_heatmap() {
        let svg = small().picture(PictureSize { width: 300, height: 200 }).to_inline_svg();
        insta::assert_snapshot!(svg, @r##"
        <svg class="pic" viewBox="0 0 300 200" width="300" height="200" role="img">
        <title>memory: page touches by time and address in heap, stack</title>
        <text class="f-ink" x="16" y="27.44" font-size="16" font-weight="600">memory</text>
        <image x="98" y="88" width="104" height="24" preserveAspectRatio="none" style="image-rendering:pixelated" href="data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAIAAAAYCAMAAADnJdzrAAADAFBMVEUXGSFCCmhDCmhFC2hGC2lHDGlIDGlKDGlLDWlMDWpNDmpPDmpQD2pRD2pSD2pUEGtVEGtWEWtXEWtZEWtaEmxbEmxcE2xeE2xfE2xgFG1hFG1jFW1kFW1lFW1nFm1oFm5pF25qF25sGG5tGG5uGW1vGW1xGW1yGm1zGmx1G2x2G2x3HGx5HGx6HWt7HWt8Hmt+Hmt/H2qAH2qCIGqDIGqEIWqFIWmHImmIImmJImmLI2iMI2iNJGiOJGiQJWiRJWeSJmeUJmeVJ2aWJ2aYKGWZKGSaKWSbKWOdKmOeK2KfK2GhLGGiLGCjLWCkLV+mLl6nLl6oL12qL12rMFysMFutMVuvMlqwMlqxM1mzM1i0NFi1NFe3NVe4NVa5NlW6NlW8N1S9OFO+OFO/OVLAOlHBO1DCPE/DPU7EPU7FPk3GP0zHQEvIQUrJQUrKQknLQ0jMREfNRUbORkXPRkXRR0TSSEPTSULUSkHVSkHWS0DXTD/YTT7ZTj3aTzzbTzzcUDvdUTreUjneUzjfVTfgVjbgVzXhWDTiWjPjWzLjXDHkXTDlXy/lYC7mYSznYivnYyroZSnpZijpZyfqaCbraiXsayTsbCPtbSLubiHucCDvcR/wch7wcx3xdRzydhvydxrzeBnzehj0exj0fRf0fhf0fxf1gRb1ghb1hBX2hRX2hxT2iBT2iRP3ixP3jBL3jhL4jxH4kBH4khD4kxD5lQ/5lg/5mA76mQ76mg76nA36nQ37nwz7oAz7oQv8owv8pAr8pgv8pw38qQ/7qxH7rBP7rhT7rxb7sRj6shr6tBz6th76tyD6uSL5uiT5vCX5vSf5vyn5wSv5wi34xC/4xTH4xzP4yDX4yjb3zDj3zTr3zzz30D730kD200L21UT210b22Ej22Uv32k733FH33VT33lf34Fr34V344mD442P45Wb45mn452z56G/56nL563X57Hj57Xv673768ID68YP68ob69In69Yz79o/795L7+ZX7+pj7+5v8/J78/qH8/6S1jw+KAAAAGUlEQVR4nK3CAQkAAACDMLF/kqd8CWEOCRw2dgDbKIXHEAAAAABJRU5ErkJggg=="/>
        <polyline class="s-grid" stroke-width="1" points="98,88 202,88"/>
        <polyline class="s-grid" stroke-width="1" points="202,88 202,112"/>
        <polyline class="s-grid" stroke-width="1" points="202,112 98,112"/>
        <polyline class="s-grid" stroke-width="1" points="98,112 98,88"/>
        <image x="98" y="121" width="104" height="29" preserveAspectRatio="none" style="image-rendering:pixelated" href="data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAIAAAAdCAMAAAC36E1YAAADAFBMVEUXGSFCCmhDCmhFC2hGC2lHDGlIDGlKDGlLDWlMDWpNDmpPDmpQD2pRD2pSD2pUEGtVEGtWEWtXEWtZEWtaEmxbEmxcE2xeE2xfE2xgFG1hFG1jFW1kFW1lFW1nFm1oFm5pF25qF25sGG5tGG5uGW1vGW1xGW1yGm1zGmx1G2x2G2x3HGx5HGx6HWt7HWt8Hmt+Hmt/H2qAH2qCIGqDIGqEIWqFIWmHImmIImmJImmLI2iMI2iNJGiOJGiQJWiRJWeSJmeUJmeVJ2aWJ2aYKGWZKGSaKWSbKWOdKmOeK2KfK2GhLGGiLGCjLWCkLV+mLl6nLl6oL12qL12rMFysMFutMVuvMlqwMlqxM1mzM1i0NFi1NFe3NVe4NVa5NlW6NlW8N1S9OFO+OFO/OVLAOlHBO1DCPE/DPU7EPU7FPk3GP0zHQEvIQUrJQUrKQknLQ0jMREfNRUbORkXPRkXRR0TSSEPTSULUSkHVSkHWS0DXTD/YTT7ZTj3aTzzbTzzcUDvdUTreUjneUzjfVTfgVjbgVzXhWDTiWjPjWzLjXDHkXTDlXy/lYC7mYSznYivnYyroZSnpZijpZyfqaCbraiXsayTsbCPtbSLubiHucCDvcR/wch7wcx3xdRzydhvydxrzeBnzehj0exj0fRf0fhf0fxf1gRb1ghb1hBX2hRX2hxT2iBT2iRP3ixP3jBL3jhL4jxH4kBH4khD4kxD5lQ/5lg/5mA76mQ76mg76nA36nQ37nwz7oAz7oQv8owv8pAr8pgv8pw38qQ/7qxH7rBP7rhT7rxb7sRj6shr6tBz6th76tyD6uSL5uiT5vCX5vSf5vyn5wSv5wi34xC/4xTH4xzP4yDX4yjb3zDj3zTr3zzz30D730kD200L21UT210b22Ej22Uv32k733FH33VT33lf34Fr34V344mD442P45Wb45mn452z56G/56nL563X57Hj57Xv673768ID68YP68ob69In69Yz79o/795L7+ZX7+pj7+5v8/J78/qH8/6S1jw+KAAAAI0lEQVR4nI3KQQ0AAAgDsRvg3x4SSDABFpb02bwOcNSskJkf90cD5RLwONsAAAAASUVORK5CYII="/>
        <polyline class="s-grid" stroke-width="1" points="98,121 202,121"/>
        <polyline class="s-grid" stroke-width="1" points="202,121 202,150"/>
        <polyline class="s-grid" stroke-width="1" points="202,150 98,150"/>
        <polyline class="s-grid" stroke-width="1" points="98,150 98,121"/>
        <text class="f-ink" x="212" y="104.25" font-size="12.5">sta…<tspan class="f-muted" dx="7">4 KiB</tspan></text>
        <text class="f-muted" x="90" y="110.91" font-size="11.5" text-anchor="end">0x70000000</text>
        <polyline class="s-axis" stroke-width="1" points="98,114.8 104,118.2 110,114.8 116,118.2 122,114.8 128,118.2 134,114.8 140,118.2 146,114.8 152,118.2 158,114.8 164,118.2 170,114.8 176,118.2 182,114.8 188,118.2 194,114.8 200,118.2"/>
        <text class="f-ink" x="212" y="139.75" font-size="12.5">heap<tspan class="f-muted" dx="7">8 KiB</tspan></text>
        <text class="f-muted" x="90" y="148.91" font-size="11.5" text-anchor="end">0x1000</text>
        <polyline class="s-axis" stroke-width="1" points="98,153 202,153"/>
        <polyline class="s-axis" stroke-width="1" points="98,153 98,158"/>
        <text class="f-muted" x="98" y="170.91" font-size="11.5" text-anchor="middle">0</text>
        <polyline class="s-axis" stroke-width="1" points="150,153 150,158"/>
        <text class="f-muted" x="150" y="170.91" font-size="11.5" text-anchor="middle">1</text>
        <polyline class="s-axis" stroke-width="1" points="202,153 202,158"/>
        <text class="f-muted" x="202" y="170.91" font-size="11.5" text-anchor="middle">2</text>
        <text class="f-muted" x="150" y="190.25" font-size="12.5" text-anchor="middle">time [s]</text>
        <rect fill="#171921" x="98" y="44" width="16" height="12"/>
        <polyline class="s-axis" stroke-width="1" points="98,44 114,44"/>
        <polyline class="s-axis" stroke-width="1" points="114,44 114,56"/>
        <polyline class="s-axis" stroke-width="1" points="114,56 98,56"/>
        <polyline class="s-axis" stroke-width="1" points="98,56 98,44"/>
        <text class="f-muted" x="120" y="53.91" font-size="11.5">not touched</text>
        <image x="212.01" y="44" width="40" height="12" preserveAspectRatio="none" style="image-rendering:pixelated" href="data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAP8AAAABCAMAAAAmToiRAAADAFBMVEUXGSFCCmhDCmhFC2hGC2lHDGlIDGlKDGlLDWlMDWpNDmpPDmpQD2pRD2pSD2pUEGtVEGtWEWtXEWtZEWtaEmxbEmxcE2xeE2xfE2xgFG1hFG1jFW1kFW1lFW1nFm1oFm5pF25qF25sGG5tGG5uGW1vGW1xGW1yGm1zGmx1G2x2G2x3HGx5HGx6HWt7HWt8Hmt+Hmt/H2qAH2qCIGqDIGqEIWqFIWmHImmIImmJImmLI2iMI2iNJGiOJGiQJWiRJWeSJmeUJmeVJ2aWJ2aYKGWZKGSaKWSbKWOdKmOeK2KfK2GhLGGiLGCjLWCkLV+mLl6nLl6oL12qL12rMFysMFutMVuvMlqwMlqxM1mzM1i0NFi1NFe3NVe4NVa5NlW6NlW8N1S9OFO+OFO/OVLAOlHBO1DCPE/DPU7EPU7FPk3GP0zHQEvIQUrJQUrKQknLQ0jMREfNRUbORkXPRkXRR0TSSEPTSULUSkHVSkHWS0DXTD/YTT7ZTj3aTzzbTzzcUDvdUTreUjneUzjfVTfgVjbgVzXhWDTiWjPjWzLjXDHkXTDlXy/lYC7mYSznYivnYyroZSnpZijpZyfqaCbraiXsayTsbCPtbSLubiHucCDvcR/wch7wcx3xdRzydhvydxrzeBnzehj0exj0fRf0fhf0fxf1gRb1ghb1hBX2hRX2hxT2iBT2iRP3ixP3jBL3jhL4jxH4kBH4khD4kxD5lQ/5lg/5mA76mQ76mg76nA36nQ37nwz7oAz7oQv8owv8pAr8pgv8pw38qQ/7qxH7rBP7rhT7rxb7sRj6shr6tBz6th76tyD6uSL5uiT5vCX5vSf5vyn5wSv5wi34xC/4xTH4xzP4yDX4yjb3zDj3zTr3zzz30D730kD200L21UT210b22Ej22Uv32k733FH33VT33lf34Fr34V344mD442P45Wb45mn452z56G/56nL563X57Hj57Xv673768ID68YP68ob69In69Yz79o/795L7+ZX7+pj7+5v8/J78/qH8/6S1jw+KAAAAFklEQVR4nOXAAQkAAACAIIL+b25IyluEgAEE2vAeLQAAAABJRU5ErkJggg=="/>
        <polyline class="s-axis" stroke-width="1" points="212.01,56 212.01,60"/>
        <text class="f-muted" x="212.01" y="71.91" font-size="11.5" text-anchor="middle">1</text>
        <polyline class="s-axis" stroke-width="1" points="238.68,56 238.68,60"/>
        <text class="f-muted" x="238.68" y="71.91" font-size="11.5" text-anchor="middle">100</text>
        <text class="f-muted" x="262.01" y="53.91" font-size="11.5">tou…</text>
        </svg>
        "##);
    }

    #[test]
    fn degenerate_heatmaps_are_drawn() {
        for size in [PictureSize { width: 0, height: 0 }, PictureSize { width: 700, height: 400 }] {
            for (name, map) in degenerate_heatmaps() {
                let picture = map.picture(size);
                let svg = picture.to_svg();
                assert!(!svg.contains("NaN") && !svg.contains("inf") && !svg.contains("<script"), "{name}: {svg}");
            }
        }
    }
}
