//! The loop that acts: sections over groups of a live machine. A filter in front of each lets allowed actions through, and logs them
//! (docs/spec/live.md#7-loop).
//!
//! It has no clock, no file and no system call: all of that comes through [`Clock`](isotherm_units::Clock), [`System`], [`Log`] and the host.

mod errand;
mod gate;
mod guard;
mod kernel;
mod kill;
mod kinds;
mod line;
mod pace;
mod run;
mod section;
mod targets;
#[cfg(test)]
mod tests;
mod trouble;

pub(crate) use guard::Guard;
pub use kernel::{EngineError, ModuleOnce};
pub use kill::{KillFacts, Victim};
pub use kinds::{foretold, lacking};
pub use line::{Act, Effect, Line, SectionStatus, Stalled, Status, Texts};
pub use run::{Ended, Environment, LoopEnd, LoopError, steer};
pub use trouble::{AuditError, SystemError, TargetError};

use crate::changes::{
    JournaledKnobs, KnobError, KnobStore, NotRestored, Refusal, Restored, Returned, Store, same_value,
};
use crate::config::{Config, Target};
use isotherm_core::compaction::{HUGE_ORDER, node_score};
use isotherm_core::host::{AddressRange, Adopting, Compacting, GenerationsHost, MonitorHost, PromotionHost, ZoneState};
use isotherm_units::{Bytes, Duration};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// The parts of a host that the loop needs.
pub trait LoopHost: GenerationsHost + Compacting + MonitorHost + PromotionHost + Adopting {}
impl<H: GenerationsHost + Compacting + MonitorHost + PromotionHost + Adopting> LoopHost for H {}

/// A group of a machine.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Member {
    /// Path as in `/proc/PID/cgroup`.
    pub path: String,
    /// Process ids of the group itself, without the groups below it.
    pub processes: Vec<u32>,
}

/// A process that is a target by itself.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Running {
    pub process: u32,
    /// Name that the process gives itself.
    pub command: String,
    /// Name of the file of its program, if it can be read.
    #[serde(default)]
    pub file: Option<String>,
    /// Path of its cgroup v2; `/` if it has none.
    pub group: String,
}

/// How a group, with those below it, waited for memory. Totals since it was made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GroupStall {
    pub path: String,
    /// Time in which all its tasks waited; `None` if the kernel does not measure it.
    pub full_ns: Option<u64>,
    /// How often it was at its own `memory.high` or `memory.max`; for one that was handed over to a user, also how often groups in it
    /// were.
    pub limit_hits: u64,
    /// Whether all groups directly below it are listed, or it was handed over to a user: groups in it are not listed then.
    pub is_whole: bool,
}

/// How scattered free memory of a node is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeFree {
    pub node: u32,
    /// The kernel's fragmentation score for huge pages, percent.
    pub score: u32,
    /// Free huge pages, including those from splitting larger blocks.
    pub huge_free: u64,
}

impl NodeFree {
    /// One value for each node of the zones, ordered by node number.
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

/// Facts about the machine that the loop needs and hosts do not report.
pub trait System {
    /// Paths of the existing groups that match a path or pattern.
    ///
    /// # Errors
    /// [`SystemError`].
    fn groups(&mut self, pattern: &str) -> Result<Vec<String>, SystemError>;

    /// A group and the groups below it, each with its own process IDs, by path. Our own process is not among them.
    ///
    /// # Errors
    /// [`SystemError`].
    fn members(&mut self, group: &str) -> Result<Vec<Member>, SystemError>;

    /// Processes of a target, by process ID: processes that run a program, or one process with its children. Kernel threads, process 1 and
    /// our own process are not among them. For groups, see [`members`](Self::members).
    ///
    /// # Errors
    /// [`SystemError`].
    fn processes(&mut self, target: &Target) -> Result<Vec<Running>, SystemError>;

    /// The largest of these processes by resident memory, the largest first, `most` of them at most; of two of one size the one with the
    /// lower number first.
    fn largest(&mut self, processes: &[u32], most: usize) -> Vec<u32>;

    /// Absolute path of a file of a group.
    ///
    /// # Errors
    /// [`SystemError`].
    fn group_file(&mut self, group: &str, file: &str) -> Result<String, SystemError>;

    /// Memory of the machine, as ranges of physical addresses.
    ///
    /// # Errors
    /// [`SystemError`].
    fn physical_memory(&mut self) -> Result<Vec<AddressRange>, SystemError>;

    /// Gives the kernel a command that changes no setting, such as one to update its counters.
    ///
    /// # Errors
    /// [`SystemError`].
    fn command(&mut self, path: &str, word: &str) -> Result<(), SystemError>;

    /// The group with guaranteed memory (`memory.min`, `memory.low`) that acting on this one would take from: this one, one above it,
    /// or, `with_below`, one directly below it. A guarantee counts by its effective value.
    fn guaranteed(&mut self, path: &str, with_below: bool) -> Option<String>;

    /// Total time in which all tasks waited for memory: `full` of `/proc/pressure/memory`. `None`: not known here.
    fn full_stall(&mut self) -> Option<Duration>;

    /// The same for a group with those below it: `full` of its `memory.pressure`. `None`: not known here, or there is no such group.
    fn full_stall_of(&mut self, group: &str) -> Option<Duration>;

    /// Groups from the top of the tree down, and how each waited for memory. Empty where groups do not tell it.
    fn group_stalls(&mut self) -> Vec<GroupStall>;

