//! Where: targets, ranges, levels, probes, nodes.

use isotherm_units::Bytes;
use serde::{Deserialize, Serialize};

/// A monitored address space, by the number that the driver gave it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TargetId(pub u32);

/// Addresses `[start, end)` in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AddressRange {
    /// Address of the first byte.
    pub start: u64,
    /// Address of the byte after the last; not part of the range.
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

/// Addresses `[start, end)` in the units of a monitor's context (`addr-unit`, docs/spec/monitoring.md#s2): what a region spans. A type of
/// its own, because taken for bytes it would name other memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct UnitRange {
    pub start: u64,
    /// The unit after the last; not part of the range.
    pub end: u64,
}

impl UnitRange {
    /// The range `[start, end)`.
    pub const fn new(start: u64, end: u64) -> Self {
        Self { start, end }
    }
    /// Units in it; 0 where `end` is not above `start`.
    pub const fn len(self) -> u64 {
        self.end.saturating_sub(self.start)
    }
    /// Whether it holds no unit.
    pub const fn is_empty(self) -> bool {
        self.end <= self.start
    }
    /// Whether the two share a unit.
    pub const fn overlaps(self, other: Self) -> bool {
        self.start < other.end && other.start < self.end
    }
    /// The bytes it covers.
    ///
    /// # Panics
    /// In debug builds where they lie beyond 2^64; a monitor refuses such ranges.
    pub const fn in_bytes(self, unit: Bytes) -> AddressRange {
        AddressRange::new(self.start * unit.get(), self.end * unit.get())
    }
}

impl AddressRange {
    /// The same in units of a context, both ends rounded down.
    ///
    /// # Panics
    /// With a unit of 0 bytes, which configurations refuse.
    pub const fn in_units(self, unit: Bytes) -> UnitRange {
        UnitRange::new(self.start / unit.get(), self.end / unit.get())
    }
}

/// A level of the page table: 0 is the entry of a base page, each level above spans more.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Level(pub u8);

impl Level {
    /// Level 0: the entries that map base pages.
    pub const LEAF: Self = Self(0);
}

/// One place to look at: the entry at `level` on the way to `address`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Probe {
    /// Virtual or physical byte address, depending on the target.
    pub address: u64,
    /// Wanted level. A huge leaf above it is a valid answer at its own level.
    pub level: Level,
}

/// What the accessed bit of an entry said.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Seen {
    /// It was set: something below the entry was walked since it was last cleared.
    Accessed,
    /// The accessed bit was clear.
    #[default]
    Idle,
    /// There is no entry: nothing is mapped at the address.
    NotMapped,
    /// The entry changed its kind between clear and test, or could not be looked at: drop the sample.
    Unknown,
}

/// The answer to one [`Probe`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProbeResult {
    pub seen: Seen,
    /// The level of the entry that was really looked at.
    pub level: Level,
}

/// A NUMA node, by its number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct NodeId(pub u32);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_and_bytes_of_a_context() {
        let unit = Bytes::new(4096);
        let table = [((0, 16), (0, 65536)), ((3, 3), (12288, 12288)), ((1 << 40, 1 << 41), (1 << 52, 1 << 53))];
        for ((start, end), (first, behind)) in table {
            let (units, bytes) = (UnitRange::new(start, end), AddressRange::new(first, behind));
            assert_eq!((units.in_bytes(unit), bytes.in_units(unit)), (bytes, units));
        }
        let inside = AddressRange::new(4097, 12287).in_units(unit);
        assert_eq!(inside, UnitRange::new(1, 2), "down at both ends");
    }
}
