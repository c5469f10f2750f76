//! The daemon on this machine: its configuration, lock, output, and inputs.

mod audit;
mod configuration;
mod files;
mod joined;
mod journald;
mod left;
mod machine;
mod manager;
mod metrics;
mod tape;

pub(crate) use audit::{AUDIT, Audit};
pub(crate) use configuration::{Configuration, configuration, configuration_alone, files as configuration_files};
pub(crate) use files::{Lock, RUN, Running, StatusFile, Told, told};
pub(crate) use left::take_back;
pub(crate) use machine::{DaemonClock, Machine};
pub(crate) use manager::Manager;
pub(crate) use metrics::{Exporter, InForce, checksum};
pub(crate) use tape::tape;
