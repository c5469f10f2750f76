//! Time and cost, as whoever drives the loop gives them.

use crate::{Duration, Instant};
use serde::{Deserialize, Serialize};

/// Time of the loop. A real one never goes back; a virtual one jumps to where it is told to sleep.
pub trait Clock {
    /// Time since the loop was started.
    fn now(&self) -> Instant;

    /// Sleeps until then; not at all if that has passed. May wake early.
    fn sleep_until(&mut self, until: Instant) -> Woken;
}

/// Why a sleep ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Woken {
    /// The time has come, or the sleep was cut short for no reason.
    Due,
    /// Whoever drives the loop wants it to end: a signal.
    Stopped,
    /// Whoever drives the loop wants its configuration to be read anew: SIGHUP, where it is caught.
    Reload,
}

/// What the watching costs.
pub trait Meter {
    /// CPU time that our own threads took so far, calls into the kernel included.
    fn spent(&mut self) -> Duration;
}
