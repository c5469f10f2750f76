//! Heatmaps laid out as scenes.
#![expect(clippy::cast_possible_truncation, reason = "sizes of a picture that is at most 8192 pixels wide and high")]

use crate::colour::{Paint, Rgb, UNTOUCHED, heat_colour};
use crate::heatmap::{HeatScale, Heatmap, Strip};
use crate::scale::{Scale, ScaleKind};
use crate::scene::{Anchor, Dash, PictureSize, Scene, Shape, Text, fit_text, room};
use crate::unit::Unit;

const TITLE: f64 = 16.0;
const LABEL: f64 = 12.5;
const TICK: f64 = 11.5;
const PADDING: f64 = 16.0;
/// Pixels between two strips: room for the mark of a fold.
const GAP: usize = 9;
/// A strip with a label of its own.
const LABEL_HEIGHT: f64 = 15.0;

pub(crate) fn scene(map: &Heatmap, size: PictureSize) -> Scene {
    let labels: Vec<&str> = map.bands.iter().map(|band| band.label.as_str()).take(20).collect();
    let description = format!("{}: page touches by time and address in {}", map.title, labels.join(", "));
    let mut scene = Scene::new(size, description);
    let header_bottom = header(&mut scene, map);
    if map.is_empty() {
        let (x, y) = (scene.width / 2.0, (header_bottom + scene.height) / 2.0);
        scene.text(x, y, "no data", LABEL, Anchor::Middle, Paint::Muted);
        return scene;
    }
    let top = header_bottom + 38.0;
    let height = (scene.height - top - 50.0).max(16.0).floor();
    let strips = map.fit(height as usize, GAP, LABEL_HEIGHT as usize);
    let address_room = strips.iter().map(|strip| room(&address(strip.start), TICK)).fold(0.0, f64::max);
    let label_room =
        strips.iter().map(|strip| room(&strip_label(strip), LABEL)).fold(0.0, f64::max).min(scene.width * 0.24);
    let left = (PADDING + address_room + 8.0).round();
    let width = (scene.width - left - label_room - 10.0 - PADDING).max(40.0).floor();

    let densities = map.densities(&strips, cell_columns(map, width));
    let scale = HeatScale::of(&densities);
    for (strip, densities) in strips.iter().zip(&densities) {
        let levels = densities.iter().map(|density| scale.map_or(0, |scale| scale.level(*density))).collect();
        let (y, height) = (top + strip.top as f64, strip.rows as f64);
        scene.push(Shape::Cells {
            x: left,
            y,
            width,
            height,
            columns: cell_columns(map, width),
            rows: strip.rows,
            levels,
        });
    }
    strip_marks(&mut scene, &strips, (left, top, width), label_room);
    time_axis(&mut scene, map, (left, top + height, width));
    legend(&mut scene, scale, left, header_bottom + 12.0, width);
    scene
}

/// A cell for every pixel at most, and no more cells than bins would fill evenly.
fn cell_columns(map: &Heatmap, width: f64) -> usize {
    if map.columns as f64 > width { width as usize } else { map.columns }
}

fn header(scene: &mut Scene, map: &Heatmap) -> f64 {
    let available = scene.width - 2.0 * PADDING;
    let mut y = PADDING;
    if !map.title.is_empty() {
        let title = fit_text(&map.title, TITLE, available * 0.95);
        let mut text = Text::new(PADDING, y + 6.0, title, TITLE, Anchor::Start, Paint::Ink);
        text.bold = true;
        scene.push(Shape::Text(text));
        y += 22.0;
    }
    if !map.subtitle.is_empty() {
        scene.text(PADDING, y + 4.0, fit_text(&map.subtitle, LABEL, available), LABEL, Anchor::Start, Paint::Muted);
        y += 20.0;
    }
    y
}

fn address(value: u64) -> String {
    format!("{value:#x}")
}

fn strip_label(strip: &Strip) -> String {
    format!("{}  {}", strip.label, Unit::Bytes.approx(strip.mapped_bytes))
}

