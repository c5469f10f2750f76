//! Right-sizing: finds the least `memory.high` of a group that keeps harm below a goal.
//!
//! Harm is measured on the group itself: its memory pressure (`some`) and its refaults. While both are well below the goal, the limit is
//! lowered by a small share of the memory in use. Above the goal it is raised at once, by more the greater the harm, and the next squeeze
//! has to wait. [`Controller`] decides from one [`Observation`] an interval, without I/O; [`LimitsDaemon`] reads the gauges and writes the
//! limit. Keys, decisions and limitations: `docs/use/right-sizing.md`.

mod config;
mod controller;
mod daemon;
mod decision_counts;
mod explain;
#[cfg(test)]
mod fake;
#[cfg(test)]
mod tests;

pub use config::{Goal, LimitsConfig, LimitsError, Rate};
pub use controller::{Controller, Decision, Observation};
pub use daemon::{LimitsDaemon, LimitsStep};
pub use decision_counts::{LIMIT_REASONS, LimitAction, LimitReason, LimitsWhy};
pub use explain::explain_limits;
#[cfg(test)]
pub(crate) use fake::FakeGroup;
