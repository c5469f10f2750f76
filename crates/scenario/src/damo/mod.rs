//! damo's `kdamonds` as monitors with schemes, both ways.
//!
//! [`monitor_of`] takes over a context of a file that [`isotherm_trace::region::kdamonds`] has read, [`context_of`] writes a monitor as
//! one. A value that the other format cannot express is refused with its place and the allowed values: no value is left out. Monitors of
//! scenarios name such a file by `damo = "…"` ([`DamoSource`]). The mapping of keys: `docs/mechanism/schemes.md`.

mod export;
mod place;
mod read;
mod source;
mod write;

pub use export::{Exported, export};
pub use read::{DamoMonitor, monitor_of, watching_of};
pub use source::{DamoSource, read_file};
pub use write::context_of;

use isotherm_core::schemes::{ACTIONS, FILTER_TYPES, METRICS};

/// A value that cannot be taken over or written: its place, and the allowed values.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{place}` is {got}; allowed: {allowed}")]
pub struct DamoError {
    /// The key with all that leads to it: `kdamonds[0].contexts[0].schemes[1].action`.
    pub place: String,
    pub got: String,
    /// The values it may have.
    pub allowed: String,
}

impl DamoError {
    fn new(place: impl Into<String>, got: impl std::fmt::Display, allowed: impl Into<String>) -> Self {
        Self { place: place.into(), got: got.to_string(), allowed: allowed.into() }
    }
}

/// Our name in damo's spelling.
fn damo_name(name: &str) -> String {
    name.replace('-', "_")
}

fn joined(names: impl Iterator<Item = &'static str>) -> String {
    names.map(damo_name).collect::<Vec<_>>().join(", ")
}

fn actions() -> String {
    joined(ACTIONS.iter().map(|entry| entry.name))
}

fn metrics() -> String {
    joined(METRICS.iter().map(|entry| entry.name))
}

fn filter_types() -> String {
    joined(FILTER_TYPES.iter().map(|entry| entry.name))
}
