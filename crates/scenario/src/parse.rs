//! Scenario text ↔ types.

use crate::validate::{self, Refused};
use crate::{Extensions, Scenario, ScenarioError};
use isotherm_core::monitor::OTHER_NAMES;
use isotherm_document::{Dialect, Document, Patches, print_as};
use std::path::Path;

/// Dialect of a scenario's text.
const DIALECT: Dialect =
    Dialect { other_names: OTHER_NAMES, patches: Some(Patches { list: "variants", key: "patch" }) };

/// Reads and checks a scenario file.
///
/// # Errors
/// The first error, with file, line and column, the allowed values, and a suggestion for misspelt keys.
pub fn load(path: &Path) -> Result<Scenario, ScenarioError> {
    load_with_note(path).map(|(scenario, _)| scenario)
}

/// As [`load`], with a note of one line for the user if a valid file spells its keys in the old way.
///
/// # Errors
/// As [`load`].
pub fn load_with_note(path: &Path) -> Result<(Scenario, Option<String>), ScenarioError> {
    load_extended(path, &Extensions::default())
}

/// As [`load_with_note`], for a scenario that may name policies and workloads that a program has added.
///
/// # Errors
/// As [`load`].
pub fn load_extended(path: &Path, extensions: &Extensions) -> Result<(Scenario, Option<String>), ScenarioError> {
    let read = std::fs::read(path).and_then(isotherm_trace::text_of);
    let text = read.map_err(|source| ScenarioError::Io { path: path.to_path_buf(), source })?;
    parse_in(&text, &path.display().to_string(), path.parent().unwrap_or(Path::new("")), extensions)
}

/// Reads and checks scenario text; `name` is for messages. Files of damo's are relative to the current folder.
///
/// # Errors
/// As [`load`].
pub fn parse(text: &str, name: &str) -> Result<Scenario, ScenarioError> {
    parse_extended(text, name, &Extensions::default())
}

/// As [`parse`], for a scenario that may name policies and workloads that a program has added.
///
/// # Errors
/// As [`load`].
pub fn parse_extended(text: &str, name: &str, extensions: &Extensions) -> Result<Scenario, ScenarioError> {
    parse_in(text, name, Path::new(""), extensions).map(|(scenario, _)| scenario)
}

/// Relative paths of files that monitors name start at `folder`.
fn parse_in(
    text: &str,
    name: &str,
    folder: &Path,
    extensions: &Extensions,
) -> Result<(Scenario, Option<String>), ScenarioError> {
    let document = Document::parse(text, name, DIALECT)?;
    let scenario: Scenario = document.read()?;
    validate::validate(&scenario, folder, &extensions.policies).map_err(|refused| {
        let Refused { scope, path, message } = refused;
        ScenarioError::Meaning { place: scope.place(&document, &path), message }
    })?;
    Ok((scenario, document.note()))
}

/// Writes a scenario so that [`parse`] gives it back.
pub fn print(scenario: &Scenario) -> String {
    print_as(scenario).expect("scenario types are TOML tables")
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
    fn numbers_are_those_of_toml() {
        let text = |number: &str| {
            format!(
                "name = \"x\"\n[machine]\n[[workloads]]\nname = \"w\"\n[workloads.load]\nkind = \"key-value\"\nfootprint = \"8MiB\"\n\
                 operations = {number}\n[[variants]]\nname = \"a\"\npatch = {{ limit = \"75%\" }}\n"
            )
        };
        for number in ["18446744073709551615", "9223372036854775808", "-9223372036854775809", "0xffffffffffffffff"] {
            let message = parse(&text(number), "s.toml").unwrap_err().to_string();
            assert!(message.starts_with("s.toml:8:14: ") && message.contains("9223372036854775807"), "{message}");
        }
        let most = parse(&text("9223372036854775807"), "s.toml").unwrap();
        assert_eq!(parse(&print(&most), "printed").unwrap(), most);
    }

    #[test]
    fn long_words_are_no_misspelt_names() {
        let long = "s".repeat(1 << 18);
        for text in [format!("[machine]\n'{long}' = 1\n"), format!("metrics = ['{long}']\npolicy = '{long}'\n")] {
            assert!(!parse(&text, "s.toml").unwrap_err().to_string().contains("did you mean"));
        }
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
