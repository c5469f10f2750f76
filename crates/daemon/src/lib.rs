//! The live loop: drives state machines over a host that is given to it, within a budget of CPU time. Time, host and meter are given
//! too: the crate has no clock, no files and no system call of its own, so that all of it runs in simulation.
//!
//! What is built so far is the half that watches. Nothing here changes a machine.

mod budget;
mod clock;
mod monitored;
mod source;
mod watch;

#[cfg(test)]
mod testkit;

pub use budget::{Budget, STRETCH_MAX};
pub use clock::{Clock, Meter, Woken};
pub use monitored::Monitored;
pub use source::{Finding, RegionLook, Source, SourceError};
pub use watch::{End, Heard, WatchOptions, Watched, watch};
