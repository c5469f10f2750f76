//! Capabilities of a terminal, and text painted for it.

use crate::colour::{Paint, Rgb};
use std::fmt::Write as _;

/// How many colours the terminal has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ColourDepth {
    /// None: not a terminal, `NO_COLOR`, or `--color never`.
    #[default]
    None,
    /// xterm's palette.
    Xterm256,
    /// 24 bits.
    TrueColour,
}

/// Capabilities and size of the terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TermStyle {
    pub colour: ColourDepth,
    /// Whether characters beyond ASCII may be used.
    pub unicode: bool,
    /// Columns. Pictures narrower than about 30 columns leave out their labels.
    pub width: usize,
    /// Lines a picture may take, its axes included. Tables ignore it.
    pub height: usize,
}

impl TermStyle {
    /// Plain Unicode text, `width` columns and 24 lines.
    pub const fn plain(width: usize) -> Self {
        Self { colour: ColourDepth::None, unicode: true, width, height: 24 }
    }

    /// Reads the capabilities of a terminal of `size` (columns, lines) from the environment; `env` returns a variable.
    /// `colour`: whether colours may be used at all.
    ///
    /// `COLORTERM=truecolor|24bit` or a `TERM` ending in `-direct` means 24 bits, else the 256 of xterm. Any locale except a UTF-8 one
    /// (`LC_ALL`, `LC_CTYPE`, `LANG`, the first that is set) means ASCII; without a locale UTF-8 is assumed.
    pub fn detect(colour: bool, size: (usize, usize), env: impl Fn(&str) -> Option<String>) -> Self {
        let set = |name: &str| env(name).filter(|value| !value.is_empty());
        let true_colour = set("COLORTERM").is_some_and(|value| value == "truecolor" || value == "24bit")
            || set("TERM").is_some_and(|term| term.ends_with("-direct"));
        let colour = match (colour, true_colour) {
            (false, _) => ColourDepth::None,
            (true, true) => ColourDepth::TrueColour,
            (true, false) => ColourDepth::Xterm256,
        };
        let locale = set("LC_ALL").or_else(|| set("LC_CTYPE")).or_else(|| set("LANG"));
        let unicode = locale.is_none_or(|locale| {
            let locale = locale.to_ascii_lowercase();
            locale.contains("utf-8") || locale.contains("utf8")
        });
        Self { colour, unicode, width: size.0, height: size.1 }
    }
}

/// Columns that `text` takes. Characters are taken to be one column wide.
pub(crate) fn display_width(text: &str) -> usize {
    text.chars().count()
}

/// `text` in at most `width` columns, its end replaced by an ellipsis if need be.
pub(crate) fn truncate(text: &str, width: usize, unicode: bool) -> String {
    if display_width(text) <= width {
        return text.to_owned();
    }
    let ellipsis = if unicode { "…" } else { "~" };
    if width == 0 {
        return String::new();
    }
    text.chars().take(width - 1).collect::<String>() + ellipsis
}

/// `text` in the colour of `paint`, if the terminal has any.
pub(crate) fn paint_text(style: &TermStyle, text: &str, paint: Option<Paint>, bold: bool) -> String {
    let colour = paint.and_then(Paint::terminal);
    if style.colour == ColourDepth::None || (colour.is_none() && !bold) || text.is_empty() {
        return text.to_owned();
    }
    let mut out = String::new();
    if bold {
        out.push_str("\u{1b}[1m");
    }
    if let Some(colour) = colour {
        push_colour(&mut out, style.colour, colour, false);
    }
    out + text + "\u{1b}[0m"
}

fn push_colour(out: &mut String, depth: ColourDepth, colour: Rgb, background: bool) {
    let layer = if background { 48 } else { 38 };
    let written = match depth {
        ColourDepth::None => Ok(()),
        ColourDepth::Xterm256 => write!(out, "\u{1b}[{layer};5;{}m", colour.xterm256()),
        ColourDepth::TrueColour => write!(out, "\u{1b}[{layer};2;{};{};{}m", colour.0, colour.1, colour.2),
    };
    debug_assert!(written.is_ok(), "writing to a string does not fail");
}

/// One character cell of a terminal picture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Glyph {
    pub(crate) c: char,
    pub(crate) fore: Option<Rgb>,
    pub(crate) back: Option<Rgb>,
    pub(crate) bold: bool,
}

const BLANK: Glyph = Glyph { c: ' ', fore: None, back: None, bold: false };

/// A grid of characters that a picture is put together on.
#[derive(Clone, Debug)]
pub(crate) struct CharGrid {
    width: usize,
    cells: Vec<Glyph>,
}

