//! Engines of the kernel that a section sets up, switches on, and switches off again.

mod damon;
mod files;
mod module;
mod once;
mod proactive;
mod settings;
mod tiers;

pub(super) use damon::Kdamond;
pub(super) use module::Module;
pub use once::ModuleOnce;
pub(super) use proactive::Proactive;
pub(super) use tiers::Tiers;

use super::line::Line;
use super::{Knobs, World};
use crate::config::Config;

const STAT: &str = "/sys/module/damon_stat/parameters/enabled";

/// A file and what is written into it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Write {
    pub(super) path: String,
    pub(super) value: String,
    /// The file is there only because of a write before this one, and goes with it.
    pub(super) is_within: bool,
}

impl Write {
    fn knob(path: impl Into<String>, value: impl Into<String>) -> Self {
        Self { path: path.into(), value: value.into(), is_within: false }
    }

    fn within(path: impl Into<String>, value: impl Into<String>) -> Self {
        Self { path: path.into(), value: value.into(), is_within: true }
    }

    pub(super) fn carry_out(&self, section: &str, knobs: &mut dyn Knobs) -> Result<(), String> {
        let write = if self.is_within { Knobs::set_within } else { Knobs::set };
        write(knobs, section, &self.path, &self.value)
    }
}

/// How an engine stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    Runs,
    /// It runs for others than those it should run for now.
    Outdated,
    /// It has ended by itself, and why: it is begun again when it can be.
    Ended(String),
    /// Somebody switched it off, who is not to be argued with.
    SwitchedOff,
}

/// What an engine has done since it was switched on, as the kernel counts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    pub(super) asked_bytes: u64,
    pub(super) verified_bytes: u64,
    pub(super) words: Vec<String>,
}

/// An engine of the kernel.
pub(super) trait Kernel: std::fmt::Debug {
    /// `kernel: …`.
    fn engine(&self) -> &'static str;

    /// Why it is the one.
    fn why(&self) -> String;

    /// Whom it acts on, in words.
    fn targets(&self) -> Vec<String>;

    /// Looks for whom there is. Told are those who came and went.
    fn follow(&mut self, config: &Config, world: &mut dyn World) -> Vec<Line>;

    /// All that has to be written, in its order, the switch last.
    ///
    /// # Errors
    /// Why it cannot be switched on here or now, in words.
    fn writes(&mut self, world: &mut dyn World) -> Result<Vec<Write>, String>;

    /// Looks whether the kernel has really begun, right after the writes.
    ///
    /// # Errors
    /// Why not.
    fn begins(&mut self, world: &mut dyn World) -> Result<(), String>;

    /// How it stands, while it is on.
    ///
    /// # Errors
    /// It cannot be told.
    fn standing(&mut self, world: &mut dyn World) -> Result<Standing, String>;

    /// The file that holds the number of its thread, whose CPU time is bounded; `None`: it has none of its own.
    fn thread_file(&self) -> Option<String> {
        None
    }

    /// What it has done so far. Nothing, where that cannot be read.
    fn counts(&self, is_on: bool, world: &mut dyn World) -> Counts;

    /// What keeps it from what it is for while it runs, in words.
    fn shortcoming(&self, world: &mut dyn World) -> Option<String>;
}

/// The write that takes DAMON from DAMON_STAT, if that has it.
///
/// # Errors
/// It has it, and may not be taken away.
fn stat_write(takes: bool, world: &mut dyn World) -> Result<Option<Write>, String> {
    match world.value(STAT)?.as_deref() {
        Some("Y") if takes => Ok(Some(Write::knob(STAT, "N"))),
        Some("Y") => Err("DAMON_STAT has DAMON, which has one user at a time: take-damon-stat = true takes it away \
                          meanwhile"
            .to_owned()),
        _ => Ok(None),
    }
}
