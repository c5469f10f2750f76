//! Engines of the kernel that a section configures, switches on, and switches off again.

mod damon;
mod error;
mod files;
mod module;
mod once;
mod proactive;
mod settings;
mod tiers;
mod time_to_live;

pub(super) use damon::Kdamond;
pub use error::EngineError;
pub(super) use module::Module;
pub use once::ModuleOnce;
pub(super) use proactive::Proactive;
pub(super) use tiers::Tiers;
pub(super) use time_to_live::{MIN_TTL, Thrashing, foretold, refuse_off};

use super::guard::Reach;
use super::line::Line;
use super::trouble::Trouble;
use super::{Knobs, System, SystemError};
use crate::changes::Refusal;
use crate::config::Config;

const STAT: &str = "/sys/module/damon_stat/parameters/enabled";

/// A file and the value written into it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Write {
    pub(super) path: String,
    pub(super) value: String,
    /// The file exists only because of an earlier write, and is removed with it.
    pub(super) is_within: bool,
}

impl Write {
    fn knob(path: impl Into<String>, value: impl Into<String>) -> Self {
        Self { path: path.into(), value: value.into(), is_within: false }
    }

    fn within(path: impl Into<String>, value: impl Into<String>) -> Self {
        Self { path: path.into(), value: value.into(), is_within: true }
    }

    pub(super) fn carry_out(&self, section: &str, knobs: &mut dyn Knobs) -> Result<(), Refusal> {
        let write = if self.is_within { Knobs::set_within } else { Knobs::set };
        write(knobs, section, &self.path, &self.value)
    }
}

/// State of an engine that is on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    Runs,
    /// It runs for targets that are no longer the right ones.
    Outdated,
    /// It has ended by itself, with the cause; it is restarted when possible.
    Ended(EngineError),
    /// Another program switched it off, and it stays off.
    SwitchedOff,
}

/// Work of an engine since it was switched on, by the kernel's counters.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    pub(super) asked_bytes: u64,
    pub(super) verified_bytes: u64,
    pub(super) words: Vec<String>,
}

/// An engine of the kernel.
pub(super) trait Kernel: std::fmt::Debug {
    /// Name, as `kernel: …`.
    fn engine(&self) -> &'static str;

    /// Why this engine was chosen.
    fn why(&self) -> String;

    /// Targets of the engine, as text.
    fn targets(&self) -> Vec<String>;

    /// What it can stall.
    fn reach(&self) -> Reach {
        Reach::machine()
    }

    /// Updates its targets. Returns lines about those that appeared and ended.
    fn follow(&mut self, config: &Config, world: &mut dyn System) -> Vec<Line>;

    /// All writes, in order, the switch last.
    ///
    /// # Errors
    /// Why the engine cannot be switched on here or now.
    fn writes(&mut self, world: &mut dyn System) -> Result<Vec<Write>, EngineError>;

    /// What the writes would do to the machine, as of the last [`writes`](Self::writes), if it can be foretold.
    fn forecast(&self) -> Option<String> {
        None
    }

    /// Checks, right after the writes, that the kernel has really started.
    ///
    /// # Errors
    /// Why not.
    fn begins(&mut self, world: &mut dyn System) -> Result<(), EngineError>;

    /// State of the engine, while it is on.
    ///
    /// # Errors
    /// The state cannot be read.
    fn standing(&mut self, world: &mut dyn System) -> Result<Standing, SystemError>;

    /// File with the id of its thread, whose CPU time is bounded; `None` if it has no thread of its own.
    fn thread_file(&self) -> Option<String> {
        None
    }

    /// Work of the engine so far; zero if that cannot be read.
    fn counts(&self, is_on: bool, world: &mut dyn System) -> Counts;

    /// Limitation of the engine while it runs.
    fn shortcoming(&self, world: &mut dyn System) -> Option<Trouble>;
}

/// The write that makes DAMON_STAT release DAMON, if it holds it.
///
/// # Errors
/// DAMON_STAT holds DAMON, and may not be stopped.
fn stat_write(takes: bool, world: &mut dyn System) -> Result<Option<Write>, EngineError> {
    match world.value(STAT)?.as_deref() {
        Some("Y") if takes => Ok(Some(Write::knob(STAT, "N"))),
        Some("Y") => Err(EngineError::StatHasDamon),
        _ => Ok(None),
    }
}
