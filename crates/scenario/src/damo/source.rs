//! The file of damo's that a monitor of a scenario names.

use super::{DamoMonitor, monitor_of};
use isotherm_trace::region::Warning;
use isotherm_trace::region::kdamonds::{Kdamonds, read_kdamonds};
use serde::{Deserialize, Serialize};
use std::path::Path;

/// A context of damo's `kdamonds`: `"FILE"`, or which of several: `{ file, kdamond, context }`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Written", into = "Written")]
pub struct DamoSource {
    /// Relative paths start at the folder of the scenario.
    pub file: String,
    /// Index of the kernel thread in the file, from 0. `None`: any; only one context may fit.
    pub kdamond: Option<usize>,
    /// Index of the context in its thread, from 0. `None`: any; only one context may fit.
    pub context: Option<usize>,
}

#[derive(Serialize, Deserialize)]
#[serde(untagged, expecting = "the name of a file, or a table with the keys `file`, `kdamond`, `context`")]
enum Written {
    File(String),
    Table(Chosen),
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Chosen {
    file: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    kdamond: Option<usize>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    context: Option<usize>,
}

impl From<Written> for DamoSource {
    fn from(written: Written) -> Self {
        match written {
            Written::File(file) => Self { file, kdamond: None, context: None },
            Written::Table(Chosen { file, kdamond, context }) => Self { file, kdamond, context },
        }
    }
}

impl From<DamoSource> for Written {
    fn from(source: DamoSource) -> Self {
        match source {
            DamoSource { file, kdamond: None, context: None } => Self::File(file),
            DamoSource { file, kdamond, context } => Self::Table(Chosen { file, kdamond, context }),
        }
    }
}

impl DamoSource {
    /// Reads it from below `folder`.
    ///
    /// # Errors
    /// A message with the file and the place in it.
    pub fn read(&self, folder: &Path) -> Result<DamoMonitor, String> {
        let kdamonds = read_file(&folder.join(&self.file))?;
        let in_file = |message: String| format!("{}: {message}", self.file);
        self.choose(&kdamonds).map_err(in_file)
    }

    fn choose(&self, kdamonds: &Kdamonds) -> Result<DamoMonitor, String> {
        let contexts = || {
            let all = kdamonds.kdamonds.iter().enumerate();
            all.flat_map(|(number, kdamond)| kdamond.contexts.iter().enumerate().map(move |(at, _)| (number, at)))
        };
        let is_meant = |&(kdamond, context): &(usize, usize)| {
            self.kdamond.is_none_or(|wanted| wanted == kdamond) && self.context.is_none_or(|wanted| wanted == context)
        };
        let meant: Vec<(usize, usize)> = contexts().filter(is_meant).collect();
        let &[(number, at)] = meant.as_slice() else {
            let table = |(kdamond, context)| format!("{{ kdamond = {kdamond}, context = {context} }}");
            let all: Vec<String> = contexts().map(table).collect();
            let all = if all.is_empty() { "none".to_owned() } else { all.join(", ") };
            let count = if meant.is_empty() { "no context" } else { "several contexts" };
            return Err(format!("{count} of it would be meant; it has: {all}. Name one beside `file`"));
        };
        let kdamond = &kdamonds.kdamonds[number];
        if kdamond.refresh_ns != 0 {
            return Err(format!(
                "`kdamonds[{number}].refresh_ms` is set; allowed: 0: there are no files to refresh here"
            ));
        }
        let place = format!("kdamonds[{number}].contexts[{at}]");
        monitor_of(&kdamond.contexts[at], &place).map_err(|error| error.to_string())
    }
}

/// Reads a file of damo's, all of whose keys are known.
///
/// # Errors
/// A message with the file and the place in it.
pub fn read_file(path: &Path) -> Result<Kdamonds, String> {
    let (kdamonds, warnings) = read_kdamonds(path).map_err(|error| chain(&error))?;
    match warnings.first() {
        None => Ok(kdamonds),
        Some(Warning::UnknownKey { key }) => {
            Err(format!("{}: `{key}` is a key that damo 3.4 does not have; correct it or take it out", path.display()))
        }
        Some(other) => Err(format!("{}: {other}", path.display())),
    }
}

/// An error and its causes, each once.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        let words = cause.to_string();
        if !text.ends_with(&words) {
            text = format!("{text}: {words}");
        }
        next = cause.source();
    }
    text
}