    /// Facts from which it follows which process thrashing prevention would have killed now.
    ///
    /// # Errors
    /// [`SystemError`].
    fn kill_facts(&mut self) -> Result<KillFacts, SystemError>;

    /// Bytes of swap that are free; `None`: not known.
    fn swap_free(&mut self) -> Option<Bytes>;

    /// Value of a knob or counter of the kernel; `None` if it does not exist.
    ///
    /// # Errors
    /// [`SystemError`].
    fn value(&mut self, path: &str) -> Result<Option<String>, SystemError>;

    /// Counters of `/proc/vmstat` by name; `None` where the kernel has no such counter.
    ///
    /// # Errors
    /// [`SystemError`].
    fn counters(&mut self, names: &[&str]) -> Result<Vec<Option<u64>>, SystemError>;

    /// Numbers of the nodes of each tier of memory, the fastest tier first; empty where the kernel reports no tiers.
    ///
    /// # Errors
    /// [`SystemError`].
    fn memory_tiers(&mut self) -> Result<Vec<Vec<u32>>, SystemError>;

    /// How scattered free memory of each node is.
    ///
    /// # Errors
    /// [`SystemError`].
    fn fragmentation(&mut self) -> Result<Vec<NodeFree>, SystemError>;

    /// Whether a file exists.
    fn is_there(&mut self, path: &str) -> bool;

    /// CPU time that a process or kernel thread has used so far; `None` if it does not exist, or cannot be read.
    fn cpu_of(&mut self, process: u32) -> Option<Duration>;

    /// Resident memory of the daemon.
    fn resident(&mut self) -> Option<Bytes>;

    /// The configuration as it is on disk now, checked.
    ///
    /// # Errors
    /// Why the new configuration is refused; the old one stays.
    fn configuration(&mut self) -> Result<Config, SystemError>;

    /// Whether the daemon is asked to end; checked between pieces of long work.
    fn has_to_end(&mut self) -> bool;
}

/// Knobs of the kernel, and the journal of their old values.
pub trait Knobs {
    /// Writes a knob for a section, after its old value is in the journal.
    ///
    /// # Errors
    /// [`Refusal`].
    fn set(&mut self, section: &str, path: &str, value: &str) -> Result<(), Refusal>;

    /// Writes a file that exists only because of a knob that this section wrote, and that is removed with it. It needs no line in the
    /// journal.
    ///
    /// # Errors
    /// [`Refusal`].
    fn set_within(&mut self, section: &str, path: &str, value: &str) -> Result<(), Refusal>;

    /// Writes a number into a knob that is written often. The journal holds a single change of the knob, with the last number.
    ///
    /// # Errors
    /// [`Refusal`].
    fn set_often(&mut self, section: &str, path: &str, value: u64) -> Result<(), Refusal>;

    /// Drops the changes of a section: another program owns these values by now.
    ///
    /// # Errors
    /// [`Refusal`].
    fn forget(&mut self, section: &str) -> Result<(), Refusal>;

    /// Restores all that sections wrote, newest first. Returns why the journal could not note it, if it could not: knobs do not wait for
    /// a disk.
    ///
    /// # Errors
    /// [`Refusal::Left`]: knobs that could not be restored.
    fn put_back(&mut self, sections: &[String]) -> Result<Option<String>, Refusal>;
}

impl<S: Store, M: KnobStore> Knobs for JournaledKnobs<S, M> {
    fn set(&mut self, section: &str, path: &str, value: &str) -> Result<(), Refusal> {
        JournaledKnobs::set(self, section, path, value, |now| same_value(now, value)).map(|_| ())
    }

    fn set_within(&mut self, _: &str, path: &str, value: &str) -> Result<(), Refusal> {
        let refused = |why: KnobError| Refusal::Knob { path: path.to_owned(), why };
        self.machine().write(path, value).map_err(refused)?;
        match self.machine().value(path).map_err(refused)? {
            Some(now) if same_value(&now, value) => Ok(()),
            Some(held) => Err(refused(KnobError::Holds { written: value.to_owned(), held })),
            None => Err(refused(KnobError::NoFile)),
        }
    }

    fn set_often(&mut self, section: &str, path: &str, value: u64) -> Result<(), Refusal> {
        JournaledKnobs::set_often(self, section, path, value)
    }

    fn forget(&mut self, section: &str) -> Result<(), Refusal> {
        Ok(JournaledKnobs::forget(self, section)?)
    }

    fn put_back(&mut self, sections: &[String]) -> Result<Option<String>, Refusal> {
        let Restored { changes, not_noted } = self.restore_sections(sections);
        let left = changes.into_iter().filter_map(|(open, what)| match what {
            Returned::Failed(why) => Some(NotRestored::Failed { path: open.path, why }),
            Returned::Foreign(now) => Some(NotRestored::Foreign { path: open.path, now }),
            _ => None,
        });
        let left: Vec<NotRestored> = left.collect();
        if left.is_empty() { Ok(not_noted.map(|why| why.to_string())) } else { Err(Refusal::Left(left)) }
    }
}

/// Output of the loop.
pub trait Log {
    /// Writes a line.
    ///
    /// # Errors
    /// [`AuditError`]; no section acts until lines can be written again.
    fn line(&mut self, line: &Line) -> Result<(), AuditError>;

    /// Takes the state, every few seconds.
    fn status(&mut self, status: &Status);
}
