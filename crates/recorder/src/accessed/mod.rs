//! Page traces of running processes, by scans of accessed bits: no emulator, no restart, and hardly any slowdown.
//!
//! In each epoch the accessed bits of all pages of the processes are read and cleared. Accesses within an epoch have no order, and
//! threads of one process cannot be distinguished: docs/use/recording.md#running-processes says what that means.
//!
//! The caller provides scanner, time and meter, so that tests need no kernel.

mod changes;
mod rows;
mod scanner;
mod session;
#[cfg(test)]
mod tests;

pub use scanner::{BitScanner, Bits, Change, LookError, Who};
pub use session::{AccessedOptions, AccessedRecording, AccessedReport, record_accessed};
