//! Scenes as SVG: presentation by classes, so that one style sheet serves light and dark.

use crate::cells::cells_png;
use crate::colour::{Paint, SERIES_COLOURS, Theme};
use crate::scene::{Anchor, Scene, Shape, TAIL_GAP, Text};
use crate::unit::trim_zeros;
use std::fmt::Write as _;

/// A complete file with its own style sheet and background.
pub(crate) fn standalone(scene: &Scene) -> String {
    let background = format!(
        "<style>{}</style>\n<rect class=\"f-bg\" width=\"{}\" height=\"{}\"/>\n",
        style_sheet(),
        number(scene.width),
        number(scene.height)
    );
    element(scene, " xmlns=\"http://www.w3.org/2000/svg\"", &background)
}

/// Only the element, for a page with [`style_sheet`] in its head.
pub(crate) fn inline(scene: &Scene) -> String {
    element(scene, "", "")
}

/// Rules for every paint, and their dark variants.
pub(crate) fn style_sheet() -> String {
    let rules = |theme: Theme| {
        let mut paints = vec![Paint::Background, Paint::Ink, Paint::Muted, Paint::Grid, Paint::Axis, Paint::Accent];
        paints.extend((0..SERIES_COLOURS).map(Paint::Series));
        paints.iter().fold(String::new(), |mut css, paint| {
            let (name, hex) = (class(*paint).unwrap_or_default(), paint.colour(theme).hex());
            let _ = write!(css, ".f-{name}{{fill:{hex}}}.s-{name}{{stroke:{hex}}}");
            css
        })
    };
    format!(
        ".pic{{font-family:system-ui,-apple-system,'Segoe UI',Roboto,'Helvetica Neue',Arial,'Liberation Sans',sans-serif}}\
         .pic polyline{{fill:none;stroke-linejoin:round;stroke-linecap:round}}{}\
         @media (prefers-color-scheme:dark){{{}}}",
        rules(Theme::Light),
        rules(Theme::Dark)
    )
}

/// The colours of data series as `--series-N`, for scripts that draw on a page with this sheet.
pub(crate) fn series_variables() -> String {
    let variables = |theme: Theme| {
        (0..SERIES_COLOURS).fold(String::new(), |mut css, series| {
            let _ = write!(css, "--series-{series}:{};", Paint::Series(series).colour(theme).hex());
            css
        })
    };
    format!(
        ":root{{{}}}@media(prefers-color-scheme:dark){{:root{{{}}}}}",
        variables(Theme::Light),
        variables(Theme::Dark)
    )
}

fn element(scene: &Scene, attributes: &str, prologue: &str) -> String {
    let (width, height) = (number(scene.width), number(scene.height));
    let mut out = format!(
        "<svg{attributes} class=\"pic\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" height=\"{height}\" role=\"img\">\n\
         <title>{}</title>\n{prologue}",
        escape(&scene.description)
    );
    shapes(&mut out, &scene.shapes);
    out.push_str("</svg>\n");
    out
}

fn shapes(out: &mut String, shapes: &[Shape]) {
    for shape in shapes {
        let written = shape_element(out, shape);
        debug_assert!(written.is_ok(), "writing to a string does not fail");
    }
}

fn shape_element(out: &mut String, shape: &Shape) -> std::fmt::Result {
    match shape {
        Shape::Rect { x, y, width, height, fill, opacity } => writeln!(
            out,
            "<rect {} x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\"{}/>",
            filled(*fill),
            number(*x),
            number(*y),
            number(*width),
            number(*height),
            opacity_attribute(*opacity)
        ),
        Shape::Line { points, stroke, width, dash } => {
            let dash = match dash.pattern() {
                [] => String::new(),
                lengths => {
                    let lengths: Vec<String> = lengths.iter().map(|length| number(*length)).collect();
                    format!(" stroke-dasharray=\"{}\"", lengths.join(" "))
                }
            };
            let paint = paint_attribute("s", "stroke", *stroke);
            writeln!(
                out,
                "<polyline {paint} stroke-width=\"{}\"{dash} points=\"{}\"/>",
                number(*width),
                coordinates(points)
            )
        }
        Shape::Polygon { points, fill, opacity } => writeln!(
            out,
            "<polygon {}{} points=\"{}\"/>",
            filled(*fill),
            opacity_attribute(*opacity),
            coordinates(points)
        ),
        Shape::Circle { x, y, radius, fill } => {
            let (x, y, radius) = (number(*x), number(*y), number(*radius));
            writeln!(out, "<circle {} cx=\"{x}\" cy=\"{y}\" r=\"{radius}\"/>", filled(*fill))
        }
        Shape::Text(text) => text_element(out, text),
        Shape::Cells { x, y, width, height, columns, rows, levels } => writeln!(
            out,
            "<image x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" preserveAspectRatio=\"none\" \
             style=\"image-rendering:pixelated\" href=\"data:image/png;base64,{}\"/>",
            number(*x),
            number(*y),
            number(*width),
            number(*height),
            base64(&cells_png(*columns, *rows, levels))
        ),
        // A nested viewport cuts at its edge and, unlike a clip path, needs no id that could clash on a page.
        Shape::Clip { x, y, width, height, shapes: inner } => {
            let (x, y, width, height) = (number(*x), number(*y), number(*width), number(*height));
            writeln!(
                out,
                "<svg x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{height}\" viewBox=\"{x} {y} {width} {height}\">"
            )?;
            shapes(out, inner);
            writeln!(out, "</svg>")
        }
    }
}

