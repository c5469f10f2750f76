//! Scenes as pixels: anti-aliased lines, areas and text on an RGB canvas, written as PNG.
#![expect(clippy::cast_possible_truncation, reason = "pixel numbers: clamped to the canvas, and `as` saturates")]

use crate::colour::{Paint, Rgb, Theme, UNTOUCHED, heat_colour};
use crate::font;
use crate::scene::{Anchor, Scene, Shape, TAIL_GAP, Text};

/// `scene` as an RGB PNG of `scale` pixels to the logical pixel.
pub(crate) fn png(scene: &Scene, theme: Theme, scale: f64) -> Vec<u8> {
    let scale = if scale.is_finite() { scale.clamp(0.5, 4.0) } else { 1.0 };
    let canvas = paint(scene, theme, scale);
    let bytes: Vec<u8> = canvas.pixels.iter().flat_map(|pixel| [pixel.0, pixel.1, pixel.2]).collect();
    encode(canvas.width, canvas.height, png::ColorType::Rgb, None, &bytes)
}

/// Heat cells as a small indexed PNG, one pixel a cell.
pub(crate) fn cells_png(columns: usize, rows: usize, levels: &[u8]) -> Vec<u8> {
    let palette: Vec<u8> = (0..=255u8).map(level_colour).flat_map(|colour| [colour.0, colour.1, colour.2]).collect();
    let mut bytes = levels.to_vec();
    bytes.resize(columns.max(1) * rows.max(1), 0);
    encode(columns.max(1), rows.max(1), png::ColorType::Indexed, Some(palette), &bytes)
}

/// The colour of each level as 0xrrggbb.
pub(crate) fn palette() -> Vec<u32> {
    let number = |colour: Rgb| u32::from(colour.0) << 16 | u32::from(colour.1) << 8 | u32::from(colour.2);
    (0..=255u8).map(level_colour).map(number).collect()
}

fn level_colour(level: u8) -> Rgb {
    if level == 0 { UNTOUCHED } else { heat_colour(f64::from(level - 1) / 254.0) }
}

fn encode(width: usize, height: usize, colour: png::ColorType, palette: Option<Vec<u8>>, bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    let size = |pixels: usize| u32::try_from(pixels).expect("the canvas is at most 4 × 8192 pixels wide and high");
    let mut encoder = png::Encoder::new(&mut out, size(width), size(height));
    encoder.set_color(colour);
    encoder.set_depth(png::BitDepth::Eight);
    if let Some(palette) = palette {
        encoder.set_palette(palette);
    }
    let mut writer = encoder.write_header().expect("writing to memory does not fail");
    writer.write_image_data(bytes).expect("there is one value for each pixel");
    writer.finish().expect("writing to memory does not fail");
    out
}

fn paint(scene: &Scene, theme: Theme, scale: f64) -> Canvas {
    let (width, height) = ((scene.width * scale).round() as usize, (scene.height * scale).round() as usize);
    let mut canvas = Canvas {
        width,
        height,
        pixels: vec![Paint::Background.colour(theme); width * height],
        clip: Area { left: 0, top: 0, right: width, bottom: height },
        scale,
        theme,
    };
    canvas.shapes(&scene.shapes);
    canvas
}

/// Whole pixels: left and top inside, right and bottom outside.
#[derive(Clone, Copy)]
struct Area {
    left: usize,
    top: usize,
    right: usize,
    bottom: usize,
}

struct Canvas {
    width: usize,
    height: usize,
    pixels: Vec<Rgb>,
    clip: Area,
    /// Pixels to the logical pixel.
    scale: f64,
    theme: Theme,
}

impl Canvas {
    fn shapes(&mut self, shapes: &[Shape]) {
        for shape in shapes {
            self.shape(shape);
        }
    }

