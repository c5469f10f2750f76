//! The loop that acts: sections over groups of a live machine, each behind a gate that lets through what is allowed, and writes down what
//! was done (docs/spec/live.md#7-loop).
//!
//! It has no clock, no file and no system call: all comes through [`Clock`](crate::Clock), [`World`], [`Log`] and the host.

mod compaction;
mod gate;
mod generations;
mod guard;
mod kernel;
mod kinds;
mod limits;
mod line;
mod own;
mod section;
mod steering;
mod switch;
#[cfg(test)]
mod tests;
mod whom;

pub(crate) use guard::Guard;
pub use kernel::ModuleOnce;
pub use line::{Act, Effect, Line, SectionStatus, Status, Texts};
pub use steering::{Ended, Outside, SteerError, Steered, steer};

use crate::config::{Config, Target};
use crate::hands::{Hands, Returned, Store, Taken, same_value};
use isotherm_core::compaction::{HUGE_ORDER, node_score};
use isotherm_core::host::{AddressRange, Adopting, Compacting, GenerationsHost, MonitorHost, PromotionHost, ZoneState};
use isotherm_units::{Bytes, Duration};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// What the loop asks of a machine's memory.
pub trait SteerHost: GenerationsHost + Compacting + MonitorHost + PromotionHost + Adopting {}
impl<H: GenerationsHost + Compacting + MonitorHost + PromotionHost + Adopting> SteerHost for H {}

/// A group of a machine.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Member {
    /// As in `/proc/PID/cgroup`.
    pub path: String,
    /// Numbers of its own processes, not of those in groups below.
    pub processes: Vec<u32>,
}

/// A process that is a target by itself.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Running {
    pub process: u32,
    /// What it calls itself.
    pub command: String,
    /// Path of its control group of version 2; `/` where there is none.
    pub group: String,
}

/// How scattered free memory of a node is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeFree {
    pub node: u32,
    /// The kernel's fragmentation score for huge pages, percent.
    pub score: u32,
    /// Huge pages that are free, or are had by splitting larger blocks.
    pub huge_free: u64,
}

impl NodeFree {
    /// Of each node that the zones are of, by its number.
    pub fn of_zones(zones: &[ZoneState]) -> Vec<Self> {
        let nodes: BTreeSet<u32> = zones.iter().map(|zone| zone.id.node.0).collect();
        let node = |node| {
            let of_node = || zones.iter().filter(|zone| zone.id.node.0 == node);
            let scores: Vec<(u32, u64)> =
                of_node().map(|zone| (zone.blocks.extfrag(HUGE_ORDER), zone.present)).collect();
            let huge_free = of_node().map(|zone| zone.blocks.suitable(HUGE_ORDER)).fold(0, u64::saturating_add);
            Self { node, score: node_score(&scores), huge_free }
        };
        nodes.into_iter().map(node).collect()
    }
}

/// What the loop needs to know of the machine beside what hosts tell.
pub trait World {
    /// Paths of the groups that a path or pattern means and that are there now.
    ///
    /// # Errors
    /// In words.
    fn groups(&mut self, pattern: &str) -> Result<Vec<String>, String>;

    /// A group and those below it, each with the numbers of its own processes, by path. Our own process is not among them.
    ///
    /// # Errors
    /// In words.
    fn members(&mut self, group: &str) -> Result<Vec<Member>, String>;

    /// Processes that are meant, by number: those that run a program, or one with those that it starts. Neither threads of the kernel,
    /// nor process 1, nor our own are among them; groups have [`members`](Self::members).
    ///
    /// # Errors
    /// In words.
    fn processes(&mut self, target: &Target) -> Result<Vec<Running>, String>;

    /// The path of a file of a group, from the root of the file system on.
    ///
    /// # Errors
    /// In words.
    fn group_file(&mut self, group: &str, file: &str) -> Result<String, String>;

    /// Memory of the machine, as ranges of physical addresses.
    ///
    /// # Errors
    /// In words.
    fn physical_memory(&mut self) -> Result<Vec<AddressRange>, String>;

    /// Gives the kernel a command that changes no setting: to bring its counters up to date.
    ///
    /// # Errors
    /// In words.
    fn command(&mut self, path: &str, word: &str) -> Result<(), String>;

    /// Whether somebody guaranteed this group memory (`memory.min`, `memory.low`).
    fn is_guaranteed(&mut self, path: &str) -> bool;

    /// Total time in which all tasks waited for memory: `full` of `/proc/pressure/memory`. `None`: not known here.
    fn full_stall(&mut self) -> Option<Duration>;

    /// Bytes of swap that are free; `None`: not known.
    fn swap_free(&mut self) -> Option<Bytes>;

    /// What a knob or counter of the kernel holds; `None`: there is none.
    ///
    /// # Errors
    /// In words.
    fn value(&mut self, path: &str) -> Result<Option<String>, String>;