fn text_element(out: &mut String, text: &Text) -> std::fmt::Result {
    let anchor = match text.anchor {
        Anchor::Start => "",
        Anchor::Middle => " text-anchor=\"middle\"",
        Anchor::End => " text-anchor=\"end\"",
    };
    let bold = if text.bold { " font-weight=\"600\"" } else { "" };
    // Baseline: the middle of the small letters is a quarter em above it.
    let shift = text.size * 0.34;
    let (x, y) = (number(text.x), number(text.y + shift));
    let tail = if text.tail.is_empty() {
        String::new()
    } else {
        format!("<tspan class=\"f-muted\" dx=\"{}\">{}</tspan>", number(TAIL_GAP), escape(&text.tail))
    };
    let (fill, size, words) = (filled(text.fill), number(text.size), escape(&text.text));
    writeln!(out, "<text {fill} x=\"{x}\" y=\"{y}\" font-size=\"{size}\"{anchor}{bold}>{words}{tail}</text>")
}

fn filled(paint: Paint) -> String {
    paint_attribute("f", "fill", paint)
}

fn paint_attribute(prefix: &str, attribute: &str, paint: Paint) -> String {
    match (class(paint), paint) {
        (Some(class), _) => format!("class=\"{prefix}-{class}\""),
        (None, paint) => format!("{attribute}=\"{}\"", paint.colour(Theme::Light).hex()),
    }
}

fn class(paint: Paint) -> Option<String> {
    Some(match paint {
        Paint::Background => "bg".to_owned(),
        Paint::Ink => "ink".to_owned(),
        Paint::Muted => "muted".to_owned(),
        Paint::Grid => "grid".to_owned(),
        Paint::Axis => "axis".to_owned(),
        Paint::Accent => "accent".to_owned(),
        Paint::Series(index) => format!("c{}", index % SERIES_COLOURS),
        Paint::Fixed(_) => return None,
    })
}

fn opacity_attribute(opacity: f64) -> String {
    if opacity >= 1.0 { String::new() } else { format!(" fill-opacity=\"{}\"", number(opacity)) }
}

fn coordinates(points: &[(f64, f64)]) -> String {
    points.iter().map(|(x, y)| format!("{},{}", number(*x), number(*y))).collect::<Vec<_>>().join(" ")
}

/// Two decimals at most: a hundredth of a pixel is finer than the eye can see.
fn number(value: f64) -> String {
    let text = trim_zeros(format!("{value:.2}"));
    if text == "-0" { "0".to_owned() } else { text }
}

/// `text` for XML and HTML, in elements and quoted attributes. Characters XML does not allow become U+FFFD.
pub(crate) fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            '\n' | '\t' => out.push(c),
            c if c.is_control() || c == '\u{fffe}' || c == '\u{ffff}' => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
    out
}

/// RFC 4648 with padding.
pub(crate) fn base64(bytes: &[u8]) -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let word = chunk.iter().enumerate().fold(0u32, |word, (i, byte)| word | u32::from(*byte) << (16 - 8 * i));
        for i in 0..4 {
            let sextet = usize::try_from(word >> (18 - 6 * i) & 63).unwrap_or(0);
            out.push(if i <= chunk.len() { char::from(ALPHABET[sextet]) } else { '=' });
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_as_in_rfc_4648() {
        let table =
            [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foob", "Zm9vYg=="), ("foobar", "Zm9vYmFy")];
        for (plain, encoded) in table {
            assert_eq!(base64(plain.as_bytes()), encoded);
        }
    }

    #[test]
    fn markup_is_escaped() {
        assert_eq!(escape("<script>'\"&\u{0}\u{1b}"), "&lt;script&gt;&#39;&quot;&amp;\u{fffd}\u{fffd}");
    }
}