    fn shape(&mut self, shape: &Shape) {
        let scale = self.scale;
        match shape {
            Shape::Rect { x, y, width, height, fill, opacity } => {
                let corners = [(*x, *y), (x + width, *y), (x + width, y + height), (*x, y + height)];
                self.polygon(&corners, *fill, *opacity);
            }
            Shape::Polygon { points, fill, opacity } => self.polygon(points, *fill, *opacity),
            Shape::Line { points, stroke, width, dash } => {
                let points: Vec<(f64, f64)> = points.iter().map(|(x, y)| (x * scale, y * scale)).collect();
                let points = self.snap(points, *width);
                let lines = match dash.pattern() {
                    [] => vec![points],
                    pattern => dashes(&points, &pattern.iter().map(|length| length * scale).collect::<Vec<_>>()),
                };
                self.strokes(&lines, width * scale, *stroke);
            }
            Shape::Circle { x, y, radius, fill } => {
                self.strokes(&[vec![(x * scale, y * scale)]], radius * 2.0 * scale, *fill);
            }
            Shape::Text(text) => self.text(text),
            Shape::Cells { x, y, width, height, columns, rows, levels } => {
                self.cells(self.area(*x, *y, *width, *height), (*columns, *rows), levels);
            }
            Shape::Clip { x, y, width, height, shapes } => {
                let outer = self.clip;
                let area = self.area(*x, *y, *width, *height);
                self.clip = area;
                self.shapes(shapes);
                self.clip = outer;
            }
        }
    }

    /// Horizontal and vertical hairlines are put on whole pixels, else they blur over two.
    fn snap(&self, mut points: Vec<(f64, f64)>, width: f64) -> Vec<(f64, f64)> {
        if let [from, to] = points.as_mut_slice()
            && width <= 1.5
        {
            let offset = if (width * self.scale).round() as i64 % 2 == 0 { 0.0 } else { 0.5 };
            if (from.0 - to.0).abs() < 1e-9 {
                from.0 = from.0.floor() + offset;
                to.0 = from.0;
            } else if (from.1 - to.1).abs() < 1e-9 {
                from.1 = from.1.floor() + offset;
                to.1 = from.1;
            }
        }
        points
    }

    /// The whole pixels of a logical rectangle, within the clip.
    fn area(&self, x: f64, y: f64, width: f64, height: f64) -> Area {
        let at = |value: f64| (value * self.scale).round().max(0.0) as usize;
        let left = at(x).clamp(self.clip.left, self.clip.right);
        let top = at(y).clamp(self.clip.top, self.clip.bottom);
        let (right, bottom) = (at(x + width).clamp(left, self.clip.right), at(y + height).clamp(top, self.clip.bottom));
        Area { left, top, right, bottom }
    }

    fn cells(&mut self, area: Area, (columns, rows): (usize, usize), levels: &[u8]) {
        let (width, height) = (area.right - area.left, area.bottom - area.top);
        for y in 0..height {
            for x in 0..width {
                let cell = (y * rows / height) * columns + x * columns / width;
                let colour = level_colour(levels.get(cell).copied().unwrap_or(0));
                self.pixels[(area.top + y) * self.width + area.left + x] = colour;
            }
        }
    }

    fn blend(&mut self, x: usize, y: usize, colour: Rgb, share: f64) {
        let pixel = &mut self.pixels[y * self.width + x];
        *pixel = pixel.mix(colour, share);
    }

