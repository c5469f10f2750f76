//! Scenario text ↔ types.

use crate::culprit::culprit;
use crate::document::{Document, Scope};
use crate::keypath::KeyPath;
use crate::reading::{ReadError, read_plain};
use crate::validate::{self, Refused};
use crate::{Extensions, Scenario, ScenarioError, writing};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::path::Path;

/// Reads and checks a scenario file.
///
/// # Errors
/// The first error, with file, line and column, the allowed values, and a suggestion for misspelt keys.
pub fn load(path: &Path) -> Result<Scenario, ScenarioError> {
    load_with_note(path).map(|(scenario, _)| scenario)
}

/// As [`load`]; with a note of one line for the user if a valid file spells its keys in the old way.
///
/// # Errors
/// As [`load`].
pub fn load_with_note(path: &Path) -> Result<(Scenario, Option<String>), ScenarioError> {
    load_extended(path, &Extensions::default())
}

/// As [`load_with_note`]; a scenario that may name policies and workloads that a program has added.
///
/// # Errors
/// As [`load`].
pub fn load_extended(path: &Path, extensions: &Extensions) -> Result<(Scenario, Option<String>), ScenarioError> {
    let text =
        std::fs::read_to_string(path).map_err(|source| ScenarioError::Io { path: path.to_path_buf(), source })?;
    parse_in(&text, &path.display().to_string(), path.parent().unwrap_or(Path::new("")), extensions)
}

/// Reads and checks scenario text; `name` is for messages. Files of damo's are relative to the current folder.
///
/// # Errors
/// As [`load`].
pub fn parse(text: &str, name: &str) -> Result<Scenario, ScenarioError> {
    parse_extended(text, name, &Extensions::default())
}

/// As [`parse`]; a scenario that may name policies and workloads that a program has added.
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
    let document = Document::parse(text, name)?;
    let scenario: Scenario = document.read().map_err(|error| type_error::<Scenario>(&document, &error))?;
    validate::validate(&scenario, folder, &extensions.policies).map_err(|refused| {
        let Refused { scope, path, message } = refused;
        ScenarioError::Meaning { place: document.place(scope, &path), message }
    })?;
    Ok((scenario, document.note()))
}

/// An error in a document that could be parsed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Misfit {
    /// The key, from the root on: `generations[1].targets[0]`.
    pub key: String,
    /// Another key that it disagrees with.
    pub other: Option<String>,
    pub message: String,
}

/// Reads another TOML document than a scenario, and checks it, with errors like those of scenarios.
///
/// # Errors
/// As [`load`]; where two keys disagree both places are named.
pub fn parse_as<T: DeserializeOwned>(
    text: &str,
    name: &str,
    check: impl Fn(&T) -> Result<(), Misfit>,
) -> Result<T, ScenarioError> {
    let document = Document::parse(text, name)?;
    let read: T = document.read().map_err(|error| type_error::<T>(&document, &error))?;
    check(&read).map_err(|Misfit { key, other, message }| {
        let place = |key: String| document.place(Scope::Whole, &key.into());
        let other = other.map_or_else(String::new, |other| format!(" (the other: {})", place(other)));
        ScenarioError::Meaning { place: place(key), message: format!("{message}{other}") }
    })?;
    Ok(read)
}

/// Writes a scenario so that [`parse`] gives it back.
pub fn print(scenario: &Scenario) -> String {
    writing::text(scenario).expect("scenario types are TOML tables")
}

/// Another TOML document than a scenario, as text that [`parse_as`] reads.
///
/// # Errors
/// A message: it is no table, or holds a value that TOML cannot express.
pub fn print_as<T: Serialize>(document: &T) -> Result<String, String> {
    writing::text(document).map_err(|error| error.to_string())
}

/// The error of a document that is no scenario. Serde reports the place, but for tables that it buffered only where they begin;
/// there the key is found by trying.
fn type_error<T: DeserializeOwned>(document: &Document<'_>, error: &ReadError) -> ScenarioError {
    let container = error.span().and_then(|span| document.container_at(&span));
    let key = container.and_then(|container| {
        let whole: toml::Value = document.read().ok()?;
        let refusal = |whole: &toml::Value| read_plain::<T>(whole).err().map(|error| error.message().to_owned());
        let key = culprit(&whole, container.clone(), &refusal);
        (key != container).then_some(key)
    });
    let place = match (key, error.span()) {
        (Some(key), _) => place_of_refused(document, &key, error.message()),
        (None, Some(span)) => document.at(span.start),
        (None, None) => document.place(Scope::Whole, &KeyPath::root()),
    };
    ScenarioError::Syntax { place, message: with_suggestion(error.message()) }
}

/// Serde reports the place of unknown keys and of invalid values.
fn place_of_refused(document: &Document<'_>, key: &KeyPath, message: &str) -> String {
    if message.starts_with("unknown field") { document.place(Scope::Whole, key) } else { document.place_of_value(key) }
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

/// Longest word that is taken for a misspelt name, in bytes: comparing takes the product of both lengths.
const WORD_MAX: usize = 100;

/// The name most like `wrong`, if one is similar.
pub(crate) fn nearest<'a>(wrong: &str, names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let names = names.filter(|name| wrong.len().max(name.len()) <= WORD_MAX);
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
        assert_eq!(nearest("swapines", ["swappiness", &"s".repeat(1 << 20)].into_iter()), Some("swappiness"));
        let long = "s".repeat(1 << 18);
        for text in [format!("[machine]\n'{long}' = 1\n"), format!("metrics = ['{long}']\npolicy = '{long}'\n")] {
            assert!(!parse(&text, "s.toml").unwrap_err().to_string().contains("did you mean"));
        }
    }

    #[test]
    fn deep_nesting_is_refused_whatever_stands_in_it() {
        for open in ["[", "{ a = ", "[{ a = ", "{ a = [1] [b]\n c = ", "{ a = 1\n[[w]]\nc = "] {
            let text = format!("name = {}", open.repeat(20_000));
            let message = parse(&text, "s.toml").unwrap_err().to_string();
            assert!(message.contains("nested more than 200 deep"), "{open}: {message}");
        }
        let fine = format!("name = \"x\"\n# {}\ntitle = \"{}\"\n", "[".repeat(300), "{".repeat(300));
        assert!(parse(&fine, "s.toml").unwrap_err().to_string().contains("missing field"));
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
