//! A program that is killed, and a restore on a machine that is no longer as it was: the guest's job and report.

use crate::living::LiveWorkload;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// State of the machine in which a restore runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RestoreState {
    /// The file system of the journal is full, in half of the moments already before the kill.
    DiskFull,
    /// The file system of the journal can only be read.
    ReadOnly,
    /// Zeros follow the last line of the journal.
    ZeroedTail,
    /// The first group was removed and made again, in half of the moments before the kill. Its administrator set `memory.high`, in half
    /// of the moments to the value that the killed program had written.
    GroupMadeAgain,
    /// `/proc/sys/kernel/random/boot_id` is another one.
    OtherBoot,
}

impl RestoreState {
    /// All of them, in the order of tables.
    pub const ALL: [Self; 5] =
        [Self::DiskFull, Self::ReadOnly, Self::ZeroedTail, Self::GroupMadeAgain, Self::OtherBoot];

    /// In tables.
    pub const fn name(self) -> &'static str {
        match self {
            Self::DiskFull => "disk full",
            Self::ReadOnly => "read-only",
            Self::ZeroedTail => "zeroed tail",
            Self::GroupMadeAgain => "group made again",
            Self::OtherBoot => "other boot",
        }
    }
}

/// For each state and moment: change knobs, kill the program that changes more of them, bring the state about, restore twice, end the state,
/// restore once more. All knobs are compared after each restore.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Restores {
    /// Run all the time, each in a group of its own. That of the first is the one that is made again.
    pub workloads: Vec<LiveWorkload>,
    /// Absolute path.
    pub program: String,
    pub environment: BTreeMap<String, String>,
    /// Arguments that run to their end before the killed program starts. What they changed stays.
    pub before: Vec<String>,
    /// Arguments of the program that is killed.
    pub killed: Vec<String>,
    /// Arguments that restore, and print a JSON list of what was restored.
    pub restore: Vec<String>,
    /// Path of the journal. Its folder becomes a file system of its own, a new one in each moment.
    pub journal: String,
    /// What is in it when a moment begins: text before and after a padding of random length. So its lines end anywhere in a page, of which
    /// the rest has room on a full disk.
    pub history: (String, String),
    pub states: Vec<RestoreState>,
    /// Moments of each state.
    pub moments: u64,
    /// Longest time of the program.
    pub longest_ms: u64,
    /// Half of the kills fall into this span: when the program writes knobs.
    pub busy_ms: (u64, u64),
    /// Seed of random moments.
    pub seed: u64,
}

/// Restores in one state.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Restored {
    pub state: RestoreState,
    pub moments: u64,
    /// Moments in which the program had changed some knob when it was killed.
    pub changed_when_killed: u64,
    /// Moments after which all knobs of the journal were as they must be. That is: as before; with another boot, as at the kill.
    pub as_before: u64,
    /// Moments after which all other knobs, that of a group made again included, were untouched.
    pub others_untouched: u64,
    /// Exit codes of the first restore in the state, and how often each was seen; `signal` for none.
    pub codes: BTreeMap<String, u64>,
    /// Those of the second one.
    pub codes_again: BTreeMap<String, u64>,
    /// Files read before and after.
    pub knobs_read: u64,
    /// Knobs that were not as they must be, a line each.
    pub knobs_changed: Vec<String>,
    /// Exit codes that do not say what happened, a line each.
    pub codes_wrong: Vec<String>,
}

impl Restored {
    /// None yet.
    pub fn new(state: RestoreState) -> Self {
        Self {
            state,
            moments: 0,
            changed_when_killed: 0,
            as_before: 0,
            others_untouched: 0,
            codes: BTreeMap::new(),
            codes_again: BTreeMap::new(),
            knobs_read: 0,
            knobs_changed: Vec::new(),
            codes_wrong: Vec::new(),
        }
    }
}