impl CharGrid {
    pub(crate) fn new(width: usize, height: usize) -> Self {
        Self { width, cells: vec![BLANK; width * height] }
    }

    /// Sets a cell; outside the grid nothing happens.
    pub(crate) fn set(&mut self, column: usize, line: usize, glyph: Glyph) {
        if column < self.width
            && let Some(cell) = self.cells.get_mut(line * self.width + column)
        {
            *cell = glyph;
        }
    }

    pub(crate) fn get(&self, column: usize, line: usize) -> Option<Glyph> {
        if column < self.width { self.cells.get(line * self.width + column).copied() } else { None }
    }

    /// Writes `text` from `column` on, cut at the edge.
    pub(crate) fn text(&mut self, column: usize, line: usize, text: &str, paint: Option<Paint>, bold: bool) {
        let fore = paint.and_then(Paint::terminal);
        for (i, c) in text.chars().enumerate() {
            let c = if c == '\u{a0}' { ' ' } else { c };
            self.set(column + i, line, Glyph { c, fore, back: None, bold });
        }
    }

    /// The lines, without trailing blanks, colours switched only where they change.
    pub(crate) fn render(&self, style: &TermStyle) -> String {
        let mut out = String::new();
        for line in self.cells.chunks(self.width.max(1)) {
            let end = line.iter().rposition(|cell| *cell != BLANK).map_or(0, |last| last + 1);
            let look = |cell: &Glyph| (cell.fore, cell.back, cell.bold);
            let mut current = look(&BLANK);
            for cell in &line[..end] {
                if style.colour != ColourDepth::None && current != look(cell) {
                    if current != look(&BLANK) {
                        out.push_str("\u{1b}[0m");
                    }
                    if cell.bold {
                        out.push_str("\u{1b}[1m");
                    }
                    if let Some(colour) = cell.fore {
                        push_colour(&mut out, style.colour, colour, false);
                    }
                    if let Some(colour) = cell.back {
                        push_colour(&mut out, style.colour, colour, true);
                    }
                    current = look(cell);
                }
                out.push(if style.unicode { cell.c } else { ascii(cell.c) });
            }
            if current != look(&BLANK) {
                out.push_str("\u{1b}[0m");
            }
            out.push('\n');
        }
        out
    }
}

/// The ASCII replacement of a character that we draw with.
fn ascii(c: char) -> char {
    match c {
        c if c.is_ascii() => c,
        'µ' => 'u',
        '×' => 'x',
        '─' | '–' | '—' | '┄' | '╌' => '-',
        '│' | '┆' | '╎' => '|',
        '└' | '┤' | '┬' | '├' | '┴' | '┼' => '+',
        '·' | '⋯' | '…' => '.',
        '≈' | '∼' => '~',
        '●' => '*',
        '≤' => '<',
        '≥' => '>',
        _ => '?',
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_environment_decides_on_colour() {
        let detect = |colour, env: &[(&str, &str)]| {
            TermStyle::detect(colour, (80, 25), |name| {
                env.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned())
            })
        };
        assert_eq!(detect(true, &[("COLORTERM", "truecolor")]).colour, ColourDepth::TrueColour);
        assert_eq!(detect(true, &[("TERM", "xterm-direct")]).colour, ColourDepth::TrueColour);
        assert_eq!(detect(true, &[("TERM", "xterm")]).colour, ColourDepth::Xterm256);
        assert_eq!(detect(false, &[("COLORTERM", "24bit")]).colour, ColourDepth::None);
        assert!(detect(true, &[]).unicode);
        assert!(!detect(true, &[("LANG", "en_US.UTF-8"), ("LC_ALL", "C")]).unicode);
    }

    #[test]
    fn colours_switch_only_where_they_change() {
        let mut grid = CharGrid::new(4, 2);
        let red = Some(Rgb(255, 0, 0));
        grid.set(0, 0, Glyph { c: 'a', fore: red, back: None, bold: false });
        grid.set(1, 0, Glyph { c: 'b', fore: red, back: None, bold: false });
        grid.set(2, 0, Glyph { c: 'µ', fore: None, back: None, bold: false });
        let style = TermStyle { colour: ColourDepth::TrueColour, unicode: true, width: 4, height: 2 };
        assert_eq!(grid.render(&style), "\u{1b}[38;2;255;0;0mab\u{1b}[0mµ\n\n");
        let plain = TermStyle { colour: ColourDepth::None, unicode: false, ..style };
        assert_eq!(grid.render(&plain), "abu\n\n");
    }
}
