//! The results of a run.

use super::bursts::ProcessTime;
use super::{CompactionOutcome, GenerationsOutcome, LimitsOutcome, MonitorOutcome, Residency, TieringOutcome};
use isotherm_kernel::cgroup::MemoryEvents;
use isotherm_kernel::compaction::BlockTaken;
use isotherm_kernel::counters::Counters;
use isotherm_kernel::reclaim::{ListSizes, Work};
use isotherm_units::{Duration, Instant};
use serde::{Deserialize, Serialize};

/// How a program ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Ending {
    /// All threads came to their end.
    Finished,
    /// Killed because memory ran out.
    OutOfMemory,
    /// Stopped by a plan, or still running when the run ended.
    Stopped,
    /// Touched memory that is not mapped.
    Fault,
    /// Never started.
    NotStarted,
}

/// Where the time of a program's threads went.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ThreadTime {
    /// Own computing and memory accesses.
    pub compute_ns: u64,
    /// Kernel code of faults and system calls, compression of pages included.
    pub fault_cpu_ns: u64,
    /// Direct and limit reclaim on its own CPU time.
    pub reclaim_cpu_ns: u64,
    /// Answering flushes of translations that others requested because they moved or marked pages.
    #[serde(skip_serializing_if = "is_zero")]
    pub interrupted_ns: u64,
    /// Waiting for a device.
    pub io_wait_ns: u64,
    /// Waiting inside reclaim: throttled, or penalty of `memory.high`.
    pub reclaim_wait_ns: u64,
    /// Waiting for pages on their way to other frames.
    #[serde(skip_serializing_if = "is_zero")]
    pub migration_wait_ns: u64,
    /// Waiting for a processor.
    pub queue_wait_ns: u64,
    /// Time in sleeps that the program asked for.
    pub sleep_ns: u64,
}

impl ThreadTime {
    /// CPU time, and what it waited for because of memory. Neither sleep nor waiting for a processor is in it.
    pub const fn work_ns(&self) -> u64 {
        self.compute_ns + self.stall_ns()
    }

    /// The part of the work that memory takes: faults, reclaim, and waiting for devices.
    pub const fn stall_ns(&self) -> u64 {
        self.fault_cpu_ns
            + self.reclaim_cpu_ns
            + self.interrupted_ns
            + self.io_wait_ns
            + self.reclaim_wait_ns
            + self.migration_wait_ns
    }

    /// Adds another's times.
    pub fn add(&mut self, other: &Self) {
        self.compute_ns += other.compute_ns;
        self.fault_cpu_ns += other.fault_cpu_ns;
        self.reclaim_cpu_ns += other.reclaim_cpu_ns;
        self.interrupted_ns += other.interrupted_ns;
        self.io_wait_ns += other.io_wait_ns;
        self.reclaim_wait_ns += other.reclaim_wait_ns;
        self.migration_wait_ns += other.migration_wait_ns;
        self.queue_wait_ns += other.queue_wait_ns;
        self.sleep_ns += other.sleep_ns;
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature that serde asks for")]
const fn is_zero(ns: &u64) -> bool {
    *ns == 0
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ProgramOutcome {
    pub name: String,
    /// Path of its group.
    pub cgroup: String,
    /// When it started.
    pub started_ns: u64,
    /// When its last thread ended.
    pub ended_ns: u64,
    pub ending: Ending,
    /// Operations done.
    pub operations: u64,
    /// Start of the first operation; the time before (loading) was preparation. `None` without operations.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first_operation_ns: Option<u64>,
    /// Sums over its threads.
    pub time: ThreadTime,
    /// The same by process, with the bursts of its threads.
    #[serde(skip)]
    pub processes: Vec<ProcessTime>,
    /// Highest number of resident pages of all its processes together, sampled at faults.
    pub peak_resident_pages: u64,
    /// Allocations of several pages in a row that it made, in their order. These are huge pages of its faults, where they
    /// may be made (`[machine.compaction] compaction`), and memory of the kernel.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub blocks: Vec<BlockTaken>,
    /// Each wait for a page on its way to another frame in ns, sorted.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub migration_stalls_ns: Vec<u64>,
}

impl ProgramOutcome {
    /// Time from start to end.
    pub fn runtime(&self) -> Duration {
        Instant::from_ns(self.ended_ns).since(Instant::from_ns(self.started_ns))
    }
}

/// Memory pressure of a group or the system: time in each state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct PressureTotals {
    /// Some task was stalled on memory.
    pub memory_some_ns: u64,
    /// All tasks were stalled on memory.
    pub memory_full_ns: u64,
    /// Some task waited for block I/O.
    pub io_some_ns: u64,
    /// All tasks waited for block I/O.
    pub io_full_ns: u64,
}

/// One group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CgroupOutcome {
    /// Path of the group; `/` is the system.
    pub path: String,
    /// `memory.stat`-like counters.
    pub counters: Counters,
    pub pressure: PressureTotals,
    /// `memory.events`.
    pub events: MemoryEvents,
    /// Pages charged at the end.
    pub usage_pages: u64,
    /// Highest charge.
    pub peak_pages: u64,
    /// Mean charge over the run; `None` if it was shorter than 10 ms.
    pub mean_pages: Option<u64>,
    /// Swap slots at the end.
    pub swap_pages: u64,
    /// List sizes at the end, all nodes.
    pub lists: ListSizes,
}

/// CPU time of kernel threads and reclaim.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct KernelTime {
    /// kswapd of all nodes.
    pub kswapd_ns: u64,
    /// Direct and limit reclaim in tasks' time.
    pub direct_ns: u64,
    /// Reclaim asked for by plans (`memory.reclaim`, lowered limits).
    pub proactive_ns: u64,
    /// Allocations of several pages in a row in tasks' time, with the compaction and reclaim that they led to.
    #[serde(skip_serializing_if = "is_zero")]
    pub direct_compaction_ns: u64,
    /// kcompactd of all nodes, on demand.
    #[serde(skip_serializing_if = "is_zero")]
    pub kcompactd_ns: u64,
}

