//! Characters and colours on a buffer, limited to the terminal's capabilities.

use isotherm_report::{ColourDepth, Rgb, Unit};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Color, Modifier, Style};

use super::Look;

/// A buffer, and the capabilities of its terminal.
pub(super) struct Canvas<'a> {
    buffer: &'a mut Buffer,
    pub(super) look: Look,
}

impl<'a> Canvas<'a> {
    pub(super) fn new(buffer: &'a mut Buffer, look: Look) -> Self {
        Self { buffer, look }
    }

    /// Writes `text` at `column` of line `line` of `area`, cut at the area's edge; beyond the area nothing happens.
    pub(super) fn text(&mut self, area: Rect, (column, line): (u16, u16), text: &str, style: Style) {
        if line < area.height && column < area.width {
            let room = usize::from(area.width - column);
            self.buffer.set_stringn(area.x + column, area.y + line, text, room, style);
        }
    }

    /// Sets the style of a whole area.
    pub(super) fn fill(&mut self, area: Rect, style: Style) {
        self.buffer.set_style(area, style);
    }

    /// Replaces characters that an ASCII terminal lacks, and removes colours if it has none.
    pub(super) fn finish(self) {
        for cell in &mut self.buffer.content {
            if !self.look.unicode && !cell.symbol().is_ascii() {
                cell.set_symbol(ascii(cell.symbol()));
            }
            if self.look.colour == ColourDepth::None {
                cell.set_fg(Color::Reset).set_bg(Color::Reset);
            }
        }
    }

    /// A colour as near as the terminal has it.
    pub(super) fn colour(&self, colour: Rgb) -> Color {
        match self.look.colour {
            ColourDepth::None => Color::Reset,
            ColourDepth::TrueColour => Color::Rgb(colour.0, colour.1, colour.2),
            ColourDepth::Xterm256 => {
                // The 6×6×6 cube of xterm: channels 0, 95, 135, 175, 215, 255.
                let step = |channel: u8| if channel < 48 { 0 } else { channel.saturating_sub(35) / 40 };
                Color::Indexed(16 + 36 * step(colour.0) + 6 * step(colour.1) + step(colour.2))
            }
        }
    }
}

fn ascii(symbol: &str) -> &'static str {
    match symbol {
        "░" => ".",
        "▒" => "=",
        "▓" => "*",
        "█" => "#",
        "▁" | "▂" | "▃" => ".",
        "▄" | "▅" => ":",
        "▆" | "▇" => "|",
        "─" => "-",
        "▸" | "→" => ">",
        "←" => "<",
        "·" => " ",
        _ => "?",
    }
}

pub(super) const PLAIN: Style = Style::new();
pub(super) const BOLD: Style = Style::new().add_modifier(Modifier::BOLD);
pub(super) const DIM: Style = Style::new().add_modifier(Modifier::DIM);
pub(super) const REVERSED: Style = Style::new().add_modifier(Modifier::REVERSED);

/// A size for people, `-` if unknown.
pub(super) fn bytes(value: Option<u64>) -> String {
    value.map_or_else(|| "-".to_owned(), |value| Unit::Bytes.approx(value as f64))
}

/// A share for people, `-` if unknown.
pub(super) fn ppm(value: Option<u64>) -> String {
    value.map_or_else(|| "-".to_owned(), |value| Unit::Ppm.approx(value as f64))
}

/// A time for people.
pub(super) fn time(value_ns: u64) -> String {
    Unit::Ns.approx(value_ns as f64)
}
