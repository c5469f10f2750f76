//! The guest's job, and its answers.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

use crate::fragmenting::{Fragmented, Fragments};
use crate::killing::{Killed, Kills};
use crate::living::{Live, Lived, ModuleTest, ModuleTested};
use crate::monitoring::{Watched, Watches};
use crate::pricing::{Priced, Pricing};
use crate::restoring::{Restored, Restores};
use crate::sorting::{Sorted, Sorts};
use crate::tenancy::{Tenancy, Tenanted};
use crate::tiering::{Tiered, Tierings};

/// Path of the job in the guest.
pub const JOB_PATH: &str = "/job.json";
/// Path of the script of a replay in the guest.
pub const SCRIPT_PATH: &str = "/script";
/// Path of the blocks of the RAM disk's empty file system in the guest: each its offset, then its 4096 bytes.
pub const DISK_PATH: &str = "/disk";
/// Path of the module of the RAM disk, if it is not built in: it takes its size when it is loaded.
pub const DISK_MODULE_PATH: &str = "/disk.ko";
/// Folder of kernel modules in the guest, in the order of loading: `/modules/00-name.ko`.
pub const MODULES_PATH: &str = "/modules";
/// Byte written to the exit port when the job is done. QEMU's exit code is twice this plus one.
pub const PASSED: u8 = 10;
/// Byte written to the exit port when the job failed.
pub const FAILED: u8 = 11;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Job {
    /// Files to write before anything else, in order.
    pub settings: Vec<Setting>,
    /// Swap on a compressed RAM disk of this many bytes.
    pub zram_bytes: Option<u64>,
    /// Block device of an ext4 file system to mount for files, for example `/dev/vda`.
    pub files_device: Option<String>,
    /// The task itself.
    pub task: Task,
}

/// A kernel knob.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Setting {
    /// Absolute path of the file.
    pub path: String,
    pub value: String,
    /// Whether a kernel may lack the file.
    pub optional: bool,
}

/// The task after the machine is set up.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Task {
    /// Nothing: boot, report, exit.
    Boot,
    /// Play the script at [`SCRIPT_PATH`].
    Play(Play),
    /// Play many scripts, one after the other, each as if the machine were new.
    Series(Series),
    /// Play patterns and have the kernel's monitor watch.
    Watch(Watches),
    /// Play patterns under sudden pressure, with and without sorted lists.
    Sort(Sorts),
    /// Fragment memory and ask for huge pages.
    Fragment(Fragments),
    /// Play patterns in memory that begins on a slow node.
    Tier(Tierings),
    /// Run a program next to workloads.
    Live(Live),
    /// End a program at random moments, and check for changes that it left behind.
    Kill(Kills),
    /// Kill a program at random moments, bring the machine into states, and check what a restore makes of them.
    Restore(Restores),
    /// Run a daemon next to a hostile tenant.
    Host(Tenancy),
    /// Test the accessed-bit module.
    Module(ModuleTest),
    /// Measure the cost of reading and clearing accessed bits.
    Price(Pricing),
}

/// A replay.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Play {
    /// `memory.max` of the group that plays, from the start.
    pub limit_bytes: Option<u64>,
    /// Read the group's `memory.stat` after this number of touched pages and other operations, so that the counters with which the
    /// kernel balances its lists are fresh; 0: never.
    pub read_stat_every: u64,
    /// The replay is given up after this many seconds of the guest's time.
    pub seconds_max: u64,
}

/// Replays one after the other. Between two runs the page cache is emptied, and files, swap and the group are recreated.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Series {
    /// The RAM disk for files. `None`: no files.
    pub disk: Option<Disk>,
    /// The replays, in order.
    pub runs: Vec<SeriesRun>,
}

/// A RAM disk with a file system, whose blocks are at [`DISK_PATH`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Disk {
    /// Size of the device, a multiple of 1 KiB.
    pub bytes: u64,
    /// The kernel's name of the file system.
    pub kind: String,
    /// Options of the mount, separated by commas.
    pub options: String,
}

