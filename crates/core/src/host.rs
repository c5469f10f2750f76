//! What the core asks of the memory it manages: the narrow table between decisions and the world.
//!
//! Calls are batched: one call a tick and target, not one an address. Addresses are bytes (`u64`) in the space of the
//! target: virtual addresses of a process, or physical addresses. A host charges the CPU time of what it is asked to
//! whoever runs the core (in the simulated machine: the kernel thread that monitors).

pub use crate::schemes::{Action, Destination, FilterType, Metric, PageFilter, PageGate, PageTest};
use isotherm_units::Duration;
use serde::{Deserialize, Serialize};
use thiserror::Error;

/// A monitored address space, by the number that the driver gave it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TargetId(pub u32);

/// Addresses `[start, end)` in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AddressRange {
    /// First byte.
    pub start: u64,
    /// First byte behind.
    pub end: u64,
}

impl AddressRange {
    /// The range `[start, end)`.
    pub const fn new(start: u64, end: u64) -> Self {
        Self { start, end }
    }
    /// Bytes in it; 0 where `end` is not above `start`.
    pub const fn len(self) -> u64 {
        self.end.saturating_sub(self.start)
    }
    /// Whether it holds no byte.
    pub const fn is_empty(self) -> bool {
        self.end <= self.start
    }
    /// Whether the two share a byte.
    pub const fn overlaps(self, other: Self) -> bool {
        self.start < other.end && other.start < self.end
    }
}

/// A level of the page table: 0 is the entry of a base page, each level above spans more.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Level(pub u8);

impl Level {
    /// The entries of base pages.
    pub const LEAF: Self = Self(0);
}

/// One place to look at: the entry at `level` on the way to `address`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Probe {
    /// Byte address.
    pub address: u64,
    /// Wanted level. A huge leaf above it is a valid answer at its own level.
    pub level: Level,
}

/// What the accessed bit of an entry said.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Seen {
    /// It was set: something below the entry was walked since it was last cleared.
    Accessed,
    /// It was clear.
    #[default]
    Idle,
    /// No entry: nothing is mapped there.
    NotMapped,
    /// The entry changed its kind between clear and test, or could not be looked at: drop the sample.
    Unknown,
}

/// The answer to one [`Probe`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sight {
    /// What was seen.
    pub seen: Seen,
    /// The level of the entry that was really looked at.
    pub level: Level,
}

/// What a host can do. The core plans with it and never asks for more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Capabilities {
    /// log2 of the bytes that an entry spans, from the base page up, ascending: `[12, 21, 30, 39]` for four levels on
    /// x86-64. Levels outside it do not exist.
    pub shifts: Vec<u8>,
    /// The highest level whose accessed bit means something: 0 where hardware sets no bits above the leaf, one below the
    /// top where user and kernel halves have separate top tables.
    pub highest_level: Level,
    /// [`Host::flush`] does something.
    pub flush: bool,
    /// [`Host::scan_children`] is there.
    pub scan_children: bool,
}

impl Capabilities {
    /// Bytes spanned by an entry at `level`; `None` above the top.
    pub fn span(&self, level: Level) -> Option<u128> {
        self.shifts.get(usize::from(level.0)).map(|shift| 1 << shift)
    }
}

/// A memory node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(pub u32);

/// What a host can do for schemes on a target. A scheme that asks for more is refused when it is given.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SchemeCapabilities {
    /// Actions of [`Host::apply`]. `stat` without page filters needs no host and need not be named.
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
        /// A number that [`Host::memcg`] gave.
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
    /// Bytes treated with success, as [`Host::apply`] says for each action. May exceed the range where folios stick out.
    pub bytes: u64,
    /// CPU time that it took whoever runs the core. Counts against quotas in time.
    pub spent: Duration,
}

/// A request that a host did not meet.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum HostError {
    /// The target has ended.
    #[error("target {} has ended", .0.0)]
    Gone(TargetId),
    /// This host has no such call, and what it would need.
    #[error("not available here: {0}")]
    NotHere(&'static str),
    /// It was tried and failed.
    #[error("{0}")]
    Failed(String),
}

/// A kind of page that an attribute probe may ask for (`monitoring.md` section 12).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Attribute {
    /// Anonymous memory.
    Anon,
    /// Charged to this memory cgroup.
    Memcg(u64),
}

/// The world.
pub trait Host {
    /// What this host can do for `target`.
    fn capabilities(&self, target: TargetId) -> Capabilities;

