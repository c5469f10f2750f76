//! Ranges of addresses.

use crate::Bytes;

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
    /// Whether the range has no byte.
    pub const fn is_empty(self) -> bool {
        self.end <= self.start
    }
    /// Whether the two share a byte.
    pub const fn overlaps(self, other: Self) -> bool {
        self.start < other.end && other.start < self.end
    }
}

/// Addresses `[start, end)` in the units of a monitor's context (`addr-unit`, docs/spec/monitoring.md#s2): the span of a region. A type of
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
    /// Whether the range has no unit.
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
    /// In debug builds, if they lie beyond 2^64; a monitor refuses such ranges.
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