/// Names and sizes to the right, first addresses to the left, a mark where addresses are left out.
fn strip_marks(scene: &mut Scene, strips: &[Strip], (left, top, width): (f64, f64, f64), label_room: f64) {
    let (mut label_free_from, mut address_free_from) = (f64::NEG_INFINITY, f64::NEG_INFINITY);
    for (i, strip) in strips.iter().enumerate() {
        let (strip_top, strip_bottom) = (top + strip.top as f64, top + (strip.top + strip.rows) as f64);
        let middle = f64::midpoint(strip_top, strip_bottom);
        if middle - 7.0 >= label_free_from {
            let size = Unit::Bytes.approx(strip.mapped_bytes);
            let name = fit_text(&strip.label, LABEL, label_room - room(&size, LABEL) - 8.0);
            scene.text(left + width + 10.0, middle, name.clone(), LABEL, Anchor::Start, Paint::Ink);
            let size_at = left + width + 10.0 + if name.is_empty() { 0.0 } else { room(&name, LABEL) + 8.0 };
            scene.text(size_at, middle, size, LABEL, Anchor::Start, Paint::Muted);
            label_free_from = middle + 8.0;
        }
        // The lowest address stands at the foot of its strip.
        let foot = strip_bottom - 5.0;
        if foot - 7.0 >= address_free_from {
            scene.text(left - 8.0, foot, address(strip.start), TICK, Anchor::End, Paint::Muted);
            address_free_from = foot + 7.0;
        }
        let folded = strips.get(i + 1).is_some_and(|below| below.end < strip.start);
        if folded {
            let y = strip_bottom + GAP as f64 / 2.0;
            let points = (0..).map(|i| f64::from(i) * 6.0).take_while(|x| *x <= width);
            let points =
                points.enumerate().map(|(i, x)| (left + x, if i % 2 == 0 { y - 1.7 } else { y + 1.7 })).collect();
            scene.push(Shape::Line { points, stroke: Paint::Axis, width: 1.0, dash: Dash::Solid });
        }
    }
}

