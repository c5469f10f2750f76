//! What verbs have in common: entries of a table by their names, and figures as a file.

use std::path::Path;

use isotherm_terminal::CliError;
use serde::Serialize;

/// The entries of a table that `names` name.
pub(super) fn named<'a, T>(
    names: &[String],
    table: &'a [T],
    name_of: impl Fn(&T) -> &str,
    flag: &str,
) -> Result<Vec<&'a T>, CliError> {
    let find = |name: &String| {
        table.iter().find(|entry| name_of(entry) == name).ok_or_else(|| {
            let known: Vec<&str> = table.iter().map(&name_of).collect();
            CliError::usage(format!("`{flag}` is `{name}`; allowed: {}", known.join(", ")))
        })
    };
    names.iter().map(find).collect()
}

/// Writes figures as JSON, if a file is named.
pub(super) fn write_json(path: Option<&Path>, results: &impl Serialize) -> Result<(), CliError> {
    let Some(path) = path else { return Ok(()) };
    let text = serde_json::to_string_pretty(results).map_err(CliError::failed)? + "\n";
    std::fs::write(path, text).map_err(|error| CliError::failed(format!("cannot write {}: {error}", path.display())))
}
