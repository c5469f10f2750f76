//! `/proc/PID/smaps`. Reading it walks the page tables (docs/spec/live-linux.md#1-interfaces-that-show-accesses-or-page-state).

use crate::LiveError;
use crate::process::Process;
pub use isotherm_texts::smaps::{SmapsArea, VmFlags};
use isotherm_texts::{Strange, smaps as text};

/// All mappings of a process, ascending and disjoint.
///
/// # Errors
/// [`LiveError::Gone`], [`LiveError::Refused`], [`LiveError::Io`]; [`LiveError::Strange`] with the line.
pub fn smaps(process: &Process) -> Result<Vec<SmapsArea>, LiveError> {
    text::parse(&process.read("smaps")?)
        .map_err(|line| LiveError::strange(process.path("smaps"), Strange::new(line).to_string()))
}
