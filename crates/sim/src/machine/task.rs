//! Tasks: threads of programs and the kernel's own.

use super::code::CodeInUse;
use super::events::CpuId;
use super::outcome::ThreadTime;
use super::schedule::Stall;
use isotherm_kernel::cgroup::CgroupId;
use isotherm_kernel::cgroup::high::HighThrottle;
use isotherm_kernel::cgroup::proactive::{ProactiveReclaim, ProactiveStep};
use isotherm_kernel::compaction::Kcompactd;
use isotherm_kernel::fault::FaultState;
use isotherm_kernel::memory::NodeId;
use isotherm_kernel::mmu::{Cursor, Need, SpaceId};
use isotherm_kernel::pressure::TaskState;
use isotherm_kernel::reclaim::driver::Attempt;
use isotherm_units::Instant;
use isotherm_units::access::{After, Batch, Stream};

/// Index of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct TaskId(pub(super) usize);

/// Whether a task can run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RunState {
    /// Not started, or waiting to be woken by another task.
    Parked,
    /// Waits for a CPU since this time.
    Queued(Instant),
    Running(CpuId),
    /// Blocked since this time.
    Blocked(Instant, Blocked),
    /// Gone.
    Dead,
}

/// Why a task is blocked; decides how its time is accounted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Blocked {
    /// Sleeps because the program asked for it.
    Sleep,
    /// Waits for a device.
    Io,
    /// Throttled in reclaim.
    Reclaim,
    /// Waits for a page that moves to another frame.
    Migration,
}

/// A reclaim attempt a task makes for itself.
#[derive(Clone, Debug)]
pub(super) struct OwnReclaim {
    pub(super) attempt: Attempt,
    pub(super) began: Instant,
    pub(super) cause: Cause,
}

/// Pages charged while over `memory.high`, and the tries to pay for them.
#[derive(Clone, Copy, Debug)]
pub(super) struct HighDebt {
    pub(super) throttle: HighThrottle,
    pub(super) pending_pages: u64,
}

/// Why a task reclaims.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cause {
    /// `memory.max` of this group.
    Limit(CgroupId),
    /// No free frame on this node.
    Node(NodeId),
    /// The group exceeds its `memory.high`.
    High(CgroupId),
}

/// Present activity of a user thread.
pub(super) struct UserTask {
    pub(super) program: usize,
    pub(super) process: usize,
    pub(super) thread: usize,
    pub(super) space: SpaceId,
    pub(super) stream: Box<dyn Stream>,
    pub(super) batch: Batch,
    pub(super) cursor: Cursor,
    pub(super) after: After,
    pub(super) fault: FaultState,
    /// The access at the cursor faulted, and has not gone through since.
    pub(super) faulted: bool,
    pub(super) reclaim: Option<OwnReclaim>,
    /// The fault, by virtual page, for which it reclaims in this stretch: the access can only fault until it is tried again.
    pub(super) interrupted: Option<(u64, Need)>,
    /// Runs of the batch before this one were searched for faults ahead of time.
    pub(super) looked_ahead: usize,
    /// The code that it runs, which is used again whenever it reclaims.
    pub(super) code: CodeInUse,
    /// Shortages since the last access that went through.
    pub(super) nr_shortages: u32,
    /// Memory of the kernel that it takes.
    pub(super) taking: Option<Box<super::blocks::Taking>>,
    /// Computing still to be done before the stream goes on.
    pub(super) compute_left_ns: u64,
    /// The penalty for being over `memory.high`.
    pub(super) high: Option<HighDebt>,
    pub(super) time: ThreadTime,
    /// Its time when it last woke from a sleep of its own.
    pub(super) burst_began: ThreadTime,
    /// Flushes of its space that it has answered, or that came while it was on no processor.
    pub(super) flushes_seen: u64,
    /// Last stretch on a processor: time in hint faults, and all time, in ns.
    pub(super) last_stretch_ns: [u64; 2],
}

/// Work of the kernel in a thread of its own.
#[derive(Clone, Debug)]
pub(super) enum KernelTask {
    /// Stands for all other tasks of the machine.
    Others,
    /// Balances a node.
    Kswapd {
        node: NodeId,
        attempt: Option<Attempt>,
    },
    Daemon {
        daemon: usize,
        worker: usize,
    },
    /// Compacts a node on demand.
    Kcompactd {
        daemon: Kcompactd,
    },
    /// Carries out the writes of plans to group files.
    Writer {
        jobs: std::collections::VecDeque<WriterJob>,
        attempt: Option<Attempt>,
    },
}

/// One write that makes its writer reclaim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WriterJob {
    /// A lowered `memory.max`: reclaim, then kill, until usage fits.
    Max { cgroup: CgroupId, retries_left: u32 },
    /// A lowered `memory.high`: reclaim only.
    High { cgroup: CgroupId, retries_left: u32 },
    /// `memory.reclaim`.
    Reclaim { cgroup: CgroupId, reclaim: ProactiveReclaim, step: ProactiveStep, swappiness: Option<u32> },
    /// A file of the Multi-Gen LRU; the written text is in the plan with this index.
    Mglru { plan: usize },
}

pub(super) enum Work {
    User(Box<UserTask>),
    Kernel(Box<KernelTask>),
}

pub(super) struct Task {
    /// Taken out while it runs.
    pub(super) work: Option<Work>,
    pub(super) state: RunState,
    /// Process of its program; `None` for kernel threads.
    pub(super) process: Option<usize>,
    /// Group whose pressure it feels; its ancestors come with it.
    pub(super) cgroup: CgroupId,
    /// State of the task in pressure accounting.
    pub(super) pressure: TaskState,
    /// CPU of the task in pressure accounting.
    pub(super) pressure_cpu: CpuId,
    pub(super) stall: Stall,
    /// CPU it ran on last.
    pub(super) last_cpu: CpuId,
    /// Number of the current wait; older wake-ups are void.
    pub(super) wait_number: u64,
    /// Chosen by the out-of-memory killer or stopped: ends at its next opportunity.
    pub(super) dying: bool,
}
