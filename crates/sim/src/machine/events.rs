//! Future events, in order of time.

use super::task::TaskId;
use isotherm_kernel::cgroup::{CgroupId, Knob, Limit};
use isotherm_kernel::reclaim::mglru::ControlFile;
use isotherm_units::{Duration, Instant, Pages};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Index of a processor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct CpuId(pub(super) usize);

/// An external event of a machine at a given time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Writes a limit or protection of a group, as by its file. A lowered `max` or `high` reclaims the excess.
    Set(CgroupId, Knob, Limit),
    /// Starts a program that was added.
    Start(usize),
    /// Kills a program.
    Stop(usize),
    /// Writes `memory.reclaim` of a group.
    Reclaim {
        cgroup: CgroupId,
        pages: Pages,
        /// `swappiness=`, 0..=200 or 201 for `max`; the machine's if `None`.
        swappiness: Option<u32>,
    },
    /// Writes a file of the Multi-Gen LRU. Refused, it ends the run with an error.
    WriteMglru(ControlFile, String),
    /// Writes a file of the scan daemon, by its name. If refused, it ends the run with an error; without such a daemon it has no effect.
    WritePromotion(&'static str, String),
    /// Reports the current value of a goal of `user-input` to a monitor, by the places of scheme and goal. Likewise.
    ReportGoal { monitor: String, scheme: usize, goal: usize, value: u64 },
    /// Sets the scale of a program's processes in the scan daemon, as `prctl` does. Likewise.
    Scale { program: usize, scale: u32 },
}

/// A planned [`Action`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// First time.
    pub at: Instant,
    /// The event repeats after each such span, until the run ends.
    pub every: Option<Duration>,
    pub action: Action,
}

/// Kinds of events, listed so that all of them can be read here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Event {
    /// The task on this CPU goes on.
    Slice(CpuId),
    /// A sleeping task becomes runnable, if its wait still has this number.
    Wake(TaskId, u64),
    /// The plan with this index is due.
    Plan(usize),
    /// Old dirty pages are written.
    Flusher,
    /// A row of the time series is taken.
    Series,
    /// A worker of the kernel adds up counters of groups.
    Statistics,
    /// Memory charges are sampled, for their means.
    Usage,
}

/// Position of an event among others at the same time.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place(u64);

/// The event queue. Events at the same time come out in the order in which they were put in.
#[derive(Clone, Debug, Default)]
pub(super) struct Events {
    heap: BinaryHeap<Reverse<(Instant, u64, Event)>>,
    sequence: u64,
}

impl Events {
    pub(super) fn push(&mut self, at: Instant, event: Event) {
        let place = self.next_place();
        self.push_at(place, at, event);
    }
    /// Place that an event added now would get among events at the same time.
    pub(super) fn next_place(&mut self) -> Place {
        self.sequence += 1;
        Place(self.sequence)
    }
    /// Puts an event into its place, as if it had been put in when that was the next.
    pub(super) fn push_at(&mut self, Place(sequence): Place, at: Instant, event: Event) {
        self.heap.push(Reverse((at, sequence, event)));
    }
    /// Number of events so far.
    #[cfg(test)]
    pub(super) fn nr_placed(&self) -> u64 {
        self.sequence
    }
    pub(super) fn next(&self) -> Option<(Instant, Event)> {
        self.heap.peek().map(|Reverse((at, _, event))| (*at, *event))
    }
    pub(super) fn next_time(&self) -> Option<Instant> {
        self.next().map(|(at, _)| at)
    }
    pub(super) fn pop(&mut self) -> Option<(Instant, Event)> {
        self.heap.pop().map(|Reverse((at, _, event))| (at, event))
    }
}
