//! A program that is killed at any moment: the guest's job and report.

use crate::living::LiveWorkload;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Start a program over and over, end it at random moments, have another call restore its changes, and compare all knobs with their
/// values before.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Kills {
    /// Run all the time.
    pub workload: LiveWorkload,
    /// Absolute path.
    pub program: String,
    pub arguments: Vec<String>,
    /// Arguments of the same program that restore the state after a killed one.
    pub restore: Vec<String>,
    pub environment: BTreeMap<String, String>,
    pub rounds: u64,
    /// Longest time of the program.
    pub longest_ms: u64,
    /// Half of the kills fall into this span: when the program writes knobs.
    pub busy_ms: (u64, u64),
    /// Seed of random moments.
    pub seed: u64,
}

/// Result of the job.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Killed {
    /// Rounds that ended by SIGKILL, by SIGTERM and SIGKILL soon after it, and only by SIGTERM.
    pub rounds: [u64; 3],
    /// Rounds in which the program had changed some knob when it was killed.
    pub changed_when_killed: u64,
    /// Knobs that differ after a round, a line each.
    pub left: Vec<String>,
    /// Files read before and after.
    pub knobs_read: u64,
    /// Longest time from SIGTERM to the exit, in milliseconds.
    pub term_longest_ms: u64,
    /// Output of the last call that restored something.
    pub said: String,
}
