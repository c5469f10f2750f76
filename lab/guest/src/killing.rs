//! A program that is killed at any moment: what the guest is to do, and what it reports.

use crate::living::LiveWorkload;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Start a program over and over, end it at moments of chance, have another call put back what it wrote, and compare all knobs with
/// what they were.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Kills {
    /// Run all the time.
    pub workload: LiveWorkload,
    /// Absolute path.
    pub program: String,
    pub arguments: Vec<String>,
    /// Arguments of the same program that put back what a killed one left.
    pub restore: Vec<String>,
    pub environment: BTreeMap<String, String>,
    pub rounds: u64,
    /// The program has at most so long.
    pub longest_ms: u64,
    /// Half of the kills fall into this span: when the program writes knobs.
    pub busy_ms: (u64, u64),
    /// What chances come from.
    pub seed: u64,
}

/// What came of it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Killed {
    /// Rounds that ended by SIGKILL, by SIGTERM and SIGKILL soon after it, and by SIGTERM alone.
    pub rounds: [u64; 3],
    /// Rounds in which the program had changed some knob when it was killed.
    pub changed_when_killed: u64,
    /// What was not as before after a round, a line each.
    pub left: Vec<String>,
    /// Files read before and after.
    pub knobs_read: u64,
    /// From SIGTERM to the end at most, in milliseconds.
    pub term_longest_ms: u64,
    /// What the last call said that put something back.
    pub said: String,
}
