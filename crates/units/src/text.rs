//! Text that comes from outside: names of programs and groups, notes in files.

use std::borrow::Cow;

/// The text without what steers a terminal: control characters and changes of the writing direction become `?`.
pub fn printable(text: &str) -> Cow<'_, str> {
    replaced(text, is_steering)
}

/// The same for several lines: line breaks stay.
pub fn printable_lines(text: &str) -> Cow<'_, str> {
    replaced(text, |c| is_steering(c) && c != '\n')
}

fn replaced(text: &str, is_bad: impl Fn(char) -> bool) -> Cow<'_, str> {
    if text.chars().any(&is_bad) {
        text.chars().map(|c| if is_bad(c) { '?' } else { c }).collect::<String>().into()
    } else {
        text.into()
    }
}

/// Control characters, and characters that embed or override a direction (Unicode, bidirectional algorithm).
fn is_steering(c: char) -> bool {
    c.is_control() || matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_steers_a_terminal() {
        let name = "/u/web-\u{1b}]0;OWNED\u{7}\u{1b}[2J\u{202e}x\u{9b}1m\n";
        assert_eq!(printable(name), "/u/web-?]0;OWNED??[2J?x?1m?");
        assert_eq!(printable_lines("a\nb\tc\r"), "a\nb?c?");
        assert!(matches!(printable("größe 😀"), Cow::Borrowed("größe 😀")));
    }
}
