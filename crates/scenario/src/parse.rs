//! Scenario text ↔ types.

use crate::{Scenario, ScenarioError, validate};
use std::path::Path;

/// Reads and checks a scenario file.
///
/// # Errors
/// The first thing wrong, with file and line, what is allowed, and a suggestion for misspelt keys.
pub fn load(path: &Path) -> Result<Scenario, ScenarioError> {
    let text =
        std::fs::read_to_string(path).map_err(|source| ScenarioError::Io { path: path.to_path_buf(), source })?;
    parse_in(&text, &path.display().to_string(), path.parent().unwrap_or(Path::new("")))
}

/// Reads and checks scenario text; `name` stands in messages. Files of damo's that it names are looked for in the current folder.
///
/// # Errors
/// As [`load`].
pub fn parse(text: &str, name: &str) -> Result<Scenario, ScenarioError> {
    parse_in(text, name, Path::new(""))
}

/// Relative paths of files that monitors name start at `folder`.
fn parse_in(text: &str, name: &str, folder: &Path) -> Result<Scenario, ScenarioError> {
    let scenario: Scenario = toml::from_str(text).map_err(|error| syntax_error(text, name, &error))?;
    validate::validate(&scenario, text, name, folder)?;
    Ok(scenario)
}

/// Writes a scenario so that [`parse`] gives it back.
pub fn print(scenario: &Scenario) -> String {
    toml::to_string(scenario).expect("scenario types are TOML tables")
}

fn syntax_error(text: &str, name: &str, error: &toml::de::Error) -> ScenarioError {
    let place = error.span().map_or_else(|| name.to_owned(), |span| place(text, name, span.start));
    ScenarioError::Syntax { place, message: with_suggestion(error.message()) }
}

/// `name:line:column` of a byte offset.
pub(crate) fn place(text: &str, name: &str, offset: usize) -> String {
    let before = &text[..offset.min(text.len())];
    let line = before.matches('\n').count() + 1;
    let column = before.chars().rev().take_while(|&c| c != '\n').count() + 1;
    format!("{name}:{line}:{column}")
}

/// Adds "did you mean" to serde's "unknown field `x`, expected one of `a`, `b`".
pub(crate) fn with_suggestion(message: &str) -> String {
    let quoted: Vec<&str> = message.split('`').skip(1).step_by(2).collect();
    match quoted.split_first() {
        Some((wrong, allowed)) if message.starts_with("unknown") => {
            let suggestion = nearest(wrong, allowed.iter().copied());
            suggestion.map_or_else(|| message.to_owned(), |name| format!("{message}; did you mean `{name}`?"))
        }
        _ => message.to_owned(),
    }
}

/// The name most like `wrong`, if one is like it at all.
pub(crate) fn nearest<'a>(wrong: &str, names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let scored = names.map(|name| (strsim::damerau_levenshtein(wrong, name), name));
    scored.min_by_key(|&(distance, _)| distance).filter(|&(distance, _)| distance <= 3).map(|(_, name)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_misspelt_key_is_named_with_its_line_and_a_suggestion() {
        let text = "name = \"x\"\n[machine]\nswapines = 3\n";
        let message = parse(text, "s.toml").unwrap_err().to_string();
        assert!(message.starts_with("s.toml:3:1: unknown field `swapines`"), "{message}");
        assert!(message.ends_with("did you mean `swappiness`?"), "{message}");
    }

    #[test]
    fn garbage_and_truncation_are_errors_not_panics() {
        let text = "name = \"x\"\nlimit = \"75%\"\nworkloads = []\n[machine]\ncpus = 4\n";
        for end in 0..text.len() {
            let _ = parse(&text[..end], "t");
        }
        assert!(parse("\u{0}\u{1}", "t").is_err());
        assert!(parse("", "t").unwrap_err().to_string().contains("missing field `name`"));
    }
}
