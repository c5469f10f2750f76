//! Gauges: numbers that goals, watermarks and reclaimers read.

use super::HostError;
use crate::vocabulary::{AddressRange, Metric, NodeId, TargetId};

/// Reads numbers: of nodes, of groups, of the whole system. Calls that a host does not implement answer "not here".
pub trait Gauging {
    /// Gauges that the host reads for schemes on `target`.
    fn gauge_capabilities(&self, _target: TargetId) -> GaugeCapabilities {
        GaugeCapabilities::default()
    }

    /// Reads numbers, all at one moment. `None` for a node or a group that is not there. `values` has the length of `gauges`.
    ///
    /// # Errors
    /// [`HostError::NotHere`] if one of them cannot be read here.
    fn gauges(&mut self, _gauges: &[Gauge], _values: &mut [Option<u64>]) -> Result<(), HostError> {
        Err(HostError::NotHere("this host reads no metrics"))
    }

    /// Appends for each node the bytes of folios inside `ranges`, which ascend; of a folio that sticks out, the part inside.
    /// Physical memory only.
    ///
    /// # Errors
    /// [`HostError::Gone`], [`HostError::NotHere`].
    fn node_bytes(
        &mut self,
        _target: TargetId,
        _ranges: &[AddressRange],
        _out: &mut Vec<(NodeId, u64)>,
    ) -> Result<(), HostError> {
        Err(HostError::NotHere("this host does not tell which node memory is on"))
    }

    /// The number of the memory cgroup at this path, as [`Attribute::Memcg`](super::Attribute::Memcg),
    /// [`PageTest::Memcg`](super::PageTest::Memcg) and [`Gauge`] have it; `None` if there is none. Asked again for each pass.
    fn memcg(&self, _path: &str) -> Option<u64> {
        None
    }
}

/// Gauges that a host can read for the schemes of a target. A scheme that needs more gauges is refused when it is given.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GaugeCapabilities {
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
    /// Free memory, of a node or of all.
    FreeBytes(Option<NodeId>),
    /// Pages on active lists, anonymous and of files, of the whole system.
    ActiveBytes,
    /// Pages on inactive lists, of both types and the whole system. With generations: all generations except the two youngest.
    InactiveBytes,
    /// Pages on lists on a node that are charged to a memory cgroup or one below it.
    MemcgBytes {
        node: NodeId,
        /// Number of the memory cgroup, from [`Gauging::memcg`].
        memcg: u64,
    },
    /// Evicted pages of a memory cgroup, or of one below it, that came back so far: `workingset_refault_anon` and
    /// `workingset_refault_file` of its `memory.stat`.
    RefaultBytes {
        /// Number of the memory cgroup, from [`Gauging::memcg`].
        memcg: u64,
    },
    /// Memory charged to a memory cgroup and those below it: `memory.current`.
    GroupBytes {
        /// Number of the memory cgroup, from [`Gauging::memcg`].
        memcg: u64,
    },
    /// Microseconds since some fixed time in which at least one task of a memory cgroup, or of one below it, was stalled by
    /// memory: the total of `some` in its `memory.pressure`.
    GroupStallSomeUs {
        /// Number of the memory cgroup, from [`Gauging::memcg`].
        memcg: u64,
    },
    /// How often tasks of a memory cgroup, or of one below it, had to reclaim because usage was above `memory.high`: `high` of
    /// its `memory.events`.
    GroupHighEvents {
        /// Number of the memory cgroup, from [`Gauging::memcg`].
        memcg: u64,
    },
}
