//! Right-sizing: finds the least `memory.high` of a group at which the group itself is not harmed (docs/right-sizing.md).
//!
//! A [`Controller`] is asked at intervals, with what the group has used, how long its tasks waited for memory and how many of its pages
//! came back. It answers with the limit to set. It squeezes a little at a time while all is well, gives back faster than it took when it
//! hurts, and waits longer after each harm. All of it is integer arithmetic on what it is told.

mod config;
mod controller;
#[cfg(test)]
mod tests;

pub use config::{Goal, LimitConfig, LimitError, Rate};
pub use controller::{Controller, Decision, LimitReason, Reading};
