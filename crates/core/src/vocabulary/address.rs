//! Where: targets, levels, probes.

/// A monitored address space, by the number that the driver gave it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TargetId(pub u32);

/// A level of the page table: 0 is the entry of a base page, each level above spans more.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Level(pub u8);

impl Level {
    /// Level 0: the entries that map base pages.
    pub const LEAF: Self = Self(0);
}

/// One place to probe: the entry at `level` on the way to `address`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Probe {
    /// Virtual or physical byte address, depending on the target.
    pub address: u64,
    /// Wanted level. A huge leaf above it is a valid answer at its own level.
    pub level: Level,
}

/// The result of reading an accessed bit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Seen {
    /// The bit was set: memory below the entry was used since it was last cleared.
    Accessed,
    /// The accessed bit was clear.
    #[default]
    Idle,
    /// There is no entry: nothing is mapped at the address.
    NotMapped,
    /// The entry changed its kind between clear and test, or could not be read: drop the sample.
    Unknown,
}

/// The answer to one [`Probe`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProbeResult {
    pub seen: Seen,
    /// The level of the entry that was really read.
    pub level: Level,
}
