//! Page traces of processes that run already, by scans of accessed bits: no emulator, no restart, and the program is hardly slowed down.
//!
//! Each epoch all pages of the processes are looked at whether they were used, and the bits are cleared. What was used within an epoch
//! has no order, and threads of one process cannot be told apart: docs/use/recording.md#running-processes says what that means.
//!
//! Who looks, time and meter are given, so that tests need no kernel.

mod changes;
mod eyes;
mod rows;
mod session;
#[cfg(test)]
mod tests;

pub use eyes::{Bits, Change, Eyes, LookError, Who};
pub use session::{AccessedOptions, AccessedRecording, AccessedReport, record_accessed};
