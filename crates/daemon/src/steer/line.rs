//! What is told: a line for each thing that happened, and the state as a whole.

use isotherm_core::compaction::Why;
use isotherm_units::{Bytes, Duration, Instant};
use serde::Serialize;

/// What came of an action.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "effect", rename_all = "kebab-case")]
pub enum Effect {
    /// All that was asked for.
    Done,
    /// Some of it; the rest is in use, locked, being written, or has no place to go.
    Partly,
    /// Nothing was done, because the section only observes.
    Would,
    /// Nothing was done, and why.
    Refused { why: String },
}

/// An action on one group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Act {
    /// What was done: `evict`.
    pub action: &'static str,
    /// The group.
    pub target: String,
    pub node: u32,
    /// The write that carries it out, as the kernel reads it.
    pub write: String,
    pub asked_bytes: u64,
    /// Gone, as read back afterwards: the kernel itself does not say.
    pub verified_bytes: u64,
    #[serde(flatten)]
    pub effect: Effect,
}

/// A line of the audit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "event", rename_all = "kebab-case")]
pub enum Line {
    /// The daemon has begun, or has taken a new configuration.
    Began { sections: usize, acting: usize },
    /// A section has begun.
    Section { section: String, engine: &'static str, enabled: bool, why: String },
    /// A group belongs to a section from now on.
    Came { section: String, target: String },
    /// It is gone, or no longer belongs to it.
    Went { section: String, target: String },
    /// A group that the section was told to act on is left alone.
    LeftAlone { section: String, target: String, why: String },
    /// Something is about to be done: this line is there before it is.
    Asks { section: String, target: String, write: String },
    /// Something was done, or would have been.
    Acted { section: String, at_ns: u64, act: Act },
    /// A zone was compacted, or the attempt ended, and what the node is like afterwards, as read back.
    Compacted {
        section: String,
        at_ns: u64,
        node: u32,
        /// Its number in the node, from the lowest addresses up.
        zone: u8,
        /// Of `extfrag`.
        order: u32,
        why: Why,
        /// Free pages of the zone that lie in blocks smaller than the order, percent.
        extfrag_before: u32,
        extfrag_after: u32,
        /// The kernel's score, and huge pages free.
        node_score_after: u32,
        huge_free_after: u64,
        /// As the kernel counts, on the whole machine meanwhile.
        pages_moved: u64,
        /// Huge pages of the zone by which its free ones have grown.
        blocks_freed: u64,
        /// CPU time of the process that compacted.
        cpu_ns: u64,
    },
    /// A knob is about to be written; the journal has what it holds now.
    Writes { section: String, path: String, value: String },
    /// It would be, if the section might act.
    WouldWrite { section: String, path: String, value: String },
    /// What the kernel itself did for a section since the last such line, as it counts.
    Counted { section: String, asked_bytes: u64, verified_bytes: u64 },
    /// What a section wrote holds again what it held before.
    PutBack { section: String },
    /// Nothing acts from now on.
    Paused { why: String },
    /// It does again.
    Resumed,
    /// Sections run so many times less often than they were asked to.
    Paced { stretch: u32 },
    /// A section cannot do its work for now.
    Trouble { section: String, why: String },
    /// A new configuration was refused; the old one goes on.
    NotReloaded { why: String },
    /// The daemon ends, and what it cost.
    Ended { why: String, since_start_ns: u64, cpu_ns: u64, resident_bytes: Option<u64>, longest_turn_ns: u64 },
}

/// The state of one section.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SectionStatus {
    /// Table and name: `generations.web`.
    pub section: String,
    pub engine: &'static str,
    pub enabled: bool,
    /// `acting`, `observing`, or why not.
    pub state: String,
    pub targets: Vec<String>,
    /// Times that it has run.
    pub runs: u64,
    pub asked_bytes: u64,
    pub verified_bytes: u64,
    /// Acts that were withheld or failed.
    pub refused: u64,
    /// What it has done and what held it back, in words.
    pub words: Vec<String>,
}

/// The state of the daemon.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Status {
    pub since_start_ns: u64,
    /// Why nothing acts, if so.
    pub paused: Option<String>,
    pub stretch: u32,
    /// CPU time that it took, threads of the kernel that it started included.
    pub cpu_ns: u64,
    pub resident_bytes: Option<u64>,
    /// The longest time that one turn of the loop took.
    pub longest_turn_ns: u64,
    pub sections: Vec<SectionStatus>,
}

impl Status {
    pub(super) fn at(now: Instant, cpu: Duration, resident: Option<Bytes>) -> Self {
        Self {
            since_start_ns: now.since(Instant::START).ns(),
            paused: None,
            stretch: 1,
            cpu_ns: cpu.ns(),
            resident_bytes: resident.map(Bytes::get),
            longest_turn_ns: 0,
            sections: Vec::new(),
        }
    }
}
