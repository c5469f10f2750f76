//! The configuration file, and the folder of further files next to it.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use isotherm_core::monitor::OTHER_NAMES;
use isotherm_daemon::config::{Config, Contradiction};
use isotherm_document::{Dialect, Misfit, parse_as};

use super::merged_files::Joined;
use crate::error::CliError;
use crate::live::private_file;

/// Dialect of a configuration's text.
pub(crate) const DIALECT: Dialect = Dialect { other_names: OTHER_NAMES, patches: None };

/// Default path.
const CONFIG: &str = "/etc/isotherm/isotherm.toml";
/// Most files in `conf.d`.
const FILES_MAX: usize = 1000;
/// Largest configuration file, in bytes.
const BYTES_MAX: u64 = 1 << 20;

/// For `#[command(flatten)]`.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Configuration {
    /// The live configuration. Files `*.toml` of the folder `conf.d` in the same folder are read after it, in the order of their names.
    #[arg(value_name = "CONFIG", default_value = CONFIG)]
    pub(crate) file: PathBuf,
}

/// The files of a configuration: the given file, and the files of `conf.d` next to it, sorted by name.
pub(crate) fn files(path: &Path) -> Result<Vec<PathBuf>, CliError> {
    let mut files = vec![path.to_owned()];
    let folder = path.parent().unwrap_or(Path::new(".")).join("conf.d");
    let listed = match std::fs::read_dir(&folder) {
        Ok(listed) => listed,
        Err(error) if [ErrorKind::NotFound, ErrorKind::NotADirectory].contains(&error.kind()) => return Ok(files),
        Err(error) => return Err(CliError::failed(error).while_doing(format!("cannot list {}", folder.display()))),
    };
    let is_toml = |path: &PathBuf| path.extension().is_some_and(|extension| extension == "toml");
    let mut more: Vec<PathBuf> = listed.filter_map(|entry| Some(entry.ok()?.path())).filter(is_toml).collect();
    if more.len() > FILES_MAX {
        let message = format!("{} has {} files; allowed: up to {FILES_MAX}", folder.display(), more.len());
        return Err(CliError::usage(message));
    }
    more.sort_unstable();
    files.extend(more);
    Ok(files)
}

/// Reads and checks a configuration with the files of `conf.d` next to it. If a section may act, only root may be able to write the
/// files: other writers could make the daemon act.
pub(crate) fn configuration(path: &Path) -> Result<Config, CliError> {
    read(&files(path)?)
}

/// The same for a single file.
pub(crate) fn configuration_alone(path: &Path) -> Result<Config, CliError> {
    read(&[path.to_owned()])
}

fn read(files: &[PathBuf]) -> Result<Config, CliError> {
    let mut joined = Joined::default();
    let mut texts = Vec::new();
    let mut open_to_others = None;
    for path in files {
        let named = |error: std::io::Error| {
            let what = format!("cannot read {}", path.display());
            match error.kind() {
                ErrorKind::InvalidInput => CliError::usage(format!("{what}: {error}")),
                ErrorKind::NotFound => CliError::usage(format!("{what}: there is no such file; name one: CONFIG")),
                _ => CliError::failed(error).while_doing(what),
            }
        };
        let (text, is_shared) = private_file::read(path, BYTES_MAX).map_err(named)?;
        if is_shared {
            open_to_others.get_or_insert(path);
        }
        let name = path.display().to_string();
        if let Some(line) = escaped(&text) {
            return Err(CliError::usage(format!(
                "{name}:{line}: in \"…\" TOML reads `\\x2d` as `-`, and names of systemd's groups have these four characters: write the \
                 name in '…'"
            )));
        }
        // Errors for unknown keys and invalid values give places in this file.
        parse_as::<Config>(&text, &name, DIALECT, |_| Ok(())).map_err(CliError::usage)?;
        joined.add(toml::from_str(&text).map_err(CliError::usage)?);
        texts.push((name, text));
    }
    let config: Config = joined.table().try_into().map_err(CliError::usage)?;
    config.check().map_err(|wrong| CliError::usage(said(&wrong, &joined, &texts)))?;
    if let Some(path) = open_to_others.filter(|_| config.is_acting()) {
        return Err(CliError::usage(format!(
            "{} can be written by others, or its folder can, and has a section with enable = true; both must be root's, or yours, alone: \
             chmod go-w {0}",
            path.display()
        )));
    }
    Ok(config)
}

/// The first line in which a string with double quotes has an escape by number, which no name or value needs.
fn escaped(text: &str) -> Option<usize> {
    let has_escape = |line: &str| {
        let mut is_inside = false;
        let mut letters = line.chars().peekable();
        while let Some(letter) = letters.next() {
            match letter {
                '"' => is_inside = !is_inside,
                '#' if !is_inside => return false,
                // In a string with single quotes nothing is escaped.
                '\'' if !is_inside => drop(letters.by_ref().find(|&letter| letter == '\'')),
                '\\' if is_inside && letters.next() == Some('x') => return true,
                _ => {}
            }
        }
        false
    };
    text.lines().position(has_escape).map(|index| index + 1)
}

/// An error with its place in the file that it comes from, and the place of the other side.
fn said(wrong: &Contradiction, joined: &Joined, texts: &[(String, String)]) -> String {
    let (file, key) = joined.origin(&wrong.key);
    let other = wrong.other.as_deref().map(|other| joined.origin(other));
    let message = |place: &(usize, String), other: Option<String>, message: &str| {
        let (name, text) = &texts[place.0];
        let misfit = || Misfit { key: place.1.clone(), other: other.clone(), message: message.to_owned() };
        parse_as::<Config>(text, name, DIALECT, |_| Err(misfit()))
            .err()
            .map_or_else(String::new, |error| error.to_string())
    };
    match other {
        Some(other) if other.0 != file => {
            let elsewhere = message(&other, None, "");
            let elsewhere = elsewhere.trim_end_matches([':', ' ']);
            message(&(file, key), None, &format!("{} (the other: {elsewhere})", wrong.message))
        }
        other => message(&(file, key), other.map(|(_, key)| key), &wrong.message),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_systemd_are_not_unescaped_in_silence() {
        for (text, line) in [
            ("a = 1\ntarget = \"/app.slice/a\\x2db.scope\"\n", Some(2)),
            ("target = ['/x', \"a\\x2db\"]", Some(1)),
            ("target = '/app.slice/a\\x2db.scope'", None),
            ("# \"a\\x2db\"\ntarget = \"a # \\\\x2d\"", None),
            ("a = \"\\n\"", None),
            ("", None),
        ] {
            assert_eq!(escaped(text), line, "{text}");
        }
    }
}
