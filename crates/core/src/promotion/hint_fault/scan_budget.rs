//! How far one scan goes, and where the next goes on: two budgets, one of entries that were changed and one of address space.
//!
//! Source: docs/spec/promotion.md#s4-2, Linux 7.2 `kernel/sched/fair.c`, `task_numa_work`.

use crate::host::AddressRange;

/// Bytes of entries that one scan may make inaccessible.
const ENTRIES: u64 = 256 << 20;
/// Address space passed at most, as a multiple of the budget.
const SPACE_FACTOR: u64 = 8;
/// A chunk ends at a multiple of this number of bytes.
const CHUNK: u64 = 2 << 20;

/// The remaining budget of one scan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScanBudget {
    entries: u64,
    space: u64,
}

impl Default for ScanBudget {
    fn default() -> Self {
        Self { entries: ENTRIES, space: ENTRIES * SPACE_FACTOR }
    }
}

impl ScanBudget {
    /// The next piece of an area from `start` on: as much as is left of the entries, rounded up to 2 MiB and cut at the area's end.
    /// `None`: the scan is over, or the area.
    pub fn chunk(&self, start: u64, area: AddressRange) -> Option<AddressRange> {
        let start = start.max(area.start);
        if self.is_spent() || start >= area.end {
            return None;
        }
        let end = start.saturating_add(self.entries).checked_next_multiple_of(CHUNK).unwrap_or(u64::MAX);
        Some(AddressRange::new(start, end.min(area.end)))
    }

    /// Charges a chunk. The chunk's bytes count as entries only if one of its entries was changed.
    pub fn charge(&mut self, chunk: AddressRange, has_changed: bool) {
        self.space = self.space.saturating_sub(chunk.len());
        self.entries = self.entries.saturating_sub(if has_changed { chunk.len() } else { 0 });
    }

    /// Whether the scan ends here.
    pub fn is_spent(&self) -> bool {
        self.entries == 0 || self.space == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    /// All chunks of a scan of one area.
    fn chunks(area: AddressRange, has_changed: bool) -> Vec<(u64, u64)> {
        let mut budget = ScanBudget::default();
        let mut at = 0;
        let next = || {
            let chunk = budget.chunk(at, area)?;
            budget.charge(chunk, has_changed);
            at = chunk.end;
            Some((chunk.start / MIB, chunk.end / MIB))
        };
        std::iter::from_fn(next).collect()
    }

    #[test]
    fn a_scan_changes_256_mib_or_passes_2_gib() {
        let area = AddressRange::new(0, 64 << 30);
        assert_eq!(chunks(area, true), [(0, 256)]);
        let passed = chunks(area, false);
        assert_eq!((passed.len(), passed[7]), (8, (7 * 256, 8 * 256)));
        assert_eq!(chunks(AddressRange::new(0, 100 * MIB), true), [(0, 100)], "the area ends first");
    }

    #[test]
    fn chunks_end_at_borders_of_2_mib() {
        let budget = ScanBudget::default();
        let chunk = budget.chunk(4096, AddressRange::new(4096, 1 << 40)).expect("a fresh budget");
        assert_eq!((chunk.start, chunk.end), (4096, 258 * MIB));
        let mut budget = budget;
        budget.charge(chunk, true);
        assert!(budget.is_spent() && budget.chunk(chunk.end, AddressRange::new(0, 1 << 40)).is_none());
        let top = AddressRange::new(u64::MAX - 4096, u64::MAX);
        assert_eq!(ScanBudget::default().chunk(0, top), Some(top));
    }
}
