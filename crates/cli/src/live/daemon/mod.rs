//! The daemon on this machine: its configuration, lock, output, and inputs.

mod audit;
mod configuration;
mod control;
mod files;
mod journald;
mod kill_facts;
mod leftovers;
mod machine;
mod manager;
mod merged_files;
mod metrics;
mod served;
mod socket;
mod tape;

pub(crate) use audit::{AUDIT, Audit, pace_words, stalled_words};
pub(crate) use configuration::{
    Configuration, DIALECT, configuration, configuration_alone, files as configuration_files,
};
pub(crate) use control::{Answer, Ask, Control, Desk, Heard, ask};
pub(crate) use files::{Lock, RUN, Running, StatusFile, Told, told};
pub(crate) use leftovers::take_back;
pub(crate) use machine::{DaemonClock, Machine};
pub(crate) use manager::Manager;
pub(crate) use metrics::{Exporter, InForce, Served, checksum};
pub(crate) use tape::tape;