/// One replay of a series.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SeriesRun {
    /// Number of the script: its path is [`SCRIPT_PATH`] with `-` and this number.
    pub script: u32,
    /// Files to write before it.
    pub settings: Vec<Setting>,
    /// Swap on a compressed RAM disk of this many bytes.
    pub zram_bytes: Option<u64>,
    pub play: Play,
    /// Group of each process of the script, below the group that has the limit. Empty: all are in the group with the limit. Forked
    /// processes are in the group of their parent.
    pub subgroups: Vec<u16>,
}

/// A report of the guest. Counters have the kernel's names.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "kebab-case")]
pub enum Report {
    /// User space is reached.
    Booted {
        /// `uname -r`.
        kernel: String,
        /// `MemTotal` in bytes.
        memory_bytes: u64,
        /// Processors.
        cpus: u32,
    },
    /// Counters up to an operation [`Mark`](crate::script::Action::Mark).
    Observed(Observation),
    /// A replay of a series reached its mark.
    Ran {
        /// Index in the series.
        run: u32,
        /// The state at the mark.
        observation: Observation,
    },
    /// A replay of a series failed; the others go on.
    RunFailed {
        /// Index in the series.
        run: u32,
        message: String,
    },
    /// Snapshots of the kernel's monitor.
    Watched(Watched),
    /// Result of pressure.
    Sorted(Sorted),
    /// Result of compaction.
    Fragmented(Fragmented),
    /// Result of promotion.
    Tiered(Tiered),
    /// Result of a program next to workloads.
    Lived(Lived),
    /// State left by a killed program.
    KillsDone(Killed),
    /// Restores in one state of the machine.
    Restored(Restored),
    /// State of a daemon next to a hostile tenant.
    Tenanted(Tenanted),
    /// Tests that the accessed-bit module has passed.
    ModuleTested(ModuleTested),
    /// Costs of reading and clearing accessed bits.
    Priced(Priced),
    /// A process of the script was killed.
    Killed {
        /// Index in the script.
        process: u16,
        /// Operation it had reached.
        operation: u64,
    },
    /// The job is done; comes last.
    Done,
    /// The job could not be done; comes last.
    Failed { message: String },
}

/// State of the kernel at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Observation {
    /// Number of the mark.
    pub mark: u32,
    /// Operations done.
    pub operation: u64,
    /// `memory.stat` of the group.
    pub memory_stat: BTreeMap<String, u64>,
    /// `memory.events` of the group.
    pub memory_events: BTreeMap<String, u64>,
    /// `memory.pressure` of the group, unchanged.
    pub memory_pressure: String,
    /// `memory.current` and `memory.peak` of the group in bytes; the latter is 0 if the kernel has none.
    pub memory_current_bytes: u64,
    /// See `memory_current_bytes`.
    pub memory_peak_bytes: u64,
    /// `/proc/vmstat` minus its values before the replay.
    pub vmstat: BTreeMap<String, i64>,
    /// The group's block of `lru_gen`, unchanged; empty without it.
    pub lru_gen: String,
    /// Resident pages of processes, among those the script watches.
    pub resident: Vec<ResidentProcess>,
    /// Anonymous pages among them, the zero page included.
    pub anonymous: Vec<ResidentProcess>,
    /// Resident pages of files.
    pub cached: Vec<CachedFile>,
    /// Of each eighth resident page of processes, the number of pages that belong to a folio of several pages.
    pub nr_in_large_folios: u64,
}

/// Resident pages of one process.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResidentProcess {
    /// Index in the script.
    pub process: u16,
    /// `(first page, pages)`, ascending.
    pub ranges: Vec<(u64, u64)>,
}

/// Pages of one file in the page cache.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CachedFile {
    /// Index in the script.
    pub file: u32,
    /// `(first page, pages)`, ascending.
    pub ranges: Vec<(u64, u64)>,
}