    /// Counters of `/proc/vmstat` by name; `None` where the kernel has no such counter.
    ///
    /// # Errors
    /// In words.
    fn counters(&mut self, names: &[&str]) -> Result<Vec<Option<u64>>, String>;

    /// Numbers of the nodes of each tier of memory, the fastest tier first; none where the kernel tells no tiers.
    ///
    /// # Errors
    /// In words.
    fn memory_tiers(&mut self) -> Result<Vec<Vec<u32>>, String>;

    /// How scattered free memory of each node is.
    ///
    /// # Errors
    /// In words.
    fn fragmentation(&mut self) -> Result<Vec<NodeFree>, String>;

    /// Whether a file is there.
    fn is_there(&mut self, path: &str) -> bool;

    /// CPU time that a process or a thread of the kernel took so far; `None`: it is not there, or does not tell.
    fn cpu_of(&mut self, process: u32) -> Option<Duration>;

    /// Resident memory of the daemon.
    fn resident(&mut self) -> Option<Bytes>;

    /// The configuration as it is on disk now, checked.
    ///
    /// # Errors
    /// Why it is refused, in words: the old one stays.
    fn configuration(&mut self) -> Result<Config, String>;

    /// Whether somebody wants the daemon to end, asked between pieces of work that take long.
    fn has_to_end(&mut self) -> bool;
}

/// Knobs of the kernel, and the journal of what they held.
pub trait Knobs {
    /// Writes a knob for a section, after the journal has what it holds.
    ///
    /// # Errors
    /// In words; the knob holds what it held, unless they say otherwise.
    fn set(&mut self, section: &str, path: &str, value: &str) -> Result<(), String>;

    /// Writes a file that is there only because of a knob that this section wrote before, and that goes when it is put back: the
    /// journal need not know of it.
    ///
    /// # Errors
    /// In words.
    fn set_within(&mut self, section: &str, path: &str, value: &str) -> Result<(), String>;

    /// Writes a number into a knob that is written over and over: the journal has a range around it, and gets a line only when a number
    /// falls out of that. Whatever number of the range stands there is ours when it is put back.
    ///
    /// # Errors
    /// In words; the knob holds what it held, unless they say otherwise.
    fn set_within_band(&mut self, section: &str, path: &str, value: u64) -> Result<(), String>;

    /// Lets go of what a section wrote: it is somebody else's by now.
    ///
    /// # Errors
    /// In words.
    fn forget(&mut self, section: &str) -> Result<(), String>;

    /// Puts back all that a section wrote, the last first.
    ///
    /// # Errors
    /// What could not be put back, in words.
    fn put_back(&mut self, section: &str) -> Result<(), String>;
}

impl<S: Store, M: Taken> Knobs for Hands<S, M> {
    fn set(&mut self, section: &str, path: &str, value: &str) -> Result<(), String> {
        let written = Hands::set(self, section, path, value, |now| same_value(now, value));
        written.map(|_| ()).map_err(|error| error.to_string())
    }

    fn set_within(&mut self, _: &str, path: &str, value: &str) -> Result<(), String> {
        let failed = |why: String| format!("{path}: {why}");
        self.machine().write(path, value).map_err(failed)?;
        match self.machine().value(path).map_err(failed)? {
            Some(now) if same_value(&now, value) => Ok(()),
            Some(now) => Err(format!("{path}: `{value}` was written, and it holds `{now}`")),
            None => Err(format!("{path}: there is no such file")),
        }
    }

    fn set_within_band(&mut self, section: &str, path: &str, value: u64) -> Result<(), String> {
        Hands::set_within_band(self, section, path, value).map_err(|error| error.to_string())
    }

    fn forget(&mut self, section: &str) -> Result<(), String> {
        Hands::forget(self, section).map_err(|error| error.to_string())
    }

    fn put_back(&mut self, section: &str) -> Result<(), String> {
        let returned = self.restore_section(section).map_err(|error| error.to_string())?;
        let failed = returned.iter().filter_map(|(open, what)| match what {
            Returned::Failed(why) => Some(format!("{} could not be put back: {why}", open.path)),
            Returned::Foreign(now) => Some(format!("{} holds {now}, which is somebody else's: left alone", open.path)),
            _ => None,
        });
        let failed: Vec<String> = failed.collect();
        if failed.is_empty() { Ok(()) } else { Err(failed.join("; ")) }
    }
}

/// Where the loop writes what it does.
pub trait Log {
    /// Writes a line down.
    ///
    /// # Errors
    /// In words: nothing acts until it can be written again.
    fn line(&mut self, line: &Line) -> Result<(), String>;

    /// The state, each few seconds.
    fn status(&mut self, status: &Status);
}
