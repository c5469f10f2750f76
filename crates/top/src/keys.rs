//! Keys written as text, as `--keys` takes them.

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

/// Why a text is no list of keys.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no key; allowed: characters, and <{list}>", list = NAMES.map(|(name, _)| name).join(">, <"))]
pub struct KeysError(String);

const NAMES: [(&str, KeyCode); 13] = [
    ("enter", KeyCode::Enter),
    ("esc", KeyCode::Esc),
    ("tab", KeyCode::Tab),
    ("backspace", KeyCode::Backspace),
    ("up", KeyCode::Up),
    ("down", KeyCode::Down),
    ("left", KeyCode::Left),
    ("right", KeyCode::Right),
    ("home", KeyCode::Home),
    ("end", KeyCode::End),
    ("pageup", KeyCode::PageUp),
    ("pagedown", KeyCode::PageDown),
    ("lt", KeyCode::Char('<')),
];

/// The keys that `text` lists: `jj<enter>`. Special keys are in angle brackets; `<lt>` is the character `<`.
///
/// # Errors
/// When a name in brackets is not known or a bracket is not closed.
pub fn parse_keys(text: &str) -> Result<Vec<KeyEvent>, KeysError> {
    let mut keys = Vec::new();
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        rest = &rest[c.len_utf8()..];
        let code = if c == '<' {
            let (name, after) = rest.split_once('>').ok_or_else(|| KeysError(format!("<{rest}")))?;
            rest = after;
            let known = NAMES.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
            known.ok_or_else(|| KeysError(format!("<{name}>")))?.1
        } else {
            KeyCode::Char(c)
        };
        keys.push(KeyEvent::new(code, KeyModifiers::NONE));
    }
    Ok(keys)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_read_or_named_in_the_complaint() {
        let codes = |text| parse_keys(text).map(|keys| keys.iter().map(|key| key.code).collect::<Vec<_>>());
        assert_eq!(
            codes("jé<Enter><lt>").unwrap(),
            [KeyCode::Char('j'), KeyCode::Char('é'), KeyCode::Enter, KeyCode::Char('<')]
        );
        assert_eq!(codes("").unwrap(), []);
        for (text, named) in [("<fly>", "`<fly>`"), ("j<enter", "`<enter`"), ("<", "`<`"), ("<>", "`<>`")] {
            assert!(codes(text).unwrap_err().to_string().starts_with(named), "{text}");
        }
    }
}