/// A single event that is reported.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Incident {
    /// The out-of-memory killer ran.
    OutOfMemory {
        at_ns: u64,
        /// Group at its limit, or `/`.
        cgroup: String,
        /// Program killed; `None` when there was none left to kill.
        victim: Option<String>,
        /// Pages it had resident.
        resident_pages: u64,
    },
    /// A program touched a page outside its mappings.
    BadAccess {
        at_ns: u64,
        program: String,
        /// Virtual page number.
        page: u64,
    },
}

/// One node, on machines with several.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct NodeOutcome {
    pub node: usize,
    /// Tier of the node; lower is faster.
    pub tier: u64,
    /// Whether pages are promoted to it.
    pub is_top_tier: bool,
    pub managed_pages: u64,
    /// Pages among them that are free at the end.
    pub free_pages: u64,
    /// Accesses to its memory, a cache line each; `None` where another node has the same latency.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub accesses: Option<u64>,
    /// Pages that came from other nodes, and pages that went to others, for any mover.
    pub moved_in_pages: u64,
    /// See above.
    pub moved_out_pages: u64,
    /// Bytes that accesses and moves carried to and from its memory; `None` as above.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub traffic_bytes: Option<u64>,
    /// `pgpromote_success` and `pgdemote_*` of this node, all pages; counters of zero are left out.
    pub counters: std::collections::BTreeMap<&'static str, u64>,
}

/// One row of the time series.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SeriesRow {
    pub at_ns: u64,
    /// Free pages of the machine.
    pub free_pages: u64,
    /// Major faults so far.
    pub major_faults: u64,
    /// Pages charged to each group, in the order of groups.
    pub usage_pages: Vec<u64>,
    /// Memory stall (some) of the system so far.
    pub memory_some_ns: u64,
    /// Touches of the top tier and of all so far, under a policy over tiers; see [`TieringOutcome::touches`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub touches: Option<(u64, u64)>,
}

/// All results of a run. Equal for equal input, to the last digit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Outcome {
    /// When the run ended.
    pub ended_ns: u64,
    /// Programs in the order in which they were added.
    pub programs: Vec<ProgramOutcome>,
    /// Groups, the root first.
    pub cgroups: Vec<CgroupOutcome>,
    /// Kernel's CPU time.
    pub kernel: KernelTime,
    /// Nodes, where there are several.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub nodes: Vec<NodeOutcome>,
    /// Work of the policy to find pages.
    pub work: Work,
    /// Durations of direct and limit reclaim in ns, sorted.
    pub reclaim_latencies_ns: Vec<u64>,
    pub incidents: Vec<Incident>,
    /// Time series, if asked for.
    pub series: Vec<SeriesRow>,
    /// Pages resident at the end, if asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub residency: Option<Residency>,
    /// Monitors in the order in which they were added.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub monitors: Vec<MonitorOutcome>,
    /// The policy over tiers of memory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tiering: Option<TieringOutcome>,
    /// Tools over generations in the order in which they were added.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub generations: Vec<GenerationsOutcome>,
    /// Right-sizing, in the order in which it was added.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub limits: Vec<LimitsOutcome>,
    /// Daemons that compact, in the order in which they were added.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub compaction: Vec<CompactionOutcome>,
}

impl Outcome {
    /// The group with this path.
    pub fn cgroup(&self, path: &str) -> Option<&CgroupOutcome> {
        self.cgroups.iter().find(|group| group.path == path)
    }
    /// The whole system: the root group.
    pub fn system(&self) -> &CgroupOutcome {
        &self.cgroups[0]
    }
}