    /// Fills a polygon (even-odd) with four sub-lines a pixel and exact coverage along each.
    fn polygon(&mut self, points: &[(f64, f64)], fill: Paint, opacity: f64) {
        const SUB_LINES: usize = 4;
        let colour = fill.colour(self.theme);
        let points: Vec<(f64, f64)> = points.iter().map(|(x, y)| (x * self.scale, y * self.scale)).collect();
        let Some((top, bottom)) = self.line_range(points.iter().map(|point| point.1)) else { return };
        let mut coverage = vec![0.0f64; self.width];
        for y in top..bottom {
            coverage.fill(0.0);
            for sub in 0..SUB_LINES {
                let line = y as f64 + (sub as f64 + 0.5) / SUB_LINES as f64;
                let mut crossings: Vec<f64> = Vec::new();
                for (i, a) in points.iter().enumerate() {
                    let b = points[(i + 1) % points.len()];
                    if (a.1 <= line) != (b.1 <= line) {
                        crossings.push(a.0 + (line - a.1) / (b.1 - a.1) * (b.0 - a.0));
                    }
                }
                crossings.sort_by(f64::total_cmp);
                for pair in crossings.chunks_exact(2) {
                    let (from, to) = (pair[0].max(self.clip.left as f64), pair[1].min(self.clip.right as f64));
                    let first = from.floor().max(0.0) as usize;
                    let last = (to.ceil().max(0.0) as usize).min(self.width).max(first);
                    for (i, share) in coverage.iter_mut().enumerate().take(last).skip(first) {
                        *share += (to.min(i as f64 + 1.0) - from.max(i as f64)).max(0.0) / SUB_LINES as f64;
                    }
                }
            }
            for (x, share) in coverage.iter().enumerate().filter(|(_, share)| **share > 0.0) {
                self.blend(x, y, colour, share * opacity);
            }
        }
    }

    /// Pixel lines within the clip that `ys` touch.
    fn line_range(&self, ys: impl Iterator<Item = f64>) -> Option<(usize, usize)> {
        let (low, high) = ys.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), y| (low.min(y), high.max(y)));
        let top = (low.floor().max(0.0) as usize).max(self.clip.top);
        let bottom = (high.ceil().max(0.0) as usize).min(self.clip.bottom);
        (low <= high && top < bottom).then_some((top, bottom))
    }

    /// Draws lines of `width` pixels with round ends and joints. All are one shape: where they overlap, nothing is darker.
    fn strokes(&mut self, lines: &[Vec<(f64, f64)>], width: f64, stroke: Paint) {
        let colour = stroke.colour(self.theme);
        let reach = width / 2.0 + 0.5;
        let Some((top, bottom)) =
            self.line_range(lines.iter().flatten().flat_map(|point| [point.1 - reach, point.1 + reach]))
        else {
            return;
        };
        let (clip, row) = (self.clip, self.clip.right - self.clip.left);
        let mut mask = vec![0f32; row * (bottom - top)];
        let mut segment = |a: (f64, f64), b: (f64, f64)| {
            let span = |low: f64, high: f64, from: usize, to: usize| {
                ((low - reach).floor().max(from as f64) as usize)..((high + reach).ceil().max(0.0) as usize).min(to)
            };
            for y in span(a.1.min(b.1), a.1.max(b.1), top, bottom) {
                for x in span(a.0.min(b.0), a.0.max(b.0), clip.left, clip.right) {
                    let covered = reach - distance((x as f64 + 0.5, y as f64 + 0.5), a, b);
                    // Lines thinner than a pixel are paler instead.
                    let covered = covered.clamp(0.0, 1.0) * width.min(1.0);
                    let cell = &mut mask[(y - top) * row + x - clip.left];
                    *cell = cell.max(covered as f32);
                }
            }
        };
        for line in lines {
            match line.as_slice() {
                [] => {}
                [point] => segment(*point, *point),
                points => points.windows(2).for_each(|pair| segment(pair[0], pair[1])),
            }
        }
        for (i, share) in mask.iter().enumerate().filter(|(_, share)| **share > 0.0) {
            self.blend(clip.left + i % row, top + i / row, colour, f64::from(*share));
        }
    }

    fn text(&mut self, text: &Text) {
        let unit = text.size * self.scale / font::EM;
        let width = font::text_width(&text.text, text.size) * self.scale;
        let start = match text.anchor {
            Anchor::Start => 0.0,
            Anchor::Middle => -width / 2.0,
            Anchor::End => -width,
        };
        let (x, y) = (text.x * self.scale, text.y * self.scale);
        // The middle between baseline and capital height; whole pixels keep letters sharp.
        let baseline = 6.5 * unit;
        let mut pen = start + 1.5 * unit;
        let mut lines = Vec::new();
        for c in text.text.chars() {
            let outline = font::outline(c);
            for stroke in &outline.strokes {
                lines.push(stroke.iter().map(|(px, py)| (x + pen + px * unit, y + baseline - py * unit)).collect());
            }
            pen += outline.advance * unit;
        }
        let weight = if text.bold { 2.5 } else { 1.75 };
        self.strokes(&lines, (weight * unit).max(1.0), text.fill);
        if !text.tail.is_empty() {
            let behind = (x + pen + TAIL_GAP * self.scale) / self.scale;
            self.text(&Text::new(behind, text.y, text.tail.clone(), text.size, Anchor::Start, Paint::Muted));
        }
    }
}

