//! `/proc/PID/maps`.

use crate::LiveError;
use crate::process::Process;
pub use isotherm_texts::maps::Mapping;
use isotherm_texts::{Strange, maps as text};

/// All mappings of a process, ascending and disjoint. The kernel hands out the text piece by piece: of what changes meanwhile, the part
/// below is as it was, and the part above as it is.
///
/// # Errors
/// [`LiveError::Gone`], [`LiveError::Refused`], [`LiveError::Io`]; [`LiveError::Strange`] with the line.
pub fn maps(process: &Process) -> Result<Vec<Mapping>, LiveError> {
    text::parse(&process.read("maps")?)
        .map_err(|line| LiveError::strange(process.path("maps"), Strange::new(line).to_string()))
}
