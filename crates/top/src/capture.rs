//! One screen as text, without a terminal.

use std::time::Duration;

use ratatui::buffer::Buffer;
use ratatui::crossterm::event::KeyEvent;
use ratatui::layout::Rect;

use crate::{Effect, Feed, FeedError, Look, State, draw};

/// Draws one screen of `width` × `height` as text: at the end of the feed, or at its last frame up to `until_ns`, after `keys`. Lines have
/// no trailing blanks, and no colours, for any `look`. A feed that waits for more (`None` before its end) ends the capture.
///
/// # Errors
/// When the feed fails.
pub fn capture(
    feed: &mut dyn Feed,
    keys: &[KeyEvent],
    until_ns: Option<u64>,
    (width, height): (u16, u16),
    look: Look,
) -> Result<String, FeedError> {
    let mut state = State::new(feed.name());
    while let Some(frame) = feed.next(Duration::ZERO)? {
        if until_ns.is_some_and(|until_ns| frame.at_ns > until_ns) && state.frame().is_some() {
            break;
        }
        state.push(frame);
    }
    if feed.is_at_end() {
        state.set_ended();
    }
    for &key in keys {
        if state.key(key) == Effect::Quit {
            break;
        }
    }
    let mut buffer = Buffer::empty(Rect::new(0, 0, width, height));
    draw(&state, &mut buffer, Look { colour: isotherm_report::ColourDepth::None, ..look });
    Ok(text(&buffer))
}

/// The characters of the buffer. A wide character hides the cell after it.
pub(crate) fn text(buffer: &Buffer) -> String {
    let mut out = String::new();
    for y in 0..buffer.area.height {
        let mut line = String::new();
        let mut x = 0;
        while x < buffer.area.width {
            let symbol = buffer[(x, y)].symbol();
            line.push_str(symbol);
            let columns = ratatui::text::Span::raw(symbol).width().max(1);
            x = x.saturating_add(u16::try_from(columns).unwrap_or(1));
        }
        out.push_str(line.trim_end());
        out.push('\n');
    }
    out
}
