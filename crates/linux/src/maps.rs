//! `/proc/PID/maps`.

use crate::LiveError;
use crate::process::Process;
pub use isotherm_texts::maps::Mapping;
use isotherm_texts::{Strange, maps as text};

/// All mappings of a process, ascending and disjoint. The kernel returns the text in pieces. After a change in between, addresses below
/// show the old state, and addresses above the new one.
///
/// # Errors
/// [`LiveError::Gone`], [`LiveError::Refused`], [`LiveError::Io`]; [`LiveError::Strange`] with the line.
pub fn maps(process: &Process) -> Result<Vec<Mapping>, LiveError> {
    text::parse(&process.read("maps")?)
        .map_err(|line| LiveError::strange(process.path("maps"), Strange::new(line).to_string()))
}
