//! A program run next to workloads, and the tests of the accessed-bit module: the guest's jobs and reports.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

use crate::patterns::Pattern;

/// Start workloads, then run a program that the host put in.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Live {
    /// Started in this order; all have touched their arenas once before the program starts. They are killed after it.
    pub workloads: Vec<LiveWorkload>,
    /// Programs that the host put in. They are started in this order and wait until `programs_begin_with` exists.
    pub programs: Vec<LiveProgram>,
    /// The file whose appearance starts `programs`: the watching program makes it when it is ready.
    pub programs_begin_with: String,
    /// Absolute path.
    pub program: String,
    pub arguments: Vec<String>,
    /// The whole environment, of `programs` too: nothing is inherited.
    pub environment: BTreeMap<String, String>,
    /// Seconds after which the program is killed.
    pub seconds_max: u64,
    /// Files to report when it ended.
    pub outputs: Vec<String>,
}

/// A process that plays a pattern at [`ARENA_PAGE`](crate::monitoring::ARENA_PAGE).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LiveWorkload {
    /// The control group that it is in, for example `app/web`; made if need be.
    pub group: String,
    pub pattern: Pattern,
    /// Time from the start of one pass to the start of the next.
    pub pass_us: u64,
    /// `memory.high` of its group once it has touched everything.
    pub high_bytes: Option<u64>,
}

/// A program that runs next to the watching one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LiveProgram {
    /// The control group that it is in; made if need be. `None`: the group of the first process.
    pub group: Option<String>,
    /// Absolute path.
    pub program: String,
    pub arguments: Vec<String>,
    /// Working folder of the program; made if need be.
    pub folder: String,
}

/// How a program ended.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LiveEnded {
    /// `None`: a signal ended it, ours if it ran on for long after the watching program's end.
    pub exit_code: Option<i32>,
    /// Both streams. Bytes that are no text are replaced.
    pub said: String,
}

/// Result of the job. Bytes that are no text are replaced.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lived {
    /// `None`: a signal ended it.
    pub exit_code: Option<i32>,
    /// Whether the program was killed because its time was over.
    pub timed_out: bool,
    pub stdout: String,
    pub stderr: String,
    /// Contents of the existing files among those asked for, two hexadecimal digits a byte; see [`Lived::output`].
    pub outputs: BTreeMap<String, String>,
    /// When the program started and ended, on the clock of the passes, in nanoseconds.
    pub ran_ns: (u64, u64),
    /// Files of `/proc` and `/sys` that can be set and were read before and after.
    pub knobs_read: u64,
    /// Knobs among these that the program left changed, a line each.
    pub knobs_changed: Vec<String>,
    /// Players by workload.
    pub players: Vec<LivePlayer>,
    /// Ends by program.
    pub programs: Vec<LiveEnded>,
}

impl Lived {
    /// Bytes of a file that was asked for; `None` if it did not exist.
    pub fn output(&self, path: &str) -> Option<Vec<u8>> {
        let digits = self.outputs.get(path)?.as_bytes();
        let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
        digits.chunks(2).map(byte).collect()
    }
}

/// Passes of a workload.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LivePlayer {
    pub pid: i32,
    /// When each pass began.
    pub passes_ns: Vec<u64>,
}

/// Test the accessed-bit module, which is loaded.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ModuleTest {
    /// Calls that each process makes in the storms.
    pub storm_calls: u64,
    /// Least duration of the storms.
    #[serde(default)]
    pub storm_seconds: u64,
    /// Whether no process calls the module for the process whose mappings change: shows the memory kept by the kernel without the module.
    #[serde(default)]
    pub storm_alone: bool,
    /// Seed of the storms' random numbers.
    pub seed: u64,
}

/// Result of the tests: all checks passed, or the job failed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModuleTested {
    /// Checks, in order.
    pub checks: Vec<String>,
    /// Bytes of the kernel's memory before and after the storms, by name in `/proc/meminfo`; `Free` is memory that only caches use.
    #[serde(default)]
    pub memory: Vec<(String, u64, u64)>,
}
