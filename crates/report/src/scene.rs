//! A picture as a list of shapes. Charts and heatmaps are laid out as scenes; [`svg`](crate::svg) writes them.

use crate::colour::Paint;
use crate::text_width::text_width;

/// The size of a picture in logical pixels, at which text has its designed size. Clamped to 240–8192 × 160–8192.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PictureSize {
    /// Pixels from left to right.
    pub width: u32,
    /// Pixels from top to bottom.
    pub height: u32,
}

impl Default for PictureSize {
    fn default() -> Self {
        Self { width: 960, height: 480 }
    }
}

/// A laid-out picture, to be written as SVG.
#[derive(Clone, Debug)]
pub struct Picture {
    pub(crate) scene: Scene,
}

impl Picture {
    /// One picture above the other, `gap` logical pixels between the two.
    #[must_use]
    pub fn above(mut self, below: Self, gap: f64) -> Self {
        let down = self.scene.height + gap;
        self.scene.width = self.scene.width.max(below.scene.width);
        self.scene.height = down + below.scene.height;
        self.scene.description = format!("{}; {}", self.scene.description, below.scene.description);
        self.scene.shapes.extend(below.scene.shapes.into_iter().map(|shape| shape.lower(down)));
        self
    }

    /// A standalone SVG file. It follows the viewer's light or dark preference.
    pub fn to_svg(&self) -> String {
        crate::svg::standalone(&self.scene)
    }

    /// The `<svg>` element for a page that already has the style sheet of [`HtmlPage`](crate::HtmlPage).
    pub(crate) fn to_inline_svg(&self) -> String {
        crate::svg::inline(&self.scene)
    }
}

/// Shapes in painting order, within `width` × `height` logical pixels, y pointing down.
#[derive(Clone, Debug)]
pub(crate) struct Scene {
    pub(crate) width: f64,
    pub(crate) height: f64,
    /// Text for screen readers.
    pub(crate) description: String,
    pub(crate) shapes: Vec<Shape>,
}

/// Where a text's position is on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Anchor {
    Start,
    Middle,
    End,
}

/// How a line is broken up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Dash {
    #[default]
    Solid,
    Dashes,
    Dots,
    Mixed,
}

impl Dash {
    /// Drawn and left-out lengths in logical pixels, alternating.
    pub(crate) const fn pattern(self) -> &'static [f64] {
        match self {
            Self::Solid => &[],
            Self::Dashes => &[8.0, 4.0],
            Self::Dots => &[1.5, 4.0],
            Self::Mixed => &[9.0, 4.0, 1.5, 4.0],
        }
    }
}

#[derive(Clone, Debug)]
pub(crate) enum Shape {
    Rect {
        x: f64,
        y: f64,
        width: f64,
        height: f64,
        fill: Paint,
        opacity: f64,
    },
    Line {
        points: Vec<(f64, f64)>,
        stroke: Paint,
        width: f64,
        dash: Dash,
    },
    Polygon {
        points: Vec<(f64, f64)>,
        fill: Paint,
        opacity: f64,
    },
    Circle {
        x: f64,
        y: f64,
        radius: f64,
        fill: Paint,
    },
    Text(Text),
    /// Cells painted with the heat colours, the top row first: 0 is untouched, 1–255 cold to hot.
    Cells {
        x: f64,
        y: f64,
        width: f64,
        height: f64,
        columns: usize,
        rows: usize,
        levels: Vec<u8>,
    },
    /// Shapes that are cut at a rectangle.
    Clip {
        x: f64,
        y: f64,
        width: f64,
        height: f64,
        shapes: Vec<Shape>,
    },
}

impl Shape {
    /// The same `down` pixels lower.
    fn lower(mut self, down: f64) -> Self {
        match &mut self {
            Self::Rect { y, .. } | Self::Circle { y, .. } | Self::Cells { y, .. } => *y += down,
            Self::Line { points, .. } | Self::Polygon { points, .. } => {
                points.iter_mut().for_each(|point| point.1 += down);
            }
            Self::Text(text) => text.y += down,
            Self::Clip { y, shapes, .. } => {
                *y += down;
                *shapes = std::mem::take(shapes).into_iter().map(|shape| shape.lower(down)).collect();
            }
        }
        self
    }
}

/// Logical pixels between a text and its tail.
pub(crate) const TAIL_GAP: f64 = 7.0;

/// One line of text. `y` is the middle of its small letters.
#[derive(Clone, Debug)]
pub(crate) struct Text {
    pub(crate) x: f64,
    pub(crate) y: f64,
    pub(crate) text: String,
    pub(crate) size: f64,
    pub(crate) anchor: Anchor,
    pub(crate) fill: Paint,
    pub(crate) bold: bool,
    /// Text after it in the muted colour.
    pub(crate) tail: String,
}

impl Text {
    pub(crate) fn new(x: f64, y: f64, text: impl Into<String>, size: f64, anchor: Anchor, fill: Paint) -> Self {
        Self { x, y, text: text.into(), size, anchor, fill, bold: false, tail: String::new() }
    }
}

impl Scene {
    pub(crate) fn new(size: PictureSize, description: String) -> Self {
        let width = f64::from(size.width.clamp(240, 8192));
        let height = f64::from(size.height.clamp(160, 8192));
        Self { width, height, description, shapes: Vec::new() }
    }

    pub(crate) fn push(&mut self, shape: Shape) {
        self.shapes.push(shape);
    }

    pub(crate) fn text(&mut self, x: f64, y: f64, text: impl Into<String>, size: f64, anchor: Anchor, fill: Paint) {
        self.push(Shape::Text(Text::new(x, y, text, size, anchor, fill)));
    }

    pub(crate) fn rule(&mut self, from: (f64, f64), to: (f64, f64), stroke: Paint) {
        self.push(Shape::Line { points: vec![from, to], stroke, width: 1.0, dash: Dash::Solid });
    }
}

/// Room to keep for `text`: its width and a little, because a browser's font may be wider.
pub(crate) fn room(text: &str, size: f64) -> f64 {
    text_width(text, size) * 1.15
}

/// `text` cut to fit `width`, with an ellipsis; empty if not even that fits.
pub(crate) fn fit_text(text: &str, size: f64, width: f64) -> String {
    if room(text, size) <= width {
        return text.to_owned();
    }
    let mut kept: Vec<char> = text.chars().take(400).collect();
    while let Some(_last) = kept.pop() {
        let shorter = kept.iter().collect::<String>() + "…";
        if room(&shorter, size) <= width {
            return if kept.is_empty() { String::new() } else { shorter };
        }
    }
    String::new()
}
