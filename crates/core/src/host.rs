//! What the core asks of the memory it manages: the narrow table between decisions and the world.
//!
//! Calls are batched: one call a tick and target, not one an address. Addresses are bytes (`u64`) in the space of the
//! target: virtual addresses of a process, or physical addresses. A host charges the CPU time of what it is asked to
//! whoever runs the core (in the simulated machine: the kernel thread that monitors).

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
}
