//! The live loop: drives state machines over a host, within a budget of CPU time. The caller provides time, host and meter. The crate has
//! no clock, no files and no system calls of its own, so all of it runs in simulation.
//!
//! Monitoring changes nothing; every change goes through [`changes`].

pub mod changes;
pub mod config;
pub mod control_loop;
pub mod metrics;
mod monitored;
mod source;
pub mod tape;
pub mod trial;
mod watch;

#[cfg(test)]
mod testkit;

pub use monitored::Monitored;
pub use source::{Finding, RegionLook, Source, SourceError};
pub use watch::{End, Heard, WatchOptions, Watched, watch};
