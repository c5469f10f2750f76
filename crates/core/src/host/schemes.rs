//! What schemes ask of a host: orders, gauges, and what the host says it can do of them.

use super::{AddressRange, NodeId};
use crate::schemes::{Action, Destination, FilterType, Metric, PageGate};
use isotherm_units::Duration;

/// What a host can do for schemes on a target. A scheme that asks for more is refused when it is given.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SchemeCapabilities {
    /// Actions of [`Host::apply`](super::Host::apply). `stat` without page filters needs no host and need not be named.
    pub actions: Vec<Action>,
    /// Of these, actions that obey page filters. On Linux all of physical memory, and for a process `stat` and migration.
    pub filtered_actions: Vec<Action>,
    /// Questions about pages that users may ask. `young` is asked by `pageout` of physical memory anyhow, to spare pages that
    /// were accessed a moment ago.
    pub filters: Vec<FilterType>,
    /// Goals' metrics whose [`Gauge`]s it reads. `user-input` needs no host.
    pub metrics: Vec<Metric>,
    /// It reads free and total memory of all nodes together, for watermarks.
    pub free_mem_rate: bool,
}

/// A number that a host reads for goals and watermarks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Gauge {
    /// Microseconds since some fixed time in which at least one task was stalled by memory: the total of "some" memory
    /// pressure of the whole system.
    StallSomeUs,
    /// Memory that the system manages, of a node or of all.
    TotalBytes(Option<NodeId>),
    /// Of it, free, of a node or of all.
    FreeBytes(Option<NodeId>),
    /// Pages on active lists, anonymous and of files, of the whole system.
    ActiveBytes,
    /// Pages on inactive lists, likewise. With generations: all but the two youngest.
    InactiveBytes,
    /// Pages on lists on a node that are charged to a memory cgroup or one below it.
    MemcgBytes {
        /// On which node.
        node: NodeId,
        /// A number that [`Host::memcg`](super::Host::memcg) gave.
        memcg: u64,
    },
    /// Evicted pages of a memory cgroup, or of one below it, that came back so far: `workingset_refault_anon` and
    /// `workingset_refault_file` of its `memory.stat`.
    RefaultBytes {
        /// A number that [`Host::memcg`](super::Host::memcg) gave.
        memcg: u64,
    },
}

/// What is to be done with a range, and what was learnt of it.
#[derive(Debug)]
pub struct Order<'a> {
    /// What to do.
    pub action: Action,
    /// Where: bytes. Ends of regions are aligned to pages but where a monitor was told to make smaller ones; then the start is
    /// meant up to the next page, and the length too.
    pub range: AddressRange,
    /// Which pages: every page that [`PageGate::admit`] lets through, asked once for each folio, and no other. It counts
    /// what passed; only for actions that obey page filters must it be asked.
    pub gate: &'a mut PageGate,
    /// The node of a migration of physical memory, and of a process without `destinations`.
    pub target_nid: Option<NodeId>,
    /// The nodes of a migration in a process, by turns: [`choose`](crate::schemes::choose) with
    /// [`interleave_index`](crate::schemes::interleave_index).
    pub destinations: &'a [Destination],
    /// The folio looked at last in this pass, by any number that the host gives folios; `None` at the start of a pass. A
    /// folio that reaches from one region into the next is to be treated once: the host skips the first folio of a range if
    /// it is this one, and leaves here the last one it looked at. Physical memory, and `stat` in a process.
    pub last_folio: &'a mut Option<u64>,
}

/// What came of an [`Order`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Applied {
    /// Bytes treated with success, as [`Host::apply`](super::Host::apply) says for each action. May exceed the range where folios stick out.
    pub bytes: u64,
    /// CPU time that it took whoever runs the core. Counts against quotas in time.
    pub spent: Duration,
}
