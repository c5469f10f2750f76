//! What `lru_gen` shows: the generations of a group on a node.

use super::NodeId;
use serde::{Deserialize, Serialize};

/// The generations of one memory cgroup on one node, as commands name them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Lruvec {
    /// Number of the group: the one that `lru_gen` prints.
    pub memcg: u64,
    pub node: NodeId,
}

/// One generation. Sizes are pages of 4 KiB.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GenerationRow {
    /// Sequence number of the generation; younger generations have larger numbers.
    pub seq: u64,
    /// Milliseconds since the generation was made.
    pub age_ms: u64,
    /// Anonymous pages in it; `file_pages` are those of files.
    pub anon_pages: u64,
    pub file_pages: u64,
}

impl GenerationRow {
    /// Anonymous pages and pages of files together.
    pub const fn pages(&self) -> u64 {
        self.anon_pages.saturating_add(self.file_pages)
    }
}

/// What is read of one group on one node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Listing {
    pub lruvec: Lruvec,
    /// Path of the group; `/` is the root.
    pub path: String,
    /// Generations, oldest first, numbers ascending by one.
    pub rows: Vec<GenerationRow>,
}

pub fn pages_of(rows: &[GenerationRow]) -> u64 {
    rows.iter().map(GenerationRow::pages).fold(0, u64::saturating_add)
}

/// Pages of generations that are at least `threshold_ms` old (docs/spec/mglru.md#s14-3, example E22): what the kernel's guide calls cold
/// memory. The youngest of these pages may have been used up to one generation later than the threshold says;
/// [`estimate`](fn@crate::generations::estimate) tells how far that goes.
pub fn cold_pages(rows: &[GenerationRow], threshold_ms: u64) -> u64 {
    rows.iter().filter(|row| row.age_ms >= threshold_ms).map(GenerationRow::pages).fold(0, u64::saturating_add)
}

/// The rest: pages of younger generations (example E22).
pub fn working_set_pages(rows: &[GenerationRow], threshold_ms: u64) -> u64 {
    pages_of(rows).saturating_sub(cold_pages(rows, threshold_ms))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// E22: cold at 8 s and more, and the working set within 8 s.
    #[test]
    fn e22_working_set_sizes() {
        let row = |seq, age_ms, anon_pages, file_pages| GenerationRow { seq, age_ms, anon_pages, file_pages };
        let rows = [row(4, 12_031, 1024, 9), row(5, 8020, 800, 12), row(6, 3011, 16_000, 96), row(7, 1002, 53_000, 0)];
        assert_eq!((cold_pages(&rows, 8000), working_set_pages(&rows, 8000)), (1845, 69_096));
        assert_eq!((cold_pages(&rows, 0), working_set_pages(&rows, 0)), (70_941, 0));
        assert_eq!((cold_pages(&rows, 8021), cold_pages(&rows, 20_000)), (1033, 0));
        assert_eq!((cold_pages(&[], 5), pages_of(&[])), (0, 0));
    }

    #[test]
    fn sums_saturate() {
        let row = GenerationRow { anon_pages: u64::MAX, file_pages: 7, ..GenerationRow::default() };
        assert_eq!((row.pages(), pages_of(&[row, row])), (u64::MAX, u64::MAX));
    }
}