fn time_axis(scene: &mut Scene, map: &Heatmap, (left, bottom, width): (f64, f64, f64)) {
    let nr_ticks = ((width / 90.0) as usize).clamp(2, 14);
    let (start, end) = (map.start_ns as f64, map.end_ns.max(map.start_ns.saturating_add(1)) as f64);
    let scale = Scale::new(ScaleKind::Linear, Unit::Ns, start, end, nr_ticks, [false, false]);
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

/// The colour bar: untouched, then cold to hot with numbers at both ends and between.
fn legend(scene: &mut Scene, scale: Option<HeatScale>, left: f64, y: f64, available: f64) {
    let swatch = |scene: &mut Scene, x: f64, width: f64, colour: Rgb| {
        scene.push(Shape::Rect { x, y: y - 6.0, width, height: 12.0, fill: Paint::Fixed(colour), opacity: 1.0 });
    };
    let mut x = left;
    swatch(scene, x, 16.0, UNTOUCHED);
    scene.text(x + 22.0, y, "not touched", TICK, Anchor::Start, Paint::Muted);
    x += 22.0 + room("not touched", TICK) + 22.0;
    let Some(scale) = scale else { return };
    let (coldest, hottest) = scale.end_labels();
    if coldest != hottest {
        scene.text(x, y, coldest.clone(), TICK, Anchor::Start, Paint::Muted);
        x += room(&coldest, TICK) + 6.0;
    }
    let bar = (available * 0.3).clamp(40.0, 220.0);
    const STEPS: usize = 44;
    for step in 0..STEPS {
        let heat = if coldest == hottest { 1.0 } else { step as f64 / (STEPS - 1) as f64 };
        swatch(scene, x + bar * step as f64 / STEPS as f64, bar / STEPS as f64 + 0.4, heat_colour(heat));
    }
    x += bar + 6.0;
    let text = format!("{hottest}  touches per page and second (log scale)");
    let text = fit_text(&text, TICK, scene.width - x - 4.0);
    scene.text(x, y, text, TICK, Anchor::Start, Paint::Muted);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::colour::Theme;
    use crate::heatmap::tests::{degenerate_heatmaps, phases, small};
    use crate::raster::tests::decode;

    #[test]
    fn cells_have_their_colours_in_the_png() {
        let size = PictureSize { width: 400, height: 300 };
        let scene = scene(&small(), size);
        let Some(Shape::Cells { x, y, width, height, .. }) =
            scene.shapes.iter().find(|s| matches!(s, Shape::Cells { .. }))
        else {
            panic!("no cells: {scene:?}");
        };
        let png = decode(&small().picture(size).to_png(Theme::Light, 1.0));
        assert_eq!((png.0, png.1), (400, 300));
        let at = |x: f64, y: f64| {
            let at = (y as usize * png.0 + x as usize) * 3;
            Rgb(png.2[at], png.2[at + 1], png.2[at + 2])
        };
        // The stack: touched in the first second (100 of 1–1000: two thirds up the scale), not in the second.
        let level = HeatScale { coldest: 1.0, hottest: 1000.0 }.level(100.0);
        assert_eq!(at(x + width * 0.25, y + height / 2.0), heat_colour(f64::from(level - 1) / 254.0));
        assert_eq!(at(x + width * 0.75, y + height / 2.0), UNTOUCHED);
    }

    #[test]
    fn bands_are_named_and_gaps_marked() {
        let svg = phases().picture(PictureSize { width: 960, height: 600 }).to_svg();
        for text in ["heap", "195 MiB", "stack", "libc.so.6", "0x555555554000", "time [s]", "not touched", "log scale"]
        {
            assert!(svg.contains(text), "{text}");
        }
        assert_eq!(svg.matches("<image").count(), 7);
    }

    #[test]
    fn svg_of_a_small_heatmap() {
        let svg = small().picture(PictureSize { width: 300, height: 200 }).to_inline_svg();
        insta::assert_snapshot!(svg, @r##"
        <svg class="pic" viewBox="0 0 300 200" width="300" height="200" role="img">
        <title>memory: page touches by time and address in heap, stack</title>
        <text class="f-ink" x="16" y="27.44" font-size="16" font-weight="600">memory</text>
        <image x="93" y="76" width="110" height="27" preserveAspectRatio="none" style="image-rendering:pixelated" href="data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAIAAAAbCAMAAABhsa5FAAADAFBMVEUXGSFCCmhDCmhFC2hGC2lHDGlIDGlKDGlLDWlMDWpNDmpPDmpQD2pRD2pSD2pUEGtVEGtWEWtXEWtZEWtaEmxbEmxcE2xeE2xfE2xgFG1hFG1jFW1kFW1lFW1nFm1oFm5pF25qF25sGG5tGG5uGW1vGW1xGW1yGm1zGmx1G2x2G2x3HGx5HGx6HWt7HWt8Hmt+Hmt/H2qAH2qCIGqDIGqEIWqFIWmHImmIImmJImmLI2iMI2iNJGiOJGiQJWiRJWeSJmeUJmeVJ2aWJ2aYKGWZKGSaKWSbKWOdKmOeK2KfK2GhLGGiLGCjLWCkLV+mLl6nLl6oL12qL12rMFysMFutMVuvMlqwMlqxM1mzM1i0NFi1NFe3NVe4NVa5NlW6NlW8N1S9OFO+OFO/OVLAOlHBO1DCPE/DPU7EPU7FPk3GP0zHQEvIQUrJQUrKQknLQ0jMREfNRUbORkXPRkXRR0TSSEPTSULUSkHVSkHWS0DXTD/YTT7ZTj3aTzzbTzzcUDvdUTreUjneUzjfVTfgVjbgVzXhWDTiWjPjWzLjXDHkXTDlXy/lYC7mYSznYivnYyroZSnpZijpZyfqaCbraiXsayTsbCPtbSLubiHucCDvcR/wch7wcx3xdRzydhvydxrzeBnzehj0exj0fRf0fhf0fxf1gRb1ghb1hBX2hRX2hxT2iBT2iRP3ixP3jBL3jhL4jxH4kBH4khD4kxD5lQ/5lg/5mA76mQ76mg76nA36nQ37nwz7oAz7oQv8owv8pAr8pgv8pw38qQ/7qxH7rBP7rhT7rxb7sRj6shr6tBz6th76tyD6uSL5uiT5vCX5vSf5vyn5wSv5wi34xC/4xTH4xzP4yDX4yjb3zDj3zTr3zzz30D730kD200L21UT210b22Ej22Uv32k733FH33VT33lf34Fr34V344mD442P45Wb45mn452z56G/56nL563X57Hj57Xv673768ID68YP68ob69In69Yz79o/795L7+ZX7+pj7+5v8/J78/qH8/6S1jw+KAAAAGUlEQVR4nK3CAQkAAACDMLF/kqd8CWEOKR0+TQDhOc8QugAAAABJRU5ErkJggg=="/>
        <image x="93" y="112" width="110" height="38" preserveAspectRatio="none" style="image-rendering:pixelated" href="data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAIAAAAmCAMAAADZVbo2AAADAFBMVEUXGSFCCmhDCmhFC2hGC2lHDGlIDGlKDGlLDWlMDWpNDmpPDmpQD2pRD2pSD2pUEGtVEGtWEWtXEWtZEWtaEmxbEmxcE2xeE2xfE2xgFG1hFG1jFW1kFW1lFW1nFm1oFm5pF25qF25sGG5tGG5uGW1vGW1xGW1yGm1zGmx1G2x2G2x3HGx5HGx6HWt7HWt8Hmt+Hmt/H2qAH2qCIGqDIGqEIWqFIWmHImmIImmJImmLI2iMI2iNJGiOJGiQJWiRJWeSJmeUJmeVJ2aWJ2aYKGWZKGSaKWSbKWOdKmOeK2KfK2GhLGGiLGCjLWCkLV+mLl6nLl6oL12qL12rMFysMFutMVuvMlqwMlqxM1mzM1i0NFi1NFe3NVe4NVa5NlW6NlW8N1S9OFO+OFO/OVLAOlHBO1DCPE/DPU7EPU7FPk3GP0zHQEvIQUrJQUrKQknLQ0jMREfNRUbORkXPRkXRR0TSSEPTSULUSkHVSkHWS0DXTD/YTT7ZTj3aTzzbTzzcUDvdUTreUjneUzjfVTfgVjbgVzXhWDTiWjPjWzLjXDHkXTDlXy/lYC7mYSznYivnYyroZSnpZijpZyfqaCbraiXsayTsbCPtbSLubiHucCDvcR/wch7wcx3xdRzydhvydxrzeBnzehj0exj0fRf0fhf0fxf1gRb1ghb1hBX2hRX2hxT2iBT2iRP3ixP3jBL3jhL4jxH4kBH4khD4kxD5lQ/5lg/5mA76mQ76mg76nA36nQ37nwz7oAz7oQv8owv8pAr8pgv8pw38qQ/7qxH7rBP7rhT7rxb7sRj6shr6tBz6th76tyD6uSL5uiT5vCX5vSf5vyn5wSv5wi34xC/4xTH4xzP4yDX4yjb3zDj3zTr3zzz30D730kD200L21UT210b22Ej22Uv32k733FH33VT33lf34Fr34V344mD442P45Wb45mn452z56G/56nL563X57Hj57Xv673768ID68YP68ob69In69Yz79o/795L7+ZX7+pj7+5v8/J78/qH8/6S1jw+KAAAAH0lEQVR4nJ3LQQ0AAAwCsWPzrw854IGk3358MBDaYgHg3wIkszN1YwAAAABJRU5ErkJggg=="/>
        <text class="f-ink" x="213" y="93.75" font-size="12.5">sta…</text>
        <text class="f-muted" x="248.54" y="93.75" font-size="12.5">4 KiB</text>
        <text class="f-muted" x="85" y="101.91" font-size="11.5" text-anchor="end">0x70000000</text>
        <polyline class="s-axis" stroke-width="1" points="93,105.8 99,109.2 105,105.8 111,109.2 117,105.8 123,109.2 129,105.8 135,109.2 141,105.8 147,109.2 153,105.8 159,109.2 165,105.8 171,109.2 177,105.8 183,109.2 189,105.8 195,109.2 201,105.8"/>
        <text class="f-ink" x="213" y="135.25" font-size="12.5">heap</text>
        <text class="f-muted" x="250.56" y="135.25" font-size="12.5">8 KiB</text>
        <text class="f-muted" x="85" y="148.91" font-size="11.5" text-anchor="end">0x1000</text>
        <polyline class="s-axis" stroke-width="1" points="93,153 203,153"/>
        <polyline class="s-axis" stroke-width="1" points="93,153 93,158"/>
        <text class="f-muted" x="93" y="170.91" font-size="11.5" text-anchor="middle">0</text>
        <polyline class="s-axis" stroke-width="1" points="148,153 148,158"/>
        <text class="f-muted" x="148" y="170.91" font-size="11.5" text-anchor="middle">1</text>
        <polyline class="s-axis" stroke-width="1" points="203,153 203,158"/>
        <text class="f-muted" x="203" y="170.91" font-size="11.5" text-anchor="middle">2</text>
        <text class="f-muted" x="148" y="190.25" font-size="12.5" text-anchor="middle">time [s]</text>
        <rect fill="#171921" x="93" y="44" width="16" height="12"/>
        <text class="f-muted" x="115" y="53.91" font-size="11.5">not touched</text>
        <text class="f-muted" x="204.63" y="53.91" font-size="11.5">1</text>
        <rect fill="#420a68" x="217.58" y="44" width="1.31" height="12"/>
        <rect fill="#490c69" x="218.49" y="44" width="1.31" height="12"/>
        <rect fill="#510f6a" x="219.4" y="44" width="1.31" height="12"/>
        <rect fill="#58116b" x="220.31" y="44" width="1.31" height="12"/>
        <rect fill="#60146c" x="221.22" y="44" width="1.31" height="12"/>
        <rect fill="#67166e" x="222.13" y="44" width="1.31" height="12"/>
        <rect fill="#6f196d" x="223.04" y="44" width="1.31" height="12"/>
        <rect fill="#761c6c" x="223.95" y="44" width="1.31" height="12"/>
        <rect fill="#7e1e6b" x="224.85" y="44" width="1.31" height="12"/>
        <rect fill="#862169" x="225.76" y="44" width="1.31" height="12"/>
        <rect fill="#8d2468" x="226.67" y="44" width="1.31" height="12"/>
        <rect fill="#952766" x="227.58" y="44" width="1.31" height="12"/>
        <rect fill="#9d2a63" x="228.49" y="44" width="1.31" height="12"/>
        <rect fill="#a42d5f" x="229.4" y="44" width="1.31" height="12"/>
        <rect fill="#ac305c" x="230.31" y="44" width="1.31" height="12"/>
        <rect fill="#b33358" x="231.22" y="44" width="1.31" height="12"/>
        <rect fill="#bb3754" x="232.13" y="44" width="1.31" height="12"/>
        <rect fill="#c13b50" x="233.04" y="44" width="1.31" height="12"/>
        <rect fill="#c8404b" x="233.95" y="44" width="1.31" height="12"/>
        <rect fill="#ce4546" x="234.85" y="44" width="1.31" height="12"/>
        <rect fill="#d44a41" x="235.76" y="44" width="1.31" height="12"/>
        <rect fill="#da4f3c" x="236.67" y="44" width="1.31" height="12"/>
        <rect fill="#df5537" x="237.58" y="44" width="1.31" height="12"/>
        <rect fill="#e35c31" x="238.49" y="44" width="1.31" height="12"/>
        <rect fill="#e7632b" x="239.4" y="44" width="1.31" height="12"/>
        <rect fill="#eb6a25" x="240.31" y="44" width="1.31" height="12"/>
        <rect fill="#ef721e" x="241.22" y="44" width="1.31" height="12"/>
        <rect fill="#f37919" x="242.13" y="44" width="1.31" height="12"/>
        <rect fill="#f58116" x="243.04" y="44" width="1.31" height="12"/>
        <rect fill="#f78a13" x="243.95" y="44" width="1.31" height="12"/>
        <rect fill="#f89210" x="244.85" y="44" width="1.31" height="12"/>
        <rect fill="#fa9b0d" x="245.76" y="44" width="1.31" height="12"/>
        <rect fill="#fca30b" x="246.67" y="44" width="1.31" height="12"/>
        <rect fill="#fbac12" x="247.58" y="44" width="1.31" height="12"/>
        <rect fill="#fab51e" x="248.49" y="44" width="1.31" height="12"/>
        <rect fill="#f9bf29" x="249.4" y="44" width="1.31" height="12"/>
        <rect fill="#f8c834" x="250.31" y="44" width="1.31" height="12"/>
        <rect fill="#f7d13f" x="251.22" y="44" width="1.31" height="12"/>
        <rect fill="#f6da4d" x="252.13" y="44" width="1.31" height="12"/>
        <rect fill="#f8e15e" x="253.04" y="44" width="1.31" height="12"/>
        <rect fill="#f9e970" x="253.95" y="44" width="1.31" height="12"/>
        <rect fill="#faf081" x="254.85" y="44" width="1.31" height="12"/>
        <rect fill="#fbf893" x="255.76" y="44" width="1.31" height="12"/>
        <rect fill="#fcffa4" x="256.67" y="44" width="1.31" height="12"/>
        <text class="f-muted" x="263.58" y="53.91" font-size="11.5">100…</text>
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
                assert!(picture.to_png(Theme::Dark, 1.0).len() > 100, "{name}");
            }
        }
    }
}
