//! Time and cost, provided by the driver of the loop.

use crate::{Duration, Instant};
use serde::{Deserialize, Serialize};

/// Time of the loop. A real clock never goes back; a virtual one jumps to the end of each sleep.
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
    /// The time has come, or the sleep ended early without a cause.
    Due,
    /// The driver of the loop asked it to end: a signal.
    Stopped,
    /// The driver of the loop asked it to read its configuration again: SIGHUP, where it is caught.
    Reload,
    /// The driver of the loop asked for the current state.
    Asked,
}

/// Cost of monitoring.
pub trait Meter {
    /// CPU time used by our own threads so far, system calls included.
    fn spent(&mut self) -> Duration;

    /// The same with threads whose work is not monitoring.
    fn total(&mut self) -> Duration {
        self.spent()
    }
}