/// Distance of `point` from the segment `a`–`b`.
fn distance(point: (f64, f64), a: (f64, f64), b: (f64, f64)) -> f64 {
    let (dx, dy) = (b.0 - a.0, b.1 - a.1);
    let length_squared = dx * dx + dy * dy;
    let along = if length_squared > 0.0 {
        (((point.0 - a.0) * dx + (point.1 - a.1) * dy) / length_squared).clamp(0.0, 1.0)
    } else {
        0.0
    };
    let (x, y) = (a.0 + along * dx - point.0, a.1 + along * dy - point.1);
    (x * x + y * y).sqrt()
}

/// Cuts a line into the drawn parts of `pattern` (drawn and left-out lengths in turn, in pixels).
fn dashes(points: &[(f64, f64)], pattern: &[f64]) -> Vec<Vec<(f64, f64)>> {
    let mut lines = Vec::new();
    let (mut step, mut left) = (0, pattern[0]);
    let mut current: Vec<(f64, f64)> = points.first().copied().into_iter().collect();
    for pair in points.windows(2) {
        let (mut from, to) = (pair[0], pair[1]);
        loop {
            let length = ((to.0 - from.0).powi(2) + (to.1 - from.1).powi(2)).sqrt();
            if length <= left || left <= 0.0 {
                left -= length;
                current.push(to);
                break;
            }
            let share = left / length;
            from = (from.0 + (to.0 - from.0) * share, from.1 + (to.1 - from.1) * share);
            current.push(from);
            if step % 2 == 0 {
                lines.push(std::mem::take(&mut current));
            }
            step = (step + 1) % pattern.len();
            left = pattern[step];
            current = vec![from];
        }
    }
    if step % 2 == 0 && !current.is_empty() {
        lines.push(current);
    }
    lines
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::scene::{Dash, PictureSize};

    /// Width, height and RGB bytes of a PNG.
    pub(crate) fn decode(bytes: &[u8]) -> (usize, usize, Vec<u8>) {
        let mut decoder = png::Decoder::new(std::io::Cursor::new(bytes));
        decoder.set_transformations(png::Transformations::EXPAND);
        let mut reader = decoder.read_info().unwrap();
        let mut pixels = vec![0; reader.output_buffer_size().unwrap()];
        let info = reader.next_frame(&mut pixels).unwrap();
        pixels.truncate(info.buffer_size());
        (info.width as usize, info.height as usize, pixels)
    }

    fn pixel(png: &(usize, usize, Vec<u8>), x: usize, y: usize) -> Rgb {
        let at = (y * png.0 + x) * 3;
        Rgb(png.2[at], png.2[at + 1], png.2[at + 2])
    }

    fn scene() -> Scene {
        Scene::new(PictureSize { width: 240, height: 160 }, String::new())
    }

    #[test]
    fn shapes_land_on_their_pixels() {
        let mut scene = scene();
        let red = Paint::Fixed(Rgb(255, 0, 0));
        scene.push(Shape::Rect { x: 10.0, y: 20.0, width: 5.0, height: 5.0, fill: red, opacity: 1.0 });
        scene.push(Shape::Rect { x: 30.0, y: 20.0, width: 5.0, height: 5.0, fill: red, opacity: 0.5 });
        let points = vec![(100.0, 0.0), (100.0, 160.0)];
        scene.push(Shape::Line { points, stroke: red, width: 4.0, dash: Dash::Solid });
        let cells = vec![0, 255, 1, 128];
        scene.push(Shape::Cells { x: 40.0, y: 40.0, width: 20.0, height: 20.0, columns: 2, rows: 2, levels: cells });
        for (theme, background) in [(Theme::Light, Rgb(255, 255, 255)), (Theme::Dark, Rgb(0x12, 0x14, 0x1a))] {
            for scale in [1, 2] {
                let png = decode(&png(&scene, theme, f64::from(scale as u32)));
                assert_eq!((png.0, png.1), (240 * scale, 160 * scale));
                let at = |x: usize, y: usize| pixel(&png, x * scale, y * scale);
                assert_eq!(at(0, 0), background);
                assert_eq!(at(9, 20), background, "left of the rectangle");
                assert_eq!(at(10, 20), Rgb(255, 0, 0));
                assert_eq!(at(14, 24), Rgb(255, 0, 0));
                assert_eq!(at(15, 24), background);
                assert_eq!(at(32, 22), background.mix(Rgb(255, 0, 0), 0.5));
                assert_eq!((at(98, 80), at(101, 80), at(104, 80)), (Rgb(255, 0, 0), Rgb(255, 0, 0), background));
                assert_eq!(at(45, 45), UNTOUCHED);
                assert_eq!(at(55, 45), heat_colour(1.0));
                assert_eq!(at(45, 55), heat_colour(0.0));
                assert_eq!(at(55, 55), heat_colour(0.5));
            }
        }
    }

    #[test]
    fn clipped_shapes_stay_inside() {
        let mut scene = scene();
        let red = Paint::Fixed(Rgb(255, 0, 0));
        let shapes = vec![
            Shape::Rect { x: -1e9, y: -1e9, width: 2e9, height: 2e9, fill: red, opacity: 1.0 },
            Shape::Circle { x: 60.0, y: 60.0, radius: 90.0, fill: red },
        ];
        scene.push(Shape::Clip { x: 50.0, y: 50.0, width: 20.0, height: 20.0, shapes });
        let png = decode(&png(&scene, Theme::Light, 1.0));
        assert_eq!(pixel(&png, 60, 60), Rgb(255, 0, 0));
        assert_eq!(
            (pixel(&png, 49, 60), pixel(&png, 70, 60), pixel(&png, 60, 70)),
            (Rgb(255, 255, 255), Rgb(255, 255, 255), Rgb(255, 255, 255))
        );
    }

    #[test]
    fn dashes_leave_gaps() {
        let lines = dashes(&[(0.0, 0.0), (30.0, 0.0)], &[8.0, 4.0]);
        assert_eq!(lines, [[(0.0, 0.0), (8.0, 0.0)], [(12.0, 0.0), (20.0, 0.0)], [(24.0, 0.0), (30.0, 0.0)]]);
        assert!(dashes(&[], &[8.0, 4.0]).is_empty());
    }

    #[test]
    fn text_is_drawn_where_it_stands() {
        let mut scene = scene();
        scene.text(120.0, 80.0, "MMMM", 20.0, Anchor::Middle, Paint::Ink);
        let png = decode(&png(&scene, Theme::Light, 1.0));
        let dark = |xs: std::ops::Range<usize>| {
            xs.flat_map(|x| (60..100).map(move |y| (x, y))).filter(|&(x, y)| pixel(&png, x, y).0 < 100).count()
        };
        assert!(dark(90..150) > 100, "{}", dark(90..150));
        assert_eq!(dark(0..80) + dark(160..240), 0);
    }
}