    /// Appends the mapped ranges of a virtual target, ascending and disjoint; adjacent ones may stay apart.
    ///
    /// # Errors
    /// [`HostError::Gone`] once the process has ended; [`HostError::NotHere`] for physical memory.
    fn mappings(&mut self, target: TargetId, out: &mut Vec<AddressRange>) -> Result<(), HostError>;

    /// Clears the accessed bit of each probed entry. `sights[i]` says what it was before, as far as the host read it.
    /// `sights` has the length of `probes`.
    ///
    /// # Errors
    /// [`HostError::Gone`]; then nothing was cleared.
    fn clear(&mut self, target: TargetId, probes: &[Probe], sights: &mut [Sight]) -> Result<(), HostError>;

    /// Reads the accessed bit of each probed entry and leaves it as it is, so that two probes of one entry see the same.
    /// `sights` has the length of `probes`.
    ///
    /// # Errors
    /// [`HostError::Gone`]; then no sight is valid.
    fn test(&mut self, target: TargetId, probes: &[Probe], sights: &mut [Sight]) -> Result<(), HostError>;

    /// Reads and clears the accessed bits of all entries one level below the entry at `parent`, in one pass over its
    /// table: appends one bit a child, in address order, 64 a word. A child that is not mapped reads as clear.
    ///
    /// # Errors
    /// [`HostError::Gone`], [`HostError::NotHere`].
    fn scan_children(&mut self, target: TargetId, parent: Probe, out: &mut Vec<u64>) -> Result<(), HostError>;

    /// Drops the cached translations of `target`, so that the next access to any page walks the table from the top.
    ///
    /// # Errors
    /// [`HostError::Gone`], [`HostError::NotHere`].
    fn flush(&mut self, target: TargetId) -> Result<(), HostError>;

    /// For each address whether the page there has `attribute`; `None` where there is no page. Physical memory only.
    /// `out` has the length of `addresses`.
    ///
    /// # Errors
    /// [`HostError::NotHere`] for virtual targets.
    fn has_attribute(
        &mut self,
        target: TargetId,
        attribute: Attribute,
        addresses: &[u64],
        out: &mut [Option<bool>],
    ) -> Result<(), HostError>;

    /// What this host can do for schemes on `target`.
    fn scheme_capabilities(&self, _target: TargetId) -> SchemeCapabilities {
        SchemeCapabilities::default()
    }

    /// Does one action with one range of a target, with as many pages of it as pass the gate.
    ///
    /// | action | target | what is done | bytes |
    /// |---|---|---|---|
    /// | `stat` | both | nothing; the gate is asked for each folio | 0 |
    /// | `willneed`, `cold`, `pageout`, `hugepage`, `nohugepage`, `collapse` | process | `madvise` of that name; the gate is not asked | the whole range if it succeeded, else 0 |
    /// | `pageout` | physical | referenced and young marks cleared, taken off the list (an unevictable folio is put back), reclaimed with writeback, unmapping and swap, never demoted | reclaimed |
    /// | `lru-prio` | physical | two lists: an inactive folio goes to the head of its active list, `referenced` stays as it is; an active one stays where it is. Generations: inserted anew at the second youngest, with the workingset mark at the youngest | all that passed and stand on a list, also where nothing moved |
    /// | `lru-deprio` | physical | two lists: an active folio goes to the head of the inactive list, active and referenced cleared; an inactive one stays where it is. Generations: references and workingset mark cleared, and unless it is in the oldest already inserted anew: file folios and anonymous ones in the swap cache in the oldest, other anonymous ones at the second youngest | all that passed and stand on a list, also where nothing moved |
    /// | `migrate-hot`, `migrate-cold` | both | moved to its node, failing rather than reclaiming there; a folio that is there already is left | moved |
    ///
    /// Physical memory is walked folio by folio: a frame without a folio on a list is passed over; after a folio the walk goes
    /// on behind as many bytes as the folio has, counted from where it was met. Only folios on a list count.
    ///
    /// # Errors
    /// [`HostError::Gone`]: nothing was done. [`HostError::NotHere`], [`HostError::Failed`]: taken as a try that changed
    /// nothing, with what the gate has counted.
    fn apply(&mut self, _target: TargetId, _order: &mut Order<'_>) -> Result<Applied, HostError> {
        Err(HostError::NotHere("this host applies no schemes"))
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

    /// The number of the memory cgroup at this path, as [`Attribute::Memcg`], [`PageTest::Memcg`] and [`Gauge`] have it;
    /// `None` if there is none. Asked anew for each pass.
    fn memcg(&self, _path: &str) -> Option<u64> {
        None
    }
}
